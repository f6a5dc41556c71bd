//! What the agent needs to know of the configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::ClockSettings;
use super::dedupe::Rule;
use super::forward::ForwardSettings;
use super::id::SourceId;
use super::order::OrderSpec;
use super::time::{EventTime, Span};
use super::values::ValueRules;
use super::window::WindowSpec;
use super::zone::Zone;

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
    /// Readings older than this by event time are given up, with gap records.
    pub max_age: Option<Span>,
    /// The uplinks: 1 to [`UPLINKS_MAX`](super::limits::UPLINKS_MAX).
    pub uplinks: Vec<UplinkSettings>,
    /// How the clock is judged, and what waits for it.
    pub clock: ClockSettings,
    /// The windows on site.
    pub windows: Vec<Arc<WindowSpec>>,
    /// The orders in which outputs get readings.
    pub orders: Vec<Arc<OrderSpec>>,
    /// Between two checkpoints of windows and orders.
    pub checkpoint_interval: Span,
    /// The configured sources.
    pub sources: BTreeMap<SourceId, SourceSettings>,
}

#[cfg(test)]
impl Settings {
    /// For tests: one uplink, room for everything, a commit at every turn, readings
    /// that wait for no clock and no checkpoint but where one is due at once.
    pub(crate) fn for_tests(sources: BTreeMap<SourceId, SourceSettings>) -> Self {
        Self {
            commit_interval: Span::from_millis(1),
            commit_bytes: 1 << 20,
            quota_bytes: 1 << 30,
            reserve_bytes: 0,
            when_full: WhenFull::DropOldest,
            max_age: None,
            uplinks: vec![UplinkSettings::named("main")],
            clock: ClockSettings { hold_unsynchronized: Span::ZERO, ..ClockSettings::DEFAULT },
            windows: Vec::new(),
            orders: Vec::new(),
            checkpoint_interval: Span::from_secs(100_000),
            sources,
        }
    }
}

/// One uplink.
#[derive(Clone, Debug, PartialEq)]
pub struct UplinkSettings {
    /// Its name: the journal keeps under it what this uplink is done with.
    pub name: Arc<str>,
    /// How it forwards.
    pub forward: ForwardSettings,
    /// How long a publish may wait for its PUBACK.
    pub ack_timeout: Span,
    /// First and longest wait between two attempts to connect.
    pub backoff: (Span, Span),
    /// Least time between two delivery frontiers of one source.
    pub frontier_interval: Span,
}

impl UplinkSettings {
    /// An uplink of that name with the defaults of the configuration: single
    /// readings, 100 in flight, live ones first.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            forward: ForwardSettings::DEFAULT,
            ack_timeout: Span::from_secs(60),
            backoff: (Span::from_secs(1), Span::from_secs(60)),
            frontier_interval: Span::from_secs(5),
        }
    }
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

/// How the readings of one source are told apart and stamped.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSettings {
    /// Whether the device's event time is used when there is one.
    pub trusts_device: bool,
    /// How far ahead of the gateway a device stamp is believed.
    pub future_limit: Span,
    /// Device stamps before this are implausible: the later of `earliest` and
    /// `manufactured`.
    pub earliest: EventTime,
    /// What becomes of an implausible device stamp.
    pub on_bad_time: OnBadTime,
    /// The zone of device times without an offset; without one they count as
    /// UTC.
    pub zone: Option<Zone>,
    /// What becomes of a local time that happens twice, when nothing tells which
    /// it is.
    pub on_ambiguous_time: OnAmbiguousTime,
    /// What becomes of a local time that never happens.
    pub on_nonexistent_time: OnNonexistentTime,
    /// The longest a reading takes from the device to this gateway.
    pub latency_max: Span,
    /// How long it usually takes.
    pub latency_typical: Span,
    /// Whether readings come as they are taken. Where they come in batches or
    /// from files, arrival says nothing about the device's clock.
    pub is_live: bool,
    /// How far out of order readings may come: the watermark stays this far
    /// behind the newest plausible event time.
    pub bound: Span,
    /// What is a repeat, to be dropped; `None` drops nothing.
    pub dedupe: Option<Rule>,
    /// What becomes of its values; `None` leaves all as they are.
    pub values: Option<Arc<ValueRules>>,
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
    /// It is kept and flagged; a device that is merely skewed is corrected by
    /// its estimated skew, and the first stamp is kept beside it.
    Correct,
}

/// What becomes of a local time in the repeated hour when nothing tells which
/// pass it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnAmbiguousTime {
    /// The first pass is taken.
    Earlier,
    /// The second pass is taken.
    Later,
    /// The reading goes to the quarantine.
    Quarantine,
}

/// What becomes of a local time in the skipped hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnNonexistentTime {
    /// The offset before the transition is used.
    Shift,
    /// The reading goes to the quarantine.
    Quarantine,
}

impl SourceSettings {
    /// The defaults of the configuration: the device is trusted, up to five minutes ahead
    /// and not before 2015; bad stamps are flagged; no zone; live with a latency of up to
    /// two seconds; twenty seconds of disorder; repeats are readings like others.
    pub const DEFAULT: SourceSettings = SourceSettings {
        trusts_device: true,
        future_limit: Span::from_secs(300),
        earliest: EventTime::from_unix_ns(1_420_070_400_000_000_000),
        on_bad_time: OnBadTime::Flag,
        zone: None,
        on_ambiguous_time: OnAmbiguousTime::Earlier,
        on_nonexistent_time: OnNonexistentTime::Shift,
        latency_max: Span::from_secs(2),
        latency_typical: Span::ZERO,
        is_live: true,
        bound: Span::from_secs(20),
        dedupe: None,
        values: None,
    };
}
