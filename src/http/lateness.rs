//! How late readings come, as JSON: `GET /api/v1/lateness`.

use serde::{Deserialize, Serialize};

use super::status::Report;
use crate::core::id::SourceId;
use crate::core::lateness::Quantiles;
use crate::core::time::Span;

/// The lateness of every source: arrival less event time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatenessReport {
    /// Version of this form: 1.
    pub v: u32,
    /// The gateway's id.
    pub gateway: String,
    /// When this was said, by the gateway's clock.
    pub at: String,
    /// Per source, by name; sources without a counted reading are left out.
    pub sources: Vec<SourceLateness>,
}

/// The lateness of one source, in seconds; negative where stamps lie ahead.
/// Within 1 %, `max` exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceLateness {
    /// Its name.
    pub name: String,
    /// Readings counted: plausible stamps, trusted clock.
    pub count: u64,
    /// The median.
    pub p50_s: f64,
    /// 95 of 100 came within this.
    pub p95_s: f64,
    /// 99 of 100 came within this.
    pub p99_s: f64,
    /// 999 of 1,000 came within this.
    pub p999_s: f64,
    /// 9,999 of 10,000 came within this.
    pub p9999_s: f64,
    /// All came within this.
    pub max_s: f64,
    /// The bound to choose for fast answers.
    pub fast_bound_s: f64,
    /// The bound to choose for corrections.
    pub correction_bound_s: f64,
    /// Both bounds, for people.
    pub advice: String,
}

impl LatenessReport {
    /// What a report says of it.
    pub fn new(report: &Report) -> Self {
        Self {
            v: 1,
            gateway: report.gateway.clone(),
            at: report.at.clone(),
            sources: report.lateness.clone(),
        }
    }
}

impl SourceLateness {
    pub(super) fn new(source: &SourceId, quantiles: &Quantiles) -> Self {
        let advice = quantiles.advice();
        Self {
            name: source.to_string(),
            count: quantiles.count,
            p50_s: millis(quantiles.p50),
            p95_s: millis(quantiles.p95),
            p99_s: millis(quantiles.p99),
            p999_s: millis(quantiles.p999),
            p9999_s: millis(quantiles.p9999),
            max_s: millis(quantiles.max),
            fast_bound_s: advice.fast.as_secs_f64(),
            correction_bound_s: advice.correction.as_secs_f64(),
            advice: advice.words,
        }
    }
}

/// Seconds in whole milliseconds.
fn millis(span: Span) -> f64 {
    (span.as_secs_f64() * 1e3).round() / 1e3
}
