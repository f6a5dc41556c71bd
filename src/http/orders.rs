//! The orders of outputs as JSON: the section `ordered` of the status.

use serde::{Deserialize, Serialize};

use super::clock::rounded;
use crate::core::status::OrderStatus;
use crate::core::time::IngestTime;

/// The readings of one output in the order of event time. Counts begin when the
/// agent starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ordered {
    /// The output: its type and where it goes.
    pub output: String,
    /// How far event time has come; `null` before the first reading that counts.
    pub watermark: Option<String>,
    /// The gateway's wall clock less the watermark, in seconds; negative where
    /// event times lie ahead.
    pub watermark_lag_s: Option<f64>,
    /// Readings that are held until it has passed them.
    pub held: usize,
    /// What they take in memory, in bytes, about.
    pub held_bytes: usize,
    /// Sources that are silent and not waited for, by name.
    pub idle_sources: Vec<String>,
    /// Readings let out in their place.
    pub in_order: u64,
    /// Readings let out before the watermark had passed them.
    pub early: u64,
    /// Readings let out behind a later one.
    pub late: u64,
}

impl Ordered {
    pub(super) fn new(output: &str, status: &OrderStatus, wall: IngestTime) -> Self {
        let counts = status.counts;
        Self {
            output: output.to_owned(),
            watermark: status.watermark.map(|at| at.to_string()),
            watermark_lag_s: status.watermark.map(|at| rounded(wall.lag_behind(at).as_secs_f64())),
            held: status.held,
            held_bytes: status.held_bytes,
            idle_sources: status.idle.iter().map(ToString::to_string).collect(),
            in_order: counts.in_order,
            early: counts.early,
            late: counts.late,
        }
    }
}
