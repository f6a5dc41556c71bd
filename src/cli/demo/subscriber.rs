//! The consumer: an MQTT 5 client of its own, straight at the broker, that
//! notes what really arrives.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, SubscribeReasonCode};
use rumqttc::v5::{AsyncClient, Event, EventLoop, MqttOptions};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::cli::audit::received::Received;
use crate::exit::{Exit, Failure};

const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(5);
const PACKET_BYTES_MAX: u32 = 1024 * 1024;

/// A running subscriber; gone when dropped.
#[derive(Debug)]
pub(super) struct Subscriber {
    received: Arc<Mutex<Received>>,
    listening: JoinHandle<()>,
    _client: AsyncClient,
}

impl Subscriber {
    /// Subscribes to everything of Tidegate's. What is published after this
    /// returns is noted.
    ///
    /// # Errors
    /// The broker does not grant QoS 1 within five seconds.
    pub(super) async fn start(broker: SocketAddr) -> Result<Self, Failure> {
        let mut options =
            MqttOptions::new("demo-subscriber", broker.ip().to_string(), broker.port());
        options.set_keep_alive(Duration::from_secs(30)).set_max_packet_size(Some(PACKET_BYTES_MAX));
        let (client, mut events) = AsyncClient::new(options, 16);
        let is_subscribed = timeout(SUBSCRIBED_WITHIN, subscribe(&client, &mut events)).await;
        if !is_subscribed.unwrap_or(false) {
            return Err(Failure::new(Exit::Io, "the demo's broker does not take a subscription"));
        }
        let received = Arc::new(Mutex::new(Received::default()));
        let listening = tokio::spawn(listen(events, Arc::clone(&received)));
        Ok(Self { received, listening, _client: client })
    }

    /// What came so far.
    pub(super) fn received(&self) -> MutexGuard<'_, Received> {
        // A panic ends the process: nobody sees a half-noted message.
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has lost the broker. What it missed would count as lost, so
    /// it does not connect again.
    pub(super) fn has_ended(&self) -> bool {
        self.listening.is_finished()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn subscribe(client: &AsyncClient, events: &mut EventLoop) -> bool {
    if client.subscribe("tidegate/#", QoS::AtLeastOnce).await.is_err() {
        return false;
    }
    loop {
        match events.poll().await {
            Ok(Event::Incoming(Packet::SubAck(answer))) => {
                let granted = SubscribeReasonCode::Success(QoS::AtLeastOnce);
                return answer.return_codes == [granted];
            }
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

async fn listen(mut events: EventLoop, received: Arc<Mutex<Received>>) {
    while let Ok(event) = events.poll().await {
        if let Event::Incoming(Packet::Publish(message)) = event {
            let topic = String::from_utf8_lossy(&message.topic);
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            received.take(&topic, &message.payload);
        }
    }
}
