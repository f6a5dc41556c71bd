//! The fixed numbers by which enums of the core are stored. A number is never
//! given a second meaning; renaming a variant of the core changes nothing here.

use crate::core::clock::{ClockSource, ClockState};
use crate::core::reading::{GapReason, Origin, Quality};

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
