//! The stored form of window results: columns of their own, after those of the
//! readings. Results come in bursts, one per series of a window, and their
//! neighbours share nearly everything but series and numbers.
//!
//! ```text
//! facts table (window, numbering, status, which aggregates of which kind) and each result's row in it
//!   series, seq, start, length, watermark, revision, counts, coverage: columns
//!   values: for each aggregate its reals, its integers, its wide integers
//! ```
//!
//! A frame without results has none of this, not even a byte.

use std::sync::Arc;

use super::codes;
use super::column::{Cursor, put_column, put_floats, put_varint, unzigzag, zigzag};
use super::dictionary::{Name, NameCache, NameWriter};
use super::frame::{Tails, coarsest_unit, differences};
use super::unframe::{LoadName, series_name, source_name, sums};
use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::reading::Entry;
use crate::core::time::{EventTime, IngestTime, MaxError, TimebaseId};
use crate::core::window::{Aggregate, Coverage, Number, ResultStatus, WindowResult};

// Bits besides the two of the status.
const CLOCK_STEP: u8 = 1 << 2;
const FLUSHED: u8 = 1 << 3;
const EXPECTED: u8 = 1 << 4;
const MAX_ERROR: u8 = 1 << 5;
const WATERMARK: u8 = 1 << 6;

// Kinds of values, in the two low bits; the aggregate is in the others.
const NOTHING: u8 = 0;
const INTEGER: u8 = 1;
/// An integer that 64 bits do not hold.
const WIDE: u8 = 2;
const REAL: u8 = 3;

fn kind_of(value: Option<Number>) -> u8 {
    match value {
        None => NOTHING,
        Some(Number::Int(n)) if i64::try_from(n).is_ok() => INTEGER,
        Some(Number::Int(_)) => WIDE,
        Some(Number::Real(_)) => REAL,
    }
}

fn shape_of(value: &(Aggregate, Option<Number>)) -> u8 {
    codes::aggregate_code(value.0) << 2 | kind_of(value.1)
}

fn flags_of(result: &WindowResult) -> u8 {
    let coverage = &result.coverage;
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    codes::status_code(result.status)
        | bit(coverage.clock_step, CLOCK_STEP)
        | bit(coverage.flushed, FLUSHED)
        | bit(coverage.expected.is_some(), EXPECTED)
        | bit(coverage.max_error.is_some(), MAX_ERROR)
        | bit(result.watermark.is_some(), WATERMARK)
}

/// Whether two results share their row of the facts table.
fn are_alike(a: &WindowResult, b: &WindowResult) -> bool {
    flags_of(a) == flags_of(b)
        && a.coverage.worst_clock == b.coverage.worst_clock
        && (a.version, a.timebase, a.epoch) == (b.version, b.timebase, b.epoch)
        && (&a.source, &a.window) == (&b.source, &b.window)
        && a.values.iter().map(shape_of).eq(b.values.iter().map(shape_of))
}

/// Appends the results among `entries`.
pub(super) fn put(entries: &[Entry], names: &mut NameWriter, out: &mut Vec<u8>) {
    let results: Vec<&WindowResult> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Window(result) => Some(result),
            _ => None,
        })
        .collect();
    if results.is_empty() {
        return;
    }
    let mut rows: Vec<(&WindowResult, u32)> = Vec::new();
    let mut places = Vec::with_capacity(results.len());
    for result in &results {
        let known = rows.iter().rposition(|(row, _)| are_alike(row, result));
        places.push(known.unwrap_or_else(|| {
            rows.push((result, names.source(&result.source)));
            rows.len() - 1
        }));
    }
    put_varint(out, rows.len() as u64);
    for (row, source) in &rows {
        let window = names.source(&SourceId::new(&row.window));
        put_row(row, *source, window, out);
    }
    let mut columns = Columns { out, scratch: Vec::new() };
    columns.put(places.iter().map(|place| *place as u64));
    let mut tails = Tails::default();
    columns.put(results.iter().zip(&places).map(|(result, place)| {
        let tail = tails.of(rows[*place].1, result.epoch);
        let last = std::mem::replace(tail, result.seq.0);
        zigzag(result.seq.0.wrapping_sub(last) as i64)
    }));
    let series = results.iter().map(|result| i64::from(names.series(&result.series)));
    columns.put(differences(series).map(zigzag));
    put_times(&results, &mut columns);
    put_coverage(&results, names, &mut columns);
    put_values(&results, &mut columns);
}

fn put_row(row: &WindowResult, source: u32, window: u32, out: &mut Vec<u8>) {
    put_varint(out, u64::from(source));
    put_varint(out, u64::from(window));
    put_varint(out, u64::from(row.epoch.number));
    put_varint(out, u64::from(row.epoch.nonce));
    put_varint(out, u64::from(row.version));
    put_varint(out, u64::from(row.timebase.0));
    out.push(flags_of(row));
    out.push(row.coverage.worst_clock.map_or(0, |state| codes::state_code(state) + 1));
    put_varint(out, row.values.len() as u64);
    out.extend(row.values.iter().map(shape_of));
}

struct Columns<'a> {
    out: &'a mut Vec<u8>,
    scratch: Vec<u64>,
}

impl Columns<'_> {
    fn put(&mut self, values: impl Iterator<Item = u64>) {
        self.scratch.clear();
        self.scratch.extend(values);
        put_column(self.out, &self.scratch);
    }

    /// Times or lengths in nanoseconds, as differences in their coarsest unit.
    fn put_times(&mut self, times: impl Iterator<Item = i64> + Clone) {
        let unit = coarsest_unit(times.clone());
        put_varint(self.out, unit as u64);
        self.put(differences(times.map(|time| time / unit)).map(zigzag));
    }
}

fn put_times(results: &[&WindowResult], columns: &mut Columns<'_>) {
    columns.put_times(results.iter().map(|r| r.start.unix_ns()));
    columns.put_times(results.iter().map(|r| r.end.unix_ns().wrapping_sub(r.start.unix_ns())));
    columns.put_times(results.iter().filter_map(|r| r.watermark).map(EventTime::unix_ns));
    columns.put_times(results.iter().map(|r| r.at.unix_ns()));
}

fn put_coverage(results: &[&WindowResult], names: &mut NameWriter, columns: &mut Columns<'_>) {
    let covered = || results.iter().map(|result| &result.coverage);
    columns.put(results.iter().map(|r| u64::from(r.revision)));
    columns.put(results.iter().map(|r| r.count));
    // Nearly always zero: as many were received as are aggregated.
    let more = |r: &&WindowResult| zigzag(r.coverage.received.wrapping_sub(r.count) as i64);
    columns.put(results.iter().map(more));
    columns.put(covered().filter_map(|coverage| coverage.expected));
    columns.put(covered().map(|coverage| coverage.duplicates));
    columns.put(covered().map(|coverage| coverage.bad));
    columns.put(covered().map(|coverage| coverage.uncertain));
    columns.put(covered().map(|coverage| coverage.adjusted));
    let errors = covered().filter_map(|coverage| coverage.max_error).map(|e| e.ns() as i64);
    columns.put(differences(errors).map(zigzag));
    columns.put(covered().map(|coverage| coverage.excluded_idle.len() as u64));
    let idle = covered().flat_map(|coverage| &coverage.excluded_idle);
    columns.put(idle.map(|source| u64::from(names.source(source))));
}

fn put_values(results: &[&WindowResult], columns: &mut Columns<'_>) {
    let mut reals = Vec::new();
    for (aggregate, _) in Aggregate::NAMES {
        let values = results.iter().flat_map(|result| &result.values);
        let numbers = values.filter(|(of, _)| *of == aggregate).filter_map(|(_, number)| *number);
        reals.clear();
        reals.extend(numbers.clone().filter_map(|number| match number {
            Number::Real(real) => Some(real),
            Number::Int(_) => None,
        }));
        put_floats(columns.out, &reals, &mut columns.scratch);
        let integers = numbers.filter_map(|number| match number {
            Number::Int(integer) => Some(integer),
            Number::Real(_) => None,
        });
        columns.put(integers.clone().filter_map(|n| i64::try_from(n).ok()).map(zigzag));
        for wide in integers.filter(|n| i64::try_from(*n).is_err()) {
            columns.out.extend_from_slice(&wide.to_le_bytes());
        }
    }
}

/// What results of a frame have in common.
struct Row {
    source: SourceId,
    source_number: u32,
    window: Arc<str>,
    epoch: Epoch,
    version: u32,
    timebase: TimebaseId,
    flags: u8,
    worst_clock: u8,
    shapes: Vec<u8>,
}

/// The inverse of [`put`], for a known number of results.
pub(super) fn take(
    cursor: &mut Cursor<'_>,
    count: usize,
    names: &mut NameCache,
    load: LoadName<'_>,
) -> Option<Vec<WindowResult>> {
    if count == 0 {
        return Some(Vec::new());
    }
    let rows_count = cursor.small().filter(|rows: &usize| *rows <= count)?;
    let mut rows = Vec::with_capacity(rows_count);
    for _ in 0..rows_count {
        rows.push(take_row(cursor, names, load)?);
    }
    let places = column(cursor, count)?;
    let rows: Option<Vec<&Row>> =
        places.iter().map(|place| rows.get(usize::try_from(*place).ok()?)).collect();
    let rows = rows?;
    let mut results = take_frame(cursor, &rows, names, load)?;
    take_times(cursor, &rows, &mut results)?;
    take_coverage(cursor, &rows, &mut results, names, load)?;
    take_values(cursor, &rows, &mut results)?;
    Some(results)
}

fn take_row(cursor: &mut Cursor<'_>, names: &mut NameCache, load: LoadName<'_>) -> Option<Row> {
    let source_number = cursor.small()?;
    let window = cursor.small()?;
    let epoch = Epoch { number: cursor.small()?, nonce: cursor.small()? };
    let (version, timebase) = (cursor.small()?, TimebaseId(cursor.small()?));
    let (flags, worst_clock) = (cursor.byte()?, cursor.byte()?);
    let shapes: usize = cursor.small()?;
    let shapes = cursor.take(shapes)?.to_vec();
    let source = source_name(names, source_number, load)?;
    let window = window_name(names, window, load)?;
    Some(Row {
        source,
        source_number,
        window,
        epoch,
        version,
        timebase,
        flags,
        worst_clock,
        shapes,
    })
}

fn column(cursor: &mut Cursor<'_>, count: usize) -> Option<Vec<u64>> {
    let mut values = Vec::new();
    cursor.column(count, &mut values)?;
    Some(values)
}

fn times(cursor: &mut Cursor<'_>, count: usize) -> Option<Vec<i64>> {
    let unit = i64::try_from(cursor.varint()?).ok()?;
    let times = sums(&column(cursor, count)?);
    Some(times.into_iter().map(|time| time.wrapping_mul(unit)).collect())
}

/// How many results have a part.
fn count_flag(rows: &[&Row], flag: u8) -> usize {
    rows.iter().filter(|row| row.flags & flag != 0).count()
}

/// The results by name, everything else still empty.
fn take_frame(
    cursor: &mut Cursor<'_>,
    rows: &[&Row],
    names: &mut NameCache,
    load: LoadName<'_>,
) -> Option<Vec<WindowResult>> {
    let seqs = column(cursor, rows.len())?;
    let series = sums(&column(cursor, rows.len())?);
    let mut tails = Tails::default();
    let mut results = Vec::with_capacity(rows.len());
    for ((row, seq), series) in rows.iter().zip(seqs).zip(series) {
        let tail = tails.of(row.source_number, row.epoch);
        *tail = tail.wrapping_add_signed(unzigzag(seq));
        let flag = |bit: u8| row.flags & bit != 0;
        let worst_clock = match row.worst_clock {
            0 => None,
            stored => Some(codes::state_of(stored - 1)?),
        };
        let status: ResultStatus = codes::status_of(row.flags & 3)?;
        results.push(WindowResult {
            source: row.source.clone(),
            epoch: row.epoch,
            seq: Seq(*tail),
            window: Arc::clone(&row.window),
            version: row.version,
            series: series_name(names, series as u64, load)?,
            start: EventTime::from_unix_ns(0),
            end: EventTime::from_unix_ns(0),
            timebase: row.timebase,
            revision: 0,
            status,
            count: 0,
            values: Vec::new(),
            watermark: None,
            coverage: Coverage {
                worst_clock,
                clock_step: flag(CLOCK_STEP),
                flushed: flag(FLUSHED),
                ..Coverage::default()
            },
            at: IngestTime::default(),
        });
    }
    Some(results)
}

fn take_times(cursor: &mut Cursor<'_>, rows: &[&Row], results: &mut [WindowResult]) -> Option<()> {
    let starts = times(cursor, rows.len())?;
    let lengths = times(cursor, rows.len())?;
    let mut watermarks = times(cursor, count_flag(rows, WATERMARK))?.into_iter();
    let at = times(cursor, rows.len())?;
    for (i, (row, result)) in rows.iter().zip(results).enumerate() {
        result.start = EventTime::from_unix_ns(starts[i]);
        result.end = EventTime::from_unix_ns(starts[i].wrapping_add(lengths[i]));
        if row.flags & WATERMARK != 0 {
            result.watermark = Some(EventTime::from_unix_ns(watermarks.next()?));
        }
        result.at = IngestTime::from_unix_ns(at[i]);
    }
    Some(())
}

fn take_coverage(
    cursor: &mut Cursor<'_>,
    rows: &[&Row],
    results: &mut [WindowResult],
    names: &mut NameCache,
    load: LoadName<'_>,
) -> Option<()> {
    let revisions = column(cursor, rows.len())?;
    let counts = column(cursor, rows.len())?;
    let received = column(cursor, rows.len())?;
    let mut expected = column(cursor, count_flag(rows, EXPECTED))?.into_iter();
    let duplicates = column(cursor, rows.len())?;
    let bad = column(cursor, rows.len())?;
    let uncertain = column(cursor, rows.len())?;
    let adjusted = column(cursor, rows.len())?;
    let mut errors = sums(&column(cursor, count_flag(rows, MAX_ERROR))?).into_iter();
    let idle = column(cursor, rows.len())?;
    // Each takes a byte at least, unless they are equal; a source is idle once.
    let idle_count = idle.iter().try_fold(0_u64, |sum, idle| sum.checked_add(*idle))?;
    let idle_count = usize::try_from(idle_count).ok().filter(|count| *count <= IDLE_MAX)?;
    let mut idle_names = column(cursor, idle_count)?.into_iter();
    for (i, (row, result)) in rows.iter().zip(results).enumerate() {
        result.revision = u32::try_from(revisions[i]).ok()?;
        result.count = counts[i];
        let coverage = &mut result.coverage;
        coverage.received = counts[i].wrapping_add_signed(unzigzag(received[i]));
        if row.flags & EXPECTED != 0 {
            coverage.expected = Some(expected.next()?);
        }
        coverage.duplicates = duplicates[i];
        coverage.bad = bad[i];
        coverage.uncertain = uncertain[i];
        coverage.adjusted = adjusted[i];
        if row.flags & MAX_ERROR != 0 {
            coverage.max_error = Some(MaxError::from_ns(errors.next()? as u64));
        }
        for _ in 0..idle[i] {
            let number = u32::try_from(idle_names.next()?).ok()?;
            coverage.excluded_idle.push(source_name(names, number, load)?);
        }
    }
    Some(())
}

/// Idle sources named in one frame: every source of a configuration in every
/// result. More can only come from damaged bytes.
const IDLE_MAX: usize = crate::core::limits::FRAME_READINGS_MAX * crate::core::limits::SOURCES_MAX;

fn take_values(cursor: &mut Cursor<'_>, rows: &[&Row], results: &mut [WindowResult]) -> Option<()> {
    // Filled place by place: a column holds one aggregate of all results.
    for (row, result) in rows.iter().zip(results.iter_mut()) {
        for shape in &row.shapes {
            result.values.push((codes::aggregate_of(shape >> 2)?, None));
        }
    }
    let mut scratch = Vec::new();
    for (aggregate, _) in Aggregate::NAMES {
        let code = codes::aggregate_code(aggregate) << 2;
        let count = |kind: u8| {
            let shapes = rows.iter().flat_map(|row| &row.shapes);
            shapes.filter(|shape| **shape == code | kind).count()
        };
        let mut reals = cursor.floats(count(REAL), &mut scratch)?.into_iter();
        let mut integers = column(cursor, count(INTEGER))?.into_iter();
        for (row, result) in rows.iter().zip(results.iter_mut()) {
            for (shape, value) in row.shapes.iter().zip(&mut result.values) {
                if shape & !3 != code {
                    continue;
                }
                value.1 = match shape & 3 {
                    REAL => Some(Number::Real(reals.next()?)),
                    INTEGER => Some(Number::Int(i128::from(unzigzag(integers.next()?)))),
                    WIDE => {
                        let bytes = cursor.take(size_of::<i128>())?.try_into().ok()?;
                        Some(Number::Int(i128::from_le_bytes(bytes)))
                    }
                    _ => None,
                };
            }
        }
    }
    Some(())
}

/// The name of a window, by its number.
pub(super) fn window_name(names: &mut NameCache, id: u32, load: LoadName<'_>) -> Option<Arc<str>> {
    match names.get(id, load)? {
        Name::Source(name) => Some(Arc::from(name.as_str())),
        Name::Series(_) => None,
    }
}
