//! The certificate that a client shows to its broker, renewed while it runs.
//!
//! Whoever renews a certificate writes two files, one after the other, and a
//! client that comes between them finds a pair that does not belong together, or
//! half a file. Such a pair is never shown: the last whole one stays in use until
//! the files are whole again.

use std::path::Path;
use std::sync::Arc;

use rumqttc::tokio_rustls::rustls;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::error::Failure;
use super::tls::{self, failure};
use crate::core::seam::DownCause;

/// What a client shows of itself, over all its connections.
#[derive(Debug, Default)]
pub struct Identity {
    /// The newest pair that was whole.
    whole: Option<Arc<CertifiedKey>>,
    /// Why the files as they are now are not used.
    refused: Option<String>,
}

impl Identity {
    /// The pair of the files as they are now; the one before where they are not
    /// whole, which is said once.
    ///
    /// # Errors
    /// They are not whole, and never were.
    pub(super) async fn read(
        &mut self,
        cert_file: &Path,
        key_file: &Path,
    ) -> Result<Arc<CertifiedKey>, Failure> {
        let failure = match pair(cert_file, key_file).await {
            Ok(found) => return Ok(self.renew(found, cert_file)),
            Err(failure) => failure,
        };
        let Some(whole) = &self.whole else { return Err(failure) };
        if self.refused.as_ref() != Some(&failure.reason) {
            tracing::warn!(
                reason = failure.reason,
                "the client certificate on disk is not used: the last good one stays in use until \
                 cert_file and key_file are whole and belong together"
            );
            self.refused = Some(failure.reason);
        }
        Ok(Arc::clone(whole))
    }

    fn renew(&mut self, found: CertifiedKey, cert_file: &Path) -> Arc<CertifiedKey> {
        self.refused = None;
        match &self.whole {
            Some(whole) if whole.cert == found.cert => return Arc::clone(whole),
            Some(_) => tracing::info!(
                file = %cert_file.display(),
                "the client certificate was renewed: the new one is used from this connection on"
            ),
            None => {}
        }
        Arc::clone(self.whole.insert(Arc::new(found)))
    }

    /// A handshake that fails may do so because the certificate of before is shown.
    #[must_use]
    pub fn explain(&self, failure: Failure) -> Failure {
        match &self.refused {
            Some(refused) if failure.cause == DownCause::Tls => {
                let reason = format!(
                    "{}; an older client certificate was shown, because: {refused}",
                    failure.reason
                );
                Failure { reason, ..failure }
            }
            _ => failure,
        }
    }
}

/// The pair, if it is whole and belongs together.
async fn pair(cert_file: &Path, key_file: &Path) -> Result<CertifiedKey, Failure> {
    let chain = tls::certificates("cert_file", cert_file).await?;
    let key = tls::private_key(key_file).await?;
    check(&chain)
        .map_err(|error| failure(format!("cert_file {}: {error}", cert_file.display())))?;
    certified(chain, key).map_err(|error| {
        failure(match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => format!(
                "cert_file {} and key_file {} do not belong together: the certificate is of \
                 another key",
                cert_file.display(),
                key_file.display()
            ),
            error => format!("key_file {}: {error}", key_file.display()),
        })
    })
}

/// rustls would send what is no certificate all the same.
fn check(chain: &[CertificateDer<'static>]) -> Result<(), Error> {
    chain.iter().try_for_each(|certificate| ParsedCertificate::try_from(certificate).map(drop))
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, Error> {
    CertifiedKey::from_der(chain, key, &ring::default_provider())
}
