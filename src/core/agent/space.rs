//! Space: eviction, damage, and the gap records that account for both.

use super::*;
use crate::core::id::Seq;
use crate::core::seam::{SegmentInfo, SourceRange};
use crate::core::time::{EventTime, IngestTime};

/// Numbers to be written off, and what is known of them.
struct WriteOff {
    source: SourceId,
    epoch: Epoch,
    first: Seq,
    last: Seq,
    reason: GapReason,
    event_times: Option<(EventTime, EventTime)>,
}

impl Agent {
    /// Whether readings are taken now, must wait, or are refused.
    pub(super) fn admission(&self) -> Admission {
        self.buffer.admission(self.pending.uncommitted())
    }

    pub(super) fn watch_space(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        let is_failing = self.pending.failed_attempts() > 0;
        if self.buffer.full().is_some() {
            self.windows.hurry(now.mono);
            self.hurry_repeats(now);
        }
        if let Some(change) = self.buffer.judge(is_failing) {
            effects.push(Effect::Notice(match change {
                Some(limit) => {
                    let disk = self.buffer.disk();
                    Notice::Full { used_bytes: disk.used_bytes, free_bytes: disk.free_bytes, limit }
                }
                None => Notice::Room { refused: std::mem::take(&mut self.refused_since_full) },
            }));
        }
        if let Some(is_filling) = self.buffer.judge_fill() {
            let used_bytes = self.buffer.disk().used_bytes;
            effects.push(Effect::Notice(match is_filling {
                true => Notice::Filling {
                    used_bytes,
                    capacity_bytes: self.buffer.capacity(),
                    backlog: self.books.stored(),
                },
                false => Notice::Emptied { used_bytes },
            }));
        }
        self.evict_if_due(now, effects);
    }

    fn evict_if_due(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        // The commit under way was made without this eviction; the next one carries it.
        if self.pending.is_outstanding() || self.start > self.buffer.start() {
            return;
        }
        let state = self.clock.reading(now).state;
        let limit = self.expiry.limit(now, state, self.buffer.segments());
        let (frontier, covered) = (self.frontier_offset(), self.windows.covered(false));
        let (timing, expiry) = (&self.timing, &self.expiry);
        // Segments that are done with are trimmed anyway. One that the windows still need
        // does not expire, nor one with times that are open or were changed by a seal: its
        // age is not known.
        let is_expired = |segment: &SegmentInfo| {
            let is_idle = segment.next > frontier && segment.next <= covered;
            let is_dated = timing.is_as_stamped(segment.first, segment.next);
            is_idle && is_dated && limit.is_some_and(|limit| expiry.is_expired(segment, limit))
        };
        let Some(segment) = self.buffer.to_evict(is_expired) else { return };
        let (first, end, contents) = (segment.first, segment.next, segment.contents.clone());
        if !self.give_up_below(end) {
            return;
        }
        for ((source, epoch), range) in contents.iter() {
            let names = (*epoch, range.first, range.last);
            for (epoch, first, last) in self.vouching.renumberings.ranges(source, names) {
                let range = SourceRange { first, last, ..*range };
                self.write_off(now, evicted(source, epoch, &range), effects);
            }
        }
        self.carry_over_gaps(now, end);
        self.timing.lost(first, end);
        self.finish_everywhere(first, end);
        self.start = self.start.max(end);
        self.unsaved_since.get_or_insert(now.mono);
    }

    /// Writes gap records again that would go with an evicted segment.
    fn carry_over_gaps(&mut self, now: &Now, end: Offset) {
        let kept = self.gaps.split_off(&end);
        for (offset, gap) in std::mem::replace(&mut self.gaps, kept) {
            if gap.reason == GapReason::RefusedByBroker {
                let lack = self.not_past(offset);
                self.announce(now, gap, &lack);
            } else {
                self.journal_gap(now, gap);
            }
        }
    }

    pub(super) fn write_off_damage(
        &mut self,
        now: &Now,
        damage: Damage,
        effects: &mut Vec<Effect>,
    ) {
        effects.push(Effect::Notice(Notice::Damaged { reason: damage.reason }));
        for missing in damage.missing {
            let Missing { source, epoch, first, last, event_times } = missing;
            let reason = GapReason::Corrupt;
            match last {
                Some(last) => {
                    let names = (epoch, first, last);
                    for (epoch, first, last) in self.vouching.renumberings.ranges(&source, names) {
                        let source = source.clone();
                        let lost = WriteOff { source, epoch, first, last, reason, event_times };
                        self.write_off(now, lost, effects);
                    }
                }
                None => {
                    let gap = gap_record((source, epoch), (first, None), reason, event_times, now);
                    effects.push(Effect::Notice(Notice::Gap(gap.clone())));
                    self.journal_gap(now, gap);
                }
            }
        }
        self.timing.lost(damage.first, damage.end);
        self.finish_everywhere(damage.first, damage.end);
        self.unsaved_since.get_or_insert(now.mono);
    }

    fn write_off(&mut self, now: &Now, off: WriteOff, effects: &mut Vec<Effect>) {
        let WriteOff { source, epoch, first, last, reason, event_times } = off;
        for (first, last) in self.books.write_off((&source, epoch), first, last, reason) {
            let range = (first, Some(last));
            let gap = gap_record((source.clone(), epoch), range, reason, event_times, now);
            effects.push(Effect::Notice(Notice::Gap(gap.clone())));
            self.journal_gap(now, gap);
        }
    }

    /// Makes a gap record an entry of the journal. An eviction that goes on
    /// where an unacknowledged record of the same source ends grows that one:
    /// the grown record is a new entry, and the old one is done with.
    fn journal_gap(&mut self, now: &Now, gap: GapRecord) {
        let mut gap = gap;
        let touching = self.gaps.iter().find(|(_, known)| continues(known, &gap));
        let merged = touching.map(|(offset, known)| (*offset, known.clone()));
        if let Some((offset, known)) = merged.filter(|(offset, _)| self.withdraw(*offset)) {
            gap.first_seq = known.first_seq;
            gap.first_event_time = least(known.first_event_time, gap.first_event_time);
            gap.last_event_time = known.last_event_time.max(gap.last_event_time);
            self.gaps.remove(&offset);
        }
        let offset = self.pending.push(Entry::Gap(gap.clone()), now.mono);
        self.gaps.insert(offset, gap);
    }
}

fn least(a: Option<EventTime>, b: Option<EventTime>) -> Option<EventTime> {
    a.into_iter().chain(b).min()
}

pub(super) fn continues(known: &GapRecord, gap: &GapRecord) -> bool {
    known.source == gap.source
        && known.epoch == gap.epoch
        && known.reason == gap.reason
        && known.last_seq.is_some_and(|last| last.next() == gap.first_seq)
}

fn evicted(source: &SourceId, epoch: Epoch, range: &SourceRange) -> WriteOff {
    WriteOff {
        source: source.clone(),
        epoch,
        first: range.first,
        last: range.last,
        reason: GapReason::Evicted,
        event_times: Some((range.earliest, range.latest)),
    }
}

pub(super) fn gap_record(
    (source, epoch): (SourceId, Epoch),
    (first_seq, last_seq): (Seq, Option<Seq>),
    reason: GapReason,
    event_times: Option<(EventTime, EventTime)>,
    now: &Now,
) -> GapRecord {
    let at: IngestTime = now.wall;
    GapRecord {
        source,
        epoch,
        first_seq,
        last_seq,
        reason,
        first_event_time: event_times.map(|(first, _)| first),
        last_event_time: event_times.map(|(_, last)| last),
        at,
    }
}
