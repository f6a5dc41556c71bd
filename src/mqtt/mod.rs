//! What every client of a broker has in common: where the broker is, who the client
//! is to it and whom it trusts, and why a connection ended.
//!
//! There are three clients with three duties: `link` sends what is journaled and
//! waits for each acknowledgement, `source::mqtt` reads and acknowledges after the
//! commit, `output` shows the newest results on site. What they do with rumqttc's
//! event loop differs and stays with them; how they get in is here, once.

use std::time::Duration;

use rumqttc::{MqttOptions, NetworkOptions, v5};

use crate::config;
pub use crate::config::Protocol;

mod error;
mod identity;
mod login;
mod password;
mod tls;

pub use self::error::Failure;
pub use self::identity::Identity;
pub use self::login::{Login, Secrets};

/// For the TCP, TLS and WebSocket handshakes and CONNACK together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A broker, and who a client is to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Broker {
    /// Host name or address. A name is looked up at each attempt.
    pub host: String,
    /// Port, usually 1883, or 8883 with TLS; of WebSocket 80 and 443.
    pub port: u16,
    /// Where the web server takes MQTT over WebSocket, with a slash at its
    /// beginning; `None` is MQTT without WebSocket.
    pub path: Option<String>,
    /// The MQTT client identifier: two clients of one name push each other out.
    pub client_id: String,
    /// Who this client is, and whom it trusts.
    pub login: Login,
}

impl Broker {
    /// As the configuration says it.
    pub fn of(url: &config::MqttUrl, client_id: impl Into<String>, keys: &config::Login) -> Self {
        Self {
            host: url.host.clone(),
            port: url.port,
            path: url.path.clone(),
            client_id: client_id.into(),
            login: Login::of(url, keys),
        }
    }

    /// Reads the files of the login as they are now. `identity` is that of this
    /// client, over all its connections.
    ///
    /// # Errors
    /// One cannot be read, or is not what it should be.
    pub async fn read(&self, identity: &mut Identity) -> Result<Secrets, Failure> {
        self.login.read(identity, self.path.is_some()).await
    }

    /// What rumqttc takes for the host: of WebSocket it is a url.
    fn address(&self) -> String {
        let Self { host, port, path: Some(path), .. } = self else { return self.host.clone() };
        let scheme = if self.login.tls { "wss" } else { "ws" };
        match host.contains(':') {
            true => format!("{scheme}://[{host}]:{port}{path}"),
            false => format!("{scheme}://{host}:{port}{path}"),
        }
    }

    /// For a client that speaks MQTT 3.1.1. Its event loop wants [`network`] besides.
    pub fn options_v311(&self, secrets: Secrets) -> MqttOptions {
        let mut options = MqttOptions::new(&self.client_id, self.address(), self.port);
        secrets.give_v311(&mut options);
        options
    }

    /// For a client that speaks MQTT 5.
    pub fn options_v5(&self, secrets: Secrets) -> v5::MqttOptions {
        let mut options = v5::MqttOptions::new(&self.client_id, self.address(), self.port);
        options.set_connection_timeout(CONNECT_TIMEOUT.as_secs()).set_network_options(network());
        secrets.give_v5(&mut options);
        options
    }
}

/// What rumqttc's event loop of MQTT 3.1.1 does not take from the options. Small
/// packets are not held back for larger ones.
pub fn network() -> NetworkOptions {
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    network.set_connection_timeout(CONNECT_TIMEOUT.as_secs());
    network
}

/// After the CONNACK of a broker of MQTT 5. It may have turned the keep-alive off,
/// which rumqttc would take for "ping without pause": then `ours` goes on.
pub fn keep_pinging(event_loop: &mut v5::EventLoop, ours: Duration) {
    if event_loop.options.keep_alive().is_zero() {
        event_loop.options.set_keep_alive(ours);
    }
}
