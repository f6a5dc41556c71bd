//! Local times without an offset: which instant each is in a time zone.
//!
//! Twice a year this has no plain answer. In the skipped hour the offset before
//! the transition counts (RFC 5545 §3.3.5, Temporal's "compatible"): that is also what a
//! device means whose clock has not been put forward. In the repeated hour evidence
//! decides, the strongest first: the device's own summer time bit, the time of arrival,
//! the previous reading. Without any, the policy of the source decides.
//!
//! A device whose clock does not follow summer time needs a fixed offset, not a
//! zone. The database is that of the IANA, compiled in; it knows transitions to
//! the end of 2099.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset as _, TimeZone as _};
use chrono_tz::{GapInfo, OffsetComponents as _, TZ_VARIANTS, Tz};

use super::time::{EventTime, IngestTime, MaxError, Span};

/// With a greater error the gateway's clock cannot tell the two passes of a repeated hour
/// apart: some zones repeat only half an hour.
const ARRIVAL_ERROR_MAX_NS: u64 = 900_000_000_000;
/// Civil offsets reach from -12:00 to +14:00.
const OFFSET_MAX_S: i32 = 14 * 3_600;
const NS_PER_S: i64 = 1_000_000_000;

/// The zone of a clock that shows local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// A zone of the IANA database: `Europe/Berlin`.
    Iana(Tz),
    /// A fixed offset, in seconds east of UTC.
    Fixed(i32),
}

/// The text is no zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownZone;

impl FromStr for Zone {
    type Err = UnknownZone;

    /// From a name of the IANA database, in its own spelling, or from an offset
    /// like `+02:00`, to 14 hours either way.
    fn from_str(text: &str) -> Result<Self, UnknownZone> {
        let sign = match text.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Tz::from_str(text).map(Zone::Iana).map_err(|_| UnknownZone),
        };
        let (hours, minutes) = text[1..].split_once(':').ok_or(UnknownZone)?;
        let number = |part: &str| {
            let is_plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<i32>().ok().filter(|_| is_plain).ok_or(UnknownZone)
        };
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let seconds = hours * 3_600 + minutes * 60;
        if minutes > 59 || seconds > OFFSET_MAX_S {
            return Err(UnknownZone);
        }
        Ok(Zone::Fixed(sign * seconds))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zone::Iana(zone) => f.write_str(zone.name()),
            Zone::Fixed(seconds) => {
                let sign = if *seconds < 0 { '-' } else { '+' };
                let minutes = seconds.unsigned_abs() / 60;
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

/// Every name that [`Zone::from_str`] takes, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    TZ_VARIANTS.iter().map(|zone| zone.name())
}

/// What is known beside the clock text, for a time in the repeated hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The device's summer time bit (`SU` of IEC 60870-5), where it has one.
    pub is_summer: Option<bool>,
    /// When a live reading arrived, and the bound on that clock's error; `None`
    /// for batches and where nothing bounds it.
    pub arrival: Option<(IngestTime, MaxError)>,
    /// How long readings usually take to arrive.
    pub latency: Span,
    /// The event time of the source's reading before.
    pub previous: Option<EventTime>,
    /// Which pass it is when nothing tells: the second rather than the first.
    pub prefers_later: bool,
}

/// What decided between the two passes of a repeated hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// The device's summer time bit.
    SummerBit,
    /// The pass nearer to the time of arrival.
    Arrival,
    /// The source had already come further than the first pass.
    Continuity,
    /// Nothing but [`Hints::prefers_later`].
    Default,
}

/// How a local time lies in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It happens once.
    Unique,
    /// It never happens: clocks skip it.
    Gap,
    /// It happens twice.
    Fold {
        /// What decided.
        by: DecidedBy,
        /// The other pass.
        alternative: EventTime,
    },
}

/// A local time as an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The instant.
    pub at: EventTime,
    /// The offset that was applied, in seconds east.
    pub offset_s: i32,
    /// How the local time lies in its zone.
    pub kind: Kind,
}

/// The instant of a local time, given as nanoseconds since 1970-01-01T00:00:00 on
/// the same wall clock. `None` when the instant lies outside the range of
/// [`EventTime`].
pub fn resolve(zone: Zone, local_ns: i64, hints: &Hints) -> Option<Resolved> {
    let instant = |offset_s: i32| {
        let east_ns = i64::from(offset_s) * NS_PER_S;
        local_ns.checked_sub(east_ns).map(EventTime::from_unix_ns)
    };
    let one = |offset_s: i32, kind: Kind| Some(Resolved { at: instant(offset_s)?, offset_s, kind });
    let zone = match zone {
        Zone::Fixed(offset_s) => return one(offset_s, Kind::Unique),
        Zone::Iana(zone) => zone,
    };
    let local = DateTime::from_timestamp_nanos(local_ns).naive_utc();
    let seconds = |offset: chrono_tz::TzOffset| offset.fix().local_minus_utc();
    match zone.offset_from_local_datetime(&local) {
        MappedLocalTime::Single(offset) => one(seconds(offset), Kind::Unique),
        MappedLocalTime::None => one(offset_before_gap(zone, &local), Kind::Gap),
        MappedLocalTime::Ambiguous(a, b) => {
            // The greater offset gives the earlier instant.
            let (first_s, second_s) = (seconds(a).max(seconds(b)), seconds(a).min(seconds(b)));
            let (first, second) = (instant(first_s)?, instant(second_s)?);
            let (is_second, by) = decide(first, second, hints);
            let (at, offset_s, alternative) =
                if is_second { (second, second_s, first) } else { (first, first_s, second) };
            Some(Resolved { at, offset_s, kind: Kind::Fold { by, alternative } })
        }
    }
}

fn offset_before_gap(zone: Tz, local: &NaiveDateTime) -> i32 {
    let begin = GapInfo::new(local, &zone).and_then(|gap| gap.begin);
    // Without a span before it there is no gap; the standard offset then stands in.
    begin.map_or_else(
        || zone.offset_from_utc_datetime(local).base_utc_offset().num_seconds() as i32,
        |(_, offset)| offset.fix().local_minus_utc(),
    )
}

/// Whether it is the second pass, and what says so.
fn decide(first: EventTime, second: EventTime, hints: &Hints) -> (bool, DecidedBy) {
    if let Some(is_summer) = hints.is_summer {
        return (!is_summer, DecidedBy::SummerBit);
    }
    if let Some((arrival, error)) = hints.arrival
        && error.ns() < ARRIVAL_ERROR_MAX_NS
    {
        let sent = arrival.as_event_time() - hints.latency;
        let distance = |candidate: EventTime| sent.unix_ns().abs_diff(candidate.unix_ns());
        return (distance(second) < distance(first), DecidedBy::Arrival);
    }
    if hints.previous.is_some_and(|previous| previous > first) {
        return (true, DecidedBy::Continuity);
    }
    (hints.prefers_later, DecidedBy::Default)
}

#[cfg(test)]
#[path = "zone_tests.rs"]
mod tests;
