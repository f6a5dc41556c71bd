//! Files outside sled, written so that a crash leaves the old or the new content; and the
//! space that folders take.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Permissions of a new folder that the umask says all about.
const BY_UMASK: u32 = 0o777;
/// Permissions of a new folder that others must not look into.
const OWNER_ALONE: u32 = 0o700;

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
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    create(path, BY_UMASK)
}

fn create(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // Above the first folder of a relative path is the working directory.
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    create_folder(above)?;
    DirBuilder::new().mode(mode).create(path).or_else(|error| match error.kind() {
        _ if path.is_dir() => Ok(()),
        io::ErrorKind::AlreadyExists => {
            let what = format!("{} is a file, and no folder", path.display());
            Err(io::Error::new(io::ErrorKind::NotADirectory, what))
        }
        _ => Err(error),
    })?;
    sync_folder(path)?;
    sync_folder(above)
}

/// The same for the data directory: readings are its owner's alone, whatever the umask.
/// One that is there already is left as it is.
///
/// # Errors
/// Those of [`create_folder`].
pub fn create_data_dir(path: &Path) -> io::Result<()> {
    create(path, OWNER_ALONE)
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_data_directory_is_its_owners_alone_and_one_that_is_there_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        create_folder(&plain).unwrap();
        let data = folder.path().join("above/data");
        create_data_dir(&data).unwrap();
        assert_eq!(mode(&data), 0o700);
        assert_eq!(mode(&folder.path().join("above")), mode(&plain), "by the umask");
        fs::set_permissions(&data, Permissions::from_mode(0o750)).unwrap();
        create_data_dir(&data).unwrap();
        assert_eq!(mode(&data), 0o750);
    }
}
