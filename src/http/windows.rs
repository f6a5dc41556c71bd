//! The windows as JSON: the section `windows` of the status.

use serde::{Deserialize, Serialize};

use super::clock::rounded;
use crate::core::status::WindowStatus;
use crate::core::time::IngestTime;
use crate::core::window::{ResultStatus, WindowResult};

/// One window on site. Counts begin when the agent starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its name.
    pub name: String,
    /// How far event time has come; `null` before the first reading that counts.
    pub watermark: Option<String>,
    /// The gateway's wall clock less the watermark, in seconds; negative where
    /// event times lie ahead.
    pub watermark_lag_s: Option<f64>,
    /// Whether it is further behind than its disorder and its `idle_after` explain: a
    /// source gives readings of long ago, or all are silent.
    #[serde(default)]
    pub is_behind: bool,
    /// Sources that hold the watermark where it is, by name: the slowest, and those that
    /// have given nothing yet. Empty where all are silent, and under the policies `grace`
    /// and `adjust`.
    #[serde(default)]
    pub held_by: Vec<String>,
    /// Windows that are open, over all series.
    pub panes: usize,
    /// Series with open windows.
    pub series: usize,
    /// What its state takes in memory, in bytes, about.
    pub state_bytes: u64,
    /// Sources that are silent and not waited for, by name.
    pub idle_sources: Vec<String>,
    /// The source that has been silent longest, for longer than the bound, and still holds the
    /// watermark back; `null` where all are heard.
    #[serde(default)]
    pub waits_for: Option<String>,
    /// When it will not be waited for any more, by the gateway's clock, if it stays silent.
    #[serde(default)]
    pub waits_until: Option<String>,
    /// First firings.
    pub fired: u64,
    /// Later revisions.
    pub revised: u64,
    /// Final markers.
    pub finals: u64,
    /// Sessions taken back because a larger one swallowed them.
    pub retracted: u64,
    /// Readings that came when all their windows were gone.
    pub too_late: u64,
    /// Readings that lie between two windows.
    pub between: u64,
    /// Repeats that were dropped at their source, before the window saw them.
    #[serde(default)]
    pub duplicates: u64,
}

impl Window {
    pub(super) fn new(name: &str, status: &WindowStatus, wall: IngestTime) -> Self {
        let counts = status.counts;
        let lag = status.watermark.map(|at| wall.lag_behind(at));
        Self {
            name: name.to_owned(),
            watermark: status.watermark.map(|at| at.to_string()),
            watermark_lag_s: lag.map(|lag| rounded(lag.as_secs_f64())),
            is_behind: lag.is_some_and(|lag| lag > status.patience),
            held_by: status.held_by.iter().map(ToString::to_string).collect(),
            panes: status.panes,
            series: status.series,
            state_bytes: status.state_bytes,
            idle_sources: status.idle.iter().map(ToString::to_string).collect(),
            waits_for: status.waits_for.as_ref().map(|(source, _)| source.to_string()),
            waits_until: status.waits_for.as_ref().map(|(_, left)| {
                let until = wall.unix_ns().saturating_add(left.ns());
                IngestTime::from_unix_ns(until).to_string()
            }),
            fired: counts.fired,
            revised: counts.revised,
            finals: counts.finals,
            retracted: counts.retracted,
            too_late: counts.too_late,
            between: counts.between,
            duplicates: counts.duplicates,
        }
    }
}

/// What one window has said, durably, since the agent started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultCounts {
    /// Results that could still change.
    pub provisional: u64,
    /// Results that nothing changes any more.
    pub finals: u64,
    /// Results taken back.
    pub retracted: u64,
    /// Of the provisional ones, those that revise an earlier one.
    pub refined: u64,
    /// Readings that came too late.
    pub too_late: u64,
}

impl ResultCounts {
    /// Counts one result more.
    pub(super) fn count(&mut self, result: &WindowResult) {
        match result.status {
            ResultStatus::Provisional => {
                self.provisional += 1;
                self.refined += u64::from(result.revision > 1);
            }
            ResultStatus::Final => self.finals += 1,
            ResultStatus::Retracted => self.retracted += 1,
        }
    }
}
