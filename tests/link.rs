//! The uplink adapter, with real rumqttc, against a broker that misbehaves on
//! request: each line of the uplink's design that is the adapter's to keep.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails a test")]

mod support;

#[path = "support/readings.rs"]
mod readings;

#[path = "link/acknowledgement.rs"]
mod acknowledgement;
#[path = "link/connection.rs"]
mod connection;
#[path = "link/frontiers.rs"]
mod frontiers;
#[path = "link/harness.rs"]
mod harness;
#[path = "link/limits.rs"]
mod limits;
#[path = "link/renewal.rs"]
mod renewal;
#[path = "link/tls.rs"]
mod tls;
#[path = "link/websocket.rs"]
mod websocket;
