//! A new numbering for readings whose names another copy of this disk may have
//! used.
//!
//! A disk that was restored from a backup goes on numbering where the copy was
//! taken, and gives numbers again that the broker has seen with other readings.
//! The broker knows: it retains the frontier of each source. So before the first publish
//! after a start an uplink is asked for these frontiers. Where one is beyond the numbers
//! that this disk knows to have left, everything that this disk numbered since its start
//! gets another epoch. None of that has left under its old name.
//!
//! The journal keeps the names as written; they are replaced when entries are read.

use std::collections::BTreeMap;

use super::id::{Epoch, Offset, Seq, SourceId};
use super::reading::{Entry, GapRecord, Record};

/// One change of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renumbering {
    /// The numbering that was given up.
    pub from: Epoch,
    /// The one that took its place.
    pub to: Epoch,
    /// Numbers up to here keep their names; those after it count from 1 again. For a source
    /// that is not listed, all numbers change.
    pub bases: BTreeMap<SourceId, Seq>,
    /// Entries from here on have their new names in the journal already.
    pub until: Offset,
}

impl Renumbering {
    fn base(&self, source: &SourceId) -> Seq {
        self.bases.get(source).copied().unwrap_or_default()
    }

    /// The name that a number has now.
    pub fn name(&self, source: &SourceId, epoch: Epoch, seq: Seq) -> (Epoch, Seq) {
        let base = self.base(source);
        if epoch == self.from && seq > base { (self.to, Seq(seq.0 - base.0)) } else { (epoch, seq) }
    }

    /// A range of numbers, both ends included, as the one or two that it is now.
    fn split(&self, source: &SourceId, range: NameRange) -> impl Iterator<Item = NameRange> {
        let base = self.base(source);
        let (epoch, first, last) = range;
        let is_concerned = epoch == self.from && last > base;
        let kept = (epoch, first, if is_concerned { base } else { last });
        let moved =
            (self.to, Seq(first.0.max(base.0 + 1) - base.0), Seq(last.0.saturating_sub(base.0)));
        let kept = (kept.1 <= kept.2).then_some(kept);
        kept.into_iter().chain(is_concerned.then_some(moved))
    }
}

/// Numbers of one source, both ends included.
pub type NameRange = (Epoch, Seq, Seq);

/// All changes of names that the journal still needs, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renumberings(pub Vec<Renumbering>);

impl Renumberings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives an entry of the journal the name it has now.
    pub fn apply(&self, entry: &mut Entry) {
        for one in &self.0 {
            match entry {
                Entry::Reading(record) | Entry::Retimed(record) => rename(one, record),
                Entry::Late(late) => rename(one, &mut late.record),
                Entry::Window(result) => {
                    (result.epoch, result.seq) = one.name(&result.source, result.epoch, result.seq);
                }
                Entry::Gap(gap) => rename_gap(one, gap),
                // Corrections concern readings that have left, under names that stay.
                Entry::Correction(_) | Entry::Clock(_) | Entry::Idle(_) => {}
            }
        }
    }

    /// A range of numbers as the ranges that it is now.
    pub fn ranges(&self, source: &SourceId, range: NameRange) -> Vec<NameRange> {
        self.0.iter().fold(vec![range], |ranges, one| {
            ranges.into_iter().flat_map(|range| one.split(source, range)).collect()
        })
    }

    /// Forgets changes that concern no entry from `start` on.
    pub fn forget_below(&mut self, start: Offset) {
        self.0.retain(|one| one.until > start);
    }
}

fn rename(one: &Renumbering, record: &mut Record) {
    (record.epoch, record.seq) = one.name(&record.source, record.epoch, record.seq);
}

/// Gives a gap record its present name. It never spans both numbers that keep their names
/// and numbers that do not: such records were written again as two.
fn rename_gap(one: &Renumbering, gap: &mut GapRecord) {
    let last = gap.last_seq.map(|last| one.name(&gap.source, gap.epoch, last).1);
    let (epoch, first) = one.name(&gap.source, gap.epoch, gap.first_seq);
    (gap.epoch, gap.first_seq, gap.last_seq) = (epoch, first, last);
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Epoch = Epoch { number: 1, nonce: 7 };
    const NEW: Epoch = Epoch { number: 2, nonce: 8 };

    fn exchanged() -> Renumberings {
        let bases = [(SourceId::new("press"), Seq(100))].into();
        Renumberings(vec![Renumbering { from: OLD, to: NEW, bases, until: Offset(50) }])
    }

    fn ranges(source: &str, epoch: Epoch, first: u64, last: u64) -> Vec<(u32, u64, u64)> {
        let ranges = exchanged().ranges(&SourceId::new(source), (epoch, Seq(first), Seq(last)));
        ranges.into_iter().map(|(epoch, first, last)| (epoch.number, first.0, last.0)).collect()
    }

    #[test]
    fn what_may_have_left_keeps_its_name_and_the_rest_counts_anew() {
        let one = &exchanged().0[0];
        let press = SourceId::new("press");
        assert_eq!(one.name(&press, OLD, Seq(100)), (OLD, Seq(100)));
        assert_eq!(one.name(&press, OLD, Seq(101)), (NEW, Seq(1)));
        assert_eq!(one.name(&press, NEW, Seq(101)), (NEW, Seq(101)));
        assert_eq!(one.name(&SourceId::new("new"), OLD, Seq(1)), (NEW, Seq(1)));
    }

    #[test]
    fn a_range_is_split_where_names_change() {
        assert_eq!(ranges("press", OLD, 90, 100), [(1, 90, 100)]);
        assert_eq!(ranges("press", OLD, 90, 110), [(1, 90, 100), (2, 1, 10)]);
        assert_eq!(ranges("press", OLD, 105, 110), [(2, 5, 10)]);
        assert_eq!(ranges("press", NEW, 90, 110), [(2, 90, 110)]);
        assert_eq!(ranges("new", OLD, 1, 3), [(2, 1, 3)]);
    }
}
