//! The two halves of a sliding window, as stacks that move on with it.
//!
//! Each step of the left half is a block and everything from there to the middle;
//! each of the right half is everything from the middle to there, and a block. The
//! next window needs all steps but the uppermost of the left half, and one more,
//! or in place of some a greater one, of the right half: see
//! [`row`](super::row) for the picture. When the middle changes both begin again, about
//! twice in as many slides as a window is long.

use std::ops::Range;

use super::pane::Content;
use super::row::Row;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Spine {
    /// The most even index of the window.
    middle: i64,
    /// Away from the middle, down.
    left: Vec<Step>,
    /// Away from the middle, up.
    right: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    /// Where it begins, in the left half; where it ends, in the right one.
    at: i64,
    /// Everything from there to the middle; `None` where there are no slices.
    content: Option<Content>,
}

impl Spine {
    /// All slices of a window, condensed.
    pub(super) fn window(&mut self, indices: &Range<i64>, row: &mut Row) -> Option<Content> {
        let middle = middle_of(indices);
        if middle != self.middle {
            self.left.clear();
            self.right.clear();
            self.middle = middle;
        }
        self.climb_left(indices.start, row);
        self.climb_right(indices.end, row);
        joined(upmost(&self.left), upmost(&self.right))
    }

    /// Drops the steps that include a slice which changes.
    pub(super) fn forget(&mut self, index: i64) {
        if index < self.middle {
            while self.left.pop_if(|step| step.at <= index).is_some() {}
        } else {
            while self.right.pop_if(|step| step.at > index).is_some() {}
        }
    }

    /// Steps down from the middle to `start`.
    fn climb_left(&mut self, start: i64, row: &mut Row) {
        // A step is on the way to `start` if no more even index lies between.
        let is_astray = |step: &mut Step| step.at < start || step.at - start >= evenness(step.at);
        while self.left.pop_if(is_astray).is_some() {}
        let mut at = self.left.last().map_or(self.middle, |step| step.at);
        while at > start {
            let from = at - (1 << (at - start).ilog2());
            let content = joined(row.block(from..at), upmost(&self.left));
            self.left.push(Step { at: from, content });
            at = from;
        }
    }

    /// Steps up from the middle to `end`.
    fn climb_right(&mut self, end: i64, row: &mut Row) {
        let is_astray = |step: &mut Step| step.at > end || end - step.at >= evenness(step.at);
        while self.right.pop_if(is_astray).is_some() {}
        let mut at = self.right.last().map_or(self.middle, |step| step.at);
        while at < end {
            let to = at + (1 << (end - at).ilog2());
            let content = joined(upmost(&self.right), row.block(at..to));
            self.right.push(Step { at: to, content });
            at = to;
        }
    }

    /// Bytes in memory beside the spine itself, about.
    pub(super) fn bytes(&self) -> usize {
        let steps = self.left.iter().chain(&self.right).filter_map(|step| step.content.as_ref());
        let held = steps.map(|content| content.bytes() - size_of::<Content>());
        (self.left.capacity() + self.right.capacity()) * size_of::<Step>() + held.sum::<usize>()
    }
}

fn upmost(steps: &[Step]) -> Option<&Content> {
    steps.last()?.content.as_ref()
}

fn joined(left: Option<&Content>, right: Option<&Content>) -> Option<Content> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.joined(right)),
        (one, other) => one.or(other).map(Content::condensed),
    }
}

/// The greatest power of two that divides it.
const fn evenness(index: i64) -> i64 {
    match index {
        0 => 1 << 62,
        _ => index & index.wrapping_neg(),
    }
}

/// The most even index from the first of a window to the end of its last.
fn middle_of(indices: &Range<i64>) -> i64 {
    let mut middle = indices.start;
    while let Some(next) = middle.checked_add(evenness(middle)).filter(|next| *next <= indices.end)
    {
        middle = next;
    }
    middle
}
