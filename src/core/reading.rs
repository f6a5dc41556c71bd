//! A [`Reading`] as a source received it, a [`Record`] as Tidegate stamped and
//! numbered it, and the other [`Entry`] kinds that the journal keeps.

use std::sync::Arc;

use super::clock::{ClockEvent, ClockSource, ClockState, Correction};
use super::id::{BootId, Epoch, Seq, SourceId};
use super::time::{EventTime, IngestTime, MaxError, Span, TimebaseId, Uptime};
use super::window::{LateReading, WindowResult};

/// What is measured: one property of one entity, in one unit. Sources intern
/// it, so that a thousand readings of one series share one allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// The thing: `pump-7`.
    pub entity: Box<str>,
    /// What of it: `pressure_kpa`.
    pub property: Box<str>,
    /// The unit as the source wrote it: `kPa`.
    pub unit: Option<Box<str>>,
}

/// A measured value. Integers keep all 64 bits; nothing passes through `f64`
/// that was not a floating-point number to begin with.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A floating-point number, possibly not finite.
    F64(f64),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer above `i64::MAX`; smaller ones are [`Value::I64`].
    U64(u64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(Arc<str>),
    /// An object or array with one event time, kept as the JSON text that came.
    Composite(Arc<str>),
}

/// What the device itself says of the value's quality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Quality {
    /// Usable.
    #[default]
    Good,
    /// Usable with doubt.
    Uncertain,
    /// Not usable.
    Bad,
}

/// One reading as received, not yet stamped.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What was measured.
    pub series: Arc<Series>,
    /// The value.
    pub value: Value,
    /// The quality that the device states.
    pub quality: Quality,
    /// The protocol's own code or text for it, where it gave one.
    pub quality_detail: Option<Arc<str>>,
    /// When it happened, as the device says.
    pub device_time: Option<DeviceTime>,
    /// The reader's own name for the reading, where it gave one.
    pub id: Option<Arc<str>>,
    /// Flags from the way it came (`retained`).
    pub flags: Flags,
}

/// The event time that a device claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTime {
    /// The claimed instant.
    pub at: EventTime,
    /// The UTC offset that came with it, in seconds east, where one was given.
    pub utc_offset_s: Option<i32>,
    /// Flags from parsing the time (`no_offset`, `leap` …).
    pub flags: Flags,
}

/// When a batch reached the gateway: taken at the door, before parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Wall clock.
    pub ingest: IngestTime,
    /// Unslewed uptime.
    pub uptime: Uptime,
    /// Half the round trip of a question to the device: it took the value this long
    /// before the arrival, give or take as much. Zero for what comes without a question.
    pub half_round_trip: Span,
}

/// Who set the event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The device's stamp, as it came.
    Device,
    /// The device's stamp less its estimated skew.
    DeviceCorrected,
    /// This gateway's clock at arrival.
    Gateway,
    /// This gateway's clock, corrected once the clock was known.
    Restamped,
    /// The gateway's time in place of an implausible device stamp.
    Substituted,
    /// Only bounds are known.
    Bounded,
    /// Nothing is known.
    Unknown,
}

/// A set of facts about a reading that a consumer may want to filter by. The
/// bit positions are stored: never reuse one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u32);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// The device's stamp is further ahead of the gateway than `future_limit`.
    pub const FUTURE: Flags = Flags(1 << 0);
    /// The device's stamp is older than any real reading can be.
    pub const PAST: Flags = Flags(1 << 1);
    /// Device and gateway disagree by more than their errors explain.
    pub const SKEWED: Flags = Flags(1 << 2);
    /// A local time in the repeated hour.
    pub const DST_FOLD: Flags = Flags(1 << 3);
    /// A local time in the skipped hour.
    pub const DST_GAP: Flags = Flags(1 << 4);
    /// A time without an offset, taken as UTC.
    pub const NO_OFFSET: Flags = Flags(1 << 5);
    /// The device says that its clock is not set.
    pub const DEVICE_UNSYNC: Flags = Flags(1 << 6);
    /// A clock step happened close by.
    pub const STEP_NEAR: Flags = Flags(1 << 7);
    /// Second 60.
    pub const LEAP: Flags = Flags(1 << 8);
    /// Earlier than the reading before it of the same source.
    pub const ORDER_BREAK: Flags = Flags(1 << 9);
    /// Two sources of time contradict each other.
    pub const INCONSISTENT: Flags = Flags(1 << 10);
    /// Off by 1024 weeks: a GPS week number rollover.
    pub const GPS_WNRO: Flags = Flags(1 << 11);
    /// The value was not a finite number.
    pub const NONFINITE: Flags = Flags(1 << 12);
    /// The value is an object or array.
    pub const COMPOSITE: Flags = Flags(1 << 13);
    /// A broker's retained message: it may be old and may have come before.
    pub const RETAINED: Flags = Flags(1 << 14);
    /// Journaled once more, under another number, after an operator released it
    /// from the quarantine.
    pub const RELEASED: Flags = Flags(1 << 15);
    /// The value is this gateway's running total; what came was an increment.
    pub const TOTAL: Flags = Flags(1 << 16);

    /// Every flag with the name it has on the wire, in the order of the bits.
    pub const NAMES: [(Flags, &'static str); 17] = [
        (Flags::FUTURE, "future"),
        (Flags::PAST, "past"),
        (Flags::SKEWED, "skewed"),
        (Flags::DST_FOLD, "dst_fold"),
        (Flags::DST_GAP, "dst_gap"),
        (Flags::NO_OFFSET, "no_offset"),
        (Flags::DEVICE_UNSYNC, "device_unsync"),
        (Flags::STEP_NEAR, "step_near"),
        (Flags::LEAP, "leap"),
        (Flags::ORDER_BREAK, "order_break"),
        (Flags::INCONSISTENT, "inconsistent"),
        (Flags::GPS_WNRO, "gps_wnro"),
        (Flags::NONFINITE, "nonfinite"),
        (Flags::COMPOSITE, "composite"),
        (Flags::RETAINED, "retained"),
        (Flags::RELEASED, "released"),
        (Flags::TOTAL, "total"),
    ];

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether a stamp with these flags may move a watermark: implausible ones never
    /// do.
    pub const fn is_plausible(self) -> bool {
        !self.intersects(Flags::FUTURE.with(Flags::PAST).with(Flags::DEVICE_UNSYNC))
    }

    /// Whether every flag of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits as stored.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// From stored bits; unknown ones are kept.
    pub const fn from_bits(bits: u32) -> Flags {
        Flags(bits)
    }

    /// The names of the set flags.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| name)
    }
}

/// Everything that is known about the time of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it happened, as best known.
    pub event_time: EventTime,
    /// When this gateway took it in.
    pub ingest_time: IngestTime,
    /// Uptime at arrival; the truth about spacing within [`Stamp::boot`].
    pub uptime: Uptime,
    /// The boot that `uptime` belongs to.
    pub boot: BootId,
    /// Who set the event time.
    pub origin: Origin,
    /// What disciplined the gateway's clock.
    pub clock: ClockSource,
    /// How far the gateway's clock could be trusted.
    pub state: ClockState,
    /// Bound on |event time − UTC|; `None` when nothing bounds it.
    pub max_error: Option<MaxError>,
    /// The stretch of wall clock it was stamped in.
    pub timebase: TimebaseId,
    /// The first event time, where `event_time` differs from it.
    pub first_event_time: Option<EventTime>,
    /// The source's own UTC offset in seconds east, where one was given.
    pub utc_offset_s: Option<i32>,
    /// Facts about the time and the value that a consumer may want to filter by.
    pub flags: Flags,
}

impl Stamp {
    /// The event time that the device gave, before any correction; `None` where it gave
    /// none. (Where the gateway's time was corrected, the first of that.)
    pub const fn device_time(&self) -> Option<EventTime> {
        match self.origin {
            Origin::Device => Some(self.event_time),
            _ => self.first_event_time,
        }
    }
}

/// A reading that was accepted: stamped and numbered. `(source, epoch, seq)`
/// names it for ever, whatever happens to disk and link.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where it came from.
    pub source: SourceId,
    /// The numbering that `seq` belongs to.
    pub epoch: Epoch,
    /// Its number within the source.
    pub seq: Seq,
    /// What was measured.
    pub series: Arc<Series>,
    /// The value.
    pub value: Value,
    /// The quality that the device states.
    pub quality: Quality,
    /// The protocol's own code or text for it.
    pub quality_detail: Option<Arc<str>>,
    /// The reader's own name for it.
    pub id: Option<Arc<str>>,
    /// Its time.
    pub stamp: Stamp,
}

/// Why sequence numbers are missing for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GapReason {
    /// The quota was reached and the oldest readings had to go.
    Evicted,
    /// Stored bytes failed their check.
    Corrupt,
    /// The broker, or a size limit on the way to it, refuses this reading.
    RefusedByBroker,
}

impl GapReason {
    /// The word on the wire and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            GapReason::Evicted => "evicted",
            GapReason::Corrupt => "corrupt",
            GapReason::RefusedByBroker => "refused_by_broker",
        }
    }
}

/// Says which sequence numbers of a source will never arrive, and why. It is
/// an entry of the journal and forwarded like a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapRecord {
    /// The source.
    pub source: SourceId,
    /// The numbering.
    pub epoch: Epoch,
    /// First missing number.
    pub first_seq: Seq,
    /// Last missing number; `None` when the damage hides how far it went.
    pub last_seq: Option<Seq>,
    /// Why.
    pub reason: GapReason,
    /// Least event time among the missing, where known.
    pub first_event_time: Option<EventTime>,
    /// Greatest event time among the missing, where known.
    pub last_event_time: Option<EventTime>,
    /// When the gap was recorded.
    pub at: IngestTime,
}

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A reading.
    Reading(Record),
    /// A gap record.
    Gap(GapRecord),
    /// What readings that left under a bad clock are to be corrected by.
    Correction(Correction),
    /// What happened to the wall clock.
    Clock(ClockEvent),
    /// A window's result, numbered like a reading.
    Window(WindowResult),
    /// A reading that came too late for a window. The reading itself stands in
    /// the journal before it; this has no number of its own.
    Late(LateReading),
    /// A reading whose time was open in an earlier entry and is final now; this is how the
    /// windows get it. Internal.
    Retimed(Record),
    /// A source became idle for the windows, or a window was flushed. Internal.
    Idle(IdleMark),
}

/// Marks the place in the journal where a source became idle for the windows, or a window
/// was flushed, so that a replay does the same at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleMark {
    /// The silent source.
    pub source: SourceId,
    /// Unslewed uptime of the turn that found it silent.
    pub at: Uptime,
    /// The window by its name; `None`: every one that reads the source.
    pub window: Option<Arc<str>>,
    /// Whether open panes were fired (`idle_flush`), not just the source left
    /// out of the watermark.
    pub flush: bool,
}

/// The name of a numbered entry, and its place in event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered<'a> {
    /// The source; `window:NAME` for a result.
    pub source: &'a SourceId,
    /// The numbering that `seq` belongs to.
    pub epoch: Epoch,
    /// Its number within the source.
    pub seq: Seq,
    /// A reading's event time; of a result the last nanosecond that belongs to its
    /// window: its end less 1 ns.
    pub event_time: EventTime,
}

impl Entry {
    /// The source it speaks of.
    pub fn source(&self) -> &SourceId {
        match self {
            Entry::Reading(record) | Entry::Retimed(record) => &record.source,
            Entry::Gap(gap) => &gap.source,
            Entry::Correction(correction) => &correction.source,
            Entry::Clock(event) => &event.source,
            Entry::Window(result) => &result.source,
            Entry::Late(late) => &late.record.source,
            Entry::Idle(mark) => &mark.source,
        }
    }

    /// The reading, if it is one. A late or retimed one is not: it repeats an
    /// entry that is.
    pub fn reading(&self) -> Option<&Record> {
        match self {
            Entry::Reading(record) => Some(record),
            _ => None,
        }
    }

    /// The record it carries: of a reading, of a late one, of a retimed one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Entry::Reading(record) | Entry::Retimed(record) => Some(record),
            Entry::Late(late) => Some(&late.record),
            _ => None,
        }
    }

    /// Its name, if it has a number of its own: readings and results have.
    pub fn numbered(&self) -> Option<Numbered<'_>> {
        match self {
            Entry::Reading(record) => Some(Numbered {
                source: &record.source,
                epoch: record.epoch,
                seq: record.seq,
                event_time: record.stamp.event_time,
            }),
            Entry::Window(result) => Some(Numbered {
                source: &result.source,
                epoch: result.epoch,
                seq: result.seq,
                event_time: result.end - Span::from_ns(1),
            }),
            _ => None,
        }
    }

    /// Whether it is for the windows alone, and never sent.
    pub const fn is_internal(&self) -> bool {
        matches!(self, Entry::Retimed(_) | Entry::Idle(_))
    }

    /// Roughly what it takes in memory, in bytes; for bounds, not for accounts.
    pub fn weight(&self) -> usize {
        match self {
            Entry::Reading(record) | Entry::Retimed(record) => record.weight(),
            Entry::Late(late) => late.record.weight(),
            Entry::Window(result) => {
                size_of::<Entry>()
                    + size_of_val(&result.values[..])
                    + size_of_val(&result.coverage.excluded_idle[..])
            }
            _ => size_of::<Entry>(),
        }
    }
}

impl Record {
    /// Roughly what it takes in memory, in bytes.
    pub fn weight(&self) -> usize {
        size_of::<Entry>() + self.own_text_bytes()
    }

    /// Bytes of all its texts, names included.
    pub fn text_bytes(&self) -> usize {
        let series = &self.series;
        let unit = series.unit.as_ref().map_or(0, |unit| unit.len());
        self.own_text_bytes() + series.entity.len() + series.property.len() + unit
    }

    /// Bytes of the texts that it does not share with others of its series.
    fn own_text_bytes(&self) -> usize {
        let text = match &self.value {
            Value::Text(text) | Value::Composite(text) => text.len(),
            _ => 0,
        };
        let detail = self.quality_detail.as_ref().map_or(0, |text| text.len());
        let id = self.id.as_ref().map_or(0, |text| text.len());
        text + detail + id
    }
}

/// An input that did not become a reading, or a reading that no broker takes.
/// Kept in the quarantine with its reason; never dropped uncounted.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The source it came from.
    pub source: SourceId,
    /// When it came.
    pub at: IngestTime,
    /// A short word for metrics: `syntax`, `too_long`, `not_utf8` …
    pub kind: &'static str,
    /// What is wrong, for people, with its place: `line 7: expected …`.
    pub reason: String,
    /// The bytes as they came, cut to [`super::limits::REFUSAL_BYTES_MAX`].
    pub content: Vec<u8>,
    /// How many bytes came; more than `content` holds when it was cut.
    pub length: u64,
    /// The reading, where it had become one: kept in place of `content`. Its number
    /// is 0 when it never got one.
    pub reading: Option<Box<Record>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_themselves_in_order() {
        let flags = Flags::COMPOSITE.with(Flags::FUTURE);
        assert_eq!(flags.names().collect::<Vec<_>>(), ["future", "composite"]);
        assert!(flags.has(Flags::FUTURE) && !flags.has(Flags::PAST));
        assert!(Flags::from_bits(flags.bits()) == flags);
    }
}
