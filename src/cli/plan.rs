//! `tidegate plan`: what a configuration will need, before it runs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{ConfigFile, print, to_json};
use crate::config::{Config, SourceKind};
use crate::core::id::Seq;
use crate::core::length::bound_text;
use crate::core::time::{EventTime, Span};
use crate::core::window::{Accumulator, Aggregate, Kind, Number, Sample, WindowSpec};
use crate::exit::{Exit, Failure};

/// What a reading takes, by how many go into one commit: readings a commit, bytes on disk,
/// bytes that reach the disk. Measured (`benches/README.md`); blocks are written whole, so
/// that small commits are dear.
const COSTS: [(f64, f64, f64); 4] =
    [(5.0, 155.0, 920.0), (50.0, 54.0, 200.0), (500.0, 13.0, 53.0), (4_096.0, 8.0, 6.4)];
/// Assumed bytes on disk of one window result.
const RESULT_BYTES: f64 = 60.0;
/// Readings a second, where neither the command line nor the sources say.
const RATE: f64 = 100.0;
/// Series, where the command line does not say.
const KEYS: u64 = 100;
/// Beside the aggregates of a pane: its place in the index, coverage, what the
/// allocator takes. Measured: `cargo bench --bench windows`.
const PANE_BYTES: u64 = 112;
/// Bytes of merged state that a sliding window keeps per pane, about.
const BLOCK_BYTES: u64 = 48;
/// Readings of a pane that are tried to see how much it takes.
const TRIED_MAX: u64 = 100_000;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate plan -c tidegate.toml --rate 2000 --keys 500\n\n\
    Figures rest on the assumptions that are printed with them; measure before you rely on them.")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Readings a second, over all sources. Default: those of simulated sources,
    /// else 100.
    #[arg(long, value_name = "N", value_parser = positive)]
    rate: Option<f64>,
    /// Series (entity and property) that each window sees.
    #[arg(long, value_name = "N", default_value_t = KEYS,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: u64,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (1e-3..=1e9).contains(rate));
    rate.ok_or_else(|| "not a number from 0.001 to 1000000000".to_owned())
}

/// What a configuration will need.
#[derive(Debug, PartialEq, Serialize)]
struct Plan {
    /// Version of this form: 1.
    v: u32,
    /// Readings a second.
    rate: f64,
    /// Series.
    keys: u64,
    buffer: Buffer,
    /// State of all windows, in bytes.
    window_state_bytes: u64,
    windows: Vec<WindowPlan>,
    /// Bytes that reach the disk in a day.
    written_per_day_bytes: u64,
    /// What all of this rests on.
    assumptions: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Buffer {
    /// `journal.max_bytes`.
    max_bytes: u64,
    /// Readings that fit, beside the results that belong to them.
    readings: u64,
    /// Seconds without uplink until the oldest must go.
    lasts_s: f64,
}

#[derive(Debug, PartialEq, Serialize)]
struct WindowPlan {
    name: String,
    /// Panes of one series at once.
    panes_per_key: u64,
    /// Readings in one pane.
    readings_per_pane: u64,
    bytes_per_pane: u64,
    state_bytes: u64,
    /// Results in a day, over all series: the first of each window, and its final
    /// marker. Revisions come on top.
    results_per_day: u64,
    /// Whether they go up, and so through the journal.
    upstream: bool,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let config = args.config.load()?;
    let plan = plan(&config, args.rate, args.keys);
    print(&if args.json { to_json(&plan)? } else { text(&plan) })?;
    Ok(Exit::Done)
}

fn plan(config: &Config, rate: Option<f64>, keys: u64) -> Plan {
    let simulated = config.sources.iter().map(|source| match &source.kind {
        SourceKind::Simulate(plc) => plc.rate,
        _ => 0.0,
    });
    let simulated: f64 = simulated.sum();
    let (rate, said) = match rate {
        Some(rate) => (rate, "--rate"),
        None if simulated > 0.0 => (simulated, "the simulated sources"),
        None => (RATE, "nothing else; give --rate"),
    };
    let max_bytes = config.journal.max_bytes;
    let windows: Vec<WindowPlan> =
        config.windows.iter().map(|window| window_plan(window, rate, keys)).collect();
    let results = windows.iter().filter(|window| window.upstream);
    let results_per_s = results.map(|window| window.results_per_day).sum::<u64>() as f64 / 86_400.0;
    let commit_s = config.journal.commit_interval.as_secs_f64();
    let in_commit = ((rate + results_per_s) * commit_s).max(1.0);
    let (stored, written) = cost(in_commit);
    let result = stored.max(RESULT_BYTES);
    let stored_per_s = rate * stored + results_per_s * result;
    // Of what a commit writes beyond its content nothing grows with the content.
    let written_per_s = rate * written + results_per_s * (written + result - stored);
    let lasts_s = max_bytes as f64 / stored_per_s;
    Plan {
        v: 1,
        rate,
        keys,
        buffer: Buffer { max_bytes, readings: (lasts_s * rate) as u64, lasts_s: lasts_s.round() },
        window_state_bytes: windows
            .iter()
            .fold(0, |sum, window| window.state_bytes.saturating_add(sum)),
        windows,
        written_per_day_bytes: (written_per_s * 86_400.0) as u64,
        assumptions: vec![
            format!("{rate} readings/s, by {said}; spread evenly over {keys} series a window"),
            format!(
                "{stored:.0} bytes on disk and {written:.0} written a reading, at {in_commit:.0} a \
                 commit (commit_interval): measured with plain numbers. Texts and composites take \
                 more; fewer readings a commit take more each"
            ),
            format!(
                "{RESULT_BYTES} bytes on disk a window result that goes up; a pane takes its \
                 aggregates, tried just now, and {PANE_BYTES} bytes; of a sliding window its \
                 aggregates a second time, without readings that are kept, and {BLOCK_BYTES} bytes"
            ),
        ],
    }
}

/// Bytes on disk and bytes written of one entry, where `in_commit` go into a commit: between
/// what was measured straight lines in logarithms; below it a commit costs what the smallest
/// one did, above it an entry what it did in the largest.
fn cost(in_commit: f64) -> (f64, f64) {
    let [(least, stored, written), .., (_, stored_least, written_least)] = COSTS;
    if in_commit < least {
        return (stored, written * least / in_commit);
    }
    for pair in COSTS.windows(2) {
        let [(from, stored, written), (to, stored_to, written_to)] = *pair else { continue };
        if in_commit <= to {
            let share = (in_commit / from).ln() / (to / from).ln();
            let between = |from: f64, to: f64| from * (to / from).powf(share);
            return (between(stored, stored_to), between(written, written_to));
        }
    }
    (stored_least, written_least)
}

fn window_plan(window: &WindowSpec, rate: f64, keys: u64) -> WindowPlan {
    let day = Span::from_secs(86_400);
    let (size, step) = match window.kind {
        Kind::Tumbling { size, .. } => (size, size),
        Kind::Sliding { size, slide, .. } => (size, slide),
        // One after the other without a pause.
        Kind::Session { gap } => (gap, gap),
        Kind::CalendarDay { .. } => (day, day),
    };
    let step_s = step.as_secs_f64().max(1e-3);
    let held = window.bound + size + window.allowed_lateness;
    let panes_per_key = (held.as_secs_f64() / step_s).ceil().max(1.0) as u64;
    let readings_per_pane = (rate / keys as f64 * size.as_secs_f64()).ceil().max(1.0) as u64;
    let aggregates = tried(&window.aggregates, readings_per_pane, size);
    let is_sliding = matches!(window.kind, Kind::Sliding { .. });
    let kept = if is_sliding { BLOCK_BYTES + aggregates.condensed().weight() as u64 } else { 0 };
    let bytes_per_pane = PANE_BYTES + aggregates.weight() as u64 + kept;
    // Windows without a reading have no result.
    let share = (rate / keys as f64 * size.as_secs_f64()).min(1.0);
    let has_marker = window.final_marker && window.allowed_lateness > Span::ZERO;
    let each = if has_marker { 2.0 } else { 1.0 };
    let panes = keys.saturating_mul(panes_per_key);
    WindowPlan {
        name: window.name.to_string(),
        panes_per_key,
        readings_per_pane,
        bytes_per_pane,
        state_bytes: panes.saturating_mul(bytes_per_pane),
        results_per_day: (86_400.0 / step_s * keys as f64 * share * each) as u64,
        upstream: window.upstream,
    }
}

/// By trying: values that swing over a decade, at even distances.
fn tried(wanted: &[Aggregate], readings: u64, size: Span) -> Accumulator {
    let mut tried = Accumulator::new(wanted);
    let count = readings.min(TRIED_MAX);
    let step_ns = size.ns() / count.max(1).cast_signed();
    for i in 0..count {
        let value = 10.0 + (i * 7_919 % 9_000) as f64 / 100.0;
        let at = EventTime::from_unix_ns(step_ns.saturating_mul(i.cast_signed()));
        tried.add(&Sample { at, seq: Seq(i), value: Number::Real(value) });
    }
    tried
}

/// For people. Writing to a string does not fail.
fn text(plan: &Plan) -> String {
    let mut out = String::new();
    let Plan { rate, keys, buffer, .. } = plan;
    let _ = writeln!(out, "load      {rate} readings/s, {keys} series");
    let lasts = bound_text(Span::from_secs_f64(buffer.lasts_s));
    let _ = writeln!(
        out,
        "buffer    {} hold {} readings: {lasts} without uplink",
        binary_bytes(buffer.max_bytes),
        buffer.readings
    );
    let _ = writeln!(out, "flash     {} written a day", binary_bytes(plan.written_per_day_bytes));
    let _ = writeln!(out, "windows   {} of state", binary_bytes(plan.window_state_bytes));
    for one in &plan.windows {
        let _ = writeln!(
            out,
            "  {}: {} = {keys} series x {} panes x {} bytes; {} readings a pane, {} results a day",
            one.name,
            binary_bytes(one.state_bytes),
            one.panes_per_key,
            one.bytes_per_pane,
            one.readings_per_pane,
            one.results_per_day
        );
    }
    for one in &plan.assumptions {
        let _ = writeln!(out, "assumed   {one}");
    }
    out
}

/// "1.5 MiB": in the units of `journal.max_bytes`, which such figures are set against.
fn binary_bytes(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(factor, _)| bytes >= *factor) {
        Some((factor, unit)) => format!("{:.1} {unit}", bytes as f64 / *factor as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const TEXT: &str = "
        [gateway]
        id = 'gw'
        data_dir = '/d'
        [journal]
        max_bytes = '900MiB'
        [[uplink]]
        url = 'mqtt://b'
        [[window]]
        name = 'w'
        kind = 'sliding'
        size = '1m'
        slide = '10s'
        bound = '20s'
        allowed_lateness = '1m'
        [[window]]
        name = 'day'
        kind = 'calendar-day'
        zone = 'Europe/Berlin'
        aggregates = ['twa', 'p99']
    ";

    #[test]
    fn a_plan_follows_from_the_file_and_the_load() {
        let config = Config::parse(TEXT, Path::new("t.toml")).unwrap();
        let plan = plan(&config, Some(1_000.0), 500);
        // 550 a commit: 13 bytes of a reading stay and 48 are written; 100 results a second.
        assert_eq!(plan.buffer.readings / 100_000, 504);
        assert_eq!((plan.buffer.lasts_s / 100.0).floor(), 504.0);
        assert_eq!(plan.written_per_day_bytes / 1_000_000_000, 4);
        let sliding = &plan.windows[0];
        assert_eq!((sliding.panes_per_key, sliding.readings_per_pane), (14, 120));
        assert_eq!(sliding.state_bytes, 500 * 14 * sliding.bytes_per_pane);
        assert_eq!(sliding.results_per_day, 2 * 8_640 * 500);
        assert!((300..340).contains(&sliding.bytes_per_pane), "{}", sliding.bytes_per_pane);
        // 172,800 readings: thinned to 4,096 points at most.
        let day = &plan.windows[1];
        assert_eq!((day.panes_per_key, day.readings_per_pane), (2, 172_800));
        assert!((50_000..250_000).contains(&day.bytes_per_pane), "{}", day.bytes_per_pane);
        assert_eq!(plan.window_state_bytes, sliding.state_bytes + day.state_bytes);
        let said = text(&plan);
        assert!(said.contains(" readings: 14h without uplink\n"), "{said}");
    }

    #[test]
    fn what_is_written_follows_from_the_size_of_the_commits() {
        let day = |rate: f64, interval: &str| {
            let text = TEXT.split("[[window]]").next().unwrap();
            let text = format!("{text}\n[journal]\ncommit_interval = '{interval}'\n");
            let text = text.replacen("[journal]\n        max_bytes = '900MiB'\n", "", 1);
            let config = Config::parse(&text, Path::new("t.toml")).unwrap();
            plan(&config, Some(rate), KEYS).written_per_day_bytes
        };
        // As measured: 0.79 GB and 0.17 GB a day.
        assert_eq!(day(10.0, "500ms") / 1_000_000, 794);
        assert_eq!(day(10.0, "5s") / 1_000_000, 172);
        // As many commits cost as much, whatever they hold.
        assert_eq!(day(1.0, "5s"), day(10.0, "500ms") / 10);
        assert_eq!(day(100_000.0, "500ms"), (6.4 * 100_000.0 * 86_400.0) as u64);
        assert_eq!(cost(1.0).1, 4_600.0);
        let (stored, written) = cost(10.5);
        assert_eq!(
            (stored.round(), written.round()),
            (110.0, 563.0),
            "measured: 98 to 99, 500 to 509"
        );
    }

    #[test]
    fn the_load_is_that_of_the_simulated_sources_where_nothing_is_said() {
        let text = format!("{TEXT}[[source]]\nname = 's'\ntype = 'simulate'\nrate = 40.0\n");
        let load =
            |text: &str| plan(&Config::parse(text, Path::new("t.toml")).unwrap(), None, KEYS).rate;
        assert_eq!((load(&text), load(TEXT)), (40.0, 100.0));
    }
}
