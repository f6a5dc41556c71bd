//! The forwarder: which entry is published next, what is in flight, what is
//! done with. It knows offsets and publishes, no packets.
//!
//! The store is the only memory. After a link loss the cursor goes back to the
//! acknowledged frontier and everything that is not done with is read again, in
//! journal order; so the first sight of every sequence number of a source is in
//! order, whatever the broker remembers.
//!
//! A source that the broker refuses (not authorized, quota) is *held*: its
//! entries are passed over, the others go on. When its time has come the cursor
//! goes back and one of its entries is tried; if it is taken, the rest follow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::id::{Offset, PublishId, SourceId};
use super::limits::{
    ACKED_RANGES_MAX, FETCH_BYTES_MAX, FETCH_ENTRIES_MAX, INVALID_TRIES_MAX, READY_ENTRIES_MAX,
};
use super::rangeset::RangeSet;
use super::reading::Entry;
use super::seam::{Fetch, Fetched, Purpose};
use super::time::{MonoTime, Span};

/// First and greatest wait of a held source.
const HOLD: (Span, Span) = (Span::from_secs(5), Span::from_secs(60));

/// Something published, its PUBACK not seen.
#[derive(Clone, Debug)]
struct InFlight {
    item: Item,
    sent: MonoTime,
}

/// What is in flight.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every publish is an entry")]
enum Item {
    /// An entry of the journal.
    Entry(Offset, Entry),
    /// A frontier or status: said again when it is lost, from newer facts.
    Control,
}

#[derive(Clone, Debug)]
struct Held {
    code: u8,
    attempts: u32,
    retry_at: MonoTime,
    is_probing: bool,
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

/// An entry that was taken from the head.
#[derive(Clone, Debug)]
pub enum Taken {
    /// It goes out.
    Goes(PublishId, Offset, Entry),
    /// It stays here, and is done with.
    Stays(Offset, Entry),
}

/// What a PUBACK means.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Not one of ours (any more).
    Unknown,
    /// A frontier or status arrived, or was refused: no matter.
    Control,
    /// The broker has it. `released` names a source that was held until now.
    Delivered {
        /// Where it is.
        offset: Offset,
        /// What it is.
        entry: Entry,
        /// From publish to PUBACK.
        took: Span,
        /// Whether its source was held until now.
        released: bool,
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
    /// It will be tried once more, alone.
    Again,
    /// The broker will never take it.
    SetAside {
        /// Where it is.
        offset: Offset,
        /// What it is.
        entry: Entry,
    },
}

/// The forwarder of one uplink.
#[derive(Clone, Debug)]
pub struct Forward {
    inflight_max: usize,
    receive_max: usize,
    done: RangeSet,
    ready: VecDeque<(Offset, Entry)>,
    ready_end: Offset,
    fetching: Option<Offset>,
    skip_below: Offset,
    /// The store had nothing to say on the last fetch: asked again only once
    /// something has changed.
    is_stalled: bool,
    inflight: BTreeMap<PublishId, InFlight>,
    inflight_offsets: BTreeSet<Offset>,
    held: BTreeMap<SourceId, Held>,
    refused: BTreeMap<Offset, u32>,
    last_id: PublishId,
}

impl Forward {
    /// A forwarder that goes on behind what is done with.
    pub fn new(inflight_max: usize, done: RangeSet) -> Self {
        let ready_end = Offset(done.frontier());
        Self {
            inflight_max,
            receive_max: inflight_max,
            done,
            ready: VecDeque::new(),
            ready_end,
            fetching: None,
            skip_below: Offset(0),
            is_stalled: false,
            inflight: BTreeMap::new(),
            inflight_offsets: BTreeSet::new(),
            held: BTreeMap::new(),
            refused: BTreeMap::new(),
            last_id: PublishId(0),
        }
    }

    /// What is done with.
    pub fn done(&self) -> &RangeSet {
        &self.done
    }

    /// Entries below `durable` that are not done with.
    pub fn backlog(&self, durable: Offset) -> u64 {
        durable.0.saturating_sub(self.done.frontier() + self.done.above_frontier())
    }

    /// How many publishes wait for their PUBACK.
    pub fn inflight(&self) -> usize {
        self.inflight.len()
    }

    /// When the oldest of them was sent.
    pub fn oldest_sent(&self) -> Option<MonoTime> {
        self.inflight.values().map(|flight| flight.sent).min()
    }

    /// Held sources and the reason code that holds them.
    pub fn held(&self) -> impl Iterator<Item = (&SourceId, u8)> {
        self.held.iter().map(|(source, held)| (source, held.code))
    }

    /// Everything that is not done with, if all of it is in memory now.
    pub fn all_unfinished(&self, durable: Offset) -> Option<impl Iterator<Item = &Entry>> {
        if self.ready_end < durable || !self.held.is_empty() || self.fetching.is_some() {
            return None;
        }
        let flying = self.inflight.values().filter_map(|flight| match &flight.item {
            Item::Entry(_, entry) => Some(entry),
            Item::Control => None,
        });
        Some(flying.chain(self.ready.iter().map(|(_, entry)| entry)))
    }

    /// The link came up: `receive_max` bounds what may be in flight.
    pub fn link_up(&mut self, receive_max: u16) {
        self.receive_max = usize::from(receive_max.max(1));
        self.rewind();
    }

    /// The link went down: everything in flight goes back to "to send".
    pub fn link_down(&mut self) {
        self.inflight.clear();
        self.inflight_offsets.clear();
        self.ready.clear();
        self.rewind();
    }

    /// Room for one more publish.
    pub fn has_slot(&self) -> bool {
        self.inflight.len() < self.inflight_max.min(self.receive_max)
    }

    /// A frontier or status goes out.
    pub fn send_control(&mut self, now: MonoTime) -> PublishId {
        self.launch(Item::Control, now)
    }

    /// The next entry to publish, if one is ready, there is room and `fate` lets
    /// it; what may not go yet stays at the head and keeps the others waiting,
    /// for the first sight of every number is in order.
    pub fn take(
        &mut self,
        now: MonoTime,
        mut fate: impl FnMut(Offset, &Entry) -> Fate,
    ) -> Option<Taken> {
        while self.has_slot() {
            let (offset, entry) = self.ready.front()?;
            if !self.is_sendable(*offset, entry) {
                self.ready.pop_front();
                continue;
            }
            match fate(*offset, entry) {
                Fate::Send => {}
                Fate::Wait => return None,
                Fate::Stay => {
                    let (offset, entry) = self.ready.pop_front()?;
                    self.finish(offset, offset.plus(1));
                    return Some(Taken::Stays(offset, entry));
                }
            }
            let (offset, entry) = self.ready.pop_front()?;
            self.inflight_offsets.insert(offset);
            let id = self.launch(Item::Entry(offset, entry.clone()), now);
            return Some(Taken::Goes(id, offset, entry));
        }
        None
    }

    /// The fetch that is due, if one is.
    pub fn fetch(&mut self, durable: Offset) -> Option<Fetch> {
        let from = Offset(self.done.next_absent(self.ready_end.max(self.skip_below).0));
        let has_room = self.ready.len() + FETCH_ENTRIES_MAX <= READY_ENTRIES_MAX;
        if self.fetching.is_some() || self.is_stalled || from >= durable || !has_room {
            return None;
        }
        self.ready_end = from;
        self.fetching = Some(from);
        Some(Fetch {
            purpose: Purpose::Forward,
            from,
            entries_max: FETCH_ENTRIES_MAX,
            bytes_max: FETCH_BYTES_MAX,
        })
    }

    /// The answer came. False when the cursor has moved meanwhile and it was
    /// dropped; then its damage is found again.
    pub fn fetched(&mut self, fetched: &mut Fetched) -> bool {
        if self.fetching.take() != Some(fetched.from) || self.ready_end != fetched.from {
            return false;
        }
        self.is_stalled = fetched.next <= fetched.from;
        self.ready_end = fetched.next.max(fetched.from);
        self.ready.extend(fetched.entries.drain(..));
        true
    }

    /// A commit became durable: straight to the link while it keeps up.
    pub fn offer(&mut self, first: Offset, entries: &[Entry]) {
        self.is_stalled = false;
        let is_next = self.ready_end == first && self.fetching.is_none();
        if !is_next || self.ready.len() + entries.len() > READY_ENTRIES_MAX {
            return;
        }
        let numbered = entries.iter().zip(first.0..);
        self.ready.extend(numbered.map(|(entry, offset)| (Offset(offset), entry.clone())));
        self.ready_end = first.plus(entries.len() as u64);
    }

    /// Whether everything durable has been published on this connection.
    pub fn is_caught_up(&self, durable: Offset) -> bool {
        self.ready.is_empty() && self.fetching.is_none() && self.ready_end >= durable
    }

    /// One past the last entry that was taken up.
    pub fn taken_up(&self) -> Offset {
        self.ready_end
    }

    /// What was taken up and is not published yet, in journal order.
    pub fn ready(&self) -> impl Iterator<Item = (Offset, &Entry)> {
        self.ready.iter().map(|(offset, entry)| (*offset, entry))
    }

    /// A PUBACK came.
    pub fn puback(&mut self, id: PublishId, code: u8, now: MonoTime) -> Verdict {
        let Some(flight) = self.inflight.remove(&id) else { return Verdict::Unknown };
        let Item::Entry(offset, entry) = flight.item else { return Verdict::Control };
        self.inflight_offsets.remove(&offset);
        // MQTT 5, 3.4.2.1: below 0x80 is success, "no matching subscribers" too.
        if code < 0x80 {
            self.finish(offset, offset.plus(1));
            let released = self.held.remove(entry.source()).is_some();
            if released {
                self.rewind();
            }
            return Verdict::Delivered { offset, entry, took: now.since(flight.sent), released };
        }
        match code {
            0x90 | 0x99 => self.refuse_invalid(offset, entry),
            _ => self.hold(offset, entry, code, now),
        }
    }

    /// The publish could not be sent: over a limit of size.
    pub fn too_large(&mut self, id: PublishId) -> Verdict {
        match self.inflight.remove(&id).map(|flight| flight.item) {
            None => Verdict::Unknown,
            Some(Item::Control) => Verdict::Control,
            Some(Item::Entry(offset, entry)) => {
                self.inflight_offsets.remove(&offset);
                self.finish(offset, offset.plus(1));
                Verdict::SetAside { offset, entry }
            }
        }
    }

    /// `[first, end)` is done with.
    pub fn finish(&mut self, first: Offset, end: Offset) {
        self.done.insert(first.0, end.0);
        let gone: Vec<Offset> = self.refused.range(first..end).map(|(offset, _)| *offset).collect();
        for offset in gone {
            self.refused.remove(&offset);
        }
    }

    /// An entry that something newer replaces is done with, unless it is in
    /// flight: then false.
    pub fn withdraw(&mut self, offset: Offset) -> bool {
        let is_here = !self.inflight_offsets.contains(&offset);
        if is_here {
            self.finish(offset, offset.plus(1));
        }
        is_here
    }

    /// Nothing below `offset` is taken up any more; what is in flight there may
    /// still be acknowledged. True once nothing is.
    pub fn give_up_below(&mut self, offset: Offset) -> bool {
        self.skip_below = self.skip_below.max(offset);
        self.inflight_offsets.range(..offset).next().is_none()
    }

    /// Lets held sources try again whose time has come.
    pub fn retry_held(&mut self, now: MonoTime) {
        let mut is_any_due = false;
        for held in self.held.values_mut() {
            if !held.is_probing && held.retry_at <= now {
                held.is_probing = true;
                is_any_due = true;
            }
        }
        if is_any_due {
            self.rewind();
        }
    }

    /// When [`Forward::retry_held`] has something to do.
    pub fn next_deadline(&self) -> Option<MonoTime> {
        let waiting = self.held.values().filter(|held| !held.is_probing);
        waiting.map(|held| held.retry_at).min()
    }

    fn launch(&mut self, item: Item, now: MonoTime) -> PublishId {
        self.last_id = PublishId(self.last_id.0 + 1);
        self.inflight.insert(self.last_id, InFlight { item, sent: now });
        self.last_id
    }

    fn is_sendable(&self, offset: Offset, entry: &Entry) -> bool {
        let is_finished = offset < self.skip_below || self.done.contains(offset.0);
        if is_finished || self.inflight_offsets.contains(&offset) {
            return false;
        }
        match self.held.get(entry.source()) {
            None => true,
            // Too many holes: nothing of it is spared, each is judged alone.
            Some(_) if self.is_giving_up() => true,
            Some(held) => held.is_probing && !self.is_flying(entry.source()),
        }
    }

    fn is_flying(&self, source: &SourceId) -> bool {
        self.inflight
            .values()
            .any(|flight| matches!(&flight.item, Item::Entry(_, entry) if entry.source() == source))
    }

    fn is_giving_up(&self) -> bool {
        self.done.ranges_len() > ACKED_RANGES_MAX
    }

    fn refuse_invalid(&mut self, offset: Offset, entry: Entry) -> Verdict {
        let tries = self.refused.entry(offset).or_insert(0);
        *tries += 1;
        if *tries < INVALID_TRIES_MAX {
            self.rewind();
            return Verdict::Again;
        }
        self.finish(offset, offset.plus(1));
        Verdict::SetAside { offset, entry }
    }

    fn hold(&mut self, offset: Offset, entry: Entry, code: u8, now: MonoTime) -> Verdict {
        if self.is_giving_up() {
            self.finish(offset, offset.plus(1));
            return Verdict::SetAside { offset, entry };
        }
        let source = entry.source().clone();
        let fresh = Held { code, attempts: 0, retry_at: now, is_probing: true };
        let held = self.held.entry(source.clone()).or_insert(fresh);
        held.code = code;
        if !held.is_probing {
            return Verdict::Held { source, code, retry_in: None };
        }
        let retry_in = super::backoff::delay(held.attempts, HOLD.0, HOLD.1, u64::MAX);
        held.attempts += 1;
        held.is_probing = false;
        held.retry_at = now + retry_in;
        Verdict::Held { source, code, retry_in: Some(retry_in) }
    }

    /// Back to the first entry that is not done with.
    fn rewind(&mut self) {
        self.is_stalled = false;
        self.ready.clear();
        self.ready_end = Offset(self.done.frontier());
    }
}
