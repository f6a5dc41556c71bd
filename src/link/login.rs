//! Who a client is to its broker, and whom it trusts: of the uplink, and of an
//! output on site.

use std::path::PathBuf;
use std::sync::Arc;

use rumqttc::tokio_rustls::rustls::ClientConfig;

use super::error::Failure;
use super::{password, tls};

/// 2026-11-30T00:00:00Z: this version cannot run earlier, whatever the clock of
/// a gateway that woke up in 1970 says. In seconds since 1970.
pub const NOT_BEFORE_S: u64 = 1_795_996_800;

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
    /// 1970: the build date, for a gateway that woke up in 1970.
    pub time_floor_s: u64,
}

/// What is read from files for one connection.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    /// User name and password. rumqttc sends no field that is empty.
    pub(crate) login: Option<(String, String)>,
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl Login {
    /// Reads the files as they are now.
    ///
    /// # Errors
    /// One cannot be read, or is not what it should be.
    pub(crate) async fn read(&self) -> Result<Secrets, Failure> {
        let password = match &self.password_file {
            None => None,
            Some(path) => Some(password::read(path).await?),
        };
        let tls = if self.tls { Some(tls::load(self).await?) } else { None };
        let is_named = self.username.is_some() || password.is_some();
        let login = (self.username.clone().unwrap_or_default(), password.unwrap_or_default());
        Ok(Secrets { login: is_named.then_some(login), tls })
    }
}
