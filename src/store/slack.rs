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

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

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

/// Gives the allocated room back. Only while sled writes nothing: after a flush and before
/// the next batch.
pub(super) fn give_back(log: &File) {
    if let Ok(facts) = log.metadata() {
        // If it is not given back, it goes with the segment.
        let _ = log.set_len(facts.len());
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
