//! The agent: routes inputs to the parts of the core and collects their effects.

use std::collections::BTreeMap;

use super::clock::ClockReading;
use super::id::{Epoch, SourceId};
use super::seam::{DiskFacts, Effect, FullCause, Input, Now, Recovered};
use super::time::{EventTime, MonoTime, Span};

/// What the agent needs to know of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The longest a reading waits for its group commit.
    pub commit_interval: Span,
    /// Estimated bytes that make a commit due at once.
    pub commit_bytes: usize,
    /// Bytes that the data directory may take.
    pub quota_bytes: u64,
    /// Bytes of the file system that are never used.
    pub reserve_bytes: u64,
    /// What happens when either is reached.
    pub when_full: WhenFull,
    /// Publishes without PUBACK, at most.
    pub inflight_max: usize,
    /// How long a publish may wait for its PUBACK.
    pub ack_timeout: Span,
    /// First and greatest wait between two attempts to connect.
    pub backoff: (Span, Span),
    /// Least time between two delivery frontiers of one source.
    pub frontier_interval: Span,
    /// The configured sources.
    pub sources: BTreeMap<SourceId, SourceSettings>,
}

/// What to do when the buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest segment goes, with gap records.
    DropOldest,
    /// New readings are refused at the door.
    DropNewest,
    /// Sources wait.
    Block,
}

/// How the readings of one source are stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSettings {
    /// Whether the device's event time is used when there is one.
    pub trusts_device: bool,
    /// How far ahead of the gateway a device stamp is believed.
    pub future_limit: Span,
    /// Device stamps before this are implausible.
    pub earliest: EventTime,
    /// What becomes of an implausible device stamp.
    pub on_bad_time: OnBadTime,
    /// How far out of order readings may come: the watermark stays this far
    /// behind the newest plausible event time.
    pub bound: Span,
}

/// What becomes of a future or implausible device stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBadTime {
    /// It is kept and flagged.
    Flag,
    /// The gateway's time takes its place; the first stamp is kept beside it.
    Substitute,
    /// The reading goes to the quarantine.
    Quarantine,
}

/// The agent's books and state, for status and metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The numbering in use.
    pub epoch: Epoch,
    /// The clock at this turn.
    pub clock: ClockReading,
    /// Per source.
    pub sources: BTreeMap<SourceId, SourceStatus>,
    /// Entries in the journal that are not done with.
    pub backlog: u64,
    /// Entries accepted and not yet durable.
    pub uncommitted: u64,
    /// Event time span of what is stored: least event time not acknowledged.
    pub oldest_event: Option<EventTime>,
    /// Segments on disk.
    pub segments: usize,
    /// The disk.
    pub disk: DiskFacts,
    /// Which limit is reached, if one is.
    pub full: Option<FullCause>,
    /// Whether commits succeed.
    pub is_committing: bool,
    /// The uplink.
    pub link: LinkState,
    /// Publishes without PUBACK.
    pub inflight: usize,
    /// Age of the oldest of them.
    pub oldest_inflight: Option<Span>,
    /// Entries acknowledged per second, over the last seconds.
    pub ack_rate: f64,
    /// Readings accepted per second, over the last seconds.
    pub accept_rate: f64,
    /// Sources whose readings the broker refuses, with its reason code.
    pub held: BTreeMap<SourceId, u8>,
}

/// The uplink as the agent sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkState {
    /// An attempt is under way.
    Connecting,
    /// Connected.
    Up {
        /// Since.
        since: MonoTime,
    },
    /// Waiting before the next attempt.
    Down {
        /// Since the link was last up, or the start.
        since: MonoTime,
        /// Next attempt.
        retry_at: MonoTime,
        /// Why.
        reason: String,
    },
    /// Stopped on purpose.
    Stopped,
}

/// The books of one source: `accepted = acknowledged + stored + evicted + lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourceStatus {
    /// Readings accepted (durable).
    pub accepted: u64,
    /// Readings acknowledged by the broker.
    pub acknowledged: u64,
    /// Readings in the journal, not yet done with.
    pub stored: u64,
    /// Readings evicted.
    pub evicted: u64,
    /// Readings lost to damage or refused by the broker.
    pub lost: u64,
    /// Inputs refused since this process started.
    pub quarantined: u64,
    /// Readings refused at the door since this process started, buffer full.
    pub refused_full: u64,
    /// Stamps flagged future or past since this process started.
    pub implausible: u64,
    /// Monotonic time of the last reading.
    pub last_reading: Option<MonoTime>,
}

/// The core of Tidegate. See the crate docs for its place.
#[derive(Debug)]
pub struct Agent {}

impl Agent {
    /// An agent that goes on from what the store recovered. `epoch_nonce` is a
    /// random number, used if a new numbering must start.
    pub fn new(
        settings: Settings,
        recovered: Recovered,
        epoch_nonce: u32,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) -> Self {
        let _ = (settings, recovered, epoch_nonce, now, effects);
        Self {}
    }

    /// Takes one input.
    pub fn handle(&mut self, now: &Now, input: Input, effects: &mut Vec<Effect>) {
        let _ = (now, input, effects);
    }

    /// Ends a turn: commits what is due, sends what can be sent. Also called
    /// when [`Agent::next_deadline`] has come.
    pub fn end_turn(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        let _ = (now, effects);
    }

    /// Whether more readings may be handed in. While false the driver leaves
    /// them in the sources' queue, and sources wait.
    pub fn accepts_readings(&self) -> bool {
        true
    }

    /// When [`Agent::end_turn`] must be called again at the latest, whatever
    /// else happens.
    pub fn next_deadline(&self) -> Option<MonoTime> {
        None
    }

    /// After [`Input::Stop`]: everything accepted is durable and nothing is in
    /// flight any more (or the link is down).
    pub fn is_settled(&self) -> bool {
        true
    }

    /// The books as they stand.
    #[expect(clippy::unimplemented, reason = "the agent is written after its seam")]
    pub fn status(&self, now: &Now) -> Status {
        let _ = now;
        unimplemented!()
    }
}
