//! What systemd-timesyncd leaves in the file system. Its word on its error is
//! on D-Bus only; the core puts a floor in its place.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::core::time::IngestTime;

/// There while the daemon runs.
const FOLDER: &str = "run/systemd/timesync";
/// Touched at each answer of a server that it accepts.
const SYNCHRONIZED: &str = "run/systemd/timesync/synchronized";

/// When it last accepted an answer, by the wall clock of that moment; `None`
/// when it has not since boot. `root` is `/`.
pub fn synchronized_at(root: &Path) -> Option<IngestTime> {
    modified_at(&root.join(SYNCHRONIZED))
}

/// Whether it is to be seen at all. `root` is `/`.
pub fn is_present(root: &Path) -> bool {
    root.join(FOLDER).is_dir()
}

/// When a file was last written to.
pub(super) fn modified_at(path: &Path) -> Option<IngestTime> {
    let facts = std::fs::metadata(path).ok()?;
    let seconds_ns = facts.mtime().checked_mul(1_000_000_000)?;
    Some(IngestTime::from_unix_ns(seconds_ns.checked_add(facts.mtime_nsec())?))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, create_dir_all};
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_last_update_is_when_the_file_was_touched() {
        let root = tempfile::tempdir().unwrap();
        assert!(!is_present(root.path()));
        assert_eq!(synchronized_at(root.path()), None);
        create_dir_all(root.path().join(FOLDER)).unwrap();
        assert!(is_present(root.path()));
        assert_eq!(synchronized_at(root.path()), None);
        let file = File::create(root.path().join(SYNCHRONIZED)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::new(1_796_000_000, 5)).unwrap();
        let expected = IngestTime::from_unix_ns(1_796_000_000_000_000_005);
        assert_eq!(synchronized_at(root.path()), Some(expected));
    }
}
