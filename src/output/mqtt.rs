//! The newest result of each series, retained at a broker on site:
//! `tidegate/{gateway}/windows/{window}/{entity}/{property}`, QoS 1.
//!
//! A consumer that subscribes gets the newest state at once and every change from
//! then on. Between broker and agent only the newest result of a topic waits; one
//! that revises an older window goes out too, but not retained: it must not stand
//! where a newer one stood.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rumqttc::{AsyncClient, Event, EventLoop, MqttOptions, NetworkOptions, Outgoing, Packet, QoS};
use tokio::sync::Notify;

use super::queue::Queue;
use super::{Counts, Item, MqttSettings, Pauses};
use crate::core::window::Latest;
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
const CONNECT_TIMEOUT_S: u64 = 5;

/// Results on their way, the newest of each topic retained.
struct Waiting {
    gateway: Arc<str>,
    latest: Latest<()>,
    /// Topics in the order in which they began to wait.
    order: VecDeque<String>,
    retained: BTreeMap<String, Item>,
    /// Revisions of older windows: not retained.
    revisions: VecDeque<(String, Item)>,
}

/// One publish.
struct Message {
    topic: String,
    item: Item,
    is_retained: bool,
}

impl Waiting {
    fn new(gateway: Arc<str>) -> Self {
        Self {
            gateway,
            latest: Latest::new(SERIES_MAX),
            order: VecDeque::new(),
            retained: BTreeMap::new(),
            revisions: VecDeque::new(),
        }
    }

    /// Takes one in; how many were dropped for it. One that is overtaken by a
    /// newer of its topic is not dropped: it has done its duty unsaid.
    fn add(&mut self, item: Item) -> u64 {
        let result = &item.result;
        let series = &result.series;
        let topic = topic::latest(&self.gateway, &result.window, &series.entity, &series.property);
        if !self.latest.note(result, ()) {
            self.revisions.push_back((topic, item));
        } else if self.retained.insert(topic.clone(), item).is_none() {
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
        if let Some((topic, item)) = self.revisions.pop_front() {
            return Some(Message { topic, item, is_retained: false });
        }
        let topic = self.order.pop_front()?;
        let item = self.retained.remove(&topic)?;
        Some(Message { topic, item, is_retained: true })
    }

    fn put_back(&mut self, message: Message) {
        let Message { topic, item, is_retained } = message;
        if is_retained {
            self.order.push_front(topic.clone());
            self.retained.insert(topic, item);
        } else {
            self.revisions.push_front((topic, item));
        }
    }
}

pub(super) async fn run(
    gateway: Arc<str>,
    broker: MqttSettings,
    queue: Arc<Queue>,
    counts: Arc<Counts>,
) {
    let what = format!("mqtt {}:{}", broker.host, broker.port);
    let mut options = MqttOptions::new(&broker.client_id, &broker.host, broker.port);
    options.set_keep_alive(KEEP_ALIVE).set_max_packet_size(PACKET_BYTES_MAX, PACKET_BYTES_MAX);
    if let Some((username, password)) = &broker.login {
        options.set_credentials(username, password);
    }
    let (client, mut events) = AsyncClient::new(options, REQUESTS_MAX);
    let mut network = NetworkOptions::new();
    network.set_connection_timeout(CONNECT_TIMEOUT_S);
    events.set_network_options(network);
    let moved = Notify::new();
    // Each is polled to its end: a step of the event loop must not be dropped
    // half done.
    tokio::join!(
        publish(Waiting::new(gateway), &client, &queue, &counts, &moved),
        turn(events, &what, &counts, &moved),
    );
}

/// Hands results to rumqttc as far as it has room; says goodbye at the end.
async fn publish(
    mut waiting: Waiting,
    client: &AsyncClient,
    queue: &Queue,
    counts: &Counts,
    moved: &Notify,
) {
    let mut is_open = true;
    loop {
        tokio::select! {
            items = queue.take(BATCH_MAX), if is_open => match items {
                Some(items) => {
                    let dropped = items.into_iter().map(|item| waiting.add(item)).sum();
                    queue.count_dropped(dropped);
                }
                None => is_open = false,
            },
            () = moved.notified() => {}
        }
        while let Some(message) = waiting.next() {
            let Message { topic, item, is_retained } = &message;
            let payload = item.object().to_vec();
            match client.try_publish(topic, QoS::AtLeastOnce, *is_retained, payload) {
                Ok(()) => counts.wrote(1),
                Err(_) => {
                    waiting.put_back(message);
                    break;
                }
            }
        }
        if !is_open && waiting.order.is_empty() && waiting.revisions.is_empty() {
            // Behind the last publish; with no connection the caller's deadline ends it.
            if client.try_disconnect().is_ok() {
                return;
            }
        }
    }
}

/// Turns rumqttc's event loop until it has said goodbye. It sends again what the
/// broker did not acknowledge.
async fn turn(mut events: EventLoop, what: &str, counts: &Counts, moved: &Notify) {
    let mut pauses = Pauses::default();
    loop {
        match events.poll().await {
            Ok(Event::Outgoing(Outgoing::Disconnect)) => return,
            Ok(Event::Incoming(Packet::ConnAck(_))) => {
                pauses.reset();
                counts.recovered(what);
            }
            Ok(_) => {}
            Err(error) => {
                counts.failed(what, &error);
                tokio::time::sleep(pauses.next()).await;
            }
        }
        moved.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::super::output_tests::result;
    use super::*;

    fn said(waiting: &mut Waiting) -> Vec<(String, u64, bool)> {
        let mut said = Vec::new();
        while let Some(Message { topic, item, is_retained }) = waiting.next() {
            said.push((topic, item.result.seq.0, is_retained));
        }
        said
    }

    fn add(waiting: &mut Waiting, entity: &str, seq: u64, end_s: i64) -> u64 {
        waiting.add(Item::new("gw", Arc::new(result(entity, seq, end_s))))
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
