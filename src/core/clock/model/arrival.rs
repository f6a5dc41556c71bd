//! What arrived before the clock was set and is stamped after.

use super::super::{ClockReading, ClockState};
use super::ClockModel;
use crate::core::reading::Arrival;
use crate::core::seam::Now;
use crate::core::time::IngestTime;

impl ClockModel {
    /// The clock and the arrival as they belong together in the stamp of what
    /// waited until this look.
    ///
    /// If the clock was set meanwhile, its wall time is of another timebase than
    /// the present one: it is told by the present one then, and by the crystal,
    /// as of a clock that nobody had vouched for.
    pub fn at_arrival(&self, arrival: &Arrival, now: &Now) -> (ClockReading, Arrival) {
        let reading = self.reading(now);
        let was_set = self.set_at.is_some_and(|at| at >= arrival.uptime);
        if !was_set {
            return (reading, *arrival);
        }
        let waited_ns = now.uptime().since_ns(arrival.uptime).min(i64::MAX as u64) as i64;
        let ingest = IngestTime::from_unix_ns(now.wall.unix_ns().saturating_sub(waited_ns));
        let state = match reading.state {
            ClockState::Unsynchronized => ClockState::Unsynchronized,
            _ => ClockState::Stepped,
        };
        let reading = ClockReading { state, max_error: None, ..reading };
        (reading, Arrival { ingest, ..*arrival })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{BootFacts, ClockSettings};
    use super::*;
    use crate::core::id::Offset;
    use crate::core::seam::ClockLedger;
    use crate::core::time::MonoTime;

    const S: i64 = 1_000_000_000;

    fn look(wall_s: i64, up_s: u64) -> Now {
        let up_ns = up_s * 1_000_000_000;
        let wall = IngestTime::from_unix_ns(wall_s * S);
        Now { mono: MonoTime::from_ns(up_ns), raw_ns: up_ns, wall, ..Now::default() }
    }

    #[test]
    fn what_waited_while_the_clock_was_set_is_told_by_the_new_time() {
        let begin = look(10, 10);
        let (settings, facts) = (ClockSettings::DEFAULT, BootFacts::default());
        let mut model =
            ClockModel::new(settings, facts, &ClockLedger::default(), Offset(0), &begin);
        let arrival = |now: &Now| Arrival { ingest: now.wall, uptime: now.uptime() };
        let early = arrival(&look(12, 12));
        model.look(&look(13, 13));
        let (reading, same) = model.at_arrival(&early, &look(13, 13));
        assert_eq!((reading.timebase, same), (model.timebase(), early));
        let set = look(1_800_000_014, 14);
        model.look(&set);
        let (reading, told) = model.at_arrival(&early, &set);
        assert_eq!((reading.timebase, reading.state), (model.timebase(), ClockState::Stepped));
        let at = IngestTime::from_unix_ns(1_800_000_012 * S);
        assert_eq!(told, Arrival { ingest: at, ..early });
        let late = look(1_800_000_015, 15);
        assert_eq!(model.at_arrival(&arrival(&late), &late).1, arrival(&late));
    }
}
