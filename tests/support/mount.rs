//! A small file system of the test's own, for root alone.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmpfs; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Tmpfs {
    path: PathBuf,
}

impl Tmpfs {
    /// Mounts one of so many MiB on `path`, a folder that is made. `None`, and
    /// said so, where this process may not; where it must (`TIDEGATE_REQUIRE_ROOT`),
    /// that is a failure.
    pub(crate) fn mount(path: &Path, mib: u32, test: &str) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(path)
            .output()
            .is_ok_and(|output| output.status.success());
        if mounted {
            return Some(Self { path: path.to_owned() });
        }
        #[expect(clippy::disallowed_methods, reason = "CI says that a skip is a failure")]
        let is_required = std::env::var_os("TIDEGATE_REQUIRE_ROOT").is_some();
        assert!(!is_required, "mounting a tmpfs is required and not permitted: run as root");
        skip(test);
        None
    }

    /// Makes it read-only (`ro`) or writable again (`rw`); whether the kernel did.
    pub(crate) fn remount(&self, how: &str) -> bool {
        let options = format!("remount,{how}");
        let mounted = Command::new("mount").args(["-o", &options]).arg(&self.path).output();
        mounted.is_ok_and(|output| output.status.success())
    }

    /// Takes all the room that is left, as somebody else's file.
    pub(crate) fn fill(&self) -> Filler {
        let path = self.path.join("somebody-elses.log");
        let mut file = File::create(&path).unwrap();
        // From large to small, until not even a page is to be had.
        for length in [1 << 20, 1 << 16, 1 << 12] {
            let block = vec![0x55; length];
            while file.write_all(&block).is_ok() {}
        }
        Filler { path }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a process that is being killed may still have files open.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// A file that is in the way until it is dropped.
#[derive(Debug)]
pub(crate) struct Filler {
    path: PathBuf,
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[expect(clippy::print_stdout, reason = "a skip is said, not silent")]
fn skip(test: &str) {
    println!("{test}: skipped, this needs root: it mounts a small tmpfs");
}
