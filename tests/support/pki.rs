//! Certificates made here: a CA, and what it signs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SerialNumber,
};
use rumqttc::tokio_rustls::rustls::crypto::ring;
use rumqttc::tokio_rustls::rustls::server::WebPkiClientVerifier;
use rumqttc::tokio_rustls::rustls::{RootCertStore, ServerConfig};

pub(crate) type Ca = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn ca(name: &str) -> Ca {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

pub(crate) struct Leaf {
    pub(crate) certificate: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

pub(crate) fn leaf(name: &str, ca: &Ca, adjust: impl FnOnce(&mut CertificateParams)) -> Leaf {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    adjust(&mut params);
    let key = KeyPair::generate().unwrap();
    Leaf { certificate: params.signed_by(&key, ca).unwrap(), key }
}

/// The certificate of a client by its name and serial number.
pub(crate) fn client(name: &str, serial: u8, ca: &Ca) -> Leaf {
    leaf(name, ca, |params| {
        params.serial_number = Some(SerialNumber::from(vec![serial]));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
    })
}

/// The server side of TLS; with `client_ca` clients must show a certificate of it.
pub(crate) fn server(leaf: &Leaf, client_ca: Option<&Ca>) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(ca.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let chain = vec![leaf.certificate.der().clone()];
    let key = leaf.key.serialize_der().try_into().unwrap();
    builder.with_single_cert(chain, key).unwrap()
}

/// Writes a file as renewals do: whole, under another name, then renamed.
pub(crate) fn write(folder: &Path, name: &str, content: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, content).unwrap();
    set_mode(&new, mode);
    fs::rename(&new, &path).unwrap();
    path
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
