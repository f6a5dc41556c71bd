//! What a start has to say: why it failed, and what the last run left behind.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::lock::LockError;
use crate::core::seam::{Damage, Recovered};
use crate::host::clocks::ClockFailure;
use crate::store::OpenError;

/// Why the agent did not start; for people.
#[derive(Debug)]
pub enum StartupError {
    /// The data directory cannot be made.
    DataDir {
        /// Which.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// The data directory is in use, or its lock file is out of reach.
    Lock(LockError),
    /// A clock of this machine cannot be used.
    Clock(ClockFailure),
    /// The journal cannot be opened.
    Store(OpenError),
    /// A value of the configuration is wrong: which, and how.
    Config(String),
    /// The system refuses signal handlers.
    Signals(io::Error),
    /// The start itself broke down: a bug, reported by the panic hook.
    Broke,
}

impl fmt::Display for StartupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartupError::DataDir { path, error } => {
                let path = path.display();
                write!(
                    f,
                    "gateway.data_dir: {path} cannot be made ({error}): {}",
                    way_out(error.kind())
                )
            }
            StartupError::Lock(LockError::Io { path, error }) => {
                let folder = path.parent().unwrap_or(path).display();
                let file = path.file_name().unwrap_or_default().display();
                write!(
                    f,
                    "gateway.data_dir: {folder} cannot be written ({file}: {error}): {}",
                    way_out(error.kind())
                )
            }
            StartupError::Lock(error) => write!(f, "gateway.data_dir: {error}"),
            StartupError::Clock(error) => error.fmt(f),
            StartupError::Store(error) => {
                write!(f, "gateway.data_dir: the journal cannot be opened: {error}")
            }
            StartupError::Config(problem) => f.write_str(problem),
            StartupError::Signals(error) => write!(f, "signals cannot be handled: {error}"),
            StartupError::Broke => f.write_str("the start broke down"),
        }
    }
}

impl std::error::Error for StartupError {}

/// What to do about a data directory that gives such an error.
const fn way_out(error: io::ErrorKind) -> &'static str {
    match error {
        io::ErrorKind::PermissionDenied => "run as its owner, or set another",
        io::ErrorKind::ReadOnlyFilesystem => "mount it writable, or set another",
        io::ErrorKind::StorageFull => "make room, or set another",
        _ => "mend that, or set another",
    }
}

/// How the run before this one left the journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LastRun {
    was_cut_short: bool,
    /// Readings that cannot be read any more.
    damaged: u64,
    /// Whether some of the damage hides how far it goes.
    is_at_least: bool,
}

impl LastRun {
    pub(super) fn of(recovered: &Recovered) -> Self {
        let missing = || recovered.damaged.iter().flat_map(|damage: &Damage| &damage.missing);
        let length = |first: u64, last: u64| last.saturating_sub(first) + 1;
        let damaged =
            missing().map(|one| one.last.map_or(1, |last| length(one.first.0, last.0))).sum();
        let is_at_least = missing().any(|one| one.last.is_none());
        Self { was_cut_short: recovered.was_cut_short, damaged, is_at_least }
    }

    /// Says it in the log, with how many readings were `found`. Nothing after a run that
    /// stopped in order.
    pub(super) fn say(&self, found: u64) {
        if !self.was_cut_short {
            return;
        }
        let at_least = if self.is_at_least { "at least " } else { "" };
        let readings = if found == 1 { "reading" } else { "readings" };
        tracing::warn!(
            "the last run did not stop cleanly: {found} {readings} found, {at_least}{} damaged",
            self.damaged
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::core::id::{Epoch, Offset, Seq, SourceId};
    use crate::core::seam::Missing;
    use crate::shell::log_line::heard;

    #[test]
    fn a_data_directory_out_of_reach_is_named_by_its_key_with_what_to_do() {
        let path = Path::new("/var/lib/tidegate").to_owned();
        let error = io::Error::from_raw_os_error(13);
        let said = StartupError::DataDir { path: path.clone(), error }.to_string();
        let expected = "gateway.data_dir: /var/lib/tidegate cannot be made (Permission denied \
                        (os error 13)): run as its owner, or set another";
        assert_eq!(said, expected);
        let error = io::Error::from_raw_os_error(30);
        let said = StartupError::Lock(LockError::Io { path: path.join("LOCK"), error }).to_string();
        let expected = "gateway.data_dir: /var/lib/tidegate cannot be written (LOCK: Read-only \
                        file system (os error 30)): mount it writable, or set another";
        assert_eq!(said, expected);
    }

    #[test]
    fn a_run_that_was_cut_short_is_said_with_what_is_left() {
        let said = |recovered: &Recovered, found| {
            let lines = heard::during(|| LastRun::of(recovered).say(found));
            lines.iter().map(|line| line.to_text()).collect::<Vec<_>>()
        };
        let missing = |first, last: Option<u64>| Missing {
            source: SourceId::new("press"),
            epoch: Epoch::default(),
            first: Seq(first),
            last: last.map(Seq),
            event_times: None,
        };
        let damage = |missing| Damage {
            first: Offset(7),
            end: Offset(9),
            missing,
            reason: "a segment is gone".to_owned(),
        };
        let mut recovered = Recovered::default();
        assert_eq!(said(&recovered, 42), [""; 0], "it stopped in order");
        recovered.was_cut_short = true;
        let start = "the last run did not stop cleanly: ";
        assert_eq!(said(&recovered, 42), [format!("{start}42 readings found, 0 damaged")]);
        recovered.damaged = vec![damage(vec![missing(11, Some(20)), missing(1, Some(1))])];
        assert_eq!(said(&recovered, 1), [format!("{start}1 reading found, 11 damaged")]);
        recovered.damaged.push(damage(vec![missing(21, None)]));
        assert_eq!(said(&recovered, 0), [format!("{start}0 readings found, at least 12 damaged")]);
    }
}
