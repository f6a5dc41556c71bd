//! Repeats from readers: a reading that a source sends again is known by its
//! name and gets no second sequence number.
//!
//! A reader that lost its connection sends again what it has no receipt for, and
//! cannot know what of that is durable already. The name of a reading within its
//! source is its series and either the reader's own id or the event time that the
//! device gave ([`By`]). A reading without such a name is never a repeat.
//!
//! Only a 128-bit hash of a name is kept (SipHash-2-4 with a fixed key). With a million
//! names known, the chance that a new reading is wrongly taken for one of them and dropped
//! is less than 1 in 10³². The hash is stored: it must never change.
//!
//! # How long
//!
//! Names are forgotten after the `horizon`. Forgetting too early lets a repeat
//! through; too late drops a new reading of a reader that counts from 1 again. So
//! age must not depend on a wall clock that jumps. `Elapsed` counts it by
//! arrivals: by uptime within a boot, and from one boot to the next by the wall
//! clock where it could be trusted on both sides. Where it could not, the time
//! between counts as nothing: names live longer, never shorter. Every numbered
//! reading stands in the journal with its arrival, so the memory can be rebuilt
//! from it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use siphasher::sip128::{Hasher128, SipHasher24};

use super::clock::ClockReading;
use super::id::{BootId, Offset, SourceId};
use super::limits::SOURCES_MAX;
use super::reading::{Arrival, Record, Series, Stamp};
use super::settings::SourceSettings;
use super::time::{EventTime, IngestTime, Span, Uptime};

mod stored;

pub use stored::Unreadable;

/// `[source.dedupe]`: what is a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What names a reading within its series.
    pub by: By,
    /// How long a name is known.
    pub horizon: Span,
    /// Names that are known at once, at least 1: beyond, the oldest are forgotten
    /// early. Each takes 50 to 90 bytes of memory.
    pub entries_max: usize,
}

/// What names a reading within its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The reader's own id.
    Id,
    /// The event time as the device gave it, before any correction. An implausible
    /// one names nothing: a clock that was never set says the same again and again.
    /// A local time is the instant that its source's zone makes of it; in the
    /// repeated hour of a change of clocks that may differ from one arrival to the
    /// next.
    EventTime,
}

/// A name as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name([u64; 2]);

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // It is a hash: any part of it will do.
        state.write_u64(self.0[0]);
    }
}

impl Name {
    fn of(series: &Series, by: By, text: &[u8]) -> Self {
        let mut hasher = SipHasher24::new();
        let kind = match by {
            By::Id => 0,
            By::EventTime => 1,
        };
        hasher.write(&[kind]);
        for part in [series.entity.as_bytes(), series.property.as_bytes(), text] {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        let (first, second) = hasher.finish128().as_u64();
        Self([first, second])
    }
}

impl Rule {
    /// The name of a reading with this id and this device time; `None` when it
    /// has none.
    pub fn name(
        &self,
        series: &Series,
        id: Option<&str>,
        device_time: Option<EventTime>,
    ) -> Option<Name> {
        match self.by {
            By::Id => id.map(|id| Name::of(series, self.by, id.as_bytes())),
            By::EventTime => {
                device_time.map(|at| Name::of(series, self.by, &at.unix_ns().to_le_bytes()))
            }
        }
    }

    fn name_of(&self, record: &Record) -> Option<Name> {
        let stamp = &record.stamp;
        let device_time = stamp.device_time().filter(|_| stamp.flags.is_plausible());
        self.name(&record.series, record.id.as_deref(), device_time)
    }
}

/// When something came, by the clocks that age is counted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    boot: BootId,
    uptime: Uptime,
    /// The wall clock, where it could be trusted.
    wall: Option<IngestTime>,
}

impl Moment {
    /// The arrival of a batch, with the clock as it was then.
    pub fn of_arrival(arrival: &Arrival, clock: &ClockReading) -> Self {
        let wall = clock.state.is_trusted().then_some(arrival.ingest);
        Self { boot: clock.boot, uptime: arrival.uptime, wall }
    }

    fn of_stamp(stamp: &Stamp) -> Self {
        let wall = stamp.state.is_trusted().then_some(stamp.ingest_time);
        Self { boot: stamp.boot, uptime: stamp.uptime, wall }
    }
}

/// The least time that has passed, over several boots, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Elapsed {
    ns: u64,
    last: Option<(BootId, Uptime)>,
    /// The last moment with a trusted wall clock, and the elapsed time then.
    trusted: Option<(BootId, IngestTime, u64)>,
}

impl Elapsed {
    /// Goes on to `moment`. Returns the time that the gateway was off, in nanoseconds, where
    /// a trusted wall clock shows it: what passed since it was last trusted and was not
    /// counted by uptime.
    fn advance(&mut self, moment: &Moment) -> u64 {
        let by_uptime = match self.last {
            Some((boot, uptime)) if boot == moment.boot => moment.uptime.since_ns(uptime),
            _ => 0,
        };
        let by_uptime = self.ns.saturating_add(by_uptime);
        let by_wall = match (self.trusted, moment.wall) {
            (Some((boot, before, ns)), Some(wall)) if boot != moment.boot => {
                let passed_ns = wall.lag_behind(before.as_event_time()).ns();
                ns.saturating_add(u64::try_from(passed_ns).unwrap_or(0))
            }
            _ => 0,
        };
        self.ns = by_uptime.max(by_wall);
        self.last = match self.last {
            // Arrivals of two connections may cross.
            Some((boot, uptime)) if boot == moment.boot => Some((boot, uptime.max(moment.uptime))),
            _ => Some((moment.boot, moment.uptime)),
        };
        if let Some(wall) = moment.wall {
            self.trusted = Some((moment.boot, wall, self.ns));
        }
        self.ns - by_uptime
    }

    fn is_trusted_in(&self, boot: BootId) -> bool {
        self.trusted.is_some_and(|(trusted, ..)| trusted == boot)
    }
}

/// A hasher that passes its input on: names are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// What is known of one source.
#[derive(Clone, Debug)]
struct Memory {
    rule: Rule,
    elapsed: Elapsed,
    /// For lookup only; never iterated, because hash order is not deterministic.
    known: HashSet<Name, BuildHasherDefault<AsItIs>>,
    /// The same names with the elapsed time at which they came, oldest first.
    order: VecDeque<(Name, u64)>,
    /// How many of the newest names came in boots whose wall clock was not trusted. Once
    /// it is, it shows how long the gateway was off before them: their time of arrival is
    /// then moved on by that.
    after_trusted: usize,
    /// Names forgotten within the horizon, for want of room.
    forgotten: u64,
}

impl Memory {
    fn new(rule: Rule) -> Self {
        Self {
            rule,
            elapsed: Elapsed::default(),
            known: HashSet::default(),
            order: VecDeque::new(),
            after_trusted: 0,
            forgotten: 0,
        }
    }

    /// The same names under another rule.
    fn under(mut self, rule: Rule) -> Self {
        self.rule = rule;
        while self.order.len() > rule.entries_max {
            self.forget_oldest();
        }
        self
    }

    fn forget_oldest(&mut self) {
        if let Some((name, _)) = self.order.pop_front() {
            self.known.remove(&name);
        }
        self.after_trusted = self.after_trusted.min(self.order.len());
    }

    /// Lets time go on to `moment` and forgets names older than the horizon.
    fn come_to(&mut self, moment: &Moment) {
        let off_ns = self.elapsed.advance(moment);
        if off_ns > 0 {
            for (_, at) in self.order.iter_mut().rev().take(self.after_trusted) {
                *at = at.saturating_add(off_ns);
            }
        }
        if self.elapsed.is_trusted_in(moment.boot) {
            self.after_trusted = 0;
        }
        let now_ns = self.elapsed.ns;
        let horizon_ns = u64::try_from(self.rule.horizon.ns()).unwrap_or(0);
        while self.order.front().is_some_and(|(_, at)| now_ns.saturating_sub(*at) > horizon_ns) {
            self.forget_oldest();
        }
    }

    fn learn(&mut self, name: Name, moment: &Moment) -> Learned {
        self.come_to(moment);
        if self.known.insert(name) {
            self.order.push_back((name, self.elapsed.ns));
            self.after_trusted += usize::from(!self.elapsed.is_trusted_in(moment.boot));
        }
        if self.order.len() <= self.rule.entries_max {
            return Learned::Name;
        }
        self.forget_oldest();
        self.forgotten += 1;
        if self.forgotten == 1 { Learned::FirstInPlaceOfAnother } else { Learned::Name }
    }
}

/// What became of a reading that was to be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Its source has no rule, or the reading no name.
    Nothing,
    /// Its name is known.
    Name,
    /// The same, and for the first time since this process started a name had to be
    /// forgotten before its horizon, for want of room.
    FirstInPlaceOfAnother,
}

/// What there is to report of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Names known now.
    pub names: u64,
    /// Names forgotten within the horizon since this process started, because
    /// `entries_max` was reached: their repeats pass.
    pub forgotten: u64,
}

/// The memory of all sources that have a rule.
#[derive(Clone, Debug, Default)]
pub struct Dedupe {
    memories: BTreeMap<SourceId, Memory>,
}

impl Dedupe {
    /// Empty, with the rules of a configuration.
    pub fn new(sources: &BTreeMap<SourceId, SourceSettings>) -> Self {
        let ruled = sources
            .iter()
            .filter_map(|(source, settings)| Some((source.clone(), Memory::new(settings.dedupe?))));
        Self { memories: ruled.collect() }
    }

    /// Takes over the sources and rules of a new configuration. The memory of a source
    /// stays if its rule uses the same kind of name. That of a source that has left stays
    /// too while there is room: it may come back.
    pub fn set_rules(&mut self, sources: &BTreeMap<SourceId, SourceSettings>) {
        for (source, settings) in sources {
            let known = self.memories.remove(source);
            let Some(rule) = settings.dedupe else { continue };
            let memory = match known {
                Some(memory) if memory.rule.by == rule.by => memory.under(rule),
                _ => Memory::new(rule),
            };
            self.memories.insert(source.clone(), memory);
        }
        let mut surplus = self.memories.len().saturating_sub(SOURCES_MAX);
        self.memories.retain(|source, _| {
            let is_surplus = surplus > 0 && !sources.contains_key(source);
            surplus -= usize::from(is_surplus);
            !is_surplus
        });
    }

    /// Whether no source has a rule.
    pub fn is_empty(&self) -> bool {
        self.memories.is_empty()
    }

    /// Whether a reading of that name was numbered within the horizon.
    pub fn knows(&mut self, source: &SourceId, name: Name, moment: &Moment) -> bool {
        let Some(memory) = self.memories.get_mut(source) else { return false };
        memory.come_to(moment);
        memory.known.contains(&name)
    }

    /// Remembers a reading that was numbered.
    pub fn learn(&mut self, record: &Record) -> Learned {
        let Some(memory) = self.memories.get_mut(&record.source) else { return Learned::Nothing };
        let Some(name) = memory.rule.name_of(record) else { return Learned::Nothing };
        memory.learn(name, &Moment::of_stamp(&record.stamp))
    }

    /// What there is to report of a source; `None` where it has no rule.
    pub fn known(&self, source: &SourceId) -> Option<Known> {
        let memory = self.memories.get(source)?;
        Some(Known { names: memory.order.len() as u64, forgotten: memory.forgotten })
    }

    /// The rebuilding is over: names forgotten meanwhile are not counted.
    pub fn rebuilt(&mut self) {
        for memory in self.memories.values_mut() {
            memory.forgotten = 0;
        }
    }

    /// The memory as bytes; `through` is the end of the journal that it was built from.
    pub fn encode(&self, through: Offset) -> Vec<u8> {
        stored::encode(&self.memories, through)
    }

    /// Takes over what [`Dedupe::encode`] gave, and returns up to where in the journal that
    /// is. A source without a rule, or with another kind of name than then, starts empty.
    ///
    /// # Errors
    /// The bytes are of another version or damaged.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<Offset, Unreadable> {
        stored::restore(bytes, &mut self.memories)
    }
}

#[cfg(test)]
#[path = "dedupe_tests.rs"]
mod tests;
