use super::*;
use crate::core::dedupe::{self, By};
use crate::core::id::Seq;
use crate::core::reading::{Arrival, DeviceTime, Flags, Quality, Reading, Series, Value};
use crate::core::seam::{Batch, Checkpointed, Commit};
use crate::core::time::IngestTime;
use crate::core::values::ValueRules;
use crate::core::values::deadband::{Band, Rule};
use crate::core::window::{Aggregate, Kind, LatePolicy, WindowSpec};
use std::sync::Arc;

const UTC_S: i64 = 1_796_000_000;

fn ids(names: &[&str]) -> BTreeMap<SourceId, SourceSettings> {
    let rule = dedupe::Rule { by: By::Id, horizon: Span::from_secs(3_600), entries_max: 100 };
    let settings = SourceSettings { dedupe: Some(rule), ..SourceSettings::DEFAULT };
    names.iter().map(|name| (SourceId::new(name), settings.clone())).collect()
}

fn window() -> WindowSpec {
    WindowSpec {
        name: "w".into(),
        version: 1,
        sources: Vec::new(),
        entity: "*".to_owned(),
        property: "*".to_owned(),
        kind: Kind::Tumbling { size: Span::from_secs(10), offset: Span::ZERO },
        bound: Span::ZERO,
        // Nobody falls silent by himself here.
        idle_after: Span::from_secs(100_000),
        allowed_lateness: Span::ZERO,
        late_policy: LatePolicy::SideOutput,
        aggregates: vec![Aggregate::Count],
        expected_interval: None,
        idle_flush: None,
        final_marker: true,
        include_bad: false,
        upstream: true,
    }
}

fn settings(sources: &[&str]) -> Settings {
    Settings { windows: vec![Arc::new(window())], ..Settings::for_tests(ids(sources)) }
}

/// An agent whose every commit succeeds at once.
struct Rig {
    agent: Agent,
    at_s: i64,
    journal: Vec<Entry>,
    commits: Vec<Commit>,
    checkpoints: Vec<(Checkpointed, Vec<u8>)>,
}

impl Rig {
    fn new(sources: &[&str]) -> Self {
        Self::after(sources, Recovered::default(), 0)
    }

    fn after(sources: &[&str], recovered: Recovered, at_s: i64) -> Self {
        let facts = BootFacts::default();
        let agent = Agent::new(settings(sources), recovered, facts, 7, &now(at_s), &mut Vec::new());
        let (journal, commits, checkpoints) = (Vec::new(), Vec::new(), Vec::new());
        let mut rig = Self { agent, at_s, journal, commits, checkpoints };
        rig.turn(None);
        rig
    }

    fn turn(&mut self, input: Option<Input>) {
        self.at_s += 1;
        let now = now(self.at_s);
        let mut effects = Vec::new();
        if let Some(input) = input {
            self.agent.handle(&now, input, &mut effects);
        }
        // What was taken in waits for its commit for a millisecond.
        self.agent.end_turn(&now, &mut effects);
        self.at_s += 1;
        self.agent.end_turn(&self::now(self.at_s), &mut effects);
        while !effects.is_empty() {
            let effect = effects.remove(0);
            let event = match effect {
                Effect::Commit(commit) => {
                    self.journal.extend(commit.entries.iter().cloned());
                    let id = commit.id;
                    self.commits.push(commit);
                    StoreEvent::Committed { id, segments: Vec::new(), disk: Default::default() }
                }
                Effect::Checkpoint(of, bytes) => {
                    self.checkpoints.push((of, bytes.to_vec()));
                    StoreEvent::Checkpointed { of, error: None }
                }
                _ => continue,
            };
            let now = self::now(self.at_s);
            self.agent.handle(&now, Input::Store(event), &mut effects);
            self.agent.end_turn(&now, &mut effects);
        }
    }

    /// A reading of `source` with this event time and id.
    fn read(&mut self, source: &str, event_s: i64, id: &str) {
        let at = EventTime::from_unix_ns((UTC_S + event_s) * 1_000_000_000);
        let series = Series { entity: source.into(), property: "p".into(), unit: None };
        let reading = Reading {
            series: Arc::new(series),
            value: Value::I64(1),
            quality: Quality::Good,
            quality_detail: None,
            device_time: Some(DeviceTime { at, utc_offset_s: None, flags: Flags::NONE }),
            id: Some(id.into()),
            flags: Flags::NONE,
        };
        let now = now(self.at_s);
        let arrival =
            Arrival { ingest: now.wall, uptime: now.uptime(), half_round_trip: Span::ZERO };
        let (readings, refused) = (vec![reading], Vec::new());
        let source = SourceId::new(source);
        let batch = Batch { source, arrival, readings, refused, advance: None, receipt: None };
        self.turn(Some(Input::Readings(batch)));
    }

    fn configure(&mut self, sources: &[&str]) {
        self.turn(Some(Input::Sources(ids(sources))));
    }

    fn seqs(&self, source: &str) -> Vec<u64> {
        let readings = self.journal.iter().filter_map(Entry::reading);
        readings.filter(|r| r.source.as_str() == source).map(|record| record.seq.0).collect()
    }

    /// Series and begin of every result, in their order.
    fn results(&self) -> Vec<(String, i64)> {
        let result = |entry: &Entry| match entry {
            Entry::Window(result) => {
                let start_s = result.start.unix_ns() / 1_000_000_000 - UTC_S;
                Some((result.series.entity.to_string(), start_s))
            }
            _ => None,
        };
        self.journal.iter().filter_map(result).collect()
    }
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

#[test]
fn a_source_that_comes_back_goes_on_with_its_numbers_and_the_others_do_not_notice() {
    let mut rig = Rig::new(&["a", "b"]);
    for n in 0..3 {
        rig.read("a", n, &n.to_string());
        rig.read("b", n, &n.to_string());
    }
    rig.configure(&["b", "c"]);
    rig.read("b", 4, "4");
    rig.read("c", 4, "4");
    rig.configure(&["a", "b", "c"]);
    // Of the three that were numbered before, one more time; and a new one.
    rig.read("a", 2, "2");
    rig.read("a", 5, "5");
    rig.read("b", 5, "5");
    assert_eq!(rig.seqs("a"), [1, 2, 3, 4]);
    assert_eq!(rig.seqs("b"), [1, 2, 3, 4, 5]);
    assert_eq!(rig.seqs("c"), [1]);
    let books = rig.agent.source_books();
    assert_eq!(books[&SourceId::new("a")].duplicates, 1, "what is a repeat is remembered");
    assert_eq!(books[&SourceId::new("a")].accepted, 4);
    let meta = &rig.commits.last().unwrap().meta;
    assert_eq!(meta.sources[&SourceId::new("a")].tail, Seq(4));
}

#[test]
fn totals_go_on_when_a_source_comes_back_and_its_deadband_begins_anew() {
    let rules = |rules: ValueRules| {
        let values = Some(Arc::new(rules));
        let settings = SourceSettings { values, ..SourceSettings::DEFAULT };
        BTreeMap::from([(SourceId::new("a"), settings)])
    };
    let accumulate = rules(ValueRules { accumulate: vec!["p".into()], ..ValueRules::default() });
    let band = Band::Absolute(10.0);
    let rule = Rule { entity: None, property: "p".into(), band, max_silence: None };
    let deadband = rules(ValueRules { deadbands: vec![rule], ..ValueRules::default() });
    let mut rig = Rig::new(&["a"]);
    rig.turn(Some(Input::Sources(accumulate.clone())));
    rig.read("a", 1, "1");
    rig.read("a", 2, "2");
    rig.turn(Some(Input::Sources(deadband.clone())));
    rig.read("a", 3, "3"); // the first under its deadband
    rig.read("a", 4, "4"); // did not move
    rig.configure(&["b"]);
    rig.turn(Some(Input::Sources(deadband)));
    rig.read("a", 5, "5"); // the first again
    rig.configure(&["b"]);
    rig.turn(Some(Input::Sources(accumulate)));
    rig.read("a", 6, "6");
    let values: Vec<Value> =
        rig.journal.iter().filter_map(Entry::reading).map(|record| record.value.clone()).collect();
    assert_eq!(values, [1, 2, 1, 1, 3].map(Value::I64));
}

#[test]
fn windows_wait_neither_for_a_source_that_has_left_nor_for_one_before_its_first_reading() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.read("a", 1, "1");
    rig.read("b", 1, "1");
    rig.read("a", 15, "2");
    assert_eq!(rig.results(), [], "b holds it open");
    rig.configure(&["a", "c"]);
    let both = [("a".to_owned(), 0), ("b".to_owned(), 0)];
    assert_eq!(rig.results(), both, "b has left");
    let has_left =
        |entry: &Entry| matches!(entry, Entry::Idle(mark) if mark.source.as_str() == "b");
    assert_eq!(rig.journal.iter().filter(|entry| has_left(entry)).count(), 1, "it is said");
    rig.read("a", 25, "3");
    assert_eq!(rig.results()[2..], [("a".to_owned(), 10)], "c has said nothing yet");
    rig.read("c", 21, "1");
    rig.read("a", 35, "4");
    assert_eq!(rig.results().len(), 3, "now it is waited for");
    rig.read("c", 36, "2");
    let more = [("a".to_owned(), 20), ("c".to_owned(), 20)];
    assert_eq!(rig.results()[3..], more);
}

/// A checkpoint may know sources that the configuration does not name any more.
#[test]
fn a_source_that_left_with_a_restart_holds_no_window_open_for_ever() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.read("a", 1, "1");
    rig.read("b", 1, "1");
    rig.turn(Some(Input::Stop));
    let (_, checkpoint) =
        rig.checkpoints.iter().rfind(|(of, _)| *of == Checkpointed::Windows).unwrap();
    let next = rig.commits.last().unwrap();
    let recovered = Recovered {
        meta: Some(next.meta.clone()),
        next: next.first.plus(next.entries.len() as u64),
        checkpoint: Some(checkpoint.clone()),
        ..Recovered::default()
    };
    let mut again = Rig::after(&["a"], recovered, rig.at_s);
    again.read("a", 15, "2");
    assert_eq!(again.seqs("a"), [2]);
    assert_eq!(again.results(), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
}

#[test]
fn the_memory_of_repeats_follows_the_rules_and_keeps_no_journal_without_one() {
    let mut rig = Rig::new(&["a"]);
    rig.read("a", 1, "1");
    let plain = |name: &str| (SourceId::new(name), SourceSettings::DEFAULT);
    rig.turn(Some(Input::Sources([plain("a")].into())));
    rig.read("a", 1, "1");
    assert_eq!(rig.seqs("a"), [1, 2], "without a rule nothing is a repeat");
    assert_eq!(rig.agent.repeats.covered(), Offset(u64::MAX));
    rig.configure(&["a"]);
    assert!(rig.agent.repeats.covered() < Offset(u64::MAX));
    rig.read("a", 1, "1");
    rig.read("a", 1, "1");
    assert_eq!(rig.seqs("a"), [1, 2, 3], "known from the rule on");
}
