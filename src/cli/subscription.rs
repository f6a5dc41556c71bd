//! A consumer at a broker: an MQTT 5 client that takes what is published.

use std::time::Duration;

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, Publish, SubscribeReasonCode};
use rumqttc::v5::{AsyncClient, Event, EventLoop, MqttOptions};
use tokio::time::timeout;

use crate::mqtt;

const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(10);

/// A subscription that is granted. Gone when dropped; it does not connect again,
/// for what it missed meanwhile would be missing.
pub(super) struct Subscription {
    events: EventLoop,
    client: AsyncClient,
}

impl Subscription {
    /// Subscribes with QoS 1. What is published after this returns is taken.
    ///
    /// # Errors
    /// Why the broker does not grant it within ten seconds.
    pub(super) async fn open(options: MqttOptions, filter: &str) -> Result<Self, String> {
        let (client, events) = AsyncClient::new(options, 16);
        let mut subscription = Self { events, client };
        match timeout(SUBSCRIBED_WITHIN, subscription.subscribe(filter)).await {
            Ok(Ok(())) => Ok(subscription),
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err("the broker does not answer".to_owned()),
        }
    }

    async fn subscribe(&mut self, filter: &str) -> Result<(), String> {
        let request = self.client.subscribe(filter, QoS::AtLeastOnce).await;
        request.map_err(|error| format!("{filter:?} is no filter of topics: {error}"))?;
        loop {
            let Packet::SubAck(answer) = self.packet().await? else { continue };
            let granted = SubscribeReasonCode::Success(QoS::AtLeastOnce);
            return match answer.return_codes[..] {
                [code] if code == granted => Ok(()),
                _ => Err(format!("the broker does not grant {filter:?} with QoS 1")),
            };
        }
    }

    /// What is published next.
    ///
    /// # Errors
    /// Why the connection ended.
    pub(super) async fn next(&mut self) -> Result<Publish, String> {
        loop {
            if let Packet::Publish(message) = self.packet().await? {
                return Ok(message);
            }
        }
    }

    async fn packet(&mut self) -> Result<Packet, String> {
        loop {
            match self.events.poll().await {
                Ok(Event::Incoming(packet)) => return Ok(packet),
                Ok(Event::Outgoing(_)) => {}
                Err(error) => return Err(mqtt::Failure::from(error).reason),
            }
        }
    }
}
