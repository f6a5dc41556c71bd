//! The consumer: an MQTT 5 client of its own, straight at the broker, that
//! notes what really arrives.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rumqttc::v5::MqttOptions;
use tokio::task::JoinHandle;

use crate::cli::audit::received::Received;
use crate::cli::subscription::Subscription;
use crate::exit::{Exit, Failure};

const PACKET_BYTES_MAX: u32 = 1024 * 1024;

/// A running subscriber; gone when dropped.
#[derive(Debug)]
pub(super) struct Subscriber {
    received: Arc<Mutex<Received>>,
    listening: JoinHandle<()>,
}

impl Subscriber {
    /// Subscribes to everything of Tidegate's. What is published after this
    /// returns is noted.
    ///
    /// # Errors
    /// The broker does not grant it.
    pub(super) async fn start(broker: SocketAddr) -> Result<Self, Failure> {
        let mut options =
            MqttOptions::new("demo-subscriber", broker.ip().to_string(), broker.port());
        options.set_keep_alive(Duration::from_secs(30)).set_max_packet_size(Some(PACKET_BYTES_MAX));
        let subscription = Subscription::open(options, "tidegate/#").await;
        let subscription = subscription.map_err(|reason| {
            Failure::new(Exit::Io, format_args!("the demo's broker: {reason}"))
        })?;
        let received = Arc::new(Mutex::new(Received::default()));
        let listening = tokio::spawn(listen(subscription, Arc::clone(&received)));
        Ok(Self { received, listening })
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

async fn listen(mut subscription: Subscription, received: Arc<Mutex<Received>>) {
    while let Ok(message) = subscription.next().await {
        let topic = String::from_utf8_lossy(&message.topic);
        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
        received.take(&topic, &message.payload);
    }
}
