//! The parts of a status of which there are several: sources, windows, outputs.

use crate::cli::digits::{ago, grouped, seconds};
use crate::cli::table::{Cell, table};
use crate::cli::terminal::{Mark, Paint, harmless};
use crate::core::id::is_window;
use crate::http::orders::Ordered;
use crate::http::status::{Source, SourceHealth};
use crate::http::windows::Window;

/// Before the rows of a table.
const BEFORE: &str = "  ";

/// The books, a source a row; below, what else there is to say of some. Accepted is
/// acknowledged + stored + evicted + lost; refused are inputs since the start of the agent,
/// and no part of that.
pub(super) fn sources(all: &[Source], paint: Paint) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let head =
        ["name", "accepted", "acknowledged", "stored", "evicted", "lost", "newly refused", "last"];
    let rows: Vec<_> = all.iter().map(books).collect();
    let mut lines = table(BEFORE, head, &rows, paint);
    for one in all {
        let said = [one.health.as_ref().and_then(|of| health(of, paint)), dropped(one, paint)];
        let said = said.into_iter().flatten();
        lines.extend(said.map(|what| format!("{BEFORE}{}: {what}", one.name)));
    }
    lines
}

/// The number of something that should not be.
fn fault(mark: Mark, number: u64) -> Cell {
    if number == 0 { Cell::plain("0") } else { Cell::marked(mark, grouped(number)) }
}

fn books(one: &Source) -> [Cell; 8] {
    let last = match one.last_reading_age_s {
        _ if is_window(&one.name) => String::new(),
        Some(age_s) => ago(age_s),
        None => "none yet".to_owned(),
    };
    [
        Cell::plain(&one.name),
        Cell::plain(grouped(one.accepted)),
        Cell::plain(grouped(one.acknowledged)),
        Cell::plain(grouped(one.stored)),
        fault(Mark::Bad, one.evicted),
        fault(Mark::Bad, one.lost),
        fault(Mark::Warn, one.quarantined),
        Cell::plain(last),
    ]
}

/// What did not come in, and was no fault or was refused.
fn dropped(one: &Source, paint: Paint) -> Option<String> {
    let mut parts = Vec::new();
    if one.dedupe_known > 0 || one.duplicates > 0 {
        parts.push(format!("{} repeats dropped", grouped(one.duplicates)));
    }
    if one.dedupe_forgotten > 0 {
        let early = grouped(one.dedupe_forgotten);
        parts.push(format!("the horizon is not reached: {early} forgotten early"));
    }
    if one.within_deadband > 0 {
        parts.push(format!("{} dropped within their deadband", grouped(one.within_deadband)));
    }
    if one.implausible > 0 {
        parts.push(format!("{} with an implausible time", grouped(one.implausible)));
    }
    if one.refused_full > 0 {
        let what = format!("{} refused, the buffer was full", grouped(one.refused_full));
        parts.push(paint.mark(Mark::Bad, &what));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// How a source fares; nothing where all is well.
fn health(one: &SourceHealth, paint: Paint) -> Option<String> {
    let SourceHealth { state, detail, errors, retry_in_s, missed_polls } = one;
    if state == "up" && *errors == 0 && *missed_polls == 0 {
        return None;
    }
    let state = match state.as_str() {
        "down" => paint.mark(Mark::Bad, state),
        "degraded" => paint.mark(Mark::Warn, state),
        _ => state.clone(),
    };
    let mut line = detail
        .as_ref()
        .map_or(state.clone(), |detail| format!("{state}: {}", harmless(detail, false)));
    if *errors > 0 {
        line += &format!("; {} errors since the start", grouped(*errors));
    }
    if *missed_polls > 0 {
        line += &format!("; {} polls left out", grouped(*missed_polls));
    }
    if let Some(s) = retry_in_s {
        line += &format!("; next try in {}", seconds(s.ceil()));
    }
    Some(line)
}

/// A window a row.
pub(super) fn windows(all: &[Window], paint: Paint) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let head = ["name", "watermark", "open", "results", "revised", "too late"];
    let rows: Vec<_> = all.iter().map(window).collect();
    let mut lines = table(BEFORE, head, &rows, paint);
    for one in all {
        lines.extend(awaited(one, paint));
        lines.extend(silent(&one.name, &one.idle_sources));
    }
    lines
}

/// Whom a watermark waits for that stands still, or is far behind.
fn awaited(one: &Window, paint: Paint) -> Option<String> {
    let said = match (&one.waits_for, &one.waits_until) {
        (Some(source), Some(until)) => {
            let until = until.get(11..19).unwrap_or(until);
            format!("waits for {source}, silent, until {until}")
        }
        _ if one.is_behind && !one.held_by.is_empty() => {
            format!("is far behind, waits for {}", one.held_by.join(", "))
        }
        _ => return None,
    };
    Some(format!("{BEFORE}{}: {}", one.name, paint.mark(Mark::Warn, &said)))
}

fn window(one: &Window) -> [Cell; 6] {
    [
        Cell::plain(&one.name),
        Cell::plain(watermark(one.watermark.as_deref(), one.watermark_lag_s)),
        Cell::plain(grouped(one.panes as u64)),
        Cell::plain(grouped(one.fired)),
        Cell::plain(grouped(one.revised)),
        fault(Mark::Warn, one.too_late),
    ]
}

/// An output with ordered readings a row.
pub(super) fn ordered(all: &[Ordered], paint: Paint) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let head = ["output", "watermark", "held", "in order", "early", "late"];
    let row = |one: &Ordered| {
        [
            Cell::plain(&one.output),
            Cell::plain(watermark(one.watermark.as_deref(), one.watermark_lag_s)),
            Cell::plain(grouped(one.held as u64)),
            Cell::plain(grouped(one.in_order)),
            fault(Mark::Warn, one.early),
            fault(Mark::Warn, one.late),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    let mut lines = table(BEFORE, head, &rows, paint);
    lines.extend(all.iter().filter_map(|one| silent(&one.output, &one.idle_sources)));
    lines
}

/// To the second: it moves with every reading.
fn watermark(at: Option<&str>, lag_s: Option<f64>) -> String {
    let Some(at) = at else { return "none yet".to_owned() };
    let at = at.get(..19).unwrap_or(at).replace('T', " ");
    match lag_s {
        Some(lag) if lag < 0.0 => format!("{at}, {} ahead", seconds(-lag)),
        Some(lag) => format!("{at}, {} behind", seconds(lag)),
        None => at,
    }
}

fn silent(name: &str, sources: &[String]) -> Option<String> {
    let said = || format!("{BEFORE}{name}: not waiting for {}, silent", sources.join(", "));
    (!sources.is_empty()).then(said)
}
