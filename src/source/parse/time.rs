//! Device times as text or number, exact to the nanosecond: no floating point
//! on the way.
//!
//! Times outside 1678-01-01 … 2262-04-11T23:47:16.854775807Z are refused, for
//! 64-bit nanoseconds cannot hold them. Digits beyond the ninth of a fraction
//! are cut. Second 60 is taken where a leap second was, and becomes the last
//! nanosecond before the next second.

use super::Fault;
use crate::config::TimeUnit;
use crate::core::leap;
use crate::core::reading::{DeviceTime, Flags};
use crate::core::time::EventTime;

const NS: i128 = 1_000_000_000;
/// 1678-01-01T00:00:00Z in seconds.
const EARLIEST_S: i128 = -9_214_560_000;

fn fault(text: &str, what: &str) -> Fault {
    // What was sent may be long; the quarantine keeps it whole.
    let shown: String = text.chars().take(40).collect();
    Fault::new("time", format!("time {shown:?} {what}"))
}

/// A time as text: RFC 3339 in its field spellings, or digits.
///
/// Taken are lower case `t` and `z`, a space for `T`, a comma for the decimal
/// point, `+0530` for `+05:30`, and a time without an offset, which is read as if
/// it were UTC and flagged: stamping applies the zone of the source. An offset is kept only where digits gave one; `-00:00`
/// says that it is not known.
///
/// # Errors
/// A fault of kind `time`.
pub fn parse_text(text: &str, unit: TimeUnit) -> Result<DeviceTime, Fault> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let is_number = unsigned.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number && !unsigned.is_empty() {
        return parse_number(text, unit);
    }
    match read_calendar(text.as_bytes()) {
        Ok(time) => Ok(time),
        Err(what) => Err(fault(text, what)),
    }
}

/// A time as a decimal number of `unit` since 1970-01-01T00:00:00Z, without an
/// exponent.
///
/// With [`TimeUnit::Auto`] the magnitude decides: below 10^11 seconds, below
/// 10^14 milliseconds, below 10^17 microseconds, from there nanoseconds.
///
/// # Errors
/// A fault of kind `time`.
pub fn parse_number(text: &str, unit: TimeUnit) -> Result<DeviceTime, Fault> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(fault(text, "is not a decimal number")),
        None => (digits, ""),
    };
    let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_plain(whole) || !is_plain(fraction) {
        return Err(fault(text, "is not a decimal number without exponent"));
    }
    let whole = whole.parse::<u64>().map_err(|_| fault(text, "is out of range"))?;
    let unit_ns: i128 = match unit {
        TimeUnit::Seconds => NS,
        TimeUnit::Millis => 1_000_000,
        TimeUnit::Micros => 1_000,
        TimeUnit::Nanos => 1,
        TimeUnit::Auto => match whole {
            0..100_000_000_000 => NS,
            100_000_000_000..100_000_000_000_000 => 1_000_000,
            100_000_000_000_000..100_000_000_000_000_000 => 1_000,
            _ => 1,
        },
    };
    let magnitude =
        i128::from(whole) * unit_ns + i128::from(nanos(fraction.as_bytes())) * unit_ns / NS;
    let ns = if is_negative { -magnitude } else { magnitude };
    device_time(ns, None, Flags::NONE).map_err(|what| fault(text, what))
}

/// The first nine digits of a fraction as nanoseconds.
fn nanos(fraction: &[u8]) -> u32 {
    let padded = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    padded.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
}

fn device_time(
    ns: i128,
    utc_offset_s: Option<i32>,
    flags: Flags,
) -> Result<DeviceTime, &'static str> {
    let in_range = i64::try_from(ns).ok().filter(|_| ns >= EARLIEST_S * NS);
    let ns = in_range.ok_or("is not between the years 1678 and 2262")?;
    Ok(DeviceTime { at: EventTime::from_unix_ns(ns), utc_offset_s, flags })
}

/// Reads bytes from the front.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn digits(&mut self, count: usize) -> Option<u32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0 = rest;
        Some(digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
    }

    fn one_of(&mut self, known: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        known.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    /// A decimal mark and what follows it, as nanoseconds.
    fn fraction(&mut self) -> Option<u32> {
        if self.one_of(b".,").is_none() {
            return Some(0);
        }
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        (count > 0).then(|| nanos(digits))
    }

    /// `Z`, `+05:30`, `+0530`, or nothing; the inner `None` is "not said".
    fn offset(&mut self) -> Option<Offset> {
        if self.0.is_empty() {
            return Some(Offset::Missing);
        }
        let sign = self.one_of(b"Zz+-")?;
        if matches!(sign, b'Z' | b'z') {
            return Some(Offset::Utc);
        }
        let hours = self.digits(2)?;
        self.one_of(b":");
        let minutes = self.digits(2)?;
        if hours > 23 || minutes > 59 {
            return None;
        }
        let seconds = (hours * 3600 + minutes * 60) as i32;
        Some(match (sign, seconds) {
            (b'-', 0) => Offset::Utc,
            (b'-', seconds) => Offset::East(-seconds),
            (_, seconds) => Offset::East(seconds),
        })
    }
}

#[derive(Clone, Copy)]
enum Offset {
    Missing,
    Utc,
    East(i32),
}

fn read_calendar(text: &[u8]) -> Result<DeviceTime, &'static str> {
    const FORM: &str = "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number";
    let mut cursor = Cursor(text);
    let mut date_time = || {
        let year = cursor.digits(4)?;
        cursor.one_of(b"-")?;
        let month = cursor.digits(2)?;
        cursor.one_of(b"-")?;
        let day = cursor.digits(2)?;
        cursor.one_of(b"Tt ")?;
        let hour = cursor.digits(2)?;
        cursor.one_of(b":")?;
        let minute = cursor.digits(2)?;
        cursor.one_of(b":")?;
        let second = cursor.digits(2)?;
        Some(((year, month, day), (hour, minute, second)))
    };
    let (date, (hour, minute, second)) = date_time().ok_or(FORM)?;
    let nanos = cursor.fraction().ok_or("has no digits after the decimal mark")?;
    let offset = cursor.offset().filter(|_| cursor.0.is_empty());
    let offset = offset.ok_or("has no valid offset at its end")?;
    let day = day_number(date).ok_or("names a day that does not exist")?;
    if hour > 23 || minute > 59 || second > 60 {
        return Err("names a time of day that does not exist");
    }
    let (offset_s, mut flags) = match offset {
        Offset::Missing => (None, Flags::NO_OFFSET),
        Offset::Utc => (None, Flags::NONE),
        Offset::East(seconds) => (Some(seconds), Flags::NONE),
    };
    let east = i64::from(offset_s.unwrap_or(0));
    let minute_s = day * 86_400 + i64::from(hour * 3600 + minute * 60) - east;
    let mut second = i64::from(second);
    let mut nanos = nanos;
    if second == 60 {
        let next_s = minute_s + 60;
        // Of a local time only the minute is known; stamping knows the rest.
        let can_be = match offset {
            Offset::Missing => next_s % 900 == 0 && leap::ends_near(next_s),
            _ => leap::ends_at(next_s),
        };
        if !can_be {
            return Err("has second 60 where no leap second was");
        }
        // UTC without leap seconds has no place for it. Its last nanosecond keeps
        // the order: after all of second 59, before the next day.
        (second, nanos) = (59, 999_999_999);
        flags = flags.with(Flags::LEAP);
    }
    device_time(i128::from(minute_s + second) * NS + i128::from(nanos), offset_s, flags)
}

/// Days from 1970-01-01; `None` when there is no such day.
fn day_number((year, month, day): (u32, u32, u32)) -> Option<i64> {
    let date = chrono::NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    Some(date.signed_duration_since(chrono::NaiveDate::default()).num_days())
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
