//! The books: for every source, what was accepted and what became of it.
//!
//! `accepted = acknowledged + stored + evicted + lost`, to the last reading.
//! Sequence numbers come from here too: they have no holes because a number is given
//! together with its reading and both are in the same commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::id::{Epoch, Seq, SourceId};
use super::rangeset::RangeSet;
use super::reading::GapReason;
use super::renumber::Renumbering;
use super::seam::{Meta, SeqSet, SourceMeta};
use super::time::{EventTime, MonoTime};

/// The account of one source.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The part that the journal keeps.
    pub meta: SourceMeta,
    /// Readings accepted and durable.
    pub durable: u64,
    /// When the last reading came.
    pub last_reading: Option<MonoTime>,
    /// Inputs refused since this process started.
    pub quarantined: u64,
    /// Repeats dropped since this process started.
    pub duplicates: u64,
    /// Readings within their deadband, dropped since this process started.
    pub held_back: u64,
    /// Readings refused at the door since this process started.
    pub refused_full: u64,
    /// Stamps flagged implausible since this process started.
    pub implausible: u64,
    /// Counts the changes after which the delivery frontier may be another.
    pub changes: u64,
}

impl Account {
    /// Durable readings that are not done with.
    pub fn stored(&self) -> u64 {
        let gone = self.meta.acknowledged + self.meta.evicted + self.meta.lost;
        // Damage can have lost the accounts of the newest readings: then more of them are
        // known to be gone than to have come.
        self.durable.saturating_sub(gone)
    }
}

/// Which numbers are done with, per numbering.
type Handed = BTreeMap<(SourceId, Epoch), RangeSet>;

/// All accounts.
#[derive(Clone, Debug, Default)]
pub struct Books {
    epoch: Epoch,
    accounts: BTreeMap<SourceId, Account>,
    /// Numbers that every uplink is done with.
    handed: Handed,
    /// Numbers that each uplink is done with; empty where there is only one uplink.
    by_uplink: Vec<Handed>,
}

impl Books {
    /// The books that `meta` describes, going on in `epoch` with these uplinks. One that
    /// `meta` does not know begins as done with what all others are done with.
    pub fn open(meta: &Meta, epoch: Epoch, uplinks: &[Arc<str>]) -> Self {
        let mut books = Self { epoch, ..Self::default() };
        for (source, stored) in &meta.sources {
            let mut account =
                Account { meta: *stored, durable: stored.accepted, ..Account::default() };
            if epoch != meta.epoch {
                account.meta.tail = Seq::default();
            }
            account.changes = 1;
            books.accounts.insert(source.clone(), account);
        }
        books.handed = opened(&meta.handed);
        let kept = uplinks.iter().map(|name| meta.uplinks.get(name).map(|one| opened(&one.handed)));
        books.by_uplink = kept.map(|one| one.unwrap_or_else(|| books.handed.clone())).collect();
        books.settle_what_all_have();
        if books.by_uplink.len() == 1 {
            books.by_uplink.clear();
        }
        books
    }

    /// Acknowledges what all present uplinks are done with: one that was behind may have
    /// left the configuration.
    fn settle_what_all_have(&mut self) {
        let Some((first, others)) = self.by_uplink.split_first() else { return };
        let keys: Vec<(SourceId, Epoch)> = first.keys().cloned().collect();
        let common = |key: &(SourceId, Epoch)| {
            let sets = others.iter().map(|handed| handed.get(key));
            sets.fold(first.get(key).cloned(), |all, one| Some(all?.intersection(one?)))
        };
        let settled: Vec<_> =
            keys.into_iter().filter_map(|key| Some((common(&key)?, key))).collect();
        for (set, (source, epoch)) in settled {
            let known = self.handed(&source, epoch);
            let count = set.count_from(1).saturating_sub(known.count_from(1));
            if count > 0 {
                *known = set;
                self.account(&source).meta.acknowledged += count;
            }
        }
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

    /// The newest number of a source.
    pub fn tail(&self, source: &SourceId) -> Seq {
        self.accounts.get(source).map_or(Seq(0), |account| account.meta.tail)
    }

    /// The newest number of every source.
    pub fn tails(&self) -> BTreeMap<SourceId, Seq> {
        self.accounts.iter().map(|(source, account)| (source.clone(), account.meta.tail)).collect()
    }

    /// Goes on in another epoch; readings that this renames are booked under their new
    /// names.
    pub fn renumber(&mut self, by: &Renumbering) {
        self.epoch = by.to;
        for (source, account) in &mut self.accounts {
            let base = by.bases.get(source).copied().unwrap_or_default();
            account.meta.tail = Seq(account.meta.tail.0.saturating_sub(base.0));
            account.changes += 1;
        }
        for handed in self.by_uplink.iter_mut().chain([&mut self.handed]) {
            let keys = handed.keys().filter(|(_, epoch)| *epoch == by.from);
            for (source, _) in keys.cloned().collect::<Vec<_>>() {
                let base = by.bases.get(&source).copied().unwrap_or_default();
                let moved = numbers_of(handed, &source, by.from).split_off(base.0 + 1);
                let target = numbers_of(handed, &source, by.to);
                for (first, end) in moved {
                    target.insert(first - base.0, end - base.0);
                }
            }
        }
    }

    /// Durable readings that are not done with, over all sources.
    pub fn stored(&self) -> u64 {
        self.accounts.values().map(Account::stored).sum()
    }

    /// Counts a reading as accepted and gives it its number.
    pub fn accept(&mut self, source: &SourceId) -> Seq {
        let account = self.account(source);
        account.meta.tail = account.meta.tail.next();
        account.meta.accepted += 1;
        account.meta.tail
    }

    /// Notes that the state of a commit is durable.
    pub fn committed(&mut self, meta: &Meta) {
        for (source, stored) in &meta.sources {
            self.account(source).durable = stored.accepted;
        }
    }

    /// An uplink is done with readings `first..=last`. When all uplinks are, call
    /// [`Books::acknowledge`] too.
    pub fn acknowledge_at(
        &mut self,
        uplink: usize,
        (source, epoch): (&SourceId, Epoch),
        (first, last): (Seq, Seq),
    ) {
        let Some(handed) = self.by_uplink.get_mut(uplink) else { return };
        numbers_of(handed, source, epoch).insert(first.0, last.0 + 1);
        self.account(source).changes += 1;
    }

    /// Every uplink is done with readings `first..=last`, and at least one delivered them.
    /// Returns how many were not done with before.
    pub fn acknowledge(
        &mut self,
        (source, epoch): (&SourceId, Epoch),
        (first, last): (Seq, Seq),
    ) -> u64 {
        let fresh = self.handed(source, epoch).insert(first.0, last.0 + 1);
        if fresh > 0 {
            let account = self.account(source);
            account.meta.acknowledged += fresh;
            account.changes += 1;
        }
        fresh
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
        for handed in &mut self.by_uplink {
            numbers_of(handed, source, epoch).insert(first.0, last.0 + 1);
        }
        let account = self.account(source);
        if reason.is_eviction() {
            account.meta.evicted += count;
        } else {
            account.meta.lost += count;
        }
        account.changes += 1;
        absent.into_iter().map(|(start, end)| (Seq(start), Seq(end - 1))).collect()
    }

    /// Every number up to here is done with at an uplink.
    pub fn through(&self, uplink: usize, source: &SourceId, epoch: Epoch) -> Seq {
        let handed = self.by_uplink.get(uplink).unwrap_or(&self.handed);
        let set = handed.get(&(source.clone(), epoch));
        Seq(set.map_or(0, |set| set.frontier() - 1))
    }

    /// Readings that an uplink has delivered, over all sources. With several uplinks,
    /// readings that were written off before it could send them are included.
    pub fn acknowledged_at(&self, uplink: usize) -> u64 {
        let known: u64 = self.accounts.values().map(|account| account.meta.acknowledged).sum();
        known + self.ahead_at(uplink, |_| true)
    }

    /// Durable readings that an uplink is not done with, over all sources.
    pub fn stored_at(&self, uplink: usize) -> u64 {
        self.stored().saturating_sub(self.ahead_at(uplink, |_| true))
    }

    /// Readings of a source that an uplink is done with.
    pub fn gone_at(&self, uplink: usize, source: &SourceId) -> u64 {
        let Some(account) = self.accounts.get(source) else { return 0 };
        let ahead = self.ahead_at(uplink, |of| of == source);
        account.meta.acknowledged + account.meta.evicted + account.meta.lost + ahead
    }

    /// Readings that an uplink is done with and another is not.
    fn ahead_at(&self, uplink: usize, of: impl Fn(&SourceId) -> bool) -> u64 {
        let sets = self.by_uplink.get(uplink).into_iter().flatten();
        let sets = sets.filter(|((source, _), _)| of(source));
        let ahead = sets.map(|(key, set)| {
            let of_all = self.handed.get(key).map_or(0, |set| set.count_from(1));
            set.count_from(1).saturating_sub(of_all)
        });
        ahead.sum()
    }

    /// Whether a number is done with.
    pub fn is_done(&self, source: &SourceId, epoch: Epoch, seq: Seq) -> bool {
        self.handed.get(&(source.clone(), epoch)).is_some_and(|set| set.contains(seq.0))
    }

    /// Notes a plausible event time of a source.
    pub fn saw_event(&mut self, source: &SourceId, at: EventTime) {
        let newest = &mut self.account(source).meta.newest_event;
        *newest = Some(newest.map_or(at, |known| known.max(at)));
    }

    /// Writes the books into the meta of a commit. Earlier epochs are left out once the
    /// journal has none of their readings (`live` says which are still there).
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

    /// The numbers that an uplink is done with, for the meta; `None` where there is only
    /// one uplink.
    pub fn handed_at(
        &self,
        uplink: usize,
        live: impl Fn(&SourceId, Epoch) -> bool,
    ) -> Option<BTreeMap<(SourceId, Epoch), SeqSet>> {
        let kept = self.by_uplink.get(uplink)?.iter();
        let kept = kept.filter(|((source, epoch), _)| *epoch == self.epoch || live(source, *epoch));
        Some(kept.map(|(key, set)| (key.clone(), seq_set(set))).collect())
    }

    fn handed(&mut self, source: &SourceId, epoch: Epoch) -> &mut RangeSet {
        numbers_of(&mut self.handed, source, epoch)
    }
}

fn numbers_of<'a>(handed: &'a mut Handed, source: &SourceId, epoch: Epoch) -> &'a mut RangeSet {
    handed.entry((source.clone(), epoch)).or_insert_with(|| RangeSet::new(1, []))
}

fn opened(stored: &BTreeMap<(SourceId, Epoch), SeqSet>) -> Handed {
    let sets = stored.iter().map(|(key, set)| {
        let ranges = set.ranges.iter().map(|(first, last)| (first.0, last.0 + 1));
        (key.clone(), RangeSet::new(set.through.0 + 1, ranges))
    });
    sets.collect()
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
        let mut books = Books::open(&Meta::default(), Epoch { number: 1, nonce: 9 }, &[]);
        let epoch = books.epoch();
        for _ in 0..10 {
            books.accept(&source);
        }
        assert_eq!(books.acknowledge((&source, epoch), (Seq(2), Seq(2))), 1);
        assert_eq!(books.acknowledge((&source, epoch), (Seq(2), Seq(2))), 0);
        let gone = books.write_off((&source, epoch), Seq(1), Seq(4), GapReason::Evicted);
        assert_eq!(gone, [(Seq(1), Seq(1)), (Seq(3), Seq(4))]);
        assert_eq!(books.through(0, &source, epoch), Seq(4));
        let mut meta = Meta::default();
        books.fill(&mut meta, |_, _| false);
        books.committed(&meta);
        let account = books.account(&source);
        assert_eq!((account.meta.acknowledged, account.meta.evicted, account.stored()), (1, 3, 6));
        let again = Books::open(&meta, epoch, &[]);
        assert!(again.is_done(&source, epoch, Seq(3)) && !again.is_done(&source, epoch, Seq(5)));
    }
}
