//! The stored forms of [`Meta`] and of what a segment contains.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::clocks::StoredLedger;
use super::envelope::Grown;
use super::ledger::{StoredHanded, StoredOpenGap};
use super::totals::StoredTotals;
use crate::core::id::{BootId, Epoch, Offset, Seq, SourceId};
use crate::core::reading::{Entry, Numbered};
use crate::core::renumber::{Renumbering, Renumberings};
use crate::core::seam::{Meta, SourceMeta, SourceRange, UplinkMeta};
use crate::core::time::{EventTime, Uptime};

/// Ends the stored name of what an uplink's broker refused; see [`StoredUplink::of`].
const REFUSED: &str = " refused";

/// What a segment holds, per source and epoch.
pub(super) type Contents = BTreeMap<(SourceId, Epoch), SourceRange>;

/// The state after a commit: its meta, and where the journal ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) meta: Meta,
    pub(super) next: Offset,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredState {
    next: u64,
    epoch: (u32, u32),
    start: u64,
    frontier: u64,
    /// See [`stored_done`].
    done: Vec<u64>,
    sources: Vec<StoredSource>,
    handed: Vec<StoredHanded>,
    gaps: Vec<StoredOpenGap>,
}

/// The part that format 2 added; it is stored after [`StoredState`]. The clock ledger,
/// which seldom changes, is stored apart.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredClock {
    sealed: u64,
    retimed: u64,
    alive: Option<([u8; 16], u64)>,
}

/// The part that format 3 added: how far each of several uplinks is, which readings beyond
/// [`StoredClock`]'s `retimed` have been given to the windows with a better time, and the
/// positions of sources.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredWays {
    retimed: Vec<(u64, u64)>,
    uplinks: Vec<StoredUplink>,
    /// For sources where not all numbers may have left: the newest that may.
    vouched: Vec<(String, u64)>,
    renumberings: Vec<StoredRenumbering>,
    positions: Vec<StoredPosition>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredPosition {
    source: String,
    at: Vec<u8>,
    /// The source's newest number. Earlier versions of this format took readings
    /// beyond it for the leftovers of a commit; there are none.
    tail: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredRenumbering {
    from: (u32, u32),
    to: (u32, u32),
    bases: Vec<(String, u64)>,
    until: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredUplink {
    name: String,
    frontier: u64,
    done: Vec<u64>,
    handed: Vec<StoredHanded>,
}

/// A state with all that belongs to it, as files beside a segment have it. Format 4
/// added the totals.
pub(super) type StoredWhole = (StoredState, (StoredClock, StoredLedger), StoredWays, StoredTotals);

#[derive(Debug, Serialize, Deserialize)]
struct StoredSource {
    name: String,
    tail: u64,
    accepted: u64,
    acknowledged: u64,
    evicted: u64,
    lost: u64,
    newest_event: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredRange {
    source: String,
    epoch: (u32, u32),
    first: u64,
    last: u64,
    earliest: i64,
    latest: i64,
}

impl StoredClock {
    pub(super) fn of(meta: &Meta) -> Self {
        Self {
            sealed: meta.sealed.0,
            retimed: meta
                .retimed
                .iter()
                .find(|(first, _)| first.0 == 0)
                .map_or(0, |(_, end)| end.0),
            alive: meta.alive.map(|(boot, up)| (boot.0, up.ns())),
        }
    }

    /// Adds this part to a state. `None` stands for format 1: all its readings went out as
    /// stamped.
    pub(super) fn complete(stored: Option<Self>, state: &mut State) {
        let meta = &mut state.meta;
        let Some(stored) = stored else {
            meta.sealed = state.next;
            return;
        };
        meta.sealed = Offset(stored.sealed);
        let retimed = (Offset(0), Offset(stored.retimed));
        meta.retimed = Vec::from_iter((stored.retimed > 0).then_some(retimed));
        meta.alive = stored.alive.map(|(boot, up)| (BootId(boot), Uptime::from_ns(up)));
    }
}

/// The whole of a state in stored form.
pub(super) fn stored_whole(state: &State) -> StoredWhole {
    let meta = &state.meta;
    let clocks = (StoredClock::of(meta), StoredLedger::of(&meta.clock));
    let totals = StoredTotals::of(&meta.totals);
    (StoredState::of(meta, state.next), clocks, StoredWays::of(meta), totals)
}

/// The inverse of [`stored_whole`], with the parts that the format had.
pub(super) fn whole_state(
    (stored, clocks, ways, totals): Grown<
        StoredState,
        (StoredClock, StoredLedger),
        StoredWays,
        StoredTotals,
    >,
) -> State {
    let mut state = stored.into_state();
    let (clock, ledger) = clocks.unzip();
    StoredClock::complete(clock, &mut state);
    StoredWays::complete(ways, &mut state.meta);
    state.meta.clock = Arc::new(ledger.map(StoredLedger::into_ledger).unwrap_or_default());
    state.meta.totals = Arc::new(totals.map(StoredTotals::into_saved).unwrap_or_default());
    state
}

impl StoredWays {
    pub(super) fn of(meta: &Meta) -> Self {
        let retimed = meta.retimed.iter().map(|(first, end)| (first.0, end.0));
        let retimed = retimed.filter(|(first, _)| *first > 0);
        let uplinks = meta.uplinks.iter().flat_map(|(name, one)| StoredUplink::of(name, one));
        let unlike = meta.sources.iter().filter(|(_, books)| books.vouched != books.tail);
        let vouched = unlike.map(|(source, books)| (source.as_str().to_owned(), books.vouched.0));
        let positions = meta.positions.iter().map(|(source, at)| StoredPosition {
            source: source.to_string(),
            at: at.to_vec(),
            tail: meta.sources.get(source).map_or(0, |books| books.tail.0),
        });
        Self {
            retimed: retimed.collect(),
            uplinks: uplinks.collect(),
            vouched: vouched.collect(),
            renumberings: meta.renumberings.0.iter().map(StoredRenumbering::of).collect(),
            positions: positions.collect(),
        }
    }

    /// Adds this part to a meta. `None` stands for older formats: there was one uplink, which
    /// the other parts describe.
    pub(super) fn complete(stored: Option<Self>, meta: &mut Meta) {
        for books in meta.sources.values_mut() {
            books.vouched = books.tail;
        }
        let Some(stored) = stored else { return };
        for (source, vouched) in stored.vouched {
            if let Some(books) = meta.sources.get_mut(&SourceId::new(&source)) {
                books.vouched = Seq(vouched);
            }
        }
        let renumberings = stored.renumberings.into_iter().map(StoredRenumbering::into_one);
        meta.renumberings = Renumberings(renumberings.collect());
        let more = stored.retimed.into_iter().map(|(first, end)| (Offset(first), Offset(end)));
        meta.retimed.extend(more);
        meta.uplinks = StoredUplink::into_all(stored.uplinks);
        let positions = stored.positions.into_iter();
        meta.positions = positions.map(|one| (SourceId::new(&one.source), one.at.into())).collect();
    }
}

impl StoredUplink {
    /// What was refused came later than this format. It is kept as another uplink, of
    /// a name that no configuration can have: a program that does not know of it
    /// passes it over.
    fn of(name: &str, one: &UplinkMeta) -> Vec<Self> {
        let own = Self {
            name: name.to_owned(),
            frontier: one.frontier.0,
            done: stored_done(one.frontier, &one.done),
            handed: one.handed.iter().map(StoredHanded::of).collect(),
        };
        let refused = one.refused.as_ref().map(|refused| Self {
            name: format!("{name}{REFUSED}"),
            frontier: 0,
            done: Vec::new(),
            handed: refused.iter().map(StoredHanded::of).collect(),
        });
        [own].into_iter().chain(refused).collect()
    }

    fn into_all(stored: Vec<Self>) -> BTreeMap<Arc<str>, UplinkMeta> {
        let (refused, own): (Vec<_>, Vec<_>) =
            stored.into_iter().partition(|one| one.name.ends_with(REFUSED));
        let sets = |handed: Vec<StoredHanded>| -> BTreeMap<_, _> {
            handed.into_iter().map(StoredHanded::into_handed).collect()
        };
        let mut uplinks: BTreeMap<Arc<str>, UplinkMeta> = BTreeMap::new();
        for one in own {
            let (frontier, done) = (Offset(one.frontier), done_of(one.frontier, &one.done));
            let own = UplinkMeta { frontier, done, handed: sets(one.handed), refused: None };
            uplinks.insert(one.name.into(), own);
        }
        for one in refused {
            let name = one.name.trim_end_matches(REFUSED);
            if let Some(own) = uplinks.get_mut(name) {
                own.refused = Some(sets(one.handed));
            }
        }
        uplinks
    }
}

impl StoredRenumbering {
    fn of(one: &Renumbering) -> Self {
        let bases = one.bases.iter().map(|(source, seq)| (source.as_str().to_owned(), seq.0));
        Self {
            from: (one.from.number, one.from.nonce),
            to: (one.to.number, one.to.nonce),
            bases: bases.collect(),
            until: one.until.0,
        }
    }

    fn into_one(self) -> Renumbering {
        let epoch = |(number, nonce)| Epoch { number, nonce };
        let bases = self.bases.into_iter().map(|(name, seq)| (SourceId::new(&name), Seq(seq)));
        Renumbering {
            from: epoch(self.from),
            to: epoch(self.to),
            bases: bases.collect(),
            until: Offset(self.until),
        }
    }
}

/// Alternating lengths: from the frontier to the first range, its length, to the
/// next range, and so on.
fn stored_done(frontier: Offset, done: &[(Offset, Offset)]) -> Vec<u64> {
    let mut at = frontier.0;
    let mut lengths = Vec::with_capacity(2 * done.len());
    for (first, end) in done {
        lengths.push(first.0.wrapping_sub(at));
        lengths.push(end.0.wrapping_sub(first.0));
        at = end.0;
    }
    lengths
}

/// The inverse of [`stored_done`].
fn done_of(frontier: u64, lengths: &[u64]) -> Vec<(Offset, Offset)> {
    let mut at = frontier;
    let ranges = lengths.chunks_exact(2).map(|pair| {
        let first = at.wrapping_add(pair[0]);
        at = first.wrapping_add(pair[1]);
        (Offset(first), Offset(at))
    });
    ranges.collect()
}

impl StoredState {
    pub(super) fn of(meta: &Meta, next: Offset) -> Self {
        let sources = meta.sources.iter().map(|(name, source)| StoredSource {
            name: name.as_str().to_owned(),
            tail: source.tail.0,
            accepted: source.accepted,
            acknowledged: source.acknowledged,
            evicted: source.evicted,
            lost: source.lost,
            newest_event: source.newest_event.map(EventTime::unix_ns),
        });
        Self {
            next: next.0,
            epoch: (meta.epoch.number, meta.epoch.nonce),
            start: meta.start.0,
            frontier: meta.frontier.0,
            done: stored_done(meta.frontier, &meta.done),
            sources: sources.collect(),
            handed: meta.handed.iter().map(StoredHanded::of).collect(),
            gaps: meta.gaps.iter().map(StoredOpenGap::of).collect(),
        }
    }

    /// The state, still without the parts in [`StoredClock`] and the clock ledger.
    pub(super) fn into_state(self) -> State {
        let sources = self.sources.into_iter().map(|source| {
            let books = SourceMeta {
                tail: Seq(source.tail),
                vouched: Seq(source.tail),
                accepted: source.accepted,
                acknowledged: source.acknowledged,
                evicted: source.evicted,
                lost: source.lost,
                newest_event: source.newest_event.map(EventTime::from_unix_ns),
            };
            (SourceId::new(&source.name), books)
        });
        let meta = Meta {
            epoch: Epoch { number: self.epoch.0, nonce: self.epoch.1 },
            start: Offset(self.start),
            frontier: Offset(self.frontier),
            done: done_of(self.frontier, &self.done),
            sources: sources.collect(),
            handed: self.handed.into_iter().map(StoredHanded::into_handed).collect(),
            gaps: self.gaps.into_iter().filter_map(StoredOpenGap::into_gap).collect(),
            ..Meta::default()
        };
        State { meta, next: Offset(self.next) }
    }
}

pub(super) fn stored_contents(contents: &Contents) -> Vec<StoredRange> {
    let stored = contents.iter().map(|((source, epoch), range)| StoredRange {
        source: source.as_str().to_owned(),
        epoch: (epoch.number, epoch.nonce),
        first: range.first.0,
        last: range.last.0,
        earliest: range.earliest.unix_ns(),
        latest: range.latest.unix_ns(),
    });
    stored.collect()
}

pub(super) fn contents_of(stored: Vec<StoredRange>) -> Contents {
    let ranges = stored.into_iter().map(|range| {
        let epoch = Epoch { number: range.epoch.0, nonce: range.epoch.1 };
        let key = (SourceId::new(&range.source), epoch);
        let value = SourceRange {
            first: Seq(range.first),
            last: Seq(range.last),
            earliest: EventTime::from_unix_ns(range.earliest),
            latest: EventTime::from_unix_ns(range.latest),
        };
        (key, value)
    });
    ranges.collect()
}

/// Sums up readings and results, cheaply: neighbours share their source, and polled sources
/// take turns.
#[derive(Debug, Default)]
pub(super) struct Summary {
    ranges: Vec<(SourceId, Epoch, SourceRange)>,
    last: usize,
}

impl Summary {
    pub(super) fn add(&mut self, entries: &[Entry]) {
        entries.iter().filter_map(Entry::numbered).for_each(|one| self.add_one(&one));
    }

    fn add_one(&mut self, one: &Numbered<'_>) {
        let is_it =
            |range: &(SourceId, Epoch, SourceRange)| range.1 == one.epoch && range.0 == *one.source;
        let guesses = [self.last, (self.last + 1) % self.ranges.len().max(1)];
        let found = guesses
            .into_iter()
            .find(|place| self.ranges.get(*place).is_some_and(is_it))
            .or_else(|| self.ranges.iter().position(is_it));
        let (seq, time) = (one.seq, one.event_time);
        let range = SourceRange { first: seq, last: seq, earliest: time, latest: time };
        match found {
            Some(place) => {
                self.last = place;
                widen(&mut self.ranges[place].2, &range);
            }
            None => {
                self.last = self.ranges.len();
                self.ranges.push((one.source.clone(), one.epoch, range));
            }
        }
    }

    pub(super) fn merge_into(self, contents: &mut Contents) {
        for (source, epoch, range) in self.ranges {
            contents.entry((source, epoch)).and_modify(|r| widen(r, &range)).or_insert(range);
        }
    }
}

fn widen(range: &mut SourceRange, other: &SourceRange) {
    range.first = range.first.min(other.first);
    range.last = range.last.max(other.last);
    range.earliest = range.earliest.min(other.earliest);
    range.latest = range.latest.max(other.latest);
}

/// Widens `contents` to the numbers that must be there by the tails: those after `head` up
/// to `meta`. Numbers in frames that cannot be read any more are so included.
pub(super) fn widen_by_tails(contents: &mut Contents, head: &Meta, meta: &Meta) {
    for (source, books) in &meta.sources {
        let before = tail_in(head, source, meta.epoch);
        if books.tail <= before {
            continue;
        }
        let time = books.newest_event.unwrap_or(EventTime::from_unix_ns(0));
        let range = contents.entry((source.clone(), meta.epoch)).or_insert(SourceRange {
            first: before.next(),
            last: books.tail,
            earliest: time,
            latest: time,
        });
        range.first = range.first.min(before.next());
        range.last = range.last.max(books.tail);
    }
}

/// The tail of a source, zero when the meta speaks of another epoch.
pub(super) fn tail_in(meta: &Meta, source: &SourceId, epoch: Epoch) -> Seq {
    if meta.epoch != epoch {
        return Seq(0);
    }
    meta.sources.get(source).map_or(Seq(0), |books| books.tail)
}

#[cfg(test)]
#[path = "meta_tests.rs"]
mod tests;
