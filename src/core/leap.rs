//! The leap seconds there were: where a clock may show `:60`.

/// The days of UTC whose last minute had 61 seconds, as (year, month); the day is
/// the month's last. Source: IERS Bulletin C, <https://hpiers.obspm.fr/iers/bul/bulc/Leap_Second.dat>.
/// None has been announced since; the General Conference on Weights and
/// Measures wants none after 2035.
const LEAPS: [(i32, u32); 27] = [
    (1972, 6),
    (1972, 12),
    (1973, 12),
    (1974, 12),
    (1975, 12),
    (1976, 12),
    (1977, 12),
    (1978, 12),
    (1979, 12),
    (1981, 6),
    (1982, 6),
    (1983, 6),
    (1985, 6),
    (1987, 12),
    (1989, 12),
    (1990, 12),
    (1992, 6),
    (1993, 6),
    (1994, 6),
    (1995, 12),
    (1997, 6),
    (1998, 12),
    (2005, 12),
    (2008, 12),
    (2012, 6),
    (2015, 6),
    (2016, 12),
];

/// Whether a leap second ended at this second since 1970-01-01T00:00:00Z: always
/// the midnight that begins a January or a July.
pub fn ends_at(unix_s: i64) -> bool {
    use chrono::{DateTime, Datelike};
    if unix_s.rem_euclid(86_400) != 0 {
        return false;
    }
    let Some(midnight) = DateTime::from_timestamp(unix_s, 0) else { return false };
    let before = match (midnight.month(), midnight.day()) {
        (1, 1) => (midnight.year() - 1, 12),
        (7, 1) => (midnight.year(), 6),
        _ => return false,
    };
    LEAPS.contains(&before)
}

/// Whether a leap second ended within a day of this second. Nothing more exact can be
/// asked of a local time whose offset is not known yet.
pub fn ends_near(unix_s: i64) -> bool {
    let day = unix_s.div_euclid(86_400);
    (day - 1..=day + 2).any(|day| ends_at(day * 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_leap_seconds_count() {
        assert!(ends_at(1_483_228_800), "2017-01-01");
        assert!(ends_at(1_341_100_800), "2012-07-01");
        assert!(ends_at(78_796_800), "1972-07-01");
        for not in [1_483_228_801, 1_485_907_200, 1_498_867_200, 1_467_331_200, 0, i64::MAX] {
            assert!(!ends_at(not), "{not}");
        }
        assert_eq!((0..40_000).filter(|day| ends_at(day * 86_400)).count(), LEAPS.len());
        assert!(ends_near(1_483_228_800 + 14 * 3_600) && ends_near(1_483_228_800 - 14 * 3_600));
        assert!(!ends_near(1_483_228_800 + 49 * 3_600));
    }
}
