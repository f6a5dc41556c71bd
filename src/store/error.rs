//! Errors of the store: those of opening are for people, those while running are for the
//! agent.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why the journal cannot be opened at all. Damaged data is never a reason: it
/// is set aside and reported in [`crate::core::seam::Recovered`].
#[derive(Debug)]
pub enum OpenError {
    /// Written by a newer version; nothing was touched. Exit code 78.
    NewerSchema {
        /// The file or folder.
        path: PathBuf,
        /// Its version.
        found: u8,
        /// The newest version that this build reads.
        known: u8,
    },
    /// The file system refuses.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried: `create`, `read` …
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// Another process has the journal open.
    Busy {
        /// The segment.
        path: PathBuf,
    },
    /// The store thread ended before it was ready.
    Thread,
}

impl OpenError {
    pub(super) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| OpenError::Io { path, action, source }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NewerSchema { path, found, known } => write!(
                f,
                "{}: written in format {found} by a newer version of Tidegate; this one reads up \
                 to {known}. Nothing was changed. Install the newer version again, or give this \
                 one a data_dir of its own",
                path.display()
            ),
            OpenError::Io { path, action, source } => write!(
                f,
                "cannot {action} {}: {source}. Check that data_dir exists, belongs to the user \
                 that runs Tidegate, and that its file system is mounted writable and has room",
                path.display()
            ),
            OpenError::Busy { path } => write!(
                f,
                "{}: in use by another process. Is the agent running? Ask it through its control \
                 socket, or stop it first",
                path.display()
            ),
            OpenError::Thread => write!(f, "the store thread ended while opening the journal"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why a commit failed, or an offline command cannot read.
#[derive(Debug)]
pub enum StoreError {
    /// sled gave an error; the segment is given up.
    Sled(sled::Error),
    /// A file of our own could not be written or read.
    Io(PathBuf, io::Error),
    /// Too little space is left to let sled write: a full disk can hang it.
    Full {
        /// Bytes free on the file system.
        free_bytes: u64,
    },
    /// Another process has it open.
    Busy(PathBuf),
    /// Stored bytes are not those that were written.
    Damaged(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Sled(error) => write!(f, "sled: {error}"),
            StoreError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            StoreError::Full { free_bytes } => {
                write!(f, "only {free_bytes} bytes are free on the file system")
            }
            StoreError::Busy(path) => write!(
                f,
                "{}: in use by another process; a running agent answers through its control socket",
                path.display()
            ),
            StoreError::Damaged(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<sled::Error> for StoreError {
    fn from(error: sled::Error) -> Self {
        StoreError::Sled(error)
    }
}

/// Attaches a path to an I/O error.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_path_buf();
    move |error| StoreError::Io(path, error)
}
