//! Readings in: stamped, numbered, gathered, committed, receipted.

use super::repeats::Came;
use super::values::Shaped;
use super::*;
use crate::core::clock::seal;
use crate::core::clock::{ClockSource, ClockState};
use crate::core::id::BootId;
use crate::core::id::CommitId;
use crate::core::reading::{Arrival, Flags, Origin, Reading, Record, Refusal, Stamp};
use crate::core::seam::{Batch, Checkpointed, UplinkMeta};
use crate::core::stamp::{self, Verdict, old_news};
use crate::core::time::{EventTime, TimebaseId};
use std::sync::Arc;

/// What a batch brought, for its notices.
#[derive(Default)]
struct BatchCounts {
    implausible: u64,
    lag: Option<(Span, Span)>,
    count: u64,
    duplicates: u64,
    held_back: u64,
}

impl Agent {
    pub(super) fn take_in(&mut self, now: &Now, batch: Batch, effects: &mut Vec<Effect>) {
        let is_full = self.admission() == Admission::Refuse;
        if is_full || !self.positions.lets_in(&batch) {
            return self.turn_away(batch, effects);
        }
        let Batch { source, arrival, readings, refused, advance, receipt } = batch;
        let settings = self.source_settings(&source);
        let (clock, clock_flags) = self.clock.reading_at(&arrival, now);
        let mut counts = BatchCounts::default();
        let mut refusals = refused;
        let mut source_clock = self.source_clocks.remove(&source).unwrap_or_default();
        let came = Came { settings: &settings, clock: &clock, arrival: &arrival };
        for mut reading in readings {
            if self.is_repeat(&source, &reading, &came, &source_clock) {
                counts.duplicates += 1;
                self.windows.missed_repeat(&source, &reading.series);
                continue;
            }
            let stamped = if reading.flags.has(Flags::RETAINED) {
                old_news::stamp(&settings, &clock, &arrival, &mut reading)
            } else {
                let device_time = reading.device_time;
                stamp::stamp(&settings, &clock, &arrival, device_time, &mut source_clock)
            };
            if let Some(delta) = stamped.device_step {
                let source = source.clone();
                effects.push(Effect::Notice(Notice::DeviceClockStep { source, delta }));
            }
            match stamped.verdict {
                Verdict::Stamp(mut stamp) => {
                    if !is_by_device(&stamp) {
                        stamp.flags = stamp.flags.with(clock_flags);
                    }
                    let parts = (&mut reading, &mut stamp);
                    match self.values.shape(&settings, &source, parts) {
                        Shaped::Kept => {
                            self.number(now, &source, (reading, stamp), &mut counts, effects);
                        }
                        Shaped::HeldBack => counts.held_back += 1,
                        Shaped::Refused(why) => {
                            let why = (why.kind(), why.reason().to_owned());
                            refusals.push(refusal(&source, &arrival, reading, why));
                        }
                    }
                }
                Verdict::Quarantine { flags: _, reason } => {
                    refusals.push(refusal(&source, &arrival, reading, ("time", reason)));
                }
            }
        }
        self.source_clocks.insert(source.clone(), source_clock);
        self.books.account(&source).duplicates += counts.duplicates;
        self.note(&source, now.mono, &counts, effects);
        self.quarantine(now, &source, refusals, effects);
        if let Some(advance) = advance {
            self.positions.advance(&source, advance.to);
        }
        // A batch of repeats too waits for the next commit: what they repeat may be in it,
        // or in the one under way.
        if let Some(receipt) = receipt {
            self.pending.owe(receipt, now.mono);
        }
    }

    fn turn_away(&mut self, batch: Batch, effects: &mut Vec<Effect>) {
        // A source with a saved position loses nothing by a refusal: it sends again.
        let count = if batch.advance.is_some() { 0 } else { batch.readings.len() as u64 };
        self.books.account(&batch.source).refused_full += count;
        self.refused_since_full += count;
        if let Some(receipt) = batch.receipt {
            effects.push(Effect::Receipt(receipt, Outcome::Full));
        }
    }

    pub(super) fn source_settings(&self, source: &SourceId) -> SourceSettings {
        self.settings.sources.get(source).cloned().unwrap_or(SourceSettings::DEFAULT)
    }

    fn number(
        &mut self,
        now: &Now,
        source: &SourceId,
        (reading, stamp): (Reading, Stamp),
        counts: &mut BatchCounts,
        effects: &mut Vec<Effect>,
    ) {
        let lag = stamp.ingest_time.lag_behind(stamp.event_time);
        counts.count += 1;
        counts.lag = Some(counts.lag.map_or((lag, lag), |(min, max)| (min.min(lag), max.max(lag))));
        if let Some(event_time) = moves_frontier(&stamp) {
            self.books.saw_event(source, event_time);
        }
        self.lateness.saw(source, &stamp);
        if !stamp.flags.is_plausible() {
            counts.implausible += 1;
        }
        let (epoch, seq) = (self.books.epoch(), self.books.accept(source));
        let record = Record { epoch, seq, ..release::record(source, reading, stamp) };
        self.remember(&record, effects);
        self.journal_reading(now, record);
    }

    /// Puts a numbered reading into the next commit and gives it to the windows, so
    /// that their results follow it in the journal.
    pub(super) fn journal_reading(&mut self, now: &Now, record: Record) {
        let is_open = seal::is_open(&record.stamp);
        let for_windows = (!self.windows.is_empty()).then(|| record.clone());
        let offset = self.pending.push(Entry::Reading(record), now.mono);
        if is_open {
            self.timing.opened(offset);
        }
        if let Some(record) = for_windows {
            self.give_to_windows(now, &record);
        }
    }

    fn note(
        &mut self,
        source: &SourceId,
        now: MonoTime,
        counts: &BatchCounts,
        effects: &mut Vec<Effect>,
    ) {
        if counts.held_back > 0 {
            let account = self.books.account(source);
            account.held_back += counts.held_back;
            account.last_reading = Some(now);
        }
        let Some((min, max)) = counts.lag else { return };
        self.windows.measured();
        self.accept_rate.add(now, counts.count);
        let account = self.books.account(source);
        account.last_reading = Some(now);
        account.implausible += counts.implausible;
        let (source, count) = (source.clone(), counts.count);
        if counts.implausible > 0 {
            let count = counts.implausible;
            effects.push(Effect::Notice(Notice::ImplausibleTime { source: source.clone(), count }));
        }
        effects.push(Effect::Notice(Notice::Lag { source, min, max, count }));
    }

    pub(super) fn quarantine(
        &mut self,
        now: &Now,
        source: &SourceId,
        refusals: Vec<Refusal>,
        effects: &mut Vec<Effect>,
    ) {
        let mut kinds: BTreeMap<&'static str, (String, u64)> = BTreeMap::new();
        self.books.account(source).quarantined += refusals.len() as u64;
        for refusal in refusals {
            kinds.entry(refusal.kind).or_insert_with(|| (refusal.reason.clone(), 0)).1 += 1;
            self.pending.refuse(refusal, now.mono);
        }
        for (kind, (reason, count)) in kinds {
            let source = source.clone();
            effects.push(Effect::Notice(Notice::Quarantined { source, kind, reason, count }));
        }
    }

    pub(super) fn commit_if_due(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if let Some(commit) = self.pending.retry(now.mono) {
            self.windows.renumbered(commit.id);
            self.vouching.renumbered(commit.id);
            self.repeats.renumbered(commit.id);
            return effects.push(Effect::Commit(commit));
        }
        if self.pending.is_outstanding() || !self.is_commit_due(now.mono) {
            return;
        }
        let meta = self.meta(now);
        self.unsaved_since = None;
        let commit = self.pending.commit(meta, now.mono);
        self.vouching.committing(commit.id);
        self.windows.stage(commit.id, self.pending.next(), &self.lateness, now.mono);
        self.repeats.stage(commit.id, self.pending.next(), now.mono);
        effects.push(Effect::Commit(commit));
    }

    fn is_commit_due(&self, now: MonoTime) -> bool {
        let has_waited =
            |since: Option<MonoTime>, bound: Span| since.is_some_and(|since| since + bound <= now);
        let has_something = !self.pending.is_empty() || self.unsaved_since.is_some();
        let is_stopping = self.is_stopping && has_something;
        is_stopping
            || self.vouching.is_commit_due()
            || self.timing.is_commit_due()
            || self.windows.is_checkpoint_due(now)
            || self.repeats.is_checkpoint_due(self.pending.next(), now)
            || self.pending.bytes() >= self.settings.commit_bytes
            || self.pending.is_full()
            || has_waited(self.pending.since(), self.settings.commit_interval)
            || has_waited(self.unsaved_since, META_INTERVAL)
    }

    fn meta(&mut self, now: &Now) -> Meta {
        let done = self.done_everywhere();
        let frontier = Offset(done.frontier());
        let is_short = self.admission() != Admission::Open;
        let kept_from = frontier.min(self.windows.covered(is_short)).min(self.repeats.covered());
        self.start = self.start.max(self.buffer.trim_to(kept_from));
        let mut meta = Meta {
            start: self.start,
            frontier,
            done: offsets(&done),
            gaps: self.gaps.iter().map(|(offset, gap)| (*offset, gap.clone())).collect(),
            ..Meta::default()
        };
        self.time_commit(now, &mut meta);
        self.windows.retimed.insert(0, frontier.0);
        meta.retimed = all_offsets(&self.windows.retimed);
        let is_live = |source: &SourceId, epoch| self.buffer.holds(source, epoch);
        self.books.forget_refusals(&self.gaps, frontier);
        self.books.fill(&mut meta, is_live);
        meta.positions = self.positions.stored();
        let own = self.uplinks.iter().enumerate().filter_map(|(at, uplink)| {
            let (handed, refused) = self.books.way(at, is_live)?;
            let done = uplink.forward.done();
            let (frontier, done) = (Offset(done.frontier()), offsets(done));
            Some((uplink.name(), UplinkMeta { frontier, done, handed, refused: Some(refused) }))
        });
        meta.uplinks = own.collect();
        for (source, books) in &mut meta.sources {
            books.vouched = self.vouching.vouched(source, books.tail);
        }
        self.vouching.renumberings.forget_below(self.start);
        meta.renumberings = self.vouching.renumberings.clone();
        meta.totals = self.values.saved(self.start, self.pending.next());
        meta
    }

    pub(super) fn became_durable(&mut self, now: &Now, id: CommitId, effects: &mut Vec<Effect>) {
        let Some(done) = self.pending.committed(id, now.mono) else { return };
        let entries = &done.commit.entries;
        assert_eq!(done.commit.first, self.durable, "commits follow each other without a hole");
        self.durable = done.commit.first.plus(entries.len() as u64);
        self.books.committed(&done.commit.meta);
        self.timing.committed(&done.commit.meta);
        self.vouching.committed(id);
        // Unlike the uplinks, outputs on site get entries under the names in the journal.
        self.show(done.commit.first, entries, effects);
        if let Some(checkpoint) = self.windows.committed(id) {
            let bytes = Arc::new(checkpoint.encode());
            effects.push(Effect::Checkpoint(Checkpointed::Windows, bytes));
        }
        self.write_dedupe(id, effects);
        let stamps = entries.iter().filter_map(|entry| Some(&entry.reading()?.stamp));
        let plausible = stamps.filter(|stamp| stamp.flags.is_plausible());
        let floor = EventTime::from_unix_ns(self.settings.clock.floor_ns);
        let event_times = plausible.map(|stamp| stamp.event_time).filter(|at| *at >= floor);
        if let Some(earliest) = event_times.min() {
            self.ages.grew(self.durable.0, earliest);
        }
        self.ages.done_below(self.frontier_offset().0);
        let entries = &*self.renamed(entries);
        for uplink in self.uplinks.iter_mut().filter(|uplink| uplink.connection.is_up()) {
            uplink.forward.offer(done.commit.first, entries);
        }
        for receipt in done.receipts {
            effects.push(Effect::Receipt(receipt, Outcome::Durable));
        }
        for segment in self.buffer.started_at(done.commit.meta.start) {
            effects.push(Effect::Remove(segment));
        }
        if done.attempts > 0 {
            effects.push(Effect::Notice(Notice::StoreHealed { attempts: done.attempts }));
        }
        let entries = entries.len() as u64;
        effects.push(Effect::Notice(Notice::Committed { entries, took: done.took }));
    }
}

/// All ranges of a set, the one up to its frontier first.
fn all_offsets(set: &RangeSet) -> Vec<(Offset, Offset)> {
    let whole = (set.frontier() > 0).then_some((Offset(0), Offset(set.frontier())));
    whole.into_iter().chain(offsets(set)).collect()
}

/// The ranges of a set that lie above its frontier.
fn offsets(set: &RangeSet) -> Vec<(Offset, Offset)> {
    set.ranges().map(|(first, end)| (Offset(first), Offset(end))).collect()
}

fn is_by_device(stamp: &Stamp) -> bool {
    matches!(stamp.origin, Origin::Device | Origin::DeviceCorrected)
}

/// The event time that the delivery frontier may advance to by this stamp. A clock that
/// is not synchronized, an implausible device time and a retained message advance
/// nothing, and no stamp advances it beyond the reading's arrival.
fn moves_frontier(stamp: &Stamp) -> Option<EventTime> {
    let is_plausible = !is_by_device(stamp) || stamp.flags.is_plausible();
    let is_news = !stamp.flags.has(Flags::RETAINED);
    let is_known = stamp.state.is_trusted() && is_plausible && is_news;
    is_known.then(|| stamp.event_time.min(stamp.ingest_time.as_event_time()))
}

/// The refusal of a reading by its source's rules: `kind` and `reason` are why, in a word
/// and in a sentence. It was not stamped, so the stamp has only what the device claimed.
fn refusal(
    source: &SourceId,
    arrival: &Arrival,
    reading: Reading,
    (kind, reason): (&'static str, String),
) -> Refusal {
    let claimed = reading.device_time;
    let stamp = Stamp {
        event_time: claimed.map_or(arrival.ingest.as_event_time(), |device| device.at),
        ingest_time: arrival.ingest,
        uptime: arrival.uptime,
        boot: BootId::default(),
        origin: Origin::Device,
        clock: ClockSource::Unknown,
        state: ClockState::Unsynchronized,
        max_error: None,
        timebase: TimebaseId::default(),
        first_event_time: None,
        utc_offset_s: claimed.and_then(|device| device.utc_offset_s),
        flags: claimed.map_or(Flags::NONE, |device| device.flags),
    };
    let record = release::record(source, reading, stamp);
    Refusal {
        source: source.clone(),
        at: arrival.ingest,
        kind,
        reason,
        length: record.weight() as u64,
        content: Vec::new(),
        reading: Some(Box::new(record)),
    }
}
