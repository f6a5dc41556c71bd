//! What waits for the broker on site: bounded, and of each topic the newest alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::super::{Content, Item, QUEUE_MAX};
use super::{BATCH_MAX, PACKET_BYTES_MAX};
use crate::core::window::Latest;
use crate::wire::topic;

/// Series whose newest result is known.
const SERIES_MAX: usize = 16 * 1024;
/// Results that wait for the broker; beyond, the oldest go.
const WAITING_MAX: usize = QUEUE_MAX;
/// What a PUBLISH has beside its topic and its payload, in bytes: one for its kind, at
/// most four for its length, two each for the length of its topic and its identifier.
const HEADER_BYTES: usize = 9;

/// Results on their way, the newest of each topic retained.
pub(super) struct Waiting {
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
    /// Whether it was said that something is too long.
    has_told: bool,
}

/// One publish.
pub(super) struct Message {
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
    pub(super) is_retained: bool,
}

impl Waiting {
    pub(super) fn new(gateway: Arc<str>) -> Self {
        Self {
            of_readings: topic::ordered(&gateway, ""),
            gateway,
            latest: Latest::new(SERIES_MAX),
            order: VecDeque::new(),
            retained: BTreeMap::new(),
            revisions: VecDeque::new(),
            readings: VecDeque::new(),
            has_told: false,
        }
    }

    /// Whether more may be taken in: readings wait in the queue, which is bounded.
    pub(super) fn has_room(&self) -> bool {
        self.readings.len() < BATCH_MAX
    }

    /// Takes one in; how many were dropped for it. One that is overtaken by a
    /// newer of its topic is not dropped: it has done its duty unsaid.
    pub(super) fn add(&mut self, item: &Item) -> u64 {
        let topic = self.topic_of(item);
        if HEADER_BYTES + topic.len() + item.object().len() > PACKET_BYTES_MAX {
            self.tell_too_long(&topic, item.object().len());
            return 1;
        }
        let payload = item.object().to_vec();
        let result = match &item.content {
            Content::Result(result) => result,
            Content::Ordered(_) => {
                self.readings.push_back(Message { topic, payload, is_retained: false });
                return 0;
            }
        };
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

    fn topic_of(&self, item: &Item) -> String {
        match &item.content {
            Content::Ordered(reading) => {
                topic::ordered(&self.gateway, reading.record.source.as_str())
            }
            Content::Result(result) => {
                let series = &result.series;
                topic::latest(&self.gateway, &result.window, &series.entity, &series.property)
            }
        }
    }

    fn tell_too_long(&mut self, topic: &str, length: usize) {
        if !std::mem::replace(&mut self.has_told, true) {
            tracing::warn!(
                topic,
                "output mqtt: a message of {length} bytes is left out, for a packet may have \
                 {PACKET_BYTES_MAX}; those that follow are only counted as dropped"
            );
        }
    }

    pub(super) fn next(&mut self) -> Option<Message> {
        if let Some(message) = self.revisions.pop_front() {
            return Some(message);
        }
        let Some(topic) = self.order.pop_front() else { return self.readings.pop_front() };
        let payload = self.retained.remove(&topic)?;
        Some(Message { topic, payload, is_retained: true })
    }

    /// It was not sent after all. A newer one of its topic that waits makes it
    /// needless.
    pub(super) fn put_back(&mut self, message: Message) {
        if message.topic.starts_with(&self.of_readings) {
            self.readings.push_front(message);
        } else if !message.is_retained {
            self.revisions.push_front(message);
        } else if !self.retained.contains_key(&message.topic) {
            self.order.push_front(message.topic.clone());
            self.retained.insert(message.topic, message.payload);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.revisions.is_empty() && self.readings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::output_tests::{item_of, result};
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
    fn what_no_packet_holds_is_dropped_and_keeps_none_waiting() {
        let mut waiting = Waiting::new("gw".into());
        let size = |entity: &str, waiting: &Waiting| {
            let item = item_of(result(entity, 1, 10));
            HEADER_BYTES + waiting.topic_of(&item).len() + item.object().len()
        };
        // The entity is in the topic and in the payload.
        let (bare, spare) = (size("", &waiting), size("e", &waiting));
        let most = (PACKET_BYTES_MAX - bare) / (spare - bare);
        assert_eq!(add(&mut waiting, &"e".repeat(most + 1), 1, 10), 1);
        assert_eq!(add(&mut waiting, &"e".repeat(most), 2, 10), 0);
        assert_eq!(add(&mut waiting, "e", 3, 10), 0);
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
