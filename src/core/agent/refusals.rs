//! What a broker will never take.
//!
//! Where there are several uplinks, the refusal of one broker is its own: the others go
//! on sending the reading, and the gap record that says it will never come goes where
//! that is so. The record is an entry of the journal like any other, which each uplink
//! passes; whether it is sent there, the [books](crate::core::books) know.

use super::space::{continues, gap_record};
use super::*;
use crate::core::reading::{Record, Refusal};

impl Agent {
    /// Gap records that only uplinks lack which have left need not be remembered.
    pub(super) fn forget_told(&mut self) {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.retain(|offset, gap| !self.is_told(*offset, gap));
        self.gaps = gaps;
    }

    /// Whether every uplink where it is so is done with a gap record.
    pub(super) fn is_told(&self, offset: Offset, gap: &GapRecord) -> bool {
        (0..self.uplinks.len()).all(|at| !self.lacks(at, offset, gap))
    }

    /// Whether a gap record is so at an uplink, and has not been taken there yet.
    pub(super) fn lacks(&self, at: usize, offset: Offset, gap: &GapRecord) -> bool {
        let is_done = self.uplinks[at].forward.done().contains(offset.0);
        !is_done && self.books.is_so_at(at, gap)
    }

    /// The uplinks that have not passed an entry yet.
    pub(super) fn not_past(&self, offset: Offset) -> Vec<usize> {
        let uplinks = self.uplinks.iter().enumerate();
        let ahead = uplinks.filter(|(_, uplink)| !uplink.forward.done().contains(offset.0));
        ahead.map(|(at, _)| at).collect()
    }

    /// One entry that the broker of an uplink will never take.
    pub(super) fn set_aside(
        &mut self,
        now: &Now,
        (at, offset, entry): (usize, Offset, &Entry),
        why: &str,
        effects: &mut Vec<Effect>,
    ) {
        self.unsaved_since.get_or_insert(now.mono);
        if let Entry::Reading(record) = entry {
            let mut record = record.clone();
            // As it was sent, its time final.
            self.timing.finish(offset, &mut record);
            let source = record.source.clone();
            let refusal = self.refusal_by_broker(at, record, why);
            self.quarantine(now, &source, vec![refusal], effects);
        }
        self.refused_at(now, at, entry);
        if self.is_done_everywhere(offset) {
            self.refused_by_last(now, entry, effects);
            self.is_through(offset, entry);
        }
    }

    /// The broker of this uplink does not take it: that is said there.
    fn refused_at(&mut self, now: &Now, at: usize, entry: &Entry) {
        let Some(numbered) = entry.numbered() else { return };
        self.books.refuse_at(at, (numbered.source, numbered.epoch), numbered.seq);
        let mut gap = gap_of(entry, now);
        let Some(one) = &mut gap else { return };
        let is_for_it_alone = |known: &GapRecord| {
            (0..self.uplinks.len()).all(|other| (other == at) == self.books.is_so_at(other, known))
        };
        let touching = self.gaps.iter().find(|(offset, known)| {
            let is_here = self.lacks(at, **offset, known) && is_for_it_alone(known);
            is_here && continues(known, one) && !self.uplinks[at].forward.is_flying(**offset)
        });
        if let Some((offset, known)) = touching.map(|(offset, known)| (*offset, known.clone())) {
            one.first_seq = known.first_seq;
            one.first_event_time = known.first_event_time.min(one.first_event_time);
            one.last_event_time = known.last_event_time.max(one.last_event_time);
            self.uplinks[at].forward.finish(offset, offset.plus(1));
            self.gaps.remove(&offset);
        }
        if let Some(gap) = gap {
            self.announce(now, gap, &[at]);
        }
    }

    /// The last uplink is done with it: whether it has arrived anywhere.
    fn refused_by_last(&mut self, now: &Now, entry: &Entry, effects: &mut Vec<Effect>) {
        let Some(numbered) = entry.numbered() else { return };
        let name = (numbered.source, numbered.epoch);
        if self.books.refused_by_last(name, numbered.seq)
            && let Some(gap) = gap_of(entry, now)
        {
            effects.push(Effect::Notice(Notice::Gap(gap)));
        }
    }

    /// Makes a gap record an entry of the journal. Where it is so, only the uplinks
    /// that `lack` it send it: the others have said it before.
    pub(super) fn announce(&mut self, now: &Now, gap: GapRecord, lack: &[usize]) {
        let offset = self.pending.push(Entry::Gap(gap.clone()), now.mono);
        for at in (0..self.uplinks.len()).filter(|at| !lack.contains(at)) {
            if self.books.is_so_at(at, &gap) {
                self.uplinks[at].forward.finish(offset, offset.plus(1));
            }
        }
        self.gaps.insert(offset, gap);
    }

    fn refusal_by_broker(&self, at: usize, record: Record, why: &str) -> Refusal {
        Refusal {
            source: record.source.clone(),
            at: record.stamp.ingest_time,
            kind: "refused_by_broker",
            reason: format!(
                "reading {} {} seq {} of epoch {} is not taken by the broker of uplink {}: {why}",
                record.series.entity,
                record.series.property,
                record.seq,
                record.epoch,
                self.uplinks[at].settings.name
            ),
            length: record.weight() as u64,
            content: Vec::new(),
            reading: Some(Box::new(record)),
        }
    }
}

fn gap_of(entry: &Entry, now: &Now) -> Option<GapRecord> {
    let numbered = entry.numbered()?;
    let name = (numbered.source.clone(), numbered.epoch);
    let range = (numbered.seq, Some(numbered.seq));
    let times = Some((numbered.event_time, numbered.event_time));
    Some(gap_record(name, range, GapReason::RefusedByBroker, times, now))
}

#[cfg(test)]
#[path = "refusals_tests.rs"]
mod tests;
