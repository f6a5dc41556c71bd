//! Places for the frames of the next commit: keys that are set before there is anything
//! to put under them.
//!
//! sled splits a leaf at its seventeenth key and writes both halves again. Frames that are
//! appended one after the other are so written three times, and most of the log is then
//! outdated so soon that sled moves the rest of it once more. A leaf costs next to nothing to
//! split while its keys have no values. So a commit of several frames, which comes when readings
//! arrive faster than they can be synced one by one, sets as many keys for the next: its frames
//! are then written once (`benches/README.md` has the figures).
//!
//! A place is a guess. What a commit does not use of the places for it, it removes before it
//! counts. After a crash places lie beyond the end of the segment, where whatever is there is
//! removed at the start; and nobody reads a key without a value.

use super::writes::Writes;
use crate::core::id::Offset;
use crate::core::limits::{FRAME_READINGS_MAX, PLACES_MAX};

/// Frames of a commit from which on places are set for the next. Fewer are as cheap without.
const FRAMES_MIN: usize = 3;

/// The places of the active segment: first offsets of the frames that are expected.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<Offset>);

/// Whether a frame of a commit that begins at `first` begins where a place would have
/// been: all before it were full.
pub(super) fn is_on_grid(first: Offset, offset: Offset) -> bool {
    (offset.0 - first.0).is_multiple_of(FRAME_READINGS_MAX as u64)
}

impl Places {
    /// A frame is put at that offset: if there was a place, it is used.
    pub(super) fn use_up(&mut self, offset: Offset) {
        self.0.retain(|place| *place != offset);
    }

    /// A commit that ends at `next` has that many frames on the grid; the next is expected
    /// to have as many. What is to be written before its frames: new places, and no more those
    /// that were not used.
    pub(super) fn expect(&mut self, next: Offset, frames: usize) -> Writes {
        let count = if frames < FRAMES_MIN { 0 } else { frames.min(PLACES_MAX) };
        let expected = (0..count).map(|n| next.plus((n * FRAME_READINGS_MAX) as u64));
        let before = std::mem::replace(&mut self.0, expected.collect());
        let mut writes = Writes::default();
        let dropped = before.iter().filter(|place| !self.0.contains(place));
        dropped.for_each(|place| writes.no_place(*place));
        let added = self.0.iter().filter(|place| !before.contains(place));
        added.for_each(|place| writes.place(*place));
        writes
    }
}
