//! The books: for every source, what was accepted and what became of it.
//!
//! `accepted = acknowledged + stored + evicted + lost`, to the last reading.
//! Sequence numbers come from here too: they are gapless because a number is
//! given with the reading that takes it and both ride in the same commit.

use std::collections::BTreeMap;

use super::id::{Epoch, Seq, SourceId};
use super::rangeset::RangeSet;
use super::reading::GapReason;
use super::seam::{Meta, SeqSet, SourceMeta};
use super::time::{EventTime, MonoTime};

/// The account of one source.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// What the journal keeps of it.
    pub meta: SourceMeta,
    /// Readings accepted and durable.
    pub durable: u64,
    /// When the last reading came.
    pub last_reading: Option<MonoTime>,
    /// Inputs refused since this process started.
    pub quarantined: u64,
    /// Repeats dropped since this process started.
    pub duplicates: u64,
    /// Readings refused at the door since this process started.
    pub refused_full: u64,
    /// Stamps flagged implausible since this process started.
    pub implausible: u64,
    /// When the delivery frontier was last said.
    pub frontier_said: Option<MonoTime>,
    /// Whether it has changed since.
    pub is_frontier_due: bool,
}

impl Account {
    /// Durable readings that are not done with.
    pub fn stored(&self) -> u64 {
        let gone = self.meta.acknowledged + self.meta.evicted + self.meta.lost;
        // A broken numbering can have taken the accounts of its newest readings
        // with it: what is gone then exceeds what is known to have come.
        self.durable.saturating_sub(gone)
    }
}

/// All accounts.
#[derive(Clone, Debug, Default)]
pub struct Books {
    epoch: Epoch,
    accounts: BTreeMap<SourceId, Account>,
    handed: BTreeMap<(SourceId, Epoch), RangeSet>,
}

impl Books {
    /// The books that `meta` describes, going on in `epoch`.
    pub fn open(meta: &Meta, epoch: Epoch) -> Self {
        let mut books = Self { epoch, ..Self::default() };
        for (source, stored) in &meta.sources {
            let mut account =
                Account { meta: *stored, durable: stored.accepted, ..Account::default() };
            if epoch != meta.epoch {
                account.meta.tail = Seq::default();
            }
            account.is_frontier_due = true;
            books.accounts.insert(source.clone(), account);
        }
        for (key, set) in &meta.handed {
            let ranges = set.ranges.iter().map(|(first, last)| (first.0, last.0 + 1));
            books.handed.insert(key.clone(), RangeSet::new(set.through.0 + 1, ranges));
        }
        books
    }

    /// The numbering in use.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Every account.
    pub fn accounts(&self) -> impl Iterator<Item = (&SourceId, &Account)> {
        self.accounts.iter()
    }

    /// The account of `source`, opened if new.
    pub fn account(&mut self, source: &SourceId) -> &mut Account {
        if !self.accounts.contains_key(source) {
            self.accounts.insert(source.clone(), Account::default());
        }
        self.accounts.entry(source.clone()).or_default()
    }

    /// Durable readings that are not done with, over all sources.
    pub fn stored(&self) -> u64 {
        self.accounts.values().map(Account::stored).sum()
    }

    /// Takes one reading in: the number it gets.
    pub fn accept(&mut self, source: &SourceId) -> Seq {
        let account = self.account(source);
        account.meta.tail = account.meta.tail.next();
        account.meta.accepted += 1;
        account.meta.tail
    }

    /// What a commit carried is durable.
    pub fn committed(&mut self, meta: &Meta) {
        for (source, stored) in &meta.sources {
            self.account(source).durable = stored.accepted;
        }
    }

    /// The broker acknowledged a reading; false when it was done with before.
    pub fn acknowledge(&mut self, source: &SourceId, epoch: Epoch, seq: Seq) -> bool {
        let is_new = self.handed(source, epoch).insert(seq.0, seq.0 + 1) == 1;
        if is_new {
            let account = self.account(source);
            account.meta.acknowledged += 1;
            account.is_frontier_due = true;
        }
        is_new
    }

    /// Numbers `first..=last` will never arrive. Books those that were not done
    /// with before, and returns them as ranges, both ends included.
    pub fn write_off(
        &mut self,
        (source, epoch): (&SourceId, Epoch),
        first: Seq,
        last: Seq,
        reason: GapReason,
    ) -> Vec<(Seq, Seq)> {
        let set = self.handed(source, epoch);
        let absent = set.absent_in(first.0, last.0 + 1);
        let count = set.insert(first.0, last.0 + 1);
        let account = self.account(source);
        if reason.is_eviction() {
            account.meta.evicted += count;
        } else {
            account.meta.lost += count;
        }
        account.is_frontier_due = true;
        absent.into_iter().map(|(start, end)| (Seq(start), Seq(end - 1))).collect()
    }

    /// Every number up to here is done with.
    pub fn through(&self, source: &SourceId, epoch: Epoch) -> Seq {
        let set = self.handed.get(&(source.clone(), epoch));
        Seq(set.map_or(0, |set| set.frontier() - 1))
    }

    /// Whether a number is done with.
    pub fn is_done(&self, source: &SourceId, epoch: Epoch, seq: Seq) -> bool {
        self.handed.get(&(source.clone(), epoch)).is_some_and(|set| set.contains(seq.0))
    }

    /// A plausible event time came.
    pub fn saw_event(&mut self, source: &SourceId, at: EventTime) {
        let newest = &mut self.account(source).meta.newest_event;
        *newest = Some(newest.map_or(at, |known| known.max(at)));
    }

    /// The part of the meta that the books are. Old numberings whose readings
    /// are all gone (`live` says which are not) are left out.
    pub fn fill(&self, meta: &mut Meta, live: impl Fn(&SourceId, Epoch) -> bool) {
        meta.epoch = self.epoch;
        meta.sources =
            self.accounts.iter().map(|(source, account)| (source.clone(), account.meta)).collect();
        let kept = self
            .handed
            .iter()
            .filter(|((source, epoch), _)| *epoch == self.epoch || live(source, *epoch));
        meta.handed = kept.map(|(key, set)| (key.clone(), seq_set(set))).collect();
    }

    fn handed(&mut self, source: &SourceId, epoch: Epoch) -> &mut RangeSet {
        self.handed.entry((source.clone(), epoch)).or_insert_with(|| RangeSet::new(1, []))
    }
}

fn seq_set(set: &RangeSet) -> SeqSet {
    let ranges = set.ranges().map(|(first, end)| (Seq(first), Seq(end - 1))).collect();
    SeqSet { through: Seq(set.frontier() - 1), ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_booked_once() {
        let source = SourceId::new("plc");
        let mut books = Books::open(&Meta::default(), Epoch { number: 1, nonce: 9 });
        let epoch = books.epoch();
        for _ in 0..10 {
            books.accept(&source);
        }
        assert!(books.acknowledge(&source, epoch, Seq(2)));
        assert!(!books.acknowledge(&source, epoch, Seq(2)));
        let gone = books.write_off((&source, epoch), Seq(1), Seq(4), GapReason::Evicted);
        assert_eq!(gone, [(Seq(1), Seq(1)), (Seq(3), Seq(4))]);
        assert_eq!(books.through(&source, epoch), Seq(4));
        let mut meta = Meta::default();
        books.fill(&mut meta, |_, _| false);
        books.committed(&meta);
        let account = books.account(&source);
        assert_eq!((account.meta.acknowledged, account.meta.evicted, account.stored()), (1, 3, 6));
        let again = Books::open(&meta, epoch);
        assert!(again.is_done(&source, epoch, Seq(3)) && !again.is_done(&source, epoch, Seq(5)));
    }
}
