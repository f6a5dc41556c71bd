//! What is measured on site: windows, and readings in order.

use std::collections::BTreeMap;

use prometheus_client::registry::Registry;

use super::{Counters, Gauges, add, set, store};
use crate::core::window::{LateReason, ResultStatus};
use crate::http::status::Report;
use crate::http::windows::{ResultCounts, Window};

/// What is measured of the windows on site.
#[derive(Debug)]
pub(super) struct WindowMetrics {
    watermark_lag: Gauges,
    source_idle: Gauges,
    results: Counters,
    state_bytes: Gauges,
    late: Counters,
    duplicates: Counters,
}

impl WindowMetrics {
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            watermark_lag: add(
                r,
                "watermark_lag_seconds",
                "The wall clock less the watermark; absent before there is one",
            ),
            source_idle: add(r, "source_idle", "1 for a source that a window does not wait for"),
            results: add(r, "window_results", "Results, durably: revisions and final markers too"),
            state_bytes: add(r, "window_state_bytes", "What a window keeps in memory, about"),
            late: add(
                r,
                "late",
                "refined: results that revise an earlier one; too_late: readings whose windows \
                 were gone",
            ),
            duplicates: add(
                r,
                "duplicates_dropped",
                "Repeats that a window would have taken, dropped at their source",
            ),
        }
    }

    pub(super) fn take_over(&self, report: &Report, counts: &BTreeMap<String, ResultCounts>) {
        for window in &report.windows {
            let label = vec![("window", window.name.clone())];
            let with = |name, word: &str| [label.clone(), vec![(name, word.to_owned())]].concat();
            set(&self.watermark_lag, &label, window.watermark_lag_s);
            set(&self.state_bytes, &label, Some(window.state_bytes as f64));
            self.idle(window, report);
            let of_window = counts.get(&window.name).copied().unwrap_or_default();
            let results = [
                (ResultStatus::Provisional, of_window.provisional),
                (ResultStatus::Final, of_window.finals),
                (ResultStatus::Retracted, of_window.retracted),
            ];
            for (status, count) in results {
                store(&self.results, &with("status", status.as_str()), count);
            }
            store(&self.late, &with("class", "refined"), of_window.refined);
            store(&self.late, &with("class", LateReason::TooLate.as_str()), of_window.too_late);
            store(&self.duplicates, &label, window.duplicates);
        }
    }

    /// One that has come back was heard, so that the books have it: the metric of
    /// a source that is waited for is absent.
    fn idle(&self, window: &Window, report: &Report) {
        let label =
            |source: &String| vec![("window", window.name.clone()), ("source", source.clone())];
        for source in report.sources.iter().map(|source| &source.name) {
            set(&self.source_idle, &label(source), None);
        }
        for source in &window.idle_sources {
            set(&self.source_idle, &label(source), Some(1.0));
        }
    }
}

/// What is measured of ordered readings.
#[derive(Debug)]
pub(super) struct OrderedMetrics {
    watermark_lag: Gauges,
    held: Gauges,
    readings: Counters,
}

impl OrderedMetrics {
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            watermark_lag: add(
                r,
                "ordered_watermark_lag_seconds",
                "The wall clock less the watermark of an output's readings",
            ),
            held: add(r, "ordered_held_readings", "Readings held until the watermark passes them"),
            readings: add(r, "ordered_readings", "Readings let out: in_order, early or late"),
        }
    }

    pub(super) fn take_over(&self, report: &Report) {
        for one in &report.ordered {
            let label = vec![("output", one.output.clone())];
            set(&self.watermark_lag, &label, one.watermark_lag_s);
            set(&self.held, &label, Some(one.held as f64));
            let places = [("in_order", one.in_order), ("early", one.early), ("late", one.late)];
            for (place, count) in places {
                let label = [label.clone(), vec![("place", place.to_owned())]].concat();
                store(&self.readings, &label, count);
            }
        }
    }
}
