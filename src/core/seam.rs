//! All that crosses the border between the core and the world: two closed
//! enums, [`Input`] and [`Effect`], and [`Now`].
//!
//! The seam is data. The product carries effects out with tokio, sled and
//! rumqttc, the simulator with a priority queue; neither is visible from here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::{ClockFacts, Vouch};
use super::id::{CommitId, Epoch, Offset, ReceiptId, SegmentId, Seq, SourceId, UplinkId};
use super::order::OrderedReading;
use super::reading::{Arrival, Entry, GapReason, Reading, Refusal};
use super::settings::SourceSettings;
use super::time::{EventTime, IngestTime, MonoTime, Uptime};
use super::window::{LateReading, WindowResult};

mod link;
mod meta;

pub use link::{
    DownCause, Frontier, Lane, LinkCommand, LinkEvent, LinkStatus, LinkTerms, Publish, PublishBody,
    RetainedFrontier, puback_meaning,
};
pub use meta::{ClockLedger, Meta, SeqSet, SourceMeta, UplinkMeta};

pub use super::notice::{FullCause, LinkNotice, Notice};
pub use super::release::{Release, Released};

/// One look at the four clocks of the machine, taken once per turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time, suspend included (`CLOCK_BOOTTIME`): the only one that
    /// timers see.
    pub mono: MonoTime,
    /// Wall time as read (`CLOCK_REALTIME`); the clock model says how good it is.
    pub wall: IngestTime,
    /// The crystal's own count, suspend excluded (`CLOCK_MONOTONIC_RAW`).
    pub raw_ns: u64,
    /// Time spent suspended since boot: `CLOCK_BOOTTIME` − `CLOCK_MONOTONIC`.
    pub suspended_ns: u64,
    /// How long the look took: the four clocks were read within this time.
    pub span_ns: u64,
}

impl Now {
    /// Unslewed uptime.
    pub const fn uptime(&self) -> Uptime {
        Uptime::from_ns(self.raw_ns + self.suspended_ns)
    }

    /// Wall time less boot time: constant between two steps of the wall clock,
    /// whatever daemons slew.
    pub const fn wall_offset_ns(&self) -> i64 {
        self.wall.unix_ns().wrapping_sub(self.mono.ns() as i64)
    }
}

/// Everything that can happen to the core.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A source hands in readings and refused inputs.
    Readings(Batch),
    /// An operator hands something in again out of the quarantine.
    Release(Release),
    /// The store answers.
    Store(StoreEvent),
    /// An uplink reports.
    Link(UplinkId, LinkEvent),
    /// What the machine says about its clocks.
    Clock(ClockFacts),
    /// An operator vouches for the wall clock as it is now.
    Vouched(Vouch),
    /// The configured sources from here on. Those that leave have handed in everything.
    Sources(BTreeMap<SourceId, SourceSettings>),
    /// No more readings will come: commit what is there, send what can be sent.
    Stop,
}

/// What one source hands in at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The source.
    pub source: SourceId,
    /// When it came, taken at the door.
    pub arrival: Arrival,
    /// At most [`super::limits::SOURCE_BATCH_MAX`] together with `refused`.
    pub readings: Vec<Reading>,
    /// Inputs that did not become readings.
    pub refused: Vec<Refusal>,
    /// The positions before and after this batch, for a source that goes on from its
    /// position after a restart.
    pub advance: Option<Advance>,
    /// To be answered once all of this is durable.
    pub receipt: Option<ReceiptId>,
}

/// A step of a source that remembers where it is. What a position looks like is the
/// source's own business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The source's position before this batch; empty before the first. A batch that does
    /// not begin where the last accepted one ended is refused: one in between was.
    pub from: Arc<[u8]>,
    /// Its position after it, up to [`super::limits::POSITION_BYTES_MAX`] bytes; durable in
    /// the same commit as the readings.
    pub to: Arc<[u8]>,
}

/// What the store says.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreEvent {
    /// The commit is applied, flushed and synced.
    Committed {
        /// Which.
        id: CommitId,
        /// The segments as they are now, oldest first; the last is the active one.
        segments: Vec<SegmentInfo>,
        /// The disk after it.
        disk: DiskFacts,
    },
    /// The commit failed; nothing of it counts. The store has given up the
    /// segment it wrote to and starts a new one at the next commit.
    CommitFailed {
        /// Which.
        id: CommitId,
        /// What went wrong, for people.
        reason: String,
    },
    /// Refused inputs of a commit found no place in the quarantine: the disk is
    /// full, or does not take them. The commit is durable without them.
    RefusalsDropped {
        /// How many.
        count: u64,
        /// What is in the way, for people.
        reason: String,
    },
    /// The answer to [`Effect::Fetch`].
    Fetched(Fetched),
    /// A checkpoint is on disk, or could not be written.
    Checkpointed {
        /// Of what.
        of: Checkpointed,
        /// Why not.
        error: Option<String>,
    },
    /// The store thread looked at the disk: others fill and empty it too.
    Measured(DiskFacts),
    /// A segment's folder is gone.
    Removed {
        /// Which.
        id: SegmentId,
        /// The disk after it.
        disk: DiskFacts,
    },
}

/// Entries read back from the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// Who asked.
    pub purpose: Purpose,
    /// The offset that was asked for.
    pub from: Offset,
    /// Entries with their offsets, ascending, none below `from`.
    pub entries: Vec<(Offset, Entry)>,
    /// The offset to ask for next. Offsets below it that are neither in
    /// `entries` nor in `damaged` do not exist.
    pub next: Offset,
    /// What could not be read on the way.
    pub damaged: Vec<Damage>,
}

/// A stretch of the journal that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// First offset of it.
    pub first: Offset,
    /// One past the last.
    pub end: Offset,
    /// The readings that are lost with it.
    pub missing: Vec<Missing>,
    /// What was found, for people.
    pub reason: String,
}

/// Sequence numbers that cannot be read any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The source.
    pub source: SourceId,
    /// The numbering.
    pub epoch: Epoch,
    /// First missing number.
    pub first: Seq,
    /// Last missing number; `None` when it is not known.
    pub last: Option<Seq>,
    /// Least and greatest event time among them, where a summary tells.
    pub event_times: Option<(EventTime, EventTime)>,
}

/// Space on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFacts {
    /// What the data directory takes, everything included, in bytes.
    pub used_bytes: u64,
    /// What the file system has left for this process, in bytes.
    pub free_bytes: u64,
    /// Bytes this process has handed to the journal's engine and its own files
    /// since it started. The disk sees more: the engine pads and indexes.
    pub written_bytes: u64,
}

/// One segment of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its name.
    pub id: SegmentId,
    /// First offset in it.
    pub first: Offset,
    /// One past the last offset in it.
    pub next: Offset,
    /// What it takes on disk.
    pub bytes: u64,
    /// Of these, what is allocated ahead for entries to come. None when sealed.
    pub ahead_bytes: u64,
    /// Whether it is closed for writing.
    pub is_sealed: bool,
    /// What it holds, per source and epoch. Complete for sealed segments and
    /// for what this process wrote; shared, for it is sent with every commit.
    pub contents: Arc<BTreeMap<(SourceId, Epoch), SourceRange>>,
}

/// The readings of one source within a segment. Their times are as stamped: of a
/// reading whose time is still open ([`super::clock::seal::is_open`]) that is
/// what the unsynchronized clock said, and means little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRange {
    /// Least sequence number.
    pub first: Seq,
    /// Greatest sequence number.
    pub last: Seq,
    /// Least event time, as stamped.
    pub earliest: EventTime,
    /// Greatest event time, as stamped.
    pub latest: EventTime,
}

/// Everything the core asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make this durable: one atomic commit, flushed and synced.
    Commit(Commit),
    /// Read entries back from the journal.
    Fetch(Fetch),
    /// Delete a segment: all of it is acknowledged, or recorded as evicted.
    Remove(SegmentId),
    /// Something for an uplink.
    Link(UplinkId, LinkCommand),
    /// Keep this checkpoint, in place of the one before. Not part of a commit:
    /// losing it costs a longer replay.
    Checkpoint(Checkpointed, Arc<Vec<u8>>),
    /// Show this on site: it is durable.
    Show(Shown),
    /// Tell a source about its batch.
    Receipt(ReceiptId, Outcome),
    /// A fact for logs and metrics.
    Notice(Notice),
}

/// State that is kept beside the journal as of an offset, so that a start need not read
/// all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpointed {
    /// The windows, and measured lateness.
    Windows,
    /// The names of readings that repeats are known by.
    Dedupe,
}

/// What there is to see on site.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// A result.
    Result(Arc<WindowResult>),
    /// A reading that was too late.
    Late(Arc<LateReading>),
    /// A reading in the order of event time, for the outputs that want it.
    Ordered(OrderedReading),
}

/// One group commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// Its number; one is outstanding at a time.
    pub id: CommitId,
    /// Offset of the first entry; the others follow without holes.
    pub first: Offset,
    /// New entries, possibly none (then only the meta changed).
    pub entries: Arc<Vec<Entry>>,
    /// Refused inputs for the quarantine.
    pub refusals: Vec<Refusal>,
    /// The state that belongs to it.
    pub meta: Meta,
}

/// Who reads the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The forwarder of an uplink, for one of its lanes.
    Forward(UplinkId, Lane),
    /// The windows, to go on where a checkpoint left them.
    Replay,
    /// The memory of repeats, for the same reason.
    Recall,
    /// The running totals, for the same reason.
    Totals,
}

/// A request to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Who asks.
    pub purpose: Purpose,
    /// Where to begin.
    pub from: Offset,
    /// Upper bound on the entries of the answer.
    pub entries_max: usize,
    /// Upper bound on the bytes that the answer takes in memory. One entry is given
    /// whatever its size.
    pub bytes_max: usize,
}

/// What became of a source's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Durable.
    Durable,
    /// Not taken: the buffer is full and `when_full` is `drop-newest`, or a batch before it
    /// was not taken, so that this one does not begin at its source's position.
    Full,
}

/// What the store found when it opened; the core starts from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovered {
    /// The newest meta that could be read; `None` for a new data directory or
    /// when nothing could be read.
    pub meta: Option<Meta>,
    /// The next free offset.
    pub next: Offset,
    /// The segments, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// Segments and stretches that could not be read. Their offsets are below
    /// `next`.
    pub damaged: Vec<Damage>,
    /// The newest checkpoint of the windows.
    pub checkpoint: Option<Vec<u8>>,
    /// The newest checkpoint of the memory of repeats.
    pub dedupe: Option<Vec<u8>>,
    /// Why the numbering cannot be continued, if it cannot.
    pub broken_numbering: Option<String>,
    /// Whether the run before this one ended without closing the journal.
    pub was_cut_short: bool,
    /// The disk.
    pub disk: DiskFacts,
}

/// How a gap reason is counted in the books: see [`SourceMeta`].
impl GapReason {
    /// Whether it counts as evicted (else as lost).
    pub const fn is_eviction(self) -> bool {
        matches!(self, GapReason::Evicted)
    }
}
