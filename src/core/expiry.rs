//! `max_age`: which stored readings are too old to be kept.
//!
//! Age is a question to a clock, and a clock that jumps a year ahead must not
//! empty the journal. So time counts here only as far as three witnesses agree:
//!
//! - **The wall clock**, while it is synchronized. In holdover, after a step, or
//!   never synchronized: nothing is too old.
//! - **The order of events** in the journal. Time begins at the newest event time
//!   that can be reached from the oldest segment without a leap of `max_age` or
//!   more; what lies behind such a leap is the work of a wrong clock until
//!   shown otherwise.
//! - **The monotonic clock.** From there on time goes no faster than this
//!   process runs. A step of the wall clock therefore ages nothing, even if
//!   the clock is synchronized afterwards; time while the agent did not run counts once
//!   there are readings behind it.
//!
//! Every doubt keeps readings longer. The quota still bounds the disk.

use super::clock::ClockState;
use super::seam::{Now, SegmentInfo};
use super::time::{EventTime, MonoTime, Span};

/// The present time, as far as `max_age` believes it.
#[derive(Clone, Debug)]
pub struct Expiry {
    max_age: Option<Span>,
    /// Stamps before it were made by a clock that was not set.
    floor: EventTime,
    /// Time as it was when the wall clock was first synchronized, and when.
    anchor: Option<(EventTime, MonoTime)>,
}

impl Expiry {
    /// `max_age` is the greatest age; with `None` nothing is ever too old. Stamps before
    /// `floor` were made by a clock that was not set.
    pub fn new(max_age: Option<Span>, floor: EventTime) -> Self {
        Self { max_age, floor, anchor: None }
    }

    /// Readings before this event time are too old; `None` while that cannot be known.
    pub fn limit(
        &mut self,
        now: &Now,
        state: ClockState,
        segments: &[SegmentInfo],
    ) -> Option<EventTime> {
        let max_age = self.max_age?;
        if state != ClockState::Synchronized {
            return None;
        }
        let wall = now.wall.as_event_time();
        let floor = self.floor;
        let (begun, since) = *self.anchor.get_or_insert_with(|| {
            (reached(segments, floor, max_age).map_or(wall, |newest| newest.min(wall)), now.mono)
        });
        Some(wall.min(begun + now.mono.since(since)) - max_age)
    }

    /// Whether everything in a segment happened before `limit`. One stamp from the future
    /// keeps the segment. A segment without readings, or only with stamps of a clock that
    /// was never set, has no age and does not expire.
    pub fn is_expired(&self, segment: &SegmentInfo, limit: EventTime) -> bool {
        latest(segment).is_some_and(|latest| self.floor <= latest && latest < limit)
    }
}

fn latest(segment: &SegmentInfo) -> Option<EventTime> {
    segment.contents.values().map(|range| range.latest).max()
}

/// The newest event time of a chain of segments without a leap.
fn reached(segments: &[SegmentInfo], floor: EventTime, leap: Span) -> Option<EventTime> {
    let mut chain = segments.iter().filter_map(latest).filter(|latest| *latest >= floor);
    let first = chain.next()?;
    Some(chain.fold(first, |at, next| if next < at + leap { at.max(next) } else { at }))
}

#[cfg(test)]
#[path = "expiry_tests.rs"]
mod tests;
