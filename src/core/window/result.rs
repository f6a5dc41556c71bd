//! The output of a window: results, and the readings that came too late for it.

use std::sync::Arc;

use super::Aggregate;
use crate::core::clock::ClockState;
use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::reading::{Record, Series};
use crate::core::time::{EventTime, IngestTime, MaxError, TimebaseId};

/// One firing of one window of one series. `(gateway, window, version, entity,
/// property, timebase, start, end)` names it, `revision` orders its values; a consumer that
/// keeps the highest revision is right, whatever comes twice or out of order.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowResult {
    /// `window:NAME`.
    pub source: SourceId,
    /// The numbering that `seq` belongs to.
    pub epoch: Epoch,
    /// Its number among this window's results.
    pub seq: Seq,
    /// The window's name.
    pub window: Arc<str>,
    /// The window's version.
    pub version: u32,
    /// Whose readings.
    pub series: Arc<Series>,
    /// First instant that belongs to it.
    pub start: EventTime,
    /// First instant that does not.
    pub end: EventTime,
    /// The timebase of the gateway-stamped readings in it; 0 where only devices
    /// stamped.
    pub timebase: TimebaseId,
    /// Counts the firings of this window: 1, 2, 3 …
    pub revision: u32,
    /// Whether it can still change.
    pub status: ResultStatus,
    /// Readings aggregated.
    pub count: u64,
    /// What was asked for, in that order; `None` where it is not defined (the
    /// standard deviation of one reading).
    pub values: Vec<(Aggregate, Option<Number>)>,
    /// The watermark at the firing; `None` when there was none yet.
    pub watermark: Option<EventTime>,
    /// What the numbers rest on.
    pub coverage: Coverage,
    /// When it was computed, by the gateway's clock.
    pub at: IngestTime,
}

/// A number of a result: integers keep every digit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A sum, extreme or end value of integers.
    Int(i128),
    /// Anything else.
    Real(f64),
}

/// Whether a result can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultStatus {
    /// Late readings may still revise it.
    Provisional,
    /// Its state is dropped: the last revision once more.
    Final,
    /// A session that a larger one swallowed: forget it.
    Retracted,
}

impl ResultStatus {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ResultStatus::Provisional => "provisional",
            ResultStatus::Final => "final",
            ResultStatus::Retracted => "retracted",
        }
    }
}

/// What a result rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Readings expected by `expected_interval`, where one is set.
    pub expected: Option<u64>,
    /// Readings that came, those of bad quality included.
    pub received: u64,
    /// Repeats that were dropped by the window itself: those of a trace in
    /// `tidegate replay`. In the agent 0: repeats are dropped at their source,
    /// before a window sees them, and are counted there.
    pub duplicates: u64,
    /// Readings of bad quality: counted, not aggregated.
    pub bad: u64,
    /// Readings of uncertain quality: aggregated.
    pub uncertain: u64,
    /// Readings whose event time was moved (policy `adjust`).
    pub adjusted: u64,
    /// Sources that were silent and so not waited for.
    pub excluded_idle: Vec<SourceId>,
    /// The worst clock among the readings.
    pub worst_clock: Option<ClockState>,
    /// The greatest error bound among them; `None` where one had none.
    pub max_error: Option<MaxError>,
    /// It was closed because the gateway's clock stepped back.
    pub clock_step: bool,
    /// It was fired by `idle_flush`.
    pub flushed: bool,
}

/// A reading that came after its window's state was dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct LateReading {
    /// The window's name.
    pub window: Arc<str>,
    /// The window's version.
    pub version: u32,
    /// The reading.
    pub record: Record,
    /// Why.
    pub reason: LateReason,
    /// The watermark that it was behind.
    pub watermark: Option<EventTime>,
    /// End of the last window that it would have belonged to, where there is one.
    pub window_end: Option<EventTime>,
}

/// Why a reading is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateReason {
    /// Past the allowed lateness (or the grace) of all of its windows.
    TooLate,
}

impl LateReason {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            LateReason::TooLate => "too_late",
        }
    }
}
