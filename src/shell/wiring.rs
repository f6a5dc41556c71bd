//! From the configuration to the settings of each part.

use std::net::SocketAddr;
use std::path::Path;

use crate::config::{self, Config};
use crate::host::{self, HostClock};
use crate::http::status::About;
use crate::link;
use crate::store;

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
        started: (now.mono, now.clock.wall),
        quota_bytes: agent.quota_bytes,
        reserve_bytes: agent.reserve_bytes,
        inflight_max: agent.inflight_max,
    }
}

pub(super) fn link_settings(_config: &Config) -> link::Settings {
    unimplemented!()
}
