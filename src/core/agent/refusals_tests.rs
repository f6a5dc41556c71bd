use super::*;
use crate::core::id::{SegmentId, Seq};
use crate::core::reading::{Arrival, DeviceTime, Flags, Quality, Reading, Series, Value};
use crate::core::seam::{Batch, Fetch, Frontier, SegmentInfo};
use crate::core::settings::UplinkSettings;
use crate::core::time::IngestTime;
use std::sync::Arc;

const UTC_S: i64 = 1_796_000_000;
const INVALID: u8 = 0x99;

fn now(at_s: u64) -> Now {
    Now {
        mono: MonoTime::from_ns(at_s * 1_000_000_000),
        wall: IngestTime::from_unix_ns((UTC_S + at_s as i64) * 1_000_000_000),
        raw_ns: at_s * 1_000_000_000,
        suspended_ns: 0,
        span_ns: 0,
    }
}

fn settings(uplinks: &[&str]) -> Settings {
    let uplink = |name: &&str| UplinkSettings {
        frontier_interval: Span::from_secs(1),
        ..UplinkSettings::named(name)
    };
    let sources = [(SourceId::new("a"), SourceSettings::DEFAULT)].into();
    Settings { uplinks: uplinks.iter().map(uplink).collect(), ..Settings::for_tests(sources) }
}

/// What a consumer behind one of the brokers knows.
#[derive(Clone, Debug, Default)]
struct Heard {
    readings: Vec<u64>,
    /// Numbers, both ends included.
    gaps: Vec<(u64, u64)>,
    through: u64,
    /// Numbers that its broker does not take.
    refuses: Vec<u64>,
    is_up: bool,
}

/// An agent whose every commit succeeds at once, and a broker behind each uplink.
struct Rig {
    agent: Agent,
    at_s: u64,
    journal: Vec<Entry>,
    meta: Meta,
    heard: Vec<Heard>,
}

impl Rig {
    fn new(uplinks: &[&str]) -> Self {
        let heard = vec![Heard::default(); uplinks.len()];
        Self::after(uplinks, Recovered::default(), 0, Vec::new(), heard)
    }

    fn after(
        uplinks: &[&str],
        recovered: Recovered,
        at_s: u64,
        journal: Vec<Entry>,
        heard: Vec<Heard>,
    ) -> Self {
        let (facts, mut effects) = (BootFacts::default(), Vec::new());
        let meta = recovered.meta.clone().unwrap_or_default();
        let agent = Agent::new(settings(uplinks), recovered, facts, 7, &now(at_s), &mut effects);
        let mut rig = Self { agent, at_s, journal, meta, heard };
        rig.turn(None);
        rig
    }

    /// Killed, and started with these uplinks, each with what its consumer has heard.
    fn restart(self, uplinks: &[(&str, Heard)]) -> Self {
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
        let recovered = Recovered {
            next,
            meta: Some(self.meta),
            segments: vec![segment],
            ..Recovered::default()
        };
        let names: Vec<&str> = uplinks.iter().map(|(name, _)| *name).collect();
        let down = |(_, heard): &(&str, Heard)| Heard { is_up: false, ..heard.clone() };
        let heard = uplinks.iter().map(down).collect();
        Self::after(&names, recovered, self.at_s, self.journal, heard)
    }

    /// One input, and all that follows from it.
    fn turn(&mut self, input: Option<Input>) {
        let mut inputs: Vec<Input> = input.into_iter().collect();
        for _ in 0..2 {
            self.at_s += 2;
            loop {
                let (now, mut effects) = (now(self.at_s), Vec::new());
                for input in std::mem::take(&mut inputs) {
                    self.agent.handle(&now, input, &mut effects);
                }
                self.agent.end_turn(&now, &mut effects);
                inputs = effects.into_iter().filter_map(|one| self.answer(one)).collect();
                let books = self.books();
                let gone = books.acknowledged + books.evicted + books.lost;
                assert_eq!(books.accepted, gone + books.stored);
                if inputs.is_empty() {
                    break;
                }
            }
        }
    }

    fn answer(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Commit(commit) => {
                self.journal.extend(commit.entries.iter().cloned());
                let (id, segments) = (commit.id, Vec::new());
                self.meta = commit.meta;
                let disk = Default::default();
                Some(Input::Store(StoreEvent::Committed { id, segments, disk }))
            }
            Effect::Fetch(Fetch { purpose, from, entries_max, .. }) => {
                let numbered = (0..).map(Offset).zip(self.journal.iter().cloned());
                let entries: Vec<_> = numbered.skip(from.0 as usize).take(entries_max).collect();
                let next = from.plus(entries.len() as u64);
                let damaged = Vec::new();
                let fetched = Fetched { purpose, from, entries, next, damaged };
                Some(Input::Store(StoreEvent::Fetched(fetched)))
            }
            Effect::Link(at, LinkCommand::Publish(publish)) => {
                let heard = &mut self.heard[usize::from(at.0)];
                if !heard.is_up {
                    return None;
                }
                let (id, code) = (publish.id, heard.hear(publish.body));
                Some(Input::Link(at, LinkEvent::Puback { id, code }))
            }
            _ => None,
        }
    }

    fn up(&mut self, at: u8) {
        self.heard[usize::from(at)].is_up = true;
        let frontiers = Vec::new();
        let terms =
            LinkTerms { receive_max: 100, payload_max: None, session_present: false, frontiers };
        self.turn(Some(Input::Link(UplinkId(at), LinkEvent::Up(terms))));
        self.turn(None);
    }

    fn read(&mut self, count: i64) {
        let series = Series { entity: "e".into(), property: "p".into(), unit: None };
        let at = EventTime::from_unix_ns(UTC_S * 1_000_000_000);
        let reading = Reading {
            series: Arc::new(series),
            value: Value::I64(1),
            quality: Quality::Good,
            quality_detail: None,
            device_time: Some(DeviceTime { at, utc_offset_s: None, flags: Flags::NONE }),
            id: None,
            flags: Flags::NONE,
        };
        let now = now(self.at_s);
        let arrival =
            Arrival { ingest: now.wall, uptime: now.uptime(), half_round_trip: Span::ZERO };
        let batch = Batch {
            source: SourceId::new("a"),
            arrival,
            readings: vec![reading; count as usize],
            refused: Vec::new(),
            advance: None,
            receipt: None,
        };
        self.turn(Some(Input::Readings(batch)));
    }

    fn books(&self) -> crate::core::agent::SourceStatus {
        self.agent.source_books()[&SourceId::new("a")]
    }

    /// Acknowledged, stored and lost.
    fn account(&self) -> [u64; 3] {
        let books = self.books();
        [books.acknowledged, books.stored, books.lost]
    }
}

impl Heard {
    fn refusing(refuses: &[u64]) -> Self {
        Self { refuses: refuses.to_vec(), ..Self::default() }
    }

    fn hear(&mut self, body: PublishBody) -> u8 {
        match body {
            PublishBody::Entry(Entry::Reading(record)) => {
                if self.refuses.contains(&record.seq.0) {
                    return INVALID;
                }
                self.readings.push(record.seq.0);
            }
            PublishBody::Entry(Entry::Gap(gap)) => {
                assert_eq!(gap.reason, GapReason::RefusedByBroker);
                self.gaps.push((gap.first_seq.0, gap.last_seq.unwrap().0));
            }
            PublishBody::Frontier(Frontier { through_seq: Seq(through), .. }) => {
                let is_named = |seq: &u64| {
                    let in_gap = self.gaps.iter().any(|(f, l)| (*f..=*l).contains(seq));
                    in_gap || self.readings.contains(seq)
                };
                assert_eq!((1..=through).find(|seq| !is_named(seq)), None, "{through}: {self:?}");
                assert!(through >= self.through, "it goes back");
                self.through = through;
            }
            _ => {}
        }
        0
    }
}

#[test]
fn a_refusal_is_of_its_uplink_alone_and_the_other_gets_the_reading() {
    let mut rig = Rig::new(&["one", "two"]);
    rig.heard[0].refuses = vec![3];
    rig.read(4);
    rig.up(0);
    assert_eq!(
        (&rig.heard[0].readings[..], &rig.heard[0].gaps[..]),
        (&[1, 2, 4][..], &[(3, 3)][..])
    );
    assert_eq!(rig.heard[0].through, 4);
    assert_eq!(rig.account(), [0, 4, 0], "the other has nothing yet");
    rig.up(1);
    assert_eq!((&rig.heard[1].readings[..], &rig.heard[1].gaps[..]), (&[1, 2, 3, 4][..], &[][..]));
    assert_eq!(rig.heard[1].through, 4);
    assert_eq!(rig.account(), [4, 0, 0]);
    assert_eq!(rig.meta.gaps, []);
}

#[test]
fn what_no_broker_takes_is_lost_once_and_each_hears_of_it() {
    let mut rig = Rig::new(&["one", "two"]);
    (rig.heard[0].refuses, rig.heard[1].refuses) = (vec![2, 3], vec![3, 4]);
    rig.read(5);
    rig.up(0);
    let heard = rig.heard.clone();
    let heard = |at: usize| heard[at].clone();
    let mut rig = rig.restart(&[("one", heard(0)), ("two", heard(1))]);
    rig.up(0);
    rig.up(1);
    let numbers = |at: usize| {
        let gaps = rig.heard[at].gaps.iter().flat_map(|(first, last)| *first..=*last);
        let gaps: std::collections::BTreeSet<u64> = gaps.collect();
        (rig.heard[at].readings.clone(), Vec::from_iter(gaps))
    };
    assert_eq!(numbers(0), (vec![1, 4, 5], vec![2, 3]));
    assert_eq!(numbers(1), (vec![1, 2, 5], vec![3, 4]));
    assert_eq!([rig.heard[0].through, rig.heard[1].through], [5, 5]);
    assert_eq!(rig.account(), [4, 0, 1]);
    assert_eq!(rig.meta.gaps, []);
    let is_empty = |one: &crate::core::seam::UplinkMeta| one.refused == Some(BTreeMap::new());
    assert!(rig.meta.uplinks.values().all(is_empty), "{:?}", rig.meta.uplinks);
}

/// The record of a refusal waits for its own uplink, whoever else comes and goes.
#[test]
fn an_uplink_that_leaves_or_comes_does_not_make_a_refusal_its_own() {
    let begun = || {
        let mut rig = Rig::new(&["one", "two"]);
        rig.heard[0].refuses = vec![2];
        rig.read(3);
        rig.up(0);
        rig
    };
    // The one that refused leaves: what nobody else took is not lost.
    let mut rig = begun().restart(&[("two", Heard::default())]);
    rig.up(0);
    assert_eq!((&rig.heard[0].readings[..], &rig.heard[0].gaps[..]), (&[1, 2, 3][..], &[][..]));
    assert_eq!(rig.account(), [3, 0, 0]);
    // The other leaves: then nobody has it.
    let rig = begun();
    let heard = rig.heard[0].clone();
    let rig = rig.restart(&[("one", heard)]);
    assert_eq!(rig.account(), [2, 0, 1]);
    // A third comes.
    let rig = begun();
    let heard = rig.heard[0].clone();
    let new = [("one", heard), ("two", Heard::default()), ("three", Heard::refusing(&[3]))];
    let mut rig = rig.restart(&new);
    (0..3).for_each(|at| rig.up(at));
    assert_eq!((&rig.heard[1].readings[..], &rig.heard[1].gaps[..]), (&[1, 2, 3][..], &[][..]));
    assert_eq!((&rig.heard[2].readings[..], &rig.heard[2].gaps[..]), (&[1, 2][..], &[(3, 3)][..]));
    assert_eq!(rig.account(), [3, 0, 0]);
}

/// As a program wrote it that told all uplinks of every refusal.
#[test]
fn a_refusal_of_an_older_program_is_still_said_to_all() {
    let source = SourceId::new("a");
    let mut rig = Rig::new(&["one", "two"]);
    rig.read(1);
    let epoch = rig.meta.epoch;
    let gap = gap_of(&rig.journal[rig.journal.len() - 1], &now(1)).unwrap();
    rig.journal.push(Entry::Gap(gap.clone()));
    let offset = rig.journal.len() as u64 - 1;
    rig.meta.gaps = vec![(Offset(offset), gap)];
    rig.meta.done = vec![];
    rig.meta.frontier = Offset(offset);
    let all = crate::core::seam::SeqSet { through: Seq(1), ranges: Vec::new() };
    rig.meta.handed = [((source.clone(), epoch), all)].into();
    for one in rig.meta.uplinks.values_mut() {
        (one.frontier, one.done) = (Offset(offset), Vec::new());
        (one.handed, one.refused) = (rig.meta.handed.clone(), None);
    }
    rig.meta.sources.get_mut(&source).unwrap().lost = 1;
    let mut rig = rig.restart(&[("one", Heard::default()), ("two", Heard::default())]);
    rig.up(0);
    rig.up(1);
    for heard in &rig.heard {
        assert_eq!((&heard.readings[..], &heard.gaps[..]), (&[][..], &[(1, 1)][..]));
        assert_eq!(heard.through, 1);
    }
    assert_eq!(rig.account(), [0, 0, 1]);
}
