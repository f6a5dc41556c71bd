//! The newest result of each series, retained at a broker on site:
//! `tidegate/{gateway}/windows/{window}/{entity}/{property}`, QoS 1; and readings in
//! order, each of them, not retained: `tidegate/{gateway}/ordered/{source}`.
//!
//! A consumer that subscribes gets the newest state at once and every change from
//! then on. Between broker and agent only the newest result of a topic waits; one
//! that revises an older window goes out too, but not retained: it must not stand
//! where a newer one stood.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rumqttc::{AsyncClient, Event, EventLoop, Outgoing, Packet, QoS, Request};
use tokio::sync::Notify;

use super::queue::Queue;
use super::{Content, Counts, Item, Pauses};
use crate::core::window::Latest;
use crate::mqtt::{self, Broker, Failure, Identity, Secrets};
use crate::wire::topic;

/// Series whose newest result is known.
const SERIES_MAX: usize = 16 * 1024;
/// Results that wait for the broker; beyond, the oldest go.
const WAITING_MAX: usize = super::QUEUE_MAX;
/// Publishes handed to rumqttc and not yet written.
const REQUESTS_MAX: usize = 64;
/// Results taken from the queue at once.
const BATCH_MAX: usize = 256;
/// Longest packet in or out, in bytes; a result is far below.
const PACKET_BYTES_MAX: usize = 1024 * 1024;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Results on their way, the newest of each topic retained.
struct Waiting {
    gateway: Arc<str>,
    latest: Latest<()>,
    /// Topics in the order in which they began to wait.
    order: VecDeque<String>,
    retained: BTreeMap<String, Vec<u8>>,
    /// Revisions of older windows: not retained.
    revisions: VecDeque<Message>,
    /// Ordered readings: not retained, and none takes another's place.
    readings: VecDeque<Message>,
    /// How the topics of readings begin.
    of_readings: String,
}

/// One publish.
struct Message {
    topic: String,
    payload: Vec<u8>,
    is_retained: bool,
}

impl Waiting {
    fn new(gateway: Arc<str>) -> Self {
        Self {
            of_readings: topic::ordered(&gateway, ""),
            gateway,
            latest: Latest::new(SERIES_MAX),
            order: VecDeque::new(),
            retained: BTreeMap::new(),
            revisions: VecDeque::new(),
            readings: VecDeque::new(),
        }
    }

    /// Whether more may be taken in: readings wait in the queue, which is bounded.
    fn has_room(&self) -> bool {
        self.readings.len() < BATCH_MAX
    }

    /// Takes one in; how many were dropped for it. One that is overtaken by a
    /// newer of its topic is not dropped: it has done its duty unsaid.
    fn add(&mut self, item: &Item) -> u64 {
        let result = match &item.content {
            Content::Result(result) => result,
            Content::Ordered(reading) => {
                let topic = topic::ordered(&self.gateway, reading.record.source.as_str());
                let payload = item.object().to_vec();
                self.readings.push_back(Message { topic, payload, is_retained: false });
                return 0;
            }
        };
        let series = &result.series;
        let topic = topic::latest(&self.gateway, &result.window, &series.entity, &series.property);
        let payload = item.object().to_vec();
        if !self.latest.note(result, ()) {
            self.revisions.push_back(Message { topic, payload, is_retained: false });
        } else if self.retained.insert(topic.clone(), payload).is_none() {
            self.order.push_back(topic);
        }
        if self.retained.len() + self.revisions.len() <= WAITING_MAX {
            return 0;
        }
        if self.revisions.pop_front().is_none()
            && let Some(topic) = self.order.pop_front()
        {
            self.retained.remove(&topic);
        }
        1
    }

    fn next(&mut self) -> Option<Message> {
        if let Some(message) = self.revisions.pop_front() {
            return Some(message);
        }
        let Some(topic) = self.order.pop_front() else { return self.readings.pop_front() };
        let payload = self.retained.remove(&topic)?;
        Some(Message { topic, payload, is_retained: true })
    }

    /// It was not sent after all. A newer one of its topic that waits makes it
    /// needless.
    fn put_back(&mut self, message: Message) {
        if message.topic.starts_with(&self.of_readings) {
            self.readings.push_front(message);
        } else if !message.is_retained {
            self.revisions.push_front(message);
        } else if !self.retained.contains_key(&message.topic) {
            self.order.push_front(message.topic.clone());
            self.retained.insert(message.topic, message.payload);
        }
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty() && self.revisions.is_empty() && self.readings.is_empty()
    }
}

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
    // Each is polled to its end: a step of the event loop must not be dropped
    // half done.
    tokio::join!(
        publish(Waiting::new(gateway), &client, &queue, &between),
        turn(events, &broker, &what, &counts, &between),
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
async fn turn(
    mut events: EventLoop,
    broker: &Broker,
    what: &str,
    counts: &Counts,
    between: &Between,
) {
    let mut pauses = Pauses::default();
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
                    counts.failed(what, &failure.reason);
                    tokio::time::sleep(pauses.next()).await;
                }
            }
        }
        match events.poll().await {
            Ok(Event::Outgoing(Outgoing::Disconnect)) => return,
            Ok(Event::Incoming(Packet::ConnAck(_))) => {
                pauses.reset();
                counts.recovered(what);
            }
            Ok(Event::Incoming(Packet::PubAck(_))) => counts.wrote(1),
            Ok(_) => {}
            Err(error) => {
                events.clean();
                let unsent = events.pending.drain(..).filter_map(|request| match request {
                    Request::Publish(publish) => Some(Message {
                        topic: publish.topic,
                        payload: publish.payload.to_vec(),
                        is_retained: publish.retain,
                    }),
                    _ => None,
                });
                between.returned().extend(unsent);
                is_prepared = false;
                counts.failed(what, &identity.explain(Failure::from(error)).reason);
                tokio::time::sleep(pauses.next()).await;
            }
        }
        between.moved.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::super::output_tests::{item_of, result};
    use super::*;

    fn said(waiting: &mut Waiting) -> Vec<(String, u64, bool)> {
        let mut said = Vec::new();
        while let Some(Message { topic, payload, is_retained }) = waiting.next() {
            let value: serde_json::Value = serde_json::from_slice(&payload).unwrap();
            said.push((topic, value["seq"].as_u64().unwrap(), is_retained));
        }
        said
    }

    fn add(waiting: &mut Waiting, entity: &str, seq: u64, end_s: i64) -> u64 {
        waiting.add(&item_of(result(entity, seq, end_s)))
    }

    #[test]
    fn only_the_newest_of_a_topic_waits_and_older_windows_are_not_retained() {
        let mut waiting = Waiting::new("gw".into());
        for (entity, seq, end_s) in [("a/1", 1, 10), ("b", 2, 10), ("a/1", 3, 20), ("b", 4, 5)] {
            assert_eq!(add(&mut waiting, entity, seq, end_s), 0);
        }
        let a = || "tidegate/gw/windows/w/a%2F1/p".to_owned();
        let b = || "tidegate/gw/windows/w/b/p".to_owned();
        assert_eq!(said(&mut waiting), [(b(), 4, false), (a(), 3, true), (b(), 2, true)]);
    }

    #[test]
    fn what_comes_back_gives_way_to_what_is_newer() {
        let mut waiting = Waiting::new("gw".into());
        add(&mut waiting, "a", 1, 10);
        let old = waiting.next().unwrap();
        add(&mut waiting, "b", 2, 10);
        add(&mut waiting, "a", 3, 20);
        waiting.put_back(old);
        let b = waiting.next().unwrap();
        waiting.put_back(b);
        let seqs: Vec<u64> = said(&mut waiting).into_iter().map(|(_, seq, _)| seq).collect();
        assert_eq!(seqs, [2, 3]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut waiting = Waiting::new("gw".into());
        for n in 0..WAITING_MAX {
            assert_eq!(add(&mut waiting, &format!("e{n}"), 1, 10), 0);
        }
        assert_eq!(add(&mut waiting, "one more", 1, 10), 1);
        let said = said(&mut waiting);
        assert_eq!((said.len(), said[0].0.as_str()), (WAITING_MAX, "tidegate/gw/windows/w/e1/p"));
    }
}
