//! Exact bytes, the same words as `json`, and what rubbish does.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::core::clock::{ClockSource, ClockState};
use crate::core::id::{BootId, Epoch, Seq, SourceId};
use crate::core::reading::{Flags, Origin, Series, Stamp, Value};
use crate::core::time::{EventTime, IngestTime, MaxError, TimebaseId, Uptime};
use crate::wire::json;

/// The payload of the documentation.
const EXAMPLE: [u8; 57] = [
    0x01, 0x02, 0x67, 0x77, 0x02, 0x69, 0x6e, 0x01, 0x07, 0x01, 0x04, 0x70, 0x75, 0x6d, 0x70, 0x03,
    0x6b, 0x70, 0x61, 0x00, 0x00, 0x01, 0x00, 0x00, 0x02, 0x00, 0x01, 0xb0, 0x09, 0x03, 0x00, 0x00,
    0x00, 0x01, 0xac, 0x02, 0x00, 0x00, 0x80, 0xa8, 0xd6, 0xb9, 0x07, 0xd0, 0xb7, 0xd6, 0xb9, 0x07,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc8, 0x79, 0x40,
];

fn example() -> Record {
    let series = Series { entity: "pump".into(), property: "kpa".into(), unit: None };
    Record {
        source: SourceId::new("in"),
        epoch: Epoch { number: 1, nonce: 7 },
        seq: Seq(300),
        series: Arc::new(series),
        value: Value::F64(412.5),
        quality: Default::default(),
        quality_detail: None,
        id: None,
        stamp: Stamp {
            event_time: EventTime::from_unix_ns(1_000_000_000),
            ingest_time: IngestTime::from_unix_ns(1_000_001_000),
            uptime: Uptime::from_ns(5),
            boot: BootId([0xab; 16]),
            origin: Origin::Device,
            clock: ClockSource::Ntp,
            state: ClockState::Synchronized,
            max_error: Some(MaxError::from_ns(1_199_001)),
            timebase: TimebaseId(3),
            first_event_time: None,
            utc_offset_s: None,
            flags: Flags::NONE,
        },
    }
}

/// Ordinary readings of ten pumps, a millisecond apart.
fn ordinary(count: u64) -> Vec<Record> {
    let pump = |n| Series { entity: format!("pump-{n}").into(), ..(*example().series).clone() };
    let pumps: Vec<_> = (0..10).map(|n| Arc::new(pump(n))).collect();
    let one = |n: u64| {
        let mut record = example();
        record.seq = Seq(1 + n);
        record.series = Arc::clone(&pumps[n as usize % 10]);
        record.value = Value::F64(400.0 + (n * 7_919 % 1_000) as f64 / 100.0);
        record.stamp.event_time =
            EventTime::from_unix_ns(1_796_000_000_000_000_000 + 1_000_000 * n as i64);
        record.stamp.ingest_time = IngestTime::from_unix_ns(1_796_000_001_000_000_000);
        record
    };
    (0..count).map(one).collect()
}

fn encoded(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    encode("gw", records, &mut out);
    out
}

/// What `json` says of them, one a line.
fn lines(gateway: &str, records: impl IntoIterator<Item = Record>) -> String {
    let mut out = Vec::new();
    for record in records {
        json::reading(gateway, &record, &mut out);
        out.push(b'\n');
    }
    String::from_utf8(out).unwrap()
}

fn decoded(payload: &[u8]) -> String {
    let batch = Batch::decode(payload).unwrap();
    lines(&batch.gateway, batch.records().map(Result::unwrap))
}

#[test]
fn the_worked_example() {
    assert_eq!(encoded(&[example()]), [&EXAMPLE[..], &[0]].concat());
    assert_eq!(decoded(&encoded(&[example()])), lines("gw", [example()]));
}

#[test]
fn a_stored_payload_with_everything_in_it_is_read_for_ever() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let payload = std::fs::read(format!("{data}/batch-v1.bin")).unwrap();
    let expected = std::fs::read_to_string(format!("{data}/batch-v1.jsonl")).unwrap();
    assert_eq!(payload[0], VERSION | 0x80);
    assert_eq!(decoded(&payload), expected);
}

#[test]
fn an_ordinary_reading_takes_less_than_twenty_bytes_before_compression() {
    let plain = postcard::to_stdvec(&Batch::gather("gw", &ordinary(500)).unwrap()).unwrap();
    assert!(plain.len() < 500 * 18, "{} bytes", plain.len());
    let payload = encoded(&ordinary(500));
    assert_eq!(payload[0], VERSION | 0x80);
    assert!(payload.len() < 500 * 7, "{} bytes", payload.len());
    assert_eq!(decoded(&payload), lines("gw", ordinary(500)));
}

#[test]
fn readings_that_share_a_series_by_value_share_its_place() {
    let batch = Batch::gather("gw", &[example(), example()]).unwrap();
    assert_eq!((batch.series.len(), batch.provenances.len()), (1, 1));
    assert_eq!(batch.readings[1].seq_step, 0);
}

#[test]
fn nothing_is_nothing() {
    assert!(encoded(&[]).is_empty());
    assert_eq!(Batch::decode(&[]), Err(BatchError::Empty));
}

#[test]
fn another_version_and_another_format_are_refused_by_name() {
    let mut newer = EXAMPLE.to_vec();
    newer[0] = 2;
    assert_eq!(Batch::decode(&newer), Err(BatchError::Version(2)));
    newer[0] = 0x82;
    let error = Batch::decode(&newer).unwrap_err();
    assert_eq!(
        error.to_string(),
        "at byte 0: version 2 of postcard-batch, and this program knows version 1: \
         use a newer tidegate, or it is another format"
    );
}

#[test]
fn what_is_cut_off_or_too_long_says_where() {
    let offset = |payload: &[u8]| match Batch::decode(payload) {
        Err(BatchError::Schema { offset, .. }) => offset,
        other => panic!("{other:?}"),
    };
    assert_eq!(offset(&EXAMPLE), 57);
    assert_eq!(offset(&EXAMPLE[..12]), 11, "the text of four bytes begins at 11");
    assert_eq!(offset(&[&EXAMPLE[..], &[0, 0]].concat()), 58);
}

#[test]
fn a_place_that_is_not_there_costs_its_reading_alone() {
    let mut batch = Batch::gather("gw", &ordinary(3)).unwrap();
    batch.readings[1].series = 9;
    let records: Vec<_> = batch.records().collect();
    let error = BatchError::Dangling { reading: 1, what: "series", code: 9 };
    assert_eq!(records[1], Err(error));
    assert_eq!(records[2].as_ref().unwrap().seq, Seq(3));
}

#[test]
fn a_frame_that_asks_for_more_memory_than_a_batch_may_take_is_refused() {
    // A window of 2^41 bytes; a single segment of 2^32 bytes.
    let window = [0x81, 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 0x01, 0x00, 0x00];
    let segment = [0x81, 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 1, 0, 0, 0, 0x01, 0x00, 0x00];
    assert_eq!(Batch::decode(&window), Err(BatchError::TooLarge));
    assert_eq!(Batch::decode(&segment), Err(BatchError::TooLarge));
}

#[test]
fn a_small_payload_that_grows_without_end_is_refused() {
    let zeros = vec![0_u8; BATCH_BYTES_MAX + 1];
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let frame = ruzstd::encoding::compress_to_vec(&zeros[..], level);
    assert!(frame.len() < 64 * 1024);
    assert_eq!(Batch::decode(&[&[0x81], &frame[..]].concat()), Err(BatchError::TooLarge));
}

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        Just(Arc::from("")),
        "\\PC{0,20}".prop_map(Arc::from),
        (1_usize..3_000).prop_map(|n| "pümp\0".repeat(n).into()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let integer = prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)];
    prop_oneof![
        any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))),
        prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0])
            .prop_map(Value::F64),
        integer.prop_map(Value::I64),
        prop_oneof![any::<u64>(), Just(u64::MAX)].prop_map(Value::U64),
        any::<bool>().prop_map(Value::Bool),
        text().prop_map(Value::Text),
        prop::sample::select(vec!["[]", r#"{"a":[1,null]}"#])
            .prop_map(|json| Value::Composite(json.into())),
    ]
}

prop_compose! {
    fn stamp()(
        (event, ingest, uptime) in any::<(i64, i64, u64)>(),
        boot in prop::sample::select(vec![BootId([1; 16]), BootId([2; 16])]),
        origin in prop::sample::select(code::ORIGINS.to_vec()),
        clock in prop::sample::select(code::CLOCKS.to_vec()),
        state in prop::sample::select(code::STATES.to_vec()),
        max_error in prop::option::of(any::<u64>()),
        timebase in any::<u32>(),
        first in prop::option::of(any::<i64>()),
        utc_offset_s in prop::option::of(-50_000..50_000_i32),
        flags in 0..1_u32 << 15,
    ) -> Stamp {
        Stamp {
            event_time: EventTime::from_unix_ns(event),
            ingest_time: IngestTime::from_unix_ns(ingest),
            uptime: Uptime::from_ns(uptime),
            boot,
            origin,
            clock,
            state,
            // Its microseconds are said rounded up, so the last are not all sayable.
            max_error: max_error.map(|ns| MaxError::from_ns(ns / 2)),
            timebase: TimebaseId(timebase),
            first_event_time: first.map(EventTime::from_unix_ns),
            utc_offset_s,
            flags: Flags::from_bits(flags),
        }
    }
}

prop_compose! {
    fn record()(
        seq in any::<u64>(),
        (entity, property) in (text(), text()),
        unit in prop::option::of(text()),
        value in value(),
        quality in prop::sample::select(code::QUALITIES.to_vec()),
        quality_detail in prop::option::of(text()),
        id in prop::option::of(text()),
        stamp in stamp(),
    ) -> Record {
        let series = Series {
            entity: entity.as_ref().into(),
            property: property.as_ref().into(),
            unit: unit.as_deref().map(Into::into),
        };
        let series = Arc::new(series);
        Record {
            seq: Seq(seq), series, value, quality, quality_detail, id, stamp, ..example()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_batch_says_what_json_says(records in prop::collection::vec(record(), 1..12)) {
        let payload = encoded(&records);
        prop_assert_eq!(decoded(&payload), lines("gw", records.clone()));
        // Not finite is null in JSON; here it is exact, and so are the signs.
        let batch = Batch::decode(&payload).unwrap();
        for (back, record) in batch.records().zip(&records) {
            if let (Value::F64(back), Value::F64(sent)) = (&back.unwrap().value, &record.value) {
                prop_assert_eq!(back.to_bits(), sent.to_bits());
            }
        }
    }

    #[test]
    fn rubbish_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for version in [0x01, 0x81] {
            let _ = Batch::decode(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = version;
            }
            if let Ok(batch) = Batch::decode(&bytes) {
                let _ = batch.records().count();
            }
        }
        let framed = [&[0x81, 0x28, 0xb5, 0x2f, 0xfd], &bytes[..]].concat();
        let _ = Batch::decode(&framed);
    }

    #[test]
    fn changed_payloads_never_panic(
        count in prop::sample::select(vec![1_u64, 40]),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8), 1..6),
    ) {
        let mut payload = encoded(&ordinary(count));
        for (place, bit) in flips {
            let place = place.index(payload.len());
            payload[place] ^= 1_u8 << bit;
        }
        if let Ok(batch) = Batch::decode(&payload) {
            let _ = batch.records().count();
        }
    }
}
