//! `tidegate journal`: a look into the journal.
//!
//! sled gives a journal to one process at a time. Beside a running agent
//! `stats` asks the agent; the others say who holds it.

use std::fmt::Write as _;
use std::path::Path;

use clap::Subcommand;

use super::{ConfigFile, control, print, to_json};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::shell::{lock, offline};
use crate::store::StoreError;
use crate::store::inspect::{self, SegmentReport};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate journal verify -c /etc/tidegate/tidegate.toml")]
pub(super) struct Args {
    #[command(subcommand)]
    look: Look,
}

#[derive(Debug, Subcommand)]
enum Look {
    /// How much is in it.
    #[command(after_help = "Example: tidegate journal stats -c tidegate.toml")]
    Stats(Common),
    /// Every entry as it would be sent, one JSON object a line.
    #[command(after_help = "Example: tidegate journal cat -c tidegate.toml --from 1000 | head")]
    Cat {
        #[command(flatten)]
        common: Common,
        /// Begin at this offset.
        #[arg(long, value_name = "OFFSET", default_value_t = 0)]
        from: u64,
    },
    /// Read and check every frame. Changes nothing; ends with 1 on damage.
    #[command(after_help = "Example: tidegate journal verify -c tidegate.toml --json")]
    Verify(Common),
}

#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    config: ConfigFile,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    match &args.look {
        Look::Stats(common) => stats(common),
        Look::Cat { common, from } => cat(common, *from),
        Look::Verify(common) => verify(common),
    }
}

fn stats(common: &Common) -> Result<Exit, Failure> {
    let config = common.config.load()?;
    let data_dir = &config.gateway.data_dir;
    if holder(data_dir)?.is_some() {
        let journal = control::report(data_dir)?.journal;
        let text = format!(
            "{} readings wait, {} of {} bytes, {} segments (the agent is running)\n",
            journal.readings, journal.bytes, journal.max_bytes, journal.segments
        );
        print(&if common.json { to_json(&journal)? } else { text })?;
        return Ok(Exit::Done);
    }
    let stats = inspect::stats(data_dir).map_err(|error| failure(&error))?;
    let mut text = String::new();
    for one in &stats.segments {
        let state = if one.is_sealed { "sealed" } else { "active" };
        let (id, first, next, bytes) = (one.id, one.first, one.next, one.bytes);
        // Writing to a string does not fail.
        let _ = writeln!(text, "segment {id:06}: offsets {first}..{next}, {bytes} bytes, {state}");
    }
    let segments = stats.segments.len();
    let _ = writeln!(
        text,
        "{} entries, {} bytes, {segments} segments (acknowledged ones included)",
        stats.entries, stats.bytes
    );
    print(&if common.json { to_json(&stats)? } else { text })?;
    Ok(Exit::Done)
}

fn cat(common: &Common, from: u64) -> Result<Exit, Failure> {
    let config = unused(&common.config)?;
    let gateway = &config.gateway.id;
    let mut outcome = Ok(true);
    offline::cat(&config.gateway.data_dir, gateway, from, |line| {
        if let Ok(true) = outcome {
            outcome = print(&String::from_utf8_lossy(line));
        }
    })
    .map_err(|error| failure(&error))?;
    outcome.map(|_| Exit::Done)
}

fn verify(common: &Common) -> Result<Exit, Failure> {
    let config = unused(&common.config)?;
    let mut outcome = Ok(true);
    let reports = inspect::verify(&config.gateway.data_dir, |report| {
        if !common.json && outcome.is_ok() {
            outcome = print(&line(report));
        }
    })
    .map_err(|error| failure(&error))?;
    outcome?;
    if common.json {
        print(&to_json(&reports)?)?;
    }
    let is_good = reports.iter().all(|report| report.damage.is_empty());
    Ok(if is_good { Exit::Done } else { Exit::CheckFailed })
}

fn line(report: &SegmentReport) -> String {
    let SegmentReport { id, frames, entries, damage } = report;
    let mut text = format!("segment {id:06}: {frames} frames, {entries} entries good\n");
    for one in damage {
        let _ = writeln!(text, "segment {id:06}: DAMAGE {one}");
    }
    text
}

/// The configuration of a data directory that no agent uses now.
fn unused(file: &ConfigFile) -> Result<Config, Failure> {
    let config = file.load()?;
    match holder(&config.gateway.data_dir)? {
        None => Ok(config),
        Some(holder) => Err(Failure::new(
            Exit::TryAgain,
            format_args!("the journal is in use by {holder}: stop the agent first"),
        )),
    }
}

fn holder(data_dir: &Path) -> Result<Option<String>, Failure> {
    lock::held_by(data_dir).map_err(|error| Failure::io(lock::FILE_NAME, &error))
}

fn failure(error: &StoreError) -> Failure {
    let exit = if matches!(error, StoreError::Busy(_)) { Exit::TryAgain } else { Exit::Io };
    Failure::new(exit, error)
}
