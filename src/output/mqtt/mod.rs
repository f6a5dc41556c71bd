//! The newest result of each series, retained at a broker on site:
//! `tidegate/{gateway}/windows/{window}/{entity}/{property}`, QoS 1; and readings in
//! order, each of them, not retained: `tidegate/{gateway}/ordered/{source}`.
//!
//! A consumer that subscribes gets the newest state at once and every change from
//! then on. Between broker and agent only the newest result of a topic waits; one
//! that revises an older window goes out too, but not retained: it must not stand
//! where a newer one stood.
//!
//! A broker on site is not always a good one: it may take connections and end them,
//! or end them over one message that is too long for it or on a topic that it does not
//! allow. Neither may stop the rest or fill the log.

mod course;
mod waiting;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rumqttc::{AsyncClient, Event, EventLoop, Outgoing, Packet, QoS, Request};
use tokio::sync::Notify;
use tokio::time::Instant;

use self::course::{Course, ENDS_MAX};
use self::waiting::{Message, Waiting};
use super::Counts;
use super::queue::Queue;
use crate::core::limits::LINE_BYTES_MAX;
use crate::mqtt::{self, Broker, Failure, Identity, Secrets};

/// Publishes handed to rumqttc and not yet written.
const REQUESTS_MAX: usize = 64;
/// Results taken from the queue at once.
const BATCH_MAX: usize = 256;
/// Longest packet in or out, in bytes: room for a reading of the longest line, with
/// what the gateway says of it. A result is far below.
const PACKET_BYTES_MAX: usize = LINE_BYTES_MAX + 64 * 1024;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What the two halves tell each other.
#[derive(Default)]
struct Between {
    /// Not acknowledged when the connection broke, oldest first.
    returned: Mutex<Vec<Message>>,
    /// There may be room for more publishes, or some were returned.
    moved: Notify,
}

impl Between {
    fn returned(&self) -> MutexGuard<'_, Vec<Message>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) async fn run(gateway: Arc<str>, broker: Broker, queue: Arc<Queue>, counts: Arc<Counts>) {
    let what = format!("mqtt {}:{}", broker.host, broker.port);
    let mut options = broker.options_v311(Secrets::default());
    options.set_keep_alive(KEEP_ALIVE).set_max_packet_size(PACKET_BYTES_MAX, PACKET_BYTES_MAX);
    let (client, mut events) = AsyncClient::new(options, REQUESTS_MAX);
    events.set_network_options(mqtt::network());
    let between = Between::default();
    let told = Told { what: &what, counts: &counts, queue: &queue };
    // Each is polled to its end: a step of the event loop must not be dropped
    // half done.
    tokio::join!(
        publish(Waiting::new(gateway), &client, &queue, &between),
        turn(events, &broker, &told, &between),
    );
}

/// Hands results to rumqttc as far as it has room; says goodbye at the end.
async fn publish(mut waiting: Waiting, client: &AsyncClient, queue: &Queue, between: &Between) {
    let mut is_open = true;
    loop {
        tokio::select! {
            items = queue.take(BATCH_MAX), if is_open && waiting.has_room() => match items {
                Some(items) => {
                    let dropped = items.iter().map(|item| waiting.add(item)).sum();
                    queue.count_dropped(dropped);
                }
                None => is_open = false,
            },
            () = between.moved.notified() => {}
        }
        let returned = std::mem::take(&mut *between.returned());
        returned.into_iter().rev().for_each(|message| waiting.put_back(message));
        while let Some(message) = waiting.next() {
            let Message { topic, payload, is_retained } = &message;
            let payload = payload.clone();
            if client.try_publish(topic, QoS::AtLeastOnce, *is_retained, payload).is_err() {
                waiting.put_back(message);
                break;
            }
        }
        // Behind the last publish; with no connection the caller's deadline ends it.
        if !is_open && waiting.is_empty() && client.try_disconnect().is_ok() {
            return;
        }
    }
}

/// Turns rumqttc's event loop until it has said goodbye. rumqttc forgets what a
/// broker did not acknowledge when that broker knows no session, so it is taken
/// back and sent again, unless something newer has come.
async fn turn(mut events: EventLoop, broker: &Broker, told: &Told<'_>, between: &Between) {
    let mut course = Course::default();
    let mut identity = Identity::default();
    let mut is_prepared = false;
    loop {
        while !is_prepared {
            match broker.read(&mut identity).await {
                Ok(secrets) => {
                    // Files may have changed since the last attempt.
                    secrets.give_v311(&mut events.mqtt_options);
                    is_prepared = true;
                }
                Err(failure) => {
                    told.counts.failed(told.what, &failure.reason);
                    tokio::time::sleep(course.pause()).await;
                }
            }
        }
        events.mqtt_options.set_inflight(course.inflight_max());
        match events.poll().await {
            Ok(Event::Outgoing(Outgoing::Disconnect)) => return,
            Ok(event) => told.event(&event, &mut course),
            Err(error) => {
                // What came together with the end.
                let last = std::mem::take(&mut events.state.events);
                last.iter().for_each(|event| told.event(event, &mut course));
                events.clean();
                let mut unsent: VecDeque<Message> =
                    events.pending.drain(..).filter_map(message).collect();
                if course.ended(unsent.front()) {
                    told.given_up(unsent.pop_front());
                }
                between.returned().extend(unsent);
                is_prepared = false;
                told.counts.failed(told.what, &identity.explain(Failure::from(error)).reason);
                tokio::time::sleep(course.pause()).await;
            }
        }
        between.moved.notify_one();
    }
}

/// What rumqttc was asked to publish.
fn message(request: Request) -> Option<Message> {
    let Request::Publish(publish) = request else { return None };
    let payload = publish.payload.to_vec();
    Some(Message { topic: publish.topic, payload, is_retained: publish.retain })
}

/// Where it is told how things go.
struct Told<'a> {
    what: &'a str,
    counts: &'a Counts,
    queue: &'a Queue,
}

impl Told<'_> {
    fn event(&self, event: &Event, course: &mut Course) {
        let now = Instant::now();
        let is_good = match event {
            Event::Incoming(Packet::ConnAck(_)) => course.connected(now),
            Event::Incoming(Packet::PubAck(_)) => {
                self.counts.wrote(1);
                course.acknowledged()
            }
            Event::Outgoing(Outgoing::Publish(_)) => course.published(now),
            _ => course.goes_on(now),
        };
        if is_good {
            self.counts.recovered(self.what);
        }
    }

    fn given_up(&self, message: Option<Message>) {
        let Some(Message { topic, payload, .. }) = message else { return };
        self.queue.count_dropped(1);
        tracing::warn!(
            topic,
            "output {}: the broker ended {ENDS_MAX} connections in a row over this message of {} \
             bytes, which is given up; does it allow the topic and packets of that size?",
            self.what,
            payload.len()
        );
    }
}
