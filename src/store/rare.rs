//! The stored forms of entries that are neither readings nor results: gap
//! records, corrections, clock events, idle marks; and what a late reading has
//! besides the reading. They are rare, so each is stored by itself, after the
//! columns.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::codes;
use super::column::Cursor;
use super::dictionary::{NameCache, NameWriter};
use super::results::window_name;
use super::unframe::{LoadName, source_name};
use crate::core::clock::{ClockEvent, Correction};
use crate::core::id::{BootId, Epoch, Seq, SourceId};
use crate::core::reading::{Entry, GapRecord, IdleMark, Record};
use crate::core::time::{EventTime, IngestTime, MaxError, Span, TimebaseId, Uptime};
use crate::core::window::LateReading;

/// Kinds of entries in a frame's first column. Never reuse one.
const READING: u64 = 0;
const GAP: u64 = 1;
const CORRECTION: u64 = 2;
const CLOCK: u64 = 3;
pub(super) const WINDOW: u64 = 4;
const LATE: u64 = 5;
const RETIMED: u64 = 6;
const IDLE: u64 = 7;

/// Whether an entry of that kind has a row in the columns of the readings.
pub(super) const fn has_record(kind: u64) -> bool {
    matches!(kind, READING | LATE | RETIMED)
}

#[derive(Serialize, Deserialize)]
struct StoredGap {
    /// Number of the source's name, here and below.
    source: u32,
    epoch: (u32, u32),
    first_seq: u64,
    last_seq: Option<u64>,
    reason: u8,
    first_event_time: Option<i64>,
    last_event_time: Option<i64>,
    at: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredCorrection {
    source: u32,
    epoch: (u32, u32),
    first_seq: u64,
    last_seq: u64,
    boot: [u8; 16],
    timebase: u32,
    shift_ns: i64,
    max_error_ns: u64,
    at: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredClockEvent {
    source: u32,
    kind: u8,
    /// Nanoseconds or parts per million, depending on the kind.
    amount: i64,
    boot: [u8; 16],
    uptime_ns: u64,
    timebase: u32,
    at: i64,
    state_before: u8,
    state: u8,
    clock: u8,
    max_error_ns: Option<u64>,
}

/// What a late reading has besides the reading.
#[derive(Serialize, Deserialize)]
struct StoredLate {
    /// Number of the window's name.
    window: u32,
    version: u32,
    reason: u8,
    watermark: Option<i64>,
    window_end: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct StoredIdle {
    source: u32,
    uptime_ns: u64,
    window: Option<u32>,
    flush: bool,
}

/// The number of the entry's kind.
pub(super) const fn kind_of(entry: &Entry) -> u64 {
    match entry {
        Entry::Reading(_) => READING,
        Entry::Gap(_) => GAP,
        Entry::Correction(_) => CORRECTION,
        Entry::Clock(_) => CLOCK,
        Entry::Window(_) => WINDOW,
        Entry::Late(_) => LATE,
        Entry::Retimed(_) => RETIMED,
        Entry::Idle(_) => IDLE,
    }
}

/// Appends the part of an entry that is not in a column.
pub(super) fn put(entry: &Entry, names: &mut NameWriter, out: &mut Vec<u8>) {
    // Serialising plain numbers into memory has no way to fail.
    let stored = match entry {
        Entry::Reading(_) | Entry::Retimed(_) | Entry::Window(_) => return,
        Entry::Gap(gap) => postcard::to_stdvec(&stored_gap(gap, names.source(&gap.source))),
        Entry::Correction(correction) => {
            let source = names.source(&correction.source);
            postcard::to_stdvec(&stored_correction(correction, source))
        }
        Entry::Clock(event) => {
            postcard::to_stdvec(&stored_clock_event(event, names.source(&event.source)))
        }
        Entry::Late(late) => postcard::to_stdvec(&StoredLate {
            window: names.source(&SourceId::new(&late.window)),
            version: late.version,
            reason: codes::late_code(late.reason),
            watermark: late.watermark.map(EventTime::unix_ns),
            window_end: late.window_end.map(EventTime::unix_ns),
        }),
        Entry::Idle(mark) => postcard::to_stdvec(&StoredIdle {
            source: names.source(&mark.source),
            uptime_ns: mark.at.ns(),
            window: mark.window.as_deref().map(|window| names.source(&SourceId::new(window))),
            flush: mark.flush,
        }),
    };
    if let Ok(bytes) = stored {
        out.extend_from_slice(&bytes);
    }
}

/// The inverse of [`put`] for an entry of that kind.
pub(super) fn take(
    cursor: &mut Cursor<'_>,
    kind: u64,
    names: &mut NameCache,
    load: LoadName<'_>,
) -> Option<Entry> {
    match kind {
        GAP => {
            let stored: StoredGap = take_one(cursor)?;
            let source = source_name(names, stored.source, load)?;
            gap(&stored, source).map(Entry::Gap)
        }
        CORRECTION => {
            let stored: StoredCorrection = take_one(cursor)?;
            let source = source_name(names, stored.source, load)?;
            Some(Entry::Correction(correction(&stored, source)))
        }
        CLOCK => {
            let stored: StoredClockEvent = take_one(cursor)?;
            let source = source_name(names, stored.source, load)?;
            clock_event(&stored, source).map(Entry::Clock)
        }
        IDLE => {
            let stored: StoredIdle = take_one(cursor)?;
            let window = match stored.window {
                Some(window) => Some(window_name(names, window, load)?),
                None => None,
            };
            Some(Entry::Idle(IdleMark {
                source: source_name(names, stored.source, load)?,
                at: Uptime::from_ns(stored.uptime_ns),
                window,
                flush: stored.flush,
            }))
        }
        _ => None,
    }
}

/// The entry of that kind around a record from the columns.
pub(super) fn take_with(
    cursor: &mut Cursor<'_>,
    kind: u64,
    record: Record,
    names: &mut NameCache,
    load: LoadName<'_>,
) -> Option<Entry> {
    match kind {
        READING => Some(Entry::Reading(record)),
        RETIMED => Some(Entry::Retimed(record)),
        LATE => {
            let stored: StoredLate = take_one(cursor)?;
            Some(Entry::Late(LateReading {
                window: window_name(names, stored.window, load)?,
                version: stored.version,
                record,
                reason: codes::late_of(stored.reason)?,
                watermark: stored.watermark.map(EventTime::from_unix_ns),
                window_end: stored.window_end.map(EventTime::from_unix_ns),
            }))
        }
        _ => None,
    }
}

fn take_one<T: DeserializeOwned>(cursor: &mut Cursor<'_>) -> Option<T> {
    let (stored, rest) = postcard::take_from_bytes(cursor.rest()).ok()?;
    let taken = cursor.rest().len() - rest.len();
    cursor.take(taken)?;
    Some(stored)
}

fn stored_gap(gap: &GapRecord, source: u32) -> StoredGap {
    StoredGap {
        source,
        epoch: (gap.epoch.number, gap.epoch.nonce),
        first_seq: gap.first_seq.0,
        last_seq: gap.last_seq.map(|seq| seq.0),
        reason: codes::reason_code(gap.reason),
        first_event_time: gap.first_event_time.map(EventTime::unix_ns),
        last_event_time: gap.last_event_time.map(EventTime::unix_ns),
        at: gap.at.unix_ns(),
    }
}

fn gap(stored: &StoredGap, source: SourceId) -> Option<GapRecord> {
    Some(GapRecord {
        source,
        epoch: Epoch { number: stored.epoch.0, nonce: stored.epoch.1 },
        first_seq: Seq(stored.first_seq),
        last_seq: stored.last_seq.map(Seq),
        reason: codes::reason_of(stored.reason)?,
        first_event_time: stored.first_event_time.map(EventTime::from_unix_ns),
        last_event_time: stored.last_event_time.map(EventTime::from_unix_ns),
        at: IngestTime::from_unix_ns(stored.at),
    })
}

fn stored_correction(correction: &Correction, source: u32) -> StoredCorrection {
    StoredCorrection {
        source,
        epoch: (correction.epoch.number, correction.epoch.nonce),
        first_seq: correction.first_seq.0,
        last_seq: correction.last_seq.0,
        boot: correction.boot.0,
        timebase: correction.timebase.0,
        shift_ns: correction.shift.ns(),
        max_error_ns: correction.max_error.ns(),
        at: correction.at.unix_ns(),
    }
}

fn correction(stored: &StoredCorrection, source: SourceId) -> Correction {
    Correction {
        source,
        epoch: Epoch { number: stored.epoch.0, nonce: stored.epoch.1 },
        first_seq: Seq(stored.first_seq),
        last_seq: Seq(stored.last_seq),
        boot: BootId(stored.boot),
        timebase: TimebaseId(stored.timebase),
        shift: Span::from_ns(stored.shift_ns),
        max_error: MaxError::from_ns(stored.max_error_ns),
        at: IngestTime::from_unix_ns(stored.at),
    }
}

fn stored_clock_event(event: &ClockEvent, source: u32) -> StoredClockEvent {
    let (kind, amount) = codes::event_code(event.kind);
    StoredClockEvent {
        source,
        kind,
        amount,
        boot: event.boot.0,
        uptime_ns: event.uptime.ns(),
        timebase: event.timebase.0,
        at: event.at.unix_ns(),
        state_before: codes::state_code(event.state_before),
        state: codes::state_code(event.state),
        clock: codes::clock_code(event.clock),
        max_error_ns: event.max_error.map(MaxError::ns),
    }
}

fn clock_event(stored: &StoredClockEvent, source: SourceId) -> Option<ClockEvent> {
    Some(ClockEvent {
        source,
        kind: codes::event_of(stored.kind, stored.amount)?,
        boot: BootId(stored.boot),
        uptime: Uptime::from_ns(stored.uptime_ns),
        timebase: TimebaseId(stored.timebase),
        at: IngestTime::from_unix_ns(stored.at),
        state_before: codes::state_of(stored.state_before)?,
        state: codes::state_of(stored.state)?,
        clock: codes::clock_of(stored.clock)?,
        max_error: stored.max_error_ns.map(MaxError::from_ns),
    })
}
