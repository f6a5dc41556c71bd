//! The clock over time: looks at the clocks and samples of facts go in; quality, anchors
//! and events come out.

mod arrival;
mod judging;

use super::boots::{self, Boot};
use super::combine::Quality;
use super::detect::{self, Change};
use super::event::CLOCK_SOURCE;
use super::kernel::Leap;
use super::seal::Timeline;
use super::timeline::Anchor;
use super::updates::Updates;
use super::{
    BootFacts, ClockEvent, ClockEventKind, ClockFacts, ClockReading, ClockSource, ClockState,
    Vouch, drift,
};
use crate::core::id::{BootId, Offset, SourceId};
use crate::core::limits::CLOCK_FLOOR_NS;
use crate::core::seam::{ClockLedger, Now};
use crate::core::time::{IngestTime, MaxError, Span, TimebaseId, Uptime};

/// Between two samples of facts.
const POLL_NS: u64 = 1_000_000_000;
/// Older facts say nothing about the present: the sampler is stuck.
const FACTS_STALE_NS: u64 = 5 * POLL_NS;
/// Wall time and battery-backed clock may be so far apart while that one still counts
/// as what set the other: both are read to the second, one of them rounded down.
const RTC_APART_NS: u64 = 1_500_000_000;
/// Error that a suspend may add until the next sample.
const SUSPEND_ERROR_NS: u64 = 1_000_000_000;
/// A slew faster than this is reported as an event.
const FAST_SLEW_PPM: f64 = 500.0;
/// Steps for which the clock before them is remembered: readings may have arrived before a
/// step and be stamped after it.
const STEPS_KEPT: usize = 8;
/// Events kept for the status.
const EVENTS_KEPT: usize = 16;

/// Which source of information on the clock counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// Every source there is.
    #[default]
    Auto,
    /// The kernel alone.
    Kernel,
    /// chronyd; without its answer the clock is not trusted.
    Chrony,
    /// ptp4l; without its answer the clock is not trusted.
    Ptp4l,
    /// None: the clock is never trusted.
    None,
}

/// What the model needs to know of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSettings {
    /// Which source of information counts.
    pub reference: Reference,
    /// Bound on the crystal's rate error while it is not learnt, in parts per
    /// billion.
    pub max_drift_ppb: u64,
    /// How long readings of an unsynchronized clock wait for a better one.
    pub hold_unsynchronized: Span,
    /// How long after a synchronization the daemon is left to settle before the
    /// readings that waited are timed.
    pub restamp_settle: Span,
    /// A clock that shows less is wrong, in nanoseconds since the UNIX epoch.
    pub floor_ns: i64,
}

impl ClockSettings {
    /// The defaults of the configuration.
    pub const DEFAULT: ClockSettings = ClockSettings {
        reference: Reference::Auto,
        max_drift_ppb: 100_000,
        hold_unsynchronized: Span::from_secs(120),
        restamp_settle: Span::from_secs(30),
        floor_ns: CLOCK_FLOOR_NS,
    };
}

/// The newest quality and when it was found.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    quality: Quality,
    at: Uptime,
    has_facts: bool,
}

/// The clock of this gateway.
#[derive(Clone, Debug)]
pub struct ClockModel {
    settings: ClockSettings,
    boot_facts: BootFacts,
    boots: Vec<Boot>,
    timebase: TimebaseId,
    last: Now,
    sampled: Now,
    facts: ClockFacts,
    updates: Updates,
    found: Found,
    /// A step was seen, and the clock has not been synchronized since.
    is_stepped: bool,
    /// Since the step the kernel has called its clock unsynchronized, as it should: a bound
    /// that it gives from now on is of after the step.
    is_cleared: bool,
    vouched: Option<Anchor>,
    /// The clock before each of the last steps, and when that was.
    before_steps: Vec<(ClockReading, Uptime)>,
    synchronized_since: Option<Uptime>,
    lost_at: Uptime,
    is_slewing: bool,
    suspends: u64,
    events: Vec<ClockEvent>,
    recent: Vec<ClockEvent>,
    /// Counts changes of the ledger that must be saved with the next commit.
    revision: u64,
}

impl ClockModel {
    /// A model that goes on from the ledger. `next` is the next free offset.
    pub fn new(
        settings: ClockSettings,
        boot_facts: BootFacts,
        ledger: &ClockLedger,
        next: Offset,
        now: &Now,
    ) -> Self {
        let mut model = Self {
            settings,
            boot_facts,
            boots: ledger.boots.clone(),
            timebase: ledger.timebase,
            last: *now,
            sampled: *now,
            facts: ClockFacts::default(),
            updates: Updates::default(),
            found: Found::default(),
            is_stepped: false,
            is_cleared: false,
            vouched: None,
            before_steps: Vec::new(),
            synchronized_since: None,
            lost_at: Uptime::from_ns(0),
            is_slewing: false,
            suspends: 0,
            events: Vec::new(),
            recent: Vec::new(),
            revision: 0,
        };
        model.begin(next, now);
        model
    }

    fn begin(&mut self, next: Offset, now: &Now) {
        let known = self.boots.last().filter(|boot| boot.id == self.boot_facts.boot);
        let Some(boot) = known else {
            self.timebase = TimebaseId(self.timebase.0 + 1);
            let set_by = self.set_by(now);
            self.boots.push(Boot::begun(self.boot_facts.boot, next, set_by, now));
            self.found.quality.source = set_by;
            return self.happened(ClockEventKind::Boot, ClockState::Unsynchronized, now);
        };
        self.found.quality.source = boot.set_by;
        // Was the clock set while the agent did not run?
        if let Some(by) = detect::step_between(boot.wall_offset_ns, 0, now) {
            self.stepped(by, now);
            // The step made the kernel call its clock unsynchronized: a bound that it
            // gives from the first sample on is of after the step.
            self.is_cleared = true;
        }
    }

    fn set_by(&self, now: &Now) -> ClockSource {
        let at_boot_ns = now.wall_offset_ns();
        // Nobody looked until now: it may have been set to another time since.
        let is_as_rtc = self
            .boot_facts
            .rtc
            .is_none_or(|rtc| now.wall.unix_ns().abs_diff(rtc.unix_ns()) <= RTC_APART_NS);
        if self.boot_facts.is_set_by_rtc && is_as_rtc {
            ClockSource::Rtc
        } else if self.boot_facts.saved.is_some_and(|saved| at_boot_ns >= saved.unix_ns()) {
            ClockSource::Saved
        } else {
            ClockSource::Unknown
        }
    }

    /// A look at the clocks; the first thing of every turn.
    pub fn look(&mut self, now: &Now) {
        if *now == self.last {
            return;
        }
        // Steps are told against the last known difference of wall and boot time:
        // many small ones add up.
        let wall_ns = self.boot().wall_offset_ns.wrapping_add(self.last.mono.ns() as i64);
        let before = Now { wall: IngestTime::from_unix_ns(wall_ns), ..self.last };
        let leap = self.leap();
        for change in detect::changes(&before, now, (leap, leap), POLL_NS) {
            match change {
                Change::Suspend(by) => self.suspended(by, now),
                Change::Step(by) => self.stepped(by, now),
                Change::Leap(by) => self.leaped(by, now),
                Change::Stall(by) => {
                    self.happened(ClockEventKind::Stall(by), self.found.quality.state, now);
                }
            }
        }
        self.boot_mut().last_up = now.uptime();
        self.last = *now;
    }

    /// What the machine says about its clocks, at this look.
    pub fn sample(&mut self, facts: ClockFacts, now: &Now) {
        self.look(now);
        self.watch_slew(now);
        if let Some(kernel) = &facts.kernel {
            self.updates.saw(kernel, now.uptime());
        }
        self.vouched_after_step(&facts);
        self.facts = facts;
        self.sampled = *now;
        let before = self.reading(now).state;
        self.found = Found { quality: self.judge(now), at: now.uptime(), has_facts: true };
        self.suspends = 0;
        let state = self.found.quality.state;
        self.follow(before, state, now);
        if state == ClockState::Synchronized {
            self.learn(now);
        }
    }

    /// An operator vouches for the clock as it is now.
    pub fn vouch(&mut self, vouch: Vouch, now: &Now) {
        self.look(now);
        let before = self.found.quality.state;
        let anchor =
            Anchor { up: now.uptime(), utc_ns: now.wall.unix_ns(), error_ns: vouch.error_ns };
        self.vouched = Some(anchor);
        self.is_stepped = false;
        self.boot_mut().source = ClockSource::Manual;
        self.boot_mut().anchor(anchor, true);
        self.found = Found { quality: self.judge(now), at: now.uptime(), has_facts: true };
        self.synchronized_since.get_or_insert(now.uptime());
        self.happened(ClockEventKind::Vouched, before, now);
    }

    /// The clock as it is at this look.
    pub fn reading(&self, now: &Now) -> ClockReading {
        let Quality { source, state, error_ns } = self.found.quality;
        let elapsed_ns = now.uptime().since_ns(self.found.at);
        let is_stuck = self.found.has_facts && elapsed_ns > FACTS_STALE_NS;
        let state = match state {
            ClockState::Synchronized if is_stuck => ClockState::Holdover,
            state => state,
        };
        let grown_ns = drift::grow(elapsed_ns, drift::DISCIPLINED_PPB);
        let error_ns = error_ns.map(|error_ns| {
            error_ns
                .saturating_add(grown_ns)
                .saturating_add(self.suspends.saturating_mul(SUSPEND_ERROR_NS))
        });
        ClockReading {
            wall: now.wall,
            source,
            state,
            max_error: error_ns.filter(|_| state.is_trusted()).map(MaxError::from_ns),
            timebase: self.timebase,
            boot: self.boot_facts.boot,
        }
    }

    /// This run of the machine.
    pub fn boot_id(&self) -> BootId {
        self.boot_facts.boot
    }

    /// The newest facts.
    pub fn facts(&self) -> &ClockFacts {
        &self.facts
    }

    /// The boots that are remembered, the current one last.
    pub fn boots(&self) -> &[Boot] {
        &self.boots
    }

    /// The newest timebase.
    pub fn timebase(&self) -> TimebaseId {
        self.timebase
    }

    /// Grows with every change of the ledger that a crash must not undo.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The newest events, oldest first.
    pub fn recent(&self) -> &[ClockEvent] {
        &self.recent
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<ClockEvent> {
        std::mem::take(&mut self.events)
    }

    /// Since when the clock is synchronized, without interruption.
    pub fn synchronized_since(&self) -> Option<Uptime> {
        self.synchronized_since
    }

    /// Since when it is not: the boot, or the last loss.
    pub fn lost_at(&self) -> Uptime {
        self.lost_at
    }

    /// Whether the clock may still be set: a time daemon is present, or was once.
    pub fn may_improve(&self) -> bool {
        self.facts.has_daemon || self.boots.iter().any(Boot::is_anchored)
    }

    /// Forgets boots that neither an entry from `frontier` on nor a correction
    /// needs.
    pub fn prune(&mut self, frontier: Offset, is_awaited: impl Fn(BootId) -> bool) {
        boots::prune(&mut self.boots, frontier, is_awaited);
    }

    /// What is known about UTC during the boot `boots()[at]`.
    pub fn timeline(&self, at: usize) -> Option<Timeline> {
        let raw_ppb = self.settings.max_drift_ppb;
        if let Some(anchored) = self.boots.get(at)?.timeline(raw_ppb) {
            return Some(Timeline::Anchored(anchored));
        }
        boots::bounded(&self.boots, at, self.settings.floor_ns, raw_ppb).map(Timeline::Bounded)
    }

    fn boot(&self) -> &Boot {
        &self.boots[self.boots.len() - 1]
    }

    fn boot_mut(&mut self) -> &mut Boot {
        let last = self.boots.len() - 1;
        &mut self.boots[last]
    }

    fn leap(&self) -> Leap {
        self.facts.kernel.map_or(Leap::None, |kernel| kernel.judge().leap)
    }

    fn remember(&mut self, before: ClockReading, up: Uptime) {
        if self.before_steps.len() == STEPS_KEPT {
            self.before_steps.remove(0);
        }
        self.before_steps.push((before, up));
    }

    /// A leap second: the clock is not lost, but a second of wall time came twice or not
    /// at all.
    fn leaped(&mut self, by: Span, now: &Now) {
        self.remember(self.reading(now), now.uptime());
        self.boot_mut().wall_offset_ns = now.wall_offset_ns();
        self.timebase = TimebaseId(self.timebase.0 + 1);
        self.revision += 1;
        self.happened(ClockEventKind::Leap(by), self.found.quality.state, now);
    }

    fn stepped(&mut self, by: Span, now: &Now) {
        let reading = self.reading(now);
        let before = reading.state;
        self.remember(reading, now.uptime());
        self.boot_mut().wall_offset_ns = now.wall_offset_ns();
        self.timebase = TimebaseId(self.timebase.0 + 1);
        self.is_stepped = true;
        self.is_cleared = false;
        self.vouched = None;
        self.synchronized_since = None;
        self.lost_at = now.uptime();
        self.found.quality =
            Quality { source: self.boot().set_by, state: ClockState::Stepped, error_ns: None };
        self.found.at = now.uptime();
        self.revision += 1;
        self.happened(ClockEventKind::Step(by), before, now);
    }

    fn suspended(&mut self, by: Span, now: &Now) {
        self.suspends += 1;
        self.boot_mut().suspended(now.uptime());
        self.revision += 1;
        self.happened(ClockEventKind::Suspend(by), self.found.quality.state, now);
    }

    /// After a step, waits until a daemon has synchronized the clock again: the kernel must
    /// have called it unsynchronized, or shown a new update, since.
    fn vouched_after_step(&mut self, facts: &ClockFacts) {
        if !self.is_stepped {
            return;
        }
        let Some(kernel) = facts.kernel else { return };
        if !kernel.judge().is_synchronized {
            self.is_cleared = true;
        } else if self.is_cleared || self.updates.is_new() {
            self.is_stepped = false;
        }
    }

    fn watch_slew(&mut self, now: &Now) {
        let ppm = detect::slew_ppm(&self.sampled, now).unwrap_or(0.0);
        let is_long_enough = now.raw_ns.saturating_sub(self.sampled.raw_ns) >= POLL_NS / 2;
        if !is_long_enough {
            return;
        }
        let is_slewing = ppm.abs() > FAST_SLEW_PPM;
        if is_slewing && !self.is_slewing {
            let kind = ClockEventKind::FastSlew { ppm: ppm.round() as i32 };
            self.happened(kind, self.found.quality.state, now);
        }
        self.is_slewing = is_slewing;
    }

    /// Records when the clock became synchronized and when it was lost.
    fn follow(&mut self, before: ClockState, state: ClockState, now: &Now) {
        if state == ClockState::Synchronized {
            if self.synchronized_since.is_none() {
                self.synchronized_since = Some(now.uptime());
                self.revision += 1;
            }
        } else if self.vouched.is_none() || !state.is_trusted() {
            if self.synchronized_since.take().is_some() {
                self.revision += 1;
            }
            if before.is_trusted() && !state.is_trusted() {
                self.lost_at = now.uptime();
            }
        }
        if before != state {
            self.happened(ClockEventKind::State, before, now);
        }
    }

    /// The clock is synchronized: an anchor, and how the crystal runs.
    fn learn(&mut self, now: &Now) {
        let Quality { source, error_ns: Some(error_ns), .. } = self.found.quality else { return };
        let since = self.synchronized_since.unwrap_or(now.uptime());
        let is_new = since == now.uptime();
        let anchor = Anchor { up: now.uptime(), utc_ns: now.wall.unix_ns(), error_ns };
        let rate_ppb = self.rate_ppb(now.uptime().since_ns(since));
        let boot = self.boot_mut();
        boot.source = source;
        boot.anchor(anchor, is_new || boot.stretches.is_empty());
        boot.rate_ppb = rate_ppb.or(boot.rate_ppb);
    }

    fn happened(&mut self, kind: ClockEventKind, state_before: ClockState, now: &Now) {
        let reading = self.reading(now);
        let event = ClockEvent {
            source: SourceId::new(CLOCK_SOURCE),
            kind,
            boot: reading.boot,
            uptime: now.uptime(),
            timebase: self.timebase,
            at: now.wall,
            state_before,
            state: reading.state,
            clock: reading.source,
            max_error: reading.max_error,
        };
        if self.recent.len() == EVENTS_KEPT {
            self.recent.remove(0);
        }
        self.recent.push(event.clone());
        self.events.push(event);
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
