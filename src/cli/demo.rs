//! `tidegate demo`: the whole job with nothing to install.
//!
//! ```text
//! simulated PLC -> agent -> cable (cut, mended) -> broker -> subscriber
//!                    |                                          |
//!                    +-- "accepted N" ------> proof <-- what came
//! ```
//!
//! The agent is the one that `tidegate run` starts, in this process.

mod broker;
mod cable;
mod script;
mod subscriber;
mod view;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::script::Script;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::host;
use crate::shell::notices::Notices;
use crate::shell::run;

/// The gateway's name in the demo.
const GATEWAY: &str = "demo";
/// How long the uplink is cut unless said otherwise.
const OUTAGE: Duration = Duration::from_secs(12);
/// Keeps what is noted per reading within some hundred megabytes.
const READINGS_MAX: f64 = 5_000_000.0;

/// How long, how fast, how broken.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate demo --for 20s --outage 8s --rate 1000\n\
    Exit code 0: the proof holds; 1: it does not, or the demo was interrupted.")]
pub struct Args {
    /// How long the PLC runs.
    #[arg(long = "for", value_name = "DURATION", default_value = "45s",
        value_parser = humantime::parse_duration)]
    run_for: Duration,
    /// How long the uplink is cut in the middle of it; `0s` for not at all
    /// [default: 12s, or a third of a short run].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    outage: Option<Duration>,
    /// Readings a second.
    #[arg(long, value_name = "N", default_value_t = 200.0)]
    rate: f64,
}

/// What is going to happen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plan {
    run_for: Duration,
    outage: Duration,
    rate: f64,
    /// Readings in all.
    count: u64,
}

impl Plan {
    fn new(args: &Args) -> Result<Self, Failure> {
        let usage = |problem: &str| Err(Failure::new(Exit::Usage, problem));
        let Args { run_for, outage, rate } = *args;
        let outage = outage.unwrap_or(OUTAGE.min(Duration::from_secs(run_for.as_secs() / 3)));
        if !(1.0..=100_000.0).contains(&rate) {
            return usage("--rate: between 1 and 100000 readings a second");
        }
        if run_for < Duration::from_secs(1) {
            return usage("--for: at least 1s");
        }
        if outage >= run_for {
            return usage("--outage: shorter than --for");
        }
        let count = (rate * run_for.as_secs_f64()).round();
        if count > READINGS_MAX {
            return usage("--for times --rate: at most 5000000 readings");
        }
        Ok(Self { run_for, outage, rate, count: count as u64 })
    }

    /// Seconds after the start.
    fn cut_at_s(&self) -> f64 {
        (self.run_for - self.outage).as_secs_f64() / 2.0
    }

    /// Seconds after the start.
    fn mend_at_s(&self) -> f64 {
        self.cut_at_s() + self.outage.as_secs_f64()
    }
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let plan = Plan::new(args)?;
    let runtime =
        run::runtime().map_err(|error| Failure::io("the runtime cannot start", &error))?;
    // No log lines are written: the agent's, the broker's and the client's would
    // only break the picture. The page shows the agent's.
    let notices = Notices::default();
    let ring = tracing_subscriber::registry().with(LevelFilter::INFO).with(notices.clone());
    ring.try_init().map_err(|error| Failure::new(Exit::Bug, error))?;
    let home = Home::new()?;
    let proof = runtime.block_on(Script::new(plan).play(&home.path, notices));
    runtime.shutdown_background();
    Ok(if proof?.holds() { Exit::Done } else { Exit::CheckFailed })
}

/// A data directory for one demo, removed when dropped.
#[derive(Debug)]
struct Home {
    path: PathBuf,
}

impl Home {
    fn new() -> Result<Self, Failure> {
        let name = format!("tidegate-demo-{}-{:016x}", std::process::id(), host::draw());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::io(path.display(), &error))?;
        Ok(Self { path })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed is in the directory for such things.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The configuration as an operator would write it.
fn config(plan: &Plan, data_dir: &Path, uplink_port: u16) -> Result<Config, Failure> {
    let path = data_dir.to_str().ok_or_else(|| {
        Failure::new(Exit::Io, "the directory for temporary files has a name that is no text")
    })?;
    let data_dir_text = toml::Value::from(path).to_string();
    let (rate, count, seed) = (plan.rate, plan.count, host::draw() >> 1);
    let text = format!(
        r#"
[gateway]
id = "{GATEWAY}"
data_dir = {data_dir_text}

# A demo does not wait for NTP.
[clock]
hold_unsynchronized = "0s"

[journal]
reserve_free = "16MiB"

[[uplink]]
url = "mqtt://127.0.0.1:{uplink_port}"
reconnect_max = "1s"
frontier_interval = "1s"

[[source]]
name = "plc"
type = "simulate"
seed = {seed}
rate = {rate:?}
count = {count}
# Some readings refine a window that has fired, some come too late for it.
disorder = "2500ms"

[source.time]
latency_max = "3s"

[[window]]
name = "plc-2s"
kind = "tumbling"
size = "2s"
bound = "1s"
allowed_lateness = "1s"
aggregates = ["count", "mean", "min", "max"]

# A port that is free, to look at the demo while it runs.
[http]
listen = "127.0.0.1:0"
"#
    );
    Config::parse(&text, Path::new("the demo's configuration"))
        .map_err(|problems| Failure::new(Exit::Bug, problems))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(run_for_s: u64, outage_s: Option<u64>, rate: f64) -> Result<Plan, Failure> {
        let run_for = Duration::from_secs(run_for_s);
        Plan::new(&Args { run_for, outage: outage_s.map(Duration::from_secs), rate })
    }

    #[test]
    fn the_outage_lies_in_the_middle() {
        let plan = plan(45, Some(12), 200.0).unwrap();
        assert_eq!((plan.count, plan.cut_at_s(), plan.mend_at_s()), (9_000, 16.5, 28.5));
    }

    #[test]
    fn an_outage_that_is_not_given_fits_the_run() {
        for (run_for_s, outage_s) in [(45, 12), (36, 12), (6, 2)] {
            let outage = plan(run_for_s, None, 200.0).unwrap().outage;
            assert_eq!(outage, Duration::from_secs(outage_s));
        }
    }

    #[test]
    fn what_cannot_be_played_is_a_matter_of_usage() {
        for (run_for_s, outage_s, rate) in
            [(10, 10, 200.0), (0, 0, 200.0), (10, 2, 0.0), (10, 2, f64::NAN), (3_600, 2, 5_000.0)]
        {
            assert_eq!(plan(run_for_s, Some(outage_s), rate).unwrap_err().exit, Exit::Usage);
        }
    }

    #[test]
    fn the_configuration_is_accepted_whatever_the_rate() {
        for rate in [1.0, 199.5, 100_000.0] {
            let plan = plan(10, Some(2), rate).unwrap();
            let config = config(&plan, Path::new("/tmp/a \"quoted\" place"), 1_883).unwrap();
            assert!(config.http.listen.unwrap().ip().is_loopback());
            assert_eq!(config.gateway.data_dir, Path::new("/tmp/a \"quoted\" place"));
        }
    }
}
