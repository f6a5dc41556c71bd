//! The newest result of each series, for those who want a state and not a
//! history: the on-site page, a retained topic.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ResultStatus, WindowResult};
use crate::core::reading::Series;
use crate::core::time::{EventTime, TimebaseId};

/// A series within a window.
type Key = (Arc<str>, u32, Arc<Series>);
/// Where in time a result stands.
type Place = (TimebaseId, EventTime, EventTime);

/// The newest result by (window, version, series), bounded: with more series, the one that
/// changed longest ago is dropped.
#[derive(Debug)]
pub struct Latest<T> {
    /// With the turn of the last change.
    kept: BTreeMap<Key, (u64, Place, T)>,
    by_turn: BTreeMap<u64, Key>,
    turn: u64,
    limit: usize,
}

impl<T> Latest<T> {
    /// An empty one for at most `limit` series.
    pub fn new(limit: usize) -> Self {
        Self { kept: BTreeMap::new(), by_turn: BTreeMap::new(), turn: 0, limit }
    }

    /// Keeps `kept` for the result if it is the newest of its series. Returns whether it is.
    ///
    /// Newer is what ends later in the same timebase, and what comes later for
    /// the same end. A new timebase is newer whatever its times say: it begins
    /// when the clock was set back. A retraction replaces only the result of the same
    /// window.
    pub fn note(&mut self, result: &WindowResult, kept: T) -> bool {
        let key = (Arc::clone(&result.window), result.version, Arc::clone(&result.series));
        let place = (result.timebase, result.end, result.start);
        if let Some((turn, known, _)) = self.kept.get(&key) {
            let is_newer = match result.status {
                ResultStatus::Retracted => place == *known,
                _ => (place.0, place.1) >= (known.0, known.1),
            };
            if !is_newer {
                return false;
            }
            self.by_turn.remove(turn);
        }
        self.turn += 1;
        self.by_turn.insert(self.turn, key.clone());
        self.kept.insert(key, (self.turn, place, kept));
        if self.kept.len() > self.limit
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            self.kept.remove(&oldest);
        }
        true
    }

    /// What is kept, the last changed first, with the window's name.
    pub fn newest_first(&self) -> impl Iterator<Item = (&str, &T)> {
        let keys = self.by_turn.values().rev();
        keys.filter_map(|key| Some((&*key.0, &self.kept.get(key)?.2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::id::{Epoch, Seq, SourceId};
    use crate::core::time::IngestTime;
    use crate::core::window::Coverage;

    fn result(entity: &str, (start, end): (i64, i64)) -> WindowResult {
        WindowResult {
            source: SourceId::new("window:w"),
            epoch: Epoch::default(),
            seq: Seq(1),
            window: "w".into(),
            version: 1,
            series: Arc::new(Series { entity: entity.into(), property: "p".into(), unit: None }),
            start: EventTime::from_unix_ns(start),
            end: EventTime::from_unix_ns(end),
            timebase: TimebaseId(0),
            revision: 1,
            status: ResultStatus::Provisional,
            count: 1,
            values: vec![],
            watermark: None,
            coverage: Coverage::default(),
            at: IngestTime::default(),
        }
    }

    fn shown(latest: &Latest<u32>) -> Vec<u32> {
        latest.newest_first().map(|(_, kept)| *kept).collect()
    }

    #[test]
    fn an_older_window_does_not_replace_a_newer_one() {
        let mut latest = Latest::new(9);
        assert!(latest.note(&result("a", (0, 10)), 1));
        assert!(latest.note(&result("a", (10, 20)), 2));
        assert!(!latest.note(&result("a", (0, 10)), 3));
        assert!(latest.note(&result("a", (10, 20)), 4));
        assert_eq!(shown(&latest), [4]);
    }

    #[test]
    fn a_new_timebase_is_newer_though_its_times_are_not() {
        let mut latest = Latest::new(9);
        latest.note(&WindowResult { timebase: TimebaseId(3), ..result("a", (10, 20)) }, 1);
        assert!(latest.note(&WindowResult { timebase: TimebaseId(4), ..result("a", (0, 10)) }, 2));
        assert_eq!(shown(&latest), [2]);
    }

    #[test]
    fn a_swallowed_session_does_not_hide_the_larger_one() {
        let retracted = |at| WindowResult { status: ResultStatus::Retracted, ..result("a", at) };
        // Grown to the left, the larger one told first or last.
        let mut latest = Latest::new(9);
        latest.note(&result("a", (10, 20)), 1);
        assert!(latest.note(&result("a", (5, 20)), 2));
        assert!(!latest.note(&retracted((10, 20)), 3));
        assert_eq!(shown(&latest), [2]);
        let mut latest = Latest::new(9);
        latest.note(&result("a", (10, 20)), 1);
        assert!(latest.note(&retracted((10, 20)), 2));
        assert!(latest.note(&result("a", (5, 20)), 3));
        assert_eq!(shown(&latest), [3]);
    }

    #[test]
    fn beyond_the_bound_the_longest_unheard_of_goes() {
        let mut latest = Latest::new(2);
        latest.note(&result("a", (0, 10)), 1);
        latest.note(&result("b", (0, 10)), 2);
        latest.note(&result("a", (10, 20)), 3);
        latest.note(&result("c", (0, 10)), 4);
        assert_eq!(shown(&latest), [4, 3]);
    }
}
