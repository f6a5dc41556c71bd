//! The clock at the arrival of a reading that is stamped a moment later: it may have been
//! set in between.

use super::super::kernel::Leap;
use super::super::{ClockReading, detect};
use super::ClockModel;
use crate::core::reading::{Arrival, Flags};
use crate::core::seam::Now;
use crate::core::time::{IngestTime, Uptime};

/// One UTC day.
const DAY_NS: i64 = 86_400_000_000_000;
/// One second.
const SECOND_NS: i64 = 1_000_000_000;

impl ClockModel {
    /// The clock as it was at an arrival, with flags. A reading that arrived just before a
    /// step belongs to the clock before it.
    pub fn reading_at(&self, arrival: &Arrival, now: &Now) -> (ClockReading, Flags) {
        let current = self.reading(now);
        let less_up = |wall: IngestTime, up: Uptime| wall.unix_ns().wrapping_sub(up.ns() as i64);
        let moved_ns =
            less_up(now.wall, now.uptime()).wrapping_sub(less_up(arrival.ingest, arrival.uptime));
        // While a batch waits, slewing moves the clock too.
        let waited_ns = now.uptime().since_ns(arrival.uptime);
        let slack_ns = detect::STEP_MIN_NS.unsigned_abs().saturating_add(waited_ns / 10);
        if moved_ns.unsigned_abs() < slack_ns {
            return (current, self.leap_flag(arrival.ingest));
        }
        let before = self.before_steps.iter().find(|(_, up)| arrival.uptime <= *up);
        (before.map_or(current, |(reading, _)| *reading), Flags::STEP_NEAR)
    }

    /// In the second before and after a leap second, and in it, wall time is not
    /// what it seems.
    fn leap_flag(&self, wall: IngestTime) -> Flags {
        let into_day_ns = wall.unix_ns().rem_euclid(DAY_NS);
        let is_near = match self.leap() {
            Leap::None => false,
            Leap::InsertPending | Leap::DeletePending => into_day_ns >= DAY_NS - SECOND_NS,
            Leap::InProgress => true,
            Leap::JustDone => into_day_ns < SECOND_NS,
        };
        if is_near { Flags::LEAP } else { Flags::NONE }
    }
}
