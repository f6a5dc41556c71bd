//! Parts of the core against naive models of them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tidegate::core::books::Books;
use tidegate::core::id::{Epoch, Offset, Seq, SourceId};
use tidegate::core::rangeset::RangeSet;
use tidegate::core::reading::GapReason;
use tidegate::core::seam::Meta;

proptest! {
    /// What is done with, against a plain set of numbers.
    #[test]
    fn a_range_set_is_a_set(inserts in prop::collection::vec((0_u64..60, 0_u64..12), 0..60)) {
        let (mut set, mut model) = (RangeSet::new(3, []), (0..3).collect::<BTreeSet<u64>>());
        for (first, length) in inserts {
            let fresh = (first..first + length).filter(|number| model.insert(*number)).count();
            prop_assert_eq!(set.insert(first, first + length), fresh as u64);
            let frontier = (0..).find(|number| !model.contains(number));
            prop_assert_eq!(Some(set.frontier()), frontier);
            for number in 0..80 {
                prop_assert_eq!(set.contains(number), model.contains(&number));
                let absent = (number..).find(|number| !model.contains(number));
                prop_assert_eq!(Some(set.next_absent(number)), absent);
            }
            let absent: Vec<u64> = set.absent_in(5, 50).into_iter().flat_map(|(a, b)| a..b).collect();
            let expected: Vec<u64> = (5..50).filter(|number| !model.contains(number)).collect();
            prop_assert_eq!(absent, expected);
            prop_assert_eq!(set.above_frontier(), model.len() as u64 - set.frontier());
        }
        let again = RangeSet::new(set.frontier(), set.ranges());
        prop_assert_eq!(again, set);
    }

    /// Whatever is acknowledged or written off, in whatever order and however
    /// often: each number counts once, and the books balance.
    #[test]
    fn the_books_count_each_number_once(
        accepted in 1_u64..80,
        steps in prop::collection::vec((0_u8..3, 1_u64..80, 0_u64..10), 0..60),
    ) {
        let source = SourceId::new("plc");
        let epoch = Epoch { number: 1, nonce: 7 };
        let mut books = Books::open(&Meta::default(), epoch, &[], Offset(0));
        for _ in 0..accepted {
            books.accept(&source);
        }
        let mut done = BTreeSet::new();
        for (kind, first, length) in steps {
            let (first, last) = (first.min(accepted), (first + length).min(accepted));
            match kind {
                0 => {
                    let fresh = books.acknowledge((&source, epoch), (Seq(first), Seq(last)));
                    let new = (first..=last).filter(|seq| done.insert(*seq)).count();
                    prop_assert_eq!(fresh, new as u64);
                }
                kind => {
                    let reason = if kind == 1 { GapReason::Evicted } else { GapReason::Corrupt };
                    let gone = books.write_off((&source, epoch), Seq(first), Seq(last), reason);
                    let named: Vec<u64> = gone.iter().flat_map(|(a, b)| a.0..=b.0).collect();
                    let fresh: Vec<u64> = (first..=last).filter(|seq| done.insert(*seq)).collect();
                    prop_assert_eq!(named, fresh);
                }
            }
            let mut meta = Meta::default();
            books.fill(&mut meta, |_, _| true);
            books.committed(&meta);
            let sums = meta.sources[&source];
            prop_assert_eq!(sums.acknowledged + sums.evicted + sums.lost, done.len() as u64);
            prop_assert_eq!(books.stored(), accepted - done.len() as u64);
            let reopened = Books::open(&meta, epoch, &[], Offset(0));
            prop_assert_eq!(reopened.through(0, &source, epoch), books.through(0, &source, epoch));
            for seq in 1..=accepted {
                prop_assert_eq!(reopened.is_done(&source, epoch, Seq(seq)), done.contains(&seq));
            }
        }
    }
}
