//! From the configuration to the settings of each part.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::desk::{Desk, Returned, Sources};
use super::startup::StartupError;
use crate::config::{self, Config};
use crate::core::clock::BootFacts;
use crate::core::id::{BootId, SourceId};
use crate::core::time::Uptime;
use crate::host::sampler::SamplerSettings;
use crate::host::{self, HostClock};
use crate::http::status::{About, SourceHealth};
use crate::http::token::Token;
use crate::link::{self, BatchFormat};
use crate::mqtt::Broker;
use crate::source::health::HealthView;
use crate::store;
use crate::wire::topic::Template;

pub(super) fn data_dir(config: &Config) -> &Path {
    &config.gateway.data_dir
}

pub(super) fn http_address(config: &Config) -> Option<SocketAddr> {
    config.http.listen
}

/// The token that requests must have.
pub(super) fn token(config: &Config) -> Result<Option<Token>, StartupError> {
    let read = config.http.token_file.as_deref().map(Token::read).transpose();
    read.map_err(|wrong| StartupError::Config(format!("http.token_file: {wrong}")))
}

pub(super) fn store_options(config: &Config) -> store::Options {
    store::Options {
        data_dir: config.gateway.data_dir.clone(),
        segment_bytes: config.journal.segment_bytes,
        quota_bytes: config.journal.max_bytes,
        probe_free: host::disk::free_bytes,
    }
}

pub(super) fn about(config: &Config, clock: &HostClock) -> About {
    let now = clock.now();
    let agent = config.agent_settings();
    About {
        gateway: config.gateway.id.clone(),
        started: (now.mono, now.wall),
        quota_bytes: agent.quota_bytes,
        reserve_bytes: agent.reserve_bytes,
    }
}

/// The routes that are answered beside the driver.
pub(super) fn desk(
    config: &Config,
    store: store::worker::Questions,
    releases: mpsc::Sender<Returned>,
    clock: &Arc<HostClock>,
) -> Desk {
    let sources = Sources::default();
    sources.set(&config.sources);
    let clock = Arc::clone(clock);
    Desk {
        store,
        releases,
        sources,
        arrivals: Arc::new(move || clock.arrival()),
        gateway: config.gateway.id.as_str().into(),
        data_dir: Arc::new(config.gateway.data_dir.clone()),
    }
}

/// The health of the sources, as the status has it.
pub(super) fn health(
    views: Vec<(SourceId, HealthView)>,
    now: Uptime,
) -> impl Iterator<Item = (String, SourceHealth)> {
    views.into_iter().map(move |(name, view)| {
        let health = SourceHealth {
            state: view.state.as_str().to_owned(),
            detail: view.detail,
            errors: view.errors,
            // In milliseconds: more would only be noise.
            retry_in_s: view.retry_at.map(|at| (at.since_ns(now) / 1_000_000) as f64 / 1_000.0),
            missed_polls: view.missed_polls,
        };
        (name.to_string(), health)
    })
}

/// Where the file system begins.
const ROOT: &str = "/";

/// What the clock sampler looks at.
pub(super) fn sampler(config: &Config) -> SamplerSettings {
    SamplerSettings {
        reference: config.clock.reference,
        chrony_address: config.clock.chrony_address,
        root: ROOT.into(),
    }
}

/// What is known of this boot.
pub(super) fn boot_facts() -> BootFacts {
    let facts = host::boot::boot_facts(ROOT.as_ref());
    if facts.boot == BootId::default() {
        tracing::warn!("the boot id cannot be read: a restart of the machine goes unnoticed");
    }
    facts
}

pub(super) fn uplink_names(config: &Config) -> Vec<String> {
    config.uplinks.iter().map(|uplink| uplink.name.clone()).collect()
}

/// What the link task of each uplink needs to know.
pub(super) fn link_settings(config: &Config) -> Result<Vec<link::Settings>, StartupError> {
    config.uplinks.iter().map(|uplink| link_settings_of(config, uplink)).collect()
}

/// The topic templates belong to `wire`; `config` has checked them by the same rules.
fn link_settings_of(
    config: &Config,
    uplink: &config::Uplink,
) -> Result<link::Settings, StartupError> {
    let template = |key: &str, text: &str| {
        let wrong = |error| StartupError::Config(format!("uplink.{key}: {error}"));
        Template::parse(text).map_err(wrong)
    };
    let topic = template("topic", &uplink.topic)?;
    let backfill_topic = match &uplink.backfill_topic {
        Some(text) => Some(template("backfill_topic", text)?),
        None => None,
    };
    Ok(link::Settings {
        gateway: config.gateway.id.clone(),
        broker: Broker::of(&uplink.url, &*uplink.client_id, &uplink.login),
        protocol: uplink.protocol,
        keep_alive: uplink.keep_alive,
        inflight_max: uplink.inflight_max,
        max_payload: uplink.max_payload,
        topic,
        backfill_topic,
        batch_format: match uplink.format {
            config::UplinkFormat::Json | config::UplinkFormat::JsonBatch => BatchFormat::Json,
            config::UplinkFormat::PostcardBatch => BatchFormat::Postcard,
        },
    })
}
