//! From records to a [`Batch`].

use std::collections::HashMap;
use std::sync::Arc;

use super::{Batch, BatchMore, BatchReading, BatchSeries, BatchValue, Provenance, code};
use crate::core::reading::{Record, Series, Value};
use crate::wire::json;

impl Batch {
    /// Readings of one source and numbering, in order; `None` for no readings.
    pub fn gather(gateway: &str, records: &[Record]) -> Option<Batch> {
        let first = records.first()?;
        let mut gathering = Gathering {
            batch: Batch {
                gateway: gateway.to_owned(),
                source: first.source.as_str().to_owned(),
                epoch_number: first.epoch.number,
                epoch_nonce: first.epoch.nonce,
                readings: Vec::with_capacity(records.len()),
                ..Batch::default()
            },
            ..Gathering::default()
        };
        for record in records {
            gathering.take(record);
        }
        Some(gathering.batch)
    }
}

/// A batch that grows, what its lists hold, and the reading before.
#[derive(Default)]
struct Gathering<'a> {
    batch: Batch,
    /// By address: readings of one series mostly share it.
    known_series: HashMap<*const Series, u32>,
    series: HashMap<&'a Series, u32>,
    provenances: HashMap<Provenance, u32>,
    last: Option<(Provenance, u32)>,
    seq: u64,
    event_ns: i64,
    ingest_ns: i64,
    uptime_ns: i64,
}

impl<'a> Gathering<'a> {
    fn take(&mut self, record: &'a Record) {
        let provenance = self.provenance(record);
        let series = self.series(&record.series);
        let more = self.more(record);
        let (seq, stamp) = (record.seq.0, &record.stamp);
        let (event_ns, ingest_ns) = (stamp.event_time.unix_ns(), stamp.ingest_time.unix_ns());
        self.batch.readings.push(BatchReading {
            seq_step: seq.wrapping_sub(self.seq),
            series,
            provenance,
            event_step_ns: event_ns.wrapping_sub(self.event_ns),
            ingest_step_ns: ingest_ns.wrapping_sub(self.ingest_ns),
            value: value(&record.value),
            more,
        });
        (self.seq, self.event_ns, self.ingest_ns) = (seq, event_ns, ingest_ns);
    }

    fn series(&mut self, series: &'a Arc<Series>) -> u32 {
        let batch = &mut self.batch;
        *self.known_series.entry(Arc::as_ptr(series)).or_insert_with(|| {
            *self.series.entry(series).or_insert_with(|| {
                batch.series.push(BatchSeries {
                    entity: series.entity.to_string(),
                    property: series.property.to_string(),
                    unit: series.unit.as_deref().map(str::to_owned),
                });
                batch.series.len() as u32 - 1
            })
        })
    }

    fn provenance(&mut self, record: &Record) -> u32 {
        let stamp = &record.stamp;
        let (quality, flags) = json::quality_and_flags(record);
        let provenance = Provenance {
            quality: code::quality(quality),
            origin: code::origin(stamp.origin),
            clock: code::clock(stamp.clock),
            state: code::state(stamp.state),
            max_error_us: stamp.max_error.map(|bound| bound.micros_ceil()),
            timebase: stamp.timebase.0,
            boot: json::shows_uptime(stamp).then(|| self.boot(stamp.boot.0)),
            utc_offset_s: stamp.utc_offset_s,
            flags: flags.bits(),
        };
        match self.last {
            Some((last, place)) if last == provenance => place,
            _ => {
                let provenances = &mut self.batch.provenances;
                let place = *self.provenances.entry(provenance).or_insert_with(|| {
                    provenances.push(provenance);
                    provenances.len() as u32 - 1
                });
                self.last = Some((provenance, place));
                place
            }
        }
    }

    /// A batch spans few boots: they are looked through.
    fn boot(&mut self, boot: [u8; 16]) -> u32 {
        let boots = &mut self.batch.boots;
        let place = boots.iter().rposition(|known| *known == boot).unwrap_or_else(|| {
            boots.push(boot);
            boots.len() - 1
        });
        place as u32
    }

    fn more(&mut self, record: &Record) -> Option<Box<BatchMore>> {
        let stamp = &record.stamp;
        let shows_uptime = json::shows_uptime(stamp);
        let has_text = record.id.is_some() || record.quality_detail.is_some();
        if !has_text && stamp.first_event_time.is_none() && !shows_uptime {
            return None;
        }
        let uptime_step_ns = shows_uptime.then(|| {
            let uptime_ns = stamp.uptime.ns() as i64;
            uptime_ns.wrapping_sub(std::mem::replace(&mut self.uptime_ns, uptime_ns))
        });
        let event_ns = stamp.event_time.unix_ns();
        Some(Box::new(BatchMore {
            id: record.id.as_deref().map(str::to_owned),
            quality_detail: record.quality_detail.as_deref().map(str::to_owned),
            first_event_ns: stamp.first_event_time.map(|t| t.unix_ns().wrapping_sub(event_ns)),
            uptime_step_ns,
        }))
    }
}

fn value(value: &Value) -> BatchValue {
    match value {
        Value::F64(number) => BatchValue::F64(*number),
        Value::I64(number) => BatchValue::I64(*number),
        Value::U64(number) => BatchValue::U64(*number),
        Value::Bool(truth) => BatchValue::Bool(*truth),
        Value::Text(text) => BatchValue::Text(text.to_string()),
        Value::Composite(json) => BatchValue::Composite(json.to_string()),
    }
}
