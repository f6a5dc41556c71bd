//! Files of our own: written so that a crash leaves the old or the new content,
//! and the space that folders take.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Replaces a file: new file, sync, rename, sync of the folder.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes names in a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Creates a folder, and its parents, durably.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    sync_folder(path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// What a file or folder takes on disk, in bytes; what vanishes meanwhile
/// counts as nothing.
pub(super) fn allocated(path: &Path) -> u64 {
    let Ok(facts) = fs::symlink_metadata(path) else { return 0 };
    let own = facts.blocks() * 512;
    if !facts.is_dir() {
        return own;
    }
    let inside = fs::read_dir(path).into_iter().flatten().flatten();
    own + inside.map(|entry| allocated(&entry.path())).sum::<u64>()
}

/// Deletes a file or folder; one that is not there is fine.
pub(super) fn delete(path: &Path) -> io::Result<()> {
    let result = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
