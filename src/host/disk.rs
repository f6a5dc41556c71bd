//! Space on the file system, and what is written to it.

use std::path::Path;

/// Bytes that the file system of `path` has left for this process (blocks
/// reserved for root excepted).
///
/// `u64::MAX` when the file system does not tell: a reserve that cannot be
/// measured must not stop the journal, whose own quota still holds.
pub fn free_bytes(path: &Path) -> u64 {
    match rustix::fs::statvfs(path) {
        Ok(facts) => facts.f_bavail.saturating_mul(facts.f_frsize),
        Err(_) => u64::MAX,
    }
}

/// Bytes that this process has caused to be written to disk since it started, by
/// the kernel's count: whole pages, the log file included. `None` where it does not
/// tell (a sandbox without `/proc`, a kernel without task accounting).
pub fn written_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_counted_in_pages() {
        let Some(before) = written_bytes() else { return };
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        std::fs::write(dir.path().join("file"), vec![1; 100_000]).unwrap();
        assert!(written_bytes().unwrap() >= before + 100_000);
    }

    #[test]
    fn free_space_is_measured_where_there_is_a_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let free = free_bytes(dir.path());
        assert!(free > 0 && free < u64::MAX);
        assert_eq!(free_bytes(&dir.path().join("missing")), u64::MAX);
    }
}
