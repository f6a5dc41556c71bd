use std::sync::Arc;

use super::*;
use crate::core::clock::{ClockSource, ClockState};
use crate::core::reading::{Flags, Origin};
use crate::readings;

const HOUR_S: u64 = 3_600;
const BY_ID: Rule = Rule { by: By::Id, horizon: Span::from_secs(3_600), entries_max: 1_000 };
const BY_TIME: Rule = Rule { by: By::EventTime, ..BY_ID };

fn press() -> SourceId {
    SourceId::new("press")
}

fn series(entity: &str, property: &str) -> Series {
    Series { entity: entity.into(), property: property.into(), unit: None }
}

fn dedupe(rule: Rule) -> Dedupe {
    let settings = SourceSettings { dedupe: Some(rule), ..SourceSettings::DEFAULT };
    Dedupe::new(&BTreeMap::from([(press(), settings)]))
}

/// A clock in its boot: seconds of uptime, and of the wall clock where it can be
/// trusted.
#[derive(Clone, Copy)]
struct At {
    boot: u8,
    up_s: u64,
    wall_s: Option<i64>,
}

const fn at(boot: u8, up_s: u64, wall_s: Option<i64>) -> At {
    At { boot, up_s, wall_s }
}

impl At {
    fn moment(self) -> Moment {
        Moment::of_stamp(&self.stamp())
    }

    fn stamp(self) -> Stamp {
        let (state, wall_s) = match self.wall_s {
            Some(wall_s) => (ClockState::Synchronized, wall_s),
            None => (ClockState::Unsynchronized, 7),
        };
        Stamp {
            ingest_time: IngestTime::from_unix_ns(wall_s * 1_000_000_000),
            uptime: Uptime::from_ns(self.up_s * 1_000_000_000),
            boot: BootId([self.boot; 16]),
            origin: Origin::Gateway,
            clock: ClockSource::Unknown,
            state,
            ..readings::stamp(5)
        }
    }
}

fn record(id: &str, stamp: Stamp) -> Record {
    let series = Arc::new(series("pump", "kpa"));
    Record { series, id: Some(id.into()), stamp, ..readings::record("press", 1) }
}

fn learn(dedupe: &mut Dedupe, id: &str, when: At) -> Learned {
    dedupe.learn(&record(id, when.stamp()))
}

fn knows(dedupe: &mut Dedupe, id: &str, when: At) -> bool {
    let name = BY_ID.name(&series("pump", "kpa"), Some(id), None).unwrap();
    dedupe.knows(&press(), name, &when.moment())
}

#[test]
fn a_name_is_its_series_and_its_id_and_nothing_else() {
    let name = |series: &Series, id| BY_ID.name(series, id, Some(EventTime::from_unix_ns(1)));
    let kpa = series("pump", "kpa");
    let first = name(&kpa, Some("A-17"));
    assert_eq!(first, name(&Series { unit: Some("kPa".into()), ..kpa.clone() }, Some("A-17")));
    for other in [
        name(&kpa, Some("A-18")),
        name(&series("pump", "temp"), Some("A-17")),
        name(&series("pum", "pkpa"), Some("A-17")),
        name(&series("pump", "kpaA"), Some("-17")),
        BY_TIME.name(&kpa, Some("A-17"), Some(EventTime::from_unix_ns(1))),
    ] {
        assert!(other.is_some());
        assert_ne!(first, other);
    }
    assert_eq!(name(&kpa, None), None);
    assert_eq!(BY_TIME.name(&kpa, Some("A-17"), None), None);
}

/// Checkpoints hold hashes: what was stored must be found again by every later
/// version.
#[test]
fn the_hash_never_changes() {
    let kpa = series("pump-7", "pressure_kpa");
    let at = EventTime::from_unix_ns(1_796_000_000_123_456_789);
    let names = [BY_ID.name(&kpa, Some("A-17"), None), BY_TIME.name(&kpa, None, Some(at))];
    let expected = [
        [5_924_113_207_708_921_461, 7_864_209_316_141_661_515],
        [3_424_008_084_194_406_508, 9_149_795_594_610_580_390],
    ]
    .map(|words| Some(Name(words)));
    assert_eq!(names, expected);
}

#[test]
fn a_reading_is_known_for_the_horizon() {
    let mut dedupe = dedupe(BY_ID);
    assert!(!knows(&mut dedupe, "1", at(1, 100, None)));
    assert_eq!(learn(&mut dedupe, "1", at(1, 100, None)), Learned::Name);
    assert!(knows(&mut dedupe, "1", at(1, 100 + HOUR_S, None)));
    assert!(!knows(&mut dedupe, "2", at(1, 100 + HOUR_S, None)));
    assert!(!knows(&mut dedupe, "1", at(1, 101 + HOUR_S, None)));
    let known = dedupe.known(&press()).unwrap();
    assert_eq!(known, Known { names: 0, forgotten: 0 });
}

#[test]
fn a_repeat_does_not_make_it_known_for_longer() {
    let mut dedupe = dedupe(BY_ID);
    learn(&mut dedupe, "1", at(1, 0, None));
    learn(&mut dedupe, "1", at(1, HOUR_S, None));
    assert!(!knows(&mut dedupe, "1", at(1, HOUR_S + 1, None)));
}

#[test]
fn the_wall_clock_counts_only_over_boots_and_only_where_it_is_trusted() {
    // Within a boot it may jump as it likes.
    let mut stepped = dedupe(BY_ID);
    learn(&mut stepped, "1", at(1, 0, Some(1_000)));
    assert!(knows(&mut stepped, "1", at(1, 10, Some(900_000))));
    learn(&mut stepped, "2", at(1, 10, Some(900_000)));
    assert!(knows(&mut stepped, "1", at(1, 20, Some(5))));
    // Two hours off, which is known only after a while.
    let mut off = dedupe(BY_ID);
    learn(&mut off, "1", at(1, 0, Some(1_000)));
    learn(&mut off, "2", at(2, 5, None));
    assert!(knows(&mut off, "1", at(3, 5, None)), "nobody knows how long it was off");
    learn(&mut off, "3", at(3, 60, None));
    assert!(knows(&mut off, "1", at(3, 60, None)));
    assert!(!knows(&mut off, "1", at(3, 60, Some(1_000 + 7_200))));
    // It may have been off before those, or after: they live on.
    for id in ["2", "3"] {
        assert!(knows(&mut off, id, at(3, 65, Some(1_000 + 7_205))), "{id}");
    }
    assert!(!knows(&mut off, "3", at(3, 61 + HOUR_S, Some(0))));
    // A wall clock that says that the past comes after counts as nothing.
    let mut back = dedupe(BY_ID);
    learn(&mut back, "1", at(1, 0, Some(1_000_000)));
    assert!(knows(&mut back, "1", at(2, 5, Some(10))));
}

#[test]
fn without_room_the_oldest_go_first_and_the_first_of_them_is_said() {
    let mut dedupe = dedupe(Rule { entries_max: 3, ..BY_ID });
    let learned: Vec<_> =
        ["1", "2", "3", "4", "5"].map(|id| learn(&mut dedupe, id, at(1, 0, None))).into();
    let name = Learned::Name;
    assert_eq!(learned, [name, name, name, Learned::FirstInPlaceOfAnother, name]);
    let known: Vec<_> =
        ["1", "2", "3", "4", "5"].map(|id| knows(&mut dedupe, id, at(1, 0, None))).into();
    assert_eq!(known, [false, false, true, true, true]);
    assert_eq!(dedupe.known(&press()), Some(Known { names: 3, forgotten: 2 }));
}

#[test]
fn by_event_time_it_is_the_one_that_the_device_gave() {
    let claim = EventTime::from_unix_ns(77);
    let stamp = at(1, 0, None).stamp();
    let device = Stamp { origin: Origin::Device, event_time: claim, ..stamp };
    let replaced = |origin| Stamp { origin, first_event_time: Some(claim), ..stamp };
    let name = BY_TIME.name(&series("pump", "kpa"), None, Some(claim)).unwrap();
    for stamp in [
        device,
        replaced(Origin::DeviceCorrected),
        replaced(Origin::Substituted),
        replaced(Origin::Gateway),
    ] {
        let mut dedupe = dedupe(BY_TIME);
        assert_eq!(dedupe.learn(&record("any", stamp)), Learned::Name);
        assert!(dedupe.knows(&press(), name, &Moment::of_stamp(&stamp)));
    }
    let mut dedupe = dedupe(BY_TIME);
    assert_eq!(dedupe.learn(&record("any", stamp)), Learned::Nothing, "it gave none");
    // A clock that was never set gives the same time to different readings.
    for flags in [Flags::PAST, Flags::FUTURE, Flags::DEVICE_UNSYNC] {
        let unset = Stamp { flags, ..device };
        assert_eq!(dedupe.learn(&record("any", unset)), Learned::Nothing);
    }
    assert!(!dedupe.knows(&press(), name, &Moment::of_stamp(&stamp)));
}

#[test]
fn it_comes_back_as_it_was() {
    let mut before = dedupe(BY_ID);
    for (n, when) in [(1, at(1, 0, Some(50))), (2, at(1, 30, None)), (3, at(2, 5, None))] {
        learn(&mut before, &n.to_string(), when);
    }
    let bytes = before.encode(Offset(42));
    let mut after = dedupe(BY_ID);
    assert_eq!(after.restore(&bytes), Ok(Offset(42)));
    assert_eq!(after.encode(Offset(42)), bytes);
    for (ask, is_known) in [("1", false), ("2", true), ("3", true)] {
        assert_eq!(knows(&mut after, ask, at(2, 5 + HOUR_S - 20, None)), is_known, "{ask}");
    }
}

#[test]
fn what_cannot_go_on_starts_afresh() {
    let mut before = dedupe(BY_ID);
    for n in 0..10 {
        learn(&mut before, &n.to_string(), at(1, n, None));
    }
    let bytes = before.encode(Offset(1));
    // Names of another kind.
    let mut by_time = dedupe(BY_TIME);
    assert_eq!(by_time.restore(&bytes), Ok(Offset(1)));
    assert_eq!(by_time.known(&press()), Some(Known::default()));
    // Less room: the newest stay.
    let mut smaller = dedupe(Rule { entries_max: 2, ..BY_ID });
    assert_eq!(smaller.restore(&bytes), Ok(Offset(1)));
    assert!(
        !knows(&mut smaller, "7", at(1, 10, None)) && knows(&mut smaller, "8", at(1, 10, None))
    );
    for end in 0..bytes.len() {
        assert_eq!(dedupe(BY_ID).restore(&bytes[..end]), Err(Unreadable), "{end}");
    }
    let mut other = bytes;
    other[0] = 2;
    assert_eq!(dedupe(BY_ID).restore(&other), Err(Unreadable));
}

#[test]
fn a_source_without_a_rule_knows_nothing() {
    let mut none = Dedupe::new(&BTreeMap::from([(press(), SourceSettings::DEFAULT)]));
    assert!(none.is_empty());
    assert_eq!(learn(&mut none, "1", at(1, 0, None)), Learned::Nothing);
    assert!(!knows(&mut none, "1", at(1, 0, None)));
    assert_eq!(none.known(&press()), None);
}
