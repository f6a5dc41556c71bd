//! A consumer as the contract wants it: persistent session, drops repeats by
//! key, and finds out when one key has two contents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rumqttc::{Client, Event, MqttOptions, Packet, QoS};
use serde_json::Value;

/// One reading as it arrived: its entity, its number, and all of its bytes.
pub(crate) type Content = (String, Option<u64>, Vec<u8>);

/// What arrived.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Content by (source, epoch, seq).
    pub(crate) readings: BTreeMap<(String, String, u64), Content>,
    /// Publishes of readings, repeats included.
    pub(crate) copies: u64,
    /// Keys that came with two contents.
    pub(crate) confused: Vec<(String, String, u64)>,
    /// The topics that readings of each entity came on.
    pub(crate) topics: BTreeMap<String, BTreeSet<String>>,
    pub(crate) gaps: Vec<Value>,
    pub(crate) frontiers: Vec<Value>,
    pub(crate) statuses: Vec<Value>,
    pub(crate) clock_events: Vec<Value>,
    pub(crate) corrections: Vec<Value>,
    /// Results of windows by (source, epoch, seq), all of their bytes.
    pub(crate) results: BTreeMap<(String, String, u64), Vec<u8>>,
    pub(crate) late: Vec<Value>,
}

impl Inbox {
    /// The numbers that arrived of one entity.
    pub(crate) fn numbers(&self, entity: &str) -> BTreeSet<u64> {
        let of = self.readings.values().filter(|(of, _, _)| of == entity);
        of.filter_map(|(_, number, _)| *number).collect()
    }

    /// Holes in 1..=n of each (source, epoch), gap records taken into account.
    pub(crate) fn holes(&self) -> Vec<(String, String, u64)> {
        let mut seqs: BTreeMap<(String, String), BTreeSet<u64>> = BTreeMap::new();
        for (source, epoch, seq) in self.readings.keys().chain(self.results.keys()) {
            seqs.entry((source.clone(), epoch.clone())).or_default().insert(*seq);
        }
        for gap in &self.gaps {
            let text = |key: &str| gap[key].as_str().unwrap_or_default().to_owned();
            let first = gap["first_seq"].as_u64().unwrap_or(1);
            let last = gap["last_seq"].as_u64().unwrap_or(first);
            seqs.entry((text("source"), text("epoch"))).or_default().extend(first..=last);
        }
        let mut holes = Vec::new();
        for ((source, epoch), seqs) in seqs {
            let last = seqs.last().copied().unwrap_or(0);
            let missing = (1..=last).filter(|seq| !seqs.contains(seq));
            holes.extend(missing.map(|seq| (source.clone(), epoch.clone(), seq)));
        }
        holes
    }

    fn take(&mut self, topic: &str, payload: &[u8]) {
        let value: Value = serde_json::from_slice(payload).expect("strict JSON");
        match topic.split('/').nth(2) {
            Some("readings") => {
                let topics = self.topics.entry(text(&value, "entity")).or_default();
                topics.insert(topic.to_owned());
                self.take_reading(&value, payload);
            }
            Some("gaps") => self.gaps.push(value),
            Some("frontier") => self.frontiers.push(value),
            Some("status") => self.statuses.push(value),
            Some("clock") => self.clock_events.push(value),
            Some("corrections") => self.corrections.push(value),
            Some("windows") => self.take_result(&value, payload),
            Some("late") => self.late.push(value),
            other => panic!("unknown topic {topic}: {other:?}"),
        }
    }

    fn take_result(&mut self, value: &Value, payload: &[u8]) {
        let key = name_of(value);
        if let Some(known) = self.results.get(&key) {
            if known != payload {
                self.confused.push(key);
            }
            return;
        }
        self.results.insert(key, payload.to_vec());
    }

    fn take_reading(&mut self, value: &Value, payload: &[u8]) {
        self.copies += 1;
        let key = name_of(value);
        if let Some((_, _, known)) = self.readings.get(&key) {
            if known != payload {
                self.confused.push(key);
            }
            return;
        }
        self.readings
            .insert(key, (text(value, "entity"), value["value"].as_u64(), payload.to_vec()));
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().expect(key).to_owned()
}

fn name_of(value: &Value) -> (String, String, u64) {
    (text(value, "source"), text(value, "epoch"), value["seq"].as_u64().expect("seq"))
}

/// Subscribes to everything on `port` and collects until the process ends.
pub(crate) fn subscribe(port: u16) -> Arc<Mutex<Inbox>> {
    let inbox = Arc::new(Mutex::new(Inbox::default()));
    let mut options = MqttOptions::new("consumer", "127.0.0.1", port);
    options.set_clean_session(false).set_max_packet_size(1 << 24, 1 << 24);
    options.set_keep_alive(Duration::from_secs(30));
    let (client, mut connection) = Client::new(options, 100);
    let subscribed = Arc::new(AtomicBool::new(false));
    let (shared, is_subscribed) = (Arc::clone(&inbox), Arc::clone(&subscribed));
    std::thread::spawn(move || {
        for event in connection.iter() {
            match event {
                Ok(Event::Incoming(Packet::ConnAck(_))) => {
                    client.try_subscribe("tidegate/#", QoS::AtLeastOnce).unwrap();
                }
                Ok(Event::Incoming(Packet::SubAck(_))) => {
                    is_subscribed.store(true, Ordering::SeqCst);
                }
                Ok(Event::Incoming(Packet::Publish(publish))) => {
                    shared.lock().unwrap().take(&publish.topic, &publish.payload);
                }
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    });
    super::process::wait("the consumer is subscribed", || subscribed.load(Ordering::SeqCst));
    inbox
}
