//! Where a journal is, and how it can be read: through the agent that has it open,
//! or from its files.

use std::cell::Cell;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use super::super::digits::grouped;
use super::super::{ConfigFile, control};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::shell::desk::PageHead;
use crate::shell::{lock, offline};
use crate::store::StoreError;
use crate::store::inspect::{self, SegmentReport, Stats};

/// Which journal is meant.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Which {
    #[command(flatten)]
    config: ConfigFile,
    /// Not the journal of the configuration but this one: a data directory, a copy
    /// of one, or a segment that was set aside.
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// The gateway's id, where no configuration says it.
    #[arg(long, value_name = "ID")]
    gateway: Option<String>,
}

/// A journal that can be read.
#[derive(Debug)]
pub(in crate::cli) enum Place {
    /// An agent has it open and answers for it.
    Live(PathBuf),
    /// Nobody has it open.
    Still(PathBuf),
}

/// What is shown while long work goes on, on a terminal.
#[derive(Debug)]
pub(in crate::cli) struct Progress {
    is_shown: bool,
    of: u64,
    done: Cell<u64>,
    what: &'static str,
}

impl Which {
    /// Finds it.
    pub(in crate::cli) fn place(&self) -> Result<Place, Failure> {
        let folder = match &self.journal {
            Some(folder) => folder.clone(),
            None => self.config.load()?.gateway.data_dir,
        };
        Place::of(folder)
    }

    /// The gateway's id, for lines name it.
    pub(in crate::cli) fn gateway(&self) -> Result<String, Failure> {
        if let Some(gateway) = &self.gateway {
            return Ok(gateway.clone());
        }
        if self.journal.is_some() && !self.config.path.is_file() {
            let what = "every line names its gateway: say it with --gateway, or give its -c FILE";
            return Err(Failure::new(Exit::Usage, what));
        }
        self.config.load().map(|config: Config| config.gateway.id)
    }
}

impl Place {
    /// That of a data directory, a copy of one, or a segment that was set aside.
    pub(in crate::cli) fn of(folder: PathBuf) -> Result<Self, Failure> {
        let at = folder.display();
        let failed = |error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                Failure::new(Exit::Io, format_args!("{at}: there is no such folder"))
            }
            io::ErrorKind::PermissionDenied => {
                Failure::new(Exit::Io, format_args!("{at} is its owner's alone: try sudo"))
            }
            _ => Failure::io(&at, error),
        };
        if !fs::metadata(&folder).map_err(|error| failed(&error))?.is_dir() {
            return Err(Failure::new(Exit::Io, format_args!("{at}: is a file, and no folder")));
        }
        let held = lock::held_by(&folder).map_err(|error| failed(&error))?;
        Ok(if held.is_some() { Place::Live(folder) } else { Place::Still(folder) })
    }

    pub(in crate::cli) fn stats(&self) -> Result<Stats, Failure> {
        match self {
            Place::Live(data_dir) => live(data_dir, "/api/v1/journal/stats"),
            Place::Still(folder) => inspect::stats(folder).map_err(|error| failure(&error)),
        }
    }

    /// Checks every segment; `progress` hears of each.
    pub(in crate::cli) fn verify(
        &self,
        mut progress: impl FnMut(&SegmentReport),
    ) -> Result<Vec<SegmentReport>, Failure> {
        let data_dir = match self {
            Place::Still(folder) => {
                return inspect::verify(folder, progress).map_err(|error| failure(&error));
            }
            Place::Live(data_dir) => data_dir,
        };
        let mut reports = Vec::new();
        for segment in self.stats()?.segments {
            let path = format!("/api/v1/journal/verify?segment={}", segment.id);
            match control::get_json(data_dir, &path) {
                Ok(report) => {
                    progress(&report);
                    reports.push(report);
                }
                // Acknowledged and deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(control::failure(data_dir, &error)),
            }
        }
        Ok(reports)
    }

    /// Hands every readable entry from the offset `from` on to `take`, as the line
    /// that the uplink would send, until it says false. What the running agent
    /// could not read comes back.
    pub(in crate::cli) fn lines(
        &self,
        gateway: &str,
        from: u64,
        mut take: impl FnMut(&[u8]) -> Result<bool, Failure>,
    ) -> Result<Vec<String>, Failure> {
        let data_dir = match self {
            Place::Live(data_dir) => data_dir,
            Place::Still(folder) => {
                let mut outcome = Ok(true);
                let read = offline::cat(folder, gateway, from, |line| {
                    if let Ok(true) = outcome {
                        outcome = take(line);
                    }
                });
                read.map_err(|error| failure(&error))?;
                return outcome.map(|_| Vec::new());
            }
        };
        let (mut next, mut damage) = (from, Vec::new());
        loop {
            let path = format!("/api/v1/journal/page?from={next}");
            let page = control::get(data_dir, &path);
            let page = page.map_err(|error| control::failure(data_dir, &error))?;
            let mut lines = page.split_inclusive(|byte| *byte == b'\n');
            let head = serde_json::from_slice::<PageHead>(lines.next().unwrap_or_default());
            let head = head.map_err(|error| control::failure(data_dir, &error.into()))?;
            damage.extend(head.damage);
            for line in lines {
                if !take(line)? {
                    return Ok(damage);
                }
            }
            // What comes in while it is read belongs to the next reading.
            if head.next >= head.end || head.next <= next {
                return Ok(damage);
            }
            next = head.next;
        }
    }
}

impl Progress {
    /// Progress through `of` things that are called `what`; shown where stderr is a
    /// terminal.
    pub(in crate::cli) fn new(of: u64, what: &'static str) -> Self {
        Self { is_shown: io::stderr().is_terminal(), of, done: Cell::new(0), what }
    }

    /// One more.
    pub(in crate::cli) fn step(&self) {
        const EVERY: u64 = 20_000;
        self.done.set(self.done.get() + 1);
        if self.is_shown && self.done.get().is_multiple_of(EVERY) {
            self.say('\r');
        }
    }

    /// No more.
    pub(in crate::cli) fn end(&self) {
        if self.is_shown {
            self.say('\n');
        }
    }

    fn say(&self, end: char) {
        let (done, of) = (grouped(self.done.get()), grouped(self.of.max(self.done.get())));
        // Nobody is harmed where this is not seen.
        let _ = write!(io::stderr(), "\r{done} of {of} {}{end}", self.what);
    }
}

fn live<T: serde::de::DeserializeOwned>(data_dir: &Path, path: &str) -> Result<T, Failure> {
    control::get_json(data_dir, path).map_err(|error| control::failure(data_dir, &error))
}

pub(in crate::cli) fn failure(error: &StoreError) -> Failure {
    let exit = if matches!(error, StoreError::Busy(_)) { Exit::TryAgain } else { Exit::Io };
    Failure::new(exit, error)
}
