//! What waits for the next group commit, and the commit that is under way.

use std::sync::Arc;

use super::id::{CommitId, Offset, ReceiptId};
use super::limits::{PENDING_BYTES_MAX, PENDING_ENTRIES_MAX};
use super::reading::{Entry, Refusal};
use super::seam::{Commit, Meta};
use super::time::{MonoTime, Span};

/// First and longest wait before a failed commit is tried again.
const RETRY: (Span, Span) = (Span::from_secs(1), Span::from_secs(5));

/// Gathers entries, refusals and receipts; hands out one commit at a time.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    entries: Vec<Entry>,
    bytes: usize,
    refusals: Vec<Refusal>,
    receipts: Vec<ReceiptId>,
    since: Option<MonoTime>,
    outstanding: Option<Outstanding>,
    last_id: CommitId,
    next: Offset,
}

#[derive(Clone, Debug)]
struct Outstanding {
    commit: Commit,
    receipts: Vec<ReceiptId>,
    asked: MonoTime,
    attempts: u32,
    retry_at: Option<MonoTime>,
}

/// A commit that became durable.
#[derive(Clone, Debug)]
pub struct Done {
    /// What was committed.
    pub commit: Commit,
    /// Receipts that may now be given.
    pub receipts: Vec<ReceiptId>,
    /// From asking to answer.
    pub took: Span,
    /// Failed attempts before.
    pub attempts: u32,
}

impl Pending {
    /// Nothing waits; the next entry gets offset `next`.
    pub fn new(next: Offset) -> Self {
        Self { next, ..Self::default() }
    }

    /// One past the last offset given.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// Adds an entry and returns its offset.
    pub fn push(&mut self, entry: Entry, now: MonoTime) -> Offset {
        self.bytes += entry.weight();
        self.entries.push(entry);
        self.since.get_or_insert(now);
        let offset = self.next;
        self.next = offset.plus(1);
        offset
    }

    /// Adds a refused input.
    pub fn refuse(&mut self, refusal: Refusal, now: MonoTime) {
        let reading = refusal.reading.as_ref().map_or(0, |record| record.weight());
        self.bytes += refusal.content.len() + reading + size_of::<Refusal>();
        self.refusals.push(refusal);
        self.since.get_or_insert(now);
    }

    /// Notes a receipt to be given once everything added so far is durable.
    pub fn owe(&mut self, receipt: ReceiptId, now: MonoTime) {
        self.receipts.push(receipt);
        self.since.get_or_insert(now);
    }

    /// Whether the bound on what waits is reached.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= PENDING_ENTRIES_MAX || self.bytes >= PENDING_BYTES_MAX
    }

    /// Entries accepted and not yet durable.
    pub fn uncommitted(&self) -> usize {
        let asked = self.outstanding.as_ref().map_or(0, |out| out.commit.entries.len());
        self.entries.len() + asked
    }

    /// Those entries.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let asked = self.outstanding.iter().flat_map(|out| out.commit.entries.iter());
        asked.chain(&self.entries)
    }

    /// Entries of the next commit, with their offsets.
    pub fn numbered(&self) -> impl Iterator<Item = (Offset, &Entry)> {
        let first = self.next.0 - self.entries.len() as u64;
        (first..).map(Offset).zip(&self.entries)
    }

    /// Whether something waits for a commit.
    pub fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// Whether a commit is under way (or waits to be tried again).
    pub fn is_outstanding(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Failed attempts of the commit that is under way.
    pub fn failed_attempts(&self) -> u32 {
        self.outstanding.as_ref().map_or(0, |out| out.attempts)
    }

    /// Since when the oldest waits.
    pub fn since(&self) -> Option<MonoTime> {
        self.since
    }

    /// Estimated bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the commit of everything that waits.
    pub fn commit(&mut self, meta: Meta, now: MonoTime) -> Commit {
        assert!(self.outstanding.is_none(), "one commit is outstanding at a time");
        self.last_id = CommitId(self.last_id.0 + 1);
        let entries = std::mem::take(&mut self.entries);
        let first = Offset(self.next.0 - entries.len() as u64);
        let refusals = std::mem::take(&mut self.refusals);
        let commit = Commit { id: self.last_id, first, entries: Arc::new(entries), refusals, meta };
        self.bytes = 0;
        self.since = None;
        self.outstanding = Some(Outstanding {
            commit: commit.clone(),
            receipts: std::mem::take(&mut self.receipts),
            asked: now,
            attempts: 0,
            retry_at: None,
        });
        commit
    }

    /// The failed commit again, if its time has come.
    pub fn retry(&mut self, now: MonoTime) -> Option<Commit> {
        let out = self.outstanding.as_mut()?;
        if out.retry_at? > now {
            return None;
        }
        out.retry_at = None;
        self.last_id = CommitId(self.last_id.0 + 1);
        out.commit.id = self.last_id;
        Some(out.commit.clone())
    }

    /// When [`Pending::retry`] has something to do.
    pub fn retry_at(&self) -> Option<MonoTime> {
        self.outstanding.as_ref()?.retry_at
    }

    /// The store has made the commit durable.
    pub fn committed(&mut self, id: CommitId, now: MonoTime) -> Option<Done> {
        let out = self.outstanding.take_if(|out| out.commit.id == id)?;
        let took = now.since(out.asked);
        Some(Done { commit: out.commit, receipts: out.receipts, took, attempts: out.attempts })
    }

    /// The store failed: attempts so far and the wait before the next.
    pub fn failed(&mut self, id: CommitId, now: MonoTime) -> Option<(u32, Span)> {
        let out = self.outstanding.as_mut().filter(|out| out.commit.id == id)?;
        let retry_in = super::backoff::delay(out.attempts, RETRY.0, RETRY.1, u64::MAX);
        out.attempts += 1;
        out.retry_at = Some(now + retry_in);
        Some((out.attempts, retry_in))
    }
}
