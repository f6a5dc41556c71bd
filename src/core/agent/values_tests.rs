use super::*;
use crate::core::dedupe::{By, Rule};
use crate::core::id::SegmentId;
use crate::core::reading::{Arrival, Flags, Quality, Series, Value};
use crate::core::seam::{Advance, Batch, Commit, Release, Released, SegmentInfo};
use crate::core::time::IngestTime;
use crate::core::values::ValueRules;
use crate::core::values::deadband::{Band, Rule as Deadband};

const UTC_S: i64 = 1_796_000_000;

fn meter() -> SourceId {
    SourceId::new("meter")
}

fn settings() -> Settings {
    let band = Deadband {
        entity: None,
        property: "level".to_owned(),
        band: Band::Absolute(1.0),
        max_silence: None,
    };
    let rules = ValueRules { accumulate: vec!["energy_wh".to_owned()], deadbands: vec![band] };
    let repeats = Rule { by: By::Id, horizon: Span::from_secs(3_600), entries_max: 100 };
    let source = SourceSettings {
        dedupe: Some(repeats),
        values: Some(Arc::new(rules)),
        ..SourceSettings::DEFAULT
    };
    Settings::for_tests([(meter(), source)].into())
}

fn now(at_s: i64) -> Now {
    Now {
        mono: MonoTime::from_ns(at_s as u64 * 1_000_000_000),
        wall: IngestTime::from_unix_ns((UTC_S + at_s) * 1_000_000_000),
        raw_ns: at_s as u64 * 1_000_000_000,
        suspended_ns: 0,
        span_ns: 0,
    }
}

fn reading(property: &str, value: i64, id: &str) -> Reading {
    let series = Series { entity: "e".into(), property: property.into(), unit: None };
    Reading {
        series: Arc::new(series),
        value: Value::I64(value),
        quality: Quality::Good,
        quality_detail: None,
        device_time: None,
        id: (!id.is_empty()).then(|| id.into()),
        flags: Flags::NONE,
    }
}

/// An agent whose every commit succeeds at once, and its journal.
struct Rig {
    agent: Agent,
    at_s: i64,
    journal: Vec<Entry>,
    last: Option<Commit>,
}

impl Rig {
    fn new() -> Self {
        Self::after(Vec::new(), None, Recovered::default(), 0)
    }

    fn after(journal: Vec<Entry>, last: Option<Commit>, recovered: Recovered, at_s: i64) -> Self {
        let facts = BootFacts::default();
        let agent = Agent::new(settings(), recovered, facts, 7, &now(at_s), &mut Vec::new());
        let mut rig = Self { agent, at_s, journal, last };
        rig.turn(None);
        assert!(rig.agent.accepts_readings());
        rig
    }

    /// Killed after its last commit, and started again; `change` is what the disk
    /// has come to in between.
    fn restart(self, change: impl FnOnce(&mut Recovered)) -> Self {
        let next = Offset(self.journal.len() as u64);
        let segment = SegmentInfo {
            id: SegmentId(1),
            first: Offset(0),
            next,
            bytes: 1,
            ahead_bytes: 0,
            is_sealed: false,
            contents: Arc::default(),
        };
        let meta = self.last.as_ref().map(|commit| commit.meta.clone());
        let mut recovered = Recovered { meta, next, segments: vec![segment], ..Default::default() };
        change(&mut recovered);
        Self::after(self.journal, self.last, recovered, self.at_s)
    }

    fn turn(&mut self, input: Option<Input>) {
        let mut effects = Vec::new();
        if let Some(input) = input {
            self.agent.handle(&now(self.at_s), input, &mut effects);
        }
        // What was taken in waits for its commit for a millisecond.
        for _ in 0..2 {
            self.at_s += 1;
            self.agent.end_turn(&now(self.at_s), &mut effects);
        }
        while !effects.is_empty() {
            let event = match effects.remove(0) {
                Effect::Commit(commit) => {
                    self.journal.extend(commit.entries.iter().cloned());
                    let id = commit.id;
                    self.last = Some(commit);
                    StoreEvent::Committed { id, segments: Vec::new(), disk: Default::default() }
                }
                Effect::Fetch(fetch) => StoreEvent::Fetched(self.fetch(&fetch)),
                _ => continue,
            };
            self.agent.handle(&now(self.at_s), Input::Store(event), &mut effects);
            self.agent.end_turn(&now(self.at_s), &mut effects);
        }
    }

    fn fetch(&self, fetch: &Fetch) -> Fetched {
        let all = (0..).map(Offset).zip(self.journal.iter().cloned());
        Fetched {
            purpose: fetch.purpose,
            from: fetch.from,
            entries: all.filter(|(offset, _)| *offset >= fetch.from).collect(),
            next: Offset(self.journal.len() as u64),
            damaged: Vec::new(),
        }
    }

    fn arrival(&self) -> Arrival {
        let now = now(self.at_s);
        Arrival { ingest: now.wall, uptime: now.uptime(), half_round_trip: Span::ZERO }
    }

    fn read(&mut self, readings: Vec<Reading>, advance: Option<(&[u8], &[u8])>) {
        let advance = advance.map(|(from, to)| Advance { from: from.into(), to: to.into() });
        let (source, refused) = (meter(), Vec::new());
        let arrival = self.arrival();
        let batch = Batch { source, arrival, readings, refused, advance, receipt: None };
        self.turn(Some(Input::Readings(batch)));
    }

    fn add(&mut self, increment: i64, id: &str) {
        self.read(vec![reading("energy_wh", increment, id)], None);
    }

    fn values(&self) -> Vec<i64> {
        let records = self.journal.iter().filter_map(Entry::reading);
        let value = |record: &crate::core::reading::Record| match record.value {
            Value::I64(value) => Some(value),
            _ => None,
        };
        records.filter_map(value).collect()
    }
}

#[test]
fn a_total_goes_on_from_what_the_journal_says_and_repeats_add_nothing() {
    let mut rig = Rig::new();
    rig.add(5, "1");
    rig.add(7, "2");
    rig.add(7, "2");
    let mut rig = rig.restart(|_| ());
    rig.add(7, "2");
    rig.add(1, "3");
    assert_eq!(rig.values(), [5, 12, 13]);
}

#[test]
fn a_commit_that_was_cut_off_counts_as_far_as_it_got() {
    let mut rig = Rig::new();
    // Its reading was written, what rides with it was not.
    rig.add(5, "1");
    let mut rig = rig.restart(|recovered| recovered.meta = None);
    rig.add(1, "2");
    assert_eq!(rig.values(), [5, 6]);
}

#[test]
fn what_an_operator_releases_is_added_and_an_old_total_is_none() {
    let mut rig = Rig::new();
    rig.add(5, "1");
    let first = rig.journal.iter().find_map(Entry::reading).cloned().unwrap();
    rig.add(5, "2");
    let release = |rig: &mut Rig, released| {
        let (arrival, came) = (rig.arrival(), now(0).wall);
        let release = Release { source: meter(), came, arrival, released, receipt: None };
        rig.turn(Some(Input::Release(release)));
    };
    release(&mut rig, Released::Readings(vec![reading("energy_wh", 3, "")]));
    release(&mut rig, Released::Record(Box::new(first)));
    let mut rig = rig.restart(|_| ());
    rig.add(1, "3");
    assert_eq!(rig.values(), [5, 10, 13, 5, 14]);
}

#[test]
fn what_is_held_back_has_no_number_and_is_counted() {
    let mut rig = Rig::new();
    let levels = [10, 11, 9, 12].map(|level| reading("level", level, ""));
    rig.read(levels.to_vec(), None);
    assert_eq!(rig.values(), [10, 12]);
    let books = rig.agent.source_books()[&meter()];
    assert_eq!((books.accepted, books.held_back), (2, 2));
}
