//! Metrics in OpenMetrics text, as Prometheus reads it. Names are the
//! contract's, all with the prefix `tidegate_`.
//!
//! What happens is counted as it happens; what stands in the agent's books is
//! taken from the newest report when the text is asked for. Counters that come
//! from the books survive a restart, the others begin at zero.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::clock::Clock;
use super::status::{Report, Uplink};
use super::stream::Tally;
use super::windows::Window;
use crate::core::clock::{ClockSource, ClockState};
use crate::core::id::UplinkId;
use crate::core::time::Span;
use crate::core::window::{LateReason, ResultStatus};

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A commit is one flush and one fdatasync: 1 ms on an SSD, seconds on a tired
/// SD card.
const COMMIT_SECONDS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0];
/// From loopback to a cellular link with a queue.
const PUBACK_SECONDS: [f64; 11] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// From the future (negative) to a logger that delivers once a day.
const LAG_SECONDS: [f64; 12] =
    [-60.0, -1.0, 0.0, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 600.0, 3_600.0, 86_400.0];

/// Everything that can discipline a clock.
const CLOCK_SOURCES: [ClockSource; 8] = [
    ClockSource::Gnss,
    ClockSource::Ptp,
    ClockSource::Ntp,
    ClockSource::Rtc,
    ClockSource::Manual,
    ClockSource::FreeRunning,
    ClockSource::Saved,
    ClockSource::Unknown,
];

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter<u64, AtomicU64>>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type LagHistograms = Family<Labels, Histogram, fn() -> Histogram>;

/// Every metric of the agent. Shared: counting takes `&self`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    uplinks: Vec<String>,
    accepted: Counters,
    acknowledged: Counters,
    evicted: Counters,
    quarantined: Counters,
    duplicates: Counters,
    within_deadband: Counters,
    implausible: Counters,
    reconnects: Counters,
    written_bytes: Counters,
    disk_written_bytes: Counters,
    journal_bytes: Gauges,
    journal_readings: Gauges,
    journal_oldest_age: Gauges,
    journal_capacity: Gauges,
    journal_depth: Gauges,
    journal_room: Gauges,
    uplink_connected: Gauges,
    uplink_inflight: Gauges,
    uplink_backlog: Gauges,
    uplink_drain_eta: Gauges,
    clock: ClockMetrics,
    windows: WindowMetrics,
    ordered: OrderedMetrics,
    commit_seconds: Histogram,
    puback_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    event_lag: LagHistograms,
}

impl Metrics {
    /// All metrics at zero, for an agent with uplinks of those names.
    pub fn new(uplinks: Vec<String>) -> Self {
        let mut registry = Registry::with_prefix("tidegate");
        let r = &mut registry;
        Self {
            accepted: add(r, "readings_accepted", "Readings accepted, durably"),
            acknowledged: add(r, "readings_acknowledged", "Readings the broker acknowledged"),
            evicted: add(r, "readings_evicted", "Readings that a gap record stands for"),
            quarantined: add(r, "readings_quarantined", "Inputs that became no readings"),
            duplicates: add(r, "readings_duplicate", "Repeats dropped at their source"),
            within_deadband: add(r, "readings_deadband", "Readings that moved too little"),
            implausible: add(r, "future_rejected", "Event times flagged as future or past"),
            reconnects: add(r, "uplink_reconnects", "Connections after the first"),
            written_bytes: add(
                r,
                "journal_written_bytes",
                "Bytes handed to the journal's engine; the disk sees more",
            ),
            disk_written_bytes: add(
                r,
                "disk_written_bytes",
                "Bytes the process has written to disk, by the kernel; absent where it is silent",
            ),
            journal_bytes: add(r, "journal_bytes", "Bytes the data directory takes"),
            journal_readings: add(r, "journal_readings", "Readings not yet acknowledged"),
            journal_oldest_age: add(r, "journal_oldest_age_seconds", "Age of the oldest of them"),
            journal_capacity: add(r, "journal_capacity_bytes", "Bytes it may take as things are"),
            journal_depth: add(r, "journal_depth_seconds", "How long they took to come in"),
            journal_room: add(r, "journal_room_seconds", "How long the room left would last"),
            uplink_connected: add(r, "uplink_connected", "1 while connected"),
            uplink_inflight: add(r, "uplink_inflight", "Publishes without PUBACK"),
            uplink_backlog: add(r, "uplink_backlog_readings", "Readings that wait to be sent"),
            uplink_drain_eta: add(
                r,
                "uplink_drain_eta_seconds",
                "Time until the backlog is gone; absent while it does not shrink",
            ),
            clock: ClockMetrics::new(r),
            windows: WindowMetrics::new(r),
            ordered: OrderedMetrics::new(r),
            commit_seconds: register(
                r,
                "commit_seconds",
                "From asking for a commit to its durability",
                Histogram::new(COMMIT_SECONDS),
            ),
            puback_seconds: register(
                r,
                "uplink_puback_seconds",
                "From publish to PUBACK",
                Family::new_with_constructor(|| Histogram::new(PUBACK_SECONDS)),
            ),
            event_lag: register(
                r,
                "event_lag_seconds",
                "Ingest minus event time: the least and the greatest of each batch",
                Family::new_with_constructor(|| Histogram::new(LAG_SECONDS)),
            ),
            registry,
            uplinks,
        }
    }

    /// A commit became durable.
    pub fn committed(&self, took: Span) {
        self.commit_seconds.observe(took.as_secs_f64());
    }

    /// A PUBACK came on an uplink.
    pub fn acknowledged(&self, uplink: UplinkId, took: Span) {
        self.puback_seconds.get_or_create(&self.label_of(uplink)).observe(took.as_secs_f64());
    }

    /// An uplink came up again after an outage.
    pub fn reconnected(&self, uplink: UplinkId) {
        self.reconnects.get_or_create(&self.label_of(uplink)).inc();
    }

    /// A gap record stands for `count` readings of `source`.
    pub fn evicted(&self, source: &str, reason: &str, count: u64) {
        self.evicted.get_or_create(&source_reason(source, reason)).inc_by(count);
    }

    /// `count` inputs of `source` went to the quarantine.
    pub fn quarantined(&self, source: &str, reason: &str, count: u64) {
        self.quarantined.get_or_create(&source_reason(source, reason)).inc_by(count);
    }

    /// `count` stamps of `source` were flagged.
    pub fn implausible(&self, source: &str, count: u64) {
        self.implausible.get_or_create(&source_label(source)).inc_by(count);
    }

    /// A batch of `source` came in with lags from `min` to `max`.
    pub fn lag(&self, source: &str, min: Span, max: Span, count: u64) {
        let histogram = self.event_lag.get_or_create(&source_label(source));
        histogram.observe(min.as_secs_f64());
        if count > 1 {
            histogram.observe(max.as_secs_f64());
        }
    }

    /// Everything, with the books as `report` has them, and the results of each
    /// window as `tallies` counts them.
    pub fn text(&self, report: &Report, tallies: &BTreeMap<String, Tally>) -> String {
        self.take_over(report);
        self.windows.take_over(report, tallies);
        self.ordered.take_over(report);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn take_over(&self, report: &Report) {
        let none = Labels::new();
        for source in &report.sources {
            store(&self.accepted, &source_label(&source.name), source.accepted);
            if !source.name.starts_with("window:") {
                let label = source_label(&source.name);
                store(&self.duplicates, &label, source.duplicates);
                store(&self.within_deadband, &label, source.within_deadband);
            }
        }
        store(&self.written_bytes, &none, report.journal.written_bytes);
        if let Some(written) = report.journal.disk_written_bytes {
            store(&self.disk_written_bytes, &none, written);
        }
        set(&self.journal_bytes, &none, Some(report.journal.bytes as f64));
        set(&self.journal_readings, &none, Some(report.journal.readings as f64));
        set(&self.journal_oldest_age, &none, Some(report.journal.oldest_age_s.unwrap_or(0.0)));
        for uplink in &report.uplinks {
            self.take_over_uplink(uplink);
        }
        set(&self.journal_capacity, &none, Some(report.journal.capacity_bytes as f64));
        set(&self.journal_depth, &none, report.journal.depth_s);
        set(&self.journal_room, &none, report.journal.room_s);
        self.clock.take_over(&report.clock);
    }

    fn take_over_uplink(&self, uplink: &Uplink) {
        let label = uplink_label(&uplink.name);
        let is_up = uplink.state == "up";
        store(&self.acknowledged, &label, uplink.acknowledged);
        set(&self.uplink_connected, &label, Some(f64::from(u8::from(is_up))));
        set(&self.uplink_inflight, &label, Some(uplink.inflight as f64));
        set(&self.uplink_backlog, &label, Some(uplink.backlog as f64));
        set(&self.uplink_drain_eta, &label, uplink.drain_eta_s);
    }

    fn label_of(&self, uplink: UplinkId) -> Labels {
        uplink_label(self.uplinks.get(usize::from(uplink.0)).map_or("", String::as_str))
    }
}

/// What is measured of the clock.
#[derive(Debug)]
struct ClockMetrics {
    state: Gauges,
    max_error: Gauges,
    source: Gauges,
    steps: Counters,
    open: Gauges,
    corrections: Gauges,
    retimed: Counters,
}

impl ClockMetrics {
    fn new(r: &mut Registry) -> Self {
        Self {
            state: add(
                r,
                "clock_state",
                "By how far it is trusted: 0 unsynchronized, 1 stepped, 2 holdover, 3 synchronized",
            ),
            max_error: add(
                r,
                "clock_max_error_seconds",
                "Bound on the clock's error; absent while nothing bounds it",
            ),
            source: add(r, "clock_source", "1 for what disciplines the clock now"),
            steps: add(r, "clock_steps", "Steps of the wall clock"),
            open: add(
                r,
                "clock_open_readings",
                "Readings in the journal that may still get a better time",
            ),
            corrections: add(
                r,
                "clock_corrections_waiting",
                "Corrections that the broker does not have yet",
            ),
            retimed: add(
                r,
                "readings_retimed",
                "Readings sent with a corrected time, or with nothing but bounds",
            ),
        }
    }

    fn take_over(&self, clock: &Clock) {
        let none = Labels::new();
        let label = |name, word: &str| vec![(name, word.to_owned())];
        set(&self.state, &none, Some(clock_number(&clock.state)));
        set(&self.max_error, &none, clock.max_error_us.map(|us| us as f64 / 1e6));
        // One source at a time: the others are absent.
        for word in CLOCK_SOURCES.map(ClockSource::as_str) {
            let is_it = (word == clock.source).then_some(1.0);
            set(&self.source, &label("source", word), is_it);
        }
        store(&self.steps, &label("direction", "forward"), clock.steps.forward);
        store(&self.steps, &label("direction", "back"), clock.steps.back);
        set(&self.open, &none, Some(clock.open_readings as f64));
        set(&self.corrections, &none, Some(clock.corrections_waiting as f64));
        store(&self.retimed, &label("origin", "restamped"), clock.restamped);
        store(&self.retimed, &label("origin", "bounded"), clock.bounded);
    }
}

/// What is measured of the windows on site.
#[derive(Debug)]
struct WindowMetrics {
    watermark_lag: Gauges,
    source_idle: Gauges,
    results: Counters,
    state_bytes: Gauges,
    late: Counters,
    duplicates: Counters,
}

impl WindowMetrics {
    fn new(r: &mut Registry) -> Self {
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

    fn take_over(&self, report: &Report, tallies: &BTreeMap<String, Tally>) {
        for window in &report.windows {
            let label = vec![("window", window.name.clone())];
            let with = |name, word: &str| [label.clone(), vec![(name, word.to_owned())]].concat();
            set(&self.watermark_lag, &label, window.watermark_lag_s);
            set(&self.state_bytes, &label, Some(window.state_bytes as f64));
            self.idle(window, report);
            let tally = tallies.get(&window.name).copied().unwrap_or_default();
            let results = [
                (ResultStatus::Provisional, tally.provisional),
                (ResultStatus::Final, tally.finals),
                (ResultStatus::Retracted, tally.retracted),
            ];
            for (status, count) in results {
                store(&self.results, &with("status", status.as_str()), count);
            }
            store(&self.late, &with("class", "refined"), tally.refined);
            store(&self.late, &with("class", LateReason::TooLate.as_str()), tally.too_late);
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
struct OrderedMetrics {
    watermark_lag: Gauges,
    held: Gauges,
    readings: Counters,
}

impl OrderedMetrics {
    fn new(r: &mut Registry) -> Self {
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

    fn take_over(&self, report: &Report) {
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

fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    register(registry, name, help, M::default())
}

fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// A counter whose truth is kept in the agent's books.
fn store(counters: &Counters, labels: &Labels, value: u64) {
    counters.get_or_create(labels).inner().store(value, Ordering::Relaxed);
}

/// Unknown is absent, not zero.
fn set(gauges: &Gauges, labels: &Labels, value: Option<f64>) {
    match value {
        Some(value) => {
            gauges.get_or_create(labels).set(value);
        }
        None => {
            gauges.remove(labels);
        }
    }
}

fn uplink_label(name: &str) -> Labels {
    vec![("uplink", name.to_owned())]
}

fn source_label(source: &str) -> Labels {
    vec![("source", source.to_owned())]
}

fn source_reason(source: &str, reason: &str) -> Labels {
    vec![("source", source.to_owned()), ("reason", reason.to_owned())]
}

fn clock_number(state: &str) -> f64 {
    let order = [
        ClockState::Unsynchronized,
        ClockState::Stepped,
        ClockState::Holdover,
        ClockState::Synchronized,
    ];
    order.iter().position(|known| known.as_str() == state).unwrap_or(0) as f64
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
pub(in crate::http) mod tests;
