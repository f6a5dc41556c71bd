//! The last results of every series: charts that begin before somebody looks.
//!
//! Memory is bounded: each series keeps its newest windows, and where all of them take too
//! much, the series with the most gives up its oldest one. So a thousand series have a short
//! history each, and a window of an hour keeps its own beside those of a second.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;
use std::sync::Arc;

use crate::core::reading::Series;
use crate::core::time::{EventTime, TimebaseId};
use crate::core::window::{Aggregate, Number, WindowResult};

/// Windows kept of a series.
pub(super) const PER_SERIES_MAX: usize = 60;
/// What all of them may take, in bytes: some 8,000 results of five aggregates.
pub(super) const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A series within a window.
type Key = (Arc<str>, u32, Arc<Series>);
/// Where in time a result stands; a new timebase begins when the clock was set back.
type Place = (TimebaseId, EventTime, EventTime);

/// See the module.
#[derive(Debug)]
pub(super) struct History {
    kept: BTreeMap<Key, BTreeMap<Place, Arc<WindowResult>>>,
    /// Each series by how many results it has.
    by_length: BTreeSet<(usize, Key)>,
    bytes: usize,
    per_series_max: usize,
    bytes_max: usize,
}

impl History {
    /// An empty one with these bounds.
    pub(super) fn new(per_series_max: usize, bytes_max: usize) -> Self {
        let (kept, by_length) = (BTreeMap::new(), BTreeSet::new());
        Self { kept, by_length, bytes: 0, per_series_max, bytes_max }
    }

    /// Takes a result in. A later revision replaces an earlier one, and so does the word that
    /// a session is taken back: who looks again learns that it is gone.
    pub(super) fn note(&mut self, result: &Arc<WindowResult>) {
        let key = (Arc::clone(&result.window), result.version, Arc::clone(&result.series));
        let of_series = self.kept.entry(key.clone()).or_default();
        self.by_length.remove(&(of_series.len(), key.clone()));
        let place = (result.timebase, result.end, result.start);
        let replaced = of_series.insert(place, Arc::clone(result));
        let surplus = of_series.len() > self.per_series_max;
        let dropped = surplus.then(|| of_series.pop_first()).flatten().map(|(_, oldest)| oldest);
        self.by_length.insert((of_series.len(), key));
        self.bytes += weight(result);
        for gone in replaced.into_iter().chain(dropped) {
            self.bytes -= weight(&gone);
        }
        while self.bytes > self.bytes_max {
            self.give_up_one();
        }
    }

    /// The oldest of the series that has the most.
    fn give_up_one(&mut self) {
        let Some((_, key)) = self.by_length.pop_last() else { return };
        let Some(of_series) = self.kept.get_mut(&key) else { return };
        if let Some((_, oldest)) = of_series.pop_first() {
            self.bytes -= weight(&oldest);
        }
        if of_series.is_empty() {
            self.kept.remove(&key);
        } else {
            self.by_length.insert((of_series.len(), key));
        }
    }

    /// What is kept, series by series in the order of their names, the oldest of each first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<WindowResult>> {
        self.kept.values().flat_map(BTreeMap::values)
    }
}

/// What keeping a result takes in memory, in bytes, about. Names count each time, though
/// results of a series share them: rather too much than too little.
fn weight(result: &WindowResult) -> usize {
    let (series, coverage) = (&result.series, &result.coverage);
    size_of::<WindowResult>()
        + size_of::<(Place, Arc<WindowResult>)>()
        + result.values.capacity() * size_of::<(Aggregate, Option<Number>)>()
        + coverage.excluded_idle.iter().map(|source| source.as_str().len()).sum::<usize>()
        + result.window.len()
        + series.entity.len()
        + series.property.len()
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
