//! Device times as text or number, exact to the nanosecond: no floating point
//! on the way.
//!
//! Times outside 1678-01-01 … 2262-04-11T23:47:16.854775807Z are refused, for
//! 64-bit nanoseconds cannot hold them. Digits beyond the ninth of a fraction
//! are cut.

use super::Fault;
use crate::config::TimeUnit;
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
/// point, `+0530` for `+05:30`, and a time without an offset, which counts as
/// UTC and is flagged. An offset is kept only where digits gave one; `-00:00`
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
    if second == 60 {
        if !ends_a_month(minute_s + 60) {
            return Err("has second 60 where no leap second can be");
        }
        // The clocks of this gateway repeat 23:59:59 too.
        second = 59;
        flags = flags.with(Flags::LEAP);
    }
    device_time(i128::from(minute_s + second) * NS + i128::from(nanos), offset_s, flags)
}

/// Days from 1970-01-01; `None` when there is no such day.
fn day_number((year, month, day): (u32, u32, u32)) -> Option<i64> {
    let date = chrono::NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    Some(date.signed_duration_since(chrono::NaiveDate::default()).num_days())
}

/// Whether this is midnight UTC at the start of a month: where leap seconds end.
fn ends_a_month(unix_s: i64) -> bool {
    use chrono::Datelike;
    let midnight = chrono::DateTime::from_timestamp(unix_s, 0);
    unix_s.rem_euclid(86_400) == 0 && midnight.is_some_and(|time| time.day() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instant as printed, the offset and the names of the flags.
    fn check(text: &str, expected: &str) {
        let time = parse_text(text, TimeUnit::Auto).unwrap();
        let offset = time.utc_offset_s.map_or(String::new(), |offset| format!(" {offset}"));
        let flags: String = time.flags.names().map(|name| format!(" {name}")).collect();
        assert_eq!(format!("{}{offset}{flags}", time.at), expected, "{text}");
    }

    fn refused(text: &str, unit: TimeUnit) -> String {
        let fault = parse_text(text, unit).unwrap_err();
        assert_eq!(fault.kind, "time");
        fault.what
    }

    #[test]
    fn spellings_seen_in_the_field_are_taken() {
        check("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000000000Z");
        check("2026-03-01 12:00:00Z", "2026-03-01T12:00:00.000000000Z");
        check("2026-03-01t12:00:00z", "2026-03-01T12:00:00.000000000Z");
        check("2026-03-01T12:00:00.5Z", "2026-03-01T12:00:00.500000000Z");
        check("2026-03-01T12:00:00.123456789Z", "2026-03-01T12:00:00.123456789Z");
        check("2026-03-01T12:00:00.1234567891Z", "2026-03-01T12:00:00.123456789Z");
        check("2026-03-01T17:30:00+05:30", "2026-03-01T12:00:00.000000000Z 19800");
        check("2026-03-01T17:30:00+0530", "2026-03-01T12:00:00.000000000Z 19800");
        check("2026-03-01T04:00:00-08:00", "2026-03-01T12:00:00.000000000Z -28800");
        check("2026-03-01T12:00:00-00:00", "2026-03-01T12:00:00.000000000Z");
        check("2026-03-01T12:00:00+00:00", "2026-03-01T12:00:00.000000000Z 0");
        check("2026-03-01T12:00:00,250Z", "2026-03-01T12:00:00.250000000Z");
        check("2026-03-01T12:00:00", "2026-03-01T12:00:00.000000000Z no_offset");
        check("1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn texts_that_are_no_time_are_refused() {
        for (text, what) in [
            ("2026-02-29T12:00:00Z", "names a day that does not exist"),
            ("2026-03-01T12:00:00.Z", "has no digits after the decimal mark"),
            ("2026-03-01T12:60:00Z", "names a time of day that does not exist"),
            ("2026-13-01T12:00:00Z", "names a day that does not exist"),
            ("2026-03-01T12:00:00+25:00", "has no valid offset at its end"),
            ("2026-03-01T12:00:00Zx", "has no valid offset at its end"),
            ("", "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number"),
            ("-", "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number"),
            ("yesterday", "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number"),
            ("2026-03-01", "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number"),
            ("1.2.3", "is not a decimal number without exponent"),
        ] {
            assert_eq!(refused(text, TimeUnit::Auto), format!("time {text:?} {what}"));
        }
    }

    #[test]
    fn a_leap_second_repeats_second_59_with_its_own_fraction() {
        check("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000000000Z leap");
        check("2016-12-31T23:59:60.500Z", "2016-12-31T23:59:59.500000000Z leap");
        check("2017-01-01T05:29:60+05:30", "2016-12-31T23:59:59.000000000Z 19800 leap");
        let nowhere = "has second 60 where no leap second can be";
        for text in ["2026-03-01T12:00:60Z", "2016-12-30T23:59:60Z", "2016-12-31T23:59:60+01:00"] {
            assert_eq!(refused(text, TimeUnit::Auto), format!("time {text:?} {nowhere}"));
        }
    }

    #[test]
    fn the_unit_of_a_number_follows_its_magnitude() {
        check("1700000000", "2023-11-14T22:13:20.000000000Z");
        check("1700000000123", "2023-11-14T22:13:20.123000000Z");
        check("1700000000123456", "2023-11-14T22:13:20.123456000Z");
        check("1700000000123456789", "2023-11-14T22:13:20.123456789Z");
        check("946684800000", "2000-01-01T00:00:00.000000000Z");
        check("86400000", "1972-09-27T00:00:00.000000000Z");
        check("0", "1970-01-01T00:00:00.000000000Z");
    }

    #[test]
    fn decimal_fractions_stay_exact() {
        check("1764464523.123", "2025-11-30T01:02:03.123000000Z");
        check("1764464523.1234567899", "2025-11-30T01:02:03.123456789Z");
        check("1764464523123.5", "2025-11-30T01:02:03.123500000Z");
        check("-0.5", "1969-12-31T23:59:59.500000000Z");
        let ns = parse_number("1764464523123456789", TimeUnit::Nanos).unwrap().at.unix_ns();
        assert_eq!(ns, 1_764_464_523_123_456_789);
        let exponent = parse_number("1.7e9", TimeUnit::Seconds).unwrap_err().what;
        assert_eq!(exponent, "time \"1.7e9\" is not a decimal number without exponent");
    }

    #[test]
    fn years_that_nanoseconds_cannot_hold_are_refused() {
        let last = parse_text("2262-04-11T23:47:16.854775807Z", TimeUnit::Auto).unwrap();
        assert_eq!(last.at.unix_ns(), i64::MAX);
        check("1678-01-01T00:00:00Z", "1678-01-01T00:00:00.000000000Z");
        for text in [
            "2262-04-11T23:47:16.854775808Z",
            "9999-12-31T23:59:59Z",
            "0001-01-01T00:00:00Z",
            "1601-01-01T00:00:00Z",
            "1677-12-31T23:59:59.999999999Z",
        ] {
            let what = refused(text, TimeUnit::Auto);
            assert_eq!(what, format!("time {text:?} is not between the years 1678 and 2262"));
        }
        let what = refused("1700000000123", TimeUnit::Seconds);
        assert_eq!(what, "time \"1700000000123\" is not between the years 1678 and 2262");
        let what = refused("99999999999999999999", TimeUnit::Auto);
        assert_eq!(what, "time \"99999999999999999999\" is out of range");
    }
}
