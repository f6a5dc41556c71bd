//! Room on disk that belongs to the active segment before anything is written to
//! it: blocks allocated behind the end of sled's log.
//!
//! sled must never see a full disk, and asking how much is free does not help when another
//! process takes it a moment later. And when others have filled the disk, the journal must
//! still be able to record durably what it gives up or is done with: otherwise its own
//! segments could never be removed, and the disk would stay full for want of a few
//! kilobytes.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::Errno;

use super::error::StoreError;
use super::meta::State;
use super::{FREE_BYTES_MIN, FREE_BYTES_PLENTY, Store, segment};
use crate::core::reading::Entry;

/// Least and most of the slack while there is room for it: bytes on disk, allocated
/// and not yet written. It must hold the commit that is on its way when others fill
/// the disk, and the one that says what is given up.
const SLACK_BYTES: (u64, u64) = (3 * 512 * 1024, 4 * 1024 * 1024);

/// Bytes that a commit takes on disk beyond what it comes to: sled ends its own
/// segments of 512 KiB early.
const COMMIT_BYTES: u64 = 512 * 1024;

/// Bytes on disk that sled may take to open a segment.
const OPEN_BYTES: u64 = 512 * 1024;

/// Part of the quota that the slack takes at most.
const QUOTA_PART: u64 = 8;

/// Whether a log has the room that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It is allocated.
    Enough,
    /// The disk has less.
    Short,
    /// This file system cannot allocate ahead.
    Unknown,
}

/// Bytes that are allocated behind the end of `log`; 0 when it cannot be told.
pub(super) fn behind(log: &File) -> u64 {
    log.metadata().map_or(0, |facts| (facts.blocks() * 512).saturating_sub(facts.len()))
}

/// Allocates blocks so that `bytes` more can be written at the end of `log`, even if the
/// disk becomes full.
pub(super) fn reserve(log: &File, bytes: u64) -> Room {
    if behind(log) >= bytes {
        return Room::Enough;
    }
    let Ok(facts) = log.metadata() else { return Room::Unknown };
    // Blocks are allocated whole, and the last one may be partly used: it must not be
    // counted as free.
    let rounded = bytes + facts.blksize();
    match fallocate(log, FallocateFlags::KEEP_SIZE, facts.len(), rounded) {
        Ok(()) => Room::Enough,
        Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Room::Short,
        Err(Errno::ROFS | Errno::IO) => Room::Short,
        Err(_) => Room::Unknown,
    }
}

/// Forgets what the kernel keeps in memory of `log`. When sled opens a log it clears the end of
/// it with one long write; the kernel keeps that as one large block, and each small commit
/// into it would dirty all of it: a hundred kilobytes written for some hundred bytes, until the
/// log has grown past. Read again, it is kept in pages.
pub(super) fn forget_cached(log: &File) {
    // A kernel that does not listen costs writes, no more.
    let _ = fadvise(log, 0, None, Advice::DontNeed);
}

/// Gives the allocated room back. Only while sled writes nothing: after a flush and before
/// the next batch.
pub(super) fn give_back(log: &File) {
    if let Ok(facts) = log.metadata() {
        // If it is not given back, it goes with the segment.
        let _ = log.set_len(facts.len());
    }
}

/// Gives a part of it back, for what sled writes beside its log when it opens a
/// database: a snapshot.
pub(super) fn lend(log: &File) {
    let kept = behind(log).saturating_sub(OPEN_BYTES.min(behind(log) / 2));
    give_back(log);
    // Not had again, it is looked for at the next commit.
    reserve(log, kept);
}

impl Store {
    /// What the active segment keeps allocated between commits.
    pub(super) fn slack_bytes(&self) -> u64 {
        let (least, most) = SLACK_BYTES;
        let usual = (self.options.segment_bytes / 4).clamp(least, most);
        let for_two = self.commit_bytes_max + 2 * COMMIT_BYTES;
        usual.max(for_two).min(self.options.quota_bytes / QUOTA_PART)
    }

    /// Makes room for a commit in the active segment, and for those that must come
    /// through when the disk has nothing. While it has plenty only for the latter:
    /// nobody takes that much during one commit.
    pub(super) fn has_room(
        &mut self,
        state: &State,
        entries: &[Entry],
        free_bytes: u64,
    ) -> Result<bool, StoreError> {
        let slack_bytes = self.slack_bytes();
        let Some(active) = &self.active else { return Ok(false) };
        let log = active.segment.log();
        if free_bytes >= FREE_BYTES_PLENTY && reserve(log, slack_bytes) != Room::Short {
            return Ok(true);
        }
        let needed = self.measure(state, entries)? + COMMIT_BYTES.min(slack_bytes / 2);
        let Some(active) = &self.active else { return Ok(false) };
        let log = active.segment.log();
        let is_short = free_bytes < FREE_BYTES_MIN;
        if !is_short && reserve(log, needed + slack_bytes) == Room::Enough {
            return Ok(true);
        }
        Ok(match reserve(log, needed) {
            Room::Enough => true,
            Room::Short => false,
            Room::Unknown => !is_short,
        })
    }

    /// The bytes that a commit comes to: its frames, the names it adds, its state.
    fn measure(&mut self, state: &State, entries: &[Entry]) -> Result<u64, StoreError> {
        let Some(active) = &self.active else { return Ok(0) };
        // Names that are given now are given again when it is written.
        let mut names = active.names.clone();
        let parts = [
            segment::pack_state(state)?,
            active.changed_ledger(&state.meta.clock)?,
            active.changed_totals(&state.meta.totals)?,
        ];
        let mut bytes: usize = parts.iter().map(Vec::len).sum();
        self.frames.write_all(
            self.state.next,
            entries,
            &mut names,
            &mut |_, _, frame, names| {
                bytes += frame.len();
                for (_, name) in names.take_added() {
                    bytes += name.encode().map_err(segment::unstorable)?.len();
                }
                Ok::<(), StoreError>(())
            },
        )?;
        Ok(bytes as u64)
    }

    /// After a commit: what it took of the slack is allocated again, and what it did
    /// not take goes back. On a disk that has little, all stays as it is.
    pub(super) fn settle_slack(&self) {
        let slack_bytes = self.slack_bytes();
        let Some(active) = &self.active else { return };
        if self.free_bytes() < FREE_BYTES_MIN + slack_bytes {
            return;
        }
        let log = active.segment.log();
        self.trim_slack(log);
        // Short of it, the next commit tries again.
        reserve(log, slack_bytes);
    }

    /// Gives back what is allocated behind `log` far beyond the slack. A journal whose
    /// `max_bytes` was lowered would else be full of room that nothing is written to.
    pub(super) fn trim_slack(&self, log: &File) {
        let slack_bytes = self.slack_bytes();
        if behind(log) > 2 * slack_bytes {
            give_back(log);
            reserve(log, slack_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_allocated_and_given_back_and_the_content_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        std::fs::write(&path, vec![7; 10_000]).unwrap();
        let log = File::options().read(true).write(true).open(&path).unwrap();
        if reserve(&log, 1 << 20) == Room::Unknown {
            return;
        }
        assert!(behind(&log) >= 1 << 20, "{}", behind(&log));
        assert_eq!(reserve(&log, 1 << 20), Room::Enough);
        give_back(&log);
        assert!(behind(&log) < 1 << 16, "{}", behind(&log));
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 10_000]);
    }

    #[test]
    fn more_than_the_disk_has_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let log = File::create(dir.path().join("db")).unwrap();
        assert_ne!(reserve(&log, 1 << 60), Room::Enough);
    }
}
