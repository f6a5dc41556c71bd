//! One timebase of one window: its sources, its watermark, its panes.

use std::sync::Arc;

use super::keys::{Due, Key, Keys, Timer};
use super::sessions::Sessions;
use super::slices::Slices;
use super::sources::Sources;
use super::tell::{Plan, Teller};
use super::{Input, LateVerdict, Output, Timers};
use crate::core::id::SourceId;
use crate::core::reading::{Quality, Series};
use crate::core::time::{EventTime, IngestTime, TimebaseId};
use crate::core::window::aggregate::Sample;
use crate::core::window::assign::Assigner;
use crate::core::window::pane::{Panes, Taken};
use crate::core::window::result::LateReason;
use crate::core::window::spec::LatePolicy;
use crate::core::window::watermark::{Millis, span_ms};

/// See the module.
#[derive(Debug)]
pub(super) struct TimebaseLane {
    pub(super) timebase: TimebaseId,
    pub(super) assigner: Assigner,
    /// In ms; never goes back, whatever the sources say.
    pub(super) watermark: Option<i64>,
    /// The greatest event time over all sources, in ms.
    pub(super) stream_time: Option<Millis>,
    pub(super) sources: Sources,
    pub(super) keys: Keys,
    due: Due,
    /// Series without panes, about.
    empty: usize,
    /// Empty between calls; kept to reuse its allocation.
    timers: Vec<Timer>,
}

impl TimebaseLane {
    pub(super) fn new(plan: &Plan, timebase: TimebaseId) -> Self {
        Self {
            timebase,
            assigner: Assigner::new(&plan.spec.kind),
            watermark: None,
            stream_time: None,
            sources: Sources::new(plan.spec.bound),
            keys: Keys::default(),
            due: Due::default(),
            empty: 0,
            timers: Vec::new(),
        }
    }

    /// Judges a reading against the watermark from before it, then lets it move
    /// the watermark.
    pub(super) fn reading(&mut self, plan: &Plan, input: &Input, out: &mut Vec<Output>) {
        let taken = self.taken(plan, input);
        self.place(plan, &taken, &input.series, out);
        if !input.moves_watermark {
            return;
        }
        let at = Millis(taken.at);
        self.stream_time = self.stream_time.max(Some(at));
        let raised = match plan.spec.late_policy {
            LatePolicy::SideOutput => self.sources.observe(&input.source, at),
            LatePolicy::Grace => self.stream_time.map(|time| Millis(time.0 - 1)),
            LatePolicy::Adjust { out_of_order, .. } => self
                .stream_time
                .map(|time| Millis(time.0.saturating_sub(span_ms(out_of_order)) - 1)),
        };
        self.advance(plan, raised, out);
    }

    /// The reading as the panes get it; policy `adjust` moves its time.
    fn taken(&self, plan: &Plan, input: &Input) -> Taken {
        let at = match plan.spec.late_policy {
            LatePolicy::Adjust { late_arrival, out_of_order } => {
                let arrival = (input.ingest, span_ms(late_arrival));
                self.adjusted(input.sample.at, arrival, span_ms(out_of_order))
            }
            _ => input.sample.at,
        };
        Taken {
            sample: Sample { at, ..input.sample },
            at: Millis::floor(at).0,
            quality: input.quality,
            state: input.state,
            max_error: input.max_error,
            is_adjusted: at != input.sample.at,
            is_aggregated: plan.spec.include_bad || input.quality != Quality::Bad,
        }
    }

    /// First not older than arrival allows, then not behind the stream: the order
    /// of Azure Stream Analytics.
    fn adjusted(
        &self,
        at: EventTime,
        (ingest, late_arrival): (IngestTime, i64),
        out_of_order: i64,
    ) -> EventTime {
        let oldest = Millis::floor(ingest.as_event_time()).0.saturating_sub(late_arrival);
        let at = if Millis::floor(at).0 < oldest { Millis(oldest).event_time() } else { at };
        let Some(stream) = self.stream_time else { return at };
        let behind = stream.0.saturating_sub(out_of_order);
        if Millis::floor(at).0 < behind { Millis(behind).event_time() } else { at }
    }

    fn place(&mut self, plan: &Plan, taken: &Taken, series: &Arc<Series>, out: &mut Vec<Output>) {
        let bounds = self.assigner.slice(taken.at);
        let teller = Teller {
            plan,
            series,
            timebase: self.timebase,
            watermark: self.watermark,
            idle: self.sources.idle(),
        };
        let too_late = |window_end: Option<i64>| {
            Output::Late(LateVerdict {
                reason: LateReason::TooLate,
                watermark: self.watermark.map(|watermark| Millis(watermark).event_time()),
                window_end: window_end.map(|end| Millis(end).event_time()),
            })
        };
        if bounds.is_between() {
            let until = taken.at.saturating_add(plan.lateness);
            let is_late = self.watermark.is_some_and(|watermark| until <= watermark);
            out.push(if is_late { too_late(None) } else { Output::Between });
            return;
        }
        let is_session = matches!(self.assigner, Assigner::Session { .. });
        let is_gone = teller.is_gone(bounds.last_end);
        if is_gone && !is_session {
            out.push(too_late(Some(bounds.last_end)));
            return;
        }
        let id = self.keys.id(series, || Panes::empty(is_session));
        let key = self.keys.get_mut(id);
        self.empty = self.empty.saturating_sub(usize::from(key.panes.is_empty()));
        let timers = match (&mut key.panes, &self.assigner) {
            (Panes::Slices { slices, told }, assigner) => {
                Slices { slices, told, assigner }.take(&teller, bounds, taken, out)
            }
            (Panes::Sessions(sessions), _) => {
                let gap = bounds.last_end - bounds.start;
                let mut sessions = Sessions { sessions, gap };
                if is_gone && !sessions.has_neighbour(taken.at) {
                    self.empty += usize::from(key.panes.is_empty());
                    out.push(too_late(Some(bounds.last_end)));
                    return;
                }
                sessions.take(&teller, taken, out)
            }
        };
        self.due.fire_at(id, key, timers.fire);
        self.due.drop_at(id, key, timers.drop);
    }

    /// The watermark has come to `to`: fires and drops what is due, by window
    /// end, then by series. A lower one does nothing.
    pub(super) fn advance(&mut self, plan: &Plan, to: Option<Millis>, out: &mut Vec<Output>) {
        let Some(Millis(to)) = to.filter(|to| to.0 > i64::MIN) else { return };
        if self.watermark.is_some_and(|watermark| to <= watermark) {
            return;
        }
        self.watermark = Some(to);
        let fires = to.saturating_add(1);
        let drops = match to {
            i64::MAX => i64::MAX,
            _ => to.saturating_sub(plan.lateness).saturating_add(1),
        };
        let mut timers = std::mem::take(&mut self.timers);
        while let Some(end) = self.due.take(&mut self.keys, fires, drops, &mut timers) {
            for timer in &timers {
                let next = self.with_panes(plan, timer.id, |panes, teller| match panes {
                    Either::Slices(mut slices) => slices.due(teller, end, *timer, out),
                    Either::Sessions(mut sessions) => sessions.due(teller, end, *timer, out),
                });
                let key = self.keys.get_mut(timer.id);
                self.empty += usize::from(key.panes.is_empty());
                self.due.fire_at(timer.id, key, next.fire);
                self.due.drop_at(timer.id, key, next.drop);
            }
        }
        self.timers = timers;
        self.keys.sweep(&mut self.empty);
    }

    /// Fires open windows that have something to say. No watermark moves.
    pub(super) fn flush(&mut self, plan: &Plan, out: &mut Vec<Output>) {
        for (end, id) in self.open(plan) {
            self.with_panes(plan, id, |panes, teller| match panes {
                Either::Slices(mut slices) => slices.flush(teller, end, out),
                Either::Sessions(mut sessions) => sessions.flush(teller, end, out),
            });
        }
    }

    /// Fires and drops everything.
    pub(super) fn close(&mut self, plan: &Plan, out: &mut Vec<Output>) {
        for (end, id) in self.open(plan) {
            self.with_panes(plan, id, |panes, teller| match panes {
                Either::Slices(mut slices) => slices.close(teller, end, out),
                Either::Sessions(mut sessions) => sessions.close(teller, end, out),
            });
        }
    }

    /// Counts a repeat that was dropped before it came here.
    pub(super) fn duplicate(&mut self, series: &Arc<Series>, at: EventTime) {
        let at = Millis::floor(at).0;
        let bounds = self.assigner.slice(at);
        let Some(id) = self.keys.find(series) else { return };
        let content = match &mut self.keys.get_mut(id).panes {
            Panes::Slices { slices, .. } => slices.known_content(bounds.index),
            Panes::Sessions(sessions) => {
                let around = sessions.range_mut(..=at).next_back();
                around.filter(|(_, session)| at < session.end).map(|(_, found)| &mut found.content)
            }
        };
        if let Some(content) = content {
            content.tally.add_duplicate();
        }
    }

    /// All windows that are not dropped, by (end, series).
    fn open(&self, plan: &Plan) -> Vec<(i64, u32)> {
        let gone = self
            .watermark
            .map(|watermark| watermark.saturating_add(1).saturating_sub(plan.lateness));
        let mut open = Vec::new();
        for (id, key) in self.keys.iter() {
            let ends = match &key.panes {
                Panes::Slices { slices, .. } => self.assigner.all_ends(slices.bounds(), gone),
                Panes::Sessions(sessions) => sessions.values().map(|found| found.end).collect(),
            };
            open.extend(ends.into_iter().map(|end| (end, id)));
        }
        // Stable: the series are in order already.
        open.sort_by_key(|(end, _)| *end);
        open
    }

    fn with_panes<T>(
        &mut self,
        plan: &Plan,
        id: u32,
        act: impl FnOnce(Either<'_>, &Teller<'_>) -> T,
    ) -> T {
        let Key { series, panes, .. } = self.keys.get_mut(id);
        let teller = Teller {
            plan,
            series,
            timebase: self.timebase,
            watermark: self.watermark,
            idle: self.sources.idle(),
        };
        let panes = match panes {
            Panes::Slices { slices, told } => {
                Either::Slices(Slices { slices, told, assigner: &self.assigner })
            }
            Panes::Sessions(sessions) => Either::Sessions(Sessions { sessions, gap: 0 }),
        };
        act(panes, &teller)
    }

    /// Adds a series with its panes from a checkpoint.
    pub(super) fn restore_key(&mut self, plan: &Plan, series: &Arc<Series>, panes: Panes) {
        let complete = self.watermark.map(|watermark| watermark.saturating_add(1));
        let gone = complete.map(|complete| complete.saturating_sub(plan.lateness));
        let ends = |after: Option<i64>| match &panes {
            Panes::Slices { slices, .. } => self.assigner.first_end(slices.bounds(), after),
            Panes::Sessions(sessions) => {
                let ends = sessions.values().map(|session| session.end);
                ends.filter(|end| Some(*end) > after).min()
            }
        };
        let timers = Timers { fire: ends(complete), drop: ends(gone) };
        let id = self.keys.insert(series, panes);
        let key = self.keys.get_mut(id);
        self.due.fire_at(id, key, timers.fire);
        self.due.drop_at(id, key, timers.drop);
    }

    /// One or several sources are silent, found at one instant.
    pub(super) fn idle(&mut self, plan: &Plan, sources: &[SourceId], out: &mut Vec<Output>) {
        let raised = self.sources.mark_idle(sources);
        if plan.spec.late_policy == LatePolicy::SideOutput {
            self.advance(plan, raised, out);
        }
    }

    pub(super) fn timer_count(&self) -> usize {
        self.due.len()
    }
}

/// The panes of one series, ready to work on.
enum Either<'a> {
    Slices(Slices<'a>),
    Sessions(Sessions<'a>),
}
