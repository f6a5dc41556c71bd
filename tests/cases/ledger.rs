//! The books from outside: what a consumer got, and what gap records say, against
//! what the agent says it accepted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::broker::{Log, SeenPublish};

/// What became of one source's numbers, of one epoch.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Entity and value of what was delivered, by number; a repeat must be the
    /// same bytes.
    pub(crate) delivered: BTreeMap<u64, (String, u64)>,
    /// Numbers that gap records name, each by its reason.
    pub(crate) missing: BTreeMap<u64, String>,
}

impl Ledger {
    /// Of everything that was published of `source`, in all of its epochs.
    ///
    /// # Panics
    /// One name came with two contents.
    pub(crate) fn by_epoch(log: &Log, source: &str) -> BTreeMap<String, Self> {
        let mut ledgers: BTreeMap<String, Self> = BTreeMap::new();
        let mut contents: BTreeMap<(String, u64), &[u8]> = BTreeMap::new();
        for (seen, value) in of_topic(log, &format!("tidegate/gw/readings/{source}")) {
            let (epoch, seq) = (text(&value["epoch"]), value["seq"].as_u64().unwrap());
            let known = contents.entry((epoch.clone(), seq)).or_insert(&seen.payload);
            assert!(*known == &seen.payload[..], "{source} {epoch} {seq} has two contents");
            let what = (text(&value["entity"]), value["value"].as_u64().unwrap());
            ledgers.entry(epoch).or_default().delivered.insert(seq, what);
        }
        for (_, gap) in of_topic(log, &format!("tidegate/gw/gaps/{source}")) {
            let ledger = ledgers.entry(text(&gap["epoch"])).or_default();
            let first = gap["first_seq"].as_u64().unwrap();
            let last = gap["last_seq"].as_u64().unwrap_or(first);
            ledger.missing.extend((first..=last).map(|seq| (seq, text(&gap["reason"]))));
        }
        ledgers
    }

    /// The same where there is one epoch.
    pub(crate) fn of(log: &Log, source: &str) -> Self {
        let mut all: Vec<Self> = Self::by_epoch(log, source).into_values().collect();
        assert!(all.len() <= 1, "{} epochs", all.len());
        all.pop().unwrap_or_default()
    }

    /// Delivered and missing are together 1 to `accepted`, and have nothing in
    /// common.
    pub(crate) fn assert_complete(&self, accepted: u64) {
        let both = self.delivered.keys().find(|seq| self.missing.contains_key(seq));
        assert_eq!(both, None, "delivered, and in a gap record");
        let all: BTreeSet<u64> =
            self.delivered.keys().chain(self.missing.keys()).copied().collect();
        let hole = (1..=accepted).find(|seq| !all.contains(seq));
        assert_eq!(hole, None, "neither delivered nor in a gap record");
        assert_eq!(all.len() as u64, accepted, "more than was accepted");
    }

    /// The numbers of the readings of one entity that were delivered.
    pub(crate) fn values(&self, entity: &str) -> BTreeSet<u64> {
        let of_entity = self.delivered.values().filter(|(of, _)| of == entity);
        of_entity.map(|(_, value)| *value).collect()
    }
}

fn of_topic<'a>(log: &'a Log, topic: &str) -> impl Iterator<Item = (&'a SeenPublish, Value)> {
    log.publishes.iter().filter(move |seen| seen.topic == topic).map(|seen| (seen, seen.json()))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
