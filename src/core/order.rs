//! Readings in the order of event time, for filters and estimators on site.
//!
//! A Kalman filter wants each reading once, none earlier than the one before.
//! Readings come as networks and devices let them. So each is held until the
//! watermark has passed it, and what has been passed comes out by event time,
//! then source, then number.
//!
//! ```text
//! journal ──► held, by (event time, source, epoch, seq) ──► watermark ──► out
//! ```
//!
//! The watermark is the order's own ([`super::window::watermark`]): for each source its
//! greatest event time less that source's bound, and the least of these over all sources
//! that are not silent. It does not depend on the windows: one more window must not delay
//! a filter.
//!
//! Each reading says how it stands in the order: [`Place`]. A reading is late only if a
//! later one has been let out already; one that is behind the watermark but still fits
//! into the order is let out in its place.
//!
//! An order is a function of the journal: it is given durable entries only, by offset.
//! The readings it holds are in the journal, so its checkpoint says only where to read
//! from ([`OrderState::from`]) and which reading was let out last: those after it in the
//! order are held.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::id::{Epoch, Offset, Seq, SourceId};
use super::limits::{HELD_BYTES_MAX, HELD_ENTRIES_SPAN_MAX, HELD_READINGS_MAX};
use super::reading::{Origin, Record, Stamp};
use super::time::{Span, TimebaseId, Uptime};
use super::window::Millis;
use super::window::watermark::{Bounded, InputId, Multiplexer};

/// What an output that wants ordered readings asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderSpec {
    /// Its name: what it held is found again under it after a restart.
    pub name: Arc<str>,
    /// Its sources, and how far out of order the readings of each may come.
    pub sources: BTreeMap<SourceId, Span>,
    /// How long a source may be silent before it is no longer waited for.
    pub idle_after: Span,
}

/// How a reading stands in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not earlier than any before it, and the watermark has passed it.
    InOrder,
    /// Not earlier than any before it, but let out before the watermark had
    /// passed it: too much was held, or the gateway's clock was set back.
    Early,
    /// A reading with a later place was let out before it.
    Late,
}

/// A reading that is let out.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderedReading {
    /// [`OrderSpec::name`].
    pub order: Arc<str>,
    /// The reading, with its time as it was known when it was taken in.
    pub record: Arc<Record>,
    /// How it stands.
    pub place: Place,
}

/// What came out since this process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// [`Place::InOrder`].
    pub in_order: u64,
    /// [`Place::Early`].
    pub early: u64,
    /// [`Place::Late`].
    pub late: u64,
}

/// The place of a reading.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    at_ns: i64,
    source: SourceId,
    epoch: Epoch,
    seq: Seq,
}

impl Key {
    fn of(record: &Record) -> Self {
        Self {
            at_ns: record.stamp.event_time.unix_ns(),
            source: record.source.clone(),
            epoch: record.epoch,
            seq: record.seq,
        }
    }
}

/// A source: its place in the combination, and its own watermark.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    input: InputId,
    own: Bounded,
}

/// The gateway's clock, as its stamps in the journal show it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct GatewayClock {
    timebase: u32,
    wall_less_up_ns: i64,
}

/// An order as a checkpoint keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrderState {
    /// [`OrderSpec::name`].
    pub name: String,
    /// The offset of the oldest reading that it held; `None` when it held none.
    pub from: Option<Offset>,
    /// Readings that it held.
    held: u64,
    last: Option<Key>,
    combination: Multiplexer,
    members: BTreeMap<SourceId, Member>,
    clock: Option<GatewayClock>,
}

/// One order.
#[derive(Debug)]
pub struct Order {
    spec: Arc<OrderSpec>,
    held: BTreeMap<Key, (Offset, Arc<Record>)>,
    /// Keys of the held readings by offset: the first is where to read from after a
    /// restart.
    ages: BTreeMap<Offset, Key>,
    held_bytes: usize,
    /// How many readings it held before a restart and has not got again.
    missing: u64,
    /// The last place that was let out.
    last: Option<Key>,
    combination: Multiplexer,
    members: BTreeMap<SourceId, Member>,
    clock: Option<GatewayClock>,
    /// When sources fell silent whose silence has not taken effect yet. Those of one instant
    /// take effect together: one by one, the first would let the watermark jump to that of
    /// the others.
    silent_at: Option<Uptime>,
    counts: OrderCounts,
}

impl Order {
    /// An order before any reading, or as a checkpoint left it; then [`Order::refill`] gives
    /// it again what it held.
    pub fn open(spec: Arc<OrderSpec>, state: Option<OrderState>) -> Self {
        let mut order = Self {
            held: BTreeMap::new(),
            ages: BTreeMap::new(),
            held_bytes: 0,
            missing: 0,
            last: None,
            combination: Multiplexer::default(),
            members: BTreeMap::new(),
            clock: None,
            silent_at: None,
            counts: OrderCounts::default(),
            spec,
        };
        if let Some(state) = state {
            (order.last, order.clock, order.missing) = (state.last, state.clock, state.held);
            (order.combination, order.members) = (state.combination, state.members);
        }
        order.take_up_sources();
        order
    }

    /// Adapts the state to the configured sources, which may have changed since it was
    /// written.
    fn take_up_sources(&mut self) {
        let spec = Arc::clone(&self.spec);
        let combination = &mut self.combination;
        self.members.retain(|source, member| {
            let is_known = spec.sources.contains_key(source);
            if !is_known {
                combination.remove(member.input);
            }
            is_known
        });
        let greatest = self.members.values().map(|member| member.input.0 + 1).max();
        let mut next = greatest.unwrap_or(0);
        for (source, bound) in &spec.sources {
            if let Some(member) = self.members.get_mut(source) {
                member.own.set_bound(*bound);
                continue;
            }
            self.combination.add(InputId(next));
            let member = Member { input: InputId(next), own: Bounded::new(*bound) };
            self.members.insert(source.clone(), member);
            next += 1;
        }
    }

    /// What it was made from.
    pub fn spec(&self) -> &Arc<OrderSpec> {
        &self.spec
    }

    /// Whether it reads that source.
    pub fn takes(&self, source: &SourceId) -> bool {
        self.spec.sources.contains_key(source)
    }

    /// For a checkpoint.
    pub fn state(&self) -> OrderState {
        OrderState {
            name: self.spec.name.to_string(),
            from: self.from(),
            held: self.held.len() as u64,
            last: self.last.clone(),
            combination: self.combination.clone(),
            members: self.members.clone(),
            clock: self.clock,
        }
    }

    /// The offset of the oldest reading that it holds.
    pub fn from(&self) -> Option<Offset> {
        self.ages.first_key_value().map(|(offset, _)| *offset)
    }

    /// How far event time has come.
    pub fn watermark(&self) -> Option<Millis> {
        self.combination.combined()
    }

    /// Readings that it holds, and what they take in memory, in bytes, about.
    pub fn held(&self) -> (usize, usize) {
        (self.held.len(), self.held_bytes)
    }

    /// What it has let out since this process started.
    pub fn counts(&self) -> OrderCounts {
        self.counts
    }

    /// Takes a reading from before the checkpoint and holds it if it was held then.
    pub fn refill(&mut self, offset: Offset, record: &Arc<Record>) {
        let key = Key::of(record);
        if self.takes(&record.source) && self.last.as_ref().is_none_or(|last| key > *last) {
            self.hold(key, offset, record);
            self.missing = self.missing.saturating_sub(1);
        }
    }

    /// After the last [`Order::refill`]: how many held readings it did not get again. They
    /// were evicted, or their source is no longer among its own.
    pub fn take_missing(&mut self) -> u64 {
        std::mem::take(&mut self.missing)
    }

    /// Takes a durable reading; `moves_watermark` says whether its event time may move the
    /// watermark.
    pub fn reading(
        &mut self,
        offset: Offset,
        record: &Arc<Record>,
        moves_watermark: bool,
        out: &mut Vec<OrderedReading>,
    ) {
        self.settle(out);
        self.follow_clock(&record.stamp, &record.source, out);
        let Some(member) = self.members.get_mut(&record.source) else { return };
        if moves_watermark {
            member.own.observe(Millis::floor(record.stamp.event_time));
            self.combination.set(member.input, member.own.watermark());
        }
        let key = Key::of(record);
        if self.last.as_ref().is_some_and(|last| key <= *last) {
            self.let_out(Arc::clone(record), Place::Late, out);
        } else {
            self.hold(key, offset, record);
        }
        self.release(offset, out);
    }

    /// Notes that a source has fallen silent. Takes effect with the next reading or
    /// [`Order::settle`], together with others of the same instant.
    pub fn silent(&mut self, source: &SourceId, at: Uptime, out: &mut Vec<OrderedReading>) {
        if self.silent_at.is_some_and(|before| before != at) {
            self.settle(out);
        }
        if let Some(member) = self.members.get(source) {
            self.combination.mark_idle_deferred(member.input, true);
            self.silent_at = Some(at);
        }
    }

    /// Applies the silences noted so far.
    pub fn settle(&mut self, out: &mut Vec<OrderedReading>) {
        if self.silent_at.take().is_some() {
            self.combination.update();
            self.release_passed(out);
        }
    }

    fn hold(&mut self, key: Key, offset: Offset, record: &Arc<Record>) {
        self.held_bytes += record.weight();
        self.ages.insert(offset, key.clone());
        self.held.insert(key, (offset, Arc::clone(record)));
    }

    fn release(&mut self, newest: Offset, out: &mut Vec<OrderedReading>) {
        self.release_passed(out);
        // Too much is held. To keep the order, readings before this one go first.
        while self.is_over(newest) && self.release_first(Place::Early, out) {}
    }

    fn release_passed(&mut self, out: &mut Vec<OrderedReading>) {
        let Some(watermark) = self.combination.combined() else { return };
        let end_ns = Millis(watermark.0.saturating_add(1)).event_time().unix_ns();
        while self.held.first_key_value().is_some_and(|(key, _)| key.at_ns < end_ns) {
            self.release_first(Place::InOrder, out);
        }
    }

    fn is_over(&self, newest: Offset) -> bool {
        let is_old = |from: Offset| from.plus(HELD_ENTRIES_SPAN_MAX) < newest;
        self.held.len() > HELD_READINGS_MAX
            || self.held_bytes > HELD_BYTES_MAX
            || self.from().is_some_and(is_old)
    }

    fn release_first(&mut self, place: Place, out: &mut Vec<OrderedReading>) -> bool {
        let Some((key, (offset, record))) = self.held.pop_first() else { return false };
        self.ages.remove(&offset);
        self.held_bytes -= record.weight();
        self.last = Some(key);
        self.let_out(record, place, out);
        true
    }

    fn let_out(&mut self, record: Arc<Record>, place: Place, out: &mut Vec<OrderedReading>) {
        match place {
            Place::InOrder => self.counts.in_order += 1,
            Place::Early => self.counts.early += 1,
            Place::Late => self.counts.late += 1,
        }
        out.push(OrderedReading { order: Arc::clone(&self.spec.name), record, place });
    }

    /// Begins a new order when the gateway's clock was set back by more than the bound:
    /// else everything it stamps would be late until the clock is where it was before.
    fn follow_clock(&mut self, stamp: &Stamp, source: &SourceId, out: &mut Vec<OrderedReading>) {
        let is_by_clock = matches!(stamp.origin, Origin::Gateway | Origin::Substituted);
        let spec = Arc::clone(&self.spec);
        let Some(bound) = spec.sources.get(source).filter(|_| is_by_clock) else { return };
        let wall_less_up_ns = stamp.ingest_time.unix_ns().wrapping_sub(stamp.uptime.ns() as i64);
        let fresh = GatewayClock { timebase: stamp.timebase.0, wall_less_up_ns };
        let Some(known) = self.clock.replace(fresh) else { return };
        let back_ns = known.wall_less_up_ns.saturating_sub(wall_less_up_ns);
        if stamp.timebase == TimebaseId(known.timebase) || back_ns <= bound.ns() {
            return;
        }
        while self.release_first(Place::Early, out) {}
        self.last = None;
        let before = std::mem::take(&mut self.combination);
        for (source, member) in &mut self.members {
            member.own = Bounded::new(spec.sources.get(source).copied().unwrap_or(*bound));
            self.combination.add(member.input);
            self.combination.mark_idle_deferred(member.input, before.is_idle(member.input));
        }
    }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
