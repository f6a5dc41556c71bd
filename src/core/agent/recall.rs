//! Reading the journal again after a restart, part by part: state that is computed from
//! the journal is rebuilt from where it was saved last.

use super::*;
use crate::core::limits::{FETCH_BYTES_MAX, FETCH_ENTRIES_MAX};
use crate::core::seam::{Fetch, Fetched};

/// A walk through the journal that has an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recall {
    next: Offset,
    end: Offset,
    purpose: Purpose,
    is_fetching: bool,
}

impl Recall {
    /// From `next` to `end`; `None` where there is nothing between them.
    pub(super) fn new(next: Offset, end: Offset, purpose: Purpose) -> Option<Self> {
        (next < end).then_some(Self { next, end, purpose, is_fetching: false })
    }

    /// The next part, if none is under way.
    pub(super) fn fetch(&mut self) -> Option<Fetch> {
        if self.is_fetching {
            return None;
        }
        self.is_fetching = true;
        let (entries_max, bytes_max) = (FETCH_ENTRIES_MAX, FETCH_BYTES_MAX);
        Some(Fetch { from: self.next, entries_max, bytes_max, purpose: self.purpose })
    }

    /// A part has come, up to `next`. True when it was the last one. It is also the last
    /// when the store came no further: it must not be asked for ever.
    pub(super) fn advance(&mut self, next: Offset) -> bool {
        let is_stuck = next <= self.next;
        self.is_fetching = false;
        self.next = next.max(self.next);
        self.next >= self.end || is_stuck
    }
}

/// Whether entries that were asked for are missing: evicted, or damaged.
pub(super) fn is_torn(fetched: &Fetched) -> bool {
    let first = fetched.entries.first().map_or(fetched.next, |(offset, _)| *offset);
    first > fetched.from || !fetched.damaged.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_is_under_way_at_a_time_and_the_end_or_a_standstill_ends_it() {
        assert!(Recall::new(Offset(5), Offset(5), Purpose::Recall).is_none());
        let mut recall = Recall::new(Offset(2), Offset(5), Purpose::Totals).unwrap();
        let part = recall.fetch().unwrap();
        assert_eq!((part.from, part.purpose), (Offset(2), Purpose::Totals));
        assert_eq!(recall.fetch(), None);
        assert!(!recall.advance(Offset(4)));
        assert_eq!(recall.fetch().unwrap().from, Offset(4));
        let mut stuck = recall;
        assert!(stuck.advance(Offset(4)));
        assert!(recall.advance(Offset(5)));
    }
}
