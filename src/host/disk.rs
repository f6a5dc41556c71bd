//! Space on the file system.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_measured_where_there_is_a_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let free = free_bytes(dir.path());
        assert!(free > 0 && free < u64::MAX);
        assert_eq!(free_bytes(&dir.path().join("missing")), u64::MAX);
    }
}
