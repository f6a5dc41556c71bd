//! `tidegate status`: what the running agent says about itself.

use std::fmt::Write as _;
use std::time::Duration;

use super::clock::words;
use super::{ConfigFile, control, print, to_json};
use crate::exit::{Exit, Failure};
use crate::shell::Report;

/// Between two looks of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate status -c /etc/tidegate/tidegate.toml --json")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
    /// Again every second, until interrupted.
    #[arg(long)]
    watch: bool,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let config = args.config.load()?;
    loop {
        let report = control::report(&config.gateway.data_dir)?;
        let text = if args.json { to_json(&report)? } else { text(&report) };
        if !print(&text)? || !args.watch {
            return Ok(Exit::Done);
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// For people. Writing to a string does not fail.
fn text(report: &Report) -> String {
    let mut out = String::new();
    let Report { gateway, version, epoch, journal, uplink, clock, .. } = report;
    let _ = writeln!(out, "gateway   {gateway} (tidegate {version}, epoch {epoch})");
    let _ = writeln!(out, "at        {}, up for {:.0} s", report.at, report.uptime_s);
    for trouble in &report.degraded {
        let _ = writeln!(out, "TROUBLE   {}", trouble.detail);
    }
    let for_s = uplink.for_s.map_or(String::new(), |s| format!(" for {s:.0} s"));
    let _ = writeln!(out, "uplink    {} {}{for_s}", uplink.name, uplink.state);
    let _ = writeln!(
        out,
        "          {} in flight, {:.0} acknowledged/s, {}",
        uplink.inflight,
        uplink.acknowledged_per_s,
        match uplink.drain_eta_s {
            _ if uplink.backlog == 0 => "nothing waits".to_owned(),
            Some(eta) => format!("{} wait, gone in {eta:.0} s", uplink.backlog),
            None => format!("{} wait", uplink.backlog),
        }
    );
    let _ = writeln!(
        out,
        "journal   {} readings, {} of {} bytes, {} segments, {} bytes free on disk",
        journal.readings, journal.bytes, journal.max_bytes, journal.segments, journal.free_bytes
    );
    if let (Some(time), Some(age)) = (&journal.oldest_event_time, journal.oldest_age_s) {
        let _ = writeln!(out, "          oldest of {time}, {age:.0} s ago");
    }
    let _ = writeln!(out, "clock     {}", words::state(clock));
    for more in [words::waiting(clock), words::last_step(clock)].into_iter().flatten() {
        let _ = writeln!(out, "          {more}");
    }
    let _ = writeln!(out, "sources   {:.0} readings/s", report.accepted_per_s);
    for one in &report.sources {
        let last =
            one.last_reading_age_s.map_or("none yet".to_owned(), |s| format!("{s:.0} s ago"));
        let _ = writeln!(
            out,
            "  {}: {} accepted = {} acknowledged + {} stored + {} evicted + {} lost; \
             {} quarantined; last {last}",
            one.name,
            one.accepted,
            one.acknowledged,
            one.stored,
            one.evicted,
            one.lost,
            one.quarantined
        );
    }
    out
}
