//! Which readings go together in one publish.

use crate::core::id::{Epoch, Seq};
use crate::core::reading::{Entry, Record};

/// The bounds of one publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Most readings in one publish; 1 sends each on its own.
    pub readings_max: usize,
    /// Most bytes of one payload, by the estimate below.
    pub bytes_max: u64,
    /// Upper bound on the bytes of a reading besides its texts: depends on the
    /// format.
    pub reading_bytes: u64,
}

impl Batching {
    /// Each reading on its own.
    pub const SINGLE: Batching =
        Batching { readings_max: 1, bytes_max: u64::MAX, reading_bytes: 0 };

    /// Whether readings go together at all.
    pub const fn is_on(&self) -> bool {
        self.readings_max > 1
    }

    /// An upper estimate of what a reading takes in the payload. Texts count
    /// twice, for what must be escaped in them.
    fn estimate(&self, record: &Record) -> u64 {
        self.reading_bytes + 2 * record.text_bytes() as u64
    }
}

/// Measures a run: readings of one source and epoch without a hole, so that its first and
/// last number name it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    batching: Batching,
    limit: usize,
    bytes: u64,
    count: usize,
    /// The epoch and number that the next reading must have; `None` while it is empty.
    next: Option<(Epoch, Seq)>,
}

impl Run {
    /// An empty run of at most `limit` readings.
    pub(super) fn new(batching: &Batching, limit: usize) -> Self {
        let limit = limit.min(batching.readings_max).max(1);
        Self { batching: *batching, limit, bytes: 0, count: 0, next: None }
    }

    /// Whether `entry` may join the run.
    pub(super) fn has_room_for(&self, entry: &Entry) -> bool {
        let Some(record) = entry.reading() else { return false };
        let goes_on = self.next.is_none_or(|next| next == (record.epoch, record.seq));
        let bytes = self.bytes + self.batching.estimate(record);
        let fits = self.count == 0 || bytes <= self.batching.bytes_max;
        goes_on && self.count < self.limit && fits
    }

    /// Whether no entry at all may join any more.
    pub(super) fn is_full(&self) -> bool {
        self.count >= self.limit
    }

    /// Counts `entry` in. An entry that is no reading goes alone.
    pub(super) fn count(&mut self, entry: &Entry) {
        self.count += 1;
        match entry.reading() {
            Some(record) => {
                self.bytes += self.batching.estimate(record);
                self.next = Some((record.epoch, Seq(record.seq.0 + 1)));
            }
            None => self.limit = 1,
        }
    }
}
