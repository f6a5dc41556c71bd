//! Says a repeated cause once, and then counts it.
//!
//! A broker that refuses every two seconds for a weekend must not write a hundred thousand
//! log lines to an SD card, and the one new cause among them must be seen: the first line
//! of a cause is written at once, then one a minute with the number of those left out.

use std::collections::BTreeMap;

use crate::core::time::{MonoTime, Span};

/// Between two lines of one cause.
pub const INTERVAL: Span = Span::from_secs(60);

/// Causes remembered; beyond, the one said longest ago is forgotten.
const CAUSES_MAX: usize = 512;

/// Decides per cause whether a line is written now.
#[derive(Debug, Default)]
pub struct Throttle {
    causes: BTreeMap<String, Cause>,
}

#[derive(Debug)]
struct Cause {
    said: MonoTime,
    unsaid: u64,
}

impl Throttle {
    /// Whether to write a line about `cause` now: `Some` with the number of
    /// earlier ones that were not written, `None` to keep quiet.
    pub fn admit(&mut self, cause: &str, now: MonoTime) -> Option<u64> {
        self.admit_many(cause, 1, now)
    }

    /// The same for a line about `many` things at once: `Some` with the number of things in
    /// earlier lines that were not written.
    pub fn admit_many(&mut self, cause: &str, many: u64, now: MonoTime) -> Option<u64> {
        if let Some(known) = self.causes.get_mut(cause) {
            if now.since(known.said) < INTERVAL {
                known.unsaid += many;
                return None;
            }
            known.said = now;
            return Some(std::mem::take(&mut known.unsaid));
        }
        if self.causes.len() >= CAUSES_MAX {
            self.forget_oldest();
        }
        self.causes.insert(cause.to_owned(), Cause { said: now, unsaid: 0 });
        Some(0)
    }

    /// Causes with lines left out for a whole interval, and their numbers: else the last
    /// ones of a cause that has ended would never be logged. Causes without lines left out
    /// are forgotten.
    pub fn overdue(&mut self, now: MonoTime) -> Vec<(String, u64)> {
        let mut due = Vec::new();
        self.causes.retain(|cause, known| {
            let is_over = now.since(known.said) >= INTERVAL;
            if is_over && known.unsaid > 0 {
                due.push((cause.clone(), std::mem::take(&mut known.unsaid)));
                known.said = now;
                return true;
            }
            !is_over
        });
        due
    }

    /// What was counted and not said of causes that begin so is said elsewhere. They
    /// still count as said when they were.
    pub fn forget_unsaid(&mut self, beginning: &str) {
        let causes = self.causes.range_mut(beginning.to_owned()..);
        causes
            .take_while(|(cause, _)| cause.starts_with(beginning))
            .for_each(|(_, known)| known.unsaid = 0);
    }

    /// The cause is gone: should it come back, it is said at once.
    pub fn clear(&mut self, cause: &str) {
        self.causes.remove(cause);
    }

    fn forget_oldest(&mut self) {
        let oldest = self.causes.iter().min_by_key(|(_, known)| known.said);
        if let Some(cause) = oldest.map(|(cause, _)| cause.clone()) {
            self.causes.remove(&cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> MonoTime {
        MonoTime::from_ns(seconds * 1_000_000_000)
    }

    #[test]
    fn the_first_is_said_at_once_and_the_rest_once_a_minute_with_a_count() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.admit("connect:network", at(0)), Some(0));
        for second in 1..60 {
            assert_eq!(throttle.admit("connect:network", at(second)), None);
        }
        assert_eq!(
            throttle.admit("connect:tls", at(30)),
            Some(0),
            "another cause is not held back"
        );
        assert_eq!(throttle.admit("connect:network", at(60)), Some(59));
        assert_eq!(throttle.admit("connect:network", at(61)), None);
    }

    #[test]
    fn lines_that_tell_of_many_are_counted_by_what_they_tell_of() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.admit_many("lines refused", 5, at(0)), Some(0));
        assert_eq!(throttle.admit_many("lines refused", 7, at(1)), None);
        assert_eq!(throttle.admit_many("lines refused", 2, at(2)), None);
        assert_eq!(throttle.admit_many("lines refused", 3, at(60)), Some(9));
    }

    #[test]
    fn a_cause_that_ends_still_gets_its_count() {
        let mut throttle = Throttle::default();
        throttle.admit("a", at(0));
        throttle.admit("a", at(1));
        throttle.admit("a", at(2));
        throttle.admit("b", at(0));
        assert_eq!(throttle.overdue(at(59)), []);
        assert_eq!(throttle.overdue(at(60)), [("a".to_owned(), 2)]);
        assert_eq!(throttle.overdue(at(120)), []);
        assert_eq!(throttle.admit("a", at(121)), Some(0), "it rested and is new again");
    }

    #[test]
    fn what_is_said_elsewhere_is_not_said_again() {
        let mut throttle = Throttle::default();
        for cause in ["down (network)", "down (tls)", "full"] {
            throttle.admit(cause, at(0));
            throttle.admit(cause, at(1));
        }
        throttle.forget_unsaid("down");
        assert_eq!(throttle.admit("down (tls)", at(2)), None, "one line a minute all the same");
        let due = [("down (tls)".to_owned(), 1), ("full".to_owned(), 1)];
        assert_eq!(throttle.overdue(at(60)), due);
    }

    #[test]
    fn a_cleared_cause_is_said_at_once_again() {
        let mut throttle = Throttle::default();
        throttle.admit("full", at(0));
        throttle.clear("full");
        assert_eq!(throttle.admit("full", at(1)), Some(0));
    }

    #[test]
    fn memory_is_bounded_by_forgetting_the_oldest_cause() {
        let mut throttle = Throttle::default();
        for n in 0..=CAUSES_MAX as u64 {
            throttle.admit(&n.to_string(), at(n));
        }
        assert_eq!(throttle.causes.len(), CAUSES_MAX);
        assert!(!throttle.causes.contains_key("0") && throttle.causes.contains_key("1"));
    }
}
