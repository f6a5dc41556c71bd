//! The keys of a source of type `mqtt`: a broker whose topics are readings.

use std::time::Duration;

use super::agree::Claim;
use super::file::{Section, Wrong};
use super::login::{self, Login};
use super::page::{Page, word};
use super::topic::{Filter, NameTemplate};
use super::units::{HOUR, TEN_YEARS, ms, secs};
use super::uplink::{PROTOCOLS, client_id, whole_seconds};
use super::value::{self, duration_text, quoted};
use super::{EntityTemplate, MqttUrl, Output, OutputKind, Protocol, Source, SourceKind, Uplink};
use crate::core::dedupe::By;
use crate::core::limits;

/// A source of type `mqtt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttSource {
    /// Where the broker is.
    pub url: MqttUrl,
    /// The MQTT version.
    pub protocol: Protocol,
    /// The client identifier, which is the name of the session at the broker.
    pub client_id: String,
    /// Who we are to it, and whom we trust.
    pub login: Login,
    /// Between two signs of life; whole seconds, 5 to 65,535.
    pub keep_alive: Duration,
    /// How long the broker keeps the session while nobody is connected, 1 m to
    /// 10 years; `None`: for ever. MQTT 5 only, 3.1.1 has no word for it.
    pub session_expiry: Option<Duration>,
    /// What is subscribed to, at least one; the first that matches a message says
    /// what becomes of it.
    pub topics: Vec<Topic>,
    /// First wait between two attempts to connect.
    pub reconnect_min: Duration,
    /// Greatest wait between two attempts to connect.
    pub reconnect_max: Duration,
}

/// One element of `topics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Which messages.
    pub filter: Filter,
    /// What their payloads are, and who names the readings.
    pub payload: Payload,
}

/// How payloads are written, and who names the readings in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A bare number, boolean or text, named by the topic.
    Value {
        /// The entity; `None`: that of the source.
        entity: Option<NameTemplate>,
        /// The property.
        property: NameTemplate,
    },
    /// One JSON object. What it does not name, the topic names.
    Json {
        /// The entity of objects that name none; `None`: that of the source.
        entity: Option<NameTemplate>,
        /// The property of objects that have a value and name none.
        property: Option<NameTemplate>,
    },
    /// Points of the InfluxDB line protocol, which name themselves.
    Influx {
        /// An [`EntityTemplate`]; `None` is the measurement with its tags.
        entity: Option<String>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PayloadFormat {
    Value,
    Json,
    Influx,
}

const FORMATS: [(&str, PayloadFormat); 3] = [
    ("value", PayloadFormat::Value),
    ("json", PayloadFormat::Json),
    ("influx", PayloadFormat::Influx),
];

/// Topics of one source: each is one filter of the SUBSCRIBE packet.
const TOPICS_MAX: usize = 256;
/// All filters of one source: they are remembered beside the journal, together with
/// those that they took the place of.
const FILTER_BYTES_MAX: usize = limits::POSITION_BYTES_MAX * 7 / 16;
const SESSION_EXPIRY: Duration = secs(7 * 24 * 3_600);
const SESSION_EXPIRY_MAX: Duration = TEN_YEARS;
const RECONNECT: (Duration, Duration) = (secs(1), secs(30));

/// The keys of a section.
pub(super) fn read(section: &Section<'_>, gateway: &str, name: Option<&str>) -> MqttSource {
    let wait = || value::duration(ms(10)..=HOUR);
    let url = section.require("url", "\"mqtt://127.0.0.1:1883\"", super::url::mqtt_url);
    let own_id = format!("tidegate-{gateway}-{}", name.unwrap_or_default());
    let protocol = section.read("protocol", Protocol::V5, value::one_of(&PROTOCOLS));
    let login = login::read(section, url.as_ref());
    let source = MqttSource {
        url: url.unwrap_or_else(MqttUrl::nowhere),
        protocol,
        client_id: section.read("client_id", own_id, client_id),
        login,
        keep_alive: section.read("keep_alive", secs(30), whole_seconds),
        session_expiry: session_expiry(section, protocol),
        topics: topics(section),
        reconnect_min: section.read("reconnect_min", RECONNECT.0, wait()),
        reconnect_max: section.read("reconnect_max", RECONNECT.1, wait()),
    };
    if source.reconnect_max < source.reconnect_min {
        section.problem("reconnect_max", "is less than reconnect_min", "raise it");
    }
    if !source.url.is_nowhere() && (name.is_some() || section.has("client_id")) {
        section.claim("client_id", Claim::session(&source.url, &source.client_id));
    }
    source
}

fn session_expiry(section: &Section<'_>, protocol: Protocol) -> Option<Duration> {
    if protocol == Protocol::V311 {
        let what = "is for MQTT 5 only: a broker of 3.1.1 has its own rule";
        section.out_of_place("session_expiry", what, "remove it, or write protocol = \"5\"");
        return Some(SESSION_EXPIRY);
    }
    let length = value::duration(secs(60)..=SESSION_EXPIRY_MAX);
    section.read("session_expiry", Some(SESSION_EXPIRY), value::or_none(length))
}

fn topics(section: &Section<'_>) -> Vec<Topic> {
    let sections = section.tables("topics");
    if sections.is_empty() && !section.is_noted("topics") {
        let what = if section.has("topics") { "is empty" } else { "missing" };
        let fix = "write topics = [ { filter = \"plant/+/+\", entity = \"{1}\", property = \"{2}\", \
                   format = \"value\" } ]";
        section.problem("topics", what, fix);
    }
    if sections.len() > TOPICS_MAX {
        let what = format!("{} filters are too many", sections.len());
        section.problem("topics", what, format!("use at most {TOPICS_MAX}"));
    }
    let mut filters: Vec<Filter> = Vec::new();
    let topics: Vec<Topic> =
        sections.iter().filter_map(|section| topic(section, &mut filters)).collect();
    let bytes: usize = filters.iter().map(|filter| filter.as_str().len() + 1).sum();
    if bytes > FILTER_BYTES_MAX {
        let what = format!("the filters have {bytes} bytes together");
        let fix = format!("use at most {FILTER_BYTES_MAX}: two sources, or wildcards");
        section.problem("topics", what, fix);
    }
    topics
}

/// One element of `topics`, whose filter joins those before it. `None` only after a
/// problem was noted.
fn topic(section: &Section<'_>, filters: &mut Vec<Filter>) -> Option<Topic> {
    let filter = section.require("filter", "\"plant/+/+\"", |value| {
        let fix = "write it like \"plant/+/+\" or \"readers/#\"";
        Filter::parse(&value::text(value)?).map_err(|what| Wrong::new(what, fix))
    });
    if let Some(twice) = filter.as_ref().filter(|filter| filters.contains(filter)) {
        section.problem("filter", format!("{:?} is there twice", twice.as_str()), "leave one");
    }
    filters.extend(filter.clone());
    let wildcards = filter.as_ref().map_or(usize::MAX, Filter::wildcards);
    let name = |key: &'static str| {
        section.read(key, None, |value| {
            let text = value::text(value)?;
            check_length(&text)?;
            let fix = "use {1}, {2} … for the wildcards of the filter, and fixed text";
            let template = NameTemplate::parse(&text, wildcards);
            let template = template.map_err(|what| Wrong::new(what, fix))?;
            Ok(Some(template).filter(|_| !text.is_empty()))
        })
    };
    let format = section.read("format", PayloadFormat::Json, value::one_of(&FORMATS));
    let payload = match format {
        PayloadFormat::Json => {
            Some(Payload::Json { entity: name("entity"), property: name("property") })
        }
        PayloadFormat::Value => {
            let (entity, property) = (name("entity"), name("property"));
            if property.is_none() {
                let what = "missing, and a bare value does not name it";
                section.problem("property", what, "write property = \"{2}\"");
            }
            property.map(|property| Payload::Value { entity, property })
        }
        PayloadFormat::Influx => {
            let what = "is for value and json: the fields of points are properties";
            section.out_of_place("property", what, "remove it");
            Some(Payload::Influx { entity: section.read("entity", None, influx_entity) })
        }
    };
    section.refuse_unknown();
    Some(Topic { filter: filter?, payload: payload? })
}

fn influx_entity(value: &toml::de::DeValue<'_>) -> Result<Option<String>, Wrong> {
    let text = value::text(value)?;
    check_length(&text)?;
    EntityTemplate::parse(&text)
        .map_err(|what| Wrong::new(what, "use {measurement}, {tag:NAME} and fixed text"))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn check_length(text: &str) -> Result<(), Wrong> {
    if text.len() <= limits::NAME_BYTES_MAX {
        return Ok(());
    }
    let fix = format!("use at most {}", limits::NAME_BYTES_MAX);
    Err(Wrong::new(format!("has {} bytes", text.len()), fix))
}

/// What else this gateway has to do with brokers.
pub(super) struct Around<'a> {
    pub(super) gateway: &'a str,
    pub(super) uplinks: &'a [Uplink],
    pub(super) outputs: &'a [Output],
}

/// What must agree with the rest of the source, and with the rest of the gateway.
pub(super) fn agree(section: &Section<'_>, source: &Source, around: &Around<'_>) {
    let SourceKind::Mqtt(mqtt) = &source.kind else { return };
    let is_value = |topic: &&Topic| matches!(topic.payload, Payload::Value { .. });
    let bare = mqtt.topics.iter().filter(is_value).find(|topic| {
        source.entity.is_none() && matches!(&topic.payload, Payload::Value { entity: None, .. })
    });
    if let Some(bare) = bare {
        let what = format!("missing, and the topic {:?} has none of its own", bare.filter.as_str());
        section.problem("entity", what, "write entity = \"{1}\" in the topic");
    }
    // Of topics that cannot be read nobody knows what they have.
    let is_read = !mqtt.topics.is_empty();
    let has = |wanted: fn(&Payload) -> bool| mqtt.topics.iter().any(|topic| wanted(&topic.payload));
    let has_name = match source.dedupe.key {
        None => true,
        Some(By::Id) => has(|payload| matches!(payload, Payload::Json { .. })),
        Some(By::EventTime) => has(|payload| !matches!(payload, Payload::Value { .. })),
    };
    if is_read && !has_name {
        let what = "has nothing to go by: no topic has payloads that say it";
        section.problem("dedupe", what, "use format = \"json\", or key = \"none\"");
    }
    if mqtt.url.is_nowhere() {
        return;
    }
    let same = |url: &MqttUrl| (&url.host, url.port) == (&mqtt.url.host, mqtt.url.port);
    let uplinks = around.uplinks.iter().filter(|uplink| same(&uplink.url));
    let own = uplinks.flat_map(|uplink| own_topics(around.gateway, Some(uplink)));
    let is_output =
        |output: &&Output| matches!(&output.kind, OutputKind::Mqtt { url, .. } if same(url));
    let on_site = around.outputs.iter().filter(is_output);
    let own: Vec<String> =
        own.chain(on_site.flat_map(|_| own_topics(around.gateway, None))).collect();
    for topic in &mqtt.topics {
        if let Some(own) = own.iter().find(|own| topic.filter.captures(own).is_some()) {
            let what = format!(
                "{:?} takes in what this gateway sends there ({own}), round and round",
                topic.filter.as_str()
            );
            section.problem("topics", what, "write filters of your devices only");
        }
    }
}

/// Topics of every kind that this gateway publishes to; names are as good as any.
fn own_topics(gateway: &str, uplink: Option<&Uplink>) -> Vec<String> {
    let kinds = ["readings/s", "windows/w", "windows/w/e/p", "ordered/s", "frontier/s", "status"];
    let mut topics: Vec<String> =
        kinds.iter().map(|kind| format!("tidegate/{gateway}/{kind}")).collect();
    if let Some(uplink) = uplink {
        for topic in std::iter::once(&uplink.topic).chain(&uplink.backfill_topic) {
            let topic = topic.replace("{gateway}", gateway);
            let names = ["{source}", "{entity}", "{property}"];
            topics.push(names.iter().fold(topic, |topic, name| topic.replace(name, "x")));
        }
    }
    topics
}

/// Writes the keys as they are read.
pub(super) fn print(page: &mut Page, mqtt: &MqttSource) {
    page.text("type", "mqtt");
    page.text("url", &mqtt.url.to_string());
    page.text("protocol", word(&PROTOCOLS, mqtt.protocol));
    page.text("client_id", &mqtt.client_id);
    login::print(page, &mqtt.login);
    page.duration("keep_alive", mqtt.keep_alive);
    if mqtt.protocol == Protocol::V5 {
        let expiry = mqtt.session_expiry.map_or("none".to_owned(), duration_text);
        page.text("session_expiry", &expiry);
    }
    let lines: Vec<String> = mqtt.topics.iter().map(|one| format!("  {},\n", shown(one))).collect();
    page.raw("topics", format!("[\n{}]", lines.concat()));
    page.duration("reconnect_min", mqtt.reconnect_min);
    page.duration("reconnect_max", mqtt.reconnect_max);
}

fn shown(topic: &Topic) -> String {
    let of = |template: &Option<NameTemplate>| {
        quoted(template.as_ref().map_or("", NameTemplate::as_str))
    };
    let filter = quoted(topic.filter.as_str());
    match &topic.payload {
        Payload::Value { entity, property } => {
            let (entity, property) = (of(entity), quoted(property.as_str()));
            format!(
                "{{ filter = {filter}, entity = {entity}, property = {property}, format = \"value\" }}"
            )
        }
        Payload::Json { entity, property } => {
            let (entity, property) = (of(entity), of(property));
            format!(
                "{{ filter = {filter}, entity = {entity}, property = {property}, format = \"json\" }}"
            )
        }
        Payload::Influx { entity } => {
            let entity = quoted(entity.as_deref().unwrap_or_default());
            format!("{{ filter = {filter}, entity = {entity}, format = \"influx\" }}")
        }
    }
}

#[cfg(test)]
#[path = "mqtt_source_tests.rs"]
pub(super) mod tests;
