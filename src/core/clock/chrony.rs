//! chronyd's report on the clock it disciplines, judged.
//!
//! `host` reads it over UDP (candm version 6, `TRACKING`); `chronyc -c tracking`
//! prints the same fields. The bound is that of chronyc(1): |correction| + root
//! dispersion + root delay / 2, with the drift that chrony does not count.

use super::ClockSource;
use super::drift;

/// A `TRACKING` report. Reals of the protocol are converted: seconds to nanoseconds, rates
/// to parts per million.
#[derive(Clone, Debug, PartialEq)]
pub struct ChronyReport {
    /// `ref_id` as a number: an IPv4 address, a hash of an IPv6 address, or
    /// four ASCII letters of a reference clock.
    pub ref_id: u32,
    /// Whether the reference is a clock of this machine (address family 0).
    pub is_refclock: bool,
    /// Hops from a reference clock; 0 when unknown.
    pub stratum: u16,
    /// False when the leap status says "not synchronised": then root delay and
    /// dispersion are dummies.
    pub is_synchronised: bool,
    /// UTC of the last update, in nanoseconds since the UNIX epoch.
    pub reference_ns: i64,
    /// What is still to be corrected, in nanoseconds; positive: the clock is slow.
    pub correction_ns: i64,
    /// By how much the clock would gain without correction; negative where it would lose.
    pub freq_ppm: f64,
    /// Bound on the error of `freq_ppm`.
    pub skew_ppm: f64,
    /// Path delay to the reference, in nanoseconds.
    pub root_delay_ns: i64,
    /// Accumulated error to the reference, in nanoseconds.
    pub root_dispersion_ns: i64,
    /// Between the last two updates, in nanoseconds.
    pub update_interval_ns: i64,
}

/// `ref_id` of chrony's `local` directive: it serves its own free-running clock.
const LOCAL_REFERENCE: u32 = 0x7F7F_0101;
/// Intervals after which a server is stale: NTP's reach register is eight deep.
const STALE_INTERVALS: u64 = 8;
/// No report is stale before this.
const STALE_MIN_NS: u64 = 64_000_000_000;
/// With a greater skew the daemon is still converging.
const SKEW_MAX_PPM: f64 = 1_000.0;
/// chrony's own allowance for drift (`maxclockerror`), 1 ppm by default.
const CHRONY_DRIFT_PPB: u64 = 1_000;

/// The report, judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChronyVerdict {
    /// Whether it names a reference outside its own clock.
    pub is_synchronized: bool,
    /// It serves its own free-running clock.
    pub is_local_reference: bool,
    /// Bound on |clock − UTC| in nanoseconds, now.
    pub error_ns: Option<u64>,
    /// Since the last update, in nanoseconds.
    pub age_ns: u64,
    /// Whether chronyd has had an update lately enough.
    pub is_fresh: bool,
    /// What kind of reference.
    pub source: ClockSource,
}

impl ChronyReport {
    /// Judges it at the wall clock `now_ns`.
    pub fn judge(&self, now_ns: i64) -> ChronyVerdict {
        let is_local_reference = self.ref_id == LOCAL_REFERENCE;
        let has_reference = self.is_synchronised
            && (1..=15).contains(&self.stratum)
            && self.ref_id != 0
            && !is_local_reference;
        if !has_reference {
            let source =
                if is_local_reference { ClockSource::FreeRunning } else { ClockSource::Unknown };
            return ChronyVerdict {
                is_synchronized: false,
                is_local_reference,
                error_ns: None,
                age_ns: 0,
                is_fresh: false,
                source,
            };
        }
        let age_ns = u64::try_from(now_ns.saturating_sub(self.reference_ns)).unwrap_or(0);
        let interval_ns = u64::try_from(self.update_interval_ns).unwrap_or(0);
        let stale_ns = (STALE_INTERVALS.saturating_mul(interval_ns)).max(STALE_MIN_NS);
        ChronyVerdict {
            is_synchronized: true,
            is_local_reference,
            error_ns: Some(self.error_ns(age_ns)),
            age_ns,
            is_fresh: age_ns <= stale_ns && self.skew_ppm <= SKEW_MAX_PPM,
            source: self.source(),
        }
    }

    fn error_ns(&self, age_ns: u64) -> u64 {
        let distance = u64::try_from(self.root_dispersion_ns).unwrap_or(0)
            + u64::try_from(self.root_delay_ns).unwrap_or(0).div_ceil(2);
        let uncounted = drift::grow(age_ns, drift::DISCIPLINED_PPB - CHRONY_DRIFT_PPB);
        self.correction_ns.unsigned_abs().saturating_add(distance).saturating_add(uncounted)
    }

    fn source(&self) -> ClockSource {
        if !self.is_refclock {
            return ClockSource::Ntp;
        }
        let letters = self.ref_id.to_be_bytes();
        let is_named = |name: &str| letters.starts_with(name.as_bytes());
        if ["GPS", "PPS", "NMEA", "GNSS", "SHM"].into_iter().any(is_named) {
            ClockSource::Gnss
        } else if ["PHC", "PTP"].into_iter().any(is_named) {
            ClockSource::Ptp
        } else {
            ClockSource::Ntp
        }
    }
}
