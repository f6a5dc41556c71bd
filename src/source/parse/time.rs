//! Event times as devices write them: RFC 3339 in its field spellings, and
//! numbers of seconds, milli-, micro- or nanoseconds. No floating point on the
//! way: every digit counts.

use chrono::{DateTime, NaiveDate, NaiveTime};

use super::Reject;
use crate::config::TimeUnit;
use crate::core::reading::{DeviceTime, Flags};
use crate::core::time::EventTime;

/// Reads a time written as text: RFC 3339 (also with a space for `T`, lower
/// case, no offset: then UTC and flagged `no_offset`), or a number.
///
/// # Errors
/// `time`: not a time, or outside the years 1678 to 2262.
pub fn text(text: &str, unit: TimeUnit) -> Result<DeviceTime, Reject> {
    let text = text.trim();
    let looks_like_a_date = text.len() >= 10 && text.as_bytes().get(4) == Some(&b'-');
    if looks_like_a_date { rfc3339(text) } else { number(text, unit) }
}

/// Reads a decimal number of `unit` since 1970, a fraction allowed, digits below
/// a nanosecond cut off. `Auto` judges by the size: below 10^11 seconds, below
/// 10^14 milliseconds, below 10^17 microseconds, else nanoseconds; which is right
/// for every instant from 1973 to 5138.
///
/// # Errors
/// `time`: not a decimal number, or outside the years 1678 to 2262.
pub fn number(text: &str, unit: TimeUnit) -> Result<DeviceTime, Reject> {
    let unsigned = text.strip_prefix('-');
    let is_negative = unsigned.is_some();
    let (whole, fraction) = unsigned.unwrap_or(text).split_once('.').unwrap_or((unsigned.unwrap_or(text), ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || whole.len() > 20 {
        return Err(bad(text, "not an RFC 3339 time and not a decimal number"));
    }
    let whole: i128 = whole.parse().map_err(|_| bad(text, "not a decimal number"))?;
    let scale = scale_ns(whole, unit);
    let mut ns = whole * scale;
    let mut place = scale;
    for digit in fraction.bytes() {
        if place == 1 {
            break;
        }
        place /= 10;
        ns += i128::from(digit - b'0') * place;
    }
    let ns = if is_negative { -ns } else { ns };
    let ns = i64::try_from(ns).map_err(|_| out_of_range(text))?;
    Ok(DeviceTime { at: EventTime::from_unix_ns(ns), utc_offset_s: None, flags: Flags::NONE })
}

fn scale_ns(whole: i128, unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Seconds => 1_000_000_000,
        TimeUnit::Millis => 1_000_000,
        TimeUnit::Micros => 1_000,
        TimeUnit::Nanos => 1,
        TimeUnit::Auto if whole < 100_000_000_000 => 1_000_000_000,
        TimeUnit::Auto if whole < 100_000_000_000_000 => 1_000_000,
        TimeUnit::Auto if whole < 100_000_000_000_000_000 => 1_000,
        TimeUnit::Auto => 1,
    }
}

fn rfc3339(text: &str) -> Result<DeviceTime, Reject> {
    let date: NaiveDate =
        text.get(..10).and_then(|date| date.parse().ok()).ok_or_else(|| bad(text, "no such date"))?;
    let rest = text.get(10..).unwrap_or_default();
    let clock = rest
        .strip_prefix(['T', 't', ' '])
        .ok_or_else(|| bad(text, "expected T between date and time"))?;
    let zone_at = clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(zone_at);
    let (time_ns, is_leap) = clock_ns(clock.trim_end()).ok_or_else(|| bad(text, "no such time of day"))?;
    let (offset_s, flags) = offset(zone).ok_or_else(|| bad(text, "no such offset"))?;
    let midnight = date.and_time(NaiveTime::MIN).and_utc();
    let seconds = i128::from(DateTime::timestamp(&midnight)) - i128::from(offset_s.unwrap_or(0));
    let ns = i64::try_from(seconds * 1_000_000_000 + i128::from(time_ns))
        .map_err(|_| out_of_range(text))?;
    let flags = if is_leap { flags.with(Flags::LEAP) } else { flags };
    Ok(DeviceTime { at: EventTime::from_unix_ns(ns), utc_offset_s: offset_s, flags })
}

/// `hh:mm:ss[.fraction]` in nanoseconds. Second 60 is stamped within second 59,
/// as POSIX clocks repeat it, and said so.
fn clock_ns(text: &str) -> Option<(i64, bool)> {
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let mut next = |max: i64| -> Option<i64> {
        let part = parts.next()?;
        let is_two_digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|number| is_two_digits && *number <= max)
    };
    let (hours, minutes) = (next(23)?, next(59)?);
    let seconds = next(60)?;
    if parts.next().is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if text.ends_with(['.', ',']) {
        return None;
    }
    let mut fraction_ns = 0;
    let mut place = 100_000_000;
    for digit in fraction.bytes().take(9) {
        fraction_ns += i64::from(digit - b'0') * place;
        place /= 10;
    }
    let is_leap = seconds == 60;
    let seconds = hours * 3_600 + minutes * 60 + seconds.min(59);
    Some((seconds * 1_000_000_000 + fraction_ns, is_leap))
}

fn offset(zone: &str) -> Option<(Option<i32>, Flags)> {
    if zone.is_empty() {
        return Some((None, Flags::NO_OFFSET));
    }
    if zone.eq_ignore_ascii_case("z") {
        return Some((Some(0), Flags::NONE));
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits: String = zone.get(1..)?.chars().filter(|character| *character != ':').collect();
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let (hours, minutes) = match digits.len() {
        2 => (&digits[..], "0"),
        4 => digits.split_at(2),
        _ => return None,
    };
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (is_number && hours <= 23 && minutes <= 59)
        .then_some((Some(sign * (hours * 3_600 + minutes * 60)), Flags::NONE))
}

fn bad(text: &str, why: &str) -> Reject {
    let shown: String = text.chars().take(60).collect();
    Reject::new("time", format!("time {shown:?}: {why}"))
}

fn out_of_range(text: &str) -> Reject {
    bad(text, "outside the years 1678 to 2262")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> String {
        text(time, TimeUnit::Auto).unwrap().at.to_string()
    }

    #[test]
    fn the_spellings_of_rfc_3339_in_the_field() {
        let expected = "2026-11-30T01:02:03.123000000Z";
        for spelling in [
            "2026-11-30T01:02:03.123Z",
            "2026-11-30t01:02:03.123z",
            "2026-11-30 01:02:03.123Z",
            "2026-11-30T02:02:03.123+01:00",
            "2026-11-30T02:02:03,123+0100",
            "2026-11-29T20:02:03.123-05",
            "2026-11-30T01:02:03.123000000999Z",
        ] {
            assert_eq!(at(spelling), expected, "{spelling}");
        }
        let local = text("2026-11-30T01:02:03.123", TimeUnit::Auto).unwrap();
        assert_eq!((local.utc_offset_s, local.flags), (None, Flags::NO_OFFSET));
    }

    #[test]
    fn a_leap_second_is_stamped_in_second_59_and_said() {
        let leap = text("2016-12-31T23:59:60.5Z", TimeUnit::Auto).unwrap();
        assert_eq!(leap.at.to_string(), "2016-12-31T23:59:59.500000000Z");
        assert_eq!(leap.flags, Flags::LEAP);
    }

    #[test]
    fn numbers_keep_every_digit() {
        let expected = "2025-11-30T01:02:03.123456789Z";
        assert_eq!(at("1764464523.123456789"), expected);
        assert_eq!(at("1764464523123.456789"), expected);
        assert_eq!(at("1764464523123456.789"), expected);
        assert_eq!(at("1764464523123456789"), expected);
        let seconds = number("-1.5", TimeUnit::Seconds).unwrap();
        assert_eq!(seconds.at.to_string(), "1969-12-31T23:59:58.500000000Z");
        assert_eq!(number("5", TimeUnit::Nanos).unwrap().at.unix_ns(), 5);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for nonsense in
            ["", "yesterday", "2026-13-01T00:00:00Z", "2026-11-30T24:00:00Z", "1e9", "2026-11-30",
             "2026-11-30T01:02:03.Z", "2026-11-30T01:02:03+25:00", "1.2.3", "99999999999999999999"]
        {
            assert_eq!(text(nonsense, TimeUnit::Auto).unwrap_err().kind, "time", "{nonsense}");
        }
        assert!(text("2262-04-12T00:00:00Z", TimeUnit::Auto).is_err());
        assert!(text("1677-01-01T00:00:00Z", TimeUnit::Auto).is_err());
    }
}
