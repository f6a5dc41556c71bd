//! What crosses the border to the uplinks.

use crate::core::clock::ClockState;
use crate::core::id::{Epoch, PublishId, Seq, SourceId};
use crate::core::reading::{Entry, Record};
use crate::core::time::{EventTime, IngestTime};

/// What the uplink reports.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkEvent {
    /// Connected: the broker's CONNACK was good.
    Up(LinkTerms),
    /// The connection is gone, or an attempt failed.
    Down {
        /// Why, for people.
        reason: String,
        /// What kind of cause.
        cause: DownCause,
        /// A random number for the backoff.
        draw: u64,
    },
    /// The broker acknowledged a publish.
    Puback {
        /// Which.
        id: PublishId,
        /// MQTT 5 reason code; 0 in MQTT 3.1.1.
        code: u8,
    },
    /// The publish was not sent: its payload is over a limit. If it is a batch, later
    /// publishes of its source and lane are not sent either, until their
    /// [`Publish::last_refused`] shows that the core knows of this.
    TooLarge {
        /// Which.
        id: PublishId,
        /// Its payload, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
}

/// What the reason code of a PUBACK says (MQTT 5, 3.4.2.1), for people.
pub const fn puback_meaning(code: u8) -> &'static str {
    match code {
        0x80 => "unspecified error",
        0x83 => "implementation specific error",
        0x87 => "not authorized",
        0x90 => "topic name invalid",
        0x91 => "packet identifier in use",
        0x97 => "quota exceeded",
        0x99 => "payload format invalid",
        _ => "refused",
    }
}

/// On which terms the broker accepted a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTerms {
    /// The broker's Receive Maximum (MQTT 5); 65,535 where it names none.
    pub receive_max: u16,
    /// Largest payload, in bytes, that surely fits the broker's Maximum Packet Size
    /// (MQTT 5); `None` where it names none. Batches are built to it.
    pub payload_max: Option<u64>,
    /// As the broker says; reported, never relied on.
    pub session_present: bool,
    /// What the broker retains of this gateway's delivery frontiers, where
    /// [`LinkCommand::Connect`] asked for it and the broker answered.
    pub frontiers: Vec<RetainedFrontier>,
}

/// A delivery frontier as the broker retains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedFrontier {
    /// The source.
    pub source: SourceId,
    /// The numbering.
    pub epoch: Epoch,
    /// Every number up to here was acknowledged by the broker or was in a gap record.
    pub through_seq: Seq,
}

/// Kinds of causes of a lost or refused connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownCause {
    /// Refused, unreachable, reset, timed out: the network or the broker.
    Network,
    /// The broker refused the CONNECT (credentials, identifier, banned).
    Refused,
    /// TLS: certificate or handshake.
    Tls,
    /// Another client took over this client id.
    TakenOver,
    /// The broker called a packet too large.
    PacketTooLarge,
    /// This gateway asked for it.
    Asked,
}

/// For the uplink.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly every command is a publish")]
pub enum LinkCommand {
    /// Connect now, with a new client.
    Connect {
        /// Whether to read the retained delivery frontiers before anything is
        /// sent.
        asks_frontiers: bool,
    },
    /// Give this connection up; answered by [`LinkEvent::Down`].
    Disconnect,
    /// Publish; only sent while up, never more than the in-flight bound.
    Publish(Publish),
}

/// One publish.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    /// Its number.
    pub id: PublishId,
    /// Whether it was there before the link came up.
    pub lane: Lane,
    /// The newest batch that was known to be too large when this publish was decided on.
    /// Publishes that were queued behind that batch before must not be sent: readings of
    /// one source and lane are first seen in order.
    pub last_refused: PublishId,
    /// Its content.
    pub body: PublishBody,
}

/// Whether something was committed before or after the link came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// After: fresh. Frontiers and status too.
    Live,
    /// Before: the backlog.
    Backfill,
}

impl Lane {
    /// As the user property `lane` of a PUBLISH has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Lane::Live => "live",
            Lane::Backfill => "backfill",
        }
    }
}

/// The content of a publish.
#[derive(Clone, Debug, PartialEq)]
pub enum PublishBody {
    /// An entry of the journal, on its own.
    Entry(Entry),
    /// Readings of one source and numbering, in order, that go together.
    Batch(Vec<Record>),
    /// A delivery frontier, retained.
    Frontier(Frontier),
    /// This gateway's state, retained.
    Status(LinkStatus),
}

/// What this gateway guarantees to have handed over, for one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontier {
    /// The source.
    pub source: SourceId,
    /// The numbering.
    pub epoch: Epoch,
    /// Every number up to here was acknowledged by the broker or is in a gap record.
    pub through_seq: Seq,
    /// Every reading with an earlier event time that this gateway took was acknowledged
    /// by the broker or is in a gap record, and by the source's own bound no earlier one
    /// is expected. `None` before the first plausible reading.
    pub complete_before: Option<EventTime>,
    /// Readings accepted and not yet acknowledged.
    pub pending: u64,
    /// When this was said.
    pub at: IngestTime,
}

/// What the status topic says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// False in the last message before a clean disconnect.
    pub is_online: bool,
    /// The numbering in use.
    pub epoch: Epoch,
    /// Readings accepted and not yet acknowledged, over all sources.
    pub pending: u64,
    /// State of the gateway's clock.
    pub clock: ClockState,
    /// When this was said.
    pub at: IngestTime,
}
