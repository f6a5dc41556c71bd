//! UTC at an uptime, as far as it is known: by anchors of the same boot, or by the boots
//! before and after it.
//!
//! An anchor says "at this uptime it was this UTC, within this error". Every
//! anchor gives an interval for every other uptime of its boot, wider with
//! distance; their intersection is the best bound, and an empty one says that
//! they contradict each other.

use super::drift;
use super::{ClockSource, ClockState};
use crate::core::reading::Flags;
use crate::core::time::Uptime;

/// Error that a suspend may add: its length is measured by a coarser clock than the
/// crystal.
const SUSPEND_ERROR_NS: u64 = 1_000_000_000;

/// One moment at which the clock was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The uptime.
    pub up: Uptime,
    /// UTC then, in nanoseconds since the UNIX epoch.
    pub utc_ns: i64,
    /// Bound on its error, in nanoseconds.
    pub error_ns: u64,
}

/// Suspends between two uptimes, both ends included; `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspends {
    /// Uptime at the first.
    pub first: Uptime,
    /// Uptime at the last.
    pub last: Uptime,
    /// How many.
    pub count: u32,
}

/// The anchors of one boot, and how its crystal runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anchored {
    /// Ascending by uptime; at least one.
    pub anchors: Vec<Anchor>,
    /// Its suspends, ascending.
    pub suspends: Vec<Suspends>,
    /// True seconds per second of uptime, less one, in parts per billion.
    pub rate_ppb: i64,
    /// Bound on the error of that rate, in parts per billion.
    pub rate_error_ppb: u64,
    /// What disciplined the clock at the anchors.
    pub source: ClockSource,
}

/// What is known of a boot that was never synchronized, from its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// UTC cannot have been earlier when the boots in between began, in
    /// nanoseconds since the UNIX epoch.
    pub after_ns: i64,
    /// Uptimes of the unsynchronized boots before this one, summed.
    pub uptime_before_ns: u64,
    /// UTC cannot have been later when the boots in between ended.
    pub before_ns: i64,
    /// Uptimes of this boot and the unsynchronized ones after it, summed.
    pub uptime_after_ns: u64,
    /// Bound on the rate error of the crystal, in parts per billion.
    pub rate_error_ppb: u64,
    /// Whether a wall clock that was saved or kept by a battery set the time:
    /// then it is the better guess within the bounds.
    pub is_wall_plausible: bool,
}

/// An interval of UTC in nanoseconds since the UNIX epoch; empty when `low` is
/// greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Not earlier.
    pub low_ns: i128,
    /// Not later.
    pub high_ns: i128,
}

/// The result of re-stamping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retimed {
    /// UTC, in nanoseconds since the UNIX epoch.
    pub utc_ns: i64,
    /// Bound on its error; `None` when nothing bounds it.
    pub error_ns: Option<u64>,
    /// Whether the stamp was replaced; if false the first stamp stays.
    pub is_restamped: bool,
    /// What is to be known about it.
    pub flags: Flags,
}

/// A stamp as it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstStamp {
    /// The uptime it was made at.
    pub up: Uptime,
    /// Wall time as read.
    pub wall_ns: i64,
    /// How far the clock was trusted.
    pub state: ClockState,
    /// Bound on its error.
    pub error_ns: Option<u64>,
}

impl Interval {
    /// The middle, rounded down.
    pub fn middle_ns(self) -> i64 {
        clamp((self.low_ns + self.high_ns).div_euclid(2))
    }

    /// Half its width, rounded up.
    pub fn half_ns(self) -> u64 {
        let width = u128::try_from(self.high_ns - self.low_ns).unwrap_or(0);
        u64::try_from(width.div_ceil(2)).unwrap_or(u64::MAX)
    }

    /// The greatest distance from `at_ns` to a point of the interval.
    pub fn reach_ns(self, at_ns: i64) -> u64 {
        let at = i128::from(at_ns);
        let reach = (at - self.low_ns).max(self.high_ns - at);
        u64::try_from(reach).unwrap_or(if reach < 0 { 0 } else { u64::MAX })
    }
}

impl Anchored {
    /// The interval of UTC at `up`; empty when the anchors contradict.
    pub fn interval(&self, up: Uptime) -> Interval {
        let each = self.anchors.iter().map(|anchor| self.seen_from(anchor, up));
        each.reduce(|a, b| Interval {
            low_ns: a.low_ns.max(b.low_ns),
            high_ns: a.high_ns.min(b.high_ns),
        })
        .unwrap_or(Interval { low_ns: i64::MIN.into(), high_ns: i64::MAX.into() })
    }

    /// Re-stamps a stamp of this boot. One made while synchronized is never changed,
    /// another only if the anchors bound its time better. If the anchors contradict each
    /// other (a paused virtual machine, a wrong server, a clock set by hand) the stamp
    /// stays, with an error that covers all of them.
    pub fn retime(&self, first: &FirstStamp) -> Retimed {
        let as_it_was = Retimed {
            utc_ns: first.wall_ns,
            error_ns: first.error_ns,
            is_restamped: false,
            flags: Flags::NONE,
        };
        if first.state == ClockState::Synchronized {
            return as_it_was;
        }
        let interval = self.interval(first.up);
        if interval.low_ns > interval.high_ns {
            let reaches =
                self.anchors.iter().map(|a| self.seen_from(a, first.up).reach_ns(first.wall_ns));
            let flags = Flags::STEP_NEAR.with(Flags::INCONSISTENT);
            return Retimed { error_ns: reaches.max(), flags, ..as_it_was };
        }
        let error_ns = interval.half_ns();
        if first.error_ns.is_some_and(|own_ns| error_ns >= own_ns) {
            return as_it_was;
        }
        let utc_ns = interval.middle_ns();
        Retimed { utc_ns, error_ns: Some(error_ns), is_restamped: true, flags: Flags::NONE }
    }

    fn seen_from(&self, anchor: &Anchor, up: Uptime) -> Interval {
        let away = i128::from(up.ns()) - i128::from(anchor.up.ns());
        let utc = i128::from(anchor.utc_ns) + away + scaled(away, self.rate_ppb);
        let distance_ns = up.distance_ns(anchor.up);
        let suspends = self.suspends_between(up, anchor.up);
        let error = u128::from(anchor.error_ns)
            + u128::from(drift::grow(distance_ns, self.rate_error_ppb))
            + u128::from(suspends) * u128::from(SUSPEND_ERROR_NS);
        let error = error as i128;
        Interval { low_ns: utc - error, high_ns: utc + error }
    }

    fn suspends_between(&self, a: Uptime, b: Uptime) -> u64 {
        let (from, to) = (a.min(b), a.max(b));
        let within = self.suspends.iter().filter(|some| some.last >= from && some.first <= to);
        within.map(|some| u64::from(some.count)).sum()
    }
}

impl Bounded {
    /// The interval of UTC at `up` of this boot.
    pub fn interval(&self, up: Uptime) -> Interval {
        let before_ns = self.uptime_before_ns.saturating_add(up.ns());
        let after_ns = self.uptime_after_ns.saturating_sub(up.ns());
        let widened = |ns: u64| i128::from(drift::grow(ns, self.rate_error_ppb));
        Interval {
            low_ns: i128::from(self.after_ns) + i128::from(before_ns) - widened(before_ns),
            high_ns: i128::from(self.before_ns) - i128::from(after_ns) + widened(after_ns),
        }
    }

    /// Re-stamps a stamp of this boot.
    pub fn retime(&self, first: &FirstStamp) -> Retimed {
        let interval = self.interval(first.up);
        let is_within = (interval.low_ns..=interval.high_ns).contains(&i128::from(first.wall_ns));
        let utc_ns =
            if self.is_wall_plausible && is_within { first.wall_ns } else { interval.middle_ns() };
        let error_ns = interval.reach_ns(utc_ns);
        let is_empty = interval.low_ns > interval.high_ns;
        if is_empty || first.error_ns.is_some_and(|own_ns| error_ns >= own_ns) {
            return Retimed {
                utc_ns: first.wall_ns,
                error_ns: first.error_ns,
                is_restamped: false,
                flags: if is_empty { Flags::INCONSISTENT } else { Flags::NONE },
            };
        }
        Retimed { utc_ns, error_ns: Some(error_ns), is_restamped: true, flags: Flags::NONE }
    }
}

/// `ns` times a rate in parts per billion, to the nearest nanosecond.
fn scaled(ns: i128, rate_ppb: i64) -> i128 {
    let product = ns * i128::from(rate_ppb);
    (product + 500_000_000).div_euclid(1_000_000_000)
}

fn clamp(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}
