//! `tidegate lateness`: how late readings come, and the bound to choose.

use std::fmt::Write as _;
use std::io;

use super::digits::grouped;
use super::table::{Cell, table};
use super::terminal::Paint;
use super::{ConfigFile, control, print, to_json};
use crate::core::length::bound_text;
use crate::core::time::Span;
use crate::exit::{Exit, Failure};
use crate::http::lateness::{LatenessReport, SourceLateness};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate lateness -c /etc/tidegate/tidegate.toml\n\n\
    Arrival less event time, over all readings since the data directory was made whose stamp is\n\
    plausible and whose clock was trusted. Negative where stamps lie ahead. Asks the running agent.")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let config = args.config.load()?;
    let report = LatenessReport::new(&control::report(&config.gateway.data_dir)?);
    print(&if args.json { to_json(&report)? } else { text(&report, Paint::of(&io::stdout())) })?;
    Ok(Exit::Done)
}

const HEAD: [&str; 8] = ["source", "readings", "p50", "p95", "p99", "p99.9", "p99.99", "max"];

/// For people: a table, then what to choose.
fn text(report: &LatenessReport, paint: Paint) -> String {
    if report.sources.is_empty() {
        return "no reading has been measured yet: it takes a plausible stamp and a trusted clock\n"
            .to_owned();
    }
    let rows: Vec<_> = report.sources.iter().map(row).collect();
    let mut out = table("", HEAD, &rows, paint).join("\n") + "\n";
    for one in &report.sources {
        let _ = write!(out, "\n{}: {}\n", one.name, one.advice);
    }
    out
}

fn row(one: &SourceLateness) -> [Cell; 8] {
    let length = |seconds: f64| Cell::plain(bound_text(Span::from_secs_f64(seconds)));
    [
        Cell::plain(&one.name),
        Cell::plain(grouped(one.count)),
        length(one.p50_s),
        length(one.p95_s),
        length(one.p99_s),
        length(one.p999_s),
        length(one.p9999_s),
        length(one.max_s),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_the_advice_follows() {
        let one = |name: &str, p99_s: f64| SourceLateness {
            name: name.to_owned(),
            count: 123_456,
            p50_s: 0.012,
            p95_s: -0.5,
            p99_s,
            p999_s: 17.25,
            p9999_s: 90.0,
            max_s: 7_500.0,
            fast_bound_s: 5.0,
            correction_bound_s: 120.0,
            advice: "choose".to_owned(),
        };
        let mut report = LatenessReport {
            v: 1,
            gateway: "gw".to_owned(),
            at: String::new(),
            sources: vec![one("a", 3.0), one("press-line", 4.5)],
        };
        let expected = "\
source      readings   p50     p95   p99  p99.9  p99.99    max
a            123,456  12ms  -500ms    3s  17.2s  1m 30s  2h 5m
press-line   123,456  12ms  -500ms  4.5s  17.2s  1m 30s  2h 5m

a: choose

press-line: choose
";
        assert_eq!(text(&report, Paint::OFF), expected);
        report.sources.clear();
        assert!(text(&report, Paint::OFF).starts_with("no reading has been measured yet"));
    }
}
