//! What many readings of a frame have in common: source, numbering, boot, clock,
//! quality, and which optional parts they carry. A frame lists each combination
//! once; its readings point to it.

use super::codes;
use super::column::{Cursor, put_varint, unzigzag, zigzag};
use crate::core::clock::{ClockSource, ClockState};
use crate::core::id::{BootId, Epoch};
use crate::core::reading::{Flags, Origin, Quality, Record, Value};
use crate::core::time::TimebaseId;

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Number of the source's name.
    pub(super) source: u32,
    pub(super) epoch: Epoch,
    pub(super) boot: BootId,
    pub(super) timebase: TimebaseId,
    pub(super) clock: ClockSource,
    pub(super) state: ClockState,
    pub(super) origin: Origin,
    pub(super) quality: Quality,
    pub(super) flags: Flags,
    pub(super) utc_offset_s: Option<i32>,
    pub(super) shape: Shape,
}

/// Kind of the value and which optional parts are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape(u8);

/// Kinds of [`Value`], by their stored number.
pub(super) const F64: u8 = 0;
pub(super) const I64: u8 = 1;
pub(super) const U64: u8 = 2;
pub(super) const BOOL: u8 = 3;
pub(super) const TEXT: u8 = 4;
pub(super) const COMPOSITE: u8 = 5;

impl Shape {
    pub(super) const MAX_ERROR: u8 = 1 << 3;
    pub(super) const FIRST_EVENT_TIME: u8 = 1 << 4;
    pub(super) const DETAIL: u8 = 1 << 5;
    pub(super) const ID: u8 = 1 << 6;

    fn of(record: &Record) -> Self {
        let kind = match record.value {
            Value::F64(_) => F64,
            Value::I64(_) => I64,
            Value::U64(_) => U64,
            Value::Bool(_) => BOOL,
            Value::Text(_) => TEXT,
            Value::Composite(_) => COMPOSITE,
        };
        let part = |is_there: bool, bit: u8| if is_there { bit } else { 0 };
        Self(
            kind | part(record.stamp.max_error.is_some(), Self::MAX_ERROR)
                | part(record.stamp.first_event_time.is_some(), Self::FIRST_EVENT_TIME)
                | part(record.quality_detail.is_some(), Self::DETAIL)
                | part(record.id.is_some(), Self::ID),
        )
    }

    pub(super) const fn kind(self) -> u8 {
        self.0 & 7
    }

    pub(super) const fn has(self, part: u8) -> bool {
        self.0 & part != 0
    }
}

impl Facts {
    pub(super) fn of(record: &Record, source: u32) -> Self {
        let stamp = &record.stamp;
        Self {
            source,
            epoch: record.epoch,
            boot: stamp.boot,
            timebase: stamp.timebase,
            clock: stamp.clock,
            state: stamp.state,
            origin: stamp.origin,
            quality: record.quality,
            flags: stamp.flags,
            utc_offset_s: stamp.utc_offset_s,
            shape: Shape::of(record),
        }
    }
}

/// The combinations of a frame in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct FactsTable {
    rows: Vec<Facts>,
    last: usize,
}

impl FactsTable {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.last = 0;
    }

    pub(super) fn rows(&self) -> &[Facts] {
        &self.rows
    }

    /// The place of a combination in the table. Neighbours are alike, and polled sources
    /// take turns: it is nearly always the last one used, or the one after that.
    pub(super) fn place(&mut self, facts: Facts) -> usize {
        let guesses = [self.last, (self.last + 1) % self.rows.len().max(1)];
        let found = guesses
            .into_iter()
            .find(|place| self.rows.get(*place) == Some(&facts))
            .or_else(|| self.rows.iter().position(|row| *row == facts));
        self.last = found.unwrap_or_else(|| {
            self.rows.push(facts);
            self.rows.len() - 1
        });
        self.last
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let boots = distinct(self.rows.iter().map(|row| row.boot));
        let epochs = distinct(self.rows.iter().map(|row| row.epoch));
        put_varint(out, boots.len() as u64);
        boots.iter().for_each(|boot| out.extend_from_slice(&boot.0));
        put_varint(out, epochs.len() as u64);
        for epoch in &epochs {
            put_varint(out, u64::from(epoch.number));
            put_varint(out, u64::from(epoch.nonce));
        }
        put_varint(out, self.rows.len() as u64);
        for row in &self.rows {
            put_varint(out, u64::from(row.source));
            put_varint(out, place_in(&boots, &row.boot));
            put_varint(out, place_in(&epochs, &row.epoch));
            put_varint(out, u64::from(row.timebase.0));
            out.push(codes::clock_code(row.clock) << 4 | codes::state_code(row.state));
            out.push(codes::origin_code(row.origin) << 4 | codes::quality_code(row.quality));
            put_varint(out, u64::from(row.flags.bits()));
            put_varint(out, row.utc_offset_s.map_or(0, |s| zigzag(i64::from(s)) + 1));
            out.push(row.shape.0);
        }
    }
}

/// The inverse of [`FactsTable::encode`].
pub(super) fn decode(cursor: &mut Cursor<'_>, rows_max: usize) -> Option<Vec<Facts>> {
    let count = |cursor: &mut Cursor<'_>| cursor.small().filter(|count| *count <= rows_max);
    let mut boots = Vec::new();
    for _ in 0..count(cursor)? {
        boots.push(BootId(cursor.take(16)?.try_into().ok()?));
    }
    let mut epochs = Vec::new();
    for _ in 0..count(cursor)? {
        epochs.push(Epoch { number: cursor.small()?, nonce: cursor.small()? });
    }
    let mut rows = Vec::new();
    for _ in 0..count(cursor)? {
        rows.push(decode_row(cursor, &boots, &epochs)?);
    }
    Some(rows)
}

fn decode_row(cursor: &mut Cursor<'_>, boots: &[BootId], epochs: &[Epoch]) -> Option<Facts> {
    let source = cursor.small()?;
    let boot = *boots.get(cursor.small::<usize>()?)?;
    let epoch = *epochs.get(cursor.small::<usize>()?)?;
    let timebase = TimebaseId(cursor.small()?);
    let clock = cursor.byte()?;
    let origin = cursor.byte()?;
    let flags = Flags::from_bits(cursor.small()?);
    let utc_offset_s = match cursor.varint()? {
        0 => None,
        stored => Some(i32::try_from(unzigzag(stored - 1)).ok()?),
    };
    let shape = Shape(cursor.byte()?);
    if shape.kind() > COMPOSITE {
        return None;
    }
    Some(Facts {
        source,
        epoch,
        boot,
        timebase,
        clock: codes::clock_of(clock >> 4)?,
        state: codes::state_of(clock & 15)?,
        origin: codes::origin_of(origin >> 4)?,
        quality: codes::quality_of(origin & 15)?,
        flags,
        utc_offset_s,
        shape,
    })
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

fn place_in<T: PartialEq>(values: &[T], value: &T) -> u64 {
    values.iter().position(|known| known == value).unwrap_or_default() as u64
}
