//! A cursor: how far an uplink has read a stretch of the journal, in journal order.
//! It runs ahead of the acknowledged frontier, which says what need not be read again.

use std::collections::VecDeque;

use super::batch::{Batching, Run};
use crate::core::id::Offset;
use crate::core::limits::{FETCH_ENTRIES_MAX, READY_ENTRIES_MAX};
use crate::core::rangeset::RangeSet;
use crate::core::reading::Entry;
use crate::core::seam::Fetched;

/// A position in a stretch of the journal, with the entries read ahead of it.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    first: Offset,
    /// Where the stretch of the next cursor begins; `None` follows the journal.
    end: Option<Offset>,
    /// Entries read ahead. `None` where a batch took one and left others before it.
    ready: VecDeque<Option<(Offset, Entry)>>,
    ready_end: Offset,
    fetching: Option<Offset>,
    /// The last fetch brought the store no further: it is asked again only once a
    /// commit became durable or the cursor was rewound.
    is_stalled: bool,
}

impl Cursor {
    pub(super) fn new(first: Offset, end: Option<Offset>) -> Self {
        Self {
            first,
            end,
            ready: VecDeque::new(),
            ready_end: first,
            fetching: None,
            is_stalled: false,
        }
    }

    /// Goes back to the first entry that is not done with.
    pub(super) fn rewind(&mut self, done: &RangeSet) {
        self.is_stalled = false;
        self.ready.clear();
        self.ready_end = self.first.max(Offset(done.frontier()));
    }

    /// One past the last entry that was taken up.
    pub(super) fn taken_up(&self) -> Offset {
        self.ready_end
    }

    /// What was taken up and is not published yet, in journal order.
    pub(super) fn ready(&self) -> impl Iterator<Item = (Offset, &Entry)> {
        self.ready.iter().flatten().map(|(offset, entry)| (*offset, entry))
    }

    /// Whether everything below `durable` was taken up and published.
    pub(super) fn is_caught_up(&self, durable: Offset) -> bool {
        self.ready.iter().all(Option::is_none) && self.is_read_up(durable)
    }

    /// Whether everything below `durable` was taken up.
    pub(super) fn is_read_up(&self, durable: Offset) -> bool {
        self.fetching.is_none() && self.ready_end >= durable
    }

    /// Whether its whole stretch is done with.
    pub(super) fn is_over(&self, done: &RangeSet) -> bool {
        self.end.is_some_and(|end| done.next_absent(self.first.0) >= end.0)
    }

    /// Where the fetch that is due begins, if one is due.
    pub(super) fn fetch(
        &mut self,
        durable: Offset,
        skip_below: Offset,
        done: &RangeSet,
    ) -> Option<Offset> {
        let from = Offset(done.next_absent(self.ready_end.max(skip_below).0));
        let end = self.end.map_or(durable, |end| end.min(durable));
        let has_room = self.ready.len() + FETCH_ENTRIES_MAX <= READY_ENTRIES_MAX;
        if self.fetching.is_some() || self.is_stalled || from >= end || !has_room {
            return None;
        }
        self.ready_end = from;
        self.fetching = Some(from);
        self.fetching
    }

    /// The answer came. False when the cursor has moved meanwhile and the answer was
    /// dropped.
    pub(super) fn fetched(&mut self, fetched: &mut Fetched) -> bool {
        if self.fetching != Some(fetched.from) {
            return false;
        }
        self.fetching = None;
        if self.ready_end != fetched.from {
            return false;
        }
        self.is_stalled = fetched.next <= fetched.from;
        let end = self.end.unwrap_or(Offset(u64::MAX));
        self.ready_end = fetched.next.max(fetched.from).min(end);
        let within = fetched.entries.drain(..).take_while(|(offset, _)| *offset < end);
        self.ready.extend(within.map(Some));
        true
    }

    /// A commit became durable: its entries are taken as they are if they are the next
    /// and there is room; else they will be fetched.
    pub(super) fn offer(&mut self, first: Offset, entries: &[Entry]) {
        self.is_stalled = false;
        let is_next = self.ready_end == first && self.fetching.is_none();
        if !is_next || self.ready.len() + entries.len() > READY_ENTRIES_MAX {
            return;
        }
        let numbered = entries.iter().zip(first.0..);
        self.ready.extend(numbered.map(|(entry, offset)| Some((Offset(offset), entry.clone()))));
        self.ready_end = first.plus(entries.len() as u64);
    }

    /// The entry at the head. Drops entries before it that `is_gone` says need not go.
    pub(super) fn head(
        &mut self,
        is_gone: impl Fn(Offset, &Entry) -> bool,
    ) -> Option<(Offset, &Entry)> {
        while let Some(slot) = self.ready.front() {
            match slot {
                Some((offset, entry)) if !is_gone(*offset, entry) => break,
                _ => self.ready.pop_front(),
            };
        }
        self.ready.front()?.as_ref().map(|(offset, entry)| (*offset, entry))
    }

    pub(super) fn pop(&mut self) -> Option<(Offset, Entry)> {
        self.ready.pop_front().flatten()
    }

    /// Takes the reading at the head and the following ones of its source that fit the
    /// batch; stops at the first that may not go, to keep the order.
    pub(super) fn run(
        &mut self,
        batching: &Batching,
        limit: usize,
        mut join: impl FnMut(Offset, &Entry) -> Join,
    ) -> Vec<(Offset, Entry)> {
        let mut run = Run::new(batching, limit);
        let mut taken: Vec<(Offset, Entry)> = Vec::new();
        for slot in &mut self.ready {
            let Some((offset, entry)) = slot else { continue };
            if let Some((_, head)) = taken.first() {
                if head.source() != entry.source() {
                    continue;
                }
                match join(*offset, entry) {
                    Join::Skip => continue,
                    Join::Go if run.has_room_for(entry) => {}
                    Join::Go | Join::Stop => break,
                }
            }
            run.count(entry);
            taken.extend(slot.take());
            // Without this, a reading that goes alone would cost a search for more of
            // its source through everything that is read ahead.
            if run.is_full() {
                break;
            }
        }
        taken
    }

    /// Whether a batch from the head has room for more than is at hand, so that waiting
    /// may fill it.
    pub(super) fn may_fill(&self, batching: &Batching) -> bool {
        let Some((_, head)) = self.ready().next() else { return false };
        let mut run = Run::new(batching, batching.readings_max);
        for (_, entry) in self.ready().filter(|(_, entry)| entry.source() == head.source()) {
            if !run.has_room_for(entry) {
                return false;
            }
            run.count(entry);
        }
        true
    }
}

/// Whether an entry joins the run that a batch becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// Joins the run.
    Go,
    /// Passed over: done with, held or in flight.
    Skip,
    /// Ends the run: it must wait or go alone, and so must later readings of its source.
    Stop,
}
