//! What the core reports for logs and metrics.

use std::sync::Arc;

use super::clock::{ClockEvent, Correction};
use super::id::{Epoch, SourceId, UplinkId};
use super::reading::GapRecord;
use super::seam::{Checkpointed, DownCause};
use super::time::Span;

/// A fact that the core reports for logs and metrics. Said once per change, not
/// once per occurrence.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Recovery found a journal that cannot be continued: a new numbering.
    EpochStarted {
        /// The new numbering.
        epoch: Epoch,
        /// Why.
        reason: String,
    },
    /// A commit became durable.
    Committed {
        /// Entries in it.
        entries: u64,
        /// From asking to answer.
        took: Span,
    },
    /// A commit failed; it will be tried again.
    CommitFailed {
        /// How often in a row.
        attempts: u32,
        /// What went wrong.
        reason: String,
        /// When it is tried again.
        retry_in: Span,
    },
    /// The store works again after failed commits.
    StoreHealed {
        /// Failed commits in between.
        attempts: u32,
    },
    /// Something about an uplink.
    Link(UplinkId, LinkNotice),
    /// Readings will never arrive; a gap record says so.
    Gap(GapRecord),
    /// Disk space is short: what `when_full` does has begun.
    Full {
        /// Bytes taken.
        used_bytes: u64,
        /// Bytes free on the file system.
        free_bytes: u64,
        /// Why: which limit.
        limit: FullCause,
    },
    /// Four fifths of the space are taken.
    Filling {
        /// Bytes taken.
        used_bytes: u64,
        /// Bytes that may be taken: the quota, or what the file system has.
        capacity_bytes: u64,
        /// Readings that wait.
        backlog: u64,
    },
    /// Less than seven tenths of the space are taken again.
    Emptied {
        /// Bytes taken.
        used_bytes: u64,
    },
    /// There is room again.
    Room {
        /// Readings refused at the door meanwhile.
        refused: u64,
    },
    /// Damage was found in the journal.
    Damaged {
        /// What and where.
        reason: String,
    },
    /// Readings stamped with the flags `future` or `past`.
    ImplausibleTime {
        /// The source.
        source: SourceId,
        /// How many in this batch.
        count: u64,
    },
    /// The clock of a device was set.
    DeviceClockStep {
        /// The source.
        source: SourceId,
        /// By how much, positive for ahead.
        delta: Span,
    },
    /// Inputs went to the quarantine.
    Quarantined {
        /// The source.
        source: SourceId,
        /// [`Refusal::kind`](super::reading::Refusal::kind).
        kind: &'static str,
        /// The first reason of this batch.
        reason: String,
        /// How many of this kind in this batch.
        count: u64,
    },
    /// Inputs that went to the quarantine and found no place there.
    RefusalsDropped {
        /// How many.
        count: u64,
        /// Why.
        reason: String,
    },
    /// An operator handed something in again out of the quarantine.
    Released {
        /// The source.
        source: SourceId,
        /// Readings of it.
        count: u64,
    },
    /// Ingest minus event time of one reading, for the histogram.
    Lag {
        /// The source.
        source: SourceId,
        /// Least lag in the batch.
        min: Span,
        /// Greatest lag in the batch.
        max: Span,
        /// Readings in the batch.
        count: u64,
    },
    /// Something happened to the wall clock.
    Clock(ClockEvent),
    /// Windows could not go on where they were, or only inexactly.
    WindowsRestarted {
        /// Which; `None`: all of them.
        window: Option<Arc<str>>,
        /// Why.
        reason: String,
    },
    /// Readings that an ordered output held when the process ended cannot be given to it:
    /// they are no longer in the journal, or their source is no longer its own.
    HeldReadingsGone {
        /// The output.
        output: Arc<str>,
        /// How many.
        readings: u64,
    },
    /// A replay of the journal came to other results than the journal holds.
    ReplayDiffers {
        /// How many.
        differences: u64,
    },
    /// A checkpoint could not be written.
    CheckpointFailed {
        /// Of what.
        of: Checkpointed,
        /// Why.
        reason: String,
    },
    /// Not all repeats of readings before this start will be known.
    DedupeTorn {
        /// Why.
        reason: String,
    },
    /// Names of readings are forgotten before the horizon, for the first time
    /// since this process started.
    DedupeFull {
        /// The source.
        source: SourceId,
    },
    /// A part of the journal is gone, and running totals may lack its increments.
    TotalsTorn {
        /// Why.
        reason: String,
    },
    /// Readings that had left under a bad clock get a correction.
    Corrected(Correction),
}

/// A fact about an uplink.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkNotice {
    /// It came up.
    Up {
        /// How long it was down; `None` at the first connection.
        down_for: Option<Span>,
        /// Readings and results that wait.
        backlog: u64,
        /// The broker's word.
        session_present: bool,
    },
    /// It went down after having been up.
    Down {
        /// Why.
        reason: String,
        /// What kind of cause.
        cause: DownCause,
        /// Readings and results that wait.
        backlog: u64,
    },
    /// An attempt to connect failed.
    ConnectFailed {
        /// How often in a row.
        attempts: u32,
        /// Why.
        reason: String,
        /// What kind of cause.
        cause: DownCause,
        /// When it is tried again.
        retry_in: Span,
        /// Readings and results that wait.
        backlog: u64,
    },
    /// The backlog of an outage is gone.
    BacklogDrained {
        /// Entries sent since the link came up.
        sent: u64,
        /// Since the link came up.
        took: Span,
    },
    /// The broker acknowledged a publish.
    Acknowledged {
        /// Entries in it.
        entries: u64,
        /// From publish to PUBACK.
        took: Span,
    },
    /// The broker refuses readings of this source; they wait and are retried.
    SourceHeld {
        /// The source.
        source: SourceId,
        /// MQTT 5 reason code.
        code: u8,
        /// When it is tried again.
        retry_in: Span,
    },
    /// The broker takes this source again.
    SourceReleased {
        /// The source.
        source: SourceId,
    },
    /// No PUBACK for too long: the connection is given up.
    AckTimeout {
        /// Age of the oldest publish.
        oldest: Span,
    },
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullCause {
    /// `max_bytes`.
    Quota,
    /// `reserve_free`.
    Reserve,
    /// The store cannot write.
    Store,
}
