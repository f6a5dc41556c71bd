//! RFC 3339 text, written straight into the payload. Two times a reading made
//! a general formatter the most expensive part of the encoding.

const NS_PER_S: i64 = 1_000_000_000;
const S_PER_DAY: i64 = 86_400;

/// Appends `2026-11-30T01:02:03.123000000Z`: UTC, always nine decimals.
pub(super) fn rfc3339(unix_ns: i64, out: &mut Vec<u8>) {
    let seconds = unix_ns.div_euclid(NS_PER_S);
    let nanos = unix_ns.rem_euclid(NS_PER_S) as u64;
    let (year, month, day) = civil_date(seconds.div_euclid(S_PER_DAY));
    let second = seconds.rem_euclid(S_PER_DAY) as u64;
    let mut text = *b"0000-00-00T00:00:00.000000000Z";
    digits(year, &mut text[0..4]);
    digits(month, &mut text[5..7]);
    digits(day, &mut text[8..10]);
    digits(second / 3_600, &mut text[11..13]);
    digits(second / 60 % 60, &mut text[14..16]);
    digits(second % 60, &mut text[17..19]);
    digits(nanos, &mut text[20..29]);
    out.extend_from_slice(&text);
}

/// Appends `+01:00`. Seconds are written only where an offset has them, as
/// local mean times do.
pub(super) fn utc_offset(seconds_east: i32, out: &mut Vec<u8>) {
    let amount = u64::from(seconds_east.unsigned_abs());
    let mut text = *b"+00:00:00";
    if seconds_east < 0 {
        text[0] = b'-';
    }
    digits(amount / 3_600 % 100, &mut text[1..3]);
    digits(amount / 60 % 60, &mut text[4..6]);
    digits(amount % 60, &mut text[7..9]);
    let length = if amount % 60 == 0 { 6 } else { 9 };
    out.extend_from_slice(&text[..length]);
}

fn digits(mut number: u64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Year, month and day of a day counted from 1970-01-01. The year is taken to
/// begin in March, so that the leap day is its last and a month's start is a
/// linear function of its number. Years of an `i64` of nanoseconds (1677 to
/// 2262) are all four digits long.
fn civil_date(days: i64) -> (u64, u64, u64) {
    const DAYS_TO_1970: i64 = 719_468; // from 0000-03-01
    const DAYS_PER_ERA: i64 = 146_097; // 400 years
    let days = days + DAYS_TO_1970;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as u64, month as u64, day as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::time::EventTime;

    fn written(unix_ns: i64) -> String {
        let mut out = Vec::new();
        rfc3339(unix_ns, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn offset(seconds_east: i32) -> String {
        let mut out = Vec::new();
        utc_offset(seconds_east, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_have_nine_decimals_on_either_side_of_1970_and_of_leap_days() {
        assert_eq!(written(1_796_000_523_123_000_000), "2026-11-30T01:02:03.123000000Z");
        assert_eq!(written(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(written(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(written(951_782_400_000_000_000), "2000-02-29T00:00:00.000000000Z");
        assert_eq!(written(951_868_800_000_000_000), "2000-03-01T00:00:00.000000000Z");
        assert_eq!(written(i64::MIN), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(written(i64::MAX), "2262-04-11T23:47:16.854775807Z");
    }

    #[test]
    fn offsets_have_a_sign_and_seconds_only_where_there_are_some() {
        assert_eq!(offset(3_600), "+01:00");
        assert_eq!(offset(0), "+00:00");
        assert_eq!(offset(-12_600), "-03:30");
        assert_eq!(offset(3_208), "+00:53:28");
    }

    proptest! {
        #[test]
        fn every_time_is_written_as_chrono_writes_it(unix_ns: i64) {
            prop_assert_eq!(written(unix_ns), EventTime::from_unix_ns(unix_ns).to_string());
        }
    }
}
