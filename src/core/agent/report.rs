//! The agent's account of itself.

use super::*;
use crate::core::seam::SourceRange;
use crate::core::status::UplinkStatus;

impl Agent {
    /// The books as they stand.
    pub fn status(&self, now: &Now) -> Status {
        let frontier = self.frontier_offset();
        let segments = self.buffer.segments();
        let backlog = self.books.stored();
        Status {
            epoch: self.books.epoch(),
            clock: self.clock_status(now),
            sources: self.source_books(),
            lateness: self.lateness.quantiles(),
            backlog,
            unsent: self
                .uplinks
                .iter()
                .map(|one| one.forward.backlog(self.durable))
                .max()
                .unwrap_or(0),
            uncommitted: self.pending.uncommitted() as u64,
            oldest_event: self
                .ages
                .oldest(frontier.0)
                .or_else(|| self.oldest_by_segments(frontier, now))
                .filter(|_| backlog > 0),
            segments: segments.len(),
            entry_bytes: self.buffer.entry_bytes(),
            ahead_bytes: segments.iter().map(|segment| segment.ahead_bytes).sum(),
            disk: self.buffer.disk(),
            capacity_bytes: self.buffer.capacity(),
            is_filling: self.buffer.is_filling(),
            full: self.buffer.full(),
            is_committing: self.pending.failed_attempts() == 0,
            uplinks: self.uplinks.iter().map(|uplink| self.uplink_status(uplink, now)).collect(),
            accept_rate: self.accept_rate.per_second(now.mono),
            windows: self.windows.status(now.mono),
            orders: self.windows.orders.status(),
        }
    }

    /// Entries from before this start have no marks of their own: the ranges of their
    /// segments are used, which may begin earlier. Left out are ranges whose readings are all
    /// done with, and those that begin with a stamp that nobody can mean.
    fn oldest_by_segments(&self, frontier: Offset, now: &Now) -> Option<EventTime> {
        let floor = EventTime::from_unix_ns(self.settings.clock.floor_ns);
        let unfinished = self.buffer.segments().iter().filter(|one| one.next > frontier);
        let waits = |source: &SourceId, epoch: Epoch, range: &SourceRange| {
            let names = (epoch, range.first, range.last);
            let names = self.vouching.renumberings.ranges(source, names);
            names
                .into_iter()
                .any(|(epoch, first, last)| !self.books.are_done((source, epoch), (first, last)))
        };
        let ranges = unfinished.flat_map(|segment| segment.contents.iter());
        ranges
            .filter(|((source, epoch), range)| waits(source, *epoch, range))
            .map(|(_, range)| range.earliest)
            .filter(|at| *at >= floor && now.wall.lag_behind(*at) >= Span::ZERO)
            .min()
    }

    fn uplink_status(&self, uplink: &Uplink, now: &Now) -> UplinkStatus {
        let forward = &uplink.forward;
        UplinkStatus {
            name: uplink.name(),
            state: uplink.connection.state(),
            inflight: forward.inflight(),
            inflight_max: uplink.settings.forward.inflight_max,
            oldest_inflight: forward.oldest_sent().map(|sent| now.mono.since(sent)),
            // What was acknowledged seconds ago, before the connection broke, is no rate of now.
            ack_rate: match uplink.connection.is_up() {
                true => uplink.ack_rate.per_second(now.mono),
                false => 0.0,
            },
            acknowledged: self.books.acknowledged_at(usize::from(uplink.id.0)),
            backlog: self.books.stored_at(usize::from(uplink.id.0)),
            backfill: forward.backfill(),
            held: forward.held().map(|(source, code)| (source.clone(), code)).collect(),
        }
    }

    /// The books of each source: `accepted = acknowledged + stored + evicted +
    /// lost`, at any moment.
    pub fn source_books(&self) -> BTreeMap<SourceId, SourceStatus> {
        let sources = self.books.accounts().map(|(source, account)| {
            let status = SourceStatus {
                accepted: account.durable,
                acknowledged: account.meta.acknowledged,
                stored: account.stored(),
                evicted: account.meta.evicted,
                lost: account.meta.lost,
                quarantined: account.quarantined,
                duplicates: account.duplicates,
                held_back: account.held_back,
                known: self.repeats.known(source),
                refused_full: account.refused_full,
                implausible: account.implausible,
                last_reading: account.last_reading,
            };
            (source.clone(), status)
        });
        sources.collect()
    }

    /// Publishes without PUBACK, of each uplink.
    pub fn inflight(&self) -> impl Iterator<Item = usize> {
        self.uplinks.iter().map(|uplink| uplink.forward.inflight())
    }

    pub(super) fn link_status(&self, now: &Now, is_online: bool) -> LinkStatus {
        LinkStatus {
            is_online,
            epoch: self.books.epoch(),
            pending: self.books.stored() + self.pending.uncommitted() as u64,
            clock: self.clock.reading(now).state,
            at: now.wall,
        }
    }
}
