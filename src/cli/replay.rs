//! `tidegate replay`: a trace through the window engine, in order and in
//! disorder. Windows are right if every run comes to the same final results.
//!
//! No agent takes part: no clock, no journal, no idle sources. Every source of the
//! trace is waited for to its end; then event time runs out and everything that is
//! open is fired. Each timebase of gateway-stamped readings is on its own.
//!
//! The pushed clock of `--step` shows the consequence of a flag, not its cause: the
//! stamps are taken as found out. Whether an agent finds them out is up to
//! `future_limit` of the source.

use std::path::PathBuf;
use std::time::Duration;

mod align;
mod disorder;
mod engine;
mod report;
mod trace;

use self::disorder::{Disorder, Step, schedule, share};
use self::engine::{compare, run};
use self::report::{Report, RunReport, hints};
use self::trace::{Loader, Trace};
use super::{CONFIG_FILE, ConfigFile, print, to_json};
use crate::config::Config;
use crate::core::time::Span;
use crate::exit::{Exit, Failure};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate replay press-line.jsonl --window tidegate.toml \
    --shuffle 1m --runs 100\n\
    Example: tidegate replay /var/lib/tidegate --step +10m@50%\n\
    Example: tidegate replay press-line.jsonl oven.jsonl --max-drift 1m\n\n\
    A TRACE is a file of JSON lines, in the order they arrived: readings as a source takes them \
    (with a time), or as the uplink sends them and `journal cat` prints them. Or it is a data \
    directory whose agent does not run. A file that is named like a source of the configuration \
    is read as that source says; of another file every window takes what fits its entity and \
    property. Times without an offset are taken as UTC. The trace is held in memory.\n\n\
    Ends with 0 when every run came to the results of the undisturbed run, and with 1 and the \
    differences when not. Reals may differ in the last digits. A shuffle beyond bound + \
    allowed_lateness of a window makes readings too late for it: then results do differ.")]
pub(super) struct Args {
    /// What to replay: files of JSON lines, data directories.
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// The configuration whose windows are tried, all of them.
    #[arg(long, value_name = "FILE", default_value = CONFIG_FILE)]
    window: PathBuf,
    /// Readings come later by up to this, in event time; at most 365 days.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = shuffle)]
    shuffle: Duration,
    /// Share of the readings that come twice.
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    duplicate: f64,
    /// A tenth of the trace, from that place on, comes first with device stamps
    /// that are pushed forward by DURATION and flagged `future`, then as it was.
    #[arg(long, value_name = "+DURATION@SHARE", value_parser = Step::parse)]
    step: Option<Step>,
    /// Sources of unequal depth side by side: one that is further ahead of the
    /// slowest than this waits for it, as long as that has readings left. `none`
    /// takes the traces as they are, one after the other.
    #[arg(long, value_name = "DURATION", default_value = "none", value_parser = drift)]
    max_drift: MaxDrift,
    /// Of the first disturbed run; each further one takes the next.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Disturbed runs.
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    runs: u64,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
}

/// How far a source may be ahead of the slowest; `None`: as far as it likes.
type MaxDrift = Option<Duration>;

fn drift(written: &str) -> Result<MaxDrift, String> {
    if written == "none" { Ok(None) } else { shuffle(written).map(Some) }
}

fn shuffle(written: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(365 * 86_400);
    let length = humantime::parse_duration(written).map_err(|error| error.to_string())?;
    if length > MOST { Err("more than 365 days".to_owned()) } else { Ok(length) }
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let config = ConfigFile { path: args.window.clone() }.load()?;
    let trace = load(args, &config)?;
    // One line a run as it ends: the progress of a long job.
    let mut is_heard = true;
    let report = replay(args, &config, &trace, |text| {
        if is_heard && !args.json {
            is_heard = print(text)?;
        }
        Ok(())
    })?;
    if args.json {
        print(&to_json(&report)?)?;
    } else if is_heard {
        print(&report.verdict())?;
    }
    Ok(if report.converged { Exit::Done } else { Exit::CheckFailed })
}

fn load(args: &Args, config: &Config) -> Result<Trace, Failure> {
    let file = args.window.display();
    if config.windows.is_empty() {
        let what = format_args!("{file}: there is no [[window]] to try; add one");
        return Err(Failure::new(Exit::Config, what));
    }
    let mut loader = Loader::new(config);
    for path in &args.traces {
        loader.add(path)?;
    }
    let trace = loader.finish();
    if trace.readings.is_empty() {
        let mut what = "the trace holds no reading with a number".to_owned();
        for why in &trace.refused {
            what += "\n";
            what += why;
        }
        return Err(Failure::new(Exit::Io, what));
    }
    if trace.routes.iter().all(Vec::is_empty) {
        let what = format_args!(
            "no window of {file} takes any of the readings: compare their sources, entities and \
             properties with [[window]]"
        );
        return Err(Failure::new(Exit::Config, what));
    }
    Ok(trace)
}

/// `say` hears the head and each run as it ends.
fn replay(
    args: &Args,
    config: &Config,
    trace: &Trace,
    mut say: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<Report, Failure> {
    let specs = &config.windows;
    let disorder = Disorder {
        shuffle: Span::from_std(args.shuffle),
        duplicate: args.duplicate,
        step: args.step,
    };
    let aligned = |order: Vec<usize>| match args.max_drift {
        Some(drift) => align::align(&trace.readings, &order, Span::from_std(drift)),
        None => order,
    };
    let in_order = aligned((0..trace.readings.len()).collect());
    let undisturbed = run(specs, trace, &in_order, None);
    let mut report = Report::new(trace, specs, &undisturbed);
    say(&report.head())?;
    let mut too_late = vec![0; specs.len()];
    for number in 1..=args.runs {
        let seed = args.seed.wrapping_add(number - 1);
        let order = aligned(schedule(&trace.readings, &disorder, seed));
        let outcome = run(specs, trace, &order, disorder.step.as_ref());
        let differences = compare(&undisturbed, &outcome, trace.scale);
        for (sum, late) in too_late.iter_mut().zip(&outcome.too_late) {
            *sum += late;
        }
        let one = RunReport::new(number, Some(seed), &outcome, differences.len());
        say(&one.line())?;
        report.add(one, &differences);
    }
    if !report.converged {
        report.hints = hints(specs, &disorder, &undisturbed, &too_late);
    }
    Ok(report)
}

#[cfg(test)]
#[path = "replay/replay_tests.rs"]
mod tests;
