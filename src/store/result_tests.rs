//! Entries of the windows: what they may look like, what they take on disk, and
//! that a journal accounts for results as for readings.

use std::sync::Arc;

use proptest::prelude::*;

use super::frame_tests::{clock, round_trip, time};
use super::store_tests::{EPOCH, commit, fetch, open, reading};
use crate::core::clock::ClockState;
use crate::core::id::{Epoch, Offset, Seq, SourceId};
use crate::core::reading::{Entry, IdleMark, Record, Series};
use crate::core::seam::{Commit, Meta, SourceMeta};
use crate::core::time::{EventTime, IngestTime, MaxError, Span, TimebaseId, Uptime};
use crate::core::window::{
    Aggregate, Coverage, LateReading, LateReason, Number, ResultStatus, WindowResult,
};

fn number() -> impl Strategy<Value = Option<Number>> {
    // No NaN: its bits are compared nowhere, and none comes out of a window.
    let real = any::<f64>().prop_filter("a number", |real| !real.is_nan());
    prop_oneof![
        Just(None),
        real.prop_map(|real| Some(Number::Real(real))),
        (-9_999..9_999_i32).prop_map(|n| Some(Number::Real(f64::from(n) / 10.0))),
        any::<i64>().prop_map(|n| Some(Number::Int(n.into()))),
        any::<i128>().prop_map(|n| Some(Number::Int(n))),
    ]
}

fn values() -> impl Strategy<Value = Vec<(Aggregate, Option<Number>)>> {
    let names: Vec<Aggregate> = Aggregate::NAMES.iter().map(|(aggregate, _)| *aggregate).collect();
    let asked = prop::sample::subsequence(names.clone(), 0..=names.len()).prop_shuffle();
    let all = prop::collection::vec(number(), names.len());
    (asked, all).prop_map(|(asked, numbers)| asked.into_iter().zip(numbers).collect())
}

prop_compose! {
    fn coverage()(
        expected in prop::option::of(any::<u64>()),
        (received, duplicates, bad, uncertain, adjusted) in any::<(u64, u64, u64, u64, u64)>(),
        idle in prop::collection::vec("[ab]{1,2}", 0..3),
        worst_clock in prop::option::of(clock().prop_map(|(_, state)| state)),
        max_error in prop::option::of(any::<u64>()),
        (clock_step, flushed) in any::<(bool, bool)>(),
    ) -> Coverage {
        Coverage {
            expected,
            received,
            duplicates,
            bad,
            uncertain,
            adjusted,
            excluded_idle: idle.iter().map(|name| SourceId::new(name)).collect(),
            worst_clock,
            max_error: max_error.map(MaxError::from_ns),
            clock_step,
            flushed,
        }
    }
}

prop_compose! {
    pub(super) fn result()(
        window in "[ab]",
        (version, nonce, seq, timebase, revision) in any::<(u32, u32, u64, u32, u32)>(),
        (entity, unit) in ("[a-c]{1,2}", prop::option::of("[a-z%]{0,3}")),
        (start, end, at) in (time(), time(), time()),
        status in prop::sample::select(
            vec![ResultStatus::Provisional, ResultStatus::Final, ResultStatus::Retracted]),
        count in any::<u64>(),
        values in values(),
        watermark in prop::option::of(time()),
        coverage in coverage(),
    ) -> Entry {
        Entry::Window(WindowResult {
            source: SourceId::of_window(&window),
            epoch: Epoch { number: 2, nonce },
            seq: Seq(seq),
            window: window.into(),
            version,
            series: Arc::new(Series {
                entity: entity.into(),
                property: "p".into(),
                unit: unit.map(Into::into),
            }),
            start: EventTime::from_unix_ns(start),
            end: EventTime::from_unix_ns(end),
            timebase: TimebaseId(timebase),
            revision,
            status,
            count,
            values,
            watermark: watermark.map(EventTime::from_unix_ns),
            coverage,
            at: IngestTime::from_unix_ns(at),
        })
    }
}

/// Late and retimed entries of readings.
pub(super) fn late(reading: impl Strategy<Value = Entry>) -> impl Strategy<Value = Entry> {
    let rest = (any::<(bool, u32)>(), prop::option::of(time()), prop::option::of(time()));
    (reading, rest).prop_map(|(entry, ((is_late, version), watermark, window_end))| {
        let Entry::Reading(record) = entry else { return entry };
        if !is_late {
            return Entry::Retimed(record);
        }
        Entry::Late(LateReading {
            window: "a".into(),
            version,
            record,
            reason: LateReason::TooLate,
            watermark: watermark.map(EventTime::from_unix_ns),
            window_end: window_end.map(EventTime::from_unix_ns),
        })
    })
}

prop_compose! {
    pub(super) fn idle()(
        source in "[ab]",
        at in any::<u64>(),
        window in prop::option::of("[ab]"),
        flush in any::<bool>(),
    ) -> Entry {
        Entry::Idle(IdleMark {
            source: SourceId::new(&source),
            at: Uptime::from_ns(at),
            window: window.as_deref().map(Into::into),
            flush,
        })
    }
}

/// The results of one 10 s window over so many series, all fired at once.
fn fired(seq: u64, series: usize) -> Vec<Entry> {
    let end = 1_796_000_530_000_000_000;
    let result = |n: usize| {
        let sum = 4_000.0 + (n * 7_919 % 997) as f64 / 10.0;
        let real = |value: f64| Some(Number::Real(value));
        WindowResult {
            source: SourceId::new("window:w"),
            epoch: EPOCH,
            seq: Seq(seq + n as u64),
            window: "w".into(),
            version: 1,
            series: Arc::new(Series {
                entity: format!("pump-{n}").into(),
                property: "pressure".into(),
                unit: Some("kPa".into()),
            }),
            start: EventTime::from_unix_ns(end - 10_000_000_000),
            end: EventTime::from_unix_ns(end),
            timebase: TimebaseId(0),
            revision: 1,
            status: ResultStatus::Provisional,
            count: 9 + n as u64 % 2,
            values: vec![
                (Aggregate::Count, Some(Number::Int(9 + n as i128 % 2))),
                (Aggregate::Sum, real(sum)),
                (Aggregate::Mean, real(sum / 9.0)),
                (Aggregate::Min, real(390.0 + (n % 17) as f64 / 10.0)),
                (Aggregate::Max, real(415.0 + (n % 19) as f64 / 10.0)),
            ],
            watermark: Some(EventTime::from_unix_ns(end + 3_000_000)),
            coverage: Coverage {
                expected: Some(10),
                received: 9 + n as u64 % 2,
                worst_clock: Some(ClockState::Synchronized),
                max_error: Some(MaxError::from_ns(1_200_000 + n as u64 * 7_919 % 50_000)),
                ..Coverage::default()
            },
            at: IngestTime::from_unix_ns(end + 20_123_456_789),
        }
    };
    (0..series).map(|n| Entry::Window(result(n))).collect()
}

#[test]
fn an_ordinary_result_takes_less_than_thirty_bytes() {
    let entries = fired(1, 1_000);
    let (back, sizes) = round_trip(Offset(5), &entries);
    assert_eq!(back, entries);
    assert!(sizes.iter().sum::<usize>() < 30 * 1_000, "{sizes:?}");
}

#[test]
fn no_results_no_bytes() {
    let mut out: Vec<u8> = Vec::new();
    super::results::put(&[reading(1)], &mut Default::default(), &mut out);
    assert!(out.is_empty());
}

fn record(seq: u64) -> Record {
    let Entry::Reading(record) = reading(seq) else { unreachable!() };
    record
}

/// Three readings, what the windows made of them, and entries without a number.
fn mixed() -> Vec<Entry> {
    let late = LateReading {
        window: "w".into(),
        version: 1,
        record: record(2),
        reason: LateReason::TooLate,
        watermark: None,
        window_end: None,
    };
    let idle = IdleMark {
        source: SourceId::new("plc"),
        at: Uptime::from_ns(5),
        window: None,
        flush: false,
    };
    let results = fired(1, 4);
    let tail = [Entry::Retimed(record(1)), Entry::Idle(idle), Entry::Late(late), reading(3)];
    [vec![reading(1), reading(2)], results, tail.to_vec()].concat()
}

fn mixed_commit() -> Commit {
    let books = |count| SourceMeta { tail: Seq(count), accepted: count, ..SourceMeta::default() };
    let sources = [(SourceId::new("plc"), books(3)), (SourceId::new("window:w"), books(4))];
    let meta = Meta { epoch: EPOCH, sources: sources.into(), ..Meta::default() };
    Commit { entries: Arc::new(mixed()), meta, ..commit(1, 1) }
}

#[test]
fn results_are_accounted_for_like_readings() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let (segments, _) = store.commit(&mixed_commit()).unwrap();
    let contents = &segments.last().unwrap().contents;
    let of = |source: &str| contents[&(SourceId::new(source), EPOCH)];
    assert_eq!((of("plc").first, of("plc").last), (Seq(1), Seq(3)));
    assert_eq!((of("window:w").first, of("window:w").last), (Seq(1), Seq(4)));
    let last_instant = EventTime::from_unix_ns(1_796_000_530_000_000_000) - Span::from_ns(1);
    assert_eq!((of("window:w").earliest, of("window:w").latest), (last_instant, last_instant));
    drop(store);
    let (mut store, recovered) = open(dir.path());
    assert_eq!(recovered.segments.last().unwrap().contents, *contents);
    let entries: Vec<Entry> =
        store.fetch(&fetch(0)).entries.into_iter().map(|(_, entry)| entry).collect();
    assert_eq!(entries, mixed());
}

#[test]
fn lost_results_are_missing_by_number() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&mixed_commit()).unwrap();
    store.active.as_ref().unwrap().segment.overwrite(Offset(0), b"noise");
    let fetched = store.fetch(&fetch(0));
    assert_eq!(fetched.entries, []);
    let missing = &fetched.damaged[0].missing;
    let found: Vec<(&str, Seq, Option<Seq>)> =
        missing.iter().map(|one| (one.source.as_str(), one.first, one.last)).collect();
    assert_eq!(found, [("plc", Seq(1), Some(Seq(3))), ("window:w", Seq(1), Some(Seq(4)))]);
}
