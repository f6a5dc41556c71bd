//! What the kernel says about its clock, judged.
//!
//! The kernel decides. It is judged by its `maxerror`, not by the `STA_UNSYNC` bit nor by
//! the return code: chronyd without `rtcsync` keeps the clock right and leaves the bit
//! set, and a clock whose daemon died keeps it clear for hours. systemd judges
//! `NTPSynchronized` the same way.

use super::drift;

/// What `adjtimex` with `modes = 0` answers, in the kernel's own units
/// (adjtimex(2)). Reading needs no privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    /// The return code: `TIME_OK` 0, `INS` 1, `DEL` 2, `OOP` 3, `WAIT` 4, `ERROR` 5.
    pub code: i32,
    /// `status`: the `STA_` bits.
    pub status: i32,
    /// `maxerror` in microseconds: grows by 500 each second, capped at
    /// 16,000,000 (`NTP_PHASE_LIMIT`); each step of the clock sets it to the cap.
    pub max_error_us: i64,
    /// `esterror` in microseconds.
    pub est_error_us: i64,
    /// `offset`: what is still to be slewed, in nanoseconds with `STA_NANO`,
    /// else in microseconds.
    pub offset: i64,
    /// `freq`: the correction of the rate, in parts per million times 65,536.
    pub freq: i64,
    /// `tick`: microseconds per tick, 10,000 unless a daemon steers hard.
    pub tick: i64,
    /// `tai`: TAI − UTC in seconds; 0 when it was never set.
    pub tai: i32,
}

/// At this `maxerror` the kernel has given up on its clock.
pub const PHASE_LIMIT_US: i64 = 16_000_000;
/// What each second adds to `maxerror` (`MAXFREQ`, 500 ppm).
pub const TICK_ERROR_US: i64 = 500;

/// The `STA_` bits of `linux/timex.h` that are looked at.
mod sta {
    pub(super) const PPSFREQ: i32 = 0x2;
    pub(super) const PPSTIME: i32 = 0x4;
    pub(super) const INS: i32 = 0x10;
    pub(super) const DEL: i32 = 0x20;
    pub(super) const UNSYNC: i32 = 0x40;
    pub(super) const PPSSIGNAL: i32 = 0x100;
    pub(super) const PPSJITTER: i32 = 0x200;
    pub(super) const PPSWANDER: i32 = 0x400;
    pub(super) const PPSERROR: i32 = 0x800;
    pub(super) const CLOCKERR: i32 = 0x1000;
    pub(super) const NANO: i32 = 0x2000;
}

/// systemd-timesyncd reports no error of its own (`maxerror` 0 at each update).
/// What it accepts over a cellular link explains up to a quarter of a second.
const TIMESYNCD_FLOOR_NS: u64 = 250_000_000;
/// phc2sys and ptp4l report no error either, and keep the clock far better.
const PTP_FLOOR_NS: u64 = 1_000_000;

/// What the kernel knows about a leap second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leap {
    /// Nothing.
    #[default]
    None,
    /// Second 60 comes at the end of the UTC day.
    InsertPending,
    /// Second 59 is left out at the end of the UTC day.
    DeletePending,
    /// Second 60 is now: the clock shows 23:59:59 again.
    InProgress,
    /// It has just been.
    JustDone,
}

impl Leap {
    /// The word on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Leap::None => "none",
            Leap::InsertPending => "insert_pending",
            Leap::DeletePending => "delete_pending",
            Leap::InProgress => "in_progress",
            Leap::JustDone => "just_done",
        }
    }
}

/// What `maxerror` is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxErrorKind {
    /// A daemon reports a real bound in it.
    Reported,
    /// systemd-timesyncd writes zero: only the age of the last update is in it.
    ZeroedTimesyncd,
    /// phc2sys or ptp4l writes zero.
    ZeroedPhc2sys,
    /// At the cap: the clock is not synchronized.
    Saturated,
    /// The kernel reports a failure of its clock (`STA_CLOCKERR`).
    Failed,
}

impl MaxErrorKind {
    /// The word on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            MaxErrorKind::Reported => "reported",
            MaxErrorKind::ZeroedTimesyncd => "zeroed_timesyncd",
            MaxErrorKind::ZeroedPhc2sys => "zeroed_phc2sys",
            MaxErrorKind::Saturated => "saturated",
            MaxErrorKind::Failed => "failed",
        }
    }
}

/// The kernel's values, judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelVerdict {
    /// Whether the clock was synchronized lately enough.
    pub is_synchronized: bool,
    /// `STA_UNSYNC`; reported, not relied on.
    pub unsync_flag: bool,
    /// `STA_CLOCKERR`.
    pub clock_failure: bool,
    /// A pulse-per-second signal was asked for and is missing or bad.
    pub pps_error: bool,
    /// Leap seconds.
    pub leap: Leap,
    /// What `maxerror` is worth.
    pub kind: MaxErrorKind,
    /// Bound on |clock − UTC| in nanoseconds; `None` when not synchronized.
    pub error_ns: Option<u64>,
}

impl KernelClock {
    /// Judges it.
    pub fn judge(&self) -> KernelVerdict {
        let kind = self.kind();
        let is_synchronized = !matches!(kind, MaxErrorKind::Saturated | MaxErrorKind::Failed);
        KernelVerdict {
            is_synchronized,
            unsync_flag: self.has(sta::UNSYNC),
            clock_failure: self.has(sta::CLOCKERR),
            pps_error: self.pps_error(),
            leap: self.leap(),
            kind,
            error_ns: is_synchronized.then(|| self.bound_ns(kind)),
        }
    }

    /// The correction of the rate that the kernel applies now, in parts per
    /// billion. Beyond a few hundred ppm a daemon is slewing.
    pub fn rate_ppb(&self) -> i64 {
        let fine = self.freq.saturating_mul(1_000) as f64 / 65_536.0;
        // Half to even, as IEEE 754 rounds by default.
        fine.round_ties_even() as i64 + (self.tick - 10_000) * 100_000
    }

    /// Seconds since the last update, where `maxerror` shows nothing else.
    pub fn zeroed_age_ns(&self) -> Option<u64> {
        let is_zeroed =
            matches!(self.kind(), MaxErrorKind::ZeroedTimesyncd | MaxErrorKind::ZeroedPhc2sys);
        is_zeroed.then(|| self.age_by_max_error_ns())
    }

    fn kind(&self) -> MaxErrorKind {
        let is_age_only = self.max_error_us % TICK_ERROR_US == 0;
        if self.max_error_us >= PHASE_LIMIT_US {
            MaxErrorKind::Saturated
        } else if self.has(sta::CLOCKERR) {
            MaxErrorKind::Failed
        } else if is_age_only && self.est_error_us == 0 {
            MaxErrorKind::ZeroedTimesyncd
        } else if is_age_only && self.est_error_us >= PHASE_LIMIT_US {
            MaxErrorKind::ZeroedPhc2sys
        } else {
            MaxErrorKind::Reported
        }
    }

    fn bound_ns(&self, kind: MaxErrorKind) -> u64 {
        let unit_ns = if self.has(sta::NANO) { 1 } else { 1_000 };
        let slew_ns = self.offset.unsigned_abs().saturating_mul(unit_ns);
        let floor_ns = match kind {
            MaxErrorKind::ZeroedTimesyncd => TIMESYNCD_FLOOR_NS,
            MaxErrorKind::ZeroedPhc2sys => PTP_FLOOR_NS,
            _ => return self.reported_ns().saturating_add(slew_ns),
        };
        let drift_ns = drift::grow(self.age_by_max_error_ns(), drift::DISCIPLINED_PPB);
        floor_ns.saturating_add(slew_ns).saturating_add(drift_ns)
    }

    /// ntpd counts its jitter and ntpd-rs its dispersion in `esterror`, beside
    /// `maxerror`: the sum bounds all of them.
    fn reported_ns(&self) -> u64 {
        let max_ns = self.max_error_us.max(0) as u64 * 1_000;
        let is_estimate_set = self.est_error_us < PHASE_LIMIT_US;
        let estimate_ns = if is_estimate_set { self.est_error_us.max(0) as u64 * 1_000 } else { 0 };
        max_ns.saturating_add(estimate_ns)
    }

    fn age_by_max_error_ns(&self) -> u64 {
        (self.max_error_us.max(0) / TICK_ERROR_US) as u64 * 1_000_000_000
    }

    fn has(&self, bits: i32) -> bool {
        self.status & bits == bits
    }

    /// `is_error_status` of the kernel's `ntp.c`, its PPS part.
    fn pps_error(&self) -> bool {
        let wants = self.status & (sta::PPSFREQ | sta::PPSTIME) != 0;
        let is_silent = wants && !self.has(sta::PPSSIGNAL);
        let is_jumpy = self.has(sta::PPSTIME | sta::PPSJITTER);
        let is_wandering =
            self.has(sta::PPSFREQ) && self.status & (sta::PPSWANDER | sta::PPSERROR) != 0;
        is_silent || is_jumpy || is_wandering
    }

    fn leap(&self) -> Leap {
        match self.code {
            1 => Leap::InsertPending,
            2 => Leap::DeletePending,
            3 => Leap::InProgress,
            4 => Leap::JustDone,
            // The code says ERROR; the bits still tell what is pending.
            5 if self.has(sta::INS) => Leap::InsertPending,
            5 if self.has(sta::DEL) => Leap::DeletePending,
            _ => Leap::None,
        }
    }
}
