//! `tidegate status`: what the running agent says about itself.

use std::fmt::Write as _;
use std::time::Duration;

use super::{ConfigFile, control, print, to_json};
use crate::exit::{Exit, Failure};
use crate::http::orders::Ordered;
use crate::http::status::{Journal, Source, SourceHealth, Uplink};
use crate::http::windows::Window;
use crate::http::words;
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
    let data_dir = args.config.data_dir()?;
    loop {
        let report = control::report(&data_dir)?;
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
    let Report { gateway, version, epoch, journal, clock, .. } = report;
    let _ = writeln!(out, "gateway   {gateway} (tidegate {version}, epoch {epoch})");
    let _ = writeln!(out, "at        {}, up for {:.0} s", report.at, report.uptime_s);
    for trouble in &report.degraded {
        let _ = writeln!(out, "TROUBLE   {}", trouble.detail);
    }
    for one in &report.uplinks {
        out += &uplink(one);
    }
    let _ = writeln!(
        out,
        "journal   {}, {} of {} bytes, {} segments, {} bytes free on disk",
        waiting(journal),
        journal.bytes,
        journal.max_bytes,
        journal.segments,
        journal.free_bytes
    );
    if let Some(lasts) = lasts(journal) {
        let _ = writeln!(out, "          {lasts}");
    }
    if let Some(written) = written(journal) {
        let _ = writeln!(out, "          {written}");
    }
    if let (Some(time), Some(age)) = (&journal.oldest_event_time, journal.oldest_age_s) {
        let _ = writeln!(out, "          oldest of {time}, {age:.0} s ago");
    }
    for (i, said) in words::all(clock).iter().enumerate() {
        let _ = writeln!(out, "{:<10}{said}", if i == 0 { "clock" } else { "" });
    }
    let _ = writeln!(out, "sources   {:.0} readings/s", report.accepted_per_s);
    for one in &report.sources {
        let _ = writeln!(out, "  {}", books(one));
        if let Some(line) = one.health.as_ref().and_then(health) {
            let _ = writeln!(out, "    {line}");
        }
    }
    for one in &report.windows {
        let _ = writeln!(out, "window    {}", window(one));
    }
    for one in &report.ordered {
        let _ = writeln!(out, "ordered   {}", ordered(one));
    }
    out
}

fn uplink(one: &Uplink) -> String {
    let for_s = one.for_s.map_or(String::new(), |s| format!(" for {s:.0} s"));
    let waits = match one.drain_eta_s {
        _ if one.backlog == 0 => "nothing waits".to_owned(),
        Some(eta) => format!("{} wait, gone in {eta:.0} s", one.backlog),
        None => format!("{} wait", one.backlog),
    };
    let lane = match one.backfill {
        0 => String::new(),
        backfill => format!(" ({backfill} of them beside live readings)"),
    };
    let Uplink { name, state, inflight, acknowledged_per_s, .. } = one;
    format!(
        "uplink    {name} {state}{for_s}\n          {inflight} in flight, \
         {acknowledged_per_s:.0} acknowledged/s, {waits}{lane}\n"
    )
}

/// What waits for an uplink; results of windows are no readings.
fn waiting(journal: &Journal) -> String {
    let readings = journal.readings.saturating_sub(journal.results);
    match journal.results {
        0 => format!("{readings} readings"),
        results => format!("{readings} readings and {results} results of windows"),
    }
}

/// What depth and room are in time.
fn lasts(journal: &Journal) -> Option<String> {
    let percent = (journal.fill * 100.0).floor();
    let depth = journal.depth_s.map(|s| format!("{} of readings wait", hours(s)));
    let room = journal.room_s.map(|s| format!("room for {} more", hours(s)));
    let parts: Vec<String> = depth.into_iter().chain(room).collect();
    let is_known = !parts.is_empty();
    is_known.then(|| format!("{percent:.0} % full; at this rate {}", parts.join(", ")))
}

/// What the disk got.
fn written(journal: &Journal) -> Option<String> {
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let mut line = format!("{} written to disk since the start", mb(journal.disk_written_bytes?));
    if let Some(per_day) = journal.disk_bytes_per_day {
        line += &format!(", {} a day", mb(per_day));
    }
    if let Some(per_reading) = journal.disk_bytes_per_reading {
        line += &format!(", {per_reading:.0} bytes a reading");
    }
    Some(line)
}

/// A length of time in the unit that people would use.
fn hours(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

/// The books of a source of readings, or of a window's results.
fn books(one: &Source) -> String {
    let Source { name, accepted, acknowledged, stored, evicted, lost, quarantined, .. } = one;
    let sum = format!(
        "{name}: {accepted} accepted = {acknowledged} acknowledged + {stored} stored + \
         {evicted} evicted + {lost} lost"
    );
    if name.starts_with("window:") {
        return format!("{sum} (results)");
    }
    let last = one.last_reading_age_s.map_or("none yet".to_owned(), |s| format!("{s:.0} s ago"));
    let mut line = format!("{sum}; {quarantined} quarantined");
    if one.dedupe_known > 0 || one.duplicates > 0 {
        line += &format!("; {} repeats dropped", one.duplicates);
    }
    if one.dedupe_forgotten > 0 {
        line += &format!(" (the horizon is not reached: {} forgotten early)", one.dedupe_forgotten);
    }
    if one.within_deadband > 0 {
        line += &format!("; {} dropped within their deadband", one.within_deadband);
    }
    format!("{line}; last {last}")
}

/// How a source fares; nothing where all is well.
fn health(one: &SourceHealth) -> Option<String> {
    let SourceHealth { state, detail, errors, retry_in_s, missed_polls } = one;
    if state == "up" && *errors == 0 && *missed_polls == 0 {
        return None;
    }
    let detail = detail.as_ref().map_or(String::new(), |detail| format!(": {detail}"));
    let retry = retry_in_s.map_or(String::new(), |s| format!("; next try in {s:.0} s"));
    let missed = match missed_polls {
        0 => String::new(),
        missed => format!("; {missed} polls left out"),
    };
    Some(format!("{state}{detail}; {errors} errors since the start{missed}{retry}"))
}

fn window(one: &Window) -> String {
    let Window { name, panes, fired, revised, too_late, idle_sources, .. } = one;
    let watermark = watermark(one.watermark.as_deref(), one.watermark_lag_s);
    format!(
        "{name}  {watermark}, {panes} open, {fired} results, {revised} revised, {too_late} too \
         late{}",
        silent(idle_sources)
    )
}

fn ordered(one: &Ordered) -> String {
    let Ordered { output, held, in_order, early, late, idle_sources, .. } = one;
    let watermark = watermark(one.watermark.as_deref(), one.watermark_lag_s);
    format!(
        "{output}  {watermark}, {held} held, {in_order} in order, {early} early, {late} late{}",
        silent(idle_sources)
    )
}

fn watermark(at: Option<&str>, lag_s: Option<f64>) -> String {
    match (at, lag_s) {
        (Some(at), Some(lag)) if lag < 0.0 => format!("watermark {at}, {:.0} s ahead", -lag),
        (Some(at), Some(lag)) => format!("watermark {at}, {lag:.0} s behind"),
        _ => "no watermark yet".to_owned(),
    }
}

fn silent(sources: &[String]) -> String {
    if sources.is_empty() { String::new() } else { format!("; silent: {}", sources.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_books_of_a_source_say_what_was_dropped() {
        let mut one = Source {
            name: "press".to_owned(),
            accepted: 100,
            acknowledged: 90,
            stored: 10,
            evicted: 0,
            lost: 0,
            quarantined: 2,
            duplicates: 0,
            within_deadband: 0,
            dedupe_known: 0,
            dedupe_forgotten: 0,
            refused_full: 0,
            implausible: 0,
            last_reading_age_s: Some(3.2),
            health: None,
        };
        let sum = "press: 100 accepted = 90 acknowledged + 10 stored + 0 evicted + 0 lost; \
                   2 quarantined";
        assert_eq!(books(&one), format!("{sum}; last 3 s ago"));
        (one.duplicates, one.dedupe_known) = (7, 100);
        assert_eq!(books(&one), format!("{sum}; 7 repeats dropped; last 3 s ago"));
        one.dedupe_forgotten = 5;
        let early = "(the horizon is not reached: 5 forgotten early)";
        assert_eq!(books(&one), format!("{sum}; 7 repeats dropped {early}; last 3 s ago"));
    }

    #[test]
    fn only_a_source_that_had_trouble_has_a_line_on_its_health() {
        let mut one = SourceHealth { state: "up".to_owned(), ..SourceHealth::default() };
        assert_eq!(health(&one), None);
        one.errors = 3;
        assert_eq!(health(&one).as_deref(), Some("up; 3 errors since the start"));
        one = SourceHealth {
            state: "down".to_owned(),
            detail: Some("10.0.0.10:502 does not answer".to_owned()),
            errors: 4,
            retry_in_s: Some(7.6),
            missed_polls: 2,
        };
        let expected = "down: 10.0.0.10:502 does not answer; 4 errors since the start; 2 polls left out; \
             next try in 8 s";
        assert_eq!(health(&one).as_deref(), Some(expected));
    }

    #[test]
    fn an_ordered_output_is_one_line() {
        let one = Ordered {
            output: "socket 127.0.0.1:7100".to_owned(),
            watermark: Some("2026-11-30T01:01:42.999000000Z".to_owned()),
            watermark_lag_s: Some(3.4),
            held: 40,
            held_bytes: 12_000,
            idle_sources: vec!["pump-b".to_owned()],
            in_order: 1_200,
            early: 0,
            late: 3,
        };
        let expected = "socket 127.0.0.1:7100  watermark 2026-11-30T01:01:42.999000000Z, \
                        3 s behind, 40 held, 1200 in order, 0 early, 3 late; silent: pump-b";
        assert_eq!(ordered(&one), expected);
    }

    #[test]
    fn lengths_have_the_unit_that_people_use() {
        let said = [0.4, 119.0, 600.0, 36_000.0, 864_000.0].map(hours);
        assert_eq!(said, ["0 s", "119 s", "10 min", "10.0 h", "10.0 d"]);
    }

    #[test]
    fn a_window_is_one_line() {
        let mut one = Window {
            name: "pressure-10s".to_owned(),
            watermark: Some("2026-11-30T01:01:42.999000000Z".to_owned()),
            watermark_lag_s: Some(3.4),
            panes: 12,
            series: 4,
            state_bytes: 3_210,
            idle_sources: vec!["pump-b".to_owned(), "pump-c".to_owned()],
            fired: 4,
            revised: 1,
            finals: 2,
            retracted: 0,
            too_late: 0,
            between: 0,
            duplicates: 0,
        };
        let expected = "pressure-10s  watermark 2026-11-30T01:01:42.999000000Z, 3 s behind, \
                        12 open, 4 results, 1 revised, 0 too late; silent: pump-b, pump-c";
        assert_eq!(window(&one), expected);
        one.watermark_lag_s = Some(-2.0);
        one.idle_sources.clear();
        let expected = "pressure-10s  watermark 2026-11-30T01:01:42.999000000Z, 2 s ahead, \
                        12 open, 4 results, 1 revised, 0 too late";
        assert_eq!(window(&one), expected);
        (one.watermark, one.watermark_lag_s) = (None, None);
        let expected = "pressure-10s  no watermark yet, 12 open, 4 results, 1 revised, 0 too late";
        assert_eq!(window(&one), expected);
    }
}
