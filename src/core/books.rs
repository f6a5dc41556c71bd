//! The books: for every source, what was accepted and what became of it.
//!
//! `accepted = acknowledged + stored + evicted + lost`, to the last reading.
//! Sequence numbers come from here too: they have no holes because a number is given
//! together with its reading and both are in the same commit.
//!
//! Where there are several uplinks a number is done with once each of them is. It is
//! acknowledged if one of their brokers took it, lost if none did.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::id::{Epoch, Offset, Seq, SourceId};
use super::rangeset::RangeSet;
use super::reading::{GapReason, GapRecord};
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

/// A numbering.
type Name = (SourceId, Epoch);

/// Which numbers are done with, per numbering.
type Handed = BTreeMap<Name, RangeSet>;

/// All accounts.
#[derive(Clone, Debug, Default)]
pub struct Books {
    epoch: Epoch,
    accounts: BTreeMap<SourceId, Account>,
    /// Numbers that every uplink is done with.
    handed: Handed,
    /// Each uplink; empty where there is only one, and was no other when what it has
    /// still to send was numbered.
    ways: Vec<Way>,
    /// Entries from here on know the uplinks of now alone.
    uplinks_since: Offset,
}

/// How far one of several uplinks is.
#[derive(Clone, Debug, Default)]
struct Way {
    /// What it is done with.
    handed: Handed,
    /// Of that, what its broker does not take, while it matters: see
    /// [`Books::forget_refusals`].
    refused: Handed,
}

impl Way {
    /// As `meta` knows the uplink of this name. One that is new has what all others
    /// have; where there was one, it goes on whatever its name was. Without a word on
    /// it, what open records say was refused is refused here.
    fn open(meta: &Meta, name: &str) -> Self {
        let Some(one) = meta.uplinks.get(name) else {
            let is_only = meta.uplinks.len() <= 1;
            let refused = if is_only { refused_in(&meta.gaps) } else { Handed::new() };
            return Self { handed: opened(&meta.handed), refused };
        };
        let refused = one.refused.as_ref().map_or_else(|| refused_in(&meta.gaps), opened);
        Self { handed: opened(&one.handed), refused }
    }

    fn has_delivered(&self, key: &Name, seq: u64) -> bool {
        let has = |sets: &Handed| sets.get(key).is_some_and(|set| set.contains(seq));
        has(&self.handed) && !has(&self.refused)
    }

    fn has_refused(&self, gap: &GapRecord) -> bool {
        let end = gap.last_seq.unwrap_or(gap.first_seq).0 + 1;
        let set = self.refused.get(&(gap.source.clone(), gap.epoch));
        set.is_some_and(|set| set.absent_in(gap.first_seq.0, end).is_empty())
    }
}

impl Books {
    /// The books that `meta` describes, going on in `epoch` with these uplinks, where
    /// the next entry is `next`. An uplink that `meta` does not know is as far as all of
    /// the others together.
    pub fn open(meta: &Meta, epoch: Epoch, uplinks: &[Arc<str>], next: Offset) -> Self {
        let mut books = Self { epoch, uplinks_since: next, ..Self::default() };
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
        books.ways = uplinks.iter().map(|name| Way::open(meta, name)).collect();
        let others = meta.uplinks.keys().filter(|name| !uplinks.contains(name));
        let others: Vec<Way> = others.map(|name| Way::open(meta, name)).collect();
        books.settle_what_all_have(&others);
        if books.ways.len() == 1 && meta.uplinks.is_empty() {
            books.ways.clear();
        }
        books
    }

    /// Uplinks may have left the configuration: what those that stay have is done
    /// with.
    fn settle_what_all_have(&mut self, left: &[Way]) {
        let keys: Vec<Name> =
            self.ways.iter().take(1).flat_map(|way| way.handed.keys()).cloned().collect();
        for key in keys {
            let Some(set) = self.of_all(&key, |way| &way.handed) else { continue };
            let refused = self.of_all(&key, |way| &way.refused).unwrap_or_default();
            let (source, epoch) = &key;
            let known = self.handed(source, *epoch);
            let count = set.count_from(1).saturating_sub(known.count_from(1));
            if count == 0 {
                continue;
            }
            let whole = std::iter::once((1, refused.frontier())).chain(refused.ranges());
            let fresh = whole.flat_map(|(first, end)| known.absent_in(first, end));
            let nobody = |seq: &u64| !left.iter().any(|way| way.has_delivered(&key, *seq));
            let lost = fresh.flat_map(|(first, end)| first..end).filter(nobody).count() as u64;
            *known = set;
            let account = self.account(source);
            account.meta.acknowledged += count.saturating_sub(lost);
            account.meta.lost += lost.min(count);
        }
    }

    fn of_all(&self, key: &Name, of: impl Fn(&Way) -> &Handed) -> Option<RangeSet> {
        let sets = self.ways.iter().map(|way| of(way).get(key).cloned());
        sets.reduce(|all, one| Some(all?.intersection(&one?))).flatten()
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
        let ways = self.ways.iter_mut().flat_map(|way| [&mut way.handed, &mut way.refused]);
        for handed in ways.chain([&mut self.handed]) {
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
        let Some(way) = self.ways.get_mut(uplink) else { return };
        numbers_of(&mut way.handed, source, epoch).insert(first.0, last.0 + 1);
        self.account(source).changes += 1;
    }

    /// The broker of one of several uplinks does not take a reading; see
    /// [`Books::refused_by_last`] for when all are done with it.
    pub fn refuse_at(&mut self, uplink: usize, (source, epoch): (&SourceId, Epoch), seq: Seq) {
        let Some(way) = self.ways.get_mut(uplink) else { return };
        numbers_of(&mut way.refused, source, epoch).insert(seq.0, seq.0 + 1);
        self.acknowledge_at(uplink, (source, epoch), (seq, seq));
    }

    /// Every uplink is done with a reading, the last because its broker does not take
    /// it. Whether no other took it either: then it is lost.
    pub fn refused_by_last(&mut self, (source, epoch): (&SourceId, Epoch), seq: Seq) -> bool {
        let key = (source.clone(), epoch);
        if self.ways.iter().any(|way| way.has_delivered(&key, seq.0)) {
            self.acknowledge((source, epoch), (seq, seq));
            return false;
        }
        let gone = self.write_off((source, epoch), seq, seq, GapReason::RefusedByBroker);
        !gone.is_empty()
    }

    /// Whether what a gap record says is so at an uplink: of a refusal only where all
    /// of it was refused.
    pub fn is_so_at(&self, uplink: usize, gap: &GapRecord) -> bool {
        let way = self.ways.get(uplink);
        !is_refusal(gap) || way.is_none_or(|way| way.has_refused(gap))
    }

    /// Refusals matter until every uplink is done with the number, and while one of
    /// the gap records in `open` names it. Uplinks that have left matter to the one that
    /// stays until it is done with all below `frontier` that they could have seen.
    pub fn forget_refusals(&mut self, open: &BTreeMap<Offset, GapRecord>, frontier: Offset) {
        if self.ways.len() == 1 && frontier >= self.uplinks_since {
            self.ways.clear();
        }
        for way in &mut self.ways {
            way.refused.retain(|key, set| {
                let is_of = |gap: &&GapRecord| (&gap.source, gap.epoch) == (&key.0, key.1);
                let refusals = open.values().filter(is_of).filter(|gap| is_refusal(gap));
                let named = refusals.map(|gap| gap.first_seq.0).min().unwrap_or(u64::MAX);
                let settled = self.handed.get(key).map_or(1, RangeSet::frontier);
                let kept = set.split_off(settled.min(named).max(1));
                *set = RangeSet::new(1, kept);
                set.count_from(1) > 0
            });
        }
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
        for way in &mut self.ways {
            numbers_of(&mut way.handed, source, epoch).insert(first.0, last.0 + 1);
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
        let handed = self.ways.get(uplink).map_or(&self.handed, |way| &way.handed);
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
        let sets = self.ways.get(uplink).into_iter().flat_map(|way| &way.handed);
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

    /// Whether all numbers `first..=last` are done with.
    pub fn are_done(&self, (source, epoch): (&SourceId, Epoch), (first, last): (Seq, Seq)) -> bool {
        let set = self.handed.get(&(source.clone(), epoch));
        set.is_some_and(|set| set.absent_in(first.0, last.0 + 1).is_empty())
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

    /// The part of the meta that is an uplink's own: what it is done with, and what of
    /// that was refused. `None` where there is only one uplink.
    pub fn way(
        &self,
        uplink: usize,
        live: impl Fn(&SourceId, Epoch) -> bool,
    ) -> Option<(BTreeMap<Name, SeqSet>, BTreeMap<Name, SeqSet>)> {
        let way = self.ways.get(uplink)?;
        let is_kept = |(source, epoch): &Name| *epoch == self.epoch || live(source, *epoch);
        let stored = |sets: &Handed| {
            let kept = sets.iter().filter(|(key, _)| is_kept(key));
            kept.map(|(key, set)| (key.clone(), seq_set(set))).collect()
        };
        Some((stored(&way.handed), stored(&way.refused)))
    }

    fn handed(&mut self, source: &SourceId, epoch: Epoch) -> &mut RangeSet {
        numbers_of(&mut self.handed, source, epoch)
    }
}

fn numbers_of<'a>(handed: &'a mut Handed, source: &SourceId, epoch: Epoch) -> &'a mut RangeSet {
    handed.entry((source.clone(), epoch)).or_insert_with(|| RangeSet::new(1, []))
}

fn is_refusal(gap: &GapRecord) -> bool {
    gap.reason == GapReason::RefusedByBroker
}

/// What open gap records say was refused.
fn refused_in(open: &[(Offset, GapRecord)]) -> Handed {
    let mut refused = Handed::new();
    for (_, gap) in open.iter().filter(|(_, gap)| is_refusal(gap)) {
        let end = gap.last_seq.unwrap_or(gap.first_seq).0 + 1;
        numbers_of(&mut refused, &gap.source, gap.epoch).insert(gap.first_seq.0, end);
    }
    refused
}

fn opened(stored: &BTreeMap<Name, SeqSet>) -> Handed {
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
        let mut books =
            Books::open(&Meta::default(), Epoch { number: 1, nonce: 9 }, &[], Offset(0));
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
        let again = Books::open(&meta, epoch, &[], Offset(0));
        assert!(again.is_done(&source, epoch, Seq(3)) && !again.is_done(&source, epoch, Seq(5)));
    }
}
