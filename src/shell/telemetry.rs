//! [`Notice`] to log lines and metrics, in one exhaustive match: a new fact of
//! the core does not compile before it has its place here.
//!
//! One fact, one line. What can repeat goes through the [`Throttle`]. The path of the
//! module is the target of a line: one that moves to another file looks different to
//! those who filter the log by it.

mod sources;
mod uplink;

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::{debug, error, info, warn};

use super::throttle::{INTERVAL, Throttle};
use crate::core::clock::{ClockEvent, ClockEventKind, Correction};
use crate::core::id::{Epoch, SourceId, UplinkId};
use crate::core::length::length_text;
use crate::core::reading::GapRecord;
use crate::core::seam::{Checkpointed, FullCause, Notice};
use crate::core::time::{MonoTime, Span};
use crate::http::metrics::Metrics;
use crate::http::status::full_word;

/// Where notices go.
#[derive(Debug)]
pub struct Telemetry {
    metrics: Arc<Metrics>,
    /// The names of the uplinks.
    uplinks: Vec<String>,
    throttle: Throttle,
    /// For uplinks that gave up a connection for want of a PUBACK: how long they waited. It
    /// is logged with the end of the connection.
    overdue: BTreeMap<UplinkId, Span>,
    /// Attempts to connect that failed since it was last said that an uplink is up.
    failed_attempts: BTreeMap<UplinkId, u64>,
    /// The sources that cannot read something that they should.
    troubled: BTreeMap<SourceId, sources::Trouble>,
    swept: MonoTime,
}

impl Telemetry {
    /// Counts into `metrics`; logs through `tracing`, uplinks by their names.
    pub fn new(metrics: Arc<Metrics>, uplinks: Vec<String>) -> Self {
        let (throttle, swept) = (Throttle::default(), MonoTime::default());
        Self {
            metrics,
            uplinks,
            throttle,
            overdue: BTreeMap::new(),
            failed_attempts: BTreeMap::new(),
            troubled: BTreeMap::new(),
            swept,
        }
    }

    /// Logs what was counted for a minute and not logged. Cheap: looks no more than once a
    /// second.
    pub fn sweep(&mut self, now: MonoTime) {
        if now.since(self.swept) < Span::from_secs(1) {
            return;
        }
        self.swept = now;
        for (cause, count) in self.throttle.overdue(now) {
            info!(what = cause, count, within = %length_text(INTERVAL), "the same again");
        }
    }

    /// Takes one fact.
    pub fn take(&mut self, notice: Notice, now: MonoTime) {
        match notice {
            Notice::Link(uplink, notice) => self.uplink(uplink, notice, now),

            Notice::Committed { entries: _, took } => self.metrics.committed(took),
            Notice::CommitFailed { attempts, reason, retry_in } => {
                self.commit_failed(attempts, &reason, retry_in, now);
            }
            Notice::StoreHealed { attempts } => self.store_healed(attempts),
            Notice::EpochStarted { epoch, reason } => epoch_started(epoch, &reason),
            Notice::Damaged { reason } => self.damaged(&reason, now),
            Notice::Gap(gap) => self.gap(&gap, now),

            Notice::Full { used_bytes, free_bytes, limit } => {
                self.full(used_bytes, free_bytes, limit, now);
            }
            Notice::Filling { used_bytes, capacity_bytes, backlog } => {
                self.filling(used_bytes, capacity_bytes, backlog, now);
            }
            Notice::Emptied { used_bytes } => self.emptied(used_bytes, now),
            Notice::Room { refused } => self.room(refused, now),

            Notice::Lag { source, min, max, count } => {
                self.metrics.lag(source.as_str(), min, max, count);
            }
            Notice::ImplausibleTime { source, count } => self.implausible(&source, count, now),
            Notice::DeviceClockStep { source, delta } => self.device_clock(&source, delta, now),
            Notice::Clock(event) => clock_event(&event),
            Notice::Corrected(correction) => corrected(&correction),

            Notice::Quarantined { source, kind, reason, count } => {
                self.quarantined(&source, kind, &reason, count, now);
            }
            Notice::RefusalsDropped { count, reason } => {
                self.refusals_dropped(count, &reason, now);
            }
            Notice::Released { source, count } => released(&source, count),

            Notice::CheckpointFailed { of, reason } => self.checkpoint_failed(of, &reason, now),
            Notice::WindowsRestarted { window, reason } => {
                windows_restarted(window.as_deref(), &reason);
            }
            Notice::HeldReadingsGone { output, readings } => held_readings_gone(&output, readings),
            Notice::ReplayDiffers { differences } => replay_differs(differences),
            Notice::DedupeTorn { reason } => dedupe_torn(&reason),
            Notice::DedupeFull { source } => dedupe_full(&source),
            Notice::TotalsTorn { reason } => totals_torn(&reason),
        }
    }
}

/// The journal: commits, and what is lost of it.
impl Telemetry {
    fn commit_failed(&mut self, attempts: u32, reason: &str, retry_in: Span, now: MonoTime) {
        if let Some(unsaid) = self.throttle.admit("a commit failed", now) {
            let retry_in = length_text(retry_in);
            error!(reason, attempts, retry_in, unsaid, "a commit failed");
        }
    }

    fn store_healed(&mut self, attempts: u32) {
        self.throttle.clear("a commit failed");
        info!(attempts, "the store works again");
    }

    fn damaged(&mut self, reason: &str, now: MonoTime) {
        if let Some(unsaid) = self.throttle.admit("damage in the journal", now) {
            error!(reason, unsaid, "damage in the journal");
        }
    }

    fn gap(&mut self, gap: &GapRecord, now: MonoTime) {
        let reason = gap.reason.as_str();
        let source = &gap.source;
        let count = gap.last_seq.map_or(1, |last| last.0.saturating_sub(gap.first_seq.0) + 1);
        self.metrics.evicted(source.as_str(), reason, count);
        if let Some(unsaid) =
            self.throttle.admit(&format!("readings of {source} will not arrive ({reason})"), now)
        {
            let (first_seq, last_seq) = (gap.first_seq.0, gap.last_seq.map(|last| last.0));
            let epoch = gap.epoch;
            warn!(%source, reason, %epoch, first_seq, last_seq, unsaid, "readings will not arrive");
        }
    }
}

fn epoch_started(epoch: Epoch, reason: &str) {
    info!(%epoch, reason, "a new numbering begins");
}

/// The room for readings.
impl Telemetry {
    fn full(&mut self, used_bytes: u64, free_bytes: u64, limit: FullCause, now: MonoTime) {
        if let Some(unsaid) = self.throttle.admit("the buffer is full", now) {
            let limit = full_word(limit);
            warn!(limit, used_bytes, free_bytes, unsaid, "the buffer is full");
        }
    }

    fn filling(&mut self, used_bytes: u64, capacity_bytes: u64, backlog: u64, now: MonoTime) {
        let percent = used_bytes.saturating_mul(100) / capacity_bytes.max(1);
        // While a buffer evicts, it fills and empties all the time.
        if let Some(unsaid) = self.throttle.admit("the buffer runs full", now) {
            warn!(percent, used_bytes, capacity_bytes, backlog, unsaid, "the buffer runs full");
        }
    }

    fn emptied(&mut self, used_bytes: u64, now: MonoTime) {
        if let Some(unsaid) = self.throttle.admit("the buffer is below 70 % again", now) {
            info!(used_bytes, unsaid, "the buffer is below 70 % again");
        }
    }

    fn room(&mut self, refused: u64, now: MonoTime) {
        if let Some(unsaid) = self.throttle.admit("the buffer has room again", now) {
            info!(refused, unsaid, "the buffer has room again");
        }
    }
}

/// Times: of readings, of devices, of this machine.
impl Telemetry {
    fn implausible(&mut self, source: &SourceId, count: u64, now: MonoTime) {
        self.metrics.implausible(source.as_str(), count);
        let cause = format!("event times of {source} in the future or far past");
        if let Some(unsaid) = self.throttle.admit_many(&cause, count, now) {
            let count = count + unsaid;
            warn!(%source, count, "event times in the future or far past");
        }
    }

    fn device_clock(&mut self, source: &SourceId, delta: Span, now: MonoTime) {
        let cause = format!("the clock of device {source} was set");
        if let Some(unsaid) = self.throttle.admit(&cause, now) {
            let delta = length_text(delta);
            warn!(%source, delta, unsaid, "the clock of a device was set");
        }
    }
}

/// One line for what happened to the wall clock.
fn clock_event(event: &ClockEvent) {
    let (from, to) = (event.state_before.as_str(), event.state.as_str());
    let source = event.clock.as_str();
    match event.kind {
        ClockEventKind::Step(by) => {
            let by = length_text(by);
            warn!(
                by,
                from, to, "the wall clock was set: readings say so until a source vouches for it"
            );
        }
        ClockEventKind::Leap(by) => info!(by = length_text(by), "leap second"),
        ClockEventKind::Suspend(by) => info!(by = length_text(by), "the machine slept"),
        ClockEventKind::Stall(by) => warn!(by = length_text(by), "the agent was not running"),
        ClockEventKind::FastSlew { ppm } => info!(ppm, "the clock is being steered hard"),
        ClockEventKind::Boot => debug!(source, "first start in this boot"),
        ClockEventKind::State => info!(from, to, source, "the state of the clock changed"),
        ClockEventKind::Vouched => info!(to, "an operator vouches for the clock"),
    }
}

fn corrected(correction: &Correction) {
    info!(
        source = %correction.source,
        first_seq = %correction.first_seq,
        last_seq = %correction.last_seq,
        shift = length_text(correction.shift),
        "readings that had left under a bad clock get a correction"
    );
}

/// The quarantine.
impl Telemetry {
    fn quarantined(
        &mut self,
        source: &SourceId,
        kind: &'static str,
        reason: &str,
        count: u64,
        now: MonoTime,
    ) {
        self.metrics.quarantined(source.as_str(), kind, count);
        let cause = format!("inputs of {source} went to the quarantine ({kind})");
        if let Some(unsaid) = self.throttle.admit_many(&cause, count, now) {
            let count = count + unsaid;
            warn!(%source, kind, count, reason, "inputs went to the quarantine");
        }
    }

    fn refusals_dropped(&mut self, count: u64, reason: &str, now: MonoTime) {
        let cause = "the quarantine does not take refused inputs";
        if let Some(unsaid) = self.throttle.admit_many(cause, count, now) {
            let count = count + unsaid;
            warn!(count, reason, "refused inputs are dropped: the quarantine does not take them");
        }
    }
}

fn released(source: &SourceId, count: u64) {
    info!(%source, count, "an operator released readings from the quarantine");
}

/// What a restart goes on from: windows, held readings, known repeats, running totals.
impl Telemetry {
    fn checkpoint_failed(&mut self, of: Checkpointed, reason: &str, now: MonoTime) {
        let of = match of {
            Checkpointed::Windows => "windows",
            Checkpointed::Dedupe => "dedupe",
        };
        let cause = format!("a checkpoint of {of} cannot be written");
        if let Some(unsaid) = self.throttle.admit(&cause, now) {
            warn!(of, reason, unsaid, "a checkpoint cannot be written: a restart takes longer");
        }
    }
}

fn windows_restarted(window: Option<&str>, reason: &str) {
    let window = window.unwrap_or("all");
    warn!(window, reason, "windows do not go on exactly where they were");
}

fn held_readings_gone(output: &str, readings: u64) {
    warn!(
        %output,
        readings,
        "readings held for an output before the restart do not come there: evicted \
         while the disk was full, or of a source it has no more"
    );
}

fn replay_differs(differences: u64) {
    error!(differences, "a replay of the journal came to other results: please report");
}

fn dedupe_torn(reason: &str) {
    warn!(reason, "repeats of readings before this start may not all be known");
}

fn dedupe_full(source: &SourceId) {
    warn!(
        %source,
        "repeats are known for less than the horizon: raise entries_max or lower the horizon"
    );
}

fn totals_torn(reason: &str) {
    warn!(reason, "running totals may lack the increments that went with it");
}

#[cfg(test)]
#[path = "telemetry/outage_tests.rs"]
mod outage_tests;
