//! Delivery frontiers: what this gateway has handed over, said per source.

use super::*;
use crate::core::id::Seq;
use crate::core::seam::Frontier;
use crate::core::time::EventTime;

impl Agent {
    pub(super) fn publish_frontiers(&mut self, now: &Now, at: usize, effects: &mut Vec<Effect>) {
        if self.frontier_deadline_of(at).is_none_or(|due| due > now.mono) {
            return;
        }
        let due = self.frontiers_due(at, now.mono);
        self.say_frontiers(now, at, due, effects);
    }

    /// Before the last status of a stop: publishes every frontier that has changed since,
    /// without waiting for its interval, so that consumers know exactly how far this
    /// gateway came while it is down.
    pub(super) fn publish_last_frontiers(
        &mut self,
        now: &Now,
        at: usize,
        effects: &mut Vec<Effect>,
    ) {
        if self.vouching.is_vouched() && self.uplinks[at].is_settling() {
            let changed = self.frontier_times(at).map(|(source, _)| source.clone()).collect();
            self.say_frontiers(now, at, changed, effects);
        }
    }

    fn say_frontiers(
        &mut self,
        now: &Now,
        at: usize,
        sources: Vec<SourceId>,
        effects: &mut Vec<Effect>,
    ) {
        for source in sources {
            if !self.uplinks[at].forward.has_slot() {
                return;
            }
            let body = PublishBody::Frontier(self.frontier(now, at, &source));
            let changes = self.books.account(&source).changes;
            self.uplinks[at].said.insert(source, (now.mono, changes));
            self.uplinks[at].say(body, now.mono, effects);
        }
    }

    fn frontiers_due(&self, at: usize, now: MonoTime) -> Vec<SourceId> {
        let due = self.frontier_times(at).filter(|(_, due)| *due <= now);
        due.map(|(source, _)| source.clone()).collect()
    }

    /// The sources whose account has changed since their frontier was published, and when
    /// it may be published again.
    fn frontier_times(&self, at: usize) -> impl Iterator<Item = (&SourceId, MonoTime)> {
        let uplink = &self.uplinks[at];
        let interval = uplink.settings.frontier_interval;
        self.books.accounts().filter_map(move |(source, account)| {
            let said = uplink.said.get(source);
            let is_due = account.changes > said.map_or(0, |(_, changes)| *changes);
            let due = said.map_or(MonoTime::from_ns(0), |(at, _)| *at + interval);
            is_due.then_some((source, due))
        })
    }

    fn frontier_deadline_of(&self, at: usize) -> Option<MonoTime> {
        let uplink = &self.uplinks[at];
        let may_say = self.vouching.is_vouched() && uplink.may_publish();
        if !may_say || !uplink.forward.has_slot() {
            return None;
        }
        self.frontier_times(at).map(|(_, due)| due).min()
    }

    pub(super) fn frontier_deadline(&self) -> Option<MonoTime> {
        (0..self.uplinks.len()).filter_map(|at| self.frontier_deadline_of(at)).min()
    }

    fn frontier(&mut self, now: &Now, at: usize, source: &SourceId) -> Frontier {
        let epoch = self.books.epoch();
        let bound =
            self.settings.sources.get(source).map_or(SourceSettings::DEFAULT.bound, |s| s.bound);
        let account = self.books.account(source).clone();
        let watermark =
            account.meta.newest_event.map(|newest| newest - bound - Span::from_millis(1));
        let gone = self.books.gone_at(at, source);
        let is_any_stored = account.durable > gone;
        let held = self.least_unacknowledged(at, source, is_any_stored);
        let complete_before = match (watermark, held) {
            (Some(watermark), Some(least)) => Some(watermark.min(least)),
            (watermark, _) => watermark,
        };
        // Where times are still open, nothing is complete.
        let complete_before = complete_before.filter(|_| !self.has_open_times());
        Frontier {
            source: source.clone(),
            epoch,
            through_seq: self.through(at, source, epoch),
            complete_before,
            pending: account.meta.accepted.saturating_sub(gone),
            at: now.wall,
        }
    }

    /// Every number up to here is with the broker of an uplink, or said to be missing.
    /// What it refused is done with only once it has the gap record.
    fn through(&self, at: usize, source: &SourceId, epoch: Epoch) -> Seq {
        let untold = self.gaps.iter().filter(|(offset, gap)| {
            let is_of = gap.source == *source && gap.epoch == epoch;
            let is_refusal = gap.reason == GapReason::RefusedByBroker;
            is_of && is_refusal && self.lacks(at, **offset, gap)
        });
        let through = self.books.through(at, source, epoch);
        let untold = untold.map(|(_, gap)| Seq(gap.first_seq.0.saturating_sub(1)));
        untold.min().map_or(through, |before| before.min(through))
    }

    /// The least event time of a source's readings that the broker does not
    /// have: exact while all of them are in memory, else that of the segments
    /// they lie in, which is never later.
    fn least_unacknowledged(
        &self,
        at: usize,
        source: &SourceId,
        is_any_stored: bool,
    ) -> Option<EventTime> {
        let of_source = |entry: &Entry| {
            entry.reading().filter(|record| record.source == *source).map(|r| r.stamp.event_time)
        };
        let uncommitted = self.pending.entries().filter_map(of_source).min();
        if !is_any_stored {
            return uncommitted;
        }
        let durable = match self.uplinks[at].forward.all_unfinished(self.durable) {
            Some(entries) => entries.filter_map(of_source).min(),
            None => self.least_in_segments(at, source),
        };
        uncommitted.into_iter().chain(durable).min()
    }

    fn least_in_segments(&self, at: usize, source: &SourceId) -> Option<EventTime> {
        let frontier = Offset(self.uplinks[at].forward.done().frontier());
        let unfinished = self.buffer.segments().iter().filter(|segment| segment.next > frontier);
        let contents = unfinished.flat_map(|segment| segment.contents.iter());
        contents.filter(|((of, _), _)| of == source).map(|(_, range)| range.earliest).min()
    }
}
