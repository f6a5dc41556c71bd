//! Damage inside a segment that can be opened: which readings and results are lost with a
//! damaged stretch.
//!
//! It takes one pass over the segment. Sequence numbers have no holes, so the numbers
//! between those known before a stretch (from the head or the last readable entry) and
//! those after it (from the next readable entry or the seal) were in it.

use std::collections::BTreeMap;

use super::error::StoreError;
use super::meta::{Contents, tail_in};
use super::segment::{Piece, Segment};
use crate::core::id::{Epoch, Offset, Seq, SourceId};
use crate::core::reading::{Entry, Numbered};
use crate::core::seam::{Damage, Meta, Missing};

/// What is known of a segment without reading its frames.
pub(super) struct Outline<'a> {
    pub(super) first: Offset,
    pub(super) next: Offset,
    pub(super) head: &'a Meta,
    pub(super) contents: &'a Contents,
}

/// What a pass found.
#[derive(Debug, Default)]
pub(super) struct Audit {
    pub(super) frames: u64,
    pub(super) entries: u64,
    pub(super) damages: Vec<Damage>,
}

/// A pass over a segment's frames, some at a time.
#[derive(Debug)]
pub(super) struct Pass {
    audit: Audit,
    /// End of the entries read so far without a hole.
    at: Offset,
    reason: Option<&'static str>,
    /// Per source: the last number seen, and how many stretches lay before it.
    seen: BTreeMap<(SourceId, Epoch), (Seq, usize)>,
}

/// Walks all frames of a segment.
pub(super) fn audit(segment: &mut Segment, outline: &Outline<'_>) -> Result<Audit, StoreError> {
    let mut pass = Pass::new(outline.first, outline.head, outline.contents);
    let mut walk = segment.walk(outline.first)?;
    while let Some(piece) = segment.step(&mut walk)? {
        if !pass.take(piece, outline.next) {
            break;
        }
    }
    pass.finish(outline.next, outline.contents);
    Ok(pass.audit)
}

impl Pass {
    /// A pass at the first offset of a segment.
    pub(super) fn new(first: Offset, head: &Meta, contents: &Contents) -> Self {
        let seen = contents.keys().map(|key| (key.clone(), (tail_in(head, &key.0, key.1), 0)));
        Self { audit: Audit::default(), at: first, reason: None, seen: seen.collect() }
    }

    /// Takes the next piece; false when it lies beyond the segment's end.
    pub(super) fn take(&mut self, piece: Piece, end: Offset) -> bool {
        match piece {
            Piece::Bad { at, .. } if at >= end => return false,
            Piece::Bad { reason, .. } => self.reason = Some(reason),
            Piece::Frame { first, .. } if first >= end => return false,
            Piece::Frame { first, entries } => self.frame(first, &entries, end),
        }
        true
    }

    /// Ends the pass: there are no more pieces.
    pub(super) fn finish(&mut self, end: Offset, contents: &Contents) {
        self.hole_up_to(end);
        for (key, range) in contents {
            self.missing_up_to(key.clone(), range.last.next());
        }
    }

    /// What was found.
    pub(super) fn audit(&self) -> &Audit {
        &self.audit
    }

    fn frame(&mut self, first: Offset, entries: &[Entry], end: Offset) {
        self.hole_up_to(first);
        self.audit.frames += 1;
        for (at, entry) in (first.0..end.0).zip(entries) {
            if at < self.at.0 {
                continue;
            }
            self.at = Offset(at + 1);
            self.audit.entries += 1;
            if let Some(one) = entry.numbered() {
                self.numbered(&one);
            }
        }
    }

    fn numbered(&mut self, one: &Numbered<'_>) {
        // Nearly every number follows the one before it.
        let key = (one.source.clone(), one.epoch);
        let stretches = self.audit.damages.len();
        match self.seen.get_mut(&key) {
            Some(seen) if seen.0.next() >= one.seq => *seen = (one.seq, stretches),
            _ => {
                self.missing_up_to(key.clone(), one.seq);
                self.seen.insert(key, (one.seq, stretches));
            }
        }
    }

    fn hole_up_to(&mut self, end: Offset) {
        let reason = self.reason.take();
        if self.at >= end {
            return;
        }
        let what = reason.unwrap_or("it is gone");
        self.audit.damages.push(Damage {
            first: self.at,
            end,
            missing: Vec::new(),
            reason: format!("offsets {} to {}: {what}", self.at.0, end.0 - 1),
        });
        self.at = end;
    }

    /// Numbers after the last one seen and before `next` were in the first damaged stretch
    /// since then. Without such a stretch nothing is missing: the numbering of the source
    /// began in this segment.
    fn missing_up_to(&mut self, key: (SourceId, Epoch), next: Seq) {
        let (last, stretch) = self.seen.get(&key).copied().unwrap_or((Seq(0), 0));
        if last.next() >= next {
            return;
        }
        let Some(damage) = self.audit.damages.get_mut(stretch) else { return };
        damage.missing.push(Missing {
            source: key.0,
            epoch: key.1,
            first: last.next(),
            last: Some(Seq(next.0 - 1)),
            event_times: None,
        });
    }
}
