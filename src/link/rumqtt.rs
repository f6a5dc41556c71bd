//! rumqttc behind one face. Its MQTT 5 and 3.1.1 halves are two sets of equal
//! names; here they become one [`Client`] to hand publishes to and one
//! [`Connection`] that takes [`Step`]s, so that the adapter is written once.
//!
//! What is relied on, each a test in `tests/link.rs`: `Outgoing::Publish` comes
//! in the order of the requests; a packet identifier is free again with its
//! PUBACK; events that came before an error are still in `state.events`.

use std::time::Duration;

use rumqttc::v5::mqttbytes::QoS as QosV5;
use rumqttc::v5::mqttbytes::v5 as packet5;
use rumqttc::{Outgoing, QoS, v5};

use super::message::Message;
use super::{ROOM, Settings};
use crate::core::seam::Lane;
use crate::mqtt::{self, Failure, Protocol, Secrets};

/// rumqttc refuses a shorter keep-alive on MQTT 5, and MQTT a longer one.
const KEEP_ALIVE_S: (u64, u64) = (5, 65_535);
/// We read but our own frontiers; no packet comes near this.
const INCOMING_BYTES_MAX: u32 = 1024 * 1024;
/// rumqttc's own limits on what we send: none, the adapter has checked.
const OUTGOING_BYTES_MAX: usize = u32::MAX as usize;
/// Least size of rumqttc's table of packet identifiers. The larger it is, the
/// longer a missing PUBACK goes unnoticed by it and stalls nothing: rumqttc
/// stops when an identifier comes round that is still in use.
const PACKET_IDS_MIN: usize = 1_024;

/// The longer of the two names.
const LANE_BYTES_MAX: usize = Lane::Backfill.as_str().len();

/// Where publishes go.
pub(super) enum Client {
    V311(rumqttc::AsyncClient),
    V5(v5::AsyncClient),
}

/// What must be polled. Never drop a [`Connection::step`] half done: a request
/// taken and not yet written would be lost.
pub(super) enum Connection {
    V311(Box<rumqttc::EventLoop>),
    V5 { event_loop: Box<v5::EventLoop>, keep_alive: Duration },
}

/// What happened on the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Connected(Terms),
    /// The oldest request not yet sent was sent with this packet identifier.
    Sent(u16),
    /// The oldest request not yet sent waits: its packet identifier is in use.
    Collided(u16),
    Puback {
        packet_id: u16,
        code: u8,
    },
    /// The broker took our subscription, or did not.
    Subscribed {
        is_taken: bool,
    },
    Unsubscribed,
    /// Somebody's publish, on a topic that we asked for.
    Message {
        topic: String,
        payload: Vec<u8>,
    },
    Other,
}

/// The broker's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) session_present: bool,
    pub(super) receive_max: u16,
    /// Longest packet the broker takes, in bytes.
    pub(super) packet_max: Option<u32>,
    pub(super) takes_retained: bool,
    pub(super) takes_qos_1: bool,
}

/// A new client and event loop. Nothing is sent before the first step.
pub(super) fn open(settings: &Settings, secrets: Secrets) -> (Client, Connection) {
    let requests_max = settings.inflight_max + ROOM;
    match settings.protocol {
        Protocol::V311 => {
            let options = options_v311(settings, secrets);
            let (client, mut event_loop) = rumqttc::AsyncClient::new(options, requests_max);
            event_loop.set_network_options(mqtt::network());
            (Client::V311(client), Connection::V311(Box::new(event_loop)))
        }
        Protocol::V5 => {
            let options = options_v5(settings, secrets);
            let keep_alive = options.keep_alive();
            let (client, event_loop) = v5::AsyncClient::new(options, requests_max);
            (Client::V5(client), Connection::V5 { event_loop: Box::new(event_loop), keep_alive })
        }
    }
}

fn options_v311(settings: &Settings, secrets: Secrets) -> rumqttc::MqttOptions {
    let mut options = settings.broker.options_v311(secrets);
    options
        .set_clean_session(true)
        .set_keep_alive(keep_alive(settings))
        .set_inflight(packet_ids(settings))
        .set_max_packet_size(INCOMING_BYTES_MAX as usize, OUTGOING_BYTES_MAX);
    let will = Message::will(settings);
    options.set_last_will(rumqttc::LastWill::new(
        will.topic,
        will.payload,
        QoS::AtLeastOnce,
        will.is_retained,
    ));
    options
}

fn options_v5(settings: &Settings, secrets: Secrets) -> v5::MqttOptions {
    let mut options = settings.broker.options_v5(secrets);
    options
        .set_clean_start(true)
        .set_keep_alive(keep_alive(settings))
        .set_outgoing_inflight_upper_limit(packet_ids(settings))
        .set_max_packet_size(Some(INCOMING_BYTES_MAX));
    let will = Message::will(settings);
    options.set_last_will(packet5::LastWill::new(
        will.topic,
        will.payload,
        QosV5::AtLeastOnce,
        will.is_retained,
        None,
    ));
    options
}

fn keep_alive(settings: &Settings) -> Duration {
    let (least, most) = KEEP_ALIVE_S;
    Duration::from_secs(settings.keep_alive.as_secs().clamp(least, most))
}

fn packet_ids(settings: &Settings) -> u16 {
    let wanted = (2 * settings.inflight_max + ROOM).max(PACKET_IDS_MIN);
    u16::try_from(wanted).unwrap_or(u16::MAX - 1)
}

impl Client {
    /// Hands a QoS 1 publish over, without waiting. False when there is no room.
    pub(super) fn publish(&self, message: Message) -> bool {
        let Message { topic, payload, is_retained, content_type, lane, key } = message;
        match self {
            Client::V311(client) => {
                client.try_publish(topic, QoS::AtLeastOnce, is_retained, payload).is_ok()
            }
            Client::V5(client) => {
                let qos = QosV5::AtLeastOnce;
                let properties = properties(content_type, lane, key);
                client
                    .try_publish_with_properties(topic, qos, is_retained, payload, properties)
                    .is_ok()
            }
        }
    }

    /// Asks for messages, at most once each. False when there is no room.
    pub(super) fn subscribe(&self, filter: String) -> bool {
        match self {
            Client::V311(client) => client.try_subscribe(filter, QoS::AtMostOnce).is_ok(),
            Client::V5(client) => client.try_subscribe(filter, QosV5::AtMostOnce).is_ok(),
        }
    }

    /// Asks for no more of them.
    pub(super) fn unsubscribe(&self, filter: String) -> bool {
        match self {
            Client::V311(client) => client.try_unsubscribe(filter).is_ok(),
            Client::V5(client) => client.try_unsubscribe(filter).is_ok(),
        }
    }

    /// Asks for a DISCONNECT after everything handed over. False when there is
    /// no room.
    pub(super) fn goodbye(&self) -> bool {
        match self {
            Client::V311(client) => client.try_disconnect().is_ok(),
            Client::V5(client) => client.try_disconnect().is_ok(),
        }
    }

    /// Bytes of the PUBLISH besides its payload, at most 6 too many: lengths of
    /// lengths are counted at their longest.
    pub(super) fn overhead(&self, message: &Message) -> u64 {
        const TYPE_AND_LENGTH: usize = 1 + 4;
        const PACKET_ID: usize = 2;
        let properties = match self {
            Client::V311(_) => 0,
            Client::V5(_) => {
                let lane = 1 + 2 + "lane".len() + 2 + LANE_BYTES_MAX;
                let key = message
                    .key
                    .as_ref()
                    .map_or(0, |key| 1 + 2 + "tidegate-key".len() + 2 + key.len() + lane);
                4 + 1 + 2 + message.content_type.len() + key
            }
        };
        (TYPE_AND_LENGTH + 2 + message.topic.len() + PACKET_ID + properties) as u64
    }
}

fn properties(content_type: &str, lane: Lane, key: Option<String>) -> packet5::PublishProperties {
    let user_properties = match key {
        None => Vec::new(),
        Some(key) => {
            vec![("tidegate-key".to_owned(), key), ("lane".to_owned(), lane.as_str().to_owned())]
        }
    };
    packet5::PublishProperties {
        user_properties,
        content_type: Some(content_type.to_owned()),
        ..packet5::PublishProperties::default()
    }
}

impl Connection {
    /// Connects at the first call; then sends, receives and keeps alive until
    /// there is something to tell.
    pub(super) async fn step(&mut self) -> Result<Step, Failure> {
        match self {
            Connection::V311(event_loop) => Ok(step_v311(event_loop.poll().await?)),
            Connection::V5 { event_loop, keep_alive } => {
                let step = step_v5(event_loop.poll().await?);
                if matches!(step, Step::Connected(_)) {
                    mqtt::keep_pinging(event_loop, *keep_alive);
                }
                Ok(step)
            }
        }
    }

    /// After an error: what had happened before it and was not told yet.
    pub(super) fn leftovers(&mut self) -> Vec<Step> {
        match self {
            Connection::V311(event_loop) => {
                event_loop.state.events.drain(..).map(step_v311).collect()
            }
            Connection::V5 { event_loop, .. } => {
                event_loop.state.events.drain(..).map(step_v5).collect()
            }
        }
    }
}

fn step_v311(event: rumqttc::Event) -> Step {
    match event {
        rumqttc::Event::Outgoing(outgoing) => step_out(&outgoing),
        rumqttc::Event::Incoming(rumqttc::Packet::PubAck(puback)) => {
            Step::Puback { packet_id: puback.pkid, code: 0 }
        }
        rumqttc::Event::Incoming(rumqttc::Packet::ConnAck(connack)) => Step::Connected(Terms {
            session_present: connack.session_present,
            receive_max: u16::MAX,
            packet_max: None,
            takes_retained: true,
            takes_qos_1: true,
        }),
        rumqttc::Event::Incoming(rumqttc::Packet::SubAck(suback)) => {
            let is_taken = |code: &_| matches!(code, rumqttc::SubscribeReasonCode::Success(_));
            Step::Subscribed { is_taken: suback.return_codes.iter().all(is_taken) }
        }
        rumqttc::Event::Incoming(rumqttc::Packet::UnsubAck(_)) => Step::Unsubscribed,
        rumqttc::Event::Incoming(rumqttc::Packet::Publish(publish)) => {
            Step::Message { topic: publish.topic, payload: publish.payload.to_vec() }
        }
        rumqttc::Event::Incoming(_) => Step::Other,
    }
}

fn step_v5(event: v5::Event) -> Step {
    match event {
        v5::Event::Outgoing(outgoing) => step_out(&outgoing),
        v5::Event::Incoming(packet5::Packet::PubAck(puback)) => {
            Step::Puback { packet_id: puback.pkid, code: puback_code(puback.reason) }
        }
        v5::Event::Incoming(packet5::Packet::ConnAck(connack)) => {
            let properties = connack.properties.as_ref();
            Step::Connected(Terms {
                session_present: connack.session_present,
                receive_max: properties.and_then(|p| p.receive_max).unwrap_or(u16::MAX),
                packet_max: properties.and_then(|p| p.max_packet_size),
                takes_retained: properties.and_then(|p| p.retain_available) != Some(0),
                takes_qos_1: properties.and_then(|p| p.max_qos) != Some(0),
            })
        }
        v5::Event::Incoming(packet5::Packet::SubAck(suback)) => {
            let is_taken = |code: &_| matches!(code, packet5::SubscribeReasonCode::Success(_));
            Step::Subscribed { is_taken: suback.return_codes.iter().all(is_taken) }
        }
        v5::Event::Incoming(packet5::Packet::UnsubAck(_)) => Step::Unsubscribed,
        v5::Event::Incoming(packet5::Packet::Publish(publish)) => {
            let topic = String::from_utf8_lossy(&publish.topic).into_owned();
            Step::Message { topic, payload: publish.payload.to_vec() }
        }
        v5::Event::Incoming(_) => Step::Other,
    }
}

fn step_out(outgoing: &Outgoing) -> Step {
    match outgoing {
        Outgoing::Publish(packet_id) => Step::Sent(*packet_id),
        Outgoing::AwaitAck(packet_id) => Step::Collided(*packet_id),
        _ => Step::Other,
    }
}

const fn puback_code(reason: packet5::PubAckReason) -> u8 {
    use packet5::PubAckReason as R;
    match reason {
        R::Success => 0x00,
        R::NoMatchingSubscribers => 0x10,
        R::UnspecifiedError => 0x80,
        R::ImplementationSpecificError => 0x83,
        R::NotAuthorized => 0x87,
        R::TopicNameInvalid => 0x90,
        R::PacketIdentifierInUse => 0x91,
        R::QuotaExceeded => 0x97,
        R::PayloadFormatInvalid => 0x99,
    }
}
