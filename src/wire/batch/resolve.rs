//! From a [`Batch`] back to records.

use std::sync::Arc;

use super::{Batch, BatchError, BatchReading, BatchValue, code};
use crate::core::id::{BootId, Epoch, Seq, SourceId};
use crate::core::reading::{Flags, Record, Series, Stamp, Value};
use crate::core::time::{EventTime, IngestTime, MaxError, TimebaseId, Uptime};

impl Batch {
    /// The readings one after the other, with nothing relative left. `boot` and
    /// `uptime` of a stamp are zero where the batch does not say them.
    ///
    /// An error of one reading does not spoil the next.
    pub fn records(&self) -> Records<'_> {
        let series = self.series.iter().map(|series| {
            Arc::new(Series {
                entity: series.entity.as_str().into(),
                property: series.property.as_str().into(),
                unit: series.unit.as_deref().map(Into::into),
            })
        });
        Records {
            batch: self,
            source: SourceId::new(&self.source),
            series: series.collect(),
            next: 0,
            seq: 0,
            event_ns: 0,
            ingest_ns: 0,
            uptime_ns: 0,
        }
    }
}

/// The readings of a batch.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    batch: &'a Batch,
    source: SourceId,
    series: Vec<Arc<Series>>,
    next: usize,
    seq: u64,
    event_ns: i64,
    ingest_ns: i64,
    uptime_ns: i64,
}

impl Iterator for Records<'_> {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reading = self.batch.readings.get(self.next)?;
        self.next += 1;
        self.seq = self.seq.wrapping_add(reading.seq_step);
        self.event_ns = self.event_ns.wrapping_add(reading.event_step_ns);
        self.ingest_ns = self.ingest_ns.wrapping_add(reading.ingest_step_ns);
        let uptime_step = reading.more.as_ref().and_then(|more| more.uptime_step_ns);
        self.uptime_ns = self.uptime_ns.wrapping_add(uptime_step.unwrap_or(0));
        Some(self.record(reading, uptime_step.is_some()))
    }
}

impl Records<'_> {
    fn record(&self, reading: &BatchReading, has_uptime: bool) -> Result<Record, BatchError> {
        let missing = |what, code| BatchError::Dangling { reading: self.next - 1, what, code };
        let series = self.series.get(reading.series as usize);
        let provenance = self.batch.provenances.get(reading.provenance as usize);
        let provenance = provenance.ok_or_else(|| missing("provenance", reading.provenance))?;
        let boot = match provenance.boot {
            None => BootId::default(),
            Some(place) => {
                BootId(*self.batch.boots.get(place as usize).ok_or_else(|| missing("boot", place))?)
            }
        };
        let known = |what, code: u8| move || missing(what, u32::from(code));
        let one = provenance;
        let more = reading.more.as_deref();
        let first_event = more.and_then(|more| more.first_event_ns);
        Ok(Record {
            source: self.source.clone(),
            epoch: Epoch { number: self.batch.epoch_number, nonce: self.batch.epoch_nonce },
            seq: Seq(self.seq),
            series: Arc::clone(series.ok_or_else(|| missing("series", reading.series))?),
            value: value(&reading.value),
            quality: at(&code::QUALITIES, one.quality).ok_or_else(known("quality", one.quality))?,
            quality_detail: more.and_then(|more| more.quality_detail.as_deref()).map(Into::into),
            id: more.and_then(|more| more.id.as_deref()).map(Into::into),
            stamp: Stamp {
                event_time: EventTime::from_unix_ns(self.event_ns),
                ingest_time: IngestTime::from_unix_ns(self.ingest_ns),
                uptime: Uptime::from_ns(if has_uptime { self.uptime_ns as u64 } else { 0 }),
                boot,
                origin: at(&code::ORIGINS, one.origin).ok_or_else(known("origin", one.origin))?,
                clock: at(&code::CLOCKS, one.clock).ok_or_else(known("clock", one.clock))?,
                state: at(&code::STATES, one.state).ok_or_else(known("state", one.state))?,
                max_error: one.max_error_us.map(|us| MaxError::from_ns(us.saturating_mul(1_000))),
                timebase: TimebaseId(one.timebase),
                first_event_time: first_event
                    .map(|ns| EventTime::from_unix_ns(self.event_ns.wrapping_add(ns))),
                utc_offset_s: one.utc_offset_s,
                flags: Flags::from_bits(one.flags),
            },
        })
    }
}

fn at<T: Copy>(list: &[T], code: u8) -> Option<T> {
    list.get(usize::from(code)).copied()
}

fn value(value: &BatchValue) -> Value {
    match value {
        BatchValue::F64(number) => Value::F64(*number),
        BatchValue::I64(number) => Value::I64(*number),
        BatchValue::U64(number) => Value::U64(*number),
        BatchValue::Bool(truth) => Value::Bool(*truth),
        BatchValue::Text(text) => Value::Text(text.as_str().into()),
        BatchValue::Composite(json) => Value::Composite(json.as_str().into()),
    }
}
