//! Panes, firings, lateness, cleanup: one window over all series that it reads.
//!
//! The life of a pane, with `end` the first instant after its window, `W` the
//! watermark and `L` the allowed lateness:
//!
//! | | |
//! | --- | --- |
//! | `W < end − 1 ms` | readings accumulate, nothing is said |
//! | `W` reaches `end − 1 ms` | it fires: revision 1 |
//! | a late reading, `W < end − 1 ms + L` | it fires again: the next revision |
//! | `W` reaches `end − 1 ms + L` | it is dropped; the last revision once more, `final` |
//! | a reading for a dropped pane | late output |
//!
//! Lateness is judged on the window, not on the reading. A reading meets the
//! watermark from before it. What one watermark fires goes by window end, then by
//! series; what one late reading fires again goes by window end, the latest first.
//! All of this is Apache Flink 2.1.1 except the revision numbers, the final record
//! and the retraction of sessions that a larger one swallowed.
//!
//! Other late policies keep these rules under another watermark:
//!
//! - `grace`: one millisecond before the greatest event time over all sources.
//!   Kafka Streams closes a window when stream time reaches end + grace
//!   (`KStreamWindowAggregate`), which is the same condition. It knows no bound
//!   and no idle sources, so `bound` and `idle_after` do not count. It emits at
//!   every update, or once at the close; here the firings are those above.
//! - `adjust`: the greatest event time over all sources less the out of order
//!   tolerance, less one millisecond. A reading older than its arrival allows is
//!   moved to that limit, then one behind the stream is moved up to it, as Azure
//!   Stream Analytics does; none is ever late, so panes are dropped as they fire.
//!
//! Each timebase has a lane of its own: sources, watermark and panes. Readings
//! that devices stamped share lane 0.

mod keys;
mod lane;
mod sessions;
mod slices;
mod sources;
mod state;
mod tell;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::lane::TimebaseLane;
pub use self::state::{OperatorState, RestoreError};
use self::tell::Plan;
use super::aggregate::Sample;
use super::assign::windows;
use super::result::{Coverage, LateReason, Number, ResultStatus};
use super::spec::{Aggregate, LatePolicy, WindowSpec};
use super::watermark::Millis;
use crate::core::clock::ClockState;
use crate::core::id::SourceId;
use crate::core::reading::{Quality, Series};
use crate::core::time::{EventTime, IngestTime, MaxError, TimebaseId};

/// One reading for a window.
#[derive(Clone, Debug)]
pub struct Input {
    /// Where it came from.
    pub source: SourceId,
    /// What was measured.
    pub series: Arc<Series>,
    /// The event time and the value.
    pub sample: Sample,
    /// The device's word on the value.
    pub quality: Quality,
    /// The clock behind its event time.
    pub state: ClockState,
    /// The error bound of its event time.
    pub max_error: Option<MaxError>,
    /// The timebase of a reading that this gateway stamped; 0 for devices.
    pub timebase: TimebaseId,
    /// When it arrived; for policy `adjust`.
    pub ingest: IngestTime,
    /// Whether its event time is plausible enough to move the watermark.
    pub moves_watermark: bool,
}

/// What a window has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A result.
    Fired(Firing),
    /// A pane was dropped. For a session that another one swallowed this is not output.
    Cleared {
        /// Whose.
        series: Arc<Series>,
        /// In which lane.
        timebase: TimebaseId,
        /// First instant of the window.
        start: EventTime,
        /// First instant after it.
        end: EventTime,
    },
    /// The reading was too late for all of its windows.
    Late(LateVerdict),
    /// The reading lies between two windows (a slide greater than the size).
    Between,
}

/// A result, without what the agent adds: window, source, number, time.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// Whose readings.
    pub series: Arc<Series>,
    /// The timebase of the lane.
    pub timebase: TimebaseId,
    /// First instant of the window.
    pub start: EventTime,
    /// First instant after it.
    pub end: EventTime,
    /// Counts the firings of this window: 1, 2, 3 …
    pub revision: u32,
    /// Whether it can still change.
    pub status: ResultStatus,
    /// Readings aggregated.
    pub count: u64,
    /// What was asked for, in that order.
    pub values: Vec<(Aggregate, Option<Number>)>,
    /// The watermark that caused it, or under which it happened.
    pub watermark: Option<EventTime>,
    /// What the numbers rest on.
    pub coverage: Coverage,
}

/// Why and how a reading is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateVerdict {
    /// Why.
    pub reason: LateReason,
    /// The watermark that it was behind; `None` when its timebase is closed.
    pub watermark: Option<EventTime>,
    /// End of the last window that it would have belonged to, where there is one.
    pub window_end: Option<EventTime>,
}

/// When something of a series is due next: window ends, in ms.
#[derive(Clone, Copy, Debug, Default)]
struct Timers {
    fire: Option<i64>,
    drop: Option<i64>,
}

/// One window over all series that it reads.
#[derive(Debug)]
pub struct Operator {
    plan: Plan,
    /// By timebase.
    lanes: Vec<TimebaseLane>,
    /// Sources that are waited for in every lane until their first reading tells
    /// which lane is theirs.
    waiting: Vec<SourceId>,
    /// Timebases of this gateway's clock up to here are closed.
    closed: TimebaseId,
}

impl Operator {
    /// Before any reading. Sources that `spec` names are waited for until their
    /// first reading, or until they are said to be idle.
    pub fn new(spec: Arc<WindowSpec>) -> Operator {
        let mut operator = Operator {
            plan: Plan::new(Arc::clone(&spec)),
            lanes: Vec::new(),
            waiting: Vec::new(),
            closed: TimebaseId(0),
        };
        spec.sources.iter().for_each(|source| operator.expect_source(source));
        operator
    }

    /// What it was made from.
    pub fn spec(&self) -> &Arc<WindowSpec> {
        &self.plan.spec
    }

    /// Lets the watermark wait for a source that will give readings. For windows over all
    /// sources; those that the specification names are waited for anyway.
    pub fn expect_source(&mut self, source: &SourceId) {
        if let Err(place) = self.waiting.binary_search(source) {
            self.waiting.insert(place, source.clone());
            self.lanes.iter_mut().for_each(|lane| lane.sources.expect(source));
        }
    }

    /// The sources that a watermark waits for.
    pub fn waited_for(&self) -> BTreeSet<SourceId> {
        let known = self.lanes.iter().flat_map(|lane| lane.sources.waited_for());
        known.chain(&self.waiting).cloned().collect()
    }

    /// Takes a reading. It is judged against the watermark as it is, and then may move it.
    pub fn reading(&mut self, input: &Input, out: &mut Vec<Output>) {
        if input.timebase.0 != 0 && input.timebase <= self.closed {
            let ends = windows(&self.plan.spec.kind, input.sample.at);
            let window_end = ends.last().map(|(_, end)| *end);
            let reason = LateReason::TooLate;
            out.push(Output::Late(LateVerdict { reason, watermark: None, window_end }));
            return;
        }
        if input.moves_watermark && !self.waiting.is_empty() {
            self.found(&input.source, input.timebase, out);
        }
        let index = self.lane(input.timebase);
        self.lanes[index].reading(&self.plan, input, out);
    }

    /// A repeat of a reading was dropped before it came here: the coverage of its
    /// window says so from its next firing on.
    pub fn duplicate(&mut self, timebase: TimebaseId, series: &Arc<Series>, at: EventTime) {
        if let Ok(index) = self.lanes.binary_search_by_key(&timebase, |lane| lane.timebase) {
            self.lanes[index].duplicate(series, at);
        }
    }

    /// A source is silent: the watermark does not wait for it until it gives a
    /// reading again.
    pub fn source_idle(&mut self, source: &SourceId, out: &mut Vec<Output>) {
        self.sources_idle(std::slice::from_ref(source), out);
    }

    /// Sources that are found silent at one instant; if those are all, the watermark stays
    /// where it is. One after the other, the first would let the watermark jump to that of
    /// the others.
    pub fn sources_idle(&mut self, sources: &[SourceId], out: &mut Vec<Output>) {
        for lane in &mut self.lanes {
            lane.idle(&self.plan, sources, out);
        }
        self.waiting.retain(|waiting| !sources.contains(waiting));
    }

    /// A watermark from outside, for readings that devices stamped.
    pub fn watermark(&mut self, at: Millis, out: &mut Vec<Output>) {
        let index = self.lane(TimebaseId(0));
        self.lanes[index].advance(&self.plan, Some(at), out);
    }

    /// How far the event time of a timebase has come.
    pub fn watermark_of(&self, timebase: TimebaseId) -> Option<Millis> {
        let index = self.lanes.binary_search_by_key(&timebase, |lane| lane.timebase).ok()?;
        self.lanes[index].watermark.map(Millis)
    }

    /// The sources that hold the watermark of a timebase: it goes on as soon as all of them
    /// give later readings. None under the policies `grace` and `adjust`, which follow
    /// whichever source is ahead.
    pub fn held_by(&self, timebase: TimebaseId) -> Vec<SourceId> {
        if self.plan.spec.late_policy != LatePolicy::SideOutput {
            return Vec::new();
        }
        match self.lanes.binary_search_by_key(&timebase, |lane| lane.timebase) {
            Ok(index) => self.lanes[index].sources.holding().cloned().collect(),
            Err(_) => self.waiting.clone(),
        }
    }

    /// `idle_flush`: fires open windows provisionally, unless their latest firing had the
    /// same readings. No watermark moves.
    pub fn flush(&mut self, out: &mut Vec<Output>) {
        for lane in &mut self.lanes {
            lane.flush(&self.plan, out);
        }
    }

    /// The gateway's clock stepped back: what it stamped in the timebase `old` is
    /// fired and closed, and so is everything before; the next timebase starts
    /// without a watermark. Readings that devices stamped are not concerned.
    pub fn clock_step(&mut self, old: TimebaseId, out: &mut Vec<Output>) {
        self.closed = self.closed.max(old);
        let closed = self.closed;
        for lane in &mut self.lanes {
            if lane.timebase.0 != 0 && lane.timebase <= closed {
                lane.close(&self.plan, out);
            }
        }
        self.lanes.retain(|lane| lane.timebase.0 == 0 || lane.timebase > closed);
    }

    fn lane(&mut self, timebase: TimebaseId) -> usize {
        match self.lanes.binary_search_by_key(&timebase, |lane| lane.timebase) {
            Ok(index) => index,
            Err(index) => {
                let mut lane = TimebaseLane::new(&self.plan, timebase);
                self.waiting.iter().for_each(|source| lane.sources.expect(source));
                self.lanes.insert(index, lane);
                index
            }
        }
    }

    /// The first reading of a source that was waited for shows its lane: the other lanes
    /// need not wait for it any more.
    fn found(&mut self, source: &SourceId, timebase: TimebaseId, out: &mut Vec<Output>) {
        let Ok(place) = self.waiting.binary_search(source) else { return };
        self.lane(timebase);
        self.waiting.remove(place);
        for lane in self.lanes.iter_mut().filter(|lane| lane.timebase != timebase) {
            let raised = lane.sources.unexpect(source);
            lane.advance(&self.plan, raised, out);
        }
    }
}
