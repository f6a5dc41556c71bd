//! The forwarder of one uplink: which entries are published next, what is in
//! flight, what is done with. It knows offsets and publishes, no packets.
//!
//! The store is the only memory. After a link loss the cursors go back to the
//! acknowledged frontier and everything that is not done with is read again.
//!
//! What is committed after the link came up is *live*, what lies before is
//! *backfill*. A backlog of more than [`BACKFILL_MIN`] entries becomes a lane of
//! its own: live entries go first, the backlog drains beside them within its
//! share ([`ShareSettings`]). Within a lane, and so always where there is only
//! one, the first sight of every sequence number of a source is in order,
//! whatever the broker remembers. What was queued behind a batch that proves too large
//! is taken back unsent. One exception remains: when a broker refuses a publish by a
//! reason code, those in flight behind it have left already and may be acknowledged
//! before it.
//!
//! Reading order: this file, `cursor`, `flight`, `hold`, `share`, `batch`.

mod batch;
mod cursor;
mod flight;
mod hold;
mod share;
mod verdict;

use std::collections::BTreeMap;

pub use batch::Batching;
pub use share::ShareSettings;
pub use verdict::Verdict;

use self::cursor::{Cursor, Join};
use self::flight::{Flight, Flights};
use self::hold::Holds;
use self::share::Share;
use super::id::{Offset, PublishId, SourceId, UplinkId};
use super::limits::{
    ACKED_RANGES_MAX, BACKFILL_MIN, FETCH_BYTES_MAX, FETCH_ENTRIES_MAX, INFLIGHT_ENTRIES_MAX,
};
use super::rangeset::RangeSet;
use super::reading::Entry;
use super::seam::{Fetch, Fetched, Lane, Purpose};
use super::time::{MonoTime, Span};

/// An entry that was in flight on this many lost connections in a row is sent alone.
const LOSSES_MAX: u32 = 2;

/// An entry that was alone in flight on this many lost connections is set aside.
const KILLS_MAX: u32 = 2;

/// How one uplink forwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForwardSettings {
    /// Publishes that may be without PUBACK at the same time.
    pub inflight_max: usize,
    /// Whether live entries go before the backlog; else journal order.
    pub is_live_first: bool,
    /// Backlogs up to this many entries are sent first even when live entries go first.
    pub backfill_min: u64,
    /// What the backlog may take beside live entries.
    pub share: ShareSettings,
    /// Which readings go together.
    pub batching: Batching,
    /// How long a batch that is not full waits for more.
    pub linger: Span,
}

impl ForwardSettings {
    /// The defaults of the configuration.
    pub const DEFAULT: ForwardSettings = ForwardSettings {
        inflight_max: 100,
        is_live_first: true,
        backfill_min: BACKFILL_MIN,
        share: ShareSettings { share: 0.5, per_second: None },
        batching: Batching::SINGLE,
        linger: Span::ZERO,
    };
}

/// What is to become of an entry at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes out.
    Send,
    /// It may not go yet.
    Wait,
    /// It never goes out: it is for this gateway alone, and done with.
    Stay,
}

/// What was taken from the head of a lane.
#[derive(Clone, Debug)]
pub enum Taken {
    /// A publish: one entry, or readings of one source that go together.
    Goes(PublishId, Lane, Vec<(Offset, Entry)>),
    /// It stays here, and is done with.
    Stays(Offset, Box<Entry>),
    /// Set aside: each time it was sent alone the connection broke.
    Kills(Offset, Box<Entry>),
}

/// The forwarder of one uplink.
#[derive(Clone, Debug)]
pub struct Forward {
    uplink: UplinkId,
    settings: ForwardSettings,
    receive_max: usize,
    /// As configured, within the broker's limits.
    batching: Batching,
    done: RangeSet,
    /// Position in the backlog, while that is a lane of its own.
    backfill: Option<Cursor>,
    /// Position in what came since the link is up; in everything, while there is no
    /// backfill.
    live: Cursor,
    /// Entries from here on are live.
    live_from: Offset,
    share: Share,
    skip_below: Offset,
    flights: Flights,
    holds: Holds,
    /// How often the broker has called an entry invalid.
    refused: BTreeMap<Offset, u32>,
    /// Readings that one publish may have: halved when one was too large, doubled when
    /// a full one was delivered.
    run_max: usize,
    lingers_since: Option<MonoTime>,
    last_refused: PublishId,
}

impl Forward {
    /// A forwarder that goes on behind what is done with.
    pub fn new(uplink: UplinkId, settings: ForwardSettings, done: RangeSet) -> Self {
        let start = Offset(done.frontier());
        Self {
            uplink,
            settings,
            receive_max: settings.inflight_max,
            batching: settings.batching,
            done,
            backfill: None,
            live: Cursor::new(start, None),
            live_from: start,
            share: Share::new(settings.share),
            skip_below: Offset(0),
            flights: Flights::default(),
            holds: Holds::default(),
            refused: BTreeMap::new(),
            run_max: settings.batching.readings_max,
            lingers_since: None,
            last_refused: PublishId::default(),
        }
    }

    /// The newest publish that was found too large to be sent.
    pub fn last_refused(&self) -> PublishId {
        self.last_refused
    }

    /// What is done with.
    pub fn done(&self) -> &RangeSet {
        &self.done
    }

    /// Entries below `durable` that are not done with.
    pub fn backlog(&self, durable: Offset) -> u64 {
        durable.0.saturating_sub(self.done.frontier() + self.done.above_frontier())
    }

    /// Entries of the backlog that drain on a lane of their own.
    pub fn backfill(&self) -> u64 {
        let from = self.done.frontier();
        let is_lane = self.backfill.is_some();
        let behind = self.done.absent_in(from, self.live_from.0).into_iter();
        if is_lane { behind.map(|(first, end)| end - first).sum() } else { 0 }
    }

    /// How many publishes wait for their PUBACK.
    pub fn inflight(&self) -> usize {
        self.flights.len()
    }

    /// When the oldest of them was sent.
    pub fn oldest_sent(&self) -> Option<MonoTime> {
        self.flights.oldest_sent()
    }

    /// Held sources and the reason code that holds them.
    pub fn held(&self) -> impl Iterator<Item = (&SourceId, u8)> {
        self.holds.codes()
    }

    /// Every entry that is not done with; `None` while some of them are on disk only.
    pub fn all_unfinished(&self, durable: Offset) -> Option<impl Iterator<Item = &Entry>> {
        let is_all = self.backfill.is_none() && self.live.is_read_up(durable);
        if !is_all || !self.holds.is_empty() {
            return None;
        }
        Some(self.flights.entries().chain(self.live.ready().map(|(_, entry)| entry)))
    }

    /// The link came up: `receive_max` bounds what may be in flight, `payload_max`
    /// the bytes of a batch; what is durable now and not done with is the backlog.
    pub fn link_up(&mut self, durable: Offset, receive_max: u16, payload_max: Option<u64>) {
        self.receive_max = usize::from(receive_max.max(1));
        let configured = self.settings.batching;
        let bytes_max =
            payload_max.map_or(configured.bytes_max, |max| max.min(configured.bytes_max));
        self.batching = Batching { bytes_max, ..configured };
        self.live_from = durable;
        let has_lanes =
            self.settings.is_live_first && self.backlog(durable) > self.settings.backfill_min;
        let start = Offset(self.done.frontier());
        self.backfill = has_lanes.then(|| Cursor::new(start, Some(durable)));
        self.live = Cursor::new(if has_lanes { durable } else { start }, None);
        self.rewind();
    }

    /// The link went down: everything in flight goes back to "to send".
    /// `is_blamed`: the peer or the network ended it, not this gateway.
    pub fn link_down(&mut self, is_blamed: bool) {
        self.flights.lose(is_blamed);
        self.rewind();
    }

    /// Whether there is room for one more publish.
    pub fn has_slot(&self) -> bool {
        let is_free = self.flights.len() < self.slots() && !self.flights.is_reserved();
        is_free && self.flights.entry_count() < INFLIGHT_ENTRIES_MAX
    }

    /// Notes that a frontier or status goes out, and gives its id.
    pub fn send_control(&mut self, now: MonoTime) -> PublishId {
        self.flights.launch(Flight { entries: Vec::new(), lane: Lane::Live, sent: now })
    }

    /// What goes next, if something is ready, there is room and `fate` lets it;
    /// what may not go yet stays at the head and keeps its lane waiting.
    pub fn take(
        &mut self,
        now: MonoTime,
        mut fate: impl FnMut(Offset, &Entry) -> Fate,
    ) -> Option<Taken> {
        self.backfill.take_if(|lane| lane.is_over(&self.done));
        // Reasons to wait are found again below: one that is over must leave no
        // deadline behind.
        let lingered = self.lingers_since.take();
        self.share.look_anew();
        if !self.has_slot() {
            return None;
        }
        let has_backlog = self.backfill.is_some();
        let live = self.flights.len() - self.flights.backfill();
        if !has_backlog || live < Share::live_slots(self.slots()) {
            match self.take_from(Lane::Live, (now, lingered), &mut fate) {
                Head::Taken(taken) => return Some(taken),
                // The head must be sent alone: nothing else may go before it.
                Head::Reserved => return None,
                Head::Nothing => {}
            }
        }
        if !has_backlog || self.flights.backfill() >= self.share.backfill_slots(self.slots(), now) {
            return None;
        }
        match self.take_from(Lane::Backfill, (now, lingered), &mut fate) {
            Head::Taken(taken) => Some(taken),
            Head::Reserved | Head::Nothing => None,
        }
    }

    /// The fetch that is due, if one is.
    pub fn fetch(&mut self, durable: Offset) -> Option<Fetch> {
        let (skip, done) = (self.skip_below, &self.done);
        let live = self.live.fetch(durable, skip, done).map(|from| (Lane::Live, from));
        let (lane, from) = live.or_else(|| {
            let from = self.backfill.as_mut()?.fetch(durable, skip, done)?;
            Some((Lane::Backfill, from))
        })?;
        Some(Fetch {
            purpose: Purpose::Forward(self.uplink, lane),
            from,
            entries_max: FETCH_ENTRIES_MAX,
            bytes_max: FETCH_BYTES_MAX,
        })
    }

    /// The answer came. False when the cursor has moved meanwhile and the answer was
    /// dropped; any damage in it will be found again.
    pub fn fetched(&mut self, lane: Lane, fetched: &mut Fetched) -> bool {
        match (lane, &mut self.backfill) {
            (Lane::Live, _) => self.live.fetched(fetched),
            (Lane::Backfill, Some(backfill)) => backfill.fetched(fetched),
            (Lane::Backfill, None) => false,
        }
    }

    /// A commit became durable: straight to the link while it keeps up.
    pub fn offer(&mut self, first: Offset, entries: &[Entry]) {
        self.live.offer(first, entries);
    }

    /// Whether everything durable has been published on this connection.
    pub fn is_caught_up(&self, durable: Offset) -> bool {
        self.backfill.is_none() && self.live.is_caught_up(durable)
    }

    /// One past the last entry that was taken up by the lane that is furthest
    /// and has something to send.
    pub fn taken_up(&self) -> Offset {
        match &self.backfill {
            Some(backfill) if self.live.ready().next().is_none() => backfill.taken_up(),
            _ => self.live.taken_up(),
        }
    }

    /// The offset from which everything up to `offset` goes out in journal order.
    pub fn in_order_from(&self, offset: Offset) -> Offset {
        let is_live = self.backfill.is_some() && offset >= self.live_from;
        if is_live { self.live_from } else { Offset(0) }
    }

    /// What was taken up and is not published yet.
    pub fn ready(&self) -> impl Iterator<Item = (Offset, &Entry)> {
        self.backfill.iter().flat_map(Cursor::ready).chain(self.live.ready())
    }

    /// `[first, end)` is done with.
    pub fn finish(&mut self, first: Offset, end: Offset) {
        self.done.insert(first.0, end.0);
        self.flights.forget(first, end);
        if !self.refused.is_empty() {
            self.refused.retain(|offset, _| !(first..end).contains(offset));
        }
    }

    /// Whether the entry is in flight.
    pub fn is_flying(&self, offset: Offset) -> bool {
        self.flights.has(offset)
    }

    /// Sends nothing below `offset` any more; what is in flight there may still be
    /// acknowledged. True once nothing is.
    pub fn give_up_below(&mut self, offset: Offset) -> bool {
        self.skip_below = self.skip_below.max(offset);
        !self.flights.has_below(offset)
    }

    /// Lets held sources try again whose time has come.
    pub fn retry_held(&mut self, now: MonoTime) {
        if self.holds.retry(now) {
            self.rewind();
        }
    }

    /// When [`Forward::retry_held`] or [`Forward::take`] has something to do.
    pub fn next_deadline(&self) -> Option<MonoTime> {
        let linger = self.lingers_since.map(|since| since + self.settings.linger);
        [self.holds.next_deadline(), self.share.next_deadline(), linger].into_iter().flatten().min()
    }

    fn slots(&self) -> usize {
        self.settings.inflight_max.min(self.receive_max)
    }

    fn is_giving_up(&self) -> bool {
        self.done.ranges_len() > ACKED_RANGES_MAX
    }

    /// Back to the first entry that is not done with.
    fn rewind(&mut self) {
        self.lingers_since = None;
        self.share.look_anew();
        self.live.rewind(&self.done);
        if let Some(backfill) = &mut self.backfill {
            backfill.rewind(&self.done);
        }
    }

    fn take_from(
        &mut self,
        lane: Lane,
        (now, lingered): (MonoTime, Option<MonoTime>),
        fate: &mut impl FnMut(Offset, &Entry) -> Fate,
    ) -> Head {
        let rules = Rules {
            done: &self.done,
            skip_below: self.skip_below,
            flights: &self.flights,
            holds: &self.holds,
            refused: &self.refused,
            is_giving_up: self.done.ranges_len() > ACKED_RANGES_MAX,
        };
        let cursor = match (lane, &mut self.backfill) {
            (Lane::Backfill, Some(backfill)) => backfill,
            _ => &mut self.live,
        };
        let Some((offset, entry)) = cursor.head(|offset, entry| rules.is_passed(offset, entry))
        else {
            return Head::Nothing;
        };
        match fate(offset, entry) {
            Fate::Send => {}
            Fate::Wait => return Head::Nothing,
            Fate::Stay => {
                return cursor.pop().map_or(Head::Nothing, |(offset, entry)| {
                    self.finish(offset, offset.plus(1));
                    Head::Taken(Taken::Stays(offset, entry.into()))
                });
            }
        }
        if rules.flights.lost_alone(offset) >= KILLS_MAX {
            return cursor.pop().map_or(Head::Nothing, |(offset, entry)| {
                self.finish(offset, offset.plus(1));
                Head::Taken(Taken::Kills(offset, entry.into()))
            });
        }
        let limit = rules.limit(offset, self.run_max);
        let is_suspect = limit == 1 && rules.flights.lost_in_a_row(offset) >= LOSSES_MAX;
        if is_suspect && !rules.flights.is_clear_for_suspect() {
            return Head::Reserved;
        }
        let batching = self.batching;
        if self.settings.linger > Span::ZERO && cursor.may_fill(&batching) {
            let since = lingered.unwrap_or(now);
            self.lingers_since = Some(since);
            if now < since + self.settings.linger {
                return Head::Nothing;
            }
        }
        let entries = cursor.run(&batching, limit, |offset, entry| {
            if rules.is_passed(offset, entry) {
                Join::Skip
            } else if rules.limit(offset, usize::MAX) > 1 && fate(offset, entry) == Fate::Send {
                Join::Go
            } else {
                Join::Stop
            }
        });
        self.launch(entries, is_suspect, now)
    }

    fn launch(&mut self, entries: Vec<(Offset, Entry)>, is_suspect: bool, now: MonoTime) -> Head {
        let Some((first, _)) = entries.first() else { return Head::Nothing };
        self.lingers_since = None;
        let lane = if *first < self.live_from { Lane::Backfill } else { Lane::Live };
        match lane {
            Lane::Live => self.share.live_goes(now),
            Lane::Backfill => self.share.backfill_goes(entries.len(), now),
        }
        let flight = Flight { entries: entries.clone(), lane, sent: now };
        let id = if is_suspect {
            self.flights.launch_suspect(flight)
        } else {
            self.flights.launch(flight)
        };
        Head::Taken(Taken::Goes(id, lane, entries))
    }
}

/// What the head of a lane gave.
enum Head {
    Taken(Taken),
    /// The head must be sent alone, and cannot yet.
    Reserved,
    Nothing,
}

/// What decides whether an entry goes, and with how many others.
struct Rules<'a> {
    done: &'a RangeSet,
    skip_below: Offset,
    flights: &'a Flights,
    holds: &'a Holds,
    refused: &'a BTreeMap<Offset, u32>,
    is_giving_up: bool,
}

impl Rules<'_> {
    /// Whether it is done with, in flight, or of a source that is held.
    fn is_passed(&self, offset: Offset, entry: &Entry) -> bool {
        let is_finished = offset < self.skip_below || self.done.contains(offset.0);
        if is_finished || self.flights.has(offset) {
            return true;
        }
        match self.holds.may_try(entry.source()) {
            None => false,
            // Too many holes in what is done with: a hold would add more, so it is
            // tried alone and set aside when it is refused.
            Some(_) if self.is_giving_up => false,
            Some(is_probing) => !is_probing || self.flights.has_source(entry.source()),
        }
    }

    /// Readings that a run beginning here may have: divided by four for each connection in
    /// a row that was lost on it; one if it was called invalid, so that it goes alone.
    fn limit(&self, offset: Offset, run_max: usize) -> usize {
        if self.refused.contains_key(&offset) || self.is_giving_up {
            return 1;
        }
        let losses = self.flights.lost_in_a_row(offset).min(16);
        (run_max >> (2 * losses)).max(1)
    }
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
