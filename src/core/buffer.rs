//! The buffer: how much the journal may hold, which segments must be written off, which
//! may be removed.
//!
//! Space is given back by whole segments. A segment goes when all of it is done
//! with, or, under `drop-oldest`, when the quota is reached: then its unsent
//! readings are written off first, in a commit that also carries their gap
//! records, and only after that commit is the folder removed. A crash in between
//! leaves either the readings or the record of their loss.

use super::id::{Epoch, Offset, SegmentId, SourceId};
use super::seam::{DiskFacts, FullCause, SegmentInfo};
use super::settings::WhenFull;

/// Fraction of its capacity at which the buffer counts as filling: somebody should
/// look.
const FILL_WARN_FROM: f64 = 0.8;
/// Fraction of its capacity below which it no longer does: lower, or a fill that
/// wavers around one limit would be reported again and again.
const FILL_OVER_BELOW: f64 = 0.7;

/// What happens to readings that sources hand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// They are taken.
    Open,
    /// They wait at the source.
    Wait,
    /// They are refused.
    Refuse,
}

/// The bounds of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that the data directory may take.
    pub quota_bytes: u64,
    /// Bytes of the file system that are never used.
    pub reserve_bytes: u64,
    /// What happens when either is reached.
    pub when_full: WhenFull,
}

/// Bytes beyond the reserve that must be free before there is room again.
const ROOM_BYTES: u64 = 4 * 1024 * 1024;

/// From this size on a segment tells what an entry takes. An empty one takes some 12 KiB,
/// which are then less than a twentieth.
const TELLING_BYTES: u64 = 256 * 1024;

/// The segments on disk and the space they take.
#[derive(Clone, Debug)]
pub struct Buffer {
    bounds: Bounds,
    segments: Vec<SegmentInfo>,
    disk: DiskFacts,
    start: Offset,
    removing: Vec<SegmentId>,
    full: Option<FullCause>,
    is_filling: bool,
    /// Bytes that an entry takes on average, by the segments that last told.
    entry_bytes: Option<f64>,
}

impl Buffer {
    /// A buffer over what the store found.
    pub fn new(bounds: Bounds, segments: Vec<SegmentInfo>, disk: DiskFacts, start: Offset) -> Self {
        let entry_bytes = entry_bytes(&segments);
        let (removing, full, is_filling) = (Vec::new(), None, false);
        Self { bounds, segments, disk, start, removing, full, is_filling, entry_bytes }
    }

    /// The segments, oldest first.
    pub fn segments(&self) -> &[SegmentInfo] {
        &self.segments
    }

    /// The disk as last seen.
    pub fn disk(&self) -> DiskFacts {
        self.disk
    }

    /// The first offset that is kept: entries below were removed on purpose.
    pub fn start(&self) -> Offset {
        self.start
    }

    /// The limit that is reached, if one is.
    pub fn full(&self) -> Option<FullCause> {
        self.full
    }

    /// The store reported its segments.
    pub fn set_segments(&mut self, segments: Vec<SegmentInfo>) {
        // Where a drained journal begins anew, what the segments before it told still holds.
        self.entry_bytes = entry_bytes(&segments).or(self.entry_bytes);
        self.segments = segments;
    }

    /// The store reported its disk.
    pub fn set_disk(&mut self, disk: DiskFacts) {
        self.disk = disk;
    }

    /// A segment is gone.
    pub fn removed(&mut self, id: SegmentId) {
        self.segments.retain(|segment| segment.id != id);
        self.removing.retain(|removing| *removing != id);
    }

    /// It is durable that entries below `start` are given up. Returns the segments that may
    /// now be removed, each once.
    pub fn started_at(&mut self, start: Offset) -> Vec<SegmentId> {
        self.start = self.start.max(start);
        let done =
            self.segments.iter().filter(|segment| segment.is_sealed && segment.next <= start);
        let fresh: Vec<SegmentId> =
            done.map(|segment| segment.id).filter(|id| !self.removing.contains(id)).collect();
        self.removing.extend(&fresh);
        fresh
    }

    /// The offset up to which whole sealed segments are done with.
    pub fn trim_to(&self, frontier: Offset) -> Offset {
        let done = self
            .segments
            .iter()
            .take_while(|segment| segment.is_sealed && segment.next <= frontier)
            .last();
        done.map_or(self.start, |segment| self.start.max(segment.next))
    }

    /// Judges anew which limit is reached, and returns a change: full for another reason,
    /// or room again. There is room again once a fifth of the quota is free, so that a
    /// buffer at its limit is reported only once.
    pub fn judge(&mut self, is_store_failing: bool) -> Option<Option<FullCause>> {
        let cause = self.limit_reached(is_store_failing);
        let is_clear = cause.is_none()
            && self.disk.used_bytes <= self.bounds.quota_bytes / 5 * 4
            && self.disk.free_bytes >= self.bounds.reserve_bytes.saturating_add(ROOM_BYTES);
        let next = match cause {
            Some(cause) => Some(cause),
            None if is_clear => None,
            None => self.full,
        };
        let has_changed = next != self.full;
        self.full = next;
        has_changed.then_some(next)
    }

    /// Whether readings are taken now, must wait, or are refused, while so many entries are
    /// accepted and not yet on the disk.
    pub fn admission(&self, uncommitted: usize) -> Admission {
        let is_at_limit = self.disk.used_bytes >= self.bounds.quota_bytes
            || self.disk.free_bytes < self.bounds.reserve_bytes
            || self.full == Some(FullCause::Store);
        let is_near = self.limit_reached(false).is_some() || is_at_limit;
        // The commits under way must still fit, or a fast source outruns the eviction.
        let under_way = match self.entry_bytes {
            Some(bytes) => self.headroom() / 2 + (bytes * uncommitted as f64) as u64,
            None => self.headroom() / 4 * 3,
        };
        let is_close = self.disk.used_bytes.saturating_add(under_way) >= self.bounds.quota_bytes;
        match self.bounds.when_full {
            WhenFull::DropNewest if is_near => Admission::Refuse,
            WhenFull::Block if is_near => Admission::Wait,
            WhenFull::DropOldest if is_at_limit || is_close => Admission::Wait,
            _ => Admission::Open,
        }
    }

    /// The segment that must be written off now, if one must: the oldest, for want
    /// of space or because it has expired.
    pub fn to_evict(&self, is_expired: impl Fn(&SegmentInfo) -> bool) -> Option<&SegmentInfo> {
        let is_short = self.bounds.when_full == WhenFull::DropOldest
            && self.removing.is_empty()
            && self.limit_reached(false).is_some();
        let oldest = self.segments.iter().find(|segment| segment.next > self.start)?;
        (oldest.is_sealed && (is_short || is_expired(oldest))).then_some(oldest)
    }

    /// How much of the capacity is taken, 0 to 1 and beyond.
    fn fill(&self) -> f64 {
        let capacity = self.capacity();
        if capacity == 0 { 1.0 } else { self.disk.used_bytes as f64 / capacity as f64 }
    }

    /// Bytes that the data directory may take: the quota, or less where the file
    /// system has less.
    pub fn capacity(&self) -> u64 {
        let free = self.disk.free_bytes.saturating_sub(self.bounds.reserve_bytes);
        self.bounds.quota_bytes.min(self.disk.used_bytes.saturating_add(free))
    }

    /// Bytes that an entry takes on disk on average; `None` before a segment holds enough to
    /// tell.
    pub fn entry_bytes(&self) -> Option<f64> {
        self.entry_bytes
    }

    /// Whether the buffer was filling when last judged.
    pub fn is_filling(&self) -> bool {
        self.is_filling
    }

    /// Tells once when the buffer begins to fill (true) and when it has emptied again
    /// (false); a tenth of the capacity lies between the two.
    pub fn judge_fill(&mut self) -> Option<bool> {
        let fill = self.fill();
        let next = if self.is_filling { fill >= FILL_OVER_BELOW } else { fill >= FILL_WARN_FROM };
        let has_changed = next != self.is_filling;
        self.is_filling = next;
        has_changed.then_some(next)
    }

    /// Whether any segment holds readings of this numbering.
    pub fn holds(&self, source: &SourceId, epoch: Epoch) -> bool {
        let key = (source.clone(), epoch);
        self.segments.iter().any(|segment| segment.contents.contains_key(&key))
    }

    fn limit_reached(&self, is_store_failing: bool) -> Option<FullCause> {
        if is_store_failing {
            Some(FullCause::Store)
        } else if self.disk.free_bytes < self.bounds.reserve_bytes {
            Some(FullCause::Reserve)
        } else if self.disk.used_bytes.saturating_add(self.headroom()) > self.bounds.quota_bytes {
            Some(FullCause::Quota)
        } else {
            None
        }
    }

    /// Bytes that may still be written before an eviction takes effect: by the commit with
    /// the gap records, and by the one before it.
    fn headroom(&self) -> u64 {
        (self.bounds.quota_bytes / 7).min(8 * 1024 * 1024)
    }
}

/// By the segments that hold enough: in one that has just begun, its own fixed size would
/// be divided among a few entries.
fn entry_bytes(segments: &[SegmentInfo]) -> Option<f64> {
    let content = |segment: &SegmentInfo| segment.bytes.saturating_sub(segment.ahead_bytes);
    let telling = segments.iter().filter(|segment| content(segment) >= TELLING_BYTES);
    let (bytes, entries) = telling.fold((0, 0), |(bytes, entries), segment| {
        (bytes + content(segment), entries + segment.next.0.saturating_sub(segment.first.0))
    });
    (entries > 0).then(|| bytes as f64 / entries as f64)
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
