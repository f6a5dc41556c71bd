//! What a configuration asks for.

use std::sync::Arc;

use crate::core::id::SourceId;
use crate::core::time::Span;
use crate::core::zone::Zone;

/// One window: which readings, which stretches of event time, what is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSpec {
    /// Its name; results come from the source `window:NAME`.
    pub name: Arc<str>,
    /// Version of the contract with its consumers; part of a result's identity.
    pub version: u32,
    /// The sources it reads; empty: all.
    pub sources: Vec<SourceId>,
    /// Which entities, as a glob (`*` and `?`).
    pub entity: String,
    /// Which properties, as a glob.
    pub property: String,
    /// The stretches of event time.
    pub kind: Kind,
    /// How far out of order readings may come.
    pub bound: Span,
    /// How long a source may be silent before it is left out of the watermark.
    pub idle_after: Span,
    /// How long after its end a window still takes late readings.
    pub allowed_lateness: Span,
    /// What becomes of readings behind the watermark.
    pub late_policy: LatePolicy,
    /// What is computed, in the order of the configuration.
    pub aggregates: Vec<Aggregate>,
    /// Between two readings of a series, where it is regular: for coverage.
    pub expected_interval: Option<Span>,
    /// How long all sources may be silent before the open windows fire once,
    /// provisionally; no watermark moves.
    pub idle_flush: Option<Span>,
    /// Whether a last record follows when a window's state is dropped.
    pub final_marker: bool,
    /// Whether readings of bad quality are aggregated (else only counted).
    pub include_bad: bool,
    /// Whether results also go up.
    pub upstream: bool,
}

/// The stretches of event time, all half-open: `[start, end)`. Boundaries are
/// whole milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// One after the other.
    Tumbling {
        /// Their length; positive.
        size: Span,
        /// Shifts all of them; less than `size`, may be negative.
        offset: Span,
    },
    /// Overlapping, or with gaps where `slide` is greater than `size`.
    Sliding {
        /// Their length; positive.
        size: Span,
        /// From one start to the next; positive.
        slide: Span,
        /// Shifts all of them; less than `slide`, may be negative.
        offset: Span,
    },
    /// As long as readings of a key follow each other within `gap`.
    Session {
        /// Readings at most this far apart belong together; positive.
        gap: Span,
    },
    /// The days of a time zone: 23 and 25 hours where the zone says so.
    CalendarDay {
        /// The zone.
        zone: Zone,
    },
}

/// What becomes of readings behind the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatePolicy {
    /// Apache Flink: an open window takes them and fires again; others go to the
    /// late output.
    SideOutput,
    /// Kafka Streams: stream time over all sources, closed at end + grace
    /// (`allowed_lateness`), later readings to the late output.
    Grace,
    /// Azure Stream Analytics: the event time of a late reading is moved to the
    /// tolerance boundary.
    Adjust {
        /// Late arrival tolerance, against arrival; 5 s in the original.
        late_arrival: Span,
        /// Out of order tolerance, against the greatest event time; 0 in the
        /// original.
        out_of_order: Span,
    },
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aggregate {
    /// Readings.
    Count,
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The value with the least event time; ties by sequence number.
    First,
    /// The value with the greatest event time; ties by sequence number.
    Last,
    /// Greatest less least.
    Range,
    /// Standard deviation of the sample (n − 1).
    Stddev,
    /// Mean weighted by the time that each value stood.
    Twa,
    /// Median, from a sketch.
    P50,
    /// 95th percentile, from a sketch.
    P95,
    /// 99th percentile, from a sketch.
    P99,
    /// Increase of a counter per second; a decrease is a reset to zero.
    Rate,
}

impl Aggregate {
    /// Every one, with its name in configuration and results.
    pub const NAMES: [(Aggregate, &'static str); 14] = [
        (Aggregate::Count, "count"),
        (Aggregate::Sum, "sum"),
        (Aggregate::Mean, "mean"),
        (Aggregate::Min, "min"),
        (Aggregate::Max, "max"),
        (Aggregate::First, "first"),
        (Aggregate::Last, "last"),
        (Aggregate::Range, "range"),
        (Aggregate::Stddev, "stddev"),
        (Aggregate::Twa, "twa"),
        (Aggregate::P50, "p50"),
        (Aggregate::P95, "p95"),
        (Aggregate::P99, "p99"),
        (Aggregate::Rate, "rate"),
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// By name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(aggregate, _)| *aggregate)
    }
}
