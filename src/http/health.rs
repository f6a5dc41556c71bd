//! How each source fares, in the status.

use serde::{Deserialize, Serialize};

use super::status::{Degraded, Report, Source};

/// How a source fares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceHealth {
    /// `starting`, `up`, `degraded` (part of what it reads is out of reach),
    /// `down` or `stopped`.
    pub state: String,
    /// What is to be known of it, for people.
    pub detail: Option<String>,
    /// Errors since the agent started.
    pub errors: u64,
    /// Seconds until it tries again, where a try is planned.
    pub retry_in_s: Option<f64>,
    /// Polls left out since the agent started because the one before them was not
    /// done; 0 where nothing is polled.
    #[serde(default)]
    pub missed_polls: u64,
}

impl Report {
    /// With what each source says of itself. One that never had a reading gets its
    /// empty books; one that is down or degraded is a trouble.
    #[must_use]
    pub fn with_health(mut self, all: impl IntoIterator<Item = (String, SourceHealth)>) -> Self {
        for (name, health) in all {
            if matches!(health.state.as_str(), "down" | "degraded") {
                let why = health.detail.as_deref().unwrap_or("it does not say why");
                self.degraded.push(Degraded {
                    code: format!("source_{}", health.state),
                    detail: format!("source {name} is {}: {why}", health.state),
                });
            }
            match self.sources.binary_search_by(|known| known.name.cmp(&name)) {
                Ok(place) => self.sources[place].health = Some(health),
                Err(place) => {
                    let new = Source { name, health: Some(health), ..Source::default() };
                    self.sources.insert(place, new);
                }
            }
        }
        self
    }
}
