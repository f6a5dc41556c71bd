//! A broker in this process, on a free port of the loopback interface. It lives
//! as long as the process: rumqttd has no way to stop.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rumqttd::{Broker, Config, ConnectionSettings, RouterConfig, ServerSettings};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::exit::{Exit, Failure};

/// Another process may take the port that was just found free.
const ATTEMPTS: u32 = 5;
/// A thread has to start and bind a port.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// Starts it, and says where it listens for MQTT 5.
///
/// # Errors
/// No port could be had.
pub(super) async fn start() -> Result<SocketAddr, Failure> {
    for _ in 0..ATTEMPTS {
        let address =
            free_address().map_err(|error| Failure::io("no port for the broker", &error))?;
        let mut broker = Broker::new(config(address));
        let thread = thread::Builder::new()
            .name("demo-broker".to_owned())
            .spawn(move || broker.start().is_ok())
            .map_err(|error| Failure::io("no thread for the broker", &error))?;
        if listens(address, &thread).await {
            return Ok(address);
        }
    }
    Err(Failure::new(Exit::Io, "the demo's broker cannot listen on the loopback interface"))
}

fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Waits until it takes connections; false when it gave up or hangs. The thread
/// ends when the port is taken: then somebody else answers there.
async fn listens(address: SocketAddr, thread: &JoinHandle<bool>) -> bool {
    let mut waited = Duration::ZERO;
    while waited < LISTENS_WITHIN && !thread.is_finished() {
        if TcpStream::connect(address).await.is_ok() {
            sleep(POLL).await;
            return !thread.is_finished();
        }
        sleep(POLL).await;
        waited += POLL;
    }
    false
}

/// Limits far above what a demo reaches: the broker must not be what loses.
fn config(listen: SocketAddr) -> Config {
    let connections = ConnectionSettings {
        connection_timeout_ms: 5_000,
        max_payload_size: 1024 * 1024,
        max_inflight_count: 1_000,
        auth: None,
        external_auth: None,
        dynamic_filters: true,
    };
    let server = ServerSettings {
        name: "demo-mqtt".to_owned(),
        listen,
        tls: None,
        next_connection_delay_ms: 1,
        connections,
    };
    let router = RouterConfig {
        max_connections: 16,
        max_outgoing_packet_count: 1_000,
        max_segment_size: 64 * 1024 * 1024,
        max_segment_count: 16,
        custom_segment: None,
        initialized_filters: None,
        ..RouterConfig::default()
    };
    Config { router, v5: Some(HashMap::from([("demo".to_owned(), server)])), ..Config::default() }
}
