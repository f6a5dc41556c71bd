//! Events per second over the last ten seconds.

use super::time::MonoTime;

const SLOTS: usize = 10;
const SECOND_NS: u64 = 1_000_000_000;

/// A rate meter with one slot a second.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    slots: [u64; SLOTS],
    second: u64,
    started: Option<u64>,
}

impl Rate {
    /// Counts `events` at `now`.
    pub fn add(&mut self, now: MonoTime, events: u64) {
        self.advance(now);
        self.slots[(self.second % SLOTS as u64) as usize] += events;
    }

    /// Events per second over the last full seconds, at most nine of them.
    pub fn per_second(&self, now: MonoTime) -> f64 {
        let mut aged = self.clone();
        aged.advance(now);
        let Some(started) = aged.started else { return 0.0 };
        let current = (aged.second % SLOTS as u64) as usize;
        let total: u64 = aged.slots.iter().sum::<u64>() - aged.slots[current];
        let full_seconds = (aged.second - started).min(SLOTS as u64 - 1);
        if full_seconds == 0 {
            return aged.slots[current] as f64;
        }
        total as f64 / full_seconds as f64
    }

    fn advance(&mut self, now: MonoTime) {
        let second = now.ns() / SECOND_NS;
        self.started.get_or_insert(second);
        let steps = second.saturating_sub(self.second).min(SLOTS as u64);
        for step in 0..steps {
            self.slots[((second - step) % SLOTS as u64) as usize] = 0;
        }
        self.second = self.second.max(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> MonoTime {
        MonoTime::from_ns(second * SECOND_NS)
    }

    #[test]
    fn averages_full_seconds_and_forgets() {
        let mut rate = Rate::default();
        for second in 100..105 {
            rate.add(at(second), 50);
        }
        assert_eq!(rate.per_second(at(104)), 50.0);
        assert_eq!(rate.per_second(at(300)), 0.0);
    }
}
