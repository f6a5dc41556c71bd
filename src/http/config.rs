//! Which configuration is in force, in the status.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::status::{Degraded, Report};
use crate::core::time::IngestTime;

/// The file that the agent runs by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigInForce {
    /// The file.
    pub file: String,
    /// When what is in force was read, by the gateway's clock then.
    pub loaded_at: String,
    /// The newest attempt to read it again; `null` before the first.
    pub last_reload: Option<Reload>,
}

/// An attempt to read the configuration again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reload {
    /// When, by the gateway's clock.
    pub at: String,
    /// Whether what was read is in force.
    pub ok: bool,
    /// What has changed, or everything that kept it from being taken over; for
    /// people.
    pub detail: String,
}

/// Where it is written down: by whoever reads the file, for whoever writes the
/// status. Empty for an agent that was started without a file.
#[derive(Clone, Debug, Default)]
pub struct ConfigBoard(Arc<Mutex<Option<ConfigInForce>>>);

impl ConfigBoard {
    /// The agent was started with this file.
    pub fn loaded(&self, file: &Path, at: IngestTime) {
        let (file, loaded_at) = (file.display().to_string(), at.to_string());
        *self.lock() = Some(ConfigInForce { file, loaded_at, last_reload: None });
    }

    /// It was read again: what has changed, or why it is not taken over.
    pub fn reloaded(&self, at: IngestTime, outcome: &Result<String, String>) {
        if let Some(known) = self.lock().as_mut() {
            let (Ok(detail) | Err(detail)) = outcome;
            let (at, ok, detail) = (at.to_string(), outcome.is_ok(), detail.clone());
            if ok {
                known.loaded_at.clone_from(&at);
            }
            known.last_reload = Some(Reload { at, ok, detail });
        }
    }

    /// As it is now.
    pub fn view(&self) -> Option<ConfigInForce> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ConfigInForce>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Report {
    /// With the configuration in force. A file that is not taken over is a trouble.
    #[must_use]
    pub fn with_config(mut self, config: Option<ConfigInForce>) -> Self {
        let failed = config.as_ref().and_then(|config| config.last_reload.as_ref());
        if let Some(failed) = failed.filter(|reload| !reload.ok) {
            let detail = format!("the configuration was not taken over: {}", failed.detail);
            self.degraded.push(Degraded { code: "reload_refused".to_owned(), detail });
        }
        self.config = config;
        self
    }
}
