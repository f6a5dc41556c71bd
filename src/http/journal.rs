//! The journal as JSON: the section `journal` of the status.

use serde::{Deserialize, Serialize};

use super::clock::rounded;
use super::status::{About, full_word};
use crate::core::status::Status;
use crate::core::time::IngestTime;

/// The journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// Readings, and results of windows that go up, that are neither acknowledged
    /// nor evicted: what waits for an uplink.
    pub readings: u64,
    /// Of these, results of windows.
    #[serde(default)]
    pub results: u64,
    /// Readings accepted and waiting for their commit.
    pub uncommitted: u64,
    /// Bytes that the data directory takes.
    pub bytes: u64,
    /// Bytes it may take.
    pub max_bytes: u64,
    /// Bytes the file system has left.
    pub free_bytes: u64,
    /// Bytes of the file system that are never used.
    pub reserve_free: u64,
    /// Bytes handed to the journal's engine since the agent started; the disk
    /// sees more.
    pub written_bytes: u64,
    /// Bytes that the agent has caused to be written to disk since it started, by the
    /// kernel's count: whole pages, everything the process writes. `null` where the
    /// kernel does not tell.
    #[serde(default)]
    pub disk_written_bytes: Option<u64>,
    /// The same a day, at the mean rate of the last hour; `null` in the first ten minutes.
    /// What a start itself writes does not count.
    #[serde(default)]
    pub disk_bytes_per_day: Option<u64>,
    /// The same a reading, over the same stretch; `null` where none was accepted in it.
    #[serde(default)]
    pub disk_bytes_per_reading: Option<f64>,
    /// Segments on disk.
    pub segments: usize,
    /// Bytes it may take as things are: `max_bytes`, or less where the file system
    /// has less.
    #[serde(default)]
    pub capacity_bytes: u64,
    /// How much of that it takes, 0 to 1 and beyond.
    #[serde(default)]
    pub fill: f64,
    /// How long it took to come in, at the present rate: the depth in seconds.
    /// `null` while nothing comes in.
    #[serde(default)]
    pub depth_s: Option<f64>,
    /// How long the room that is left lasts at the present rate, if nothing goes
    /// out. `null` while nothing comes in, and until a segment holds enough (256 KiB) to tell
    /// what a reading takes.
    #[serde(default)]
    pub room_s: Option<f64>,
    /// Least plausible event time that is not acknowledged; `null` where nothing waits.
    pub oldest_event_time: Option<String>,
    /// Its age.
    pub oldest_age_s: Option<f64>,
    /// The limit that is reached: `quota`, `reserve` or `store`.
    pub full: Option<String>,
    /// Whether commits succeed.
    pub is_committing: bool,
}

impl Journal {
    /// What waits for an uplink, results of windows left out.
    pub fn readings_alone(&self) -> u64 {
        self.readings.saturating_sub(self.results)
    }
}

/// The section of `status`.
pub(super) fn journal(about: &About, status: &Status, wall: IngestTime) -> Journal {
    Journal {
        readings: status.backlog,
        results: results(status),
        uncommitted: status.uncommitted,
        bytes: status.disk.used_bytes,
        max_bytes: about.quota_bytes,
        free_bytes: status.disk.free_bytes,
        reserve_free: about.reserve_bytes,
        written_bytes: status.disk.written_bytes,
        disk_written_bytes: None,
        disk_bytes_per_day: None,
        disk_bytes_per_reading: None,
        segments: status.segments,
        capacity_bytes: status.capacity_bytes,
        fill: fill(status),
        depth_s: at_rate(status.backlog as f64, status.accept_rate),
        room_s: room(status),
        oldest_event_time: status.oldest_event.map(|at| at.to_string()),
        oldest_age_s: status.oldest_event.map(|at| rounded(wall.lag_behind(at).as_secs_f64())),
        full: status.full.map(|limit| full_word(limit).to_owned()),
        is_committing: status.is_committing,
    }
}

/// Results of windows that wait, by the books of their sources.
fn results(status: &Status) -> u64 {
    let windows = status.sources.iter().filter(|(id, _)| id.is_window());
    windows.map(|(_, books)| books.stored).sum()
}

/// In thousandths.
pub(super) fn fill(status: &Status) -> f64 {
    rounded(status.disk.used_bytes as f64 / status.capacity_bytes.max(1) as f64)
}

/// Seconds that `readings` take at `rate` a second.
fn at_rate(readings: f64, rate: f64) -> Option<f64> {
    (rate > 0.0).then(|| rounded(readings / rate))
}

/// By what an entry takes on disk on average, without what is allocated ahead: of
/// windows' results there are as many to a reading as there were so far.
fn room(status: &Status) -> Option<f64> {
    let (ahead, used) = (status.ahead_bytes, status.disk.used_bytes);
    let left = status.capacity_bytes.saturating_sub(used.saturating_sub(ahead));
    at_rate(left as f64 / status.entry_bytes?, status.accept_rate)
}
