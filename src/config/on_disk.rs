//! What a configuration names on this machine: is it there? A file may come later, and
//! the user who asks may not be the one who runs the service. So none of this is wrong,
//! but whoever checks a configuration wants to know.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::file::Wrong;
use super::{Problem, credential};

/// What a configuration wants of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A file that is read.
    File,
    /// A device.
    Device,
    /// A folder that is made where it is missing.
    DataDir,
    /// A file that others or we make: its folder must be there.
    InFolder,
}

/// A path that a configuration names.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) wanted: Wanted,
    pub(super) path: PathBuf,
    /// The key, with its section.
    pub(super) key: String,
    pub(super) line: usize,
}

impl Named {
    /// What is wrong with it now, for this user.
    pub(super) fn problem(&self) -> Option<Problem> {
        let path = &self.path;
        let wrong = match self.wanted {
            Wanted::File if credential::unseen(path).is_some() => return None,
            Wanted::File => file(path, "make it, or mend the path"),
            Wanted::Device => file(path, "plug it in, or mend the path"),
            Wanted::DataDir => data_dir(path),
            Wanted::InFolder => in_folder(path),
        };
        let Wrong { what, fix } = wrong.err()?;
        Some(Problem { line: Some(self.line), key: self.key.clone(), what, fix })
    }
}

fn file(path: &Path, fix: &str) -> Result<(), Wrong> {
    let shown = path.display();
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Wrong::new(format!("{shown} does not exist"), fix));
        }
        Ok(facts) if facts.is_dir() => {
            return Err(Wrong::new(format!("{shown} is a folder"), "name a file"));
        }
        _ => {}
    }
    // Not opened: that would wait at a pipe and may stir a device.
    access(path, Access::READ_OK).map_err(|error| {
        let what = format!("{shown} cannot be read by this user ({})", io::Error::from(error));
        Wrong::new(what, "let the user of the service read it")
    })
}

fn data_dir(path: &Path) -> Result<(), Wrong> {
    let shown = path.display();
    let fix = "mend that, or set another";
    // What is there of the way to it, from its end.
    let there = path.ancestors().find(|part| !is_missing(part)).unwrap_or(Path::new("."));
    if !there.is_dir() {
        let what = format!("{shown} cannot be made: {} is not a folder", there.display());
        return Err(Wrong::new(what, fix));
    }
    access(there, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        let error = io::Error::from(error);
        let what = match there == path {
            true => format!("{shown} cannot be written by this user ({error})"),
            false => {
                let there = there.display();
                format!("{shown} cannot be made by this user ({there}: {error})")
            }
        };
        Wrong::new(what, fix)
    })
}

fn in_folder(path: &Path) -> Result<(), Wrong> {
    match path.parent() {
        Some(folder) if is_missing(folder) => {
            let what = format!("the folder {} does not exist", folder.display());
            Err(Wrong::new(what, "make it, or mend the path"))
        }
        _ => Ok(()),
    }
}

/// An empty path is the folder of this process, which is there.
fn is_missing(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    !path.as_os_str().is_empty()
        && found.is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        })
}

#[cfg(test)]
#[path = "on_disk_tests.rs"]
mod tests;
