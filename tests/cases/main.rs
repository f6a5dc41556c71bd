//! The field cases, one file per area, by their id.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod agent;
mod buffer;
mod clock;
mod files;
mod flash;
mod full_disk;
mod journal;
mod json;
mod kills;
mod ledger;
mod line_protocol;
mod mqtt_source;
mod ops;
mod quarantine;
mod restore;
mod rollback;
mod start;
mod stream;
mod time;
mod totals;
mod uplink;
mod uplink_limits;
mod uplink_storms;
mod uplinks;
mod windows;
