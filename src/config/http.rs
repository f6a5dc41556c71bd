//! `[http]`: where status and metrics are served, and to whom.

use std::net::SocketAddr;
use std::path::PathBuf;

use toml::de::DeValue;

use super::agree::Claim;
use super::file::{Section, Wrong};
use super::page::Page;
use super::{credential, value};

/// `[http]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Where status and metrics are served; `None` turns them off.
    pub listen: Option<SocketAddr>,
    /// The file of the token that requests must bear; `None` asks for none, which
    /// only the loopback allows.
    pub token_file: Option<PathBuf>,
}

pub(super) fn http(section: Section<'_>) -> Http {
    let default = Some(SocketAddr::from(([127, 0, 0, 1], 9180)));
    let listen = section.read("listen", default, listen);
    if let Some(address) = listen {
        section.claim("listen", Claim::Listen(address));
    }
    let token_file = credential::file(&section, "token_file");
    if token_file.is_none() && listen.is_some_and(|address| !address.ip().is_loopback()) {
        section.problem(
            "listen",
            "is not a loopback address, and there is no token_file: anybody could read and write",
            "use 127.0.0.1 or [::1], or name the file of a token",
        );
    }
    if token_file.is_some() && listen.is_none() {
        section.problem("token_file", "is of no use without listen", "remove it");
    }
    section.refuse_unknown();
    Http { listen, token_file }
}

/// `IP:PORT`, or nothing when the text is empty.
fn listen(value: &DeValue<'_>) -> Result<Option<SocketAddr>, Wrong> {
    const FORM: &str = "write it like \"127.0.0.1:9180\", or \"\" for none";
    let written = value::text_of(value, "an address", FORM)?;
    if written.is_empty() {
        return Ok(None);
    }
    let parsed = written.parse().map(Some);
    parsed.map_err(|_| Wrong::new(format!("{written:?} is not an address"), FORM))
}

pub(super) fn print(page: &mut Page, http: &Http) {
    page.head("[http]");
    let listen = http.listen.map(|address| address.to_string());
    page.text("listen", &listen.unwrap_or_default());
    page.path("token_file", http.token_file.as_ref());
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{check, parse};

    #[test]
    fn what_others_can_reach_needs_a_token() {
        check(
            "[http]\nlisten = '0.0.0.0:9180'",
            "t.toml:7: http.listen: is not a loopback address, and there is no token_file: anybody \
             could read and write; use 127.0.0.1 or [::1], or name the file of a token",
        );
        check(
            "[http]\nlisten = ''\ntoken_file = '/t'",
            "t.toml:8: http.token_file: is of no use without listen; remove it",
        );
        let head = "[gateway]\nid = 'gw'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n";
        let config = parse(&format!("{head}[http]\nlisten = '0.0.0.0:1'\ntoken_file = '/t'\n"));
        assert_eq!(parse(&config.print()), config);
        assert_eq!(config.http.token_file.as_deref(), Some("/t".as_ref()));
    }

    #[test]
    fn the_keys_of_a_source_that_is_posted_to_are_checked() {
        let head = "[gateway]\nid = 'gw'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n";
        let source = "[[source]]\nname = 'a'\ntype = 'http'";
        let lines = "max_body = '2MiB'\nformat = 'influx'\n[source.map]\nvalues = ''\n";
        let config = parse(&format!("{head}{source}\n{lines}"));
        assert_eq!(parse(&config.print()), config);
        check(
            &format!("{source}\nmax_body = '17MiB'"),
            "t.toml:9: source.max_body: \"17MiB\" is out of range; use 1KiB to 16MiB",
        );
        check(
            &format!("{source}\naddress = '127.0.0.1:1'"),
            "t.toml:9: source.address: unknown key; known here: name, type, max_body, time, format, \
             max_line, queue_max, entity, time_unit, rename, unit, quality, map, accumulate, \
             deadband, dedupe",
        );
    }
}
