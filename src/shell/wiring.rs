//! From the configuration to the settings of each part.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::desk::{Desk, Returned};
use super::run::StartupError;
use crate::config::{self, Config};
use crate::core::clock::BootFacts;
use crate::core::id::BootId;
use crate::host::sampler::SamplerSettings;
use crate::host::{self, HostClock};
use crate::http::status::About;
use crate::link;
use crate::store;
use crate::wire::topic::Template;

/// 2026-11-30T00:00:00Z: this version cannot run earlier, whatever the clock of
/// a gateway that woke up in 1970 says. In seconds since 1970.
const NOT_BEFORE_S: u64 = 1_795_996_800;

pub(super) fn data_dir(config: &Config) -> &Path {
    &config.gateway.data_dir
}

pub(super) fn http_address(config: &Config) -> Option<SocketAddr> {
    config.http.listen
}

pub(super) fn sources(config: &Config) -> &[config::Source] {
    &config.sources
}

pub(super) fn source_name(source: &config::Source) -> String {
    source.name.to_string()
}

pub(super) fn store_options(config: &Config) -> store::Options {
    store::Options {
        data_dir: config.gateway.data_dir.clone(),
        segment_bytes: config.journal.segment_bytes,
        probe_free: host::disk::free_bytes,
    }
}

pub(super) fn about(config: &Config, clock: &HostClock) -> About {
    let now = clock.now();
    let agent = config.agent_settings();
    About {
        gateway: config.gateway.id.clone(),
        uplink: config.uplink.name.clone(),
        started: (now.mono, now.wall),
        quota_bytes: agent.quota_bytes,
        reserve_bytes: agent.reserve_bytes,
        inflight_max: agent.inflight_max,
    }
}

/// What answers beside the driver.
pub(super) fn desk(
    config: &Config,
    store: store::worker::Desk,
    releases: mpsc::Sender<Returned>,
    clock: &Arc<HostClock>,
) -> Desk {
    let sources = config.sources.iter().map(|source| (source.name.clone(), source.clone()));
    let clock = Arc::clone(clock);
    Desk {
        store,
        releases,
        sources: Arc::new(sources.collect()),
        arrivals: Arc::new(move || clock.arrival()),
        gateway: config.gateway.id.as_str().into(),
        data_dir: Arc::new(config.gateway.data_dir.clone()),
    }
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

/// The topic template is the only thing that `config` cannot check: it belongs
/// to `wire`.
pub(super) fn link_settings(config: &Config) -> Result<link::Settings, StartupError> {
    let uplink = &config.uplink;
    let topic = Template::parse(&uplink.topic)
        .map_err(|error| StartupError::Config(format!("uplink.topic: {error}")))?;
    Ok(link::Settings {
        gateway: config.gateway.id.clone(),
        host: uplink.url.host.clone(),
        port: uplink.url.port,
        tls: uplink.url.is_tls,
        protocol: match uplink.protocol {
            config::Protocol::V311 => link::Protocol::V311,
            config::Protocol::V5 => link::Protocol::V5,
        },
        client_id: uplink.client_id.clone(),
        username: uplink.username.clone(),
        password_file: uplink.password_file.clone(),
        ca_file: uplink.ca_file.clone(),
        cert_file: uplink.cert_file.clone(),
        key_file: uplink.key_file.clone(),
        keep_alive: uplink.keep_alive,
        inflight_max: config.agent_settings().inflight_max,
        max_payload: uplink.max_payload,
        topic,
        time_floor_s: NOT_BEFORE_S,
    })
}
