//! Which readings enter windows, and which of them move a watermark.

use serde::{Deserialize, Serialize};

use super::Number;
use crate::core::id::BootId;
use crate::core::reading::{Flags, Origin, Stamp, Value};
use crate::core::time::Span;

/// Whether a reading enters windows when it comes. A gateway's stamp from before
/// this programme was made (`floor_ns`, since the UNIX epoch) does not: it waits
/// for a better one.
pub fn may_enter(stamp: &Stamp, floor_ns: i64) -> bool {
    // A released reading was given to the windows under its first number. A retained
    // message may have come before, and its age is not known.
    if stamp.flags.intersects(Flags::RELEASED.with(Flags::RETAINED)) {
        return false;
    }
    let is_device = matches!(stamp.origin, Origin::Device | Origin::DeviceCorrected);
    if is_device { stamp.flags.is_plausible() } else { stamp.event_time.unix_ns() >= floor_ns }
}

/// The number that a value is to a window; text and composites have none.
pub fn number(value: &Value) -> Option<Number> {
    match value {
        Value::F64(real) => real.is_finite().then_some(Number::Real(*real)),
        Value::I64(integer) => Some(Number::Int(i128::from(*integer))),
        Value::U64(integer) => Some(Number::Int(i128::from(*integer))),
        Value::Bool(is_true) => Some(Number::Int(i128::from(*is_true))),
        Value::Text(_) | Value::Composite(_) => None,
    }
}

/// The latest present that the gateway's clock has made plausible: what lies
/// further ahead than `future_limit` moves no watermark.
///
/// While the clock is trusted, that is its wall time. While it is not, it is the latest
/// wall time seen since then, carried on by uptime: a step back by hand must not stall
/// windows whose devices know the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Horizon {
    boot: Option<BootId>,
    wall_less_up_ns: i64,
}

impl Horizon {
    /// Whether this stamp moves a watermark. A wall time before `floor_ns` bounds
    /// nothing; a time that was found out later needs no bound.
    pub fn moves_watermark(&mut self, stamp: &Stamp, future_limit: Span, floor_ns: i64) -> bool {
        let is_sound = stamp.flags.is_plausible() && !stamp.flags.has(Flags::INCONSISTENT);
        if stamp.origin == Origin::Restamped {
            return is_sound;
        }
        let wall_ns = stamp.ingest_time.unix_ns();
        if wall_ns < floor_ns {
            return false;
        }
        let up_ns = stamp.uptime.ns() as i64;
        let wall_less_up_ns = wall_ns.wrapping_sub(up_ns);
        let is_same_boot = self.boot.replace(stamp.boot) == Some(stamp.boot);
        self.wall_less_up_ns = if is_same_boot && !stamp.state.is_trusted() {
            self.wall_less_up_ns.max(wall_less_up_ns)
        } else {
            wall_less_up_ns
        };
        let latest_ns =
            self.wall_less_up_ns.saturating_add(up_ns).saturating_add(future_limit.ns());
        is_sound && stamp.event_time.unix_ns() <= latest_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::clock::{ClockSource, ClockState};
    use crate::core::time::{EventTime, IngestTime, TimebaseId, Uptime};

    const FLOOR_NS: i64 = 1_767_225_600_000_000_000;
    const UTC_NS: i64 = 1_796_000_000_000_000_000;
    const S: i64 = 1_000_000_000;
    const LIMIT: Span = Span::from_secs(300);

    /// A device's stamp at `event_s`, taken in at `wall_s` after so many seconds.
    fn stamp(event_s: i64, wall_s: i64, up_s: u64, state: ClockState) -> Stamp {
        Stamp {
            event_time: EventTime::from_unix_ns(UTC_NS + event_s * S),
            ingest_time: IngestTime::from_unix_ns(UTC_NS + wall_s * S),
            uptime: Uptime::from_ns(up_s * S as u64),
            boot: BootId([1; 16]),
            origin: Origin::Device,
            clock: ClockSource::Ntp,
            state,
            max_error: None,
            timebase: TimebaseId(1),
            first_event_time: None,
            utc_offset_s: None,
            flags: Flags::NONE,
        }
    }

    #[test]
    fn a_clock_that_was_stepped_back_stalls_no_window() {
        let mut horizon = Horizon::default();
        let mut moves = |stamp: Stamp| horizon.moves_watermark(&stamp, LIMIT, FLOOR_NS);
        let (good, stepped) = (ClockState::Synchronized, ClockState::Stepped);
        assert!(moves(stamp(0, 0, 100, good)));
        assert!(!moves(stamp(301, 0, 100, good)), "the limit of the future");
        assert!(moves(stamp(10, 10 - 7_200, 110, stepped)));
        assert!(!moves(stamp(321, 20 - 7_200, 120, stepped)), "as before the step");
        // A day ahead by hand, and vouched for again.
        assert!(moves(stamp(30, 30 + 86_400, 130, stepped)));
        assert!(moves(stamp(40 + 86_400, 40, 140, stepped)), "nobody says that it was wrong");
        assert!(!moves(stamp(50 + 86_400, 50, 150, good)));
        assert!(!moves(stamp(60 + 86_400, 60, 160, stepped)));
    }

    #[test]
    fn a_clock_in_1970_bounds_nothing_and_a_restamped_reading_needs_none() {
        let mut horizon = Horizon::default();
        let unset = stamp(0, -UTC_NS / S + 20, 20, ClockState::Unsynchronized);
        assert!(!horizon.moves_watermark(&unset, LIMIT, FLOOR_NS));
        let restamped = Stamp { origin: Origin::Restamped, ..unset };
        assert!(horizon.moves_watermark(&restamped, LIMIT, FLOOR_NS));
    }

    /// It has been counted under its first number.
    #[test]
    fn what_an_operator_released_enters_no_window_again() {
        let first = stamp(UTC_NS / S, UTC_NS / S, 10, ClockState::Synchronized);
        assert!(may_enter(&first, FLOOR_NS));
        let again = Stamp { flags: first.flags.with(Flags::RELEASED), ..first };
        assert!(!may_enter(&again, FLOOR_NS));
    }
}
