//! [`Notice`] to log lines and metrics, in one exhaustive match: a new fact of
//! the core does not compile before it has its place here.
//!
//! One fact, one line. What can repeat goes through the [`Throttle`].

mod sources;
mod uplink;

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::{debug, error, info, warn};

use super::throttle::{INTERVAL, Throttle};
use crate::core::clock::{ClockEvent, ClockEventKind};
use crate::core::id::{SourceId, UplinkId};
use crate::core::length::length_text;
use crate::core::reading::GapRecord;
use crate::core::seam::{Checkpointed, Notice};
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
            Notice::Committed { entries: _, took } => self.metrics.committed(took),
            Notice::Link(uplink, notice) => self.uplink(uplink, notice, now),
            Notice::Lag { source, min, max, count } => {
                self.metrics.lag(source.as_str(), min, max, count);
            }
            Notice::EpochStarted { epoch, reason } => {
                info!(%epoch, reason, "a new numbering begins");
            }
            Notice::CommitFailed { attempts, reason, retry_in } => {
                if let Some(unsaid) = self.throttle.admit("a commit failed", now) {
                    let retry_in = length_text(retry_in);
                    error!(reason, attempts, retry_in, unsaid, "a commit failed");
                }
            }
            Notice::StoreHealed { attempts } => {
                self.throttle.clear("a commit failed");
                info!(attempts, "the store works again");
            }
            Notice::Gap(gap) => self.gap(&gap, now),
            Notice::Full { used_bytes, free_bytes, limit } => {
                if let Some(unsaid) = self.throttle.admit("the buffer is full", now) {
                    let limit = full_word(limit);
                    warn!(limit, used_bytes, free_bytes, unsaid, "the buffer is full");
                }
            }
            Notice::Filling { used_bytes, capacity_bytes, backlog } => {
                let percent = used_bytes.saturating_mul(100) / capacity_bytes.max(1);
                // While a buffer evicts, it fills and empties all the time.
                if let Some(unsaid) = self.throttle.admit("the buffer runs full", now) {
                    warn!(
                        percent,
                        used_bytes, capacity_bytes, backlog, unsaid, "the buffer runs full"
                    );
                }
            }
            Notice::Emptied { used_bytes } => {
                if let Some(unsaid) = self.throttle.admit("the buffer is below 70 % again", now) {
                    info!(used_bytes, unsaid, "the buffer is below 70 % again");
                }
            }
            Notice::Room { refused } => {
                if let Some(unsaid) = self.throttle.admit("the buffer has room again", now) {
                    info!(refused, unsaid, "the buffer has room again");
                }
            }
            Notice::Damaged { reason } => {
                if let Some(unsaid) = self.throttle.admit("damage in the journal", now) {
                    error!(reason, unsaid, "damage in the journal");
                }
            }
            Notice::ImplausibleTime { source, count } => {
                self.metrics.implausible(source.as_str(), count);
                let cause = format!("event times of {source} in the future or far past");
                if let Some(unsaid) = self.throttle.admit_many(&cause, count, now) {
                    let count = count + unsaid;
                    warn!(%source, count, "event times in the future or far past");
                }
            }
            Notice::DeviceClockStep { source, delta } => {
                let cause = format!("the clock of device {source} was set");
                if let Some(unsaid) = self.throttle.admit(&cause, now) {
                    let delta = length_text(delta);
                    warn!(%source, delta, unsaid, "the clock of a device was set");
                }
            }
            Notice::Quarantined { source, kind, reason, count } => {
                self.metrics.quarantined(source.as_str(), kind, count);
                let cause = format!("inputs of {source} went to the quarantine ({kind})");
                if let Some(unsaid) = self.throttle.admit_many(&cause, count, now) {
                    let count = count + unsaid;
                    warn!(%source, kind, count, reason, "inputs went to the quarantine");
                }
            }
            Notice::RefusalsDropped { count, reason } => {
                let cause = "the quarantine does not take refused inputs";
                if let Some(unsaid) = self.throttle.admit_many(cause, count, now) {
                    let count = count + unsaid;
                    warn!(
                        count,
                        reason, "refused inputs are dropped: the quarantine does not take them"
                    );
                }
            }
            Notice::Released { source, count } => {
                info!(%source, count, "an operator released readings from the quarantine");
            }
            Notice::WindowsRestarted { window, reason } => {
                let window = window.as_deref().unwrap_or("all");
                warn!(window, reason, "windows do not go on exactly where they were");
            }
            Notice::HeldReadingsGone { output, readings } => {
                warn!(
                    %output,
                    readings,
                    "readings held for an output before the restart do not come there: evicted \
                     while the disk was full, or of a source it has no more"
                );
            }
            Notice::ReplayDiffers { differences } => {
                error!(differences, "a replay of the journal came to other results: please report");
            }
            Notice::CheckpointFailed { of, reason } => {
                let of = match of {
                    Checkpointed::Windows => "windows",
                    Checkpointed::Dedupe => "dedupe",
                };
                if let Some(unsaid) =
                    self.throttle.admit(&format!("a checkpoint of {of} cannot be written"), now)
                {
                    warn!(
                        of,
                        reason, unsaid, "a checkpoint cannot be written: a restart takes longer"
                    );
                }
            }
            Notice::DedupeTorn { reason } => {
                warn!(reason, "repeats of readings before this start may not all be known");
            }
            Notice::DedupeFull { source } => warn!(
                %source,
                "repeats are known for less than the horizon: raise entries_max or lower the horizon"
            ),
            Notice::TotalsTorn { reason } => {
                warn!(reason, "running totals may lack the increments that went with it");
            }
            Notice::Clock(event) => clock_event(&event),
            Notice::Corrected(correction) => info!(
                source = %correction.source,
                first_seq = %correction.first_seq,
                last_seq = %correction.last_seq,
                shift = length_text(correction.shift),
                "readings that had left under a bad clock get a correction"
            ),
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

#[cfg(test)]
#[path = "telemetry/outage_tests.rs"]
mod outage_tests;
