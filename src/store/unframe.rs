//! Reads frames back: the inverse of [`super::frame`]. Bytes may be anything;
//! the answer is the entries as written, or why not.

use std::sync::Arc;

use super::column::{Cursor, unzigzag};
use super::dictionary::{Name, NameCache};
use super::envelope::{self, Broken};
use super::facts::{self, Facts, Shape};
use super::frame::{
    EVENT_DELTA, EVENT_DELTA_OF_DELTA, EVENT_LAG, LZ4, RAW, Tails, count_kind, count_parts, head,
};
use super::{rare, results};
use crate::core::id::{Offset, Seq, SourceId};
use crate::core::limits::LINE_BYTES_MAX;
use crate::core::reading::{Entry, Record, Series, Stamp, Value};
use crate::core::time::{EventTime, IngestTime, MaxError, Uptime};

/// Greatest length of a frame before lz4: the longest line, its names, and a margin.
const BODY_BYTES_MAX: usize = 4 * LINE_BYTES_MAX;
/// One byte of lz4 stands for up to 255: a greater stated length is false, and no memory is
/// allocated for it.
const EXPANSION_MAX: usize = 256;

/// Finds the name of a number that the cache does not know yet.
pub(super) type LoadName<'a> = &'a mut dyn FnMut(u32) -> Option<Name>;

/// The entries of a stored frame, and the offset of the first.
pub(super) fn read(
    bytes: &[u8],
    names: &mut NameCache,
    load: LoadName<'_>,
) -> Result<(Offset, Vec<Entry>), Broken> {
    let (codec, packed) = envelope::unwrap(bytes)?;
    match codec {
        RAW => read_body(packed, names, load).ok_or(Broken::Content),
        LZ4 => {
            let body = unpack(packed).ok_or(Broken::Content)?;
            read_body(&body, names, load).ok_or(Broken::Content)
        }
        _ => Err(Broken::Content),
    }
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let (length, packed) = packed.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    if length > BODY_BYTES_MAX.min(EXPANSION_MAX * packed.len()) {
        return None;
    }
    let mut body = vec![0; length];
    let written = lz4_flex::block::decompress_into(packed, &mut body).ok()?;
    (written == length).then_some(body)
}

/// The columns of a frame, one number or text per reading that has it.
struct Columns {
    series: Vec<u64>,
    seqs: Vec<u64>,
    ingest: Vec<i64>,
    uptime: Vec<i64>,
    event: Vec<i64>,
    errors: std::vec::IntoIter<i64>,
    firsts: std::vec::IntoIter<u64>,
    floats: std::vec::IntoIter<f64>,
    integers: std::vec::IntoIter<u64>,
    unsigned: std::vec::IntoIter<u64>,
    bools: std::vec::IntoIter<u64>,
    texts: std::vec::IntoIter<Arc<str>>,
    composites: std::vec::IntoIter<Arc<str>>,
    details: std::vec::IntoIter<Arc<str>>,
    ids: std::vec::IntoIter<Arc<str>>,
}

fn read_body(
    body: &[u8],
    names: &mut NameCache,
    load: LoadName<'_>,
) -> Option<(Offset, Vec<Entry>)> {
    let mut cursor = Cursor::new(body);
    let (first, count) = head(&mut cursor)?;
    let mut kinds = Vec::new();
    cursor.column(count, &mut kinds)?;
    let readings = kinds.iter().filter(|kind| rare::has_record(**kind)).count();
    let table = facts::decode(&mut cursor, count)?;
    let mut places = Vec::new();
    cursor.column(readings, &mut places)?;
    let rows: Option<Vec<&Facts>> =
        places.iter().map(|place| table.get(usize::try_from(*place).ok()?)).collect();
    let rows = rows?;
    let mut columns = read_columns(&mut cursor, &rows)?;
    let result_count = kinds.iter().filter(|kind| **kind == rare::WINDOW).count();
    let mut results = results::take(&mut cursor, result_count, names, load)?.into_iter();
    let mut entries = Vec::with_capacity(count);
    let mut reading = 0;
    let mut tails = Tails::default();
    for kind in kinds {
        if kind == rare::WINDOW {
            entries.push(Entry::Window(results.next()?));
            continue;
        }
        if !rare::has_record(kind) {
            entries.push(rare::take(&mut cursor, kind, names, load)?);
            continue;
        }
        let row = rows[reading];
        let source = source_name(names, row.source, load)?;
        let series = series_name(names, columns.series[reading], load)?;
        let tail = tails.of(row.source, row.epoch);
        *tail = tail.wrapping_add_signed(unzigzag(columns.seqs[reading]));
        let record = columns.record(reading, row, (source, Seq(*tail), series))?;
        reading += 1;
        entries.push(rare::take_with(&mut cursor, kind, record, names, load)?);
    }
    cursor.rest().is_empty().then_some((first, entries))
}

fn read_columns(cursor: &mut Cursor<'_>, rows: &[&Facts]) -> Option<Columns> {
    let count = rows.len();
    let mut scratch = Vec::new();
    let mut column = |cursor: &mut Cursor<'_>, count: usize| {
        cursor.column(count, &mut scratch)?;
        Some(scratch.clone())
    };
    let series = sums(&column(cursor, count)?).into_iter().map(|id| id as u64).collect();
    let seqs = column(cursor, count)?;
    let unit = i64::try_from(cursor.varint()?).ok()?;
    let ingest: Vec<i64> =
        sums(&column(cursor, count)?).iter().map(|time| time.wrapping_mul(unit)).collect();
    let uptime = sums(&column(cursor, count)?);
    let unit = i64::try_from(cursor.varint()?).ok()?;
    let mode = cursor.byte()?;
    let stored = column(cursor, count)?;
    let event = event_times(mode, &stored, unit, &ingest)?;
    let errors = sums(&column(cursor, count_parts(rows, Shape::MAX_ERROR))?).into_iter();
    let firsts = column(cursor, count_parts(rows, Shape::FIRST_EVENT_TIME))?.into_iter();
    let floats = cursor.floats(count_kind(rows, facts::F64), &mut Vec::new())?.into_iter();
    let integers = column(cursor, count_kind(rows, facts::I64))?.into_iter();
    let unsigned = column(cursor, count_kind(rows, facts::U64))?.into_iter();
    let bools = column(cursor, count_kind(rows, facts::BOOL))?.into_iter();
    let texts = cursor.texts(count_kind(rows, facts::TEXT))?.into_iter();
    let composites = cursor.texts(count_kind(rows, facts::COMPOSITE))?.into_iter();
    let details = cursor.texts(count_parts(rows, Shape::DETAIL))?.into_iter();
    let ids = cursor.texts(count_parts(rows, Shape::ID))?.into_iter();
    Some(Columns {
        series,
        seqs,
        ingest,
        uptime,
        event,
        errors,
        firsts,
        floats,
        integers,
        unsigned,
        bools,
        texts,
        composites,
        details,
        ids,
    })
}

impl Columns {
    fn record(
        &mut self,
        at: usize,
        row: &Facts,
        (source, seq, series): (SourceId, Seq, Arc<Series>),
    ) -> Option<Record> {
        let value = match row.shape.kind() {
            facts::F64 => Value::F64(self.floats.next()?),
            facts::I64 => Value::I64(unzigzag(self.integers.next()?)),
            facts::U64 => Value::U64(self.unsigned.next()?),
            facts::BOOL => Value::Bool(self.bools.next()? != 0),
            facts::TEXT => Value::Text(self.texts.next()?),
            _ => Value::Composite(self.composites.next()?),
        };
        let part = |bit: u8| row.shape.has(bit);
        let quality_detail = if part(Shape::DETAIL) { Some(self.details.next()?) } else { None };
        let id = if part(Shape::ID) { Some(self.ids.next()?) } else { None };
        Some(Record {
            source,
            epoch: row.epoch,
            seq,
            series,
            value,
            quality: row.quality,
            quality_detail,
            id,
            stamp: self.stamp(at, row)?,
        })
    }

    fn stamp(&mut self, at: usize, row: &Facts) -> Option<Stamp> {
        let (ingest, event) = (self.ingest[at], self.event[at]);
        let max_error = match row.shape.has(Shape::MAX_ERROR) {
            true => Some(MaxError::from_ns(self.errors.next()? as u64)),
            false => None,
        };
        let first_event_time = match row.shape.has(Shape::FIRST_EVENT_TIME) {
            true => {
                let before = unzigzag(self.firsts.next()?);
                Some(EventTime::from_unix_ns(event.wrapping_add(before)))
            }
            false => None,
        };
        Some(Stamp {
            event_time: EventTime::from_unix_ns(event),
            ingest_time: IngestTime::from_unix_ns(ingest),
            uptime: Uptime::from_ns(ingest.wrapping_sub(self.uptime[at]) as u64),
            boot: row.boot,
            origin: row.origin,
            clock: row.clock,
            state: row.state,
            max_error,
            timebase: row.timebase,
            first_event_time,
            utc_offset_s: row.utc_offset_s,
            flags: row.flags,
        })
    }
}

fn event_times(mode: u8, stored: &[u64], unit: i64, ingest: &[i64]) -> Option<Vec<i64>> {
    let in_units = |times: Vec<i64>| times.into_iter().map(|t| t.wrapping_mul(unit)).collect();
    Some(match mode {
        EVENT_LAG => {
            stored.iter().zip(ingest).map(|(lag, i)| i.wrapping_add(unzigzag(*lag))).collect()
        }
        EVENT_DELTA => in_units(sums(stored)),
        EVENT_DELTA_OF_DELTA => in_units(running(sums(stored).into_iter())),
        _ => return None,
    })
}

/// Undoes zigzag and differences.
pub(super) fn sums(stored: &[u64]) -> Vec<i64> {
    running(stored.iter().map(|value| unzigzag(*value)))
}

fn running(differences: impl Iterator<Item = i64>) -> Vec<i64> {
    differences
        .scan(0_i64, |sum, difference| {
            *sum = sum.wrapping_add(difference);
            Some(*sum)
        })
        .collect()
}

pub(super) fn source_name(names: &mut NameCache, id: u32, load: LoadName<'_>) -> Option<SourceId> {
    match names.get(id, load)? {
        Name::Source(source) => Some(source.clone()),
        Name::Series(_) => None,
    }
}

pub(super) fn series_name(
    names: &mut NameCache,
    id: u64,
    load: LoadName<'_>,
) -> Option<Arc<Series>> {
    match names.get(u32::try_from(id).ok()?, load)? {
        Name::Series(series) => Some(Arc::clone(series)),
        Name::Source(_) => None,
    }
}
