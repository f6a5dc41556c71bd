//! Sources that the broker refuses for now (not authorized, quota): their
//! entries are passed over, those of other sources go on. After a wait one entry of the
//! source is tried; if it is acknowledged, the rest follow.

use std::collections::BTreeMap;

use crate::core::backoff;
use crate::core::id::SourceId;
use crate::core::time::{MonoTime, Span};

/// First and longest wait of a held source.
const HOLD: (Span, Span) = (Span::from_secs(5), Span::from_secs(60));

#[derive(Clone, Debug)]
struct Held {
    code: u8,
    attempts: u32,
    retry_at: MonoTime,
    is_probing: bool,
}

/// The held sources.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds(BTreeMap<SourceId, Held>);

impl Holds {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sources and the reason codes that hold them.
    pub(super) fn codes(&self) -> impl Iterator<Item = (&SourceId, u8)> {
        self.0.iter().map(|(source, held)| (source, held.code))
    }

    /// The broker refuses the source. Returns the wait until the next try; `None` when the
    /// source was held already.
    pub(super) fn hold(&mut self, source: &SourceId, code: u8, now: MonoTime) -> Option<Span> {
        let fresh = Held { code, attempts: 0, retry_at: now, is_probing: true };
        let held = self.0.entry(source.clone()).or_insert(fresh);
        held.code = code;
        if !held.is_probing {
            return None;
        }
        let retry_in = backoff::delay(held.attempts, HOLD.0, HOLD.1, u64::MAX);
        held.attempts += 1;
        held.is_probing = false;
        held.retry_at = now + retry_in;
        Some(retry_in)
    }

    /// The broker acknowledged something of the source. True if it was held until now.
    pub(super) fn release(&mut self, source: &SourceId) -> bool {
        self.0.remove(source).is_some()
    }

    /// `None` when the source is not held, else whether one of its entries may be tried
    /// now.
    pub(super) fn may_try(&self, source: &SourceId) -> Option<bool> {
        self.0.get(source).map(|held| held.is_probing)
    }

    /// Lets sources try again whose wait is over. True if there are any.
    pub(super) fn retry(&mut self, now: MonoTime) -> bool {
        let mut is_any_due = false;
        for held in self.0.values_mut() {
            if !held.is_probing && held.retry_at <= now {
                held.is_probing = true;
                is_any_due = true;
            }
        }
        is_any_due
    }

    /// When [`Holds::retry`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<MonoTime> {
        let waiting = self.0.values().filter(|held| !held.is_probing);
        waiting.map(|held| held.retry_at).min()
    }
}
