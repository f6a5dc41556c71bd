//! Who the gateway is to a broker, and whom it trusts: the same keys for the
//! uplink and for a broker on site.

use std::path::PathBuf;

use super::file::Section;
use super::page::Page;
use super::{MqttUrl, credential, value};

/// Who the gateway is to a broker, and whom it trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The user name, if the broker wants one.
    pub username: Option<String>,
    /// The file that holds the password, if the broker wants one.
    pub password_file: Option<PathBuf>,
    /// The file of trusted certificates.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, if the broker wants one. Never without `key_file`.
    pub cert_file: Option<PathBuf>,
    /// Its key. Never without `cert_file`.
    pub key_file: Option<PathBuf>,
}

impl Login {
    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let Self { username: _, password_file, ca_file, cert_file, key_file } = self;
        [password_file, ca_file, cert_file, key_file].into_iter().flatten()
    }
}

/// The keys of a section; what does not agree with each other or with the URL is
/// noted.
pub(super) fn read(section: &Section<'_>, url: Option<&MqttUrl>) -> Login {
    let login = Login {
        username: section.read("username", None, |v| {
            value::text(v).map(|name| Some(name).filter(|name| !name.is_empty()))
        }),
        password_file: credential::file(section, "password_file"),
        ca_file: credential::file(section, "ca_file"),
        cert_file: credential::file(section, "cert_file"),
        key_file: credential::file(section, "key_file"),
    };
    if login.password_file.is_some() && login.username.is_none() {
        section.problem("password_file", "is set without a user name", "write username too");
    }
    match (&login.cert_file, &login.key_file) {
        (Some(_), None) => section.problem("cert_file", "is set without key_file", "write both"),
        (None, Some(_)) => section.problem("key_file", "is set without cert_file", "write both"),
        _ => {}
    }
    let is_plain = url.is_some_and(|url| !url.is_tls);
    let files = [("ca_file", &login.ca_file), ("cert_file", &login.cert_file)];
    for (key, _) in files.iter().filter(|(_, file)| is_plain && file.is_some()) {
        section.problem(key, "has no use without TLS", "write the url with mqtts:// or wss://");
    }
    if url.is_some_and(|url| url.is_tls) && login.ca_file.is_none() {
        let what = "TLS needs ca_file: no CA is trusted but those in it, and checking cannot be \
                    turned off";
        let fix = "name the PEM file of the broker's CA; for public CAs \
                   /etc/ssl/certs/ca-certificates.crt";
        section.problem("url", what, fix);
    }
    login
}

pub(super) fn print(page: &mut Page, login: &Login) {
    page.text("username", login.username.as_deref().unwrap_or_default());
    page.path("password_file", login.password_file.as_ref());
    page.path("ca_file", login.ca_file.as_ref());
    page.path("cert_file", login.cert_file.as_ref());
    page.path("key_file", login.key_file.as_ref());
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
