//! Repeats from readers as part of the agent: which readings are dropped, and how
//! the memory of them goes on after a restart.
//!
//! The memory is a function of the journal ([`crate::core::dedupe`]), and the
//! journal cannot be kept for a whole horizon. So the memory is checkpointed as of an
//! offset, the journal is kept from there on, and after a restart it is read again from
//! there. Until that is done no readings are taken.

use std::sync::Arc;

use super::recall::{Recall, is_torn};
use super::*;
use crate::core::clock::ClockReading;
use crate::core::dedupe::{By, Dedupe, Known, Learned, Moment};
use crate::core::id::CommitId;
use crate::core::reading::{Arrival, Reading, Record};
use crate::core::seam::{Checkpointed, Fetch, Fetched};
use crate::core::stamp;

/// Between two checkpoints as a rule.
const INTERVAL: Span = Span::from_secs(300);
/// Between two checkpoints when the journal grows fast.
const INTERVAL_MIN: Span = Span::from_secs(30);
/// Between two checkpoints while the disk is full and waits for one.
const HURRIED_INTERVAL: Span = Span::from_secs(1);
/// Entries since the last checkpoint at which the next one is made early: to read more
/// of them again would make a start slow.
const RECALL_MAX: u64 = 500_000;

/// The memory of repeats, and its checkpoints.
#[derive(Debug)]
pub(super) struct Repeats {
    dedupe: Dedupe,
    recall: Option<Recall>,
    /// A durable checkpoint covers every entry below.
    covered: Offset,
    /// A checkpoint that waits for its commit, and one that is being written.
    staged: Option<(CommitId, Offset, Vec<u8>)>,
    writing: Option<Offset>,
    next_checkpoint: MonoTime,
    written_at: MonoTime,
    is_changed: bool,
    /// Whether it was reported that a part of the journal is gone.
    is_torn: bool,
}

impl Repeats {
    /// The memory of a checkpoint. Entries after it are still to be read from the journal;
    /// without a checkpoint, all entries.
    pub(super) fn open(
        settings: &Settings,
        recovered: &Recovered,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) -> Self {
        let next = recovered.next;
        let first_kept = recovered.segments.first().map_or(next, |segment| segment.first);
        let first_kept = first_kept.max(recovered.meta.as_ref().map_or(first_kept, |m| m.start));
        let mut dedupe = Dedupe::new(&settings.sources);
        let is_empty = dedupe.is_empty();
        let restored = recovered.dedupe.as_ref().filter(|_| !is_empty);
        let covered = match restored.map(|bytes| dedupe.restore(bytes)) {
            Some(Ok(through)) if through <= next => through,
            // The checkpoint knows readings that the journal has lost: if they come again,
            // they must not be taken for repeats.
            Some(Ok(_)) => {
                dedupe = Dedupe::new(&settings.sources);
                first_kept
            }
            Some(Err(reason)) => {
                let reason = reason.to_string();
                effects.push(Effect::Notice(Notice::DedupeTorn { reason }));
                first_kept
            }
            None => first_kept,
        };
        let recall = Recall::new(covered, next, Purpose::Recall);
        Self {
            dedupe,
            recall: recall.filter(|_| !is_empty),
            covered: if is_empty { Offset(u64::MAX) } else { covered },
            staged: None,
            writing: None,
            next_checkpoint: now.mono,
            written_at: now.mono,
            is_changed: !is_empty,
            is_torn: false,
        }
    }

    /// Takes over the sources and rules of a new configuration; `next` is the end of the
    /// journal.
    pub(super) fn change_rules(
        &mut self,
        sources: &BTreeMap<SourceId, SourceSettings>,
        next: Offset,
        now: MonoTime,
    ) {
        let was_empty = self.dedupe.is_empty();
        self.dedupe.set_rules(sources);
        if self.dedupe.is_empty() {
            (self.covered, self.recall, self.is_changed) = (Offset(u64::MAX), None, false);
            return;
        }
        if was_empty {
            // There was no rule before, so there is nothing to remember of it.
            self.covered = next;
        }
        self.is_changed = true;
        self.next_checkpoint = self.next_checkpoint.min(now);
    }

    /// Entries below need not be kept for the memory of repeats.
    pub(super) fn covered(&self) -> Offset {
        self.covered
    }

    /// Whether the memory is still being rebuilt.
    pub(super) fn is_recalling(&self) -> bool {
        self.recall.is_some()
    }

    /// The next part of the journal to go through.
    pub(super) fn fetch(&mut self) -> Option<Fetch> {
        self.recall.as_mut()?.fetch()
    }

    pub(super) fn known(&self, source: &SourceId) -> Known {
        self.dedupe.known(source).unwrap_or_default()
    }

    /// When a checkpoint is due, whatever else happens.
    pub(super) fn next_deadline(&self, can_commit: bool) -> Option<MonoTime> {
        Some(self.next_checkpoint).filter(|_| can_commit && self.is_changed && self.is_free())
    }

    /// Whether a commit must be made because a checkpoint is due; `next` is the end of the
    /// journal.
    pub(super) fn is_checkpoint_due(&self, next: Offset, now: MonoTime) -> bool {
        let is_far = next.0.saturating_sub(self.covered.0) > RECALL_MAX
            && self.written_at + INTERVAL_MIN <= now;
        self.is_free() && ((self.is_changed && self.next_checkpoint <= now) || is_far)
    }

    /// Whether a checkpoint can be begun.
    fn is_free(&self) -> bool {
        !self.dedupe.is_empty() && !self.is_busy() && !self.is_recalling()
    }

    /// Whether a checkpoint waits for its commit or is being written.
    pub(super) fn is_busy(&self) -> bool {
        self.staged.is_some() || self.writing.is_some()
    }

    /// The disk is full, and a checkpoint would free what is kept for this memory alone.
    pub(super) fn hurry(&mut self, now: MonoTime) {
        self.is_changed = true;
        self.next_checkpoint = self.next_checkpoint.min(now + HURRIED_INTERVAL);
    }

    /// The agent stops: one last checkpoint, so that the next start need not read the
    /// journal again.
    pub(super) fn stop(&mut self, now: MonoTime) {
        self.next_checkpoint = self.next_checkpoint.min(now);
    }

    /// Stages a checkpoint with the commit `id`, which ends at `end` and makes everything
    /// durable that is remembered now.
    pub(super) fn stage(&mut self, id: CommitId, end: Offset, now: MonoTime) {
        if self.is_checkpoint_due(end, now) {
            self.staged = Some((id, end, self.dedupe.encode(end)));
            self.is_changed = false;
            (self.written_at, self.next_checkpoint) = (now, now + INTERVAL);
        }
    }

    /// That commit is durable: its checkpoint may be written.
    pub(super) fn committed(&mut self, id: CommitId) -> Option<Vec<u8>> {
        let (_, through, bytes) = self.staged.take_if(|(staged, ..)| *staged == id)?;
        self.writing = Some(through);
        Some(bytes)
    }

    /// A failed commit is retried under a new id: the staged checkpoint follows it.
    pub(super) fn renumbered(&mut self, id: CommitId) {
        if let Some((staged, ..)) = &mut self.staged {
            *staged = id;
        }
    }

    /// The store has written the checkpoint, or failed to.
    pub(super) fn written(&mut self, is_good: bool) {
        if let Some(through) = self.writing.take() {
            let is_needed = !self.dedupe.is_empty();
            if is_good && is_needed {
                self.covered = through;
            } else {
                self.is_changed = is_needed;
            }
        }
    }
}

/// The circumstances in which a batch came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came<'a> {
    pub(super) settings: &'a SourceSettings,
    /// The clock as it was at the arrival.
    pub(super) clock: &'a ClockReading,
    pub(super) arrival: &'a Arrival,
}

impl Agent {
    /// Whether a reading that has just come was numbered before. Asked before it
    /// is stamped, so that a repeat says nothing of its device's clock.
    pub(super) fn is_repeat(
        &mut self,
        source: &SourceId,
        reading: &Reading,
        came: &Came<'_>,
        source_clock: &SourceClock,
    ) -> bool {
        let Came { settings, clock, arrival } = *came;
        let Some(rule) = settings.dedupe else { return false };
        let device_time = match rule.by {
            By::Id => None,
            By::EventTime => {
                stamp::claimed(settings, clock, arrival, reading.device_time, source_clock)
            }
        };
        let name = rule.name(&reading.series, reading.id.as_deref(), device_time);
        let moment = Moment::of_arrival(arrival, clock);
        name.is_some_and(|name| self.repeats.dedupe.knows(source, name, &moment))
    }

    /// Remembers a reading that was numbered.
    pub(super) fn remember(&mut self, record: &Record, effects: &mut Vec<Effect>) {
        let learned = self.repeats.dedupe.learn(record);
        self.repeats.is_changed |= learned != Learned::Nothing;
        if learned == Learned::FirstInPlaceOfAnother {
            let source = record.source.clone();
            effects.push(Effect::Notice(Notice::DedupeFull { source }));
        }
    }

    /// Takes in a part of the journal that was fetched for the memory of repeats.
    pub(super) fn recalled(&mut self, fetched: Fetched, effects: &mut Vec<Effect>) {
        let is_torn = is_torn(&fetched);
        let repeats = &mut self.repeats;
        if is_torn && !repeats.is_torn {
            repeats.is_torn = true;
            let reason = "a part of the journal that it rests on is gone".to_owned();
            effects.push(Effect::Notice(Notice::DedupeTorn { reason }));
        }
        for record in fetched.entries.iter().filter_map(|(_, entry)| entry.reading()) {
            repeats.dedupe.learn(record);
        }
        let recall = repeats.recall.as_mut();
        if recall.is_some_and(|recall| recall.advance(fetched.next)) {
            repeats.recall = None;
            repeats.dedupe.rebuilt();
        }
    }

    /// The disk is full: if segments are kept for the memory of repeats alone, a
    /// checkpoint lets them go.
    pub(super) fn hurry_repeats(&mut self, now: &Now) {
        let done = self.frontier_offset();
        let kept_from = self.repeats.covered();
        if self.buffer.trim_to(kept_from.min(done)) < self.buffer.trim_to(done) {
            self.repeats.hurry(now.mono);
        }
    }

    pub(super) fn write_dedupe(&mut self, id: CommitId, effects: &mut Vec<Effect>) {
        if let Some(bytes) = self.repeats.committed(id) {
            effects.push(Effect::Checkpoint(Checkpointed::Dedupe, Arc::new(bytes)));
        }
    }
}
