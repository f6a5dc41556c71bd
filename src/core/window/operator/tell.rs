//! The rules of one window, and how a firing becomes a result.

use std::sync::Arc;

use super::{Firing, Output};
use crate::core::id::SourceId;
use crate::core::reading::Series;
use crate::core::time::TimebaseId;
use crate::core::window::pane::Content;
use crate::core::window::result::{Coverage, ResultStatus};
use crate::core::window::spec::{Kind, LatePolicy, WindowSpec};
use crate::core::window::watermark::{Millis, span_ms};

/// A window's specification, and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) spec: Arc<WindowSpec>,
    /// How long a window outlives its firing, in ms.
    pub(super) lateness: i64,
    expected_ms: Option<i64>,
}

impl Plan {
    pub(super) fn new(spec: Arc<WindowSpec>) -> Self {
        let lateness = match spec.late_policy {
            // With `adjust`, readings are moved so that none is late: nothing to wait for.
            LatePolicy::Adjust { .. } => 0,
            _ => span_ms(spec.allowed_lateness).max(0),
        };
        let expected_ms = spec.expected_interval.map(span_ms).filter(|ms| *ms > 0);
        Self { spec, lateness, expected_ms }
    }

    /// Readings expected in a window.
    fn expected(&self, start: i64, end: i64) -> Option<u64> {
        let interval = self.expected_ms?;
        let count = match self.spec.kind {
            // From the first reading to the last, both counted.
            Kind::Session { gap } => (end - start - span_ms(gap)) / interval + 1,
            _ => (end - start) / interval,
        };
        u64::try_from(count).ok()
    }
}

/// Why a firing happens, as far as its coverage says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    Usual,
    Flush,
    ClockStep,
}

/// A revision and what it is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wording {
    pub(super) revision: u32,
    pub(super) status: ResultStatus,
    pub(super) occasion: Occasion,
}

/// What a result says besides the content of its pane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Teller<'a> {
    pub(super) plan: &'a Plan,
    pub(super) series: &'a Arc<Series>,
    pub(super) timebase: TimebaseId,
    /// In ms.
    pub(super) watermark: Option<i64>,
    pub(super) idle: &'a [SourceId],
}

impl Teller<'_> {
    /// Whether the window of that end fires, or has.
    pub(super) fn is_complete(&self, end: i64) -> bool {
        self.watermark.is_some_and(|watermark| end - 1 <= watermark)
    }

    /// Whether the window of that end is dropped, or would have been.
    pub(super) fn is_gone(&self, end: i64) -> bool {
        let drop_at = (end - 1).saturating_add(self.plan.lateness);
        self.watermark.is_some_and(|watermark| drop_at <= watermark)
    }

    /// Whether the first firing is already final.
    pub(super) fn is_final_at_once(&self) -> bool {
        self.plan.spec.final_marker && self.plan.lateness == 0
    }

    /// Whether a last record of its own follows when the window is dropped.
    pub(super) fn has_final_record(&self) -> bool {
        self.plan.spec.final_marker && self.plan.lateness > 0
    }

    /// What the first firing and later ones are called.
    pub(super) fn status(&self) -> ResultStatus {
        if self.is_final_at_once() { ResultStatus::Final } else { ResultStatus::Provisional }
    }

    /// What the last firing is called when the pane closes with it.
    pub(super) fn closing_status(&self) -> ResultStatus {
        if self.plan.spec.final_marker { ResultStatus::Final } else { ResultStatus::Provisional }
    }

    pub(super) fn tell(
        &self,
        (start, end): (i64, i64),
        content: &Content,
        wording: Wording,
        out: &mut Vec<Output>,
    ) {
        let (from, to) = (Millis(start).event_time(), Millis(end).event_time());
        let (tally, odd) = (&content.tally, content.tally.odd());
        let coverage = Coverage {
            expected: self.plan.expected(start, end),
            received: tally.received,
            duplicates: odd.duplicates,
            bad: odd.bad,
            uncertain: odd.uncertain,
            adjusted: odd.adjusted,
            excluded_idle: self.idle.to_vec(),
            worst_clock: tally.worst_clock(),
            max_error: tally.max_error(),
            clock_step: wording.occasion == Occasion::ClockStep,
            flushed: wording.occasion == Occasion::Flush,
        };
        out.push(Output::Fired(Firing {
            series: Arc::clone(self.series),
            timebase: self.timebase,
            start: from,
            end: to,
            revision: wording.revision,
            status: wording.status,
            count: content.values.count(),
            values: content.values.values(&self.plan.spec.aggregates, Some((from, to))),
            watermark: self.watermark.map(|watermark| Millis(watermark).event_time()),
            coverage,
        }));
    }

    pub(super) fn cleared(&self, start: i64, end: i64, out: &mut Vec<Output>) {
        out.push(Output::Cleared {
            series: Arc::clone(self.series),
            timebase: self.timebase,
            start: Millis(start).event_time(),
            end: Millis(end).event_time(),
        });
    }
}
