//! The uplink: a rumqttc adapter without a memory of its own.
//!
//! The core decides what is sent and remembers what is not acknowledged; the
//! store holds it. This task turns [`LinkCommand`]s into packets and packets
//! into [`LinkEvent`]s, and forgets everything when a connection ends:
//!
//! ```text
//!            LinkCommand                                  packets
//!   driver ───────────────► adapter ── requests ─► rumqttc ◄──────► broker
//!          ◄───────────────         ◄─── steps ───
//!             LinkEvent     queued: ids handed to rumqttc, in order
//!                           in flight: packet id -> PublishId
//! ```
//!
//! - One connection, one rumqttc client and event loop, whatever the broker
//!   says about a session. No pending list, packet id or collision survives.
//! - Exactly one [`LinkEvent::Down`] ends each [`LinkCommand::Connect`].
//!   Between that `Down` and the next `Connect` every command is dropped: it
//!   was meant for the connection that is gone, and the core sends again.
//! - A publish is reported done by its own PUBACK only. One with a packet id
//!   that is not in flight is counted and ignored; rumqttc ends the connection
//!   over it, which costs a resend and loses nothing.
//! - The driver never blocks: commands have room for more than the in-flight
//!   bound, so `try_send` does. The adapter may wait for the driver.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::core::id::UplinkId;
use crate::core::seam::{LinkCommand, LinkEvent};
use crate::mqtt::{Broker, Failure, Protocol};
use crate::wire::topic::Template;

mod adapter;
mod message;
mod rumqtt;

/// Commands beyond the in-flight bound that find room: one frontier of each
/// source, the status, `Connect` and `Disconnect`, twice over.
const ROOM: usize = 2 * (crate::core::limits::SOURCES_MAX + 3);

/// What the uplink needs to know of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The gateway's id, as it stands in topics and payloads.
    pub gateway: String,
    /// Where the broker is, and who we are to it.
    pub broker: Broker,
    /// The MQTT version.
    pub protocol: Protocol,
    /// Seconds between two signs of life, taken as 5 to 65,535 s.
    pub keep_alive: Duration,
    /// Publishes without PUBACK, at most: 1 to
    /// [`INFLIGHT_MAX`](crate::core::limits::INFLIGHT_MAX). The core keeps to it.
    pub inflight_max: usize,
    /// Longest payload that is sent, in bytes. The broker's Maximum Packet Size
    /// applies besides.
    pub max_payload: u64,
    /// The topic of readings.
    pub topic: Template,
    /// The topic of readings of the backlog, if it is another.
    pub backfill_topic: Option<Template>,
    /// What batches look like.
    pub batch_format: BatchFormat,
}

/// What a batch of readings looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFormat {
    /// One JSON object.
    Json,
    /// Postcard, compressed where it pays.
    Postcard,
}

/// The running adapter. It ends when this is dropped or [`LinkHandle::stop`]ped.
#[derive(Debug)]
pub struct LinkHandle {
    /// Where commands go. `try_send` suffices: there is room for
    /// `inflight_max` publishes and more.
    pub commands: mpsc::Sender<LinkCommand>,
    task: JoinHandle<()>,
}

impl LinkHandle {
    /// Says goodbye to the broker, within a second, and ends the task.
    pub async fn stop(self) {
        drop(self.commands);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the link task ended badly");
        }
    }
}

/// Where events go, with the uplink they are of.
#[derive(Debug)]
struct Events {
    uplink: UplinkId,
    events: mpsc::Sender<(UplinkId, LinkEvent)>,
}

impl Events {
    /// Waits for room; an error when the driver is gone.
    async fn send(&self, event: LinkEvent) -> Result<(), Failure> {
        self.events.send((self.uplink, event)).await.map_err(|_| Failure::asked())
    }
}

/// Starts the adapter of an uplink. It does nothing before [`LinkCommand::Connect`].
///
/// `events` may be bounded as the driver likes: the adapter waits for room.
/// `draw` gives the random numbers for the core's backoff.
pub fn spawn(
    uplink: UplinkId,
    settings: Settings,
    events: mpsc::Sender<(UplinkId, LinkEvent)>,
    draw: fn() -> u64,
) -> LinkHandle {
    let (commands, inbox) = mpsc::channel(settings.inflight_max + ROOM);
    let task = tokio::spawn(adapter::run(settings, inbox, Events { uplink, events }, draw));
    LinkHandle { commands, task }
}
