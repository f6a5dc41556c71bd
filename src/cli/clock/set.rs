//! `tidegate clock set`: for a site without a network, where an operator with a
//! watch is the best source there is.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::{CONFIG_FILE, Which, control, print, words};
use crate::core::clock::ClockSettings;
use crate::core::time::IngestTime;
use crate::exit::{Exit, Failure};
use crate::host::clocks;
use crate::http::api::VOUCH_ERROR_MAX_NS;

/// Nobody sets a clock by hand better than this.
const ERROR_MIN: Duration = Duration::from_millis(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate clock set 2026-11-30T14:05:00+01:00 --error 2s\n\
    Example: tidegate clock set now --error 1s\n\
    Setting the clock takes root: run it with sudo. The agent then trusts the clock, with a\n\
    bound that grows from the stated error, until a time source takes over.")]
pub(super) struct Args {
    /// The time as RFC 3339 with its offset, or `now`: the clock is right as it
    /// is, compared with a watch.
    #[arg(value_name = "TIME|now", value_parser = target)]
    target: Target,
    /// How far the clock may be off after that; 1ms to 1h.
    #[arg(long, value_name = "DURATION", value_parser = stated_error)]
    error: Duration,
    #[command(flatten)]
    which: Which,
}

/// What the operator says the time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// What the clock shows.
    Now,
    /// The given time.
    At(IngestTime),
}

/// How the word to the agent came out.
#[derive(Debug)]
pub(super) enum Told {
    /// It was taken; the clock in words.
    Taken(String),
    /// There was nobody to tell: why.
    Nobody(String),
}

pub(super) fn target(written: &str) -> Result<Target, String> {
    const FORM: &str = "write it like 2026-11-30T14:05:00Z or 2026-11-30T14:05:00+01:00, or now";
    if written == "now" {
        return Ok(Target::Now);
    }
    let parsed = chrono::DateTime::parse_from_rfc3339(written);
    let parsed = parsed.map_err(|error| format!("no RFC 3339 time ({error}); {FORM}"))?;
    let unix_ns = parsed.timestamp_nanos_opt().ok_or("after 2262: mind the year")?;
    let floor = IngestTime::from_unix_ns(ClockSettings::DEFAULT.floor_ns);
    let time = IngestTime::from_unix_ns(unix_ns);
    if time < floor {
        return Err(format!("before {floor}, when this version was made: mind the year"));
    }
    Ok(Target::At(time))
}

pub(super) fn stated_error(written: &str) -> Result<Duration, String> {
    let error = humantime::parse_duration(written)
        .map_err(|error| format!("no duration ({error}); write it like 500ms or 2s"))?;
    if (ERROR_MIN..=Duration::from_nanos(VOUCH_ERROR_MAX_NS)).contains(&error) {
        return Ok(error);
    }
    Err("out of range; use 1ms to 1h".to_owned())
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    // First, so that a wrong file costs nothing.
    let config = args.which.load()?;
    if let Target::At(time) = args.target {
        clocks::set_wall(time).map_err(|error| refused(&error))?;
    }
    let told = match &config {
        Some(config) => tell(&config.gateway.data_dir, args.error),
        None => Ok(Told::Nobody(format!("there is no {CONFIG_FILE}; name yours with -c"))),
    };
    let said = outcome(args.target, told)?;
    print(&said)?;
    Ok(Exit::Done)
}

/// What is said in the end.
pub(super) fn outcome(target: Target, told: Result<Told, Failure>) -> Result<String, Failure> {
    let (is_set, prefix) = match target {
        Target::Now => (false, ""),
        Target::At(_) => (true, "the clock is set, but "),
    };
    match told {
        Ok(Told::Taken(clock)) if is_set => {
            Ok(format!("the clock is set and the agent knows: {clock}\n"))
        }
        Ok(Told::Taken(clock)) => Ok(format!("the agent takes your word: {clock}\n")),
        Ok(Told::Nobody(why)) if is_set => {
            Ok(format!("the clock is set, but no agent heard of it: {why}\n"))
        }
        Ok(Told::Nobody(why)) => {
            Err(Failure::new(Exit::Io, format_args!("no agent heard of it: {why}")))
        }
        Err(Failure { exit, message }) => {
            Err(Failure::new(exit, format_args!("{prefix}{message}")))
        }
    }
}

fn tell(data_dir: &Path, error: Duration) -> Result<Told, Failure> {
    let error_ns = u64::try_from(error.as_nanos()).unwrap_or(VOUCH_ERROR_MAX_NS);
    match control::ask(data_dir, &control::Question::Vouch { error_ns }) {
        Ok(report) => Ok(Told::Taken(words::state(&report.clock))),
        Err(error) => match control::absence(&error, data_dir) {
            Some(why) => Ok(Told::Nobody(why)),
            None => Err(control::failure(data_dir, &error)),
        },
    }
}

/// Why the clock could not be set.
pub(super) fn refused(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::PermissionDenied {
        let said = "only root may set the clock: run it again with sudo";
        return Failure::new(Exit::Io, said);
    }
    Failure::io("the clock cannot be set", error)
}
