//! TLS by rustls with ring. The server's name and chain are always checked;
//! there is no switch, and no CA is trusted but those of ca_file. Files are read at
//! each attempt, so a renewed certificate counts at the next connection.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rumqttc::tokio_rustls::rustls;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{ClientConfig, RootCertStore};

use super::Login;
use super::error::Failure;
use super::identity::Identity;
use crate::core::seam::DownCause;
use crate::core::secret_mode::{SYSTEMD_CREDENTIALS, is_private};

/// The client side of TLS as the files have it now.
pub(super) async fn load(
    login: &Login,
    identity: &mut Identity,
) -> Result<Arc<ClientConfig>, Failure> {
    let Some(ca_file) = &login.ca_file else {
        return Err(failure("TLS needs ca_file: the certificate of the broker's CA".into()));
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates("ca_file", ca_file).await?);
    if added == 0 {
        return Err(failure(format!("ca_file {}: no usable CA certificate", ca_file.display())));
    }
    let shown = match (&login.cert_file, &login.key_file) {
        (None, None) => None,
        (Some(cert_file), Some(key_file)) => Some(identity.read(cert_file, key_file).await?),
        _ => return Err(failure("cert_file and key_file go together".into())),
    };
    let clock = FlooredClock { floor: UnixTime::since_unix_epoch(floor(login)) };
    let builder =
        ClientConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(clock))
            .with_safe_default_protocol_versions()
            .map_err(|error| failure(error.to_string()))?
            .with_root_certificates(roots);
    let config = match shown {
        None => builder.with_no_client_auth(),
        Some(shown) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown))),
    };
    Ok(Arc::new(config))
}

fn floor(login: &Login) -> std::time::Duration {
    std::time::Duration::from_secs(login.time_floor_s)
}

/// A gateway that wakes up in 1970 must still reach its broker. What had expired
/// before the floor is refused all the same.
#[derive(Debug)]
struct FlooredClock {
    floor: UnixTime,
}

impl TimeProvider for FlooredClock {
    fn current_time(&self) -> Option<UnixTime> {
        DefaultTimeProvider.current_time().map(|now| now.max(self.floor))
    }
}

pub(super) async fn certificates(
    key: &str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let pem = read(key, path).await?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(chain) if chain.is_empty() => {
            Err(failure(format!("{key} {}: no certificate in it", path.display())))
        }
        Ok(chain) => Ok(chain),
        Err(error) => Err(failure(format!("{key} {}: {error}", path.display()))),
    }
}

pub(super) async fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    let facts =
        tokio::fs::metadata(path).await.map_err(|error| unreadable("key_file", path, &error))?;
    let mode = facts.permissions().mode() & 0o777;
    if !is_private(mode, path.starts_with(SYSTEMD_CREDENTIALS)) {
        return Err(failure(format!(
            "key_file {}: others may read this private key (mode {mode:03o}); chmod 600 it",
            path.display()
        )));
    }
    let pem = read("key_file", path).await?;
    PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| failure(format!("key_file {}: {error}", path.display())))
}

async fn read(key: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    tokio::fs::read(path).await.map_err(|error| unreadable(key, path, &error))
}

fn unreadable(key: &str, path: &Path, error: &std::io::Error) -> Failure {
    failure(format!("cannot read {key} {}: {error}", path.display()))
}

pub(super) fn failure(reason: String) -> Failure {
    Failure { reason, cause: DownCause::Tls }
}
