//! The journal: a durable log on sled 0.34, the only memory of what was accepted
//! and not yet handed over.
//!
//! What is known of sled 0.34.7, and what follows:
//!
//! | fact | consequence |
//! | --- | --- |
//! | one key per reading: 60,000 readings/s, 10 bytes written per byte stored, hundreds of MB resident | the unit is the **frame** ([`frame`]): many readings in one value |
//! | `flush()` calls `sync_file_range`: after a power cut flushed data was gone in 7 of 10 trials | durable means `flush()` **and** `fdatasync` of sled's `db` file through a descriptor of our own |
//! | drained space never returns to the file system | **segments** ([`segment`]): each a database of its own, deleted whole |
//! | a flipped bit can panic in `open`; a missing or zeroed file opens as an empty database; a leftover `snap.*.generating` blocks every open | the open ladder behind `catch_unwind`; a manifest and sidecars outside sled ([`manifest`]) |
//! | on a full disk `flush` hangs for good, or fails and then everything fails until reopened | sled never sees a full disk: what it writes is allocated first (`slack`); a failed segment is given up and a new one started; own thread with a heartbeat ([`worker`]) |
//! | values beyond about 9 KB become files that are never deleted; batches from 1,024 operations on leak | frames of at most 6 KiB, batches of at most 256 operations |
//! | a batch writes and syncs a mark of its own before the rest: the disk gets a block more, a small commit twice as much | a commit is written in order (`writes`); only the state and what goes with it is a batch |
//! | a leaf of 17 keys is split and written again, a log that is half outdated is moved: 22 bytes written for 4 of frames | keys for the frames of the next large commit are set before there is anything under them (`places`): 6 bytes |
//! | the default cache is 1 GiB; a full scan takes 150 MB whatever the cache | small caches, no `len()`, no full scans in daily work |
//!
//! A **commit** is a few frames, each after the names it is the first to use, and then the
//! meta, in one batch with the clock ledger and the totals when they changed; then one
//! flush, one fdatasync, and only then an answer. Without its meta nothing of it counts. A
//! commit that fails never happened: its segment is sealed where the last good commit
//! ended, what lies beyond is ignored, and the same entries go to a new segment at the
//! same offsets.
//!
//! Reading order: [`frame`], [`segment`], this file, `open`, `fetch`, `audit`.

mod audit;
pub mod checkpoint;
mod clocks;
mod codes;
mod column;
mod commit;
mod dictionary;
mod disk;
mod envelope;
mod error;
mod facts;
mod fetch;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod inspect;
mod kept;
mod ledger;
pub mod look;
mod manifest;
mod meta;
mod open;
mod places;
pub mod quarantine;
mod rare;
mod recover;
mod results;
mod segment;
pub mod set_aside;
mod slack;
mod totals;
mod unframe;
pub mod worker;
mod writes;

#[cfg(test)]
mod frame_tests;
#[cfg(test)]
mod old_format_tests;
#[cfg(test)]
mod places_tests;
#[cfg(test)]
mod result_tests;
#[cfg(test)]
mod store_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use disk::create_data_dir;
pub use error::{OpenError, StoreError};
pub use segment::is_opening_segment;

use self::commit::KeepRoom;
use self::dictionary::NameWriter;
use self::frame::FrameWriter;
use self::manifest::{Listed, Manifest};
use self::meta::{Contents, State};
use self::places::Places;
use self::quarantine::Refusals;
use self::segment::Segment;
use crate::core::id::{Epoch, Offset, SegmentId};
use crate::core::seam::{ClockLedger, Damage, DiskFacts, Recovered, SegmentInfo};
use crate::core::values::totals::SavedTotals;

/// Disk space below which no segment is begun, in bytes: a full disk can hang sled
/// for good. The segment that is written to goes on within its slack.
pub const FREE_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// Free disk space, in bytes, from which on no room need be reserved for a single commit.
const FREE_BYTES_PLENTY: u64 = 64 * 1024 * 1024;

/// Where the journal is, and how it is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory; created if need be.
    pub data_dir: PathBuf,
    /// Size on disk at which a segment is sealed and a new one begun, in bytes.
    /// sled grows in steps of 512 KiB; less than 1 MiB makes no sense.
    pub segment_bytes: u64,
    /// Bytes that the data directory may take. The agent sees to that; the store
    /// keeps what it allocates ahead within a part of it.
    pub quota_bytes: u64,
    /// Bytes that the file system of the path has left for this process. Below
    /// [`FREE_BYTES_MIN`] commits go on within the slack of the segment, and then
    /// fail without touching the disk.
    pub probe_free: fn(&Path) -> u64,
}

/// The open journal. Blocking: [`worker`] gives it a thread.
#[derive(Debug)]
pub struct Store {
    options: Options,
    folders: Folders,
    /// Oldest first; only the last can be unsealed.
    segments: Vec<SegmentInfo>,
    next_id: u32,
    /// Lost segments that the agent has not made gap records for yet.
    losses: Vec<Damage>,
    /// Why the numbering of that epoch must not be continued.
    broken: Option<(Epoch, String)>,
    active: Option<Active>,
    reader: Option<(SegmentId, Segment)>,
    /// The segment that is open for those who only look.
    looker: Option<(SegmentId, Segment)>,
    /// The state after the last good commit.
    state: State,
    frames: FrameWriter,
    /// Damage found by reading, per segment.
    audits: BTreeMap<SegmentId, Vec<Damage>>,
    /// Damaged stretches that this process has reported.
    reported: BTreeSet<(SegmentId, Offset)>,
    refusals: Refusals,
    /// Refused inputs of the last commit that the quarantine did not take, and why.
    refusals_dropped: Option<(u64, String)>,
    /// Bytes of frames, names and state of the largest commit so far.
    commit_bytes_max: u64,
    /// Bytes on disk of everything but the segments, as last measured.
    other_bytes: u64,
    written_bytes: u64,
}

/// The segment that is written to.
#[derive(Debug)]
struct Active {
    id: SegmentId,
    segment: Segment,
    names: NameWriter,
    note: File,
    contents: Arc<Contents>,
    /// The clock ledger that it has.
    ledger: Arc<ClockLedger>,
    /// The saved totals that it has.
    totals: Arc<SavedTotals>,
    places: Places,
    /// Bytes of frames since the contents were last stored.
    unnoted_bytes: usize,
    /// It has more than the head that it began with, if only a newer state.
    has_commit: bool,
}

#[derive(Clone, Debug)]
struct Folders {
    journal: PathBuf,
    quarantine: PathBuf,
    state: PathBuf,
    /// The only segment, where there is no journal around it.
    lone: Option<PathBuf>,
}

impl Folders {
    fn of(data_dir: &Path) -> Self {
        Self {
            journal: data_dir.join("journal"),
            quarantine: data_dir.join("quarantine"),
            state: data_dir.join("state"),
            lone: None,
        }
    }

    fn segment(&self, id: SegmentId) -> PathBuf {
        self.lone.clone().unwrap_or_else(|| self.journal.join(id.to_string()))
    }
}

impl Store {
    /// Opens the journal, whatever state it is in. Damaged data is set aside and
    /// reported; only a newer format or a refusing file system is an error.
    pub fn open(options: &Options) -> Result<(Self, Recovered), OpenError> {
        open::open(options)
    }

    /// Deletes a segment that is sealed and that the last commit says is done with;
    /// the active one is left alone.
    pub fn remove(&mut self, id: SegmentId) -> DiskFacts {
        let place = self.segments.iter().position(|info| info.id == id && info.is_sealed);
        if let Some(place) = place {
            self.release_reader(id);
            let removed = self.segments.remove(place);
            // The manifest first: a folder it does not know is cleaned up at the
            // next start. A full disk may not take it; then the next start finds a
            // folder missing whose entries are durably said to be done with.
            let _ = self.write_manifest();
            open::delete_segment(&self.folders, id);
            self.audits.remove(&id);
            if self.folders.segment(id).exists() {
                // The disk refuses for the moment: the agent asks again.
                self.segments.insert(place, removed);
            }
        }
        self.disk()
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.options.data_dir
    }

    /// Space on disk now.
    pub fn disk(&self) -> DiskFacts {
        let segments: u64 = self.segments.iter().map(|info| info.bytes).sum();
        DiskFacts {
            used_bytes: segments + self.other_bytes,
            free_bytes: self.free_bytes(),
            written_bytes: self.written_bytes,
        }
    }

    /// Refused inputs that found no place in the quarantine since this was last
    /// asked, and why.
    pub fn take_refusals_dropped(&mut self) -> Option<(u64, String)> {
        self.refusals_dropped.take()
    }

    /// Whether so little is free that nothing may be begun.
    fn is_short(&self) -> bool {
        self.free_bytes() < FREE_BYTES_MIN
    }

    fn free_bytes(&self) -> u64 {
        (self.options.probe_free)(&self.options.data_dir)
    }

    /// The segments, oldest first; the last may be active.
    pub fn segments(&self) -> &[SegmentInfo] {
        &self.segments
    }

    /// The refused inputs that were kept.
    pub fn refusals(&mut self) -> &mut Refusals {
        &mut self.refusals
    }

    /// Closes the journal so that the next start need not search for its end.
    pub fn close(mut self) {
        self.look_away();
        if let Some((_, segment)) = self.reader.take() {
            segment.close();
        }
        // What it has allocated stays: the disk may be full at the next start.
        self.close_active(KeepRoom::Yes);
        if !self.is_short() {
            self.refusals.note_dropped();
        }
        self.refusals.close();
    }

    fn release_reader(&mut self, id: SegmentId) {
        for slot in [&mut self.reader, &mut self.looker] {
            if let Some((_, segment)) = slot.take_if(|(open, _)| *open == id) {
                segment.close();
            }
        }
    }

    fn manifest(&self) -> Manifest {
        let listed = self.segments.iter().map(|info| Listed {
            id: info.id.0,
            first: info.first.0,
            next: info.is_sealed.then_some(info.next.0),
            is_sealed: info.is_sealed,
        });
        Manifest {
            next_id: self.next_id,
            segments: listed.collect(),
            losses: self.losses.clone(),
            broken: self.broken.clone().filter(|(epoch, _)| *epoch == self.state.meta.epoch),
        }
    }

    fn write_manifest(&mut self) -> Result<(), StoreError> {
        let path = manifest::manifest_path(&self.folders.journal);
        self.manifest().write(&self.folders.journal).map_err(error::at(&path))
    }

    fn measure_others(&mut self) {
        self.other_bytes = disk::allocated(&self.folders.quarantine)
            + disk::allocated(&self.folders.state)
            + disk::allocated(&manifest::manifest_path(&self.folders.journal));
    }
}

/// What a segment takes, with the files beside it.
fn segment_bytes(folders: &Folders, id: SegmentId) -> u64 {
    let beside = ["head", "note", "seal"].map(|name| manifest::sidecar(&folders.journal, id, name));
    disk::allocated(&folders.segment(id)) + beside.iter().map(|p| disk::allocated(p)).sum::<u64>()
}
