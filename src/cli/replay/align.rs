//! Sources of unequal depth, side by side: none is read on that is further than so
//! much ahead of the slowest.
//!
//! Traces are read one after the other. A window that follows the greatest event
//! time (policies `grace` and `adjust`) would find all of the second one late, and
//! one that waits for every source would have the first one's windows open all at
//! once. A running agent has no such choice: what has come must be kept, and as
//! readings it takes more room than in the windows that they open.

use std::collections::{BTreeMap, VecDeque};

use super::trace::Traced;
use crate::core::time::{EventTime, Span};

/// What one source still has to give, by place in the order and in the trace.
#[derive(Debug, Default)]
struct Source {
    coming: VecDeque<(usize, usize)>,
    newest: Option<EventTime>,
}

impl Source {
    /// How far it is with its next reading; `None` when it has no more.
    fn next_time(&self, readings: &[Traced]) -> Option<EventTime> {
        let (_, place) = self.coming.front()?;
        let input = &readings[*place].input;
        let own = Some(input.sample.at).filter(|_| input.moves_watermark);
        Some(self.newest.max(own).unwrap_or(EventTime::from_unix_ns(i64::MIN)))
    }
}

/// The same order within each source; between sources the given one, as far as
/// none gets further than `max_drift` ahead of the slowest that has readings left.
pub(super) fn align(readings: &[Traced], order: &[usize], max_drift: Span) -> Vec<usize> {
    let mut by_name = BTreeMap::new();
    let mut sources: Vec<Source> = Vec::new();
    for (turn, place) in order.iter().enumerate() {
        let known = sources.len();
        let source = *by_name.entry(&readings[*place].input.source).or_insert(known);
        if source == known {
            sources.push(Source::default());
        }
        sources[source].coming.push_back((turn, *place));
    }
    let mut aligned = Vec::with_capacity(order.len());
    loop {
        let times: Vec<_> = sources.iter().map(|source| source.next_time(readings)).collect();
        // The slowest itself may always go on.
        let Some(slowest) = times.iter().flatten().min() else { return aligned };
        let limit = *slowest + max_drift;
        let may_go = (0..sources.len()).filter(|at| times[*at].is_some_and(|at| at <= limit));
        let turn = |at: &usize| sources[*at].coming.front().map(|(turn, _)| *turn);
        let Some(next) = may_go.min_by_key(turn) else { return aligned };
        let source = &mut sources[next];
        source.newest = times[next];
        aligned.extend(source.coming.pop_front().map(|(_, place)| place));
    }
}
