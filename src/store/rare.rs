//! The stored forms of entries that are not readings: gap records, corrections,
//! clock events. They are rare, so each is stored by itself, after the columns.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::codes;
use super::column::Cursor;
use crate::core::clock::{ClockEvent, Correction};
use crate::core::id::{BootId, Epoch, Seq, SourceId};
use crate::core::reading::{Entry, GapRecord};
use crate::core::time::{EventTime, IngestTime, MaxError, Span, TimebaseId, Uptime};

/// Kinds of entries in a frame's first column. Never reuse one.
pub(super) const READING: u64 = 0;
const GAP: u64 = 1;
const CORRECTION: u64 = 2;
const CLOCK: u64 = 3;

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
    /// Nanoseconds or parts per million, as the kind wants it.
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

/// The number of the entry's kind.
pub(super) const fn kind_of(entry: &Entry) -> u64 {
    match entry {
        Entry::Reading(_) => READING,
        Entry::Gap(_) => GAP,
        Entry::Correction(_) => CORRECTION,
        Entry::Clock(_) => CLOCK,
    }
}

/// Appends an entry that is not a reading; `source` is the number of its
/// source's name.
pub(super) fn put(entry: &Entry, source: u32, out: &mut Vec<u8>) {
    // Serialising plain numbers into memory has no way to fail.
    let stored = match entry {
        Entry::Reading(_) => return,
        Entry::Gap(gap) => postcard::to_stdvec(&stored_gap(gap, source)),
        Entry::Correction(correction) => {
            postcard::to_stdvec(&stored_correction(correction, source))
        }
        Entry::Clock(event) => postcard::to_stdvec(&stored_clock_event(event, source)),
    };
    if let Ok(bytes) = stored {
        out.extend_from_slice(&bytes);
    }
}

/// The inverse of [`put`] for an entry of that kind; `name` finds a source.
pub(super) fn take(
    cursor: &mut Cursor<'_>,
    kind: u64,
    mut name: impl FnMut(u32) -> Option<SourceId>,
) -> Option<Entry> {
    match kind {
        GAP => {
            let stored: StoredGap = take_one(cursor)?;
            let source = name(stored.source)?;
            gap(&stored, source).map(Entry::Gap)
        }
        CORRECTION => {
            let stored: StoredCorrection = take_one(cursor)?;
            let source = name(stored.source)?;
            Some(Entry::Correction(correction(&stored, source)))
        }
        CLOCK => {
            let stored: StoredClockEvent = take_one(cursor)?;
            let source = name(stored.source)?;
            clock_event(&stored, source).map(Entry::Clock)
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
