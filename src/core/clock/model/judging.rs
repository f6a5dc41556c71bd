//! The model's judgement at one look: by the evidence, an operator's statement or a
//! battery-backed clock.

use super::super::combine::{Evidence, HOLDOVER_ERROR_MAX_NS, Quality};
use super::super::kernel::MaxErrorKind;
use super::super::{ClockSource, ClockState, drift};
use super::{ClockModel, Reference};
use crate::core::seam::Now;

/// chrony's rate is believed once its error is below this.
const RATE_SKEW_MAX_PPM: f64 = 5.0;
/// How long the clock must have been in sync before the kernel's rate is believed.
const RATE_SETTLED_NS: u64 = 1_800_000_000_000;
/// A battery-backed clock: read to the second, set to the second, and 20 ppm.
const RTC_ERROR_NS: u64 = 2_000_000_000;
/// Drift of a battery-backed clock.
const RTC_DRIFT_PPB: u64 = 20_000;

impl ClockModel {
    /// The quality that follows from everything known at this look.
    pub(super) fn judge(&self, now: &Now) -> Quality {
        let boot_source = self.boot().set_by;
        let unknown =
            Quality { source: boot_source, state: ClockState::Unsynchronized, error_ns: None };
        if now.wall.unix_ns() < self.settings.floor_ns {
            return unknown;
        }
        if self.is_stepped {
            return Quality { state: ClockState::Stepped, ..unknown };
        }
        let quality = self.evidence(now, boot_source).map_or(unknown, |e| e.quality());
        if quality.state.is_trusted() {
            return quality;
        }
        self.vouched_quality(now).or_else(|| self.rtc_quality(now)).unwrap_or(quality)
    }

    fn evidence(&self, now: &Now, boot_source: ClockSource) -> Option<Evidence> {
        let heard = self.settings.reference;
        let chrony = self.facts.chrony.as_ref().map(|(report, _)| report.judge(now.wall.unix_ns()));
        let ptp = self.facts.ptp.map(|report| report.judge());
        let kernel = self.facts.kernel;
        let evidence = Evidence {
            kernel: kernel.map(|kernel| kernel.judge()),
            chrony: chrony.filter(|_| matches!(heard, Reference::Auto | Reference::Chrony)),
            ptp: ptp.filter(|_| matches!(heard, Reference::Auto | Reference::Ptp4l)),
            update: self.updates.update(kernel.as_ref(), now.uptime()),
            has_anchor: self.boot().is_anchored(),
            is_stepped: self.is_stepped,
            boot_source,
            daemon_source: self.daemon_source(),
        };
        let is_answered = match heard {
            Reference::Auto | Reference::Kernel => true,
            Reference::Chrony => evidence.chrony.is_some(),
            Reference::Ptp4l => evidence.ptp.is_some(),
            Reference::None => false,
        };
        is_answered.then_some(evidence)
    }

    /// phc2sys and ptp4l never touch `esterror`; every NTP daemon sets it.
    fn daemon_source(&self) -> ClockSource {
        let is_ptp = self
            .facts
            .kernel
            .is_some_and(|kernel| kernel.judge().kind == MaxErrorKind::ZeroedPhc2sys);
        if is_ptp { ClockSource::Ptp } else { ClockSource::Ntp }
    }

    fn vouched_quality(&self, now: &Now) -> Option<Quality> {
        let anchor = self.vouched?;
        let elapsed_ns = now.uptime().since_ns(anchor.up);
        let error_ns =
            anchor.error_ns.saturating_add(drift::grow(elapsed_ns, self.settings.max_drift_ppb));
        let state = ClockState::Holdover;
        (error_ns <= HOLDOVER_ERROR_MAX_NS.max(anchor.error_ns.saturating_mul(2)))
            .then_some(Quality { source: ClockSource::Manual, state, error_ns: Some(error_ns) })
    }

    /// The quality in a boot whose time came from a battery-backed clock that was right when
    /// it was last compared.
    fn rtc_quality(&self, now: &Now) -> Option<Quality> {
        let boot = self.boot();
        if boot.set_by != ClockSource::Rtc || boot.is_anchored() || self.is_stepped {
            return None;
        }
        let earlier = self.boots.iter().rev().skip(1);
        let last =
            earlier.filter_map(|boot| boot.stretches.last()).map(|s| s.last.utc_ns).next()?;
        let age_ns = u64::try_from(now.wall.unix_ns().saturating_sub(last)).ok()?;
        let error_ns = RTC_ERROR_NS.saturating_add(drift::grow(age_ns, RTC_DRIFT_PPB));
        (error_ns <= HOLDOVER_ERROR_MAX_NS).then_some(Quality {
            source: ClockSource::Rtc,
            state: ClockState::Holdover,
            error_ns: Some(error_ns),
        })
    }

    /// How the crystal runs, once a daemon has had time to learn it.
    pub(super) fn rate_ppb(&self, synchronized_ns: u64) -> Option<i64> {
        if let Some((report, _)) = &self.facts.chrony
            && report.skew_ppm <= RATE_SKEW_MAX_PPM
        {
            return Some((-report.freq_ppm * 1_000.0).round() as i64);
        }
        let kernel = self.facts.kernel.filter(|_| synchronized_ns >= RATE_SETTLED_NS)?;
        Some(kernel.rate_ppb())
    }
}
