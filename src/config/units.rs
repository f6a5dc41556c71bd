//! The units in which sizes and lengths of time are written, for defaults and
//! ranges.

use std::time::Duration;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

pub(super) const HOUR: Duration = secs(3_600);
pub(super) const DAY: Duration = secs(24 * 3_600);
/// The longest there is, so that a range up to a year takes every one.
pub(super) const YEAR: Duration = secs(366 * 24 * 3_600);
/// As people write it: a year has 365.25 days.
pub(super) const TEN_YEARS: Duration = secs(315_576_000);

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}
