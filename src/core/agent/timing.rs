//! Final times: how long readings wait for a better clock, seals that fix their times,
//! and corrections of those that left too early.

use super::*;
use crate::core::clock::correct::{self, SentStretch};
use crate::core::clock::{ClockEventKind, ClockState, Seal, seal};
use crate::core::reading::{Origin, Record, Stamp};
use crate::core::seam::ClockLedger;
use crate::core::status::ClockStatus;
use crate::core::time::Uptime;
use crate::core::window::entry::may_enter;
use std::sync::Arc;

/// The ledger of clocks is written this often when nothing urgent changes it.
const LEDGER_INTERVAL_NS: u64 = 60_000_000_000;
/// Between two rounds of corrections. Readings that were timed before the clock was known
/// may still be going out: they are gathered into one record.
const CORRECTION_INTERVAL: Span = Span::from_secs(10);
/// Seals that are remembered. With this many, unsent readings must go out before a new one
/// is made.
const SEALS_MAX: usize = 64;

/// Which entries have their final time.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    /// Every entry below has its final time.
    sealed: Offset,
    /// The same, durable: entries below may be sent.
    durable: Offset,
    seals: Vec<Seal>,
    /// Stretches of readings that leave without an error bound, to be corrected later.
    sent: Vec<SentStretch>,
    /// The part of them that is durable. A stretch must be durable before its readings
    /// leave: after a crash they may be written off instead of sent again, and then
    /// nothing else tells that the broker has them.
    noted: Arc<ClockLedger>,
    /// Forwarding waits until such a stretch is durable.
    needs_note: bool,
    /// The first entry from `sealed` on whose time is open.
    first_open: Option<Offset>,
    /// Forwarding waits for a seal.
    is_blocked: bool,
    /// A commit is due, for a seal or for a stretch in `sent`.
    is_due: bool,
    /// When a seal will be due.
    due_at: Option<MonoTime>,
    link_up_at: Uptime,
    ledger: Arc<ClockLedger>,
    written: (u64, Uptime),
    is_changed: bool,
    steps: (u64, u64),
    retimed: (u64, u64),
    next_round: Uptime,
    floor_ns: i64,
}

impl Timing {
    pub(super) fn open(meta: &Meta, next: Offset, floor_ns: i64) -> Self {
        let sealed = meta.sealed.min(next);
        Self {
            sealed,
            durable: sealed,
            seals: meta.clock.seals.clone(),
            sent: meta.clock.sent.clone(),
            noted: Arc::clone(&meta.clock),
            needs_note: false,
            first_open: (sealed < next).then_some(sealed),
            is_blocked: false,
            is_due: false,
            due_at: None,
            link_up_at: Uptime::default(),
            ledger: Arc::clone(&meta.clock),
            written: (0, Uptime::default()),
            is_changed: true,
            steps: (0, 0),
            retimed: (0, 0),
            next_round: Uptime::default(),
            floor_ns,
        }
    }

    /// Notes an entry whose time is open.
    pub(super) fn opened(&mut self, offset: Offset) {
        self.first_open.get_or_insert(offset);
    }

    pub(super) fn link_came_up(&mut self, up: Uptime) {
        self.link_up_at = up;
    }

    pub(super) fn unblock(&mut self) {
        (self.is_blocked, self.needs_note) = (false, false);
    }

    /// Whether the entry may be sent: its time is final and, if nothing bounds its error,
    /// it is noted for a correction; both are durable.
    pub(super) fn may_go(&mut self, offset: Offset, entry: &Entry) -> bool {
        let Some(record) = entry.reading().filter(|record| seal::is_open(&record.stamp)) else {
            return true;
        };
        if offset >= self.durable {
            self.is_blocked = true;
            return false;
        }
        let is_noted = correct::is_noted(&self.noted.sent, record);
        let may_go = is_noted || !self.leaves_unbounded(offset, record);
        self.needs_note |= !may_go;
        may_go
    }

    /// Gives a reading its final time on its way out. True when it is now fit for the
    /// windows and was not before.
    pub(super) fn time(&mut self, offset: Offset, record: &mut Record) -> bool {
        if !seal::is_open(&record.stamp) {
            return false;
        }
        let first = record.stamp;
        record.stamp = self.timed(offset, record.stamp);
        match record.stamp.origin {
            Origin::Restamped => {
                self.retimed.0 += 1;
                return !may_enter(&first, self.floor_ns);
            }
            Origin::Bounded => self.retimed.1 += 1,
            _ => {}
        }
        false
    }

    /// Gives a reading its final time that is not sent any more; not counted.
    pub(super) fn finish(&self, offset: Offset, record: &mut Record) {
        if seal::is_open(&record.stamp) {
            record.stamp = self.timed(offset, record.stamp);
        }
    }

    fn timed(&self, offset: Offset, mut stamp: Stamp) -> Stamp {
        if let Some(seal) = self.seals.iter().find(|seal| seal.covers(offset)) {
            seal.apply_to(&mut stamp);
        }
        stamp
    }

    /// Whether a sealed reading goes out with a time that nothing bounds.
    fn leaves_unbounded(&self, offset: Offset, record: &Record) -> bool {
        if !seal::is_open(&record.stamp) {
            return false;
        }
        let stamp = self.timed(offset, record.stamp);
        let is_retimed = matches!(stamp.origin, Origin::Restamped | Origin::Bounded);
        !is_retimed && correct::is_unbounded(&stamp)
    }

    /// Notes readings that are sealed and about to leave without an error bound.
    fn note<'a>(&mut self, leaving: impl Iterator<Item = (Offset, &'a Entry)>) {
        let sealed = self.sealed;
        for (offset, entry) in leaving.filter(|(offset, _)| *offset < sealed) {
            let Some(record) = entry.reading() else { continue };
            if self.leaves_unbounded(offset, record) && !correct::is_noted(&self.sent, record) {
                correct::note(&mut self.sent, record);
                self.is_changed = true;
            }
        }
    }

    pub(super) fn is_commit_due(&self) -> bool {
        self.is_due
    }

    pub(super) fn committed(&mut self, meta: &Meta) {
        self.durable = meta.sealed;
        self.noted = Arc::clone(&meta.clock);
    }

    /// The broker acknowledged the correction at `offset`.
    pub(super) fn corrected(&mut self, offset: Offset) {
        self.sent.retain(|stretch| stretch.correction != Some(offset));
        self.is_changed = true;
    }

    /// Forgets corrections among entries that are lost: they will be made again.
    pub(super) fn lost(&mut self, first: Offset, end: Offset) {
        for stretch in &mut self.sent {
            if stretch.correction.is_some_and(|at| (first..end).contains(&at)) {
                stretch.correction = None;
            }
        }
        self.is_changed = true;
    }

    /// Whether every entry in `[first, end)` has its final time and no seal has changed
    /// it, so that the stamps in the journal hold.
    pub(super) fn is_as_stamped(&self, first: Offset, end: Offset) -> bool {
        let overlaps = |seal: &Seal| seal.first < end && first < seal.end;
        end <= self.sealed && !self.seals.iter().any(overlaps)
    }

    fn forget_below(&mut self, frontier: Offset) {
        let before = self.seals.len();
        self.seals.retain(|seal| seal.end > frontier);
        self.is_changed |= self.seals.len() != before;
    }

    fn seal(&mut self, end: Offset, timelines: Vec<(crate::core::id::BootId, seal::Timeline)>) {
        if !timelines.is_empty() {
            self.seals.push(Seal { first: self.sealed, end, timelines });
            self.is_changed = true;
        }
        self.sealed = end;
        self.first_open = None;
    }
}

impl Agent {
    /// Turns what happened to the clock into entries and notices.
    pub(super) fn watch_clock(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        self.clock.look(now);
        for event in self.clock.take_events() {
            if matches!(event.kind, ClockEventKind::Step(_)) {
                let connections = self.uplinks.iter_mut().map(|uplink| &mut uplink.connection);
                connections.for_each(|connection| connection.clock_was_set(now.mono));
            }
            match event.kind {
                ClockEventKind::Step(by) if by.ns() >= 0 => self.timing.steps.0 += 1,
                ClockEventKind::Step(_) => self.timing.steps.1 += 1,
                _ => {}
            }
            effects.push(Effect::Notice(Notice::Clock(event.clone())));
            self.pending.push(Entry::Clock(event), now.mono);
        }
    }

    /// Once the clock is synchronized: makes corrections for readings that left before.
    pub(super) fn correct_if_due(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        let waits = self.timing.sent.iter().any(|stretch| stretch.correction.is_none());
        let is_due = now.uptime() >= self.timing.next_round;
        if !waits || !is_due || !self.is_settled_clock(now) {
            return;
        }
        self.timing.next_round = after(now.uptime(), CORRECTION_INTERVAL);
        for stretch in self.timing.sent.iter_mut().filter(|s| s.correction.is_none()) {
            let at = self.clock.boots().iter().position(|boot| boot.id == stretch.boot);
            let timeline = at.and_then(|at| self.clock.timeline(at));
            let correction = timeline.and_then(|line| stretch.corrected(&line, now.wall));
            let Some(correction) = correction else { continue };
            effects.push(Effect::Notice(Notice::Corrected(correction.clone())));
            let offset = self.pending.push(Entry::Correction(correction), now.mono);
            stretch.correction = Some(offset);
            self.timing.is_changed = true;
        }
    }

    /// Whether the clock is synchronized and its daemon has had time to settle.
    fn is_settled_clock(&self, now: &Now) -> bool {
        let since = self.clock.synchronized_since();
        since.is_some_and(|since| now.uptime() >= after(since, self.settings.clock.restamp_settle))
    }

    /// Until when readings whose time is open wait for a better clock; `None` when they do
    /// not wait.
    fn waits_until(&self, now: &Now) -> Option<Uptime> {
        if self.admission() != Admission::Open {
            return None;
        }
        let settings = &self.settings.clock;
        let until = match self.clock.reading(now).state {
            ClockState::Holdover => return None,
            ClockState::Synchronized => {
                after(self.clock.synchronized_since()?, settings.restamp_settle)
            }
            ClockState::Stepped | ClockState::Unsynchronized => {
                let link_up_at = Some(self.timing.link_up_at).filter(|_| self.clock.may_improve());
                let since = self.clock.lost_at().max(link_up_at.unwrap_or_default());
                after(since, settings.hold_unsynchronized)
            }
        };
        (until > now.uptime()).then_some(until)
    }

    /// Decides when to seal the entries that forwarding waits for.
    pub(super) fn plan_seal(&mut self, now: &Now) {
        (self.timing.is_due, self.timing.due_at) = (false, None);
        if self.timing.needs_note {
            // The commit under way may carry the note already: another one is due only
            // after it.
            self.timing.is_due = !self.pending.is_outstanding();
            return;
        }
        if !self.timing.is_blocked || self.timing.sealed > self.timing.durable {
            return;
        }
        match self.waits_until(now) {
            None => self.timing.is_due = true,
            Some(until) => {
                let wait_ns = until.since_ns(now.uptime()).min(i64::MAX as u64) as i64;
                self.timing.due_at = Some(now.mono + Span::from_ns(wait_ns));
            }
        }
    }

    /// The latest time at which a seal must be made.
    pub(super) fn seal_deadline(&self) -> Option<MonoTime> {
        let is_free = !self.pending.is_outstanding() && self.is_any_up();
        let now_due = self.timing.is_due.then_some(MonoTime::from_ns(0));
        self.timing.due_at.or(now_due).filter(|_| is_free)
    }

    /// Fills in the part of a commit's meta that is about clocks, with a seal if one can be
    /// made.
    pub(super) fn time_commit(&mut self, now: &Now, meta: &mut Meta) {
        self.timing.is_due = false;
        self.timing.forget_below(meta.frontier);
        let sent = &self.timing.sent;
        let is_awaited = |boot| sent.iter().any(|stretch| stretch.boot == boot);
        self.clock.prune(meta.frontier, is_awaited);
        self.seal_if_possible(now);
        for uplink in &self.uplinks {
            self.timing.note(uplink.forward.ready());
        }
        if self.vouching.renumberings.is_empty() {
            self.timing.note(self.pending.numbered());
        } else {
            let renamed = self.pending.numbered().map(|(offset, entry)| {
                let mut entry = entry.clone();
                self.vouching.renumberings.apply(&mut entry);
                (offset, entry)
            });
            let renamed: Vec<(Offset, Entry)> = renamed.collect();
            self.timing.note(renamed.iter().map(|(offset, entry)| (*offset, entry)));
        }
        meta.sealed = self.timing.sealed;
        meta.alive = Some((self.clock.boot_id(), now.uptime()));
        let (revision, at) = self.timing.written;
        let is_old = now.uptime().since_ns(at) >= LEDGER_INTERVAL_NS;
        if self.timing.is_changed || revision != self.clock.revision() || is_old {
            self.timing.is_changed = false;
            self.timing.written = (self.clock.revision(), now.uptime());
            self.timing.ledger = Arc::new(self.ledger());
        }
        meta.clock = Arc::clone(&self.timing.ledger);
    }

    fn ledger(&self) -> ClockLedger {
        ClockLedger {
            timebase: self.clock.timebase(),
            boots: self.clock.boots().to_vec(),
            seals: self.timing.seals.clone(),
            sent: self.timing.sent.clone(),
        }
    }

    fn seal_if_possible(&mut self, now: &Now) {
        let end = self.pending.next();
        let Some(first_open) = self.timing.first_open else {
            return self.timing.seal(end, Vec::new());
        };
        let is_ready = self.is_any_up() && self.waits_until(now).is_none();
        // Only entries about to be sent are sealed: the rest may still get a better time.
        let connected = || self.uplinks.iter().filter(|uplink| uplink.connection.is_up());
        let is_live = connected().any(|uplink| uplink.forward.is_caught_up(self.durable));
        let taken_up = connected().map(|uplink| uplink.forward.taken_up()).max();
        let end = if is_live { end } else { taken_up.unwrap_or_default() };
        let is_crowded = self.timing.seals.len() >= SEALS_MAX;
        if !is_ready || is_crowded || end <= first_open {
            self.timing.sealed = self.timing.sealed.max(first_open);
            return;
        }
        // Readings just taken in holdover have the best time there is.
        let is_fresh = first_open >= self.durable;
        let is_coasting = self.clock.reading(now).state == ClockState::Holdover;
        let timelines = if is_fresh && is_coasting { Vec::new() } else { self.timelines(end) };
        self.timing.seal(end, timelines);
        if end < self.pending.next() {
            self.timing.opened(end);
        }
    }

    fn timelines(&self, end: Offset) -> Vec<(crate::core::id::BootId, seal::Timeline)> {
        let boots = self.clock.boots();
        let is_concerned = |at: usize| {
            let next = boots.get(at + 1).map_or(end, |next| next.first_offset);
            next > self.timing.sealed
        };
        let concerned = (0..boots.len()).filter(|at| is_concerned(*at));
        concerned.filter_map(|at| Some((boots[at].id, self.clock.timeline(at)?))).collect()
    }

    /// Whether an entry that the broker has not acknowledged may still get another time.
    pub(super) fn has_open_times(&self) -> bool {
        self.timing.first_open.is_some() || !self.timing.seals.is_empty()
    }

    pub(super) fn clock_status(&self, now: &Now) -> ClockStatus {
        let facts = self.clock.facts().clone();
        let reading = self.clock.reading(now);
        let is_synchronized = reading.state == ClockState::Synchronized;
        let since = self.clock.synchronized_since().filter(|_| is_synchronized);
        let open = self.timing.first_open.map_or(0, |first| self.pending.next().0 - first.0);
        let span = |ns: u64| Span::from_ns(ns.min(i64::MAX as u64) as i64);
        ClockStatus {
            reading,
            uptime: now.uptime(),
            kernel: facts.kernel.map(|kernel| kernel.judge()),
            facts,
            synchronized_for: since.map(|since| span(now.uptime().since_ns(since))),
            rate_ppb: self.clock.boots().last().and_then(|boot| boot.rate_ppb),
            events: self.clock.recent().to_vec(),
            steps: self.timing.steps,
            open,
            held_for: self
                .waits_until(now)
                .filter(|_| open > 0)
                .map(|until| span(until.since_ns(now.uptime()))),
            retimed: self.timing.retimed,
            uncorrected: self.timing.sent.len(),
        }
    }
}

fn after(since: Uptime, wait: Span) -> Uptime {
    Uptime::from_ns(since.ns().saturating_add(wait.ns().max(0) as u64))
}
