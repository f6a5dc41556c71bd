//! A stamp and a record as most tests want them: each test says what matters to it
//! and takes the rest from here.
#![allow(dead_code, reason = "each test crate uses its own part of this")]

use std::sync::Arc;

use tidegate::core::clock::{ClockSource, ClockState};
use tidegate::core::id::{BootId, Epoch, Seq, SourceId};
use tidegate::core::reading::{Flags, Origin, Quality, Record, Series, Stamp, Value};
use tidegate::core::time::{EventTime, IngestTime, TimebaseId, Uptime};

/// By the device, taken in at the same instant by a synchronized clock without a bound.
pub(crate) fn stamp(event_ns: i64) -> Stamp {
    Stamp {
        event_time: EventTime::from_unix_ns(event_ns),
        ingest_time: IngestTime::from_unix_ns(event_ns),
        uptime: Uptime::from_ns(0),
        boot: BootId([1; 16]),
        origin: Origin::Device,
        clock: ClockSource::Ntp,
        state: ClockState::Synchronized,
        max_error: None,
        timebase: TimebaseId(1),
        first_event_time: None,
        utc_offset_s: None,
        flags: Flags::NONE,
    }
}

/// The reading of that number of a source: its value is its number.
pub(crate) fn record(source: &str, seq: u64) -> Record {
    Record {
        source: SourceId::new(source),
        epoch: Epoch { number: 1, nonce: 7 },
        seq: Seq(seq),
        series: Arc::new(Series { entity: "e".into(), property: "p".into(), unit: None }),
        value: Value::I64(seq.cast_signed()),
        quality: Quality::Good,
        quality_detail: None,
        id: None,
        stamp: stamp(0),
    }
}
