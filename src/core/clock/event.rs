//! What happened to the wall clock, as a record that goes up like a reading.

use super::{ClockSource, ClockState};
use crate::core::id::{BootId, SourceId};
use crate::core::time::{IngestTime, MaxError, Span, TimebaseId, Uptime};

/// The source of clock events. No configured source can have a colon.
pub const CLOCK_SOURCE: &str = "gateway:clock";

/// What happened to the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockEventKind {
    /// The machine started.
    Boot,
    /// The wall clock jumped; positive: forward.
    Step(Span),
    /// A leap second: −1 s when one was inserted, +1 s when one was left out.
    Leap(Span),
    /// The machine slept for this long.
    Suspend(Span),
    /// The agent did not run for this long.
    Stall(Span),
    /// A daemon steers the clock by more than 500 parts per million.
    FastSlew {
        /// Parts per million; positive: the clock runs faster than its crystal.
        ppm: i32,
    },
    /// The state changed without a step.
    State,
    /// An operator set or vouched for the clock.
    Vouched,
}

impl ClockEventKind {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClockEventKind::Boot => "boot",
            ClockEventKind::Step(_) => "step",
            ClockEventKind::Leap(_) => "leap",
            ClockEventKind::Suspend(_) => "suspend",
            ClockEventKind::Stall(_) => "stall",
            ClockEventKind::FastSlew { .. } => "fast_slew",
            ClockEventKind::State => "state",
            ClockEventKind::Vouched => "vouched",
        }
    }

    /// By how much, where the kind has a length.
    pub const fn delta(self) -> Option<Span> {
        match self {
            ClockEventKind::Step(by)
            | ClockEventKind::Leap(by)
            | ClockEventKind::Suspend(by)
            | ClockEventKind::Stall(by) => Some(by),
            _ => None,
        }
    }
}

/// One event, with the clock before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockEvent {
    /// Always [`CLOCK_SOURCE`].
    pub source: SourceId,
    /// What happened.
    pub kind: ClockEventKind,
    /// The boot it happened in.
    pub boot: BootId,
    /// When, on the crystal; with `boot` it names the event.
    pub uptime: Uptime,
    /// The timebase from here on.
    pub timebase: TimebaseId,
    /// Wall time just after, as read.
    pub at: IngestTime,
    /// How far the clock was trusted before.
    pub state_before: ClockState,
    /// How far it is trusted now.
    pub state: ClockState,
    /// What disciplines it now.
    pub clock: ClockSource,
    /// Bound on |clock − UTC| now.
    pub max_error: Option<MaxError>,
}
