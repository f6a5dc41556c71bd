//! Files outside sled, written so that a crash leaves the old or the new content; and the
//! space that folders take.

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

/// Creates a folder, and those above it that are missing, so that a power cut takes
/// none of their names.
///
/// # Errors
/// One cannot be made or synced.
pub fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // Above the first folder of a relative path is the working directory.
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    create_folder(above)?;
    fs::create_dir(path).or_else(|error| match path.is_dir() {
        true => Ok(()),
        false => Err(error),
    })?;
    sync_folder(path)?;
    sync_folder(above)
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
