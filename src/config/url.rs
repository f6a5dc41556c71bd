//! Where a broker is: `mqtt`, `mqtts`, and MQTT inside of WebSocket, `ws` and `wss`.

use std::fmt;

use toml::de::DeValue;

use super::file::Wrong;
use super::value::{self, Checked};

/// Where the broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttUrl {
    /// `mqtts` or `wss`.
    pub is_tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port; 1883 or 8883 unless written, of WebSocket 80 or 443.
    pub port: u16,
    /// `ws` and `wss`: where the web server takes MQTT, with a slash at its
    /// beginning; `/mqtt` unless written. `None` is MQTT without WebSocket.
    pub path: Option<String>,
}

const FORM: &str = "write it like \"mqtts://broker.example:8883\"";

impl MqttUrl {
    /// As it is written in the configuration.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn parse(written: &str) -> Result<MqttUrl, String> {
        mqtt_url_of(written).map_err(|wrong| format!("{}: {}", wrong.what, wrong.fix))
    }

    /// Stands in for one that cannot be used.
    pub(super) fn nowhere() -> MqttUrl {
        MqttUrl { is_tls: true, host: String::new(), port: 0, path: None }
    }

    /// Whether it stands in for one that cannot be used.
    pub(super) fn is_nowhere(&self) -> bool {
        self.host.is_empty()
    }
}

impl fmt::Display for MqttUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_tls, host, port, path } = self;
        let scheme = match (path, is_tls) {
            (None, false) => "mqtt",
            (None, true) => "mqtts",
            (Some(_), false) => "ws",
            (Some(_), true) => "wss",
        };
        let path = path.as_deref().unwrap_or_default();
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{port}{path}"),
            false => write!(f, "{scheme}://{host}:{port}{path}"),
        }
    }
}

/// `mqtt://host[:port]`, `mqtts://host[:port]`, `ws://host[:port][/path]` or
/// `wss://host[:port][/path]`.
pub(super) fn mqtt_url(value: &DeValue<'_>) -> Checked<MqttUrl> {
    mqtt_url_of(&value::text_of(value, "a url", FORM)?)
}

/// The same of a text.
pub(super) fn mqtt_url_of(written: &str) -> Checked<MqttUrl> {
    let wrong = |what: String| Wrong::new(what, FORM);
    let Some((scheme, rest)) = written.split_once("://") else {
        return Err(wrong(format!("{written:?} has no scheme")));
    };
    let (is_tls, is_websocket, default_port) = match scheme {
        "mqtt" => (false, false, 1883),
        "mqtts" => (true, false, 8883),
        "ws" => (false, true, 80),
        "wss" => (true, true, 443),
        other => {
            let what = format!("the scheme {other:?} is not known");
            return Err(Wrong::new(what, "use mqtt, mqtts, ws or wss"));
        }
    };
    if rest.contains('@') {
        // Not repeated in the message: it may hold a password.
        let what = "the URL holds a user name".to_owned();
        return Err(Wrong::new(what, "use the keys username and password_file"));
    }
    let (rest, path) = match rest.find('/') {
        Some(slash) if is_websocket => (&rest[..slash], Some(web_path(&rest[slash..])?)),
        _ if is_websocket => (rest, Some("/mqtt".to_owned())),
        _ => (rest.strip_suffix('/').unwrap_or(rest), None),
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let port = port.map_or(Some(default_port), |port| port.parse().ok().filter(|port| *port > 0));
    let Some(port) = port else {
        return Err(wrong(format!("{written:?} has no valid port")));
    };
    let is_v6 = host.starts_with('[') && host.ends_with(']');
    let bare = if is_v6 { &host[1..host.len() - 1] } else { host };
    let is_odd = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '[' | ']');
    let is_valid = match is_v6 {
        true => bare.parse::<std::net::Ipv6Addr>().is_ok(),
        false => !bare.is_empty() && !bare.contains(is_odd) && !bare.contains(':'),
    };
    if !is_valid {
        return Err(wrong(format!("{written:?} has no valid host")));
    }
    Ok(MqttUrl { is_tls, host: bare.to_owned(), port, path })
}

/// The path of a WebSocket url. It stands in logs and in the status: no place for a
/// query, which is where tokens are put.
fn web_path(path: &str) -> Checked<String> {
    if path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte)) {
        return Ok(path.to_owned());
    }
    let fix = "use visible ASCII without ? and #, like \"/mqtt\"; for secrets there are username, \
               password_file, cert_file and key_file";
    Err(Wrong::new("the path of the URL is not taken", fix))
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
