//! Entries as the broker gets them: topics and keys.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::core::clock::event::CLOCK_SOURCE;
use crate::core::clock::{ClockEvent, ClockEventKind, ClockSource, ClockState, Correction};
use crate::core::id::BootId;
use crate::core::limits::MAX_PAYLOAD_DEFAULT;
use crate::core::reading::{Series, Stamp, Value};
use crate::core::time::{EventTime, IngestTime, MaxError, Span, TimebaseId, Uptime};
use crate::core::window::{Coverage, LateReason, ResultStatus, WindowResult};
use crate::mqtt::{Broker, Protocol};
use crate::readings;

fn settings(batch_format: BatchFormat) -> Settings {
    Settings {
        gateway: "gw".into(),
        broker: Broker::default(),
        protocol: Protocol::V5,
        keep_alive: Duration::from_secs(30),
        inflight_max: 1,
        max_payload: MAX_PAYLOAD_DEFAULT,
        topic: topic::Template::parse("t").unwrap(),
        backfill_topic: None,
        batch_format,
    }
}

fn sent(entry: Entry) -> (String, bool, String, String) {
    let settings = settings(BatchFormat::Json);
    let Message { topic, payload, is_retained, key, .. } =
        Message::new(&settings, Lane::Live, &PublishBody::Entry(entry));
    (topic, is_retained, key.unwrap(), String::from_utf8(payload).unwrap())
}

#[test]
fn corrections_are_keyed_by_what_they_correct() {
    let (topic, is_retained, key, payload) = sent(Entry::Correction(Correction {
        source: SourceId::new("s"),
        epoch: Epoch { number: 1, nonce: 7 },
        first_seq: Seq(1),
        last_seq: Seq(9),
        boot: BootId([0xab; 16]),
        timebase: TimebaseId(2),
        shift: Span::from_ns(123),
        max_error: MaxError::from_ns(1),
        at: IngestTime::from_unix_ns(0),
    }));
    assert_eq!((topic.as_str(), is_retained), ("tidegate/gw/corrections/s", false));
    assert_eq!(key, "gw/s/1-00000007/1-9");
    assert!(payload.contains(r#""shift_ns":123"#), "{payload}");
}

#[test]
fn clock_events_are_keyed_by_boot_and_uptime() {
    let (topic, is_retained, key, payload) = sent(Entry::Clock(ClockEvent {
        source: SourceId::new(CLOCK_SOURCE),
        kind: ClockEventKind::State,
        boot: BootId([0xab; 16]),
        uptime: Uptime::from_ns(77),
        timebase: TimebaseId(2),
        at: IngestTime::from_unix_ns(0),
        state_before: ClockState::Stepped,
        state: ClockState::Synchronized,
        clock: ClockSource::Ntp,
        max_error: None,
    }));
    assert_eq!((topic.as_str(), is_retained), ("tidegate/gw/clock", false));
    assert_eq!(key, "gw/clock/abababab-abab-abab-abab-abababababab/77");
    assert!(payload.contains(r#""event":"state""#), "{payload}");
}

fn series() -> Arc<Series> {
    Arc::new(Series { entity: "e".into(), property: "p".into(), unit: None })
}

#[test]
fn results_are_keyed_like_readings_of_their_window() {
    let (topic, is_retained, key, payload) = sent(Entry::Window(WindowResult {
        source: SourceId::new("window:w/1"),
        epoch: Epoch { number: 1, nonce: 7 },
        seq: Seq(88),
        window: "w/1".into(),
        version: 1,
        series: series(),
        start: EventTime::from_unix_ns(0),
        end: EventTime::from_unix_ns(1),
        timebase: TimebaseId(0),
        revision: 1,
        status: ResultStatus::Final,
        count: 0,
        values: vec![],
        watermark: None,
        coverage: Coverage::default(),
        at: IngestTime::from_unix_ns(0),
    }));
    assert_eq!((topic.as_str(), is_retained), ("tidegate/gw/windows/w%2F1", false));
    assert_eq!(key, "gw/window:w/1/1-00000007/88-88");
    assert!(payload.contains(r#""status":"final""#), "{payload}");
}

fn record(seq: u64) -> Record {
    // A batch leaves the boot out where the clock is trusted.
    let stamp = Stamp { boot: BootId::default(), ..readings::stamp(0) };
    Record { series: series(), value: Value::I64(1), stamp, ..readings::record("s", seq) }
}

#[test]
fn late_readings_are_keyed_apart_from_the_reading() {
    let record = record(5);
    let (topic, is_retained, key, payload) = sent(Entry::Late(LateReading {
        window: "w".into(),
        version: 2,
        record,
        reason: LateReason::TooLate,
        watermark: None,
        window_end: None,
    }));
    assert_eq!((topic.as_str(), is_retained), ("tidegate/gw/late/w", false));
    assert_eq!(key, "gw/late:w:2/s/1-00000007/5-5");
    assert!(payload.ends_with(r#""window":"w","version":2,"reason":"too_late"}"#), "{payload}");
}

#[test]
fn batches_are_keyed_from_their_first_to_their_last_reading() {
    let records = vec![record(5), record(6)];
    let body = PublishBody::Batch(records.clone());
    let batch = Message::new(&settings(BatchFormat::Postcard), Lane::Live, &body);
    assert_eq!(batch.content_type, "application/vnd.tidegate.batch");
    assert_eq!(batch.key.as_deref(), Some("gw/s/1-00000007/5-6"));
    let decoded = batch::Batch::decode(&batch.payload).unwrap();
    assert_eq!(decoded.gateway, "gw");
    assert_eq!(decoded.records().collect::<Result<Vec<_>, _>>(), Ok(records));
    let json = Message::new(&settings(BatchFormat::Json), Lane::Live, &body);
    assert_eq!((json.content_type, json.key), ("application/json", batch.key));
}
