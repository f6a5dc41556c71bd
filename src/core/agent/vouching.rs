//! Whether this disk may go on with its numbering: see
//! [`renumber`](crate::core::renumber).
//!
//! Nothing that was numbered since the last start goes out before an uplink has
//! been asked and a durable commit says that its names are in use.

use super::*;
use crate::core::id::{CommitId, Seq};
use crate::core::renumber::{Renumbering, Renumberings};
use crate::core::seam::RetainedFrontier;

/// How far this start has come with the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No uplink has been asked.
    Unasked,
    /// An uplink was asked. The commit recording that numbers may leave is due (`None`) or
    /// under way.
    Saving(Option<CommitId>),
    /// That commit is durable: readings may go out.
    Vouched,
}

/// What is known of the names in use.
#[derive(Clone, Debug)]
pub(super) struct Vouching {
    stage: Stage,
    /// Numbers up to here may have left before this start, in this numbering.
    vouched: BTreeMap<SourceId, Seq>,
    pub(super) renumberings: Renumberings,
    nonce: u32,
}

impl Vouching {
    pub(super) fn open(meta: &Meta, nonce: u32) -> Self {
        let vouched = meta.sources.iter().map(|(source, books)| (source.clone(), books.vouched));
        Self {
            stage: Stage::Unasked,
            vouched: vouched.collect(),
            renumberings: meta.renumberings.clone(),
            // The given number may be in use already, by the epoch of a new data directory.
            nonce: nonce.wrapping_mul(0x9e37_79b1).wrapping_add(1),
        }
    }

    /// Whether readings may go out.
    pub(super) fn is_vouched(&self) -> bool {
        self.stage == Stage::Vouched
    }

    /// Whether that commit is due now.
    pub(super) fn is_commit_due(&self) -> bool {
        self.stage == Stage::Saving(None)
    }

    /// For a commit: up to which number readings of a source may have left, if its newest
    /// number is `tail`.
    pub(super) fn vouched(&self, source: &SourceId, tail: Seq) -> Seq {
        match self.stage {
            Stage::Unasked => self.vouched.get(source).copied().unwrap_or_default(),
            Stage::Saving(_) | Stage::Vouched => tail,
        }
    }

    pub(super) fn committing(&mut self, id: CommitId) {
        if self.stage == Stage::Saving(None) {
            self.stage = Stage::Saving(Some(id));
        }
    }

    /// A failed commit is retried under a new id: the stage follows it.
    pub(super) fn renumbered(&mut self, id: CommitId) {
        if let Stage::Saving(Some(known)) = &mut self.stage {
            *known = id;
        }
    }

    pub(super) fn committed(&mut self, id: CommitId) {
        if self.stage == Stage::Saving(Some(id)) {
            self.stage = Stage::Vouched;
        }
    }
}

impl Agent {
    /// Checks the frontiers that a broker retains of this gateway. If it has seen numbers
    /// that this disk never gave, the disk is an older copy, and a new epoch begins.
    pub(super) fn asked(
        &mut self,
        now: &Now,
        retained: &[RetainedFrontier],
        effects: &mut Vec<Effect>,
    ) {
        let known = retained.iter().map(|frontier| frontier.epoch.number).max();
        let why = retained.iter().find_map(|frontier| self.why_ahead(frontier));
        if let Some(reason) = why {
            self.renumber(now, known.unwrap_or_default(), reason, effects);
        }
        if self.vouching.stage == Stage::Unasked {
            self.vouching.stage = Stage::Saving(None);
        }
    }

    /// What proves that names which this disk is about to give may be in use: for
    /// people.
    fn why_ahead(&self, frontier: &RetainedFrontier) -> Option<String> {
        let RetainedFrontier { source, epoch, through_seq } = frontier;
        let ours = self.books.epoch();
        let has = format!("the broker has {source} up to {through_seq} of epoch {epoch}");
        if *epoch != ours {
            // Whoever counts on from there had ours before, or had another disk: what
            // is numbered here is not known to be new.
            let is_later = epoch.number > ours.number;
            return is_later.then(|| {
                format!("{has}, later than {ours} of this disk: it is an older copy, or a new one")
            });
        }
        // A frontier is said after a durable commit that names its source: a source
        // that this disk does not know in this very numbering was added to a copy.
        let is_ahead = self.vouching.vouched.get(source).is_none_or(|vouched| {
            // After the check, numbers given since this start may have left too.
            let known = match self.vouching.stage {
                Stage::Unasked => *vouched,
                Stage::Saving(_) | Stage::Vouched => self.books.tail(source),
            };
            *through_seq > known
        });
        is_ahead.then(|| format!("{has}, which this disk never gave: it is an older copy"))
    }

    /// Begins a new epoch, for the entries that have not left and for all that follow.
    fn renumber(&mut self, now: &Now, known: u32, reason: String, effects: &mut Vec<Effect>) {
        let from = self.books.epoch();
        let to =
            Epoch { number: known.max(from.number).saturating_add(1), nonce: self.vouching.nonce };
        self.vouching.nonce = self.vouching.nonce.wrapping_add(1);
        let is_first = self.vouching.stage == Stage::Unasked;
        let bases = if is_first { self.vouching.vouched.clone() } else { self.books.tails() };
        let one = Renumbering { from, to, bases, until: self.pending.next() };
        self.books.renumber(&one);
        self.vouching.renumberings.0.push(one);
        self.vouching.vouched = self.books.tails().into_keys().map(|s| (s, Seq(0))).collect();
        self.vouching.stage = Stage::Saving(None);
        self.rename_gaps(now);
        effects.push(Effect::Notice(Notice::EpochStarted { epoch: to, reason }));
    }

    /// Writes gap records that have not left again, under the present names.
    fn rename_gaps(&mut self, now: &Now) {
        for (offset, gap) in std::mem::take(&mut self.gaps) {
            let last = gap.last_seq.unwrap_or(gap.first_seq);
            let range = (gap.epoch, gap.first_seq, last);
            let ranges = self.vouching.renumberings.ranges(&gap.source, range);
            let lack = self.not_past(offset);
            if ranges == [range] || !self.withdraw(offset) {
                self.gaps.insert(offset, gap);
                continue;
            }
            for (epoch, first_seq, last) in ranges {
                let last_seq = gap.last_seq.map(|_| last);
                let renamed = GapRecord { epoch, first_seq, last_seq, ..gap.clone() };
                self.announce(now, renamed, &lack);
            }
        }
    }

    /// Entries under their present names.
    pub(super) fn renamed<'a>(&self, entries: &'a [Entry]) -> std::borrow::Cow<'a, [Entry]> {
        let renumberings = &self.vouching.renumberings;
        if renumberings.is_empty() {
            return entries.into();
        }
        let mut entries = entries.to_vec();
        entries.iter_mut().for_each(|entry| renumberings.apply(entry));
        entries.into()
    }
}

#[cfg(test)]
#[path = "vouching_tests.rs"]
mod tests;
