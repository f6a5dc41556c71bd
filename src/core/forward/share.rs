//! How much of the uplink the backlog may take while live readings flow.

use crate::core::time::{MonoTime, Span};

/// Live data counts as flowing for this time after some of it was sent.
const FLOWS_FOR: Span = Span::from_secs(1);

/// At a configured rate, as much may go at once as the rate allows in this time.
const BURST: Span = Span::from_millis(100);

/// The bounds of the backfill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareSettings {
    /// Part of the in-flight bound, and so of the acknowledged rate, that the
    /// backfill may take while live data flows: 0 to 1; one publish at least.
    pub share: f64,
    /// Upper bound in readings a second; `None` is unbounded.
    pub per_second: Option<u64>,
}

/// Decides how much live entries and backfill may have in flight.
#[derive(Clone, Debug)]
pub(super) struct Share {
    settings: ShareSettings,
    live_sent: Option<MonoTime>,
    /// When everything sent of the backfill so far would have gone at the configured rate.
    free_at: MonoTime,
    /// Whether the bound on the rate keeps the backfill waiting.
    is_waiting: bool,
}

impl Share {
    pub(super) fn new(settings: ShareSettings) -> Self {
        Self { settings, live_sent: None, free_at: MonoTime::default(), is_waiting: false }
    }

    /// Notes that a live entry goes out.
    pub(super) fn live_goes(&mut self, now: MonoTime) {
        self.live_sent = Some(now);
    }

    /// Notes that entries of the backfill go out.
    pub(super) fn backfill_goes(&mut self, entries: usize, now: MonoTime) {
        let Some(per_second) = self.settings.per_second else { return };
        let cost_ns = entries as u64 * 1_000_000_000 / per_second.max(1);
        self.free_at = self.free_at.max(now) + Span::from_ns(cost_ns as i64);
    }

    /// Forgets that the backfill waits, before it is looked at again.
    pub(super) fn look_anew(&mut self) {
        self.is_waiting = false;
    }

    /// How many of `slots` publishes in flight may be of the backfill.
    pub(super) fn backfill_slots(&mut self, slots: usize, now: MonoTime) -> usize {
        self.is_waiting = self.free_at > now + BURST;
        if self.is_waiting {
            return 0;
        }
        let flows = self.live_sent.is_some_and(|sent| now.since(sent) < FLOWS_FOR);
        if flows { ((slots as f64 * self.settings.share) as usize).max(1) } else { slots }
    }

    /// Publishes that live entries may have in flight beside a backfill that
    /// waits: a tenth is left for it, or it might never drain.
    pub(super) fn live_slots(slots: usize) -> usize {
        (slots - (slots / 10).max(1)).max(1)
    }

    /// When the bound on the rate lets the backfill go on, if that keeps it
    /// waiting.
    pub(super) fn next_deadline(&self) -> Option<MonoTime> {
        let at = MonoTime::from_ns(self.free_at.ns().saturating_sub(BURST.ns() as u64));
        self.is_waiting.then_some(at)
    }
}
