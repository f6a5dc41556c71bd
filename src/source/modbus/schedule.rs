//! When a device is asked: at fixed places in time, whatever asking takes.

use std::time::Duration;

/// The slots of one device: `first`, `first + period`, … after its start. A slot
/// that comes while the one before it is still at work is skipped, never made up
/// for: two polls in a row would tell nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    period: Duration,
    next: Duration,
}

impl Schedule {
    /// A schedule whose first slot is `first` after the start. `period` is not
    /// zero.
    pub const fn new(period: Duration, first: Duration) -> Self {
        Self { period, next: first }
    }

    /// The next slot, counted from the start.
    pub const fn next(&self) -> Duration {
        self.next
    }

    /// Goes on to the slot after the present one, `now` after the start. Says how
    /// many were skipped because their time was over.
    pub fn advance(&mut self, now: Duration) -> u64 {
        self.next += self.period;
        let Some(late) = now.checked_sub(self.next).filter(|late| !late.is_zero()) else {
            return 0;
        };
        let skipped = late.as_nanos().div_ceil(self.period.as_nanos());
        let skipped = u32::try_from(skipped).unwrap_or(u32::MAX);
        self.next += self.period.saturating_mul(skipped);
        u64::from(skipped)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_asking_takes_moves_no_slot() {
        let mut schedule = Schedule::new(ms(1_000), ms(300));
        let mut slots = Vec::new();
        for took in [400, 0, 1_000, 999] {
            slots.push(schedule.next());
            assert_eq!(schedule.advance(schedule.next() + ms(took)), 0);
        }
        assert_eq!(slots, [ms(300), ms(1_300), ms(2_300), ms(3_300)]);
    }

    #[test]
    fn slots_that_are_over_are_skipped_and_counted() {
        let mut schedule = Schedule::new(ms(1_000), ms(300));
        assert_eq!(schedule.advance(ms(1_301)), 1);
        assert_eq!(schedule.next(), ms(2_300));
        assert_eq!(schedule.advance(ms(5_900)), 3);
        assert_eq!(schedule.next(), ms(6_300));
    }

    proptest! {
        #[test]
        fn it_stays_on_its_grid_and_never_bunches(
            period in 1..5_000_u64,
            first in 0..1_000_u64,
            took in proptest::collection::vec(0..20_000_u64, 1..50),
        ) {
            let mut schedule = Schedule::new(ms(period), ms(first));
            let (mut polls, mut skipped) = (0, 0);
            for took in took {
                let now = schedule.next() + ms(took);
                skipped += schedule.advance(now);
                polls += 1;
                prop_assert!(schedule.next() >= now);
                let expected = ms(first) + ms(period) * (polls + skipped as u32);
                prop_assert_eq!(schedule.next(), expected);
            }
        }
    }
}
