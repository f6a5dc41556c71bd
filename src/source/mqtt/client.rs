//! rumqttc behind one face, for one who reads. Its MQTT 5 and 3.1.1 halves are two
//! sets of equal names.

use std::time::Duration;

use rumqttc::v5::mqttbytes::v5 as packet5;
use rumqttc::v5::mqttbytes::{QoS as QosV5, v5::RetainForwardRule};
use rumqttc::{Outgoing, QoS, v5};

use crate::config::{MqttSource, Protocol};
use crate::mqtt::{self, Broker, Failure, Secrets};

/// What a broker of MQTT 5 is told to send at most: longer messages never come.
/// Those that do come and are too long for a reading are refused one by one.
const PACKET_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// MQTT 3.1.1 has no word for it, and rumqttc ends the connection over a packet that
/// is longer than it was told: the broker would send it again for ever. So there is
/// no bound but that of MQTT itself.
const PACKET_BYTES_MAX_V311: usize = 268_435_455 + 5;
/// Room for every acknowledgement that can be due, for a subscription and a goodbye.
const REQUESTS_MAX: usize = u16::MAX as usize + 16;
/// For MQTT 5: the session never expires.
const NEVER_S: u32 = u32::MAX;

/// Where requests go.
pub(super) enum Client {
    V311(rumqttc::AsyncClient),
    V5(v5::AsyncClient),
}

/// What must be polled. Never drop a [`Connection::step`] half done.
pub(super) enum Connection {
    V311(Box<rumqttc::EventLoop>),
    V5 { event_loop: Box<v5::EventLoop>, keep_alive: Duration },
}

/// What happened on the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Connected {
        session_present: bool,
    },
    /// The broker's answer for each filter, in their order: why it is not taken.
    Subscribed(Vec<Option<String>>),
    /// The broker has let go of a filter, or why it has not.
    Unsubscribed(Option<String>),
    Message(Message),
    /// An acknowledgement was sent.
    Acknowledged,
    /// DISCONNECT was sent.
    SaidGoodbye,
    Other,
}

/// A message as it came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// UTF-8 by the standard; a broker that keeps to it less gets U+FFFD.
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
    pub(super) is_retained: bool,
    /// What the broker knows it by until it is acknowledged; `None` with QoS 0.
    pub(super) packet_id: Option<u16>,
}

/// A new client and event loop. Nothing is sent before the first step.
pub(super) fn open(
    settings: &MqttSource,
    broker: &Broker,
    receive_max: u16,
    secrets: Secrets,
) -> (Client, Connection) {
    match settings.protocol {
        Protocol::V311 => {
            let mut options = broker.options_v311(secrets);
            options
                .set_clean_session(false)
                .set_manual_acks(true)
                .set_keep_alive(settings.keep_alive)
                .set_max_packet_size(PACKET_BYTES_MAX_V311, PACKET_BYTES_MAX_V311);
            let (client, mut event_loop) = rumqttc::AsyncClient::new(options, REQUESTS_MAX);
            event_loop.set_network_options(mqtt::network());
            (Client::V311(client), Connection::V311(Box::new(event_loop)))
        }
        Protocol::V5 => {
            let mut options = broker.options_v5(secrets);
            let expiry = settings
                .session_expiry
                .map_or(NEVER_S, |length| u32::try_from(length.as_secs()).unwrap_or(NEVER_S));
            options
                .set_clean_start(false)
                .set_manual_acks(true)
                .set_keep_alive(settings.keep_alive)
                .set_session_expiry_interval(Some(expiry))
                .set_receive_maximum(Some(receive_max))
                .set_max_packet_size(Some(PACKET_BYTES_MAX));
            let keep_alive = settings.keep_alive;
            let (client, event_loop) = v5::AsyncClient::new(options, REQUESTS_MAX);
            (Client::V5(client), Connection::V5 { event_loop: Box::new(event_loop), keep_alive })
        }
    }
}

impl Client {
    /// Asks for the messages of all filters. False when there is no room.
    pub(super) fn subscribe(&self, settings: &MqttSource) -> bool {
        let filters = settings.topics.iter().map(|topic| topic.filter.to_string());
        match self {
            Client::V311(client) => {
                let filter = |path| rumqttc::SubscribeFilter::new(path, QoS::AtLeastOnce);
                client.try_subscribe_many(filters.map(filter)).is_ok()
            }
            Client::V5(client) => {
                let filter = |path: String| packet5::Filter {
                    // What the session knows already needs no telling.
                    retain_forward_rule: RetainForwardRule::OnNewSubscribe,
                    ..packet5::Filter::new(path, QosV5::AtLeastOnce)
                };
                client.try_subscribe_many(filters.map(filter)).is_ok()
            }
        }
    }

    /// Asks for no more messages of a filter. False when there is no room.
    pub(super) fn unsubscribe(&self, filter: &str) -> bool {
        match self {
            Client::V311(client) => client.try_unsubscribe(filter).is_ok(),
            Client::V5(client) => client.try_unsubscribe(filter).is_ok(),
        }
    }

    /// Acknowledges a message. False when there is no room.
    pub(super) fn acknowledge(&self, packet_id: u16) -> bool {
        match self {
            Client::V311(client) => {
                let mut publish = rumqttc::Publish::new("", QoS::AtLeastOnce, Vec::new());
                publish.pkid = packet_id;
                client.try_ack(&publish).is_ok()
            }
            Client::V5(client) => {
                let mut publish =
                    packet5::Publish::new("", QosV5::AtLeastOnce, Vec::<u8>::new(), None);
                publish.pkid = packet_id;
                client.try_ack(&publish).is_ok()
            }
        }
    }

    /// Asks for a DISCONNECT after everything handed over. False when there is no
    /// room.
    pub(super) fn goodbye(&self) -> bool {
        match self {
            Client::V311(client) => client.try_disconnect().is_ok(),
            Client::V5(client) => client.try_disconnect().is_ok(),
        }
    }
}

impl Connection {
    /// Connects at the first call; then sends, receives and keeps alive until there
    /// is something to tell.
    pub(super) async fn step(&mut self) -> Result<Step, Failure> {
        match self {
            Connection::V311(event_loop) => Ok(step_v311(event_loop.poll().await?)),
            Connection::V5 { event_loop, keep_alive } => {
                let step = step_v5(event_loop.poll().await?);
                if matches!(step, Step::Connected { .. }) {
                    mqtt::keep_pinging(event_loop, *keep_alive);
                }
                Ok(step)
            }
        }
    }

    /// Whether the next step is there already: what it tells came together with the
    /// one before it.
    pub(super) fn has_more(&self) -> bool {
        match self {
            Connection::V311(event_loop) => !event_loop.state.events.is_empty(),
            Connection::V5 { event_loop, .. } => !event_loop.state.events.is_empty(),
        }
    }
}

fn step_v311(event: rumqttc::Event) -> Step {
    use rumqttc::{Event, Packet, SubscribeReasonCode};
    match event {
        Event::Outgoing(outgoing) => step_out(&outgoing),
        Event::Incoming(Packet::ConnAck(connack)) => {
            Step::Connected { session_present: connack.session_present }
        }
        Event::Incoming(Packet::SubAck(suback)) => {
            let refused = |code: &SubscribeReasonCode| match code {
                SubscribeReasonCode::Success(_) => None,
                SubscribeReasonCode::Failure => Some("refused".to_owned()),
            };
            Step::Subscribed(suback.return_codes.iter().map(refused).collect())
        }
        Event::Incoming(Packet::UnsubAck(_)) => Step::Unsubscribed(None),
        Event::Incoming(Packet::Publish(publish)) => Step::Message(Message {
            topic: publish.topic,
            payload: publish.payload.to_vec(),
            is_retained: publish.retain,
            packet_id: (publish.qos != QoS::AtMostOnce).then_some(publish.pkid),
        }),
        Event::Incoming(_) => Step::Other,
    }
}

fn step_v5(event: v5::Event) -> Step {
    use packet5::{Packet, SubscribeReasonCode, UnsubAckReason};
    match event {
        v5::Event::Outgoing(outgoing) => step_out(&outgoing),
        v5::Event::Incoming(Packet::ConnAck(connack)) => {
            Step::Connected { session_present: connack.session_present }
        }
        v5::Event::Incoming(Packet::SubAck(suback)) => {
            let refused = |code: &SubscribeReasonCode| match code {
                SubscribeReasonCode::Success(_) => None,
                other => Some(format!("{other:?}")),
            };
            Step::Subscribed(suback.return_codes.iter().map(refused).collect())
        }
        v5::Event::Incoming(Packet::UnsubAck(unsuback)) => {
            let is_gone = |reason: &UnsubAckReason| {
                matches!(reason, UnsubAckReason::Success | UnsubAckReason::NoSubscriptionExisted)
            };
            let refused = unsuback.reasons.iter().find(|reason| !is_gone(reason));
            Step::Unsubscribed(refused.map(|reason| format!("{reason:?}")))
        }
        v5::Event::Incoming(Packet::Publish(publish)) => Step::Message(Message {
            topic: String::from_utf8_lossy(&publish.topic).into_owned(),
            payload: publish.payload.to_vec(),
            is_retained: publish.retain,
            packet_id: (publish.qos != QosV5::AtMostOnce).then_some(publish.pkid),
        }),
        v5::Event::Incoming(_) => Step::Other,
    }
}

fn step_out(outgoing: &Outgoing) -> Step {
    match outgoing {
        Outgoing::PubAck(_) => Step::Acknowledged,
        Outgoing::Disconnect => Step::SaidGoodbye,
        _ => Step::Other,
    }
}
