//! What is done with: a contiguous prefix and a bounded set of ranges ahead of
//! it. Serves offsets (the acknowledged frontier) and sequence numbers alike.

use std::collections::BTreeMap;

/// A set of numbers: everything below `frontier`, and half-open ranges above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    frontier: u64,
    ranges: BTreeMap<u64, u64>,
    above: u64,
}

impl RangeSet {
    /// The set of everything below `frontier`, and the half-open `ranges`.
    pub fn new(frontier: u64, ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut set = Self { frontier, ..Self::default() };
        for (first, end) in ranges {
            set.insert(first, end);
        }
        set
    }

    /// The first number that is not in the set.
    pub fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Half-open ranges above the frontier, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().map(|(first, end)| (*first, *end))
    }

    /// How many ranges lie above the frontier.
    pub fn ranges_len(&self) -> usize {
        self.ranges.len()
    }

    /// How many numbers above the frontier are in the set.
    pub fn above_frontier(&self) -> u64 {
        self.above
    }

    /// Whether `number` is in the set.
    pub fn contains(&self, number: u64) -> bool {
        number < self.frontier || self.range_around(number).is_some()
    }

    /// The first number at or after `number` that is not in the set.
    pub fn next_absent(&self, number: u64) -> u64 {
        let number = number.max(self.frontier);
        self.range_around(number).map_or(number, |(_, end)| end)
    }

    /// The stretches of `[first, end)` that are not in the set, ascending.
    pub fn absent_in(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        let mut absent = Vec::new();
        let mut at = self.next_absent(first);
        while at < end {
            let stop = self.ranges.range(at..).next().map_or(end, |(start, _)| end.min(*start));
            absent.push((at, stop));
            at = self.next_absent(stop);
        }
        absent
    }

    /// Adds `[first, end)`; returns how many numbers were new.
    pub fn insert(&mut self, first: u64, end: u64) -> u64 {
        let first = first.max(self.frontier);
        if first >= end {
            return 0;
        }
        let before = self.frontier + self.above;
        let (mut low, mut high) = (first, end);
        while let Some((start, stop)) = self.touching(low, high) {
            self.ranges.remove(&start);
            self.above -= stop - start;
            low = low.min(start);
            high = high.max(stop);
        }
        if low == self.frontier {
            self.frontier = high;
        } else {
            self.ranges.insert(low, high);
            self.above += high - low;
        }
        self.frontier + self.above - before
    }

    /// The numbers that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &RangeSet) -> RangeSet {
        let mut both = RangeSet::new(self.frontier.min(other.frontier), []);
        let whole = |set: &RangeSet| {
            std::iter::once((0, set.frontier)).chain(set.ranges()).collect::<Vec<_>>()
        };
        let (mine, theirs) = (whole(self), whole(other));
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (mine.get(i), theirs.get(j)) {
            both.insert(a.0.max(b.0), a.1.min(b.1));
            if a.1 <= b.1 { i += 1 } else { j += 1 }
        }
        both
    }

    /// Removes the numbers from `first` on and returns them as half-open ranges, ascending.
    pub fn split_off(&mut self, first: u64) -> Vec<(u64, u64)> {
        let whole = std::iter::once((0, self.frontier)).chain(self.ranges()).collect::<Vec<_>>();
        let (mut kept, mut taken) = (Vec::new(), Vec::new());
        for (start, end) in whole {
            kept.push((start, end.min(first)));
            taken.push((start.max(first), end));
        }
        let is_some = |(start, end): &(u64, u64)| start < end;
        *self = RangeSet::new(self.frontier.min(first), kept.into_iter().filter(is_some));
        taken.retain(is_some);
        taken
    }

    /// How many numbers from `first` on are in the set.
    pub fn count_from(&self, first: u64) -> u64 {
        self.frontier.saturating_sub(first) + self.above
    }

    fn range_around(&self, number: u64) -> Option<(u64, u64)> {
        let (first, end) = self.ranges.range(..=number).next_back()?;
        (number < *end).then_some((*first, *end))
    }

    fn touching(&self, low: u64, high: u64) -> Option<(u64, u64)> {
        let (start, stop) = self.ranges.range(..=high).next_back()?;
        (*stop >= low).then_some((*start, *stop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_move_the_frontier() {
        let mut set = RangeSet::new(10, []);
        assert_eq!(set.insert(12, 14), 2);
        assert_eq!(set.insert(16, 18), 2);
        assert_eq!(set.insert(14, 16), 2);
        assert_eq!(set.ranges().collect::<Vec<_>>(), [(12, 18)]);
        assert_eq!(set.above_frontier(), 6);
        assert_eq!(set.absent_in(8, 20), [(10, 12), (18, 20)]);
        assert_eq!(set.next_absent(13), 18);
        assert_eq!(set.insert(9, 13), 2);
        assert_eq!((set.frontier(), set.ranges_len(), set.above_frontier()), (18, 0, 0));
        assert_eq!(set.insert(5, 18), 0);
    }

    #[test]
    fn an_intersection_has_what_both_have() {
        let one = RangeSet::new(10, [(12, 20), (30, 40)]);
        let other = RangeSet::new(5, [(6, 14), (18, 35), (39, 50)]);
        let both = one.intersection(&other);
        assert_eq!(both.frontier(), 5);
        let ranges: Vec<_> = both.ranges().collect();
        assert_eq!(ranges, [(6, 10), (12, 14), (18, 20), (30, 35), (39, 40)]);
        assert_eq!(other.intersection(&one), both);
        assert_eq!(both.count_from(1), 4 + 4 + 2 + 2 + 5 + 1);
    }
}
