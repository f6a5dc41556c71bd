//! Exact payloads; the first is the contract's own example.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::core::clock::ClockSource;
use crate::core::clock::event::CLOCK_SOURCE;
use crate::core::id::{BootId, Epoch, Seq, SourceId};
use crate::core::reading::{GapReason, Series};
use crate::core::time::{EventTime, IngestTime, MaxError, Span, TimebaseId, Uptime};

const EPOCH: Epoch = Epoch { number: 1, nonce: 0x9f3a_6c21 };
const EVENT_NS: i64 = 1_796_000_523_123_000_000;

pub(super) fn record() -> Record {
    Record {
        source: SourceId::new("press-line"),
        epoch: EPOCH,
        seq: Seq(12_345),
        series: Arc::new(Series {
            entity: "pump-7".into(),
            property: "pressure_kpa".into(),
            unit: Some("kPa".into()),
        }),
        value: Value::F64(412.5),
        quality: Quality::Good,
        quality_detail: None,
        id: None,
        stamp: Stamp {
            event_time: EventTime::from_unix_ns(EVENT_NS),
            ingest_time: IngestTime::from_unix_ns(EVENT_NS + 7_211_000),
            uptime: Uptime::from_ns(86_400_000_000_001),
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

fn written(record: &Record) -> String {
    let mut out = Vec::new();
    reading("gw-07", record, &mut out);
    String::from_utf8(out).unwrap()
}

fn value_part(value: Value) -> String {
    let text = written(&Record { value, ..record() });
    let from = text.find("\"value\":").unwrap() + 8;
    text[from..text.find(",\"unit\"").unwrap()].to_owned()
}

#[test]
fn the_example_of_the_contract() {
    assert_eq!(
        written(&record()),
        concat!(
            r#"{"v":1,"gateway":"gw-07","source":"press-line","epoch":"1-9f3a6c21","seq":12345,"#,
            r#""entity":"pump-7","property":"pressure_kpa","value":412.5,"unit":"kPa","#,
            r#""quality":"good","event_time":"2026-11-30T01:02:03.123000000Z","#,
            r#""ingest_time":"2026-11-30T01:02:03.130211000Z","#,
            r#""time":{"origin":"device","clock":"ntp","state":"synchronized","#,
            r#""max_error_us":1200,"timebase":3},"flags":[]}"#
        )
    );
}

#[test]
fn everything_optional_has_its_place() {
    let mut full = record();
    full.id = Some("A-17".into());
    full.quality = Quality::Uncertain;
    full.quality_detail = Some("0x40920000".into());
    full.stamp.origin = Origin::Restamped;
    full.stamp.clock = ClockSource::Saved;
    full.stamp.state = ClockState::Unsynchronized;
    full.stamp.max_error = None;
    full.stamp.first_event_time = Some(EventTime::from_unix_ns(1_000_000_000));
    full.stamp.utc_offset_s = Some(3_600);
    full.stamp.flags = Flags::FUTURE.with(Flags::RETAINED);
    assert_eq!(
        written(&full),
        concat!(
            r#"{"v":1,"gateway":"gw-07","source":"press-line","epoch":"1-9f3a6c21","seq":12345,"#,
            r#""id":"A-17","entity":"pump-7","property":"pressure_kpa","value":412.5,"#,
            r#""unit":"kPa","quality":"uncertain","quality_detail":"0x40920000","#,
            r#""event_time":"2026-11-30T01:02:03.123000000Z","#,
            r#""ingest_time":"2026-11-30T01:02:03.130211000Z","#,
            r#""time":{"origin":"restamped","clock":"saved","state":"unsynchronized","#,
            r#""timebase":3,"first_event_time":"1970-01-01T00:00:01.000000000Z","#,
            r#""offset":"+01:00","boot":"abababab-abab-abab-abab-abababababab","#,
            r#""uptime_ns":86400000000001},"flags":["future","retained"]}"#
        )
    );
}

/// The part of the payload that speaks of time.
fn time_part(stamp: Stamp) -> String {
    let text = written(&Record { stamp, ..record() });
    let from = text.find("\"time\":").unwrap() + 7;
    text[from..text.find(",\"flags\"").unwrap()].to_owned()
}

#[test]
fn boot_and_uptime_are_the_evidence_where_the_clock_does_not_vouch() {
    let plain = Stamp { origin: Origin::Gateway, ..record().stamp };
    let clock = ClockSource::Ntp;
    assert_eq!(
        time_part(plain),
        r#"{"origin":"gateway","clock":"ntp","state":"synchronized","max_error_us":1200,"timebase":3}"#
    );
    let evidence = r#""boot":"abababab-abab-abab-abab-abababababab","uptime_ns":86400000000001}"#;
    for (state, word) in [
        (ClockState::Holdover, "holdover"),
        (ClockState::Stepped, "stepped"),
        (ClockState::Unsynchronized, "unsynchronized"),
    ] {
        assert_eq!(
            time_part(Stamp { state, ..plain }),
            format!(
                r#"{{"origin":"gateway","clock":"ntp","state":"{word}","max_error_us":1200,"timebase":3,{evidence}"#
            )
        );
    }
    let first_event_time = Some(EventTime::from_unix_ns(0));
    assert_eq!(
        time_part(Stamp { origin: Origin::Restamped, clock, first_event_time, ..plain }),
        format!(
            r#"{{"origin":"restamped","clock":"ntp","state":"synchronized","max_error_us":1200,"timebase":3,"first_event_time":"1970-01-01T00:00:00.000000000Z",{evidence}"#
        )
    );
    assert_eq!(
        time_part(Stamp { origin: Origin::Bounded, ..plain }),
        format!(
            r#"{{"origin":"bounded","clock":"ntp","state":"synchronized","max_error_us":1200,"timebase":3,{evidence}"#
        )
    );
}

#[test]
fn a_correction_is_exact_and_its_bound_is_rounded_up() {
    let known = Correction {
        source: SourceId::new("s"),
        epoch: EPOCH,
        first_seq: Seq(1),
        last_seq: Seq(9),
        boot: BootId([0xab; 16]),
        timebase: TimebaseId(2),
        shift: Span::from_ns(-123),
        max_error: MaxError::from_ns(379_999_001),
        at: IngestTime::from_unix_ns(EVENT_NS),
    };
    let mut out = Vec::new();
    correction("gw", &known, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        concat!(
            r#"{"v":1,"gateway":"gw","source":"s","epoch":"1-9f3a6c21","first_seq":1,"last_seq":9,"#,
            r#""boot":"abababab-abab-abab-abab-abababababab","timebase":2,"shift_ns":-123,"#,
            r#""max_error_us":380000,"at":"2026-11-30T01:02:03.123000000Z"}"#
        )
    );
}

fn event(kind: ClockEventKind, max_error: Option<MaxError>) -> String {
    let event = ClockEvent {
        source: SourceId::new(CLOCK_SOURCE),
        kind,
        boot: BootId([0xab; 16]),
        uptime: Uptime::from_ns(86_400_000_000_001),
        timebase: TimebaseId(3),
        at: IngestTime::from_unix_ns(EVENT_NS),
        state_before: ClockState::Synchronized,
        state: ClockState::Stepped,
        clock: ClockSource::Ntp,
        max_error,
    };
    let mut out = Vec::new();
    clock_event("gw", &event, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn clock_events_say_by_how_much_where_there_is_a_length() {
    let hours = Span::from_secs(-7_200);
    assert_eq!(
        event(ClockEventKind::Step(hours), Some(MaxError::from_ns(1_001))),
        concat!(
            r#"{"v":1,"gateway":"gw","event":"step","delta_ns":-7200000000000,"#,
            r#""boot":"abababab-abab-abab-abab-abababababab","uptime_ns":86400000000001,"#,
            r#""timebase":3,"at":"2026-11-30T01:02:03.123000000Z","#,
            r#""state_before":"synchronized","state":"stepped","clock":"ntp","max_error_us":2}"#
        )
    );
    let rest = concat!(
        r#""boot":"abababab-abab-abab-abab-abababababab","uptime_ns":86400000000001,"#,
        r#""timebase":3,"at":"2026-11-30T01:02:03.123000000Z","#,
        r#""state_before":"synchronized","state":"stepped","clock":"ntp"}"#
    );
    let second = Span::from_secs(1);
    for (kind, said) in [
        (ClockEventKind::Boot, r#""event":"boot""#),
        (ClockEventKind::Leap(second), r#""event":"leap","delta_ns":1000000000"#),
        (ClockEventKind::Suspend(second), r#""event":"suspend","delta_ns":1000000000"#),
        (ClockEventKind::Stall(second), r#""event":"stall","delta_ns":1000000000"#),
        (ClockEventKind::FastSlew { ppm: -501 }, r#""event":"fast_slew","ppm":-501"#),
        (ClockEventKind::State, r#""event":"state""#),
        (ClockEventKind::Vouched, r#""event":"vouched""#),
    ] {
        assert_eq!(event(kind, None), format!(r#"{{"v":1,"gateway":"gw",{said},{rest}"#));
    }
}

#[test]
fn a_series_without_a_unit_leaves_it_out() {
    let mut bare = record();
    bare.series = Arc::new(Series { entity: "e".into(), property: "p".into(), unit: None });
    assert!(written(&bare).contains(r#""property":"p","value":412.5,"quality":"good""#));
}

#[test]
fn values_keep_every_digit() {
    assert_eq!(value_part(Value::I64(i64::MIN)), "-9223372036854775808");
    assert_eq!(value_part(Value::U64(u64::MAX)), "18446744073709551615");
    assert_eq!(value_part(Value::F64(0.1)), "0.1");
    assert_eq!(value_part(Value::F64(3.0)), "3.0");
    assert_eq!(value_part(Value::F64(-0.0)), "-0.0");
    assert_eq!(value_part(Value::Bool(true)), "true");
    assert_eq!(value_part(Value::Bool(false)), "false");
    assert_eq!(
        value_part(Value::Text("a\"\\\n\u{1}\u{7f}ü".into())),
        "\"a\\\"\\\\\\n\\u0001\u{7f}ü\""
    );
    assert_eq!(value_part(Value::Composite(r#"{"x":1.50}"#.into())), r#"{"x":1.50}"#);
}

#[test]
fn a_number_that_is_not_finite_is_null_bad_and_flagged_once() {
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut broken = Record { value: Value::F64(number), ..record() };
        let once = written(&broken);
        assert!(once.contains(r#""value":null,"unit":"kPa","quality":"bad""#), "{once}");
        assert!(once.ends_with(r#""flags":["nonfinite"]}"#), "{once}");
        broken.stamp.flags = Flags::NONFINITE;
        assert_eq!(written(&broken), once);
    }
}

#[test]
fn a_composite_is_flagged() {
    let composite = Record { value: Value::Composite("[1]".into()), ..record() };
    assert!(written(&composite).ends_with(r#""flags":["composite"]}"#));
}

#[test]
fn gap_records_say_only_what_is_known() {
    let mut known = GapRecord {
        source: SourceId::new("press-line"),
        epoch: EPOCH,
        first_seq: Seq(5),
        last_seq: Some(Seq(9)),
        reason: GapReason::Evicted,
        first_event_time: Some(EventTime::from_unix_ns(0)),
        last_event_time: Some(EventTime::from_unix_ns(1)),
        at: IngestTime::from_unix_ns(EVENT_NS),
    };
    let mut out = Vec::new();
    gap("gw-07", &known, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        concat!(
            r#"{"v":1,"gateway":"gw-07","source":"press-line","epoch":"1-9f3a6c21","first_seq":5,"#,
            r#""last_seq":9,"reason":"evicted","first_event_time":"1970-01-01T00:00:00.000000000Z","#,
            r#""last_event_time":"1970-01-01T00:00:00.000000001Z","at":"2026-11-30T01:02:03.123000000Z"}"#
        )
    );
    (known.last_seq, known.first_event_time, known.last_event_time) = (None, None, None);
    known.reason = GapReason::Corrupt;
    let mut out = Vec::new();
    gap("gw-07", &known, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        concat!(
            r#"{"v":1,"gateway":"gw-07","source":"press-line","epoch":"1-9f3a6c21","first_seq":5,"#,
            r#""reason":"corrupt","at":"2026-11-30T01:02:03.123000000Z"}"#
        )
    );
}

#[test]
fn frontiers_and_status_are_exact() {
    let mut out = Vec::new();
    let said = Frontier {
        source: SourceId::new("press-line"),
        epoch: EPOCH,
        through_seq: Seq(40),
        complete_before: Some(EventTime::from_unix_ns(EVENT_NS)),
        pending: 2,
        at: IngestTime::from_unix_ns(0),
    };
    frontier("gw-07", &said, &mut out);
    out.push(b'\n');
    frontier("gw-07", &Frontier { complete_before: None, ..said }, &mut out);
    out.push(b'\n');
    let status = LinkStatus {
        is_online: true,
        epoch: EPOCH,
        pending: 7,
        clock: ClockState::Holdover,
        at: IngestTime::from_unix_ns(0),
    };
    link_status("gw-07", &status, &mut out);
    out.push(b'\n');
    will("gw\"07", &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        concat!(
            r#"{"v":1,"gateway":"gw-07","source":"press-line","epoch":"1-9f3a6c21","through_seq":40,"#,
            r#""complete_before":"2026-11-30T01:02:03.123000000Z","pending":2,"#,
            r#""at":"1970-01-01T00:00:00.000000000Z"}"#,
            "\n",
            r#"{"v":1,"gateway":"gw-07","source":"press-line","epoch":"1-9f3a6c21","through_seq":40,"#,
            r#""pending":2,"at":"1970-01-01T00:00:00.000000000Z"}"#,
            "\n",
            r#"{"v":1,"gateway":"gw-07","status":"online","epoch":"1-9f3a6c21","pending":7,"#,
            r#""clock":"holdover","at":"1970-01-01T00:00:00.000000000Z"}"#,
            "\n",
            r#"{"v":1,"gateway":"gw\"07","status":"offline","reason":"connection_lost"}"#
        )
    );
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<f64>().prop_map(Value::F64),
        any::<i64>().prop_map(Value::I64),
        any::<u64>().prop_map(Value::U64),
        any::<bool>().prop_map(Value::Bool),
        any::<String>().prop_map(|text| Value::Text(text.into())),
    ]
}

proptest! {
    #[test]
    fn every_reading_parses_and_means_what_it_meant(
        value in any_value(),
        entity: String,
        gateway: String,
        detail in any::<Option<String>>(),
        flags: u32,
        ns: i64,
    ) {
        let mut sent = record();
        sent.series = Arc::new(Series { entity: entity.as_str().into(), property: "p".into(), unit: None });
        sent.value = value.clone();
        sent.quality_detail = detail.as_deref().map(Into::into);
        sent.stamp.flags = Flags::from_bits(flags);
        sent.stamp.event_time = EventTime::from_unix_ns(ns);
        let mut out = Vec::new();
        reading(&gateway, &sent, &mut out);
        let got: serde_json::Value = serde_json::from_slice(&out).unwrap();
        prop_assert_eq!(&got["gateway"], &serde_json::json!(gateway));
        prop_assert_eq!(&got["entity"], &serde_json::json!(entity));
        prop_assert_eq!(got.get("quality_detail").and_then(|text| text.as_str()), detail.as_deref());
        prop_assert_eq!(&got["event_time"], &serde_json::json!(sent.stamp.event_time.to_string()));
        let expected = match value.clone() {
            Value::F64(number) => serde_json::json!(number),
            Value::I64(number) => serde_json::json!(number),
            Value::U64(number) => serde_json::json!(number),
            Value::Bool(fact) => serde_json::json!(fact),
            Value::Text(text) => serde_json::json!(&*text),
            Value::Composite(_) => unreachable!(),
        };
        if let Value::F64(number) = value {
            // The text is exact; `serde_json` reads it to within a few units in
            // the last place.
            let raw: std::collections::BTreeMap<&str, &serde_json::value::RawValue> =
                serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(raw["value"].get().parse::<f64>(), Ok(number));
        } else {
            prop_assert_eq!(&got["value"], &expected);
        }
    }
}
