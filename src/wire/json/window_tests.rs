//! Exact payloads; the first is the contract's own example.

use std::sync::Arc;

use super::super::tests::record;
use super::*;
use crate::core::clock::ClockState;
use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::reading::Series;
use crate::core::time::{EventTime, IngestTime, MaxError, TimebaseId};
use crate::core::window::{LateReason, ResultStatus};

/// 2026-11-30T12:00:00Z
const START_NS: i64 = 1_796_040_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

fn result() -> WindowResult {
    let real = |value: f64| Some(Number::Real(value));
    WindowResult {
        source: SourceId::new("window:pressure-10s"),
        epoch: Epoch { number: 1, nonce: 0x9f3a_6c21 },
        seq: Seq(88),
        window: "pressure-10s".into(),
        version: 1,
        series: Arc::new(Series {
            entity: "pump-7".into(),
            property: "pressure_kpa".into(),
            unit: Some("kPa".into()),
        }),
        start: EventTime::from_unix_ns(START_NS),
        end: EventTime::from_unix_ns(START_NS + 10 * SECOND),
        timebase: TimebaseId(0),
        revision: 2,
        status: ResultStatus::Provisional,
        count: 9,
        values: vec![
            (Aggregate::Count, Some(Number::Int(9))),
            (Aggregate::Sum, real(3712.5)),
            (Aggregate::Mean, real(412.5)),
            (Aggregate::Min, real(410.0)),
            (Aggregate::Max, real(415.0)),
        ],
        watermark: Some(EventTime::from_unix_ns(START_NS + 20 * SECOND)),
        coverage: Coverage {
            expected: Some(10),
            received: 9,
            excluded_idle: vec![SourceId::new("pump-b")],
            worst_clock: Some(ClockState::Synchronized),
            max_error: Some(MaxError::from_ns(1_199_001)),
            ..Coverage::default()
        },
        at: IngestTime::from_unix_ns(START_NS + 21 * SECOND),
    }
}

fn written_result(result: &WindowResult) -> String {
    let mut out = Vec::new();
    window_result("gw-07", result, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_example_of_the_contract() {
    assert_eq!(
        written_result(&result()),
        concat!(
            r#"{"v":1,"gateway":"gw-07","source":"window:pressure-10s","epoch":"1-9f3a6c21","#,
            r#""seq":88,"window":"pressure-10s","version":1,"#,
            r#""entity":"pump-7","property":"pressure_kpa","#,
            r#""start":"2026-11-30T12:00:00.000000000Z","end":"2026-11-30T12:00:10.000000000Z","#,
            r#""revision":2,"status":"provisional","#,
            r#""count":9,"sum":3712.5,"mean":412.5,"min":410.0,"max":415.0,"#,
            r#""watermark":"2026-11-30T12:00:20.000000000Z","#,
            r#""coverage":{"expected":10,"received":9,"duplicates":0,"excluded_idle":["pump-b"],"#,
            r#""worst_clock":"synchronized","max_error_us":1200},"#,
            r#""materialized_at":"2026-11-30T12:00:21.000000000Z"}"#
        )
    );
}

#[test]
fn what_is_not_known_is_left_out_and_what_is_special_is_said() {
    let least = WindowResult {
        timebase: TimebaseId(7),
        revision: 3,
        status: ResultStatus::Retracted,
        values: vec![
            (Aggregate::Stddev, None),
            (Aggregate::Sum, Some(Number::Int(i128::MAX))),
            (Aggregate::Min, Some(Number::Int(i128::MIN))),
            (Aggregate::Mean, Some(Number::Real(f64::INFINITY))),
            (Aggregate::P99, Some(Number::Real(0.1 + 0.2))),
        ],
        watermark: None,
        coverage: Coverage {
            received: 12,
            duplicates: 1,
            bad: 2,
            uncertain: 3,
            adjusted: 4,
            clock_step: true,
            flushed: true,
            ..Coverage::default()
        },
        ..result()
    };
    let text = written_result(&least);
    let tail = &text[text.find(r#""end""#).unwrap()..];
    assert_eq!(
        tail,
        concat!(
            r#""end":"2026-11-30T12:00:10.000000000Z","timebase":7,"#,
            r#""revision":3,"status":"retracted","count":9,"#,
            r#""sum":170141183460469231731687303715884105727,"#,
            r#""min":-170141183460469231731687303715884105728,"#,
            r#""mean":null,"p99":0.30000000000000004,"#,
            r#""coverage":{"received":12,"duplicates":1,"excluded_idle":[],"#,
            r#""bad":2,"uncertain":3,"adjusted":4,"clock_step":true,"flushed":true},"#,
            r#""materialized_at":"2026-11-30T12:00:21.000000000Z"}"#
        )
    );
}

#[test]
fn names_of_any_text_stay_json() {
    let series = Series { entity: "a\"b\n".into(), property: "\\".into(), unit: Some("\"".into()) };
    let mut odd = WindowResult { series: Arc::new(series), ..result() };
    odd.status = ResultStatus::Final;
    let parsed: serde_json::Value = serde_json::from_str(&written_result(&odd)).unwrap();
    assert_eq!((&parsed["entity"], &parsed["property"]), (&"a\"b\n".into(), &"\\".into()));
    assert_eq!(parsed["status"], "final");
}

#[test]
fn a_late_reading_is_the_reading_and_what_it_was_late_for() {
    let late = LateReading {
        window: "pressure-10s".into(),
        version: 2,
        record: record(),
        reason: LateReason::TooLate,
        watermark: Some(EventTime::from_unix_ns(START_NS)),
        window_end: Some(EventTime::from_unix_ns(START_NS - SECOND)),
    };
    let mut out = Vec::new();
    super::super::reading("gw-07", &record(), &mut out);
    assert_eq!(out.pop(), Some(b'}'));
    let reading = String::from_utf8(std::mem::take(&mut out)).unwrap();
    late_reading("gw-07", &late, &mut out);
    assert_eq!(
        String::from_utf8(std::mem::take(&mut out)).unwrap(),
        reading.clone()
            + concat!(
                r#","window":"pressure-10s","version":2,"reason":"too_late","#,
                r#""watermark":"2026-11-30T12:00:00.000000000Z","#,
                r#""window_end":"2026-11-30T11:59:59.000000000Z"}"#
            )
    );
    late_reading("gw-07", &LateReading { watermark: None, window_end: None, ..late }, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        reading + r#","window":"pressure-10s","version":2,"reason":"too_late"}"#
    );
}
