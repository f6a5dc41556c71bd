//! Clock quality: what the kernel says about its clock, judged.
//!
//! The kernel is the referee. It is believed by its `maxerror`, not by the
//! `STA_UNSYNC` bit: chronyd without `rtcsync` keeps the clock right and leaves
//! the bit set, and a clock whose daemon died keeps it clear for hours. systemd
//! judges `NTPSynchronized` the same way.

use crate::core::id::BootId;
use crate::core::time::{IngestTime, MaxError, TimebaseId};

/// What disciplines the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClockSource {
    /// A satellite receiver.
    Gnss,
    /// IEEE 1588.
    Ptp,
    /// NTP, by whichever daemon.
    Ntp,
    /// The battery-backed clock that set the time at boot.
    Rtc,
    /// An operator.
    Manual,
    /// Nothing but its own oscillator.
    FreeRunning,
    /// A time saved before shutdown: a lower bound.
    Saved,
    /// Not known.
    #[default]
    Unknown,
}

impl ClockSource {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClockSource::Gnss => "gnss",
            ClockSource::Ptp => "ptp",
            ClockSource::Ntp => "ntp",
            ClockSource::Rtc => "rtc",
            ClockSource::Manual => "manual",
            ClockSource::FreeRunning => "free_running",
            ClockSource::Saved => "saved",
            ClockSource::Unknown => "unknown",
        }
    }
}

/// How far the clock can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClockState {
    /// A live source bounds its error.
    Synchronized,
    /// It was synchronized and coasts; the bound grows.
    Holdover,
    /// It was set, and nobody has vouched for it since.
    Stepped,
    /// Nothing bounds its error.
    #[default]
    Unsynchronized,
}

impl ClockState {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClockState::Synchronized => "synchronized",
            ClockState::Holdover => "holdover",
            ClockState::Stepped => "stepped",
            ClockState::Unsynchronized => "unsynchronized",
        }
    }

    /// Whether its word on "the future" counts: a gateway in 1970 must not call
    /// a good PLC a time traveller.
    pub const fn is_trusted(self) -> bool {
        matches!(self, ClockState::Synchronized | ClockState::Holdover)
    }
}

/// Everything read from the clock at one instant, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Wall time.
    pub wall: IngestTime,
    /// What disciplines the clock.
    pub source: ClockSource,
    /// How far it can be trusted.
    pub state: ClockState,
    /// Bound on |wall − UTC|.
    pub max_error: Option<MaxError>,
    /// The stretch between steps.
    pub timebase: TimebaseId,
    /// This run of the machine.
    pub boot: BootId,
}

/// What `adjtimex` with `modes = 0` answers, in the kernel's own units.
/// Reading needs no privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    /// `maxerror` in microseconds: grows by 500 each second, capped at
    /// 16,000,000 (`NTP_PHASE_LIMIT`).
    pub max_error_us: i64,
    /// `esterror` in microseconds.
    pub est_error_us: i64,
    /// `offset`: what is still to be slewed, in nanoseconds.
    pub offset_ns: i64,
    /// `status`: the `STA_` bits.
    pub status: i32,
}

/// At this `maxerror` the kernel has given up on its clock.
const PHASE_LIMIT_US: i64 = 16_000_000;
/// `STA_CLOCKERR` of `linux/timex.h`.
const STA_CLOCKERR: i32 = 0x1000;
/// systemd-timesyncd reports no error of its own (`maxerror` 0 at each update).
/// What it accepts over a cellular link explains up to a quarter of a second.
const TIMESYNCD_ERROR_NS: u64 = 250_000_000;
/// phc2sys and ptp4l report none either.
const PTP_ERROR_NS: u64 = 1_000_000;
/// Drift of a disciplined oscillator since the last update: 15 ppm, the PHI of
/// RFC 5905.
const DRIFT_PPM: u64 = 15;

impl KernelClock {
    /// State and error bound that follow from the kernel's values.
    pub fn judge(&self) -> (ClockState, Option<MaxError>) {
        if self.max_error_us >= PHASE_LIMIT_US || self.status & STA_CLOCKERR != 0 {
            return (ClockState::Unsynchronized, None);
        }
        (ClockState::Synchronized, Some(MaxError::from_ns(self.bound_ns())))
    }

    fn bound_ns(&self) -> u64 {
        let max_error_us = self.max_error_us.max(0) as u64;
        let est_error_us = self.est_error_us.max(0) as u64;
        let slew_ns = self.offset_ns.unsigned_abs();
        let estimate_unset = self.est_error_us >= PHASE_LIMIT_US;
        // A daemon that writes zero leaves nothing but the seconds since its
        // last update, 500 us each.
        let is_age_only = max_error_us.is_multiple_of(500) && (est_error_us == 0 || estimate_unset);
        if is_age_only {
            let base_ns = if estimate_unset { PTP_ERROR_NS } else { TIMESYNCD_ERROR_NS };
            let age_s = max_error_us / 500;
            return base_ns + slew_ns + age_s * DRIFT_PPM * 1_000;
        }
        let estimate_ns = if estimate_unset { 0 } else { est_error_us * 1_000 };
        max_error_us * 1_000 + estimate_ns + slew_ns
    }
}

impl ClockReading {
    /// A reading of a clock that nobody vouches for.
    pub fn unsynchronized(wall: IngestTime, boot: BootId) -> Self {
        Self {
            wall,
            source: ClockSource::Unknown,
            state: ClockState::Unsynchronized,
            max_error: None,
            timebase: TimebaseId(1),
            boot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(max_error_us: i64, est_error_us: i64, status: i32) -> KernelClock {
        KernelClock { max_error_us, est_error_us, offset_ns: 0, status }
    }

    #[test]
    fn a_saturated_kernel_is_unsynchronized_whatever_its_bits_say() {
        assert_eq!(kernel(16_000_000, 0, 0).judge(), (ClockState::Unsynchronized, None));
        assert_eq!(kernel(10_000, 50, STA_CLOCKERR).judge(), (ClockState::Unsynchronized, None));
    }

    #[test]
    fn chrony_without_rtcsync_is_synchronized_although_sta_unsync_is_set() {
        const STA_UNSYNC: i32 = 0x40;
        let (state, error) = kernel(11_437, 85, STA_UNSYNC).judge();
        assert_eq!(state, ClockState::Synchronized);
        assert_eq!(error, Some(MaxError::from_ns(11_522_000)));
    }

    #[test]
    fn daemons_that_report_no_error_get_a_floor_that_grows_with_age() {
        let timesyncd = kernel(5_000, 0, 0).judge().1;
        assert_eq!(timesyncd, Some(MaxError::from_ns(250_150_000)));
        let ptp = kernel(500, 16_000_000, 0).judge().1;
        assert_eq!(ptp, Some(MaxError::from_ns(1_015_000)));
    }
}
