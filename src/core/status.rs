//! The agent's books and state, for status and metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use super::agent::Counts;
use super::clock::kernel::KernelVerdict;
use super::clock::{ClockEvent, ClockFacts, ClockReading};
use super::dedupe::Known;
use super::id::{Epoch, SourceId};
use super::lateness::Quantiles;
use super::order::OrderCounts;
use super::seam::{DiskFacts, FullCause};
use super::time::{EventTime, MonoTime, Span, Uptime};

/// The agent's books and state, for status and metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The numbering in use.
    pub epoch: Epoch,
    /// The clock at this turn.
    pub clock: ClockStatus,
    /// Per source.
    pub sources: BTreeMap<SourceId, SourceStatus>,
    /// How late readings come, per source that one was measured of.
    pub lateness: BTreeMap<SourceId, Quantiles>,
    /// Readings in the journal that are not done with.
    pub backlog: u64,
    /// Entries in the journal that are not done with, of the uplink that has the
    /// most: those readings, and gap records, corrections and clock events.
    pub unsent: u64,
    /// Entries accepted and not yet durable.
    pub uncommitted: u64,
    /// Least event time not acknowledged; `None` where nothing waits, and where no plausible
    /// one is known.
    pub oldest_event: Option<EventTime>,
    /// Segments on disk.
    pub segments: usize,
    /// Bytes that an entry takes on disk on average; `None` before a segment holds enough
    /// to tell.
    pub entry_bytes: Option<f64>,
    /// Of what the segments take on disk, bytes that are allocated ahead for entries to come.
    pub ahead_bytes: u64,
    /// The disk.
    pub disk: DiskFacts,
    /// Bytes that the data directory may take: the quota, or less where the file
    /// system has less.
    pub capacity_bytes: u64,
    /// Whether the buffer runs full: from 80 % of the capacity until below 70 %.
    pub is_filling: bool,
    /// Which limit is reached, if one is.
    pub full: Option<FullCause>,
    /// Whether commits succeed.
    pub is_committing: bool,
    /// The uplinks, as configured.
    pub uplinks: Vec<UplinkStatus>,
    /// Readings accepted per second, over the last seconds.
    pub accept_rate: f64,
    /// The windows on site, by name.
    pub windows: BTreeMap<String, WindowStatus>,
    /// The orders of outputs, by name.
    pub orders: BTreeMap<String, OrderStatus>,
}

/// One uplink.
#[derive(Clone, Debug, PartialEq)]
pub struct UplinkStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its connection.
    pub state: LinkState,
    /// Publishes without PUBACK.
    pub inflight: usize,
    /// Their bound.
    pub inflight_max: usize,
    /// Age of the oldest of them.
    pub oldest_inflight: Option<Span>,
    /// Entries acknowledged per second, over the last seconds.
    pub ack_rate: f64,
    /// Readings and results of the journal's books that its broker has
    /// acknowledged, and where there are several uplinks those written off.
    pub acknowledged: u64,
    /// Readings and results in the journal that it is not done with.
    pub backlog: u64,
    /// Entries of them that drain on a lane of their own beside live ones.
    pub backfill: u64,
    /// Sources whose readings the broker refuses, with its reason code.
    pub held: BTreeMap<SourceId, u8>,
}

/// One window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowStatus {
    /// How far event time has come.
    pub watermark: Option<EventTime>,
    /// How far that may be behind the wall clock while all is well.
    pub patience: Span,
    /// Sources that hold it where it is, by name; none where it follows whichever is ahead,
    /// or where all are silent.
    pub held_by: Vec<SourceId>,
    /// Windows that are open, over all series.
    pub panes: usize,
    /// Series with open windows.
    pub series: usize,
    /// What its state takes in memory, in bytes, about.
    pub state_bytes: u64,
    /// Sources that are silent and not waited for.
    pub idle: Vec<SourceId>,
    /// The source that is silent and still waited for, and for how long it will be.
    pub waits_for: Option<(SourceId, Span)>,
    /// What it has done since this process started.
    pub counts: Counts,
}

/// The order in which an output gets readings.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderStatus {
    /// How far event time has come.
    pub watermark: Option<EventTime>,
    /// Readings that wait for it.
    pub held: usize,
    /// What they take in memory, in bytes, about.
    pub held_bytes: usize,
    /// Sources that are silent and not waited for.
    pub idle: Vec<SourceId>,
    /// What has come out since this process started.
    pub counts: OrderCounts,
}

/// The clock as the agent sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockStatus {
    /// What a reading would be stamped with now.
    pub reading: ClockReading,
    /// Unslewed uptime now.
    pub uptime: Uptime,
    /// What the machine said last.
    pub facts: ClockFacts,
    /// What its kernel's word is worth.
    pub kernel: Option<KernelVerdict>,
    /// For how long it has been synchronized without interruption.
    pub synchronized_for: Option<Span>,
    /// How the crystal runs (true seconds per second of uptime, less one), in
    /// parts per billion, once learnt.
    pub rate_ppb: Option<i64>,
    /// The newest events, oldest first.
    pub events: Vec<ClockEvent>,
    /// Steps forward and back since this process started.
    pub steps: (u64, u64),
    /// Readings that wait for a better clock: how many entries of the journal
    /// have no final time yet.
    pub open: u64,
    /// The longest that the first of them may still wait; `None` where nothing waits.
    pub held_for: Option<Span>,
    /// Readings delivered with a time that was corrected, and with bounds only,
    /// since this process started.
    pub retimed: (u64, u64),
    /// Corrections that the broker has not acknowledged, or that wait for a
    /// synchronized clock.
    pub uncorrected: usize,
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
    /// Repeats of readings that were numbered before, dropped since this process
    /// started.
    pub duplicates: u64,
    /// Readings within their deadband, dropped since this process started.
    pub held_back: u64,
    /// Names of readings that repeats are known by.
    pub known: Known,
    /// Readings refused at the door since this process started, buffer full.
    pub refused_full: u64,
    /// Stamps flagged future or past since this process started.
    pub implausible: u64,
    /// Monotonic time of the last reading.
    pub last_reading: Option<MonoTime>,
}
