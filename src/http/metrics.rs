//! Metrics as Prometheus reads them: OpenMetrics where the reader asks for it, else
//! the older text format. Names are the contract's, all with the prefix `tidegate_`.
//!
//! What happens is counted as it happens; what stands in the agent's books is
//! taken from the newest report when the text is asked for. Counters that come
//! from the books survive a restart, the others begin at zero.
//!
//! There is a series per source, uplink, window and output of the configuration
//! (each bounded in [`limits`](crate::core::limits)), and nothing that comes with a reading is ever a
//! label.

mod clock;
mod journal;
mod plain;
mod sources;
mod windows;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use self::clock::ClockMetrics;
use self::journal::JournalMetrics;
use self::sources::SourceMetrics;
use self::windows::{OrderedMetrics, WindowMetrics};
use super::status::{Report, Uplink};
use super::windows::ResultCounts;
use crate::core::id::UplinkId;
use crate::core::time::Span;

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

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter<u64, AtomicU64>>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type LagHistograms = Family<Labels, Histogram, fn() -> Histogram>;

/// Every metric of the agent. Shared: counting takes `&self`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    names: Vec<String>,
    sources: SourceMetrics,
    journal: JournalMetrics,
    uplinks: UplinkMetrics,
    clock: ClockMetrics,
    windows: WindowMetrics,
    ordered: OrderedMetrics,
    commit_seconds: Histogram,
    puback_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    event_lag: LagHistograms,
    wrong_tokens: Counter<u64, AtomicU64>,
}

impl Metrics {
    /// All metrics at zero, for an agent with uplinks of those names.
    pub fn new(uplinks: Vec<String>) -> Self {
        let mut registry = Registry::with_prefix("tidegate");
        let r = &mut registry;
        let metrics = Self {
            sources: SourceMetrics::new(r),
            journal: JournalMetrics::new(r),
            uplinks: UplinkMetrics::new(r),
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
            wrong_tokens: register(
                r,
                "http_wrong_tokens",
                "Requests that bore another token than that of http.token_file",
                Counter::default(),
            ),
            registry,
            names: uplinks,
        };
        for label in metrics.names.iter().map(|name| uplink_label(name)) {
            let _ = metrics.uplinks.reconnects.get_or_create(&label);
            let _ = metrics.puback_seconds.get_or_create(&label);
        }
        metrics
    }

    /// A commit became durable.
    pub fn committed(&self, took: Span) {
        self.commit_seconds.observe(took.as_secs_f64());
    }

    /// A PUBACK came on an uplink.
    pub fn acknowledged(&self, uplink: UplinkId, took: Span) {
        self.puback_seconds.get_or_create(&self.label_of(uplink)).observe(took.as_secs_f64());
    }

    /// A request bore a wrong token.
    pub fn wrong_token(&self) {
        self.wrong_tokens.inc();
    }

    /// An uplink came up again after an outage.
    pub fn reconnected(&self, uplink: UplinkId) {
        self.uplinks.reconnects.get_or_create(&self.label_of(uplink)).inc();
    }

    /// A gap record stands for `count` readings of `source`.
    pub fn evicted(&self, source: &str, reason: &str, count: u64) {
        self.sources.evicted.get_or_create(&source_reason(source, reason)).inc_by(count);
    }

    /// `count` inputs of `source` went to the quarantine.
    pub fn quarantined(&self, source: &str, reason: &str, count: u64) {
        self.sources.quarantined.get_or_create(&source_reason(source, reason)).inc_by(count);
    }

    /// `count` stamps of `source` were flagged.
    pub fn implausible(&self, source: &str, count: u64) {
        self.sources.implausible.get_or_create(&source_label(source)).inc_by(count);
    }

    /// A batch of `source` came in with lags from `min` to `max`.
    pub fn lag(&self, source: &str, min: Span, max: Span, count: u64) {
        let histogram = self.event_lag.get_or_create(&source_label(source));
        histogram.observe(min.as_secs_f64());
        if count > 1 {
            histogram.observe(max.as_secs_f64());
        }
    }

    /// Everything as OpenMetrics text, with the books as `report` has them, and the
    /// results of each window as `counts` counts them.
    pub fn text(&self, report: &Report, counts: &BTreeMap<String, ResultCounts>) -> String {
        self.sources.take_over(report);
        self.journal.take_over(report);
        for uplink in &report.uplinks {
            self.uplinks.take_over(uplink);
        }
        self.clock.take_over(&report.clock);
        self.windows.take_over(report, counts);
        self.ordered.take_over(report);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// The same for a reader that takes what `accept` says, with its content type:
    /// OpenMetrics where it is asked for, else the older text format.
    pub fn text_for(
        &self,
        accept: &str,
        report: &Report,
        counts: &BTreeMap<String, ResultCounts>,
    ) -> (&'static str, String) {
        let text = self.text(report, counts);
        if accept.contains("application/openmetrics-text") {
            (CONTENT_TYPE, text)
        } else {
            (plain::CONTENT_TYPE, plain::plain(&text))
        }
    }

    fn label_of(&self, uplink: UplinkId) -> Labels {
        uplink_label(self.names.get(usize::from(uplink.0)).map_or("", String::as_str))
    }
}

/// What is measured of the uplinks.
#[derive(Debug)]
struct UplinkMetrics {
    acknowledged: Counters,
    reconnects: Counters,
    connected: Gauges,
    inflight: Gauges,
    backlog: Gauges,
    drain_eta: Gauges,
    held_sources: Gauges,
}

impl UplinkMetrics {
    fn new(r: &mut Registry) -> Self {
        Self {
            acknowledged: add(r, "readings_acknowledged", "Readings the broker acknowledged"),
            reconnects: add(r, "uplink_reconnects", "Connections after the first"),
            connected: add(r, "uplink_connected", "1 while connected"),
            inflight: add(r, "uplink_inflight", "Publishes without PUBACK"),
            backlog: add(r, "uplink_backlog_readings", "Readings that wait to be sent"),
            drain_eta: add(
                r,
                "uplink_drain_eta_seconds",
                "Time until the backlog is gone; absent while it does not shrink",
            ),
            held_sources: add(
                r,
                "uplink_held_sources",
                "Sources whose readings the broker refuses",
            ),
        }
    }

    fn take_over(&self, uplink: &Uplink) {
        let label = uplink_label(&uplink.name);
        let is_up = uplink.state == "up";
        store(&self.acknowledged, &label, uplink.acknowledged);
        set(&self.connected, &label, Some(f64::from(u8::from(is_up))));
        set(&self.inflight, &label, Some(uplink.inflight as f64));
        set(&self.backlog, &label, Some(uplink.backlog as f64));
        set(&self.drain_eta, &label, uplink.drain_eta_s);
        set(&self.held_sources, &label, Some(uplink.held.len() as f64));
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

#[cfg(test)]
#[path = "metrics_tests.rs"]
pub(in crate::http) mod tests;
