//! The fixed numbers by which enums of the core are stored. A number is never
//! given a second meaning; renaming a variant of the core changes nothing here.

use crate::core::clock::{ClockEventKind, ClockSource, ClockState};
use crate::core::reading::{GapReason, Origin, Quality};
use crate::core::time::Span;
use crate::core::window::{Aggregate, LateReason, ResultStatus};

/// Declares both directions of one mapping.
macro_rules! codes {
    ($to:ident, $from:ident, $kind:ident, $($variant:ident = $code:literal),+ $(,)?) => {
        pub(super) const fn $to(value: $kind) -> u8 {
            match value { $($kind::$variant => $code),+ }
        }
        pub(super) const fn $from(code: u8) -> Option<$kind> {
            match code { $($code => Some($kind::$variant),)+ _ => None }
        }
    };
}

codes!(
    origin_code,
    origin_of,
    Origin,
    Device = 0,
    DeviceCorrected = 1,
    Gateway = 2,
    Restamped = 3,
    Substituted = 4,
    Bounded = 5,
    Unknown = 6
);
codes!(quality_code, quality_of, Quality, Good = 0, Uncertain = 1, Bad = 2);
codes!(
    clock_code,
    clock_of,
    ClockSource,
    Gnss = 0,
    Ptp = 1,
    Ntp = 2,
    Rtc = 3,
    Manual = 4,
    FreeRunning = 5,
    Saved = 6,
    Unknown = 7
);
codes!(
    state_code,
    state_of,
    ClockState,
    Synchronized = 0,
    Holdover = 1,
    Stepped = 2,
    Unsynchronized = 3
);
codes!(reason_code, reason_of, GapReason, Evicted = 0, Corrupt = 1, RefusedByBroker = 2);

codes!(status_code, status_of, ResultStatus, Provisional = 0, Final = 1, Retracted = 2);
codes!(late_code, late_of, LateReason, TooLate = 0);
codes!(
    aggregate_code,
    aggregate_of,
    Aggregate,
    Count = 0,
    Sum = 1,
    Mean = 2,
    Min = 3,
    Max = 4,
    First = 5,
    Last = 6,
    Range = 7,
    Stddev = 8,
    Twa = 9,
    P50 = 10,
    P95 = 11,
    P99 = 12,
    Rate = 13
);

/// The number of a clock event's kind, and its amount: nanoseconds, parts per
/// million for a fast slew, zero for kinds that have none.
pub(super) const fn event_code(kind: ClockEventKind) -> (u8, i64) {
    match kind {
        ClockEventKind::Boot => (0, 0),
        ClockEventKind::Step(by) => (1, by.ns()),
        ClockEventKind::Leap(by) => (2, by.ns()),
        ClockEventKind::Suspend(by) => (3, by.ns()),
        ClockEventKind::Stall(by) => (4, by.ns()),
        ClockEventKind::FastSlew { ppm } => (5, ppm as i64),
        ClockEventKind::State => (6, 0),
        ClockEventKind::Vouched => (7, 0),
    }
}

/// The inverse of [`event_code`].
pub(super) fn event_of(code: u8, amount: i64) -> Option<ClockEventKind> {
    let by = Span::from_ns(amount);
    Some(match code {
        0 => ClockEventKind::Boot,
        1 => ClockEventKind::Step(by),
        2 => ClockEventKind::Leap(by),
        3 => ClockEventKind::Suspend(by),
        4 => ClockEventKind::Stall(by),
        5 => ClockEventKind::FastSlew { ppm: i32::try_from(amount).ok()? },
        6 => ClockEventKind::State,
        7 => ClockEventKind::Vouched,
        _ => return None,
    })
}
