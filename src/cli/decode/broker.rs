//! Payloads straight from a broker.

use std::path::PathBuf;
use std::time::Duration;

use rumqttc::v5::MqttOptions;

use super::PACKET_BYTES_MAX;
use crate::cli::subscription::Subscription;
use crate::config::MqttUrl;
use crate::exit::{Exit, Failure};
use crate::mqtt::{self, Identity, Login};

const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Where the broker is, who we are to it, what we want of it.
#[derive(Debug, clap::Args)]
pub(super) struct Broker {
    /// Decode what a broker publishes (MQTT 5), from now on.
    #[arg(long, value_name = "URL", requires = "topic", value_parser = MqttUrl::parse)]
    pub(super) url: Option<MqttUrl>,
    /// What to subscribe to, with + and #.
    #[arg(long, value_name = "FILTER", requires = "url")]
    topic: Option<String>,
    /// End after N messages.
    #[arg(long, value_name = "N", requires = "url")]
    count: Option<u64>,
    /// The user name, if the broker wants one.
    #[arg(long, value_name = "NAME", requires = "url")]
    username: Option<String>,
    /// The file that holds the password.
    #[arg(long, value_name = "FILE", requires = "username")]
    password_file: Option<PathBuf>,
    /// PEM certificates that are trusted; mqtts and wss need them.
    #[arg(long, value_name = "FILE", requires = "url")]
    ca_file: Option<PathBuf>,
    /// Our PEM certificate, if the broker wants one.
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// Its PEM key.
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
}

impl Broker {
    /// Hands each message over with its topic, until `take` says that it was the
    /// last or `--count` is reached.
    ///
    /// # Errors
    /// The connection fails or ends, or `take` does.
    pub(super) fn follow(
        &self,
        url: &MqttUrl,
        take: impl FnMut(&str, &[u8]) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::io("the runtime cannot start", &error))?;
        runtime.block_on(self.subscribe_and_take(url, take))
    }

    async fn subscribe_and_take(
        &self,
        url: &MqttUrl,
        mut take: impl FnMut(&str, &[u8]) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let failure = |reason: String| Failure::new(Exit::Io, format_args!("{url}: {reason}"));
        let options = self.options(url).await.map_err(failure)?;
        let filter = self.topic.as_deref().unwrap_or_default();
        let mut subscription = Subscription::open(options, filter).await.map_err(failure)?;
        let mut taken = 0;
        while self.count.is_none_or(|count| taken < count) {
            let message = subscription.next().await.map_err(failure)?;
            taken += 1;
            if !take(&String::from_utf8_lossy(&message.topic), &message.payload)? {
                break;
            }
        }
        Ok(())
    }

    async fn options(&self, url: &MqttUrl) -> Result<MqttOptions, String> {
        let login = Login {
            tls: url.is_tls,
            username: self.username.clone(),
            password_file: self.password_file.clone(),
            ca_file: self.ca_file.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
            time_floor_s: 0,
        };
        let id = format!("tidegate-decode-{}", std::process::id());
        let (host, path) = (url.host.clone(), url.path.clone());
        let broker = mqtt::Broker { host, port: url.port, path, client_id: id, login };
        let secrets = broker.read(&mut Identity::default()).await;
        let secrets = secrets.map_err(|failure| failure.reason)?;
        let mut options = broker.options_v5(secrets);
        options.set_keep_alive(KEEP_ALIVE).set_max_packet_size(Some(PACKET_BYTES_MAX));
        Ok(options)
    }
}
