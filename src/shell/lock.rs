//! One agent per data directory: two would write one journal.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::core::time::IngestTime;

pub use crate::config::LOCK_FILE as FILE_NAME;

/// The claim to a data directory; given up when dropped, and by the kernel when
/// the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why the claim failed.
#[derive(Debug)]
pub enum LockError {
    /// Another process has it.
    Held {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote into it: its process id and start.
        holder: String,
    },
    /// The file cannot be created, locked or written.
    Io {
        /// The lock file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held { path, holder } => {
                let path = path.display();
                write!(f, "the data directory is in use: {path} is held by {holder}")
            }
            LockError::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for LockError {}

impl Lock {
    /// Claims `data_dir`, which must exist, and leaves word of who holds it.
    ///
    /// # Errors
    /// Another process holds it, or the file system refuses.
    pub fn take(data_dir: &Path, at: IngestTime) -> Result<Self, LockError> {
        let path = data_dir.join(FILE_NAME);
        match claim(&path) {
            Ok(Some(mut file)) => write_holder(&mut file, at)
                .map(|()| Self { _file: file })
                .map_err(|error| LockError::Io { path, error }),
            Ok(None) => Err(LockError::Held { holder: holder(&path), path }),
            Err(error) => Err(LockError::Io { path, error }),
        }
    }
}

/// Who holds `data_dir`, if somebody does. Leaves nothing behind.
///
/// # Errors
/// The lock file exists and cannot be opened or asked.
pub fn held_by(data_dir: &Path) -> io::Result<Option<String>> {
    let path = data_dir.join(FILE_NAME);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(Errno::WOULDBLOCK) => Ok(Some(holder(&path))),
        Err(error) => Err(error.into()),
    }
}

/// The locked file; `None` when another has it.
fn claim(path: &Path) -> io::Result<Option<File>> {
    // Not truncated before the lock is taken: the content names the holder.
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write_holder(file: &mut File, at: IngestTime) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "process {} since {at}", std::process::id())
}

fn holder(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let text = text.trim();
    if text.is_empty() { "an unnamed process".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: IngestTime = IngestTime::from_unix_ns(1_796_000_523_000_000_000);

    #[test]
    fn a_second_claim_fails_and_names_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(held_by(dir.path()).unwrap(), None);
        let lock = Lock::take(dir.path(), AT).unwrap();
        let holder = format!("process {} since 2026-11-30T01:02:03.000000000Z", std::process::id());
        assert_eq!(held_by(dir.path()).unwrap(), Some(holder.clone()));
        let second = Lock::take(dir.path(), AT).unwrap_err().to_string();
        assert!(second.ends_with(&format!("LOCK is held by {holder}")), "{second}");
        drop(lock);
        assert_eq!(held_by(dir.path()).unwrap(), None);
        Lock::take(dir.path(), AT).unwrap();
    }

    #[test]
    fn a_missing_directory_is_an_error_and_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        assert!(matches!(Lock::take(&missing, AT), Err(LockError::Io { .. })));
        assert_eq!(held_by(&missing).unwrap(), None);
        assert!(!missing.exists());
    }
}
