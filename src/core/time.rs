//! Times of different kinds have different types.
//!
//! An [`EventTime`] says when something happened, an [`IngestTime`] when this
//! gateway took it in, a [`MonoTime`] counts from boot and knows no date. Times
//! of one kind subtract to a [`Span`]; times of two kinds do not:
//!
//! ```compile_fail
//! use tidegate::core::time::{EventTime, IngestTime};
//! let _ = IngestTime::from_unix_ns(2) - EventTime::from_unix_ns(1);
//! ```
//!
//! Where two kinds must be compared, the conversion has a name that says so:
//! [`IngestTime::lag_behind`].

use std::fmt;
use std::ops::{Add, Sub};

use chrono::{DateTime, Utc};

/// When the thing happened, as best known: nanoseconds since
/// 1970-01-01T00:00:00Z, years 1678 to 2262.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTime(i64);

/// When this gateway accepted a reading, by its own wall clock: nanoseconds
/// since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IngestTime(i64);

/// Monotonic time in nanoseconds since boot, suspend included. For intervals
/// and timers; never stepped, never compared between two boots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(u64);

/// Uptime without slew in nanoseconds: the crystal's own count since boot
/// (`CLOCK_MONOTONIC_RAW`) and the time spent suspended. The truth about the
/// spacing of two readings of one boot, whatever daemons do to the other clocks;
/// never compared between two boots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uptime(u64);

/// A signed length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

/// A bound on |clock − UTC| in nanoseconds that should not be exceeded: the
/// kernel's `maxerror`, not the statistical `esterror`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MaxError(u64);

/// Counts the stretches of wall clock between steps; a new one starts at each
/// step and at each boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimebaseId(pub u32);

impl EventTime {
    /// From nanoseconds since the UNIX epoch.
    pub const fn from_unix_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the UNIX epoch.
    pub const fn unix_ns(self) -> i64 {
        self.0
    }
}

impl IngestTime {
    /// From nanoseconds since the UNIX epoch.
    pub const fn from_unix_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the UNIX epoch.
    pub const fn unix_ns(self) -> i64 {
        self.0
    }

    /// The event time a reading gets that carries none of its own: the moment
    /// it came in.
    pub const fn as_event_time(self) -> EventTime {
        EventTime(self.0)
    }

    /// How far behind `event` this gateway took the reading in; negative when
    /// the stamp lies in the future.
    pub const fn lag_behind(self, event: EventTime) -> Span {
        Span(self.0.saturating_sub(event.0))
    }
}

impl MonoTime {
    /// From nanoseconds since boot.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since boot.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to here; zero when `earlier` is later.
    pub const fn since(self, earlier: MonoTime) -> Span {
        Span(self.0.saturating_sub(earlier.0) as i64)
    }
}

impl Uptime {
    /// From nanoseconds since boot.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since boot.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds since `earlier`; zero when it is later.
    pub const fn since_ns(self, earlier: Uptime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Nanoseconds between the two, whichever is first.
    pub const fn distance_ns(self, other: Uptime) -> u64 {
        self.0.abs_diff(other.0)
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// From nanoseconds.
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// From milliseconds.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// From seconds.
    pub const fn from_secs(s: i64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds.
    pub const fn ns(self) -> i64 {
        self.0
    }

    /// From seconds, to the nearest nanosecond; saturates.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round() as i64)
    }

    /// Seconds, for people and metrics.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// As an unsigned standard duration; zero when negative.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(if self.0 < 0 { 0 } else { self.0 as u64 })
    }

    /// From a standard duration, saturating at 292 years.
    pub fn from_std(duration: std::time::Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl MaxError {
    /// From nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// With a further error of up to `span`, either way.
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0.unsigned_abs()))
    }

    /// Microseconds, rounded up: a bound must not shrink on its way out.
    pub const fn micros_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }
}

impl Sub for EventTime {
    type Output = Span;
    fn sub(self, earlier: EventTime) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Sub<Span> for EventTime {
    type Output = EventTime;
    fn sub(self, span: Span) -> EventTime {
        EventTime(self.0.saturating_sub(span.0))
    }
}

impl Add<Span> for EventTime {
    type Output = EventTime;
    fn add(self, span: Span) -> EventTime {
        EventTime(self.0.saturating_add(span.0))
    }
}

impl Sub for IngestTime {
    type Output = Span;
    fn sub(self, earlier: IngestTime) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for MonoTime {
    type Output = MonoTime;
    fn add(self, span: Span) -> MonoTime {
        MonoTime(self.0.saturating_add_signed(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_rfc3339(self.0, f)
    }
}

impl fmt::Display for IngestTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_rfc3339(self.0, f)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s", self.as_secs_f64())
    }
}

/// RFC 3339, UTC, always nine decimals: text of one length sorts and parses
/// the same everywhere.
fn fmt_rfc3339(unix_ns: i64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let time: DateTime<Utc> = DateTime::from_timestamp_nanos(unix_ns);
    write!(f, "{}", time.format("%Y-%m-%dT%H:%M:%S%.9fZ"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_time_prints_nine_decimals_before_and_after_1970() {
        assert_eq!(
            EventTime::from_unix_ns(1_796_000_523_123_000_000).to_string(),
            "2026-11-30T01:02:03.123000000Z"
        );
        assert_eq!(EventTime::from_unix_ns(-1).to_string(), "1969-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn max_error_rounds_up() {
        assert_eq!(MaxError::from_ns(1_000).micros_ceil(), 1);
        assert_eq!(MaxError::from_ns(1_001).micros_ceil(), 2);
        assert_eq!(MaxError::from_ns(0).micros_ceil(), 0);
    }

    #[test]
    fn spans_saturate_instead_of_wrapping() {
        let ends = EventTime::from_unix_ns(i64::MAX) - EventTime::from_unix_ns(i64::MIN);
        assert_eq!(ends, Span::from_ns(i64::MAX));
        assert_eq!(MonoTime::from_ns(5).since(MonoTime::from_ns(9)), Span::ZERO);
    }
}
