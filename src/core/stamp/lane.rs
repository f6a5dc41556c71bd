//! What a stamp is worth to the event time of a consumer upstream, by the strict
//! rule: which readings move a watermark, and where the others go. The windows on
//! site ask for less, so that devices whose own error is not known move them too
//! ([`crate::core::window::entry`]). The agent itself asks nothing here: this is the
//! rule that a consumer upstream may apply, and the conformance vectors check it.
//!
//! One stamp in the future must not close every window, and a clock that is
//! wrong must not make the readings of right ones late. So a watermark is moved only by
//! times that are known well, and never past the arrival by a clock other than the one
//! that stamped.

use crate::core::clock::ClockState;
use crate::core::reading::{Flags, Origin, Stamp};
use crate::core::time::{EventTime, IngestTime, MaxError, Span};

/// A reading known less well than this moves no watermark.
pub const ERROR_MAX: MaxError = MaxError::from_ns(1_000_000_000);

/// Where a reading goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampLane {
    /// It is judged for lateness and moves the watermark.
    Main,
    /// It is judged for lateness and does not move the watermark.
    MainNoWatermark,
    /// It waits for a better time; it is not judged late.
    Unsynchronized,
    /// Its time is from the future: no window sees it.
    Quarantine,
}

impl StampLane {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            StampLane::Main => "main",
            StampLane::MainNoWatermark => "main_no_wm",
            StampLane::Unsynchronized => "unsync",
            StampLane::Quarantine => "quarantine",
        }
    }
}

/// The lane of a stamp that arrived at `arrival`. The arrival is best taken from a clock
/// other than the one that stamped; `arrival_error` bounds that clock's error.
pub fn lane(stamp: &Stamp, arrival: IngestTime, arrival_error: MaxError) -> StampLane {
    let is_device = matches!(stamp.origin, Origin::Device | Origin::DeviceCorrected);
    // Where the gateway's time was used instead, the flags are about the device's time.
    let flags = if is_device { stamp.flags } else { Flags::NONE };
    let bounded = stamp.max_error.filter(|error| *error <= ERROR_MAX);
    let is_known = stamp.state.is_trusted()
        && bounded.is_some_and(|error| {
            let slack = u128::from(arrival_error.ns()) + u128::from(error.ns());
            i128::from(stamp.event_time.unix_ns()) - i128::from(arrival.unix_ns())
                <= i128::try_from(slack).unwrap_or(i128::MAX)
        });
    if flags.has(Flags::FUTURE) {
        StampLane::Quarantine
    } else if is_known && !flags.intersects(Flags::PAST.with(Flags::DEVICE_UNSYNC)) {
        StampLane::Main
    } else if matches!(stamp.state, ClockState::Unsynchronized | ClockState::Stepped) {
        StampLane::Unsynchronized
    } else {
        StampLane::MainNoWatermark
    }
}

/// The watermark after a stamp of [`StampLane::Main`]: `bound` behind the earliest
/// instant that it can be from, and never backwards. Flink's convention: an
/// event at the watermark itself is no longer expected.
pub fn watermark(
    before: Option<EventTime>,
    stamp: &Stamp,
    arrival: IngestTime,
    bound: Span,
) -> EventTime {
    let error_ns = stamp.max_error.map_or(0, |error| error.ns());
    let error = Span::from_ns(i64::try_from(error_ns).unwrap_or(i64::MAX));
    let seen = (stamp.event_time - error).min(arrival.as_event_time());
    let watermark = seen - bound - Span::from_millis(1);
    before.map_or(watermark, |before| before.max(watermark))
}
