//! Frames through their two doors: written and read.

use std::sync::Arc;

use proptest::prelude::*;

use super::dictionary::{Name, NameCache, NameWriter};
use super::frame::FrameWriter;
use super::{envelope, result_tests, unframe};
use crate::core::clock::event::CLOCK_SOURCE;
use crate::core::clock::{ClockEvent, ClockEventKind, ClockSource, ClockState, Correction};
use crate::core::id::{BootId, Epoch, Offset, Seq, SourceId};
use crate::core::limits::{FRAME_BYTES_MAX, FRAME_READINGS_MAX};
use crate::core::reading::{
    Entry, Flags, GapReason, GapRecord, Origin, Quality, Record, Series, Stamp, Value,
};
use crate::core::time::{EventTime, IngestTime, MaxError, Span, TimebaseId, Uptime};

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof!["[a-z]{0,12}", "\\PC{0,40}"].prop_map(Arc::from)
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))),
        (-9_999..9_999_i32).prop_map(|n| Value::F64(f64::from(n) / 100.0)),
        any::<i64>().prop_map(Value::I64),
        any::<u64>().prop_map(Value::U64),
        any::<bool>().prop_map(Value::Bool),
        text().prop_map(Value::Text),
        text().prop_map(Value::Composite),
    ]
}

fn origin() -> impl Strategy<Value = Origin> {
    prop::sample::select(vec![
        Origin::Device,
        Origin::DeviceCorrected,
        Origin::Gateway,
        Origin::Restamped,
        Origin::Substituted,
        Origin::Bounded,
        Origin::Unknown,
    ])
}

pub(super) fn clock() -> impl Strategy<Value = (ClockSource, ClockState)> {
    let sources = vec![
        ClockSource::Gnss,
        ClockSource::Ptp,
        ClockSource::Ntp,
        ClockSource::Rtc,
        ClockSource::Manual,
        ClockSource::FreeRunning,
        ClockSource::Saved,
        ClockSource::Unknown,
    ];
    let states = vec![
        ClockState::Synchronized,
        ClockState::Holdover,
        ClockState::Stepped,
        ClockState::Unsynchronized,
    ];
    (prop::sample::select(sources), prop::sample::select(states))
}

pub(super) fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        (0..1_000_i64).prop_map(|ms| 1_796_000_523_000_000_000 + ms * 1_000_000),
        any::<i64>(),
        Just(i64::MIN),
        Just(i64::MAX),
    ]
}

prop_compose! {
    fn stamp()(
        (event, ingest) in (time(), time()),
        uptime in any::<u64>(),
        boot in 0..2_u8,
        origin in origin(),
        (clock, state) in clock(),
        max_error in prop::option::of(any::<u64>()),
        timebase in prop_oneof![Just(1), any::<u32>()],
        first in prop::option::of(time()),
        utc_offset_s in prop::option::of(any::<i32>()),
        flags in prop_oneof![Just(0), any::<u32>()],
    ) -> Stamp {
        Stamp {
            event_time: EventTime::from_unix_ns(event),
            ingest_time: IngestTime::from_unix_ns(ingest),
            uptime: Uptime::from_ns(uptime),
            boot: BootId([boot; 16]),
            origin,
            clock,
            state,
            max_error: max_error.map(MaxError::from_ns),
            timebase: TimebaseId(timebase),
            first_event_time: first.map(EventTime::from_unix_ns),
            utc_offset_s,
            flags: Flags::from_bits(flags),
        }
    }
}

prop_compose! {
    fn reading()(
        source in "[ab]",
        (number, nonce) in (0..2_u32, any::<u32>()),
        seq in any::<u64>(),
        entity in "[a-c]{1,2}",
        unit in prop::option::of("[a-z%]{0,3}"),
        value in value(),
        quality in prop::sample::select(vec![Quality::Good, Quality::Uncertain, Quality::Bad]),
        (quality_detail, id) in (prop::option::of(text()), prop::option::of(text())),
        stamp in stamp(),
    ) -> Entry {
        let unit = unit.map(Into::into);
        Entry::Reading(Record {
            source: SourceId::new(&source),
            epoch: Epoch { number, nonce },
            seq: Seq(seq),
            series: Arc::new(Series { entity: entity.into(), property: "p".into(), unit }),
            value,
            quality,
            quality_detail,
            id,
            stamp,
        })
    }
}

prop_compose! {
    fn gap()(
        nonce in any::<u32>(),
        first_seq in any::<u64>(),
        last_seq in prop::option::of(any::<u64>()),
        reason in prop::sample::select(
            vec![GapReason::Evicted, GapReason::Corrupt, GapReason::RefusedByBroker]),
        (first, last) in (prop::option::of(time()), prop::option::of(time())),
        at in time(),
    ) -> Entry {
        Entry::Gap(GapRecord {
            source: SourceId::new("gap"),
            epoch: Epoch { number: 3, nonce },
            first_seq: Seq(first_seq),
            last_seq: last_seq.map(Seq),
            reason,
            first_event_time: first.map(EventTime::from_unix_ns),
            last_event_time: last.map(EventTime::from_unix_ns),
            at: IngestTime::from_unix_ns(at),
        })
    }
}

prop_compose! {
    fn correction()(
        (number, nonce, boot, timebase) in any::<(u32, u32, [u8; 16], u32)>(),
        (first_seq, last_seq) in any::<(u64, u64)>(),
        (shift_ns, max_error_ns) in any::<(i64, u64)>(),
        at in time(),
    ) -> Entry {
        Entry::Correction(Correction {
            source: SourceId::new("plc"),
            epoch: Epoch { number, nonce },
            first_seq: Seq(first_seq),
            last_seq: Seq(last_seq),
            boot: BootId(boot),
            timebase: TimebaseId(timebase),
            shift: Span::from_ns(shift_ns),
            max_error: MaxError::from_ns(max_error_ns),
            at: IngestTime::from_unix_ns(at),
        })
    }
}

fn event_kind() -> impl Strategy<Value = ClockEventKind> {
    let of_length: [fn(Span) -> ClockEventKind; 4] = [
        ClockEventKind::Step,
        ClockEventKind::Leap,
        ClockEventKind::Suspend,
        ClockEventKind::Stall,
    ];
    prop_oneof![
        (0..4_usize, any::<i64>()).prop_map(move |(kind, ns)| of_length[kind](Span::from_ns(ns))),
        any::<i32>().prop_map(|ppm| ClockEventKind::FastSlew { ppm }),
        Just(ClockEventKind::Boot),
        Just(ClockEventKind::State),
        Just(ClockEventKind::Vouched),
    ]
}

prop_compose! {
    fn clock_event()(
        kind in event_kind(),
        (boot, uptime, timebase) in any::<([u8; 16], u64, u32)>(),
        at in time(),
        (state_before, (clock, state)) in (self::clock().prop_map(|(_, state)| state), self::clock()),
        max_error in prop::option::of(any::<u64>()),
    ) -> Entry {
        Entry::Clock(ClockEvent {
            source: SourceId::new(CLOCK_SOURCE),
            kind,
            boot: BootId(boot),
            uptime: Uptime::from_ns(uptime),
            timebase: TimebaseId(timebase),
            at: IngestTime::from_unix_ns(at),
            state_before,
            state,
            clock,
            max_error: max_error.map(MaxError::from_ns),
        })
    }
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        16 => reading(),
        2 => gap(),
        1 => correction(),
        1 => clock_event(),
        6 => result_tests::result(),
        3 => result_tests::late(reading()),
        1 => result_tests::idle(),
    ]
}

/// Equal to the last bit: `PartialEq` calls a NaN different from itself.
fn in_words(entries: &[Entry]) -> String {
    let bits = |entry: &Entry| match entry.record().map(|record| &record.value) {
        Some(Value::F64(value)) => value.to_bits(),
        _ => 0,
    };
    entries.iter().map(|entry| format!("{entry:?} {:x}\n", bits(entry))).collect()
}

/// Writes entries and reads them back, frame by frame.
pub(super) fn round_trip(first: Offset, entries: &[Entry]) -> (Vec<Entry>, Vec<usize>) {
    let mut names = NameWriter::default();
    let (mut frames, mut known) = (Vec::new(), Vec::new());
    FrameWriter::default()
        .write_all(first, entries, &mut names, &mut |_, _, frame, names| {
            known.extend(names.take_added());
            frames.push(frame);
            Ok::<(), ()>(())
        })
        .unwrap();
    let mut load = |id| known.iter().find(|(known, _)| *known == id).map(|(_, name)| name.clone());
    let mut cache = NameCache::default();
    let mut back = Vec::new();
    for frame in &frames {
        let (at, entries) = unframe::read(frame, &mut cache, &mut load).unwrap();
        assert_eq!(at, first.plus(back.len() as u64));
        back.extend(entries);
    }
    (back, frames.iter().map(Vec::len).collect())
}

/// Readings of 20 series as a PLC is polled: every 100 ms, one decimal.
pub(super) fn polled(count: u64) -> Vec<Entry> {
    let series: Vec<Arc<Series>> = (0..20)
        .map(|n| {
            let entity = format!("pump-{n}").into();
            Arc::new(Series { entity, property: "pressure".into(), unit: Some("kPa".into()) })
        })
        .collect();
    let reading = |n: u64| {
        let at = 1_796_000_523_000_000_000 + (n / 20) as i64 * 100_000_000;
        let ingest = at + 1_234_567 + (n / 20 * 7_919 % 50_000) as i64;
        Entry::Reading(Record {
            source: SourceId::new("plc"),
            epoch: Epoch { number: 1, nonce: 5 },
            seq: Seq(n + 1),
            series: Arc::clone(&series[(n % 20) as usize]),
            value: Value::F64((1_000 + n * 7_919 % 997) as f64 / 10.0),
            quality: Quality::Good,
            quality_detail: None,
            id: None,
            stamp: Stamp {
                event_time: EventTime::from_unix_ns(at),
                ingest_time: IngestTime::from_unix_ns(ingest),
                uptime: Uptime::from_ns((ingest - 1_795_000_000_000_000_000) as u64),
                boot: BootId([7; 16]),
                origin: Origin::Device,
                clock: ClockSource::Ntp,
                state: ClockState::Synchronized,
                max_error: Some(MaxError::from_ns(11_000_000)),
                timebase: TimebaseId(1),
                first_event_time: None,
                utc_offset_s: None,
                flags: Flags::NONE,
            },
        })
    };
    (0..count).map(reading).collect()
}

#[test]
fn an_ordinary_reading_takes_less_than_eight_bytes() {
    let entries = polled(1_024);
    let (back, sizes) = round_trip(Offset(77), &entries);
    assert_eq!(back, entries);
    assert_eq!(sizes.len(), 4);
    assert!(sizes.iter().sum::<usize>() < 8 * 1_024, "{sizes:?}");
}

#[test]
fn frames_are_halved_until_they_fit_and_one_large_entry_stands_alone() {
    let mut entries = polled(300);
    let mut noise = 1_u64;
    let mut random_text = |length: usize| -> String {
        let mut next = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(33 + (noise >> 33) as u8 % 90)
        };
        (0..length).map(|_| next()).collect()
    };
    for entry in &mut entries[10..110] {
        let Entry::Reading(record) = entry else { unreachable!() };
        record.value = Value::Text(random_text(400).into());
    }
    let Entry::Reading(record) = &mut entries[200] else { unreachable!() };
    record.value = Value::Composite(random_text(50_000).into());
    let (back, sizes) = round_trip(Offset(1), &entries);
    assert_eq!(back, entries);
    assert_eq!(sizes.iter().filter(|size| **size > FRAME_BYTES_MAX).count(), 1, "{sizes:?}");
}

#[test]
fn a_truncated_frame_is_not_read() {
    let mut names = NameWriter::default();
    let frame = FrameWriter::default().write(Offset(0), &polled(3), &mut names);
    let known = names.take_added();
    let mut load = |id: u32| known.get(id as usize).map(|(_, name)| name.clone());
    for length in 0..frame.len() {
        let read = unframe::read(&frame[..length], &mut NameCache::default(), &mut load);
        assert!(read.is_err(), "{length}");
    }
    let mut none = |_| None::<Name>;
    assert!(unframe::read(&frame, &mut NameCache::default(), &mut none).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_entry_comes_back_as_it_went(
        entries in prop::collection::vec(entry(), 1..FRAME_READINGS_MAX + 40),
        first in 0..u64::MAX / 2,
    ) {
        let (back, _) = round_trip(Offset(first), &entries);
        prop_assert_eq!(in_words(&back), in_words(&entries));
    }

    /// With a good checksum around it, so that the columns get to see it.
    #[test]
    fn arbitrary_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..600),
        flag in 0..3_u8,
    ) {
        let mut frame = Vec::new();
        envelope::wrap(flag, &body, &mut frame);
        let mut load = |id: u32| Some(match id % 2 {
            0 => Name::Source(SourceId::new("s")),
            _ => Name::Series(Arc::new(Series { entity: "e".into(), property: "p".into(), unit: None })),
        });
        let _ = unframe::read(&frame, &mut NameCache::default(), &mut load);
        let _ = unframe::read(&body, &mut NameCache::default(), &mut load);
    }

    /// Bytes of a real frame changed in a few places: closer to the truth than noise.
    #[test]
    fn changed_frames_never_panic(
        entries in prop::collection::vec(entry(), 1..40),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut names = NameWriter::default();
        let frame = FrameWriter::default().write(Offset(9), &entries, &mut names);
        let (flag, body) = envelope::unwrap(&frame).unwrap();
        let mut body = body.to_vec();
        for (place, byte) in changes {
            let place = place.index(body.len());
            body[place] = byte;
        }
        let mut changed = Vec::new();
        envelope::wrap(flag, &body, &mut changed);
        let known = names.take_added();
        let mut load = |id: u32| known.get(id as usize).map(|(_, name)| name.clone());
        let _ = unframe::read(&changed, &mut NameCache::default(), &mut load);
    }
}
