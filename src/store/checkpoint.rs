//! Checkpoints: `state/windows` and `state/dedupe` in the data directory, one
//! value each in the journal's own envelope (version, length, CRC32C).
//!
//! They only shorten a start: without one, or with one that cannot be used, the
//! windows, or the memory of repeats, are recomputed from the journal as far as
//! that still goes back.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::disk;
use super::envelope::{self, Broken};
use crate::core::seam::Checkpointed;

/// The file's name in the folder `state`.
const fn file_name(of: Checkpointed) -> &'static str {
    match of {
        Checkpointed::Windows => "windows",
        Checkpointed::Dedupe => "dedupe",
    }
}

/// Why a checkpoint that is there cannot be used.
#[derive(Debug)]
pub enum CheckpointError {
    /// The file cannot be read.
    Io(PathBuf, io::Error),
    /// Its bytes are not those that were written; why that is known.
    Damaged(PathBuf, &'static str),
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointError::Io(path, error) => {
                write!(f, "cannot read the checkpoint {}: {error}", path.display())
            }
            CheckpointError::Damaged(path, reason) => {
                write!(f, "the checkpoint {} is of no use: {reason}", path.display())
            }
        }
    }
}

impl Error for CheckpointError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CheckpointError::Io(_, error) => Some(error),
            CheckpointError::Damaged(..) => None,
        }
    }
}

fn path_in(data_dir: &Path, of: Checkpointed) -> PathBuf {
    data_dir.join("state").join(file_name(of))
}

/// Replaces the checkpoint, durably: after a power cut there is the old one or
/// the new one.
///
/// # Errors
/// The disk refuses, or `bytes` are 4 GiB or more. The old checkpoint stays.
pub fn write(data_dir: &Path, of: Checkpointed, bytes: &[u8]) -> io::Result<()> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the checkpoint is over 4 GiB"));
    }
    let path = path_in(data_dir, of);
    disk::create_folder(path.parent().unwrap_or(data_dir))?;
    let mut packed = Vec::with_capacity(envelope::HEADER_BYTES + bytes.len());
    envelope::wrap(0, bytes, &mut packed);
    disk::replace(&path, &packed)
}

/// The checkpoint last written; `None` when there is none.
///
/// # Errors
/// There is one that cannot be used. It should be logged, and then the start goes on
/// without it.
pub fn read(data_dir: &Path, of: Checkpointed) -> Result<Option<Vec<u8>>, CheckpointError> {
    let path = path_in(data_dir, of);
    let packed = match std::fs::read(&path) {
        Ok(packed) => packed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CheckpointError::Io(path, error)),
    };
    match envelope::unwrap(&packed) {
        Ok((0, bytes)) => Ok(Some(bytes.to_vec())),
        Ok(_) => Err(CheckpointError::Damaged(path, Broken::Content.as_str())),
        Err(broken) => Err(CheckpointError::Damaged(path, broken.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOWS: Checkpointed = Checkpointed::Windows;

    #[test]
    fn the_newest_checkpoint_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path(), WINDOWS).unwrap().is_none());
        write(dir.path(), WINDOWS, b"one").unwrap();
        write(dir.path(), WINDOWS, b"two, longer").unwrap();
        assert_eq!(read(dir.path(), WINDOWS).unwrap().unwrap(), b"two, longer");
        let names: Vec<_> = std::fs::read_dir(dir.path().join("state")).unwrap().collect();
        assert_eq!(names.len(), 1);
        assert!(read(dir.path(), Checkpointed::Dedupe).unwrap().is_none());
    }

    #[test]
    fn a_damaged_one_is_not_used_and_says_why() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), WINDOWS, b"state of the windows").unwrap();
        let path = path_in(dir.path(), WINDOWS);
        let good = std::fs::read(&path).unwrap();
        let why = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let error = read(dir.path(), WINDOWS).unwrap_err().to_string();
            error.rsplit_once("is of no use: ").unwrap().1.to_owned()
        };
        for length in 0..good.len() {
            assert_eq!(why(&good[..length]), "it is shorter than it says", "{length}");
        }
        let mut changed = good.clone();
        changed[15] ^= 1;
        assert_eq!(why(&changed), "its checksum does not match");
        let mut newer = Vec::new();
        envelope::wrap(0, b"x", &mut newer);
        newer[0] = 99;
        let check = crc32c::crc32c_append(crc32c::crc32c(&newer[..6]), b"x");
        newer[6..10].copy_from_slice(&check.to_le_bytes());
        assert_eq!(why(&newer), "it was written by a newer version");
    }

    #[test]
    fn a_refused_write_leaves_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), WINDOWS, b"old").unwrap();
        // A folder where the new file would go.
        std::fs::create_dir(dir.path().join("state/windows.new")).unwrap();
        assert!(write(dir.path(), WINDOWS, b"new").is_err());
        assert_eq!(read(dir.path(), WINDOWS).unwrap().unwrap(), b"old");
    }
}
