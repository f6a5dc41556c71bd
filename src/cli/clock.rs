//! `tidegate clock`: how good the clock is, where each number was read, and what
//! a reading would be stamped now. `tidegate clock set`: an operator's own word.

mod sample;
mod set;
mod show;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;

use super::{CONFIG_FILE, ConfigFile, control, print, to_json};
use crate::config::Config;
use crate::core::clock::{ClockSettings, Reference};
use crate::exit::{Exit, Failure};
use crate::host::chrony;
use crate::host::sampler::Asked;
use crate::http::clock::{Clock, Stamp};
use crate::http::words;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Example: tidegate clock -c /etc/tidegate/tidegate.toml --json\n\
    Asks the running agent; where none runs, looks at the machine itself, once.\n\
    In scripts: tidegate clock --check ends with 0 when the clock is synchronized or in\n\
    holdover, and with 1 when it is not.")]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    which: Which,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
    /// End with 1 when the clock is neither synchronized nor in holdover.
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set the clock, or vouch for it as it is, and tell the running agent.
    Set(set::Args),
}

/// `-c FILE`, which may be left out where no agent is set up.
#[derive(Debug, clap::Args)]
struct Which {
    /// The configuration of the agent [default: /etc/tidegate/tidegate.toml, if it
    /// is there].
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    path: Option<PathBuf>,
}

impl Which {
    /// `None` when nothing was named and nothing is at the usual place.
    fn load(&self) -> Result<Option<Config>, Failure> {
        let usual = || Some(PathBuf::from(CONFIG_FILE)).filter(|path| path.exists());
        let path = self.path.clone().or_else(usual);
        path.map(|path| ConfigFile { path }.load()).transpose()
    }
}

/// What `tidegate clock` knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct View {
    /// Version of this form: 1.
    v: u32,
    /// When this was said, by the clock itself.
    at: String,
    /// True when a running agent says so; false: the machine, looked at once,
    /// without the agent's memory.
    agent: bool,
    /// Why no agent was asked; `null` when one was.
    no_agent: Option<String>,
    /// Whether the clock is synchronized or in holdover.
    trusted: bool,
    /// The clock, as in the status.
    clock: Clock,
    /// Who is heard, by `clock.reference`.
    heard: Heard,
    /// Where chronyd is asked.
    chrony_address: String,
    /// The battery-backed clock and the saved one.
    boot: Boot,
    /// How a reading without a time of its own is stamped now.
    time: Stamp,
}

/// What was known before anybody vouched for the clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Boot {
    /// Whether the battery-backed clock set the time at boot.
    set_by_rtc: bool,
    /// What the battery-backed clock says.
    rtc: Option<String>,
    /// The time that was saved before the last shutdown.
    saved: Option<String>,
}

/// Who is heard on the clock: who is not is not even asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Heard {
    kernel: bool,
    chrony: bool,
    ptp: bool,
    timesyncd: bool,
}

impl Heard {
    fn by(reference: Reference) -> Self {
        let Asked { kernel, chrony, ptp, timesyncd } = Asked::by(reference);
        Self { kernel, chrony, ptp, timesyncd }
    }
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    if let Some(Action::Set(set)) = &args.action {
        return set::execute(set);
    }
    let config = args.which.load()?;
    let view = view(config.as_ref())?;
    print(&if args.json { to_json(&view)? } else { show::text(&view) })?;
    Ok(if args.check && !view.trusted { Exit::CheckFailed } else { Exit::Done })
}

fn view(config: Option<&Config>) -> Result<View, Failure> {
    let settings = config.map_or(ClockSettings::DEFAULT, |config| config.clock.settings());
    let chrony = config.map_or(chrony::DEFAULT_ADDRESS, |config| config.clock.chrony_address);
    let asked = match config {
        Some(config) => asked(&config.gateway.data_dir)?,
        None => Err(format!("there is no {CONFIG_FILE}")),
    };
    let (at, clock, no_agent) = match asked {
        Ok(report) => (report.at, report.clock, None),
        Err(why) => {
            let (at, clock) = sample::clock(settings, chrony)?;
            (at, clock, Some(why))
        }
    };
    Ok(View {
        v: 1,
        at,
        agent: no_agent.is_none(),
        no_agent,
        trusted: clock.is_trusted(),
        time: clock.stamp(),
        clock,
        heard: Heard::by(settings.reference),
        chrony_address: chrony.to_string(),
        boot: sample::boot(),
    })
}

/// The agent's report, or why there is none to be had. What a running agent
/// answers wrongly is a failure.
fn asked(data_dir: &Path) -> Result<Result<control::Report, String>, Failure> {
    match control::ask(data_dir, &control::Question::Status) {
        Ok(report) => Ok(Ok(report)),
        Err(error) => match control::absence(&error, data_dir) {
            Some(why) => Ok(Err(why)),
            None => Err(control::failure(data_dir, &error)),
        },
    }
}

#[cfg(test)]
#[path = "clock/clock_tests.rs"]
mod tests;
