//! What a PUBACK means.

use super::Forward;
use super::flight::stretches;
use crate::core::id::{Offset, PublishId, SourceId};
use crate::core::limits::INVALID_TRIES_MAX;
use crate::core::reading::Entry;
use crate::core::time::{MonoTime, Span};

/// What a PUBACK, or a publish that could not be sent, means.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Not one of ours (any more).
    Unknown,
    /// It was a frontier or status. Nothing follows, even if it was refused: the next one
    /// is made from newer facts.
    Control,
    /// The broker acknowledged them.
    Delivered {
        /// What was published.
        entries: Vec<(Offset, Entry)>,
        /// From publish to PUBACK.
        took: Span,
        /// The source, if it was held until now.
        released: Option<SourceId>,
    },
    /// The broker refuses it for now; its source is held.
    Held {
        /// The source.
        source: SourceId,
        /// MQTT 5 reason code.
        code: u8,
        /// Until the next try; `None` when the hold was known already.
        retry_in: Option<Span>,
    },
    /// It will be tried again, in smaller parts or alone.
    Again,
    /// The broker will never take it.
    SetAside {
        /// Where it is.
        offset: Offset,
        /// What it is.
        entry: Box<Entry>,
    },
}

impl Forward {
    /// A PUBACK came.
    pub fn puback(&mut self, id: PublishId, code: u8, now: MonoTime) -> Verdict {
        let Some(flight) = self.flights.land(id) else { return Verdict::Unknown };
        self.flights.was_answered(&flight);
        let took = flight.took(now);
        let Some(source) = flight.source().cloned() else { return Verdict::Control };
        let entries = flight.entries;
        match code {
            // MQTT 5, 3.4.2.1: below 0x80 is success, "no matching subscribers" too.
            0..0x80 => self.delivered(entries, source, took),
            0x90 | 0x99 => self.refuse(entries),
            _ if self.is_giving_up() => self.refuse(entries),
            _ => {
                let retry_in = self.holds.hold(&source, code, now);
                Verdict::Held { source, code, retry_in }
            }
        }
    }

    /// The publish could not be sent: over a limit of size. Nor was what followed a
    /// batch on its lane, see [`Publish::last_refused`](crate::core::seam::Publish).
    pub fn too_large(&mut self, id: PublishId) -> Verdict {
        let Some(flight) = self.flights.land(id) else { return Verdict::Unknown };
        self.last_refused = id;
        let lane = flight.lane;
        let mut entries = flight.entries;
        if let [(_, first), _, ..] = &entries[..] {
            self.flights.recall_behind(id, first.source(), lane);
            self.run_max = entries.len() / 2;
            self.rewind();
            return Verdict::Again;
        }
        entries.pop().map_or(Verdict::Control, |(offset, entry)| self.set_aside(offset, entry))
    }

    fn delivered(
        &mut self,
        entries: Vec<(Offset, Entry)>,
        source: SourceId,
        took: Span,
    ) -> Verdict {
        for (first, end) in stretches(&entries) {
            self.finish(first, end);
        }
        if entries.len() >= self.run_max {
            self.run_max = (2 * self.run_max).min(self.settings.batching.readings_max);
        }
        let is_released = self.holds.release(&source);
        if is_released {
            self.rewind();
        }
        Verdict::Delivered { entries, took, released: is_released.then_some(source) }
    }

    /// The broker calls the publish invalid. One of several entries may be the cause, so
    /// each is tried alone.
    fn refuse(&mut self, mut entries: Vec<(Offset, Entry)>) -> Verdict {
        let mut worst = 0;
        for (offset, _) in &entries {
            let tries = self.refused.entry(*offset).or_insert(0);
            *tries += 1;
            worst = worst.max(*tries);
        }
        if entries.len() > 1 || (worst < INVALID_TRIES_MAX && !self.is_giving_up()) {
            self.rewind();
            return Verdict::Again;
        }
        entries.pop().map_or(Verdict::Again, |(offset, entry)| self.set_aside(offset, entry))
    }

    fn set_aside(&mut self, offset: Offset, entry: Entry) -> Verdict {
        self.finish(offset, offset.plus(1));
        if self.holds.may_try(entry.source()).is_some() {
            // It was the one that was tried of a source that is held: those behind it
            // were passed over meanwhile, and the next of them is to be tried.
            self.rewind();
        }
        Verdict::SetAside { offset, entry: entry.into() }
    }
}
