//! The slices of one series in order of time, and what windows over them hold.
//!
//! A firing must not merge all slices of its window anew: a window of 600 slices
//! would cost 600 merges a slide. And what it merges must not depend on what was
//! asked before: sums of reals come out differently when they are added in another
//! order, and a restored operator has to give the same bits as one that went on.
//! So the order of merging is fixed by the indices of the slices alone:
//!
//! ```text
//!  index      …  6   7   8   9  10  11  12  13  14  15  16  …
//!  blocks        └───┘   └───┘   └───┘   └───┘   └───┘
//!                        └───────┘       └───────┘
//!                        └───────────────────────┘
//!  window        [6 …                                15)
//!                left: 6–7 │ right: 8–11, 12–13, 14
//! ```
//!
//! Blocks are as in a binary tree over all of time: 2^k slices from a multiple of
//! 2^k on, each the merge of its halves. A window is cut at its most even index
//! (`middle`) and each half into the largest blocks that fit: towards the middle
//! they grow, behind it they shrink ([`spine`](super::spine)). Slices without
//! readings are left out, which changes no merge.
//!
//! Merged blocks are kept, but could be dropped at any time: a checkpoint holds the slices
//! only. In order, each slide costs four merges, whatever size / slide
//! is: one block, one step of the left half, one of the right, and the two
//! together. A reading for a slice that windows have already looked at drops the
//! blocks around it and the steps beyond it, of which there are log2 of size /
//! slide.
//!
//! Only condensed content is merged: no list of readings grows with the window.
//!
//! The blocks have no places of their own. Between two neighbouring slices there
//! is exactly one block that has one of them in its left half and the other in
//! its right; it is kept with the latter.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::assign::{Assigner, SliceBounds};
use super::pane::{Content, Slice};
use super::spine::Spine;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// By index. Boxed, because a slice between others may come at any time.
    entries: VecDeque<(i64, Box<Entry>)>,
    /// `None` before the first window of several slices.
    spines: Option<Box<Spines>>,
}

#[derive(Debug)]
struct Entry {
    start: i64,
    slice: Slice,
    /// The block that has this slice as the first of its right half.
    block: Option<Box<Content>>,
}

#[derive(Debug)]
struct Spines {
    /// End of the slices that any window has asked for so far.
    reached: i64,
    /// Slices of the window that was asked for last.
    length: i64,
    firing: Spine,
    closing: Spine,
}

/// Why a window is asked for. Both kinds come in order, final records behind firings by the
/// allowed lateness: each kind has a spine of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Firing,
    Closing,
}

impl Row {
    /// The slices of a checkpoint; `None` where `assigner` does not cut so.
    pub(super) fn restored(slices: BTreeMap<i64, Slice>, assigner: &Assigner) -> Option<Row> {
        let mut entries = VecDeque::with_capacity(slices.len());
        for (start, slice) in slices {
            let bounds = assigner.stored(start, slice.first_end, slice.last_end)?;
            entries.push_back((bounds.index, Box::new(Entry { start, slice, block: None })));
        }
        Some(Row { entries, spines: None })
    }

    /// As a checkpoint keeps it.
    pub(super) fn stored(&self) -> BTreeMap<i64, Slice> {
        self.entries.iter().map(|(_, entry)| (entry.start, entry.slice.clone())).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bounds(&self) -> impl Iterator<Item = SliceBounds> {
        self.entries.iter().map(bounds_of)
    }

    /// The first slice at or after an index.
    pub(super) fn first_from(&self, index: i64) -> Option<SliceBounds> {
        self.entries.get(self.place(index)).map(bounds_of)
    }

    /// The last slice before an index.
    pub(super) fn last_before(&self, index: i64) -> Option<SliceBounds> {
        self.place(index).checked_sub(1).map(|place| bounds_of(&self.entries[place]))
    }

    /// The content of a slice, to be changed; made by `empty` where it is not
    /// there, and then `true`.
    pub(super) fn content(
        &mut self,
        bounds: SliceBounds,
        empty: impl FnOnce() -> Content,
    ) -> (&mut Content, bool) {
        let place = self.touch(bounds.index);
        let is_new = self.entries.get(place).is_none_or(|(index, _)| *index != bounds.index);
        if is_new {
            let SliceBounds { start, first_end, last_end, index } = bounds;
            let slice = Slice { first_end, last_end, content: empty() };
            self.entries.insert(place, (index, Box::new(Entry { start, slice, block: None })));
        }
        (&mut self.entries[place].1.slice.content, is_new)
    }

    /// The content of a slice that is there, to be changed.
    pub(super) fn known_content(&mut self, index: i64) -> Option<&mut Content> {
        let place = self.touch(index);
        let (known, entry) = self.entries.get_mut(place)?;
        (*known == index).then_some(&mut entry.slice.content)
    }

    /// Whether there is a slice among these.
    pub(super) fn is_any_in(&self, indices: Range<i64>) -> bool {
        let first = self.entries.get(self.place(indices.start));
        first.is_some_and(|(index, _)| *index < indices.end)
    }

    /// Drops the slices of which no window ends after `end`. Windows that end
    /// there or before are not asked for again.
    pub(super) fn drop_until(&mut self, end: i64) {
        while self.entries.front().is_some_and(|(_, first)| first.slice.last_end <= end) {
            self.entries.pop_front();
            if let Some((_, first)) = self.entries.front_mut() {
                first.block = None;
            }
        }
    }

    /// All slices of a window together; `None` where there is none.
    pub(super) fn window(&mut self, indices: Range<i64>, pass: Pass) -> Option<Cow<'_, Content>> {
        let places = self.places(&indices);
        if places.len() < 2 {
            let (_, entry) = self.entries.get(places.start).filter(|_| !places.is_empty())?;
            return Some(Cow::Borrowed(&entry.slice.content));
        }
        let mut spines = self.spines.take().unwrap_or_else(|| {
            let (firing, closing) = (Spine::default(), Spine::default());
            Box::new(Spines { reached: indices.end, length: 0, firing, closing })
        });
        spines.reached = spines.reached.max(indices.end);
        spines.length = indices.end - indices.start;
        let spine = match pass {
            Pass::Firing => &mut spines.firing,
            Pass::Closing => &mut spines.closing,
        };
        let content = spine.window(&indices, self);
        self.spines = Some(spines);
        content.map(Cow::Owned)
    }

    /// One block; `None` where it has no slices.
    pub(super) fn block(&mut self, indices: Range<i64>) -> Option<&Content> {
        let places = self.places(&indices);
        if places.is_empty() {
            return None;
        }
        self.fill(places.clone());
        Some(self.filled(places))
    }

    /// Merges the block of these places, and those below it, where they are missing.
    fn fill(&mut self, places: Range<usize>) {
        let Some(split) = self.split(&places) else { return };
        if self.entries[split].1.block.is_some() {
            return;
        }
        let (left, right) = (places.start..split, split..places.end);
        self.fill(left.clone());
        self.fill(right.clone());
        let block = self.filled(left).joined(self.filled(right));
        self.entries[split].1.block = Some(Box::new(block));
    }

    fn filled(&self, places: Range<usize>) -> &Content {
        let split = self.split(&places).unwrap_or(places.start);
        let entry = &self.entries[split].1;
        match &entry.block {
            Some(block) if places.len() > 1 => block,
            _ => {
                debug_assert!(places.len() < 2, "a block was asked for before it was filled");
                &entry.slice.content
            }
        }
    }

    /// Where the right half of the least block around these places begins; `None`
    /// for one slice.
    fn split(&self, places: &Range<usize>) -> Option<usize> {
        if places.len() < 2 {
            return None;
        }
        let (first, last) = (self.entries[places.start].0, self.entries[places.end - 1].0);
        let level = (first ^ last).cast_unsigned().ilog2();
        Some(self.place((last >> level) << level))
    }

    /// Drops what was merged from a slice that is about to change, and gives its place.
    fn touch(&mut self, index: i64) -> usize {
        let place = self.place(index);
        let Some(spines) = self.spines.as_mut().filter(|spines| index < spines.reached) else {
            return place;
        };
        spines.firing.forget(index);
        spines.closing.forget(index);
        let (mut half, length) = (1, spines.length);
        while 2 * half <= length {
            let middle = index.div_euclid(2 * half) * (2 * half) + half;
            let first = self.place(middle);
            if let Some((_, entry)) = self.entries.get_mut(first) {
                entry.block = None;
            }
            half *= 2;
        }
        place
    }

    fn places(&self, indices: &Range<i64>) -> Range<usize> {
        self.place(indices.start)..self.place(indices.end)
    }

    /// Bytes in memory beside the row itself, about.
    pub(super) fn bytes(&self) -> usize {
        let entries = self.entries.iter().map(|(_, entry)| {
            let block = entry.block.as_ref().map_or(0, |block| block.bytes());
            size_of::<Entry>() - size_of::<Content>() + entry.slice.content.bytes() + block
        });
        let spines = self.spines.as_ref().map_or(0, |spines| {
            size_of::<Spines>() + spines.firing.bytes() + spines.closing.bytes()
        });
        self.entries.capacity() * size_of::<(i64, Box<Entry>)>() + entries.sum::<usize>() + spines
    }

    /// The place of the first slice at or after an index.
    fn place(&self, index: i64) -> usize {
        let Some((first, _)) = self.entries.front() else { return 0 };
        let Ok(ahead) = usize::try_from(index.saturating_sub(*first)) else { return 0 };
        // If no slice is missing, it is at this place; it is never behind it.
        let guess = ahead.min(self.entries.len());
        if self.entries.get(guess).is_some_and(|(found, _)| *found == index) {
            return guess;
        }
        let (mut from, mut to) = (0, guess);
        if let Some(before) = guess.checked_sub(1)
            && self.entries[before].0 < index
        {
            from = guess;
        }
        while from < to {
            let half = from + (to - from) / 2;
            if self.entries[half].0 < index { from = half + 1 } else { to = half }
        }
        from
    }
}

fn bounds_of((index, entry): &(i64, Box<Entry>)) -> SliceBounds {
    let Slice { first_end, last_end, .. } = entry.slice;
    SliceBounds { start: entry.start, first_end, last_end, index: *index }
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
