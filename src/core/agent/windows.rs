//! The windows on site: which readings they are given, where their results go, and how
//! they go on after a restart.
//!
//! They are a function of the journal. Live, each reading is given to them as it
//! is numbered, and their results become entries of the same commit. After a
//! restart the journal is given to them again from the last checkpoint; results
//! that it holds already are only compared.

mod replay;
mod slot;

use slot::Slot;
use std::collections::VecDeque;
use std::sync::Arc;

use super::ordering::Orders;
use super::recall::Recall;
use super::*;
use crate::core::id::CommitId;
use crate::core::lateness::LatenessBook;
use crate::core::reading::{IdleMark, Origin, Record, Series};
use crate::core::seam::{Fetch, Purpose};
use crate::core::time::EventTime;
use crate::core::window::checkpoint::{Checkpoint, WindowState};
use crate::core::window::entry::Horizon;
use crate::core::window::operator::{Firing, Operator, Output};
use crate::core::window::{LatePolicy, LateReading, ResultStatus, WindowResult, WindowSpec};

/// Between two checkpoints of measured lateness, where there is no window.
const LATENESS_INTERVAL: Span = Span::from_secs(600);
/// Between two checkpoints while the disk is full.
const HURRIED_INTERVAL: Span = Span::from_secs(1);

/// The value of `covered` where there is neither a window nor an order.
const NOTHING_NEEDED: (Offset, Offset) = (Offset(u64::MAX), Offset(u64::MAX));

/// All windows of this gateway.
#[derive(Debug)]
pub(super) struct Windows {
    slots: Vec<Slot>,
    /// The orders of outputs: they share the checkpoint and the replay.
    pub(super) orders: Orders,
    replay: Option<Recall>,
    /// The state that the windows began with covers every entry below.
    through: Offset,
    /// Up to where a durable checkpoint has everything that windows need, and everything
    /// that orders need.
    covered: (Offset, Offset),
    checkpoint_interval: Span,
    /// A checkpoint that waits for its commit, and one that is being written.
    staged: Option<(CommitId, Checkpoint)>,
    writing: Option<(Offset, Offset)>,
    next_checkpoint: MonoTime,
    is_changed: bool,
    /// Offsets of readings that the windows have got again with a better time. It is
    /// found out once for each uplink and given once. What went out on the same lane
    /// before such a reading is included, so that there are few ranges.
    pub(super) retimed: RangeSet,
    /// Results that a replay found different from the journal.
    pub(super) differences: u64,
    /// Whether a part of the journal that was to be replayed is gone.
    pub(super) is_torn: bool,
    /// Idle marks of a replay that take effect together.
    marks: Vec<IdleMark>,
    /// Bounds how far into the future an event time may move watermarks.
    pub(super) horizon: Horizon,
}

/// What a window says, before it is an entry.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    Result(Firing),
    Late(LateReading),
}

/// What a window has done since this process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// First firings.
    pub fired: u64,
    /// Later revisions.
    pub revised: u64,
    /// Final markers.
    pub finals: u64,
    /// Retractions.
    pub retracted: u64,
    /// Readings that were too late.
    pub too_late: u64,
    /// Readings between two windows.
    pub between: u64,
    /// Repeats that were dropped at their source, before this window saw them.
    pub duplicates: u64,
}

impl Windows {
    /// The windows of a configuration, as a checkpoint left them.
    pub(super) fn open(
        settings: &Settings,
        checkpoint: Option<&[u8]>,
        meta: &Meta,
        next: Offset,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) -> (Self, LatenessBook) {
        let known = checkpoint.map(Checkpoint::decode);
        if let Some(Err(reason)) = &known {
            let reason = reason.to_string();
            effects.push(Effect::Notice(Notice::WindowsRestarted { window: None, reason }));
        }
        let known = known.and_then(Result::ok);
        let lateness = known.as_ref().and_then(|known| LatenessBook::from_bytes(&known.lateness));
        let horizon = known.as_ref().map_or(Horizon::default(), |known| known.horizon);
        let known = known.filter(|known| known.through <= next);
        let through = known.as_ref().map_or(next, |known| known.through);
        let from = known.as_ref().map_or(next, Checkpoint::needs_from);
        let mut states: BTreeMap<String, WindowState> = BTreeMap::new();
        let (windows, held) = known.map(|known| (known.windows, known.orders)).unwrap_or_default();
        for state in windows {
            states.insert(state.name.clone(), state);
        }
        let slots = settings.windows.iter().map(|spec| {
            let state = states.remove(&*spec.name).filter(|state| state.version == spec.version);
            Slot::open(spec, state, settings, now, effects)
        });
        let slots: Vec<Slot> = slots.collect();
        let orders = Orders::open(settings, held, horizon, now);
        let is_alone = slots.is_empty() && orders.is_empty();
        let replay = Recall::new(from, next, Purpose::Replay);
        let windows = Self {
            replay: replay.filter(|_| !is_alone),
            through,
            covered: if is_alone { NOTHING_NEEDED } else { (through, from) },
            checkpoint_interval: settings.checkpoint_interval,
            slots,
            orders,
            staged: None,
            writing: None,
            next_checkpoint: now.mono,
            is_changed: !is_alone,
            retimed: super::uplink::done_set(Offset(0), &meta.retimed),
            differences: 0,
            is_torn: false,
            marks: Vec::new(),
            horizon,
        };
        (windows, lateness.unwrap_or_default())
    }

    /// Takes over the sources of a new configuration.
    pub(super) fn change_sources(
        &mut self,
        sources: &BTreeMap<SourceId, SourceSettings>,
        now: MonoTime,
    ) {
        if self.is_empty() {
            return;
        }
        self.slots.iter_mut().for_each(|slot| slot.change_sources(sources, now));
        // A replay judges by the settings that are in force then: a checkpoint now lets it
        // begin after the readings that came under the old ones.
        self.is_changed = true;
        self.next_checkpoint = self.next_checkpoint.min(now);
    }

    /// Entries below need not be kept. Where room is short only the windows count:
    /// ordered outputs are copies, and what they hold must not fill the disk.
    pub(super) fn covered(&self, is_short: bool) -> Offset {
        let (windows, orders) = self.covered;
        if is_short { windows } else { windows.min(orders) }
    }

    /// Whether the state that the replay began with covers this entry already.
    pub(super) fn has_seen(&self, offset: Offset) -> bool {
        offset < self.through
    }

    /// Whether the journal is still being given to the windows.
    pub(super) fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// The next part of the journal to give them.
    pub(super) fn fetch(&mut self) -> Option<Fetch> {
        self.replay.as_mut()?.fetch()
    }

    /// When a source becomes idle, a window is flushed or a checkpoint is due.
    pub(super) fn next_deadline(&self, can_commit: bool) -> Option<MonoTime> {
        if self.is_replaying() {
            return None;
        }
        let idle = self.slots.iter().filter_map(Slot::next_deadline).min();
        let idle = idle.into_iter().chain(self.orders.next_deadline()).min();
        let checkpoint =
            Some(self.next_checkpoint).filter(|_| can_commit && self.is_checkpoint_wanted());
        idle.into_iter().chain(checkpoint).min()
    }

    /// The disk is full, and a checkpoint would free what only the windows still need.
    pub(super) fn hurry(&mut self, now: MonoTime) {
        self.next_checkpoint = self.next_checkpoint.min(now + HURRIED_INTERVAL);
    }

    /// Whether a commit must be made because a checkpoint is due.
    pub(super) fn is_checkpoint_due(&self, now: MonoTime) -> bool {
        self.is_checkpoint_wanted() && self.next_checkpoint <= now
    }

    fn is_checkpoint_wanted(&self) -> bool {
        self.is_changed && !self.is_busy() && !self.is_replaying()
    }

    /// Whether a checkpoint waits for its commit or is being written.
    pub(super) fn is_busy(&self) -> bool {
        self.staged.is_some() || self.writing.is_some()
    }

    /// Notes that the measured lateness has changed.
    pub(super) fn measured(&mut self) {
        self.is_changed = true;
    }

    /// The agent stops: one last checkpoint, so that the next start has nothing to replay.
    pub(super) fn stop(&mut self, now: MonoTime) {
        self.next_checkpoint = self.next_checkpoint.min(now);
    }

    /// Stages a checkpoint with a commit that ends at `end` and makes everything durable
    /// that the windows have seen.
    pub(super) fn stage(
        &mut self,
        id: CommitId,
        end: Offset,
        lateness: &LatenessBook,
        now: MonoTime,
    ) {
        if !self.is_checkpoint_due(now) {
            return;
        }
        let windows = self.slots.iter().map(|slot| WindowState {
            name: slot.spec.name.to_string(),
            version: slot.spec.version,
            operator: slot.operator.checkpoint(),
            clock: slot.clock.map(|c| (c.stamped.0, c.wall_less_up_ns, c.told.0)),
        });
        let (windows, lateness) = (windows.collect(), lateness.to_bytes());
        let (horizon, orders) = (self.horizon, Vec::new());
        let checkpoint = Checkpoint { through: end, windows, horizon, lateness, orders };
        self.staged = Some((id, checkpoint));
        self.is_changed = false;
        let is_alone = self.is_empty();
        self.next_checkpoint =
            now + if is_alone { LATENESS_INTERVAL } else { self.checkpoint_interval };
    }

    /// That commit is durable, and the orders have got it: its checkpoint may be
    /// written.
    pub(super) fn committed(&mut self, id: CommitId) -> Option<Checkpoint> {
        let (_, mut checkpoint) = self.staged.take_if(|(staged, _)| *staged == id)?;
        checkpoint.orders = self.orders.states();
        self.writing = Some((checkpoint.through, checkpoint.needs_from()));
        Some(checkpoint)
    }

    /// A failed commit is retried under a new id: the staged checkpoint follows it.
    pub(super) fn renumbered(&mut self, id: CommitId) {
        if let Some((staged, _)) = &mut self.staged {
            *staged = id;
        }
    }

    /// The store has written the checkpoint, or failed to.
    pub(super) fn written(&mut self, is_good: bool) {
        if let Some(covered) = self.writing.take() {
            if is_good && !self.is_empty() {
                self.covered = covered;
            }
            if !is_good {
                self.is_changed = true;
            }
        }
    }

    /// Whether there is neither a window nor an order.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.orders.is_empty()
    }

    pub(super) fn spec(&self, slot: usize) -> &WindowSpec {
        &self.slots[slot].spec
    }

    pub(super) fn named(&self, slot: usize) -> (SourceId, Arc<WindowSpec>) {
        (self.slots[slot].source.clone(), Arc::clone(&self.slots[slot].spec))
    }

    /// Whether the results of a window are for the uplink too. For a window that is not
    /// configured any more the answer is yes, lest results be lost.
    pub(super) fn goes_up(&self, window: &str) -> bool {
        self.slots.iter().find(|slot| *slot.spec.name == *window).is_none_or(|s| s.spec.upstream)
    }

    /// Gives a reading to every window that takes it.
    pub(super) fn offer(
        &mut self,
        record: &Record,
        moves_watermark: bool,
        now: MonoTime,
    ) -> Vec<(usize, Output)> {
        let mut all = Vec::new();
        let mut out = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if !slot.takes(&record.source, &record.series) {
                continue;
            }
            // A reading that moves no watermark does not show that the source's event time
            // goes on.
            if moves_watermark {
                slot.hear(&record.source, now);
            }
            (slot.last_heard, slot.is_flushed) = (now, false);
            slot.give(record, moves_watermark, &mut out);
            all.extend(out.drain(..).map(|output| (at, output)));
            self.is_changed = true;
        }
        all
    }

    /// Marks for sources that have been silent for too long and for windows to be flushed.
    /// The marks of a group take effect together.
    pub(super) fn silent(&self, now: &Now) -> Vec<Vec<IdleMark>> {
        let mut groups = Vec::new();
        for slot in &self.slots {
            let mut marks = Vec::new();
            let mark = |source: &SourceId, flush| IdleMark {
                source: source.clone(),
                at: now.uptime(),
                window: Some(Arc::clone(&slot.spec.name)),
                flush,
            };
            for (source, heard) in &slot.heard {
                if heard.idle_at(slot.spec.idle_after).is_some_and(|at| at <= now.mono) {
                    marks.push(mark(source, false));
                }
            }
            let is_due = slot.spec.idle_flush.is_some_and(|after| {
                !slot.is_flushed
                    && slot.operator.pane_count() > 0
                    && slot.last_heard + after <= now.mono
            });
            groups.push(marks);
            if is_due {
                groups.push(vec![mark(&slot.source, true)]);
            }
        }
        groups.retain(|marks| !marks.is_empty());
        groups
    }

    /// Applies marks of one window: its sources become idle, or it is flushed.
    pub(super) fn fall_silent(&mut self, marks: &[IdleMark]) -> Vec<(usize, Output)> {
        let Some(mark) = marks.first() else { return Vec::new() };
        let sources: Vec<SourceId> = marks.iter().map(|mark| mark.source.clone()).collect();
        let mut all = Vec::new();
        let mut out = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if mark.window.as_ref().is_some_and(|window| *window != slot.spec.name) {
                continue;
            }
            if mark.flush {
                slot.is_flushed = true;
                slot.operator.flush(&mut out);
            } else {
                for source in &sources {
                    if let Some(heard) = slot.heard.get_mut(source) {
                        heard.is_idle = true;
                    }
                }
                slot.operator.sources_idle(&sources, &mut out);
            }
            self.is_changed = true;
            all.extend(out.drain(..).map(|output| (at, output)));
        }
        all
    }

    /// Counts a dropped repeat for the windows that would have taken it. It is not in the
    /// journal, so a replay would not know of it: no result may count it.
    pub(super) fn missed_repeat(&mut self, source: &SourceId, series: &Arc<Series>) {
        for slot in &mut self.slots {
            if slot.takes(source, series) {
                slot.counts.duplicates += 1;
            }
        }
    }

    pub(super) fn count(&mut self, slot: usize, output: &Output) {
        // What is replayed was counted by an earlier run.
        if self.is_replaying() {
            return;
        }
        let slot = &mut self.slots[slot];
        let spec = &slot.spec;
        // Without allowed lateness the first firing is also the final one.
        let has_markers = spec.allowed_lateness > Span::ZERO
            && !matches!(spec.late_policy, LatePolicy::Adjust { .. });
        let counts = &mut slot.counts;
        match output {
            Output::Fired(firing) => match firing.status {
                ResultStatus::Final if has_markers && !firing.coverage.clock_step => {
                    counts.finals += 1;
                }
                ResultStatus::Retracted => counts.retracted += 1,
                _ if firing.revision == 1 => counts.fired += 1,
                _ => counts.revised += 1,
            },
            Output::Late(_) => counts.too_late += 1,
            Output::Between => counts.between += 1,
            Output::Cleared { .. } => {}
        }
    }

    /// What there is to report.
    pub(super) fn status(
        &self,
        now: MonoTime,
    ) -> BTreeMap<String, crate::core::status::WindowStatus> {
        let one = |slot: &Slot| crate::core::status::WindowStatus {
            watermark: slot.watermark(),
            patience: slot.patience(),
            held_by: slot.held_by(),
            panes: slot.operator.pane_count(),
            series: slot.operator.series_count(),
            state_bytes: slot.operator.state_bytes(),
            idle: slot.idle_sources().cloned().collect(),
            waits_for: slot.waits_for(now),
            counts: slot.counts,
        };
        self.slots.iter().map(|slot| (slot.spec.name.to_string(), one(slot))).collect()
    }
}
