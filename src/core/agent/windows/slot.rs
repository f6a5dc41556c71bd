//! One window: which readings it takes, which sources it waits for, which clock it
//! follows.

use super::*;
use crate::core::reading::Stamp;
use crate::core::time::TimebaseId;
use crate::core::window::operator::Input as Given;
use crate::core::window::{Millis, aggregate, entry, glob};

/// Series whose match is remembered, for each window.
const MATCHES_MAX: usize = 16 * 1024;

/// One window.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) spec: Arc<WindowSpec>,
    /// `window:NAME`.
    pub(super) source: SourceId,
    pub(super) operator: Operator,
    pub(super) matches: BTreeMap<usize, (Arc<Series>, bool)>,
    /// Its sources, and when each was last heard.
    pub(super) heard: BTreeMap<SourceId, Heard>,
    pub(super) last_heard: MonoTime,
    pub(super) is_flushed: bool,
    pub(super) clock: Option<GatewayClock>,
    /// What a replay computed and has not found in the journal yet.
    pub(super) expected: VecDeque<Expected>,
    pub(super) counts: Counts,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) at: MonoTime,
    pub(super) is_idle: bool,
    /// Whether it is not configured any more; then it is not waited for.
    has_left: bool,
}

impl Heard {
    fn now(at: MonoTime) -> Self {
        Self { at, is_idle: false, has_left: false }
    }

    /// When it becomes idle; `None` when it is already.
    pub(super) fn idle_at(&self, idle_after: Span) -> Option<MonoTime> {
        let at = if self.has_left { self.at } else { self.at + idle_after };
        (!self.is_idle).then_some(at)
    }
}

/// The gateway's clock, as its stamps in the journal show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatewayClock {
    pub(super) stamped: TimebaseId,
    pub(super) wall_less_up_ns: i64,
    /// The timebase that results carry: a new one only after a step back.
    pub(super) told: TimebaseId,
}

impl Slot {
    pub(super) fn open(
        spec: &Arc<WindowSpec>,
        state: Option<WindowState>,
        settings: &Settings,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) -> Self {
        let clock = state.as_ref().and_then(|state| state.clock);
        let restored = state.map(|state| Operator::restore(Arc::clone(spec), state.operator));
        let is_new = !matches!(restored, Some(Ok(_)));
        let operator = match restored {
            Some(Ok(operator)) => operator,
            Some(Err(error)) => {
                let (window, reason) = (Some(Arc::clone(&spec.name)), error.to_string());
                effects.push(Effect::Notice(Notice::WindowsRestarted { window, reason }));
                Operator::new(Arc::clone(spec))
            }
            None => Operator::new(Arc::clone(spec)),
        };
        let named = spec.sources.iter().cloned();
        let all = settings.sources.keys().filter(|_| spec.sources.is_empty()).cloned();
        let fresh = Heard::now(now.mono);
        let mut slot = Self {
            source: SourceId::of_window(&spec.name),
            spec: Arc::clone(spec),
            operator,
            matches: BTreeMap::new(),
            heard: named.chain(all).map(|source| (source, fresh)).collect(),
            last_heard: now.mono,
            is_flushed: false,
            clock: clock.map(|(stamped, wall_less_up_ns, told)| GatewayClock {
                stamped: TimebaseId(stamped),
                wall_less_up_ns,
                told: TimebaseId(told),
            }),
            expected: VecDeque::new(),
            counts: Counts::default(),
        };
        // A window that goes on from a checkpoint knows which sources it waits for; those
        // that have left since are marked, so that it does not.
        for source in slot.heard.keys().filter(|_| is_new) {
            slot.operator.expect_source(source);
        }
        for source in slot.operator.waited_for() {
            slot.heard.entry(source).or_insert(Heard { has_left: true, ..fresh });
        }
        slot
    }

    pub(super) fn takes(&mut self, source: &SourceId, series: &Arc<Series>) -> bool {
        // Not by the sources that are configured now: a replay under another configuration
        // must come to the same results.
        if !self.spec.sources.is_empty() && !self.spec.sources.contains(source) {
            return false;
        }
        let key = Arc::as_ptr(series) as usize;
        if let Some((_, is_match)) = self.matches.get(&key) {
            return *is_match;
        }
        if self.matches.len() >= MATCHES_MAX {
            self.matches.clear();
        }
        let is_match = glob::matches(&self.spec.entity, &series.entity)
            && glob::matches(&self.spec.property, &series.property);
        self.matches.insert(key, (Arc::clone(series), is_match));
        is_match
    }

    /// Takes over the sources of a new configuration. A new one is not waited for before
    /// its first reading.
    pub(super) fn change_sources(
        &mut self,
        sources: &BTreeMap<SourceId, SourceSettings>,
        now: MonoTime,
    ) {
        for (source, heard) in &mut self.heard {
            let is_back = heard.has_left && sources.contains_key(source);
            heard.has_left = !sources.contains_key(source);
            if is_back {
                heard.at = now;
            }
        }
        if self.spec.sources.is_empty() {
            for source in sources.keys() {
                self.heard.entry(source.clone()).or_insert(Heard::now(now));
            }
        }
    }

    /// Notes that a reading came which moves watermarks.
    pub(super) fn hear(&mut self, source: &SourceId, now: MonoTime) {
        match self.heard.get_mut(source) {
            Some(heard) => (heard.at, heard.is_idle) = (now, false),
            None => {
                self.heard.insert(source.clone(), Heard::now(now));
            }
        }
    }

    /// Configured sources that are not waited for.
    pub(super) fn idle_sources(&self) -> impl Iterator<Item = &SourceId> {
        let idle = self.heard.iter().filter(|(_, heard)| heard.is_idle && !heard.has_left);
        idle.map(|(source, _)| source)
    }

    /// The source that has been silent longest, for longer than the bound, and is still
    /// waited for; and for how long it will be.
    pub(super) fn waits_for(&self, now: MonoTime) -> Option<(SourceId, Span)> {
        let waited_for = self.heard.iter().filter(|(_, heard)| !heard.is_idle && !heard.has_left);
        let (source, heard) = waited_for.min_by_key(|(_, heard)| heard.at)?;
        let left = (heard.at + self.spec.idle_after).since(now);
        (now.since(heard.at) > self.spec.bound).then(|| (source.clone(), left))
    }

    /// The later of two watermarks: that of readings stamped by devices, and that of
    /// readings stamped by this gateway in its present timebase.
    pub(super) fn watermark(&self) -> Option<EventTime> {
        self.operator.watermark_of(self.foremost()).map(Millis::event_time)
    }

    /// The timebase whose watermark is told: that of the later one.
    fn foremost(&self) -> TimebaseId {
        let devices = TimebaseId(0);
        let gateway = self.clock.map_or(devices, |clock| clock.told);
        [devices, gateway]
            .into_iter()
            .max_by_key(|lane| self.operator.watermark_of(*lane))
            .unwrap_or(devices)
    }

    /// Sources that hold the watermark where it is.
    pub(super) fn held_by(&self) -> Vec<SourceId> {
        self.operator.held_by(self.foremost())
    }

    /// How far the watermark may be behind the wall clock while all is well: a source may be
    /// silent for `idle_after`, and readings come in disorder.
    pub(super) fn patience(&self) -> Span {
        match self.spec.late_policy {
            LatePolicy::SideOutput => self.spec.bound + self.spec.idle_after,
            LatePolicy::Grace => self.spec.idle_after,
            LatePolicy::Adjust { out_of_order, .. } => out_of_order + self.spec.idle_after,
        }
    }

    pub(super) fn next_deadline(&self) -> Option<MonoTime> {
        let idle =
            self.heard.values().filter_map(|heard| heard.idle_at(self.spec.idle_after)).min();
        let flush =
            self.spec.idle_flush.filter(|_| !self.is_flushed && self.operator.pane_count() > 0);
        idle.into_iter().chain(flush.map(|after| self.last_heard + after)).min()
    }

    /// The timebase of a gateway-stamped reading. A step back by more than the
    /// bound begins a new one: what was open is closed first.
    fn timebase(&mut self, stamp: &Stamp, out: &mut Vec<Output>) -> TimebaseId {
        let wall_less_up_ns = stamp.ingest_time.unix_ns().wrapping_sub(stamp.uptime.ns() as i64);
        let fresh = GatewayClock { stamped: stamp.timebase, wall_less_up_ns, told: stamp.timebase };
        let Some(known) = self.clock.replace(fresh) else { return fresh.told };
        let back_ns = known.wall_less_up_ns.saturating_sub(wall_less_up_ns);
        let is_stepped_back = stamp.timebase != known.stamped && back_ns > self.spec.bound.ns();
        if is_stepped_back {
            self.operator.clock_step(known.told, out);
        } else {
            self.clock = Some(GatewayClock { told: known.told, ..fresh });
        }
        self.clock.map_or(fresh.told, |clock| clock.told)
    }

    pub(super) fn give(&mut self, record: &Record, moves_watermark: bool, out: &mut Vec<Output>) {
        let stamp = &record.stamp;
        let timebase = match stamp.origin {
            Origin::Device | Origin::DeviceCorrected => TimebaseId(0),
            // A time that was found out later belongs to the present timebase.
            Origin::Restamped | Origin::Bounded => {
                self.clock.map_or(stamp.timebase, |clock| clock.told)
            }
            _ => self.timebase(stamp, out),
        };
        let Some(value) = entry::number(&record.value) else { return };
        let given = Given {
            source: record.source.clone(),
            series: Arc::clone(&record.series),
            sample: aggregate::Sample { at: stamp.event_time, seq: record.seq, value },
            quality: record.quality,
            state: stamp.state,
            max_error: stamp.max_error,
            timebase,
            ingest: stamp.ingest_time,
            moves_watermark,
        };
        self.operator.reading(&given, out);
    }
}
