//! Segments that could not be read and were set aside as a whole: folders in `quarantine/`,
//! each with its reason beside it.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::disk;
use super::error::{StoreError, at};

/// One folder that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its name within `quarantine/`: that of the segment, perhaps with a number.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// When it was last changed, in nanoseconds since 1970.
    pub at_unix_ns: i64,
    /// What it takes on disk, in bytes.
    pub bytes: u64,
    /// Why it was set aside; empty where no reason was written.
    pub reason: String,
}

fn reason_path(folder: &Path) -> PathBuf {
    folder.with_extension("reason")
}

/// Writes down why a folder was set aside. A failure to do so is ignored.
pub(super) fn note(folder: &Path, reason: &str) {
    let _ = std::fs::write(reason_path(folder), reason);
}

/// All of a data directory, by name.
///
/// # Errors
/// `quarantine/` is there and cannot be read.
pub fn list(data_dir: &Path) -> Result<Vec<SetAside>, StoreError> {
    let quarantine = data_dir.join("quarantine");
    let entries = match std::fs::read_dir(&quarantine) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(&quarantine)(error)),
    };
    let mut found: Vec<SetAside> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| {
            let path = entry.path();
            let changed = entry.metadata().and_then(|facts| facts.modified()).ok();
            let since = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            SetAside {
                name: entry.file_name().to_string_lossy().into_owned(),
                at_unix_ns: since.map_or(0, |since| since.as_nanos() as i64),
                bytes: disk::allocated(&path),
                reason: std::fs::read_to_string(reason_path(&path)).unwrap_or_default(),
                path,
            }
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Deletes one, with its reason.
///
/// # Errors
/// The file system refuses.
pub fn discard(one: &SetAside) -> Result<(), StoreError> {
    disk::delete(&one.path).map_err(at(&one.path))?;
    let reason = reason_path(&one.path);
    disk::delete(&reason).map_err(at(&reason))
}
