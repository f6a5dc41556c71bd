//! Time quality in the codes of other standards, for those who convert readings.
//!
//! The compact form is a `u16`, `tq`:
//!
//! ```text
//! bit  0..3   origin      0 unknown 1 device 2 device_corrected 3 gateway
//!                         4 restamped 5 substituted 6 bounded
//! bit  3..6   source      0 unknown 1 gnss 2 ptp 3 ntp 4 rtc 5 manual
//!                         6 free_running 7 saved
//! bit  6..8   state       0 unsynchronized 1 stepped 2 holdover 3 synchronized
//! bit  8..14  error       exponent, see [`error_exponent`]
//! bit  14     leap        a leap second is near
//! bit  15     flags       the reading has flags beside
//! ```
//!
//! The numbers are stored and sent: never give one a new meaning.

use super::{ClockSource, ClockState};
use crate::core::reading::Origin;
use crate::core::time::MaxError;

/// The exponent that stands for "nothing bounds the error".
pub const ERROR_UNKNOWN: u8 = 63;
/// The greatest exponent of a bound: 2^62 ns are 146 years.
const ERROR_EXPONENT_MAX: u8 = 62;
const NS_PER_S: u64 = 1_000_000_000;

/// The number of an origin, 0 to 6.
pub const fn origin_code(origin: Origin) -> u8 {
    match origin {
        Origin::Unknown => 0,
        Origin::Device => 1,
        Origin::DeviceCorrected => 2,
        Origin::Gateway => 3,
        Origin::Restamped => 4,
        Origin::Substituted => 5,
        Origin::Bounded => 6,
    }
}

/// The origin of a number; `None` above 6.
pub const fn origin_of(code: u8) -> Option<Origin> {
    Some(match code {
        0 => Origin::Unknown,
        1 => Origin::Device,
        2 => Origin::DeviceCorrected,
        3 => Origin::Gateway,
        4 => Origin::Restamped,
        5 => Origin::Substituted,
        6 => Origin::Bounded,
        _ => return None,
    })
}

/// The number of a clock source, 0 to 7.
pub const fn source_code(source: ClockSource) -> u8 {
    match source {
        ClockSource::Unknown => 0,
        ClockSource::Gnss => 1,
        ClockSource::Ptp => 2,
        ClockSource::Ntp => 3,
        ClockSource::Rtc => 4,
        ClockSource::Manual => 5,
        ClockSource::FreeRunning => 6,
        ClockSource::Saved => 7,
    }
}

/// The clock source of a number; `None` above 7.
pub const fn source_of(code: u8) -> Option<ClockSource> {
    Some(match code {
        0 => ClockSource::Unknown,
        1 => ClockSource::Gnss,
        2 => ClockSource::Ptp,
        3 => ClockSource::Ntp,
        4 => ClockSource::Rtc,
        5 => ClockSource::Manual,
        6 => ClockSource::FreeRunning,
        7 => ClockSource::Saved,
        _ => return None,
    })
}

/// The number of a clock state, 0 to 3: more is more to be trusted.
pub const fn state_code(state: ClockState) -> u8 {
    match state {
        ClockState::Unsynchronized => 0,
        ClockState::Stepped => 1,
        ClockState::Holdover => 2,
        ClockState::Synchronized => 3,
    }
}

/// The clock state of a number; `None` above 3.
pub const fn state_of(code: u8) -> Option<ClockState> {
    Some(match code {
        0 => ClockState::Unsynchronized,
        1 => ClockState::Stepped,
        2 => ClockState::Holdover,
        3 => ClockState::Synchronized,
        _ => return None,
    })
}

/// The least `n` with error ≤ 2^n ns, 0 to 62; [`ERROR_UNKNOWN`] when nothing
/// bounds the error. Beyond 146 years it stays at 62.
pub const fn error_exponent(max_error: Option<MaxError>) -> u8 {
    match max_error {
        None => ERROR_UNKNOWN,
        Some(error) if error.ns() <= 1 => 0,
        Some(error) => {
            let exponent = u64::BITS - (error.ns() - 1).leading_zeros();
            if exponent > ERROR_EXPONENT_MAX as u32 { ERROR_EXPONENT_MAX } else { exponent as u8 }
        }
    }
}

/// The bound that an exponent stands for: 2^n ns; `None` from 63 on.
pub const fn error_of(exponent: u8) -> Option<MaxError> {
    if exponent > ERROR_EXPONENT_MAX { None } else { Some(MaxError::from_ns(1 << exponent)) }
}

/// The compact form, opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeQuality {
    /// Who set the event time.
    pub origin: Origin,
    /// What disciplined the clock that did.
    pub source: ClockSource,
    /// How far that clock can be trusted.
    pub state: ClockState,
    /// The bound on the error as [`error_exponent`] has it, 0 to 63.
    pub error_exponent: u8,
    /// A leap second is near.
    pub is_leap: bool,
    /// The reading has flags beside.
    pub has_flags: bool,
}

impl TimeQuality {
    /// The compact form. An exponent above 63 counts as 63.
    pub const fn pack(&self) -> u16 {
        let exponent =
            if self.error_exponent > ERROR_UNKNOWN { ERROR_UNKNOWN } else { self.error_exponent };
        origin_code(self.origin) as u16
            | (source_code(self.source) as u16) << 3
            | (state_code(self.state) as u16) << 6
            | (exponent as u16) << 8
            | (self.is_leap as u16) << 14
            | (self.has_flags as u16) << 15
    }

    /// From the compact form; `None` for the one origin that has no meaning, 7.
    pub fn unpack(tq: u16) -> Option<Self> {
        Some(Self {
            origin: origin_of((tq & 7) as u8)?,
            source: source_of((tq >> 3 & 7) as u8)?,
            state: state_of((tq >> 6 & 3) as u8)?,
            error_exponent: (tq >> 8 & 63) as u8,
            is_leap: tq & 1 << 14 != 0,
            has_flags: tq & 1 << 15 != 0,
        })
    }
}

/// The TimeQuality octet of an IEC 61850 time stamp (IEC 61850-7-2, 61850-8-1):
/// bit 7 LeapSecondsKnown, bit 6 ClockFailure, bit 5 ClockNotSynchronized, bits
/// 4 to 0 TimeAccuracy: the greatest `n` up to 24 with error ≤ 2^-n s, 31 for
/// unspecified. An error above a second has no `n`.
pub fn iec61850_time_quality(
    state: ClockState,
    max_error: Option<MaxError>,
    is_leap_known: bool,
    is_clock_failure: bool,
) -> u8 {
    let accuracy = match max_error.map(MaxError::ns) {
        Some(0) => 24,
        Some(error_ns @ 1..=NS_PER_S) => (NS_PER_S / error_ns).ilog2().min(24) as u8,
        _ => 31,
    };
    let is_unsynchronized = state != ClockState::Synchronized;
    u8::from(is_leap_known) << 7
        | u8::from(is_clock_failure) << 6
        | u8::from(is_unsynchronized) << 5
        | accuracy
}

/// The MSG_TQ nibble of IEEE C37.118.2 (message time quality, low four bits of
/// the FRACSEC quality octet): 0 for a clock locked to UTC by GNSS or PTP, else
/// 1 to 11 for an error within 1 ns, 10 ns … 10 s, 15 for a clock that cannot be
/// relied on.
pub fn c37_118_msg_tq(source: ClockSource, state: ClockState, max_error: Option<MaxError>) -> u8 {
    const UNRELIABLE: u8 = 15;
    let Some(error) = max_error else { return UNRELIABLE };
    let is_locked = state == ClockState::Synchronized;
    if is_locked && matches!(source, ClockSource::Gnss | ClockSource::Ptp) {
        return 0;
    }
    (1..=11).find(|code| error.ns() <= 10_u64.pow(u32::from(*code) - 1)).unwrap_or(UNRELIABLE)
}

/// The parameters of the `timeQuality` element of RFC 5424 §7.1. `syncAccuracy`
/// is in microseconds, rounded up, and must be absent when not synchronized
/// (§7.1.3).
pub fn rfc5424_time_quality(state: ClockState, max_error: Option<MaxError>) -> String {
    match (state, max_error) {
        (ClockState::Synchronized, Some(error)) => {
            format!("isSynced=\"1\" syncAccuracy=\"{}\"", error.micros_ceil())
        }
        _ => "isSynced=\"0\"".to_owned(),
    }
}

/// `FDSN.Time.MaxEstimatedError` of miniSEED 3, in seconds; `None` when nothing
/// bounds the error. Source: the FDSN extra headers schema.
pub fn miniseed_max_estimated_error(max_error: Option<MaxError>) -> Option<f64> {
    max_error.map(|error| error.ns() as f64 / NS_PER_S as f64)
}

/// The timing quality of miniSEED, 0 to 100 % (deprecated in version 3): 40 at an error of a
/// second, ten more for each power of ten below.
pub fn miniseed_timing_quality(max_error: Option<MaxError>) -> u8 {
    let Some(seconds) = miniseed_max_estimated_error(max_error) else { return 0 };
    // No error at all is infinitely good: 100.
    (40.0 - 10.0 * seconds.log10()).round_ties_even().clamp(0.0, 100.0) as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_compact_form_is_lossless(tq: u16) {
            match TimeQuality::unpack(tq) {
                Some(quality) => prop_assert_eq!(quality.pack(), tq),
                None => prop_assert_eq!(tq & 7, 7),
            }
        }

        #[test]
        fn the_exponent_is_the_least_that_bounds(error_ns in 0_u64..=1 << 62) {
            let exponent = error_exponent(Some(MaxError::from_ns(error_ns)));
            prop_assert!(error_of(exponent).unwrap().ns() >= error_ns);
            prop_assert!(exponent == 0 || 1 << (exponent - 1) < error_ns);
        }
    }

    #[test]
    fn every_word_has_its_number() {
        for code in 0..=255 {
            assert_eq!(origin_of(code).map(origin_code), (code <= 6).then_some(code));
            assert_eq!(source_of(code).map(source_code), (code <= 7).then_some(code));
            assert_eq!(state_of(code).map(state_code), (code <= 3).then_some(code));
        }
        assert_eq!(error_of(ERROR_UNKNOWN), None);
        assert_eq!(error_exponent(Some(MaxError::from_ns(u64::MAX))), 62);
    }

    #[test]
    fn the_ends_of_the_scales() {
        use ClockState::{Holdover, Synchronized};
        let ns = |ns| Some(MaxError::from_ns(ns));
        assert_eq!(iec61850_time_quality(Synchronized, ns(0), false, false), 24);
        assert_eq!(iec61850_time_quality(Synchronized, ns(59), false, false), 24);
        assert_eq!(iec61850_time_quality(Synchronized, ns(60), false, false), 23);
        assert_eq!(iec61850_time_quality(Holdover, ns(NS_PER_S + 1), true, false), 0xbf);
        assert_eq!(c37_118_msg_tq(ClockSource::Ntp, Synchronized, ns(0)), 1);
        assert_eq!(c37_118_msg_tq(ClockSource::Ntp, Synchronized, ns(10_000_000_000)), 11);
        assert_eq!(c37_118_msg_tq(ClockSource::Ntp, Synchronized, ns(10_000_000_001)), 15);
        assert_eq!(c37_118_msg_tq(ClockSource::Gnss, Holdover, ns(1)), 1);
        assert_eq!(rfc5424_time_quality(Synchronized, None), "isSynced=\"0\"");
        assert_eq!(miniseed_timing_quality(ns(0)), 100);
        assert_eq!(miniseed_timing_quality(ns(u64::MAX)), 0);
    }
}
