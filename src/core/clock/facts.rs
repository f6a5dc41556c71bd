//! What the machine says about its clocks, as `host` samples it. Everything here may be
//! missing; then the clock is judged without it.

use super::chrony::ChronyReport;
use super::kernel::KernelClock;
use super::ptp::PtpReport;
use crate::core::id::BootId;
use crate::core::time::IngestTime;

/// One sample of everything but the clocks themselves, which every
/// [`crate::core::seam::Now`] carries. Taken once a second and at once after a
/// change of the wall clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockFacts {
    /// `adjtimex`; `None` when a sandbox forbids it.
    pub kernel: Option<KernelClock>,
    /// chronyd's newest answer and the wall clock when it came.
    pub chrony: Option<(ChronyReport, IngestTime)>,
    /// ptp4l's newest answer.
    pub ptp: Option<PtpReport>,
    /// Last update of systemd-timesyncd (`/run/systemd/timesync/synchronized`).
    pub timesyncd_at: Option<IngestTime>,
    /// Whether a time daemon is present that may still set the clock.
    pub has_daemon: bool,
}

/// What is known about this run of the machine before its clock is synchronized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootFacts {
    /// This run of the machine.
    pub boot: BootId,
    /// Whether the battery-backed clock set the time at boot
    /// (`/sys/class/rtc/rtc0/hctosys`).
    pub is_set_by_rtc: bool,
    /// What the battery-backed clock said when the agent started, 1 s coarse.
    pub rtc: Option<IngestTime>,
    /// A time that was saved before shutdown (fake-hwclock, systemd-timesyncd):
    /// a lower bound of the present.
    pub saved: Option<IngestTime>,
}

/// An operator's statement that the wall clock is right within an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// Bound on |clock − UTC| that the operator states, in nanoseconds.
    pub error_ns: u64,
}
