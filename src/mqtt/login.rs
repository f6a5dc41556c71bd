//! Who a client is to its broker, and whom it trusts.

use std::fmt;
use std::path::PathBuf;

use rumqttc::{MqttOptions, TlsConfiguration, Transport, v5};

use super::error::Failure;
use super::identity::Identity;
use super::{password, tls};
use crate::config;
use crate::core::limits::CERTIFICATE_FLOOR_S;

/// Who a client is to its broker, and whom it trusts. The files are read at each
/// attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// TLS; then [`Login::ca_file`] is required.
    pub tls: bool,
    /// User name, if the broker wants one.
    pub username: Option<String>,
    /// The password: the file's content without its last line break.
    pub password_file: Option<PathBuf>,
    /// PEM certificates of the CAs that may vouch for the broker.
    pub ca_file: Option<PathBuf>,
    /// PEM certificate chain of this client.
    pub cert_file: Option<PathBuf>,
    /// PEM private key of this client; refused when others may read it.
    pub key_file: Option<PathBuf>,
    /// Certificates are judged with this as the least "now", in seconds since
    /// 1970, for a gateway that woke up in 1970.
    pub time_floor_s: u64,
}

/// How the next connection is made, and who says so: what is read from files for it.
#[derive(Default)]
pub struct Secrets {
    /// User name and password. rumqttc sends no field that is empty.
    login: Option<(String, String)>,
    transport: Transport,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Puts them into the options of the next connection of MQTT 3.1.1.
    pub fn give_v311(self, options: &mut MqttOptions) {
        if let Some((username, password)) = self.login {
            options.set_credentials(username, password);
        }
        options.set_transport(self.transport);
    }

    /// Puts them into the options of the next connection of MQTT 5.
    pub fn give_v5(self, options: &mut v5::MqttOptions) {
        if let Some((username, password)) = self.login {
            options.set_credentials(username, password);
        }
        options.set_transport(self.transport);
    }
}

impl Login {
    /// As the configuration says it; certificates are judged with
    /// [`CERTIFICATE_FLOOR_S`] as the least "now".
    pub fn of(url: &config::MqttUrl, keys: &config::Login) -> Self {
        let config::Login { username, password_file, ca_file, cert_file, key_file } = keys.clone();
        Self {
            tls: url.is_tls,
            username,
            password_file,
            ca_file,
            cert_file,
            key_file,
            time_floor_s: CERTIFICATE_FLOOR_S,
        }
    }

    /// Reads the files as they are now, for MQTT straight over TCP and TLS or inside
    /// of WebSocket.
    ///
    /// # Errors
    /// One cannot be read, or is not what it should be.
    pub(super) async fn read(
        &self,
        identity: &mut Identity,
        is_websocket: bool,
    ) -> Result<Secrets, Failure> {
        let password = match &self.password_file {
            None => None,
            Some(path) => Some(password::read(path).await?),
        };
        let transport = if self.tls {
            let trusted = TlsConfiguration::Rustls(tls::load(self, identity).await?);
            if is_websocket { Transport::Wss(trusted) } else { Transport::Tls(trusted) }
        } else if is_websocket {
            Transport::Ws
        } else {
            Transport::Tcp
        };
        let is_named = self.username.is_some() || password.is_some();
        let login = (self.username.clone().unwrap_or_default(), password.unwrap_or_default());
        Ok(Secrets { login: is_named.then_some(login), transport })
    }
}
