//! The agent: routes inputs to the parts of the core and collects their effects. Only
//! the routing is here; each kind of decision has its own file.

use std::collections::BTreeMap;

use super::ages::Ages;
use super::books::Books;
use super::buffer::{Admission, Bounds, Buffer};
use super::clock::{BootFacts, ClockModel};
use super::connection::Connection;
use super::expiry::Expiry;
use super::forward::Forward;
use super::id::{Epoch, Offset, SourceId, UplinkId};
use super::lateness::LatenessBook;
use super::pending::Pending;
use super::rangeset::RangeSet;
use super::rate::Rate;
use super::reading::{Entry, GapReason, GapRecord};
use super::seam::{
    Checkpointed, Damage, DownCause, Effect, Fetched, Input, Lane, LinkCommand, LinkEvent,
    LinkNotice, LinkStatus, LinkTerms, Meta, Missing, Notice, Now, Outcome, Publish, PublishBody,
    Purpose, Recovered, StoreEvent,
};
use super::skew::SourceClock;
use super::time::{EventTime, MonoTime, Span};

pub use super::settings::{
    OnAmbiguousTime, OnBadTime, OnNonexistentTime, Settings, SourceSettings, WhenFull,
};
pub use windows::Counts;

pub use super::status::{LinkState, SourceStatus, Status};

mod delivery;
mod feeding;
mod frontier;
mod intake;
mod ordering;
mod positions;
mod recall;
mod refusals;
mod release;
mod repeats;
mod report;
mod sources;
mod space;
mod timing;
mod uplink;
mod values;
mod vouching;
mod windows;

use positions::Positions;
use repeats::Repeats;
use timing::Timing;
use uplink::Uplink;
use values::Values;
use vouching::Vouching;
use windows::Windows;

/// How long acknowledgements may wait for a commit of their own.
const META_INTERVAL: Span = Span::from_secs(1);

/// The core of Tidegate. See the crate docs for its place.
#[derive(Debug)]
pub struct Agent {
    settings: Settings,
    /// What stamping remembers of each source's clock.
    source_clocks: BTreeMap<SourceId, SourceClock>,
    books: Books,
    lateness: LatenessBook,
    buffer: Buffer,
    expiry: Expiry,
    pending: Pending,
    uplinks: Vec<Uplink>,
    /// One past the last durable offset.
    durable: Offset,
    /// Entries below are given up, by the next commit or the one under way.
    start: Offset,
    /// Gap records that the broker has not acknowledged.
    gaps: BTreeMap<Offset, GapRecord>,
    /// Since when there are acknowledgements that no commit carries yet.
    unsaved_since: Option<MonoTime>,
    clock: ClockModel,
    timing: Timing,
    windows: Windows,
    repeats: Repeats,
    values: Values,
    positions: Positions,
    vouching: Vouching,
    ages: Ages,
    accept_rate: Rate,
    refused_since_full: u64,
    is_stopping: bool,
}

impl Agent {
    /// An agent that goes on from what the store recovered. `epoch_nonce` is a
    /// random number, used if a new numbering must start.
    pub fn new(
        settings: Settings,
        recovered: Recovered,
        boot_facts: BootFacts,
        epoch_nonce: u32,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) -> Self {
        let repeats = Repeats::open(&settings, &recovered, now, effects);
        let values = Values::open(&settings, &recovered);
        let meta = recovered.meta.unwrap_or_default();
        let positions = Positions::open(&meta);
        let epoch = epoch_after(&meta, recovered.broken_numbering, epoch_nonce, effects);
        let bounds = Bounds {
            quota_bytes: settings.quota_bytes,
            reserve_bytes: settings.reserve_bytes,
            when_full: settings.when_full,
        };
        let clock = ClockModel::new(settings.clock, boot_facts, &meta.clock, recovered.next, now);
        let timing = Timing::open(&meta, recovered.next, settings.clock.floor_ns);
        let checkpoint = recovered.checkpoint.as_deref();
        let (windows, lateness) =
            Windows::open(&settings, checkpoint, &meta, recovered.next, now, effects);
        let first_kept = recovered.segments.first().map_or(recovered.next, |segment| segment.first);
        let uplinks = Uplink::open(&settings, &meta, now);
        let names: Vec<_> = uplinks.iter().map(Uplink::name).collect();
        let mut agent = Self {
            source_clocks: BTreeMap::new(),
            books: Books::open(&meta, epoch, &names, recovered.next),
            lateness,
            buffer: Buffer::new(bounds, recovered.segments, recovered.disk, meta.start),
            expiry: Expiry::new(settings.max_age, EventTime::from_unix_ns(settings.clock.floor_ns)),
            pending: Pending::new(recovered.next),
            uplinks,
            durable: recovered.next,
            start: meta.start,
            gaps: meta.gaps.iter().cloned().collect(),
            unsaved_since: None,
            clock,
            timing,
            windows,
            repeats,
            values,
            positions,
            vouching: Vouching::open(&meta, epoch_nonce),
            ages: Ages::new(recovered.next.0),
            accept_rate: Rate::default(),
            refused_since_full: 0,
            is_stopping: false,
            settings,
        };
        agent.forget_told();
        for damage in recovered.damaged {
            agent.write_off_damage(now, damage, effects);
        }
        // Entries before the oldest remaining segment are gone; those not done with have
        // been written off just above.
        agent.finish_everywhere(Offset(0), first_kept.min(agent.durable));
        for source in agent.settings.sources.keys() {
            agent.books.account(source);
        }
        agent
    }

    /// Takes one input.
    pub fn handle(&mut self, now: &Now, input: Input, effects: &mut Vec<Effect>) {
        self.clock.look(now);
        match input {
            Input::Clock(facts) => self.clock.sample(facts, now),
            Input::Vouched(vouch) => self.clock.vouch(vouch, now),
            Input::Readings(batch) => self.take_in(now, batch, effects),
            Input::Release(release) => self.release(now, release, effects),
            Input::Store(event) => self.store_answered(now, event, effects),
            Input::Link(uplink, event) => self.link_reported(now, uplink, event, effects),
            Input::Sources(sources) => self.change_sources(now, sources),
            Input::Stop => {
                self.is_stopping = true;
                self.uplinks.iter_mut().for_each(Uplink::begin_stop);
                self.windows.stop(now.mono);
                self.repeats.stop(now.mono);
            }
        }
    }

    /// Ends a turn: commits what is due, sends what can be sent. Also called
    /// when [`Agent::next_deadline`] has come.
    pub fn end_turn(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        self.watch_clock(now, effects);
        self.correct_if_due(now, effects);
        self.watch_silence(now);
        self.watch_space(now, effects);
        self.commit_if_due(now, effects);
        self.uplinks.iter_mut().for_each(|uplink| uplink.drive(now, effects));
        self.publish(now, effects);
        let fetches = [self.windows.fetch(), self.repeats.fetch(), self.values.fetch()];
        effects.extend(fetches.into_iter().flatten().map(Effect::Fetch));
        self.go_on_stopping(now, effects);
    }

    /// Whether more readings may be handed in. While false the driver leaves
    /// them in the sources' queue, and sources wait.
    pub fn accepts_readings(&self) -> bool {
        !self.windows.is_replaying()
            && !self.repeats.is_recalling()
            && !self.values.is_recalling()
            && !self.pending.is_full()
            && self.admission() != Admission::Wait
    }

    /// When [`Agent::end_turn`] must be called again at the latest, whatever
    /// else happens.
    pub fn next_deadline(&self) -> Option<MonoTime> {
        let commit = match (self.pending.is_outstanding(), self.pending.retry_at()) {
            (true, retry_at) => retry_at,
            (false, _) => {
                let entries = self.pending.since().map(|at| at + self.settings.commit_interval);
                let meta = self.unsaved_since.map(|at| at + META_INTERVAL);
                [entries, meta].into_iter().flatten().min()
            }
        };
        let uplinks = self.uplinks.iter().filter_map(Uplink::next_deadline).min();
        [
            commit,
            uplinks,
            self.frontier_deadline(),
            self.seal_deadline(),
            self.windows.next_deadline(!self.pending.is_outstanding()),
            self.repeats.next_deadline(!self.pending.is_outstanding()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// After [`Input::Stop`]: everything accepted is durable and nothing is in
    /// flight any more (or the link is down).
    pub fn is_settled(&self) -> bool {
        self.is_stopping
            && self.pending.is_empty()
            && !self.pending.is_outstanding()
            && self.unsaved_since.is_none()
            && !self.windows.is_busy()
            && !self.repeats.is_busy()
            && self.uplinks.iter().all(Uplink::is_stopped)
    }

    fn store_answered(&mut self, now: &Now, event: StoreEvent, effects: &mut Vec<Effect>) {
        match event {
            StoreEvent::Committed { id, segments, disk } => {
                self.buffer.set_segments(segments);
                self.buffer.set_disk(disk);
                self.became_durable(now, id, effects);
            }
            StoreEvent::CommitFailed { id, reason } => {
                if let Some((attempts, retry_in)) = self.pending.failed(id, now.mono) {
                    effects.push(Effect::Notice(Notice::CommitFailed {
                        attempts,
                        reason,
                        retry_in,
                    }));
                }
            }
            StoreEvent::RefusalsDropped { count, reason } => {
                effects.push(Effect::Notice(Notice::RefusalsDropped { count, reason }));
            }
            StoreEvent::Fetched(fetched) => self.fetched(now, fetched, effects),
            StoreEvent::Checkpointed { of, error } => {
                match of {
                    Checkpointed::Windows => self.windows.written(error.is_none()),
                    Checkpointed::Dedupe => self.repeats.written(error.is_none()),
                }
                // The next commit may trim the entries that it covers.
                self.unsaved_since.get_or_insert(now.mono);
                if let Some(reason) = error {
                    effects.push(Effect::Notice(Notice::CheckpointFailed { of, reason }));
                }
            }
            StoreEvent::Measured(disk) => self.buffer.set_disk(disk),
            StoreEvent::Removed { id, disk } => {
                self.buffer.removed(id);
                self.buffer.set_disk(disk);
            }
        }
    }

    fn fetched(&mut self, now: &Now, mut fetched: Fetched, effects: &mut Vec<Effect>) {
        let (uplink, lane) = match fetched.purpose {
            Purpose::Replay => return self.replayed(now, fetched, effects),
            Purpose::Recall => return self.recalled(fetched, effects),
            Purpose::Totals => return self.totals_recalled(fetched, effects),
            Purpose::Forward(uplink, lane) => (uplink, lane),
        };
        if !self.vouching.renumberings.is_empty() {
            let entries = fetched.entries.iter_mut().map(|(_, entry)| entry);
            entries.for_each(|entry| self.vouching.renumberings.apply(entry));
        }
        let Some(uplink) = self.uplinks.get_mut(usize::from(uplink.0)) else { return };
        if uplink.forward.fetched(lane, &mut fetched) {
            for damage in fetched.damaged {
                self.write_off_damage(now, damage, effects);
            }
        }
    }

    fn go_on_stopping(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if !self.is_stopping {
            return;
        }
        let is_durable = !self.pending.is_outstanding();
        for at in (0..self.uplinks.len()).filter(|_| is_durable) {
            self.publish_last_frontiers(now, at, effects);
        }
        let word = is_durable.then(|| PublishBody::Status(self.link_status(now, false)));
        for uplink in &mut self.uplinks {
            uplink.go_on_stopping(word.clone(), now, effects);
        }
    }
}

/// The numbering to go on in.
fn epoch_after(
    meta: &Meta,
    broken: Option<String>,
    nonce: u32,
    effects: &mut Vec<Effect>,
) -> Epoch {
    let is_fresh = meta.epoch.number == 0;
    if !is_fresh && broken.is_none() {
        return meta.epoch;
    }
    let epoch = Epoch { number: meta.epoch.number + 1, nonce };
    let reason = broken.unwrap_or_else(|| "new data directory".to_owned());
    effects.push(Effect::Notice(Notice::EpochStarted { epoch, reason }));
    epoch
}
