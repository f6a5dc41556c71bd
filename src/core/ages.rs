//! The age of the oldest entry that waits: the least event time of each commit is kept,
//! in bounded memory.

use std::collections::VecDeque;

use super::time::EventTime;

/// Marks kept. With more, two neighbours are merged into one.
const MARKS_MAX: usize = 1_024;

/// The least event time of each stretch of the journal since this process
/// started.
#[derive(Clone, Debug)]
pub struct Ages {
    /// Offsets below have no mark: they were journaled before this process started.
    from: u64,
    /// One past the last offset of a stretch, and its least event time.
    marks: VecDeque<(u64, EventTime)>,
}

impl Ages {
    /// Marks for everything from offset `from` on.
    pub fn new(from: u64) -> Self {
        Self { from, marks: VecDeque::new() }
    }

    /// The journal grew to `end` by entries whose least event time is `earliest`.
    pub fn grew(&mut self, end: u64, earliest: EventTime) {
        self.marks.push_back((end, earliest));
        if self.marks.len() > MARKS_MAX {
            self.halve();
        }
    }

    /// Everything below `frontier` is done with.
    pub fn done_below(&mut self, frontier: u64) {
        while self.marks.front().is_some_and(|(end, _)| *end <= frontier) {
            self.marks.pop_front();
        }
    }

    /// The least event time of entries at or above `frontier`. May be that of an entry
    /// below it in the same stretch. `None` when some of the entries have no mark.
    pub fn oldest(&self, frontier: u64) -> Option<EventTime> {
        let marks = self.marks.iter().filter(|(end, _)| *end > frontier);
        marks.map(|(_, earliest)| *earliest).min().filter(|_| frontier >= self.from)
    }

    fn halve(&mut self) {
        let marks: Vec<(u64, EventTime)> = self.marks.drain(..).collect();
        let pairs = marks.chunks(2).filter_map(|pair| {
            let (end, _) = pair.last()?;
            Some((*end, pair.iter().map(|(_, earliest)| *earliest).min()?))
        });
        self.marks = pairs.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> EventTime {
        EventTime::from_unix_ns(seconds * 1_000_000_000)
    }

    #[test]
    fn acknowledged_readings_have_no_age() {
        let mut ages = Ages::new(10);
        ages.grew(20, at(100));
        ages.grew(30, at(200));
        assert_eq!(ages.oldest(15), Some(at(100)));
        ages.done_below(20);
        assert_eq!(ages.oldest(20), Some(at(200)));
        assert_eq!(ages.oldest(30), None);
        assert_eq!(ages.oldest(5), None);
    }

    #[test]
    fn a_long_outage_takes_bounded_memory() {
        let mut ages = Ages::new(0);
        for commit in 1..100_000 {
            ages.grew(commit, at(commit as i64));
        }
        assert!(ages.marks.len() <= MARKS_MAX);
        assert_eq!(ages.oldest(0), Some(at(1)));
    }
}
