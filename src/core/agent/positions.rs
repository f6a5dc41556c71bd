//! The positions of sources that can go on where they were, such as files. A position
//! becomes durable in the same commit as the readings up to it, so that a crash neither
//! repeats nor skips one.

use std::sync::Arc;

use super::*;
use crate::core::seam::Batch;

/// The positions of all sources that have one.
#[derive(Debug, Default)]
pub(super) struct Positions(BTreeMap<SourceId, Arc<[u8]>>);

impl Positions {
    pub(super) fn open(meta: &Meta) -> Self {
        Self(meta.positions.clone())
    }

    /// Whether a batch begins at the position of its source, or has none.
    pub(super) fn lets_in(&self, batch: &Batch) -> bool {
        let Some(advance) = &batch.advance else { return true };
        let at = self.0.get(&batch.source);
        at.map_or(advance.from.is_empty(), |at| *at == advance.from)
    }

    pub(super) fn advance(&mut self, source: &SourceId, to: Arc<[u8]>) {
        self.0.insert(source.clone(), to);
    }

    /// The part of the meta that this is.
    pub(super) fn stored(&self) -> BTreeMap<SourceId, Arc<[u8]>> {
        self.0.clone()
    }
}

impl Agent {
    /// The position of each source that has one.
    pub fn positions(&self) -> BTreeMap<SourceId, Arc<[u8]>> {
        self.positions.stored()
    }
}
