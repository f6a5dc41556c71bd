//! A frame: up to 256 entries in one stored value, as columns.
//!
//! ```text
//! envelope (version, lz4 or not, length, CRC32C)
//!   first offset, count, kind of each entry
//!   facts table (source, numbering, boot, clock, quality: facts.rs) and each reading's row in it;
//!   late and retimed readings are among the readings
//!   series, seq, ingest time, uptime, event time, error bounds: columns of differences
//!   values by kind, texts
//!   window results, columns of their own (results.rs)
//!   gap records, corrections, clock events, what makes a reading a late one (rare.rs)
//! ```
//!
//! Everything comes back exactly as it went in, to the last bit of a NaN.

use super::column::{Cursor, put_column, put_floats, put_texts, put_varint, varint_len, zigzag};
use super::dictionary::NameWriter;
use super::envelope;
use super::facts::{self, FactsTable, Shape};
use super::{rare, results};
use crate::core::id::{Epoch, Offset};
use crate::core::limits::{FRAME_BYTES_MAX, FRAME_READINGS_MAX};
use crate::core::reading::{Entry, Record, Value};

/// The body is not compressed.
pub(super) const RAW: u8 = 0;
/// The body is lz4, with its uncompressed length before it.
pub(super) const LZ4: u8 = 1;
/// Event times are stored as their difference to the ingest time.
pub(super) const EVENT_LAG: u8 = 0;
/// Event times are stored as their difference to the previous event time.
pub(super) const EVENT_DELTA: u8 = 1;
/// Event times are stored as the change of that difference.
pub(super) const EVENT_DELTA_OF_DELTA: u8 = 2;
/// Bytes of text that one frame is given at most before encoding is tried: with more,
/// the result would only have to be halved.
const TEXT_MAX: usize = 4 * FRAME_BYTES_MAX;
/// Smallest body that is tried to be compressed.
const LZ4_BYTES_MIN: usize = 128;

/// The newest sequence number so far, by name number and epoch.
#[derive(Debug, Default)]
pub(super) struct Tails {
    known: Vec<(u32, Epoch, u64)>,
    last: usize,
}

impl Tails {
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.last = 0;
    }

    pub(super) fn of(&mut self, source: u32, epoch: Epoch) -> &mut u64 {
        let is_it = |tail: &(u32, Epoch, u64)| tail.0 == source && tail.1 == epoch;
        let found = match self.known.get(self.last) {
            Some(tail) if is_it(tail) => Some(self.last),
            _ => self.known.iter().position(is_it),
        };
        self.last = found.unwrap_or_else(|| {
            self.known.push((source, epoch, 0));
            self.known.len() - 1
        });
        &mut self.known[self.last].2
    }
}

/// Takes a finished frame: its first offset, its entries, its bytes, and the names, which
/// include those that it is the first to use.
pub(super) type Emit<'a, E> =
    &'a mut dyn FnMut(Offset, &[Entry], Vec<u8>, &mut NameWriter) -> Result<(), E>;

/// Writes frames; its buffers are reused.
#[derive(Debug, Default)]
pub(super) struct FrameWriter {
    body: Vec<u8>,
    packed: Vec<u8>,
    column: Vec<u64>,
    rows: Vec<usize>,
    facts: FactsTable,
    tails: Tails,
    floats: Vec<f64>,
}

impl FrameWriter {
    /// Cuts entries into frames and hands each to `emit`, with its first offset
    /// and its entries. A frame is longer than [`FRAME_BYTES_MAX`] only when it
    /// is a single entry.
    pub(super) fn write_all<E>(
        &mut self,
        first: Offset,
        entries: &[Entry],
        names: &mut NameWriter,
        emit: Emit<'_, E>,
    ) -> Result<(), E> {
        let mut at = 0;
        let mut limit = FRAME_READINGS_MAX;
        while at < entries.len() {
            let count = frame_len(&entries[at..], limit);
            let (offset, chosen) = (first.plus(at as u64), &entries[at..at + count]);
            let frame = self.write(offset, chosen, names);
            if frame.len() > FRAME_BYTES_MAX && count > 1 {
                limit = count / 2;
                continue;
            }
            emit(offset, chosen, frame, names)?;
            at += count;
            // Neighbours are alike: the next try begins at twice what fitted.
            limit = (limit * 2).min(FRAME_READINGS_MAX);
        }
        Ok(())
    }

    /// One frame of at most [`FRAME_READINGS_MAX`] entries.
    pub(super) fn write(
        &mut self,
        first: Offset,
        entries: &[Entry],
        names: &mut NameWriter,
    ) -> Vec<u8> {
        self.body.clear();
        put_varint(&mut self.body, first.0);
        put_varint(&mut self.body, entries.len() as u64);
        self.column(entries.iter().map(rare::kind_of));
        self.write_facts(entries, names);
        self.write_numbers(entries, names);
        self.write_times(entries);
        self.write_values(entries);
        results::put(entries, names, &mut self.body);
        self.write_rare(entries, names);
        self.finish()
    }

    fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::with_capacity(envelope::HEADER_BYTES + self.body.len());
        if self.body.len() >= LZ4_BYTES_MIN {
            self.packed.resize(4 + lz4_flex::block::get_maximum_output_size(self.body.len()), 0);
            self.packed[..4].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
            let packed = lz4_flex::block::compress_into(&self.body, &mut self.packed[4..]);
            // Compression must save a twentieth to be worth the decompression.
            if let Some(length) = packed.ok().filter(|n| (n + 4) * 20 < self.body.len() * 19) {
                envelope::wrap(LZ4, &self.packed[..4 + length], &mut out);
                return out;
            }
        }
        envelope::wrap(RAW, &self.body, &mut out);
        out
    }

    fn column(&mut self, values: impl Iterator<Item = u64>) {
        self.column.clear();
        self.column.extend(values);
        put_column(&mut self.body, &self.column);
    }

    fn write_facts(&mut self, entries: &[Entry], names: &mut NameWriter) {
        self.facts.clear();
        self.rows.clear();
        for record in records(entries) {
            let facts = facts::Facts::of(record, names.source(&record.source));
            self.rows.push(self.facts.place(facts));
        }
        self.facts.encode(&mut self.body);
        self.column.clear();
        self.column.extend(self.rows.iter().map(|row| *row as u64));
        put_column(&mut self.body, &self.column);
    }

    fn write_numbers(&mut self, entries: &[Entry], names: &mut NameWriter) {
        let mut last = 0;
        self.column(records(entries).map(|record| {
            let series = names.series(&record.series);
            let difference = i64::from(series) - std::mem::replace(&mut last, i64::from(series));
            zigzag(difference)
        }));
        self.tails.clear();
        self.column.clear();
        for (record, row) in records(entries).zip(&self.rows) {
            let tail = self.tails.of(self.facts.rows()[*row].source, record.epoch);
            let difference = record.seq.0.wrapping_sub(*tail) as i64;
            *tail = record.seq.0;
            self.column.push(zigzag(difference));
        }
        put_column(&mut self.body, &self.column);
    }

    fn write_times(&mut self, entries: &[Entry]) {
        let ingest = |record: &Record| record.stamp.ingest_time.unix_ns();
        let event = |record: &Record| record.stamp.event_time.unix_ns();
        let unit = coarsest_unit(records(entries).map(ingest));
        put_varint(&mut self.body, unit as u64);
        self.column(differences(records(entries).map(|r| ingest(r) / unit)).map(zigzag));
        // Wall time less uptime is constant between steps of the clock.
        self.column(
            differences(
                records(entries).map(|r| ingest(r).wrapping_sub(r.stamp.uptime.ns() as i64)),
            )
            .map(zigzag),
        );
        let unit = coarsest_unit(records(entries).map(event));
        let lags = || records(entries).map(|r| event(r).wrapping_sub(ingest(r))).map(zigzag);
        let deltas = || differences(records(entries).map(|r| event(r) / unit));
        let changes = || differences(deltas()).map(zigzag);
        let cost = |values: &mut dyn Iterator<Item = u64>| values.map(varint_len).sum::<usize>();
        let costs = [cost(&mut lags()), cost(&mut deltas().map(zigzag)), cost(&mut changes())];
        put_varint(&mut self.body, unit as u64);
        if costs[0] <= costs[1] && costs[0] <= costs[2] {
            self.body.push(EVENT_LAG);
            self.column(lags());
        } else if costs[1] <= costs[2] {
            self.body.push(EVENT_DELTA);
            self.column(deltas().map(zigzag));
        } else {
            self.body.push(EVENT_DELTA_OF_DELTA);
            self.column(changes());
        }
        let errors = records(entries).filter_map(|r| r.stamp.max_error).map(|e| e.ns() as i64);
        self.column(differences(errors).map(zigzag));
        let firsts = records(entries).filter_map(|r| {
            r.stamp.first_event_time.map(|first| first.unix_ns().wrapping_sub(event(r)))
        });
        self.column(firsts.map(zigzag));
    }

    fn write_values(&mut self, entries: &[Entry]) {
        self.floats.clear();
        for record in records(entries) {
            if let Value::F64(value) = record.value {
                self.floats.push(value);
            }
        }
        put_floats(&mut self.body, &self.floats, &mut self.column);
        self.column(records(entries).filter_map(|r| match r.value {
            Value::I64(value) => Some(zigzag(value)),
            _ => None,
        }));
        self.column(records(entries).filter_map(|r| match r.value {
            Value::U64(value) => Some(value),
            _ => None,
        }));
        self.column(records(entries).filter_map(|r| match r.value {
            Value::Bool(value) => Some(u64::from(value)),
            _ => None,
        }));
        // By kind: the reader takes each kind from a column of its own.
        let text = records(entries).filter_map(|r| match &r.value {
            Value::Text(text) => Some(&**text),
            _ => None,
        });
        put_texts(&mut self.body, text);
        let composite = records(entries).filter_map(|r| match &r.value {
            Value::Composite(text) => Some(&**text),
            _ => None,
        });
        put_texts(&mut self.body, composite);
        put_texts(&mut self.body, records(entries).filter_map(|r| r.quality_detail.as_deref()));
        put_texts(&mut self.body, records(entries).filter_map(|r| r.id.as_deref()));
    }

    fn write_rare(&mut self, entries: &[Entry], names: &mut NameWriter) {
        for entry in entries {
            rare::put(entry, names, &mut self.body);
        }
    }
}

/// How many readings have a part, by their facts.
pub(super) fn count_parts(rows: &[&facts::Facts], part: u8) -> usize {
    rows.iter().filter(|row| row.shape.has(part)).count()
}

/// How many readings carry a value of that kind.
pub(super) fn count_kind(rows: &[&facts::Facts], kind: u8) -> usize {
    rows.iter().filter(|row| Shape::kind(row.shape) == kind).count()
}

/// Readings, and what late and retimed entries carry of them: one form for all.
fn records(entries: &[Entry]) -> impl Iterator<Item = &Record> {
    entries.iter().filter_map(Entry::record)
}

/// Entries that go into the next frame: bounded in number and in text.
fn frame_len(entries: &[Entry], limit: usize) -> usize {
    let mut text = 0;
    let fitting = entries.iter().take(limit).take_while(|entry| {
        text += entry.weight() - size_of::<Entry>();
        text <= TEXT_MAX
    });
    fitting.count().max(1)
}

/// Each value less the one before it; the first as it is.
pub(super) fn differences(values: impl Iterator<Item = i64>) -> impl Iterator<Item = i64> {
    values.scan(0_i64, |last, value| Some(value.wrapping_sub(std::mem::replace(last, value))))
}

/// Milliseconds or microseconds, when every time is a whole number of them.
pub(super) fn coarsest_unit(times: impl Iterator<Item = i64>) -> i64 {
    let mut unit = 1_000_000;
    for time in times {
        while time % unit != 0 {
            unit /= 1_000;
        }
        if unit == 1 {
            break;
        }
    }
    unit
}

/// First offset and count of a frame's body, without the rest.
pub(super) fn head(cursor: &mut Cursor<'_>) -> Option<(Offset, usize)> {
    let first = Offset(cursor.varint()?);
    let count: usize = cursor.small()?;
    (1..=FRAME_READINGS_MAX).contains(&count).then_some((first, count))
}
