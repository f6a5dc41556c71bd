//! `[[uplink]]`: the ways up.

use std::time::Duration;

use super::agree::Claim;
use super::file::{Section, Wrong};
use super::login::Login;
use super::page::{Page, word};
use super::units::{HOUR, KIB, MIB, ms, secs};
use super::url::{self, MqttUrl};
use super::{login, value};
use crate::core::forward::{Batching, ForwardSettings, ShareSettings};
use crate::core::limits;
use crate::core::settings::UplinkSettings;
use crate::core::time::Span;

/// What a reading takes in a batch besides its texts, at most, in bytes: the
/// keys, the numbers and the times of the format.
const JSON_READING_BYTES: u64 = 420;
/// The same in postcard, its dictionary included.
const POSTCARD_READING_BYTES: u64 = 96;

/// `[[uplink]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Uplink {
    /// Its name in status and metrics.
    pub name: String,
    /// The broker.
    pub url: MqttUrl,
    /// The version of MQTT.
    pub protocol: Protocol,
    /// The MQTT client identifier.
    pub client_id: String,
    /// Who we are to it, and whom we trust.
    pub login: Login,
    /// MQTT keep-alive, whole seconds.
    pub keep_alive: Duration,
    /// Publishes without PUBACK, at most.
    pub inflight_max: usize,
    /// How long a publish may wait for its PUBACK.
    pub ack_timeout: Duration,
    /// Largest payload that is sent, in bytes; larger readings are set aside.
    pub max_payload: u64,
    /// What payloads look like.
    pub format: UplinkFormat,
    /// The topic template of readings.
    pub topic: String,
    /// The topic template of readings of the backlog, if it is another.
    pub backfill_topic: Option<String>,
    /// Which readings go first after an outage.
    pub order: Order,
    /// Part of the way that the backlog may take while live readings flow.
    pub backfill_share: f64,
    /// Readings of the backlog a second, at most.
    pub backfill_rate: Option<u64>,
    /// Readings in one payload, at most; formats of batches only.
    pub batch_max_readings: usize,
    /// Bytes of one payload, at most; formats of batches only.
    pub batch_max_bytes: u64,
    /// How long a batch that is not full waits for more.
    pub linger: Duration,
    /// Least time between two delivery frontiers of one source.
    pub frontier_interval: Duration,
    /// First wait between two attempts to connect.
    pub reconnect_min: Duration,
    /// Greatest wait between two attempts to connect.
    pub reconnect_max: Duration,
}

/// A version of MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// MQTT 5.
    V5,
    /// MQTT 3.1.1.
    V311,
}

/// What payloads look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UplinkFormat {
    /// One JSON object a reading.
    Json,
    /// One JSON object for readings of one source.
    JsonBatch,
    /// The same in postcard, zstd-compressed where it pays.
    PostcardBatch,
}

/// Which readings go first after an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those that come from then on; the backlog drains beside them.
    LiveFirst,
    /// The oldest: journal order.
    OldestFirst,
}

const FORMATS: [(&str, UplinkFormat); 3] = [
    ("json", UplinkFormat::Json),
    ("json-batch", UplinkFormat::JsonBatch),
    ("postcard-batch", UplinkFormat::PostcardBatch),
];
const ORDERS: [(&str, Order); 2] =
    [("live-first", Order::LiveFirst), ("oldest-first", Order::OldestFirst)];
pub(super) const PROTOCOLS: [(&str, Protocol); 2] =
    [("5", Protocol::V5), ("3.1.1", Protocol::V311)];

impl Uplink {
    /// What the agent needs to know of it.
    pub(super) fn settings(&self) -> UplinkSettings {
        UplinkSettings {
            name: self.name.as_str().into(),
            forward: ForwardSettings {
                inflight_max: self.inflight_max,
                is_live_first: self.order == Order::LiveFirst,
                backfill_min: limits::BACKFILL_MIN,
                share: ShareSettings { share: self.backfill_share, per_second: self.backfill_rate },
                batching: self.batching(),
                linger: Span::from_std(self.linger),
            },
            ack_timeout: Span::from_std(self.ack_timeout),
            backoff: (Span::from_std(self.reconnect_min), Span::from_std(self.reconnect_max)),
            frontier_interval: Span::from_std(self.frontier_interval),
        }
    }

    fn batching(&self) -> Batching {
        let reading_bytes = match self.format {
            UplinkFormat::Json => return Batching::SINGLE,
            UplinkFormat::JsonBatch => JSON_READING_BYTES,
            UplinkFormat::PostcardBatch => POSTCARD_READING_BYTES,
        };
        let (readings_max, bytes_max) = (self.batch_max_readings, self.batch_max_bytes);
        Batching { readings_max, bytes_max, reading_bytes }
    }
}

/// The uplinks of a file, as far as they can be read.
pub(super) fn uplinks(root: &Section<'_>, gateway: &str) -> Vec<Uplink> {
    let sections = root.tables("uplink");
    if sections.is_empty() && !root.is_noted("uplink") {
        root.problem("uplink", "missing", "write [[uplink]] with the broker's url");
    }
    if sections.len() > limits::UPLINKS_MAX {
        let what = format!("{} uplinks are too many", sections.len());
        root.problem("uplink", what, format!("use at most {}", limits::UPLINKS_MAX));
    }
    let mut read: Vec<Uplink> = Vec::new();
    for section in sections {
        read.push(uplink(&section, gateway, &read));
        section.refuse_unknown();
    }
    read
}

fn uplink(section: &Section<'_>, gateway: &str, others: &[Uplink]) -> Uplink {
    let topic = "tidegate/{gateway}/readings/{source}".to_owned();
    let inflight = value::integer(1..=limits::INFLIGHT_MAX as u64);
    let keep_alive = section.read("keep_alive", secs(30), whole_seconds);
    let patience = keep_alive.saturating_mul(2).max(secs(30));
    let broker = section.require("url", "\"mqtts://broker.example:8883\"", url::mqtt_url);
    let name = section.read("name", "main".to_owned(), value::name);
    if others.iter().any(|other| other.name == name) {
        section.problem("name", format!("{name:?} is taken"), "give each uplink its own");
    }
    // Two connections with one client id would throw each other out.
    let own_id = if others.is_empty() {
        format!("tidegate-{gateway}")
    } else {
        format!("tidegate-{gateway}-{name}")
    };
    let login = login::read(section, broker.as_ref());
    let format = section.read("format", UplinkFormat::Json, value::one_of(&FORMATS));
    let max_payload =
        section.read("max_payload", limits::MAX_PAYLOAD_DEFAULT, value::size(KIB..=16 * MIB));
    let batch_readings = value::integer(1..=limits::BATCH_READINGS_MAX as u64);
    let uplink = Uplink {
        name,
        url: broker.unwrap_or_else(MqttUrl::nowhere),
        protocol: section.read("protocol", Protocol::V5, value::one_of(&PROTOCOLS)),
        client_id: section.read("client_id", own_id, client_id),
        login,
        keep_alive,
        inflight_max: section.read("inflight_max", 100, inflight) as usize,
        ack_timeout: section.read("ack_timeout", patience, value::duration(secs(1)..=HOUR)),
        max_payload,
        format,
        topic: section.read("topic", topic, value::topic),
        backfill_topic: section.read("backfill_topic", None, optional_topic),
        order: section.read("order", Order::LiveFirst, value::one_of(&ORDERS)),
        backfill_share: section.read("backfill_share", 0.5, value::number(0.0..=1.0)),
        backfill_rate: section.read("backfill_rate", None, rate),
        batch_max_readings: section.read("batch_max_readings", 500, batch_readings) as usize,
        batch_max_bytes: section.read(
            "batch_max_bytes",
            (96 * KIB).min(max_payload),
            value::size(KIB..=16 * MIB),
        ),
        linger: section.read("linger", ms(0), value::duration(ms(0)..=secs(60))),
        frontier_interval: section.read(
            "frontier_interval",
            secs(5),
            value::duration(ms(100)..=HOUR),
        ),
        reconnect_min: section.read("reconnect_min", secs(1), value::duration(ms(10)..=HOUR)),
        reconnect_max: section.read("reconnect_max", secs(60), value::duration(ms(10)..=HOUR)),
    };
    agree(section, &uplink);
    if !uplink.url.is_nowhere() {
        section.claim("client_id", Claim::session(&uplink.url, &uplink.client_id));
    }
    uplink
}

/// Keys of an uplink that must agree with each other.
fn agree(section: &Section<'_>, uplink: &Uplink) {
    if uplink.reconnect_max < uplink.reconnect_min {
        section.problem("reconnect_max", "is less than reconnect_min", "raise it");
    }
    if uplink.format != UplinkFormat::Json {
        for (key, topic) in
            [("topic", Some(&uplink.topic)), ("backfill_topic", uplink.backfill_topic.as_ref())]
        {
            let is_per_series =
                topic.is_some_and(|t| t.contains("{entity}") || t.contains("{property}"));
            if is_per_series {
                let what = "names {entity} or {property}, and a batch holds readings of many";
                section.problem(key, what, "use {gateway} and {source}, or format = \"json\"");
            }
        }
    }
    if uplink.batch_max_bytes > uplink.max_payload {
        section.problem("batch_max_bytes", "is more than max_payload", "lower it");
    }
}

pub(super) fn whole_seconds(value: &toml::de::DeValue<'_>) -> Result<Duration, Wrong> {
    let length = value::duration(secs(5)..=secs(65_535))(value)?;
    if length.subsec_nanos() == 0 {
        return Ok(length);
    }
    Err(Wrong::new("is not a whole number of seconds", "MQTT knows no smaller unit here"))
}

pub(super) fn client_id(value: &toml::de::DeValue<'_>) -> Result<String, Wrong> {
    let id = value::text(value)?;
    if (1..=256).contains(&id.len()) && !id.chars().any(char::is_control) {
        return Ok(id);
    }
    Err(Wrong::new("is no client identifier", "use 1 to 256 bytes, no control characters"))
}

/// A topic template; nothing for the empty text.
fn optional_topic(value: &toml::de::DeValue<'_>) -> Result<Option<String>, Wrong> {
    if value.as_str() == Some("") { Ok(None) } else { value::topic(value).map(Some) }
}

/// `"none"`, or readings a second as in `"2000/s"`.
fn rate(value: &toml::de::DeValue<'_>) -> Result<Option<u64>, Wrong> {
    const FORM: &str = "write readings a second like \"2000/s\", or \"none\"";
    let written = value::text_of(value, "a rate", FORM)?;
    if written == "none" {
        return Ok(None);
    }
    let per_second = written.strip_suffix("/s").and_then(|number| number.trim().parse().ok());
    match per_second {
        Some(per_second @ 1..=10_000_000) => Ok(Some(per_second)),
        Some(_) => Err(Wrong::new(format!("{written:?} is out of range"), "use 1/s to 10000000/s")),
        None => Err(Wrong::new(format!("{written:?} is not a rate"), FORM)),
    }
}

/// All keys of an uplink with the values in force.
pub(super) fn print(page: &mut Page, uplink: &Uplink) {
    page.head("[[uplink]]");
    page.text("name", &uplink.name);
    page.text("url", &uplink.url.to_string());
    page.text("protocol", word(&PROTOCOLS, uplink.protocol));
    page.text("client_id", &uplink.client_id);
    login::print(page, &uplink.login);
    page.duration("keep_alive", uplink.keep_alive);
    page.raw("inflight_max", uplink.inflight_max);
    page.duration("ack_timeout", uplink.ack_timeout);
    page.size("max_payload", uplink.max_payload);
    page.text("format", word(&FORMATS, uplink.format));
    page.text("topic", &uplink.topic);
    page.text("backfill_topic", uplink.backfill_topic.as_deref().unwrap_or_default());
    page.text("order", word(&ORDERS, uplink.order));
    page.raw("backfill_share", format_args!("{:?}", uplink.backfill_share));
    let rate = uplink.backfill_rate.map_or("none".to_owned(), |rate| format!("{rate}/s"));
    page.text("backfill_rate", &rate);
    page.raw("batch_max_readings", uplink.batch_max_readings);
    page.size("batch_max_bytes", uplink.batch_max_bytes);
    page.duration("linger", uplink.linger);
    page.duration("frontier_interval", uplink.frontier_interval);
    page.duration("reconnect_min", uplink.reconnect_min);
    page.duration("reconnect_max", uplink.reconnect_max);
}
