//! The sources of a lane, and the watermark over them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::core::id::SourceId;
use crate::core::time::Span;
use crate::core::window::watermark::{Bounded, InputId, Millis, Multiplexer, Watermark};

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sources {
    /// In ns.
    bound: i64,
    mux: Multiplexer,
    generators: Vec<Bounded>,
    by_name: BTreeMap<SourceId, u32>,
    /// Those that are not waited for, in order.
    idle: Vec<SourceId>,
    /// Where the last reading came from: the next one is likely its neighbour.
    #[serde(skip)]
    last: Option<(SourceId, u32)>,
}

impl Sources {
    pub(super) fn new(bound: Span) -> Self {
        Self {
            bound: bound.ns(),
            mux: Multiplexer::default(),
            generators: Vec::new(),
            by_name: BTreeMap::new(),
            idle: Vec::new(),
            last: None,
        }
    }

    /// Takes over the configured bound, which may have changed since the state was written.
    pub(super) fn set_bound(&mut self, bound: Span) {
        self.bound = bound.ns();
        self.generators.iter_mut().for_each(|generator| generator.set_bound(bound));
    }

    /// Waits for a source from now on, though nothing has come from it yet.
    pub(super) fn expect(&mut self, source: &SourceId) {
        if !self.by_name.contains_key(source) {
            self.add(source);
        }
    }

    /// Stops waiting for a source that has given nothing. Returns the combined watermark,
    /// where it rises by that.
    pub(super) fn unexpect(&mut self, source: &SourceId) -> Option<Millis> {
        let index = *self.by_name.get(source)?;
        if self.generators[index as usize].watermark().is_some() {
            return None;
        }
        self.mux.remove(InputId(index));
        self.by_name.remove(source);
        self.idle.retain(|idle| idle != source);
        self.mux.update().raised
    }

    /// A reading of that time came from `source`. The combined watermark, where
    /// it rose.
    pub(super) fn observe(&mut self, source: &SourceId, at: Millis) -> Option<Millis> {
        let index = match &self.last {
            Some((name, index)) if name == source => *index,
            _ => {
                let index = self.by_name.get(source).copied();
                let index = index.unwrap_or_else(|| self.add(source));
                self.last = Some((source.clone(), index));
                index
            }
        };
        if !self.idle.is_empty() {
            self.idle.retain(|idle| idle != source);
        }
        let generator = &mut self.generators[index as usize];
        generator.observe(at);
        let watermark = generator.watermark();
        self.mux.set(InputId(index), watermark).raised
    }

    /// Marks sources that fall silent at one instant as idle, all at once: one by one, the
    /// first would let the watermark jump to that of the others.
    pub(super) fn mark_idle(&mut self, sources: &[SourceId]) -> Option<Millis> {
        for source in sources {
            let Some(index) = self.by_name.get(source) else { continue };
            self.mux.mark_idle_deferred(InputId(*index), true);
            if let Err(place) = self.idle.binary_search(source) {
                self.idle.insert(place, source.clone());
            }
        }
        self.mux.update().raised
    }

    pub(super) fn waited_for(&self) -> impl Iterator<Item = &SourceId> {
        self.by_name.keys().filter(|source| self.idle.binary_search(source).is_err())
    }

    /// Those that hold the combined watermark: nothing came from them yet, or nothing
    /// later than it. None where all are silent.
    pub(super) fn holding(&self) -> impl Iterator<Item = &SourceId> {
        let combined = self.mux.combined();
        let waited_for = self.by_name.iter();
        let holding = waited_for.filter(move |(_, index)| match self.mux.state(InputId(**index)) {
            Watermark::NotYet => true,
            Watermark::At(at) => Some(at) <= combined,
            Watermark::Idle => false,
        });
        holding.map(|(source, _)| source)
    }

    pub(super) fn idle(&self) -> &[SourceId] {
        &self.idle
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    fn add(&mut self, source: &SourceId) -> u32 {
        let index = self.generators.len() as u32;
        self.generators.push(Bounded::new(Span::from_ns(self.bound)));
        self.mux.add(InputId(index));
        self.by_name.insert(source.clone(), index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(sources: &Sources) -> Vec<&str> {
        sources.holding().map(SourceId::as_str).collect()
    }

    #[test]
    fn who_is_slowest_or_was_not_heard_holds_the_watermark() {
        let [a, b, c] = ["a", "b", "c"].map(SourceId::new);
        let mut sources = Sources::new(Span::from_secs(1));
        [&a, &b, &c].into_iter().for_each(|source| sources.expect(source));
        assert_eq!(held_by(&sources), ["a", "b", "c"]);
        sources.observe(&a, Millis(10_000));
        sources.observe(&b, Millis(20_000));
        assert_eq!(held_by(&sources), ["c"]);
        assert_eq!(sources.mark_idle(std::slice::from_ref(&c)), Some(Millis(8_999)));
        assert_eq!(held_by(&sources), ["a"]);
        assert_eq!(sources.observe(&a, Millis(30_000)), Some(Millis(18_999)));
        assert_eq!(held_by(&sources), ["b"]);
        // Back from silence and behind: nothing moves until it has passed the watermark.
        sources.observe(&c, Millis(5_000));
        assert_eq!(held_by(&sources), ["b", "c"]);
        sources.observe(&b, Millis(40_000));
        assert_eq!(held_by(&sources), ["c"]);
        sources.mark_idle(&[a, b, c]);
        assert_eq!(held_by(&sources), [""; 0]);
    }
}
