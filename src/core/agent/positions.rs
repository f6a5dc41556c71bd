//! The positions of sources that can go on where they were, such as files. A position
//! becomes durable in the same commit as the readings up to it, so that a crash neither
//! repeats nor skips one.

use std::sync::Arc;

use super::*;
use crate::core::id::Seq;
use crate::core::seam::{Batch, Position};

/// The positions of all sources that have one.
#[derive(Debug, Default)]
pub(super) struct Positions(BTreeMap<SourceId, Place>);

#[derive(Debug, Default)]
struct Place {
    at: Arc<[u8]>,
    /// Readings after `at` that the journal already has and that will come again.
    ahead: u64,
}

impl Positions {
    pub(super) fn open(meta: &Meta, is_numbering_broken: bool) -> Self {
        let places = meta.positions.iter().map(|(source, position)| {
            let tail = meta.sources.get(source).map_or(Seq(0), |books| books.tail);
            // Numbers of two epochs cannot be subtracted.
            let ahead = match is_numbering_broken {
                true => 0,
                false => tail.0.saturating_sub(position.tail.0),
            };
            (source.clone(), Place { at: Arc::clone(&position.at), ahead })
        });
        Self(places.collect())
    }

    /// Whether a batch begins at the position of its source, or has none.
    pub(super) fn lets_in(&self, batch: &Batch) -> bool {
        let Some(advance) = &batch.advance else { return true };
        let at = self.0.get(&batch.source).map(|place| &place.at);
        at.map_or(advance.from.is_empty(), |at| *at == advance.from)
    }

    /// Whether the next reading of a source that goes on from its position is one that
    /// the journal has already. Counts it as come.
    pub(super) fn has_next(&mut self, source: &SourceId) -> bool {
        let ahead = self.0.get_mut(source).map(|place| &mut place.ahead);
        let Some(ahead) = ahead.filter(|ahead| **ahead > 0) else { return false };
        *ahead -= 1;
        true
    }

    pub(super) fn advance(&mut self, source: &SourceId, to: Arc<[u8]>) {
        self.0.entry(source.clone()).or_default().at = to;
    }

    fn iter(&self) -> impl Iterator<Item = (&SourceId, &Place)> {
        self.0.iter()
    }
}

impl Agent {
    /// The position of each source that has one.
    pub fn positions(&self) -> BTreeMap<SourceId, Arc<[u8]>> {
        let places = self.positions.iter();
        places.map(|(source, place)| (source.clone(), Arc::clone(&place.at))).collect()
    }

    /// Writes the positions into the meta of a commit.
    pub(super) fn fill_positions(&self, meta: &mut Meta) {
        let stored = self.positions.iter().map(|(source, place)| {
            let tail = meta.sources.get(source).map_or(Seq(0), |books| books.tail);
            let tail = Seq(tail.0.saturating_sub(place.ahead));
            (source.clone(), Position { at: Arc::clone(&place.at), tail })
        });
        let positions = stored.collect();
        meta.positions = positions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::seam::SourceMeta;

    #[test]
    fn what_the_journal_has_beyond_a_place_is_told_apart_once() {
        let source = SourceId::new("log");
        let books = SourceMeta { tail: Seq(12), ..SourceMeta::default() };
        let at: Arc<[u8]> = Arc::from(*b"here");
        let meta = Meta {
            sources: [(source.clone(), books)].into(),
            positions: [(source.clone(), Position { at, tail: Seq(10) })].into(),
            ..Meta::default()
        };
        let mut positions = Positions::open(&meta, false);
        assert_eq!([(); 4].map(|()| positions.has_next(&source)), [true, true, false, false]);
        assert!(!Positions::open(&meta, true).has_next(&source));
        assert!(!positions.has_next(&SourceId::new("other")));
    }
}
