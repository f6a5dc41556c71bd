//! What is measured of the sources. Results of windows are numbered like readings
//! of a source `window:NAME`; of those only what was accepted and evicted is shown.

use prometheus_client::registry::Registry;

use super::{Counters, Gauges, Labels, add, set, source_label, source_reason, store};
use crate::core::id::is_window;
use crate::core::reading::GapReason;
use crate::http::status::{Report, Source};

/// Why readings are evicted, as gap records have it.
const GAP_REASONS: [GapReason; 3] =
    [GapReason::Evicted, GapReason::Corrupt, GapReason::RefusedByBroker];

/// What is measured of the sources.
#[derive(Debug)]
pub(super) struct SourceMetrics {
    accepted: Counters,
    pub(super) evicted: Counters,
    pub(super) quarantined: Counters,
    duplicates: Counters,
    within_deadband: Counters,
    pub(super) implausible: Counters,
    refused_full: Counters,
    up: Gauges,
    errors: Counters,
    missed_polls: Counters,
    last_reading_age: Gauges,
}

impl SourceMetrics {
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            accepted: add(r, "readings_accepted", "Readings accepted, durably"),
            evicted: add(r, "readings_evicted", "Readings that a gap record stands for"),
            quarantined: add(r, "readings_quarantined", "Inputs that became no readings"),
            duplicates: add(r, "readings_duplicate", "Repeats dropped at their source"),
            within_deadband: add(r, "readings_deadband", "Readings that moved too little"),
            implausible: add(r, "future_rejected", "Event times flagged as future or past"),
            refused_full: add(
                r,
                "readings_refused_full",
                "Readings refused at the door while the buffer was full",
            ),
            up: add(
                r,
                "source_up",
                "1 while a source reaches all that it reads; 0 while it is starting, degraded, \
                 down or stopped",
            ),
            errors: add(r, "source_errors", "Errors of a source"),
            missed_polls: add(
                r,
                "source_missed_polls",
                "Polls left out because the one before them was not done",
            ),
            last_reading_age: add(
                r,
                "source_last_reading_age_seconds",
                "Time since the last reading; absent before the first",
            ),
        }
    }

    pub(super) fn take_over(&self, report: &Report) {
        for source in &report.sources {
            let label = source_label(&source.name);
            store(&self.accepted, &label, source.accepted);
            if !is_window(&source.name) {
                self.take_over_source(source, &label);
            }
        }
    }

    fn take_over_source(&self, source: &Source, label: &Labels) {
        store(&self.duplicates, label, source.duplicates);
        store(&self.within_deadband, label, source.within_deadband);
        store(&self.refused_full, label, source.refused_full);
        set(&self.last_reading_age, label, source.last_reading_age_s);
        // Nothing yet is zero: a counter that begins at one has lost the one.
        let _ = self.implausible.get_or_create(label);
        for reason in GAP_REASONS {
            let _ = self.evicted.get_or_create(&source_reason(&source.name, reason.as_str()));
        }
        let health = source.health.as_ref();
        let is_up = health.map(|health| f64::from(u8::from(health.state == "up")));
        set(&self.up, label, is_up);
        if let Some(health) = health {
            store(&self.errors, label, health.errors);
            store(&self.missed_polls, label, health.missed_polls);
        }
    }
}
