//! `tidegate journal`: a look into the journal.
//!
//! sled gives a journal to one process at a time. Beside a running agent all of
//! this goes through its control socket, a page or some frames at a time; without
//! one, and on a copy, the files are read.

use std::fmt::Write as _;

use clap::Subcommand;

use super::digits::{bytes, counted, grouped};
use super::terminal;
use super::{print, to_json};
use crate::exit::{Exit, Failure};
use crate::store::inspect::SegmentReport;

mod export;
pub(super) mod place;

use place::Which;

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
        which: Which,
        /// Begin at this offset.
        #[arg(long, value_name = "OFFSET", default_value_t = 0)]
        from: u64,
    },
    /// Read and check every frame. Changes nothing; ends with 1 on damage.
    #[command(after_help = "Example: tidegate journal verify -c tidegate.toml --json")]
    Verify(Common),
    /// Write it to a file for other tools.
    Export(export::Args),
}

#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    which: Which,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    match &args.look {
        Look::Stats(common) => stats(common),
        Look::Cat { which, from } => cat(which, *from),
        Look::Verify(common) => verify(common),
        Look::Export(args) => export::execute(args),
    }
}

fn stats(common: &Common) -> Result<Exit, Failure> {
    let stats = common.which.place()?.stats()?;
    let mut text = String::new();
    for one in &stats.segments {
        let state = if one.is_sealed { "sealed" } else { "active" };
        let (id, first, next, bytes) = (one.id, one.first, one.next, one.bytes);
        // Writing to a string does not fail.
        let _ = writeln!(text, "segment {id:06}: offsets {first}..{next}, {bytes} bytes, {state}");
    }
    for one in &stats.numbers {
        let _ = writeln!(text, "numbers of {} {}: 1 to {}", one.source, one.epoch, one.last);
    }
    let segments = stats.segments.len();
    let _ = writeln!(
        text,
        "{} entries, {} in {} (acknowledged ones included)",
        grouped(stats.entries),
        bytes(stats.bytes),
        counted(segments as u64, "segment")
    );
    print(&if common.json { to_json(&stats)? } else { text })?;
    Ok(Exit::Done)
}

fn cat(which: &Which, from: u64) -> Result<Exit, Failure> {
    let gateway = which.gateway()?;
    which.place()?.lines(&gateway, from, |line| {
        print(&terminal::harmless_here(&String::from_utf8_lossy(line)))
    })?;
    Ok(Exit::Done)
}

fn verify(common: &Common) -> Result<Exit, Failure> {
    let mut outcome = Ok(true);
    let reports = common.which.place()?.verify(|report| {
        if !common.json && outcome.is_ok() {
            outcome = print(&line(report));
        }
    })?;
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
