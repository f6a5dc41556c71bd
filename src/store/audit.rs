//! Damage inside a segment that opens: which readings and results are lost with a
//! stretch.
//!
//! One pass over the segment. Sequence numbers have no holes, so whatever lies
//! between what is known before a stretch (the head, the last readable entry)
//! and after it (the next readable one, the seal) was in it.

use std::collections::BTreeMap;

use super::error::StoreError;
use super::meta::{Contents, tail_in};
use super::segment::{Piece, Segment};
use crate::core::id::{Epoch, Offset, Seq, SourceId};
use crate::core::reading::{Entry, Numbered};
use crate::core::seam::{Damage, Meta, Missing};

/// What is known of a segment without its frames.
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

struct Pass {
    audit: Audit,
    /// End of what was read without a hole.
    at: Offset,
    reason: Option<&'static str>,
    /// Per source: the last number seen, and how many stretches lay before it.
    seen: BTreeMap<(SourceId, Epoch), (Seq, usize)>,
}

/// Walks all frames of a segment.
pub(super) fn audit(segment: &mut Segment, outline: &Outline<'_>) -> Result<Audit, StoreError> {
    let mut pass = Pass {
        audit: Audit::default(),
        at: outline.first,
        reason: None,
        seen: outline
            .contents
            .keys()
            .map(|key| (key.clone(), (tail_in(outline.head, &key.0, key.1), 0)))
            .collect(),
    };
    let mut walk = segment.walk(outline.first)?;
    while let Some(piece) = segment.step(&mut walk)? {
        match piece {
            Piece::Bad { at, .. } if at >= outline.next => break,
            Piece::Bad { reason, .. } => pass.reason = Some(reason),
            Piece::Frame { first, .. } if first >= outline.next => break,
            Piece::Frame { first, entries } => pass.frame(first, &entries, outline.next),
        }
    }
    pass.hole_up_to(outline.next);
    for (key, range) in outline.contents {
        pass.missing_up_to(key.clone(), range.last.next());
    }
    Ok(pass.audit)
}

impl Pass {
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
        // Nearly every one follows the one before it.
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

    /// Numbers after the last seen and before `next` lie in the first stretch
    /// since then. Without a stretch nothing is missing: the segment began
    /// with a numbering of its own.
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
