//! The table of publishes in flight, that is without a PUBACK yet, and how often each
//! entry was in flight when a connection was lost.

use std::collections::BTreeMap;

use crate::core::id::{Offset, PublishId, SourceId};
use crate::core::reading::Entry;
use crate::core::seam::Lane;
use crate::core::time::{MonoTime, Span};

/// A publish whose PUBACK has not been seen.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    /// Entries of the journal. None for a frontier or status: when one is lost, the
    /// next is made from newer facts.
    pub(super) entries: Vec<(Offset, Entry)>,
    pub(super) lane: Lane,
    pub(super) sent: MonoTime,
}

impl Flight {
    pub(super) fn is_control(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn source(&self) -> Option<&SourceId> {
        self.entries.first().map(|(_, entry)| entry.source())
    }

    pub(super) fn took(&self, now: MonoTime) -> Span {
        now.since(self.sent)
    }
}

/// How often an entry was in flight when the connection was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Losses {
    /// Connections in a row that were lost while it was in flight.
    in_a_row: u32,
    /// Losses while it was the only publish in flight, on a connection that had
    /// acknowledged something before.
    alone: u32,
}

/// All publishes in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Flights {
    by_id: BTreeMap<PublishId, Flight>,
    /// The entries in flight as half-open stretches of offsets: end by first.
    stretches: BTreeMap<Offset, Offset>,
    entry_count: usize,
    backfill: usize,
    losses: BTreeMap<Offset, Losses>,
    last_id: PublishId,
    /// Whether the broker has acknowledged something on this connection.
    has_puback: bool,
    /// A publish that is suspected of making the broker drop the connection; it is
    /// sent alone to find out.
    suspect: Option<PublishId>,
}

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Entries in flight, over all publishes.
    pub(super) fn entry_count(&self) -> usize {
        self.entry_count
    }

    /// Publishes in flight that belong to the backfill.
    pub(super) fn backfill(&self) -> usize {
        self.backfill
    }

    /// When the oldest was sent. Ids ascend with time, so it is the first.
    pub(super) fn oldest_sent(&self) -> Option<MonoTime> {
        self.by_id.values().next().map(|flight| flight.sent)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.by_id.values().flat_map(|flight| flight.entries.iter().map(|(_, entry)| entry))
    }

    pub(super) fn has(&self, offset: Offset) -> bool {
        let before = self.stretches.range(..=offset).next_back();
        before.is_some_and(|(_, end)| offset < *end)
    }

    pub(super) fn has_below(&self, offset: Offset) -> bool {
        self.stretches.first_key_value().is_some_and(|(first, _)| *first < offset)
    }

    pub(super) fn has_source(&self, source: &SourceId) -> bool {
        self.by_id.values().any(|flight| flight.source() == Some(source))
    }

    /// Whether a suspect is in flight: then nothing else may be sent.
    pub(super) fn is_reserved(&self) -> bool {
        self.suspect.is_some()
    }

    pub(super) fn launch(&mut self, flight: Flight) -> PublishId {
        self.last_id = PublishId(self.last_id.0 + 1);
        self.stretches.extend(stretches(&flight.entries));
        self.entry_count += flight.entries.len();
        self.backfill += usize::from(flight.lane == Lane::Backfill && !flight.is_control());
        self.by_id.insert(self.last_id, flight);
        self.last_id
    }

    /// Sends a suspect. The caller has made sure that nothing else is in flight.
    pub(super) fn launch_suspect(&mut self, flight: Flight) -> PublishId {
        let id = self.launch(flight);
        self.suspect = Some(id);
        id
    }

    /// Whether a suspect may be sent now: nothing else is in flight and this connection
    /// has acknowledged something already, so that a loss can only be its fault.
    pub(super) fn is_clear_for_suspect(&self) -> bool {
        self.by_id.is_empty() && self.has_puback
    }

    /// Removes a publish from the table: it was answered, or not sent after all.
    pub(super) fn land(&mut self, id: PublishId) -> Option<Flight> {
        let flight = self.by_id.remove(&id)?;
        for (first, _) in stretches(&flight.entries) {
            self.stretches.remove(&first);
        }
        self.entry_count -= flight.entries.len();
        self.backfill -= usize::from(flight.lane == Lane::Backfill && !flight.is_control());
        self.suspect = self.suspect.filter(|suspect| *suspect != id);
        Some(flight)
    }

    /// Removes what followed `id` and is of its source and lane: the link has not sent
    /// that either.
    pub(super) fn recall_behind(&mut self, id: PublishId, source: &SourceId, lane: Lane) {
        let behind = self.by_id.range(PublishId(id.0 + 1)..);
        let same = behind.filter(|(_, flight)| flight.lane == lane);
        let same = same.filter(|(_, flight)| flight.source() == Some(source));
        let ids: Vec<_> = same.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| drop(self.land(id)));
    }

    /// The broker answered, whatever it said: so these entries did not end the
    /// connection, and their losses no longer count.
    pub(super) fn was_answered(&mut self, flight: &Flight) {
        self.has_puback = true;
        if !self.losses.is_empty() {
            flight.entries.iter().for_each(|(offset, _)| {
                self.losses.remove(offset);
            });
        }
    }

    /// The connection is gone, and all that was in flight is to be sent again.
    /// `is_blamed`: the peer or the network ended it, so one of these publishes may
    /// have been the cause.
    pub(super) fn lose(&mut self, is_blamed: bool) {
        let (suspect, has_puback) = (self.suspect.take(), self.has_puback);
        self.has_puback = false;
        self.backfill = 0;
        self.stretches.clear();
        self.entry_count = 0;
        let lost = std::mem::take(&mut self.by_id);
        if !is_blamed || lost.values().all(Flight::is_control) {
            return;
        }
        let before = std::mem::take(&mut self.losses);
        for (id, flight) in lost {
            for (offset, _) in flight.entries {
                let mut losses = before.get(&offset).copied().unwrap_or_default();
                losses.in_a_row += 1;
                losses.alone += u32::from(has_puback && suspect == Some(id));
                self.losses.insert(offset, losses);
            }
        }
    }

    /// Connections in a row that were lost while the entry was in flight.
    pub(super) fn lost_in_a_row(&self, offset: Offset) -> u32 {
        self.losses.get(&offset).map_or(0, |losses| losses.in_a_row)
    }

    /// Connections that were lost while it was the only publish in flight.
    pub(super) fn lost_alone(&self, offset: Offset) -> u32 {
        self.losses.get(&offset).map_or(0, |losses| losses.alone)
    }

    /// Forgets the losses of `[first, end)`: these entries are done with.
    pub(super) fn forget(&mut self, first: Offset, end: Offset) {
        if !self.losses.is_empty() {
            self.losses.retain(|offset, _| !(first..end).contains(offset));
        }
    }
}

/// Ascending offsets as half-open stretches without holes.
pub(super) fn stretches(entries: &[(Offset, Entry)]) -> impl Iterator<Item = (Offset, Offset)> {
    let runs = entries.chunk_by(|(one, _), (next, _)| one.plus(1) == *next);
    runs.filter_map(|run| Some((run.first()?.0, run.last()?.0.plus(1))))
}
