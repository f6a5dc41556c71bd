//! Kernel, chrony and ptp4l together: one state and one error bound.
//!
//! A daemon's report refines the kernel's bound, but never overrides a kernel that calls
//! its clock unsynchronized: every step of the clock puts the kernel into that state.

use super::chrony::ChronyVerdict;
use super::drift;
use super::kernel::KernelVerdict;
use super::ptp::PtpVerdict;
use super::{ClockSource, ClockState};

/// A clock with a worse bound is not called synchronized.
pub const SYNCHRONIZED_ERROR_MAX_NS: u64 = 1_000_000_000;
/// A clock with a worse bound is not called in holdover either.
pub const HOLDOVER_ERROR_MAX_NS: u64 = 10_000_000_000;
/// Missed updates after which a source of time is stale: NTP's reach register is
/// eight deep and has forgotten it then; ClockBound uses the same rule.
const STALE_INTERVALS: u64 = 8;
/// A source is never stale before this age of its last update.
const STALE_MIN_NS: u64 = 64_000_000_000;
/// A source is always stale after this age of its last update.
const STALE_MAX_NS: u64 = 10_800_000_000_000;
/// The longest interval of NTP daemons by default: assumed until two updates
/// have been seen.
pub const UPDATE_INTERVAL_NS: u64 = 2_048_000_000_000;
/// A frozen steering rate above this means that a daemon died in mid-slew.
const SLEW_SUSPECT_PPB: u64 = 200_000;

/// A clock's quality without its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// What disciplines it.
    pub source: ClockSource,
    /// How far it can be trusted.
    pub state: ClockState,
    /// Bound on |clock − UTC| in nanoseconds. An unsynchronized clock may have
    /// one too; then it is too large to rely on.
    pub error_ns: Option<u64>,
}

/// The daemon's last update as it shows in the kernel's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Since then, in nanoseconds.
    pub age_ns: Option<u64>,
    /// The largest of the last few intervals between two, once known.
    pub interval_ns: Option<u64>,
    /// The error bound right after it.
    pub error_ns: Option<u64>,
    /// The steering rate left in the kernel, in parts per billion.
    pub rate_ppb: i64,
}

/// Everything that is combined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The kernel; `None` when it cannot be asked.
    pub kernel: Option<KernelVerdict>,
    /// chronyd, if it answers.
    pub chrony: Option<ChronyVerdict>,
    /// ptp4l, if it answers.
    pub ptp: Option<PtpVerdict>,
    /// The daemon's last update, for the kernel alone.
    pub update: Update,
    /// Whether the clock was synchronized once in this boot.
    pub has_anchor: bool,
    /// Whether it was stepped and has not been synchronized since.
    pub is_stepped: bool,
    /// What set the time at boot.
    pub boot_source: ClockSource,
    /// Which kind of daemon the kernel's values come from.
    pub daemon_source: ClockSource,
}

/// What one source of evidence comes to.
struct Finding {
    error_ns: u64,
    is_fresh: bool,
    source: ClockSource,
}

impl Evidence {
    /// The quality that follows.
    pub fn quality(&self) -> Quality {
        let nothing =
            Quality { source: self.boot_source, state: ClockState::Unsynchronized, error_ns: None };
        if self.kernel.is_some_and(|kernel| !kernel.is_synchronized) {
            return self.disowned();
        }
        match self.finding() {
            Some(finding) => self.judge(finding),
            None => match self.chrony {
                Some(chrony) => Quality { source: chrony.source, ..nothing },
                None => nothing,
            },
        }
    }

    /// The quality of a clock that the kernel says is not synchronized.
    fn disowned(&self) -> Quality {
        let is_local = self.chrony.is_some_and(|chrony| chrony.is_local_reference);
        Quality {
            source: if is_local { ClockSource::FreeRunning } else { self.boot_source },
            state: if self.is_stepped { ClockState::Stepped } else { ClockState::Unsynchronized },
            error_ns: None,
        }
    }

    fn finding(&self) -> Option<Finding> {
        let kernel_ns = self.kernel.and_then(|kernel| kernel.error_ns);
        if let Some(chrony) = self.chrony {
            if let Some(error_ns) = chrony.error_ns {
                let (is_fresh, source) = (chrony.is_fresh, chrony.source);
                return Some(Finding { error_ns, is_fresh, source });
            }
            // The values are left over from an earlier daemon.
            return kernel_ns.map(|error_ns| Finding {
                error_ns,
                is_fresh: false,
                source: self.daemon_source,
            });
        }
        if let Some(ptp) = self.ptp {
            let error_ns = ptp.error_ns.or(kernel_ns)?;
            let is_fresh = ptp.is_synchronized && ptp.error_ns.is_some();
            return Some(Finding { error_ns, is_fresh, source: ClockSource::Ptp });
        }
        let error_ns = self.refined(kernel_ns?);
        Some(Finding { error_ns, is_fresh: self.is_update_fresh(), source: self.daemon_source })
    }

    /// Between updates a disciplined clock drifts by less than the 500 ppm of
    /// the kernel's budget; one that was left in mid-slew by more.
    fn refined(&self, kernel_ns: u64) -> u64 {
        let (Some(at_update_ns), Some(age_ns)) = (self.update.error_ns, self.update.age_ns) else {
            return kernel_ns;
        };
        let rate_ppb = self.update.rate_ppb.unsigned_abs();
        if rate_ppb > SLEW_SUSPECT_PPB {
            return kernel_ns.max(at_update_ns.saturating_add(drift::grow(age_ns, rate_ppb)));
        }
        let drift_ns = drift::grow(age_ns, drift::DISCIPLINED_PPB);
        kernel_ns.min(at_update_ns.saturating_add(drift_ns))
    }

    fn is_update_fresh(&self) -> bool {
        let interval_ns = self.update.interval_ns.unwrap_or(UPDATE_INTERVAL_NS);
        let stale_ns = STALE_INTERVALS.saturating_mul(interval_ns);
        self.update.age_ns.unwrap_or(0) <= stale_ns.clamp(STALE_MIN_NS, STALE_MAX_NS)
    }

    fn judge(&self, finding: Finding) -> Quality {
        let Finding { error_ns, is_fresh, source } = finding;
        let has_pps = !self.kernel.is_some_and(|kernel| kernel.pps_error);
        let error = Some(error_ns);
        if is_fresh && has_pps && error_ns <= SYNCHRONIZED_ERROR_MAX_NS {
            return Quality { source, state: ClockState::Synchronized, error_ns: error };
        }
        if self.has_anchor && error_ns <= HOLDOVER_ERROR_MAX_NS {
            return Quality { source, state: ClockState::Holdover, error_ns: error };
        }
        let source = if self.has_anchor { source } else { self.boot_source };
        Quality { source, state: ClockState::Unsynchronized, error_ns: error }
    }
}
