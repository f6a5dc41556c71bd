//! A status for people: the facts of the page, on a terminal.

use super::lists;
use crate::cli::digits::{ago, bytes, counted, grouped, rate, seconds};
use crate::cli::terminal::{Mark, Paint, harmless};
use crate::http::notices::Notice;
use crate::http::status::{Journal, Uplink};
use crate::http::words;
use crate::shell::{Report, log_line};

/// Lines of the log that are worth a screen.
const NOTICES_SHOWN: usize = 5;
/// Where what is said begins, after its name.
pub(super) const INDENT: &str = "           ";

/// The lines of a screen.
#[derive(Debug)]
pub(super) struct Screen {
    paint: Paint,
    lines: Vec<String>,
}

/// The whole status.
pub(super) fn text(report: &Report, paint: Paint) -> String {
    let mut screen = Screen { paint, lines: Vec::new() };
    let Report { gateway, version, epoch, .. } = report;
    let gateway = paint.mark(Mark::Strong, gateway);
    screen.say("gateway", &format!("{gateway}, tidegate {version}, epoch {epoch}"));
    screen.say("at", &format!("{}, up for {}", report.at, seconds(report.uptime_s)));
    for trouble in &report.degraded {
        screen.say(&paint.mark(Mark::Bad, "TROUBLE"), &harmless(&trouble.detail, false));
    }
    report.uplinks.iter().for_each(|one| screen.uplink(one));
    screen.journal(&report.journal, report.accepted_per_s > 0.0);
    screen.clock(report);
    let rate = format!("{}/s come in", rate(report.accepted_per_s));
    screen.say("sources", if report.sources.is_empty() { "none" } else { &rate });
    screen.lines.extend(lists::sources(&report.sources, paint));
    screen.list("windows", lists::windows(&report.windows, paint));
    screen.list("ordered", lists::ordered(&report.ordered, paint));
    screen.notices(report);
    screen.lines.into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

impl Screen {
    /// A line with its name; the name may carry marks, which have no width.
    fn say(&mut self, name: &str, what: &str) {
        let marks = name.len() - name.replace("\x1b[31m", "").replace("\x1b[0m", "").len();
        let width = INDENT.len() + marks;
        self.lines.push(format!("{name:<width$}{what}"));
    }

    fn more(&mut self, what: &str) {
        self.lines.push(format!("{INDENT}{what}"));
    }

    fn list(&mut self, name: &str, lines: Vec<String>) {
        if !lines.is_empty() {
            self.lines.push(name.to_owned());
            self.lines.extend(lines);
        }
    }

    fn uplink(&mut self, one: &Uplink) {
        let Uplink { name, state, inflight, inflight_max, .. } = one;
        let mark = match state.as_str() {
            "up" => Mark::Good,
            "down" => Mark::Bad,
            _ => Mark::Warn,
        };
        let for_s = one.for_s.map_or(String::new(), |s| format!(" for {}", seconds(s)));
        let state = self.paint.mark(mark, &format!("{state}{for_s}"));
        self.say("uplink", &format!("{name} {state}"));
        if let Some(reason) = &one.reason {
            let retry = one.retry_in_s.map(|s| format!("; next try in {}", seconds(s.ceil())));
            self.more(&format!("{}{}", harmless(reason, false), retry.unwrap_or_default()));
        }
        for held in &one.held {
            let what =
                format!("the broker refuses {}: {} ({})", held.source, held.meaning, held.code);
            let what = self.paint.mark(Mark::Bad, &what);
            self.more(&what);
        }
        let waits = match one.drain_eta_s {
            _ if one.backlog == 0 => "nothing waits".to_owned(),
            Some(eta) => format!("{} wait, gone in {}", grouped(one.backlog), seconds(eta.ceil())),
            None => format!("{} wait", grouped(one.backlog)),
        };
        let lane = match one.backfill {
            0 => String::new(),
            backfill => format!(" ({} of them beside live readings)", grouped(backfill)),
        };
        self.more(&format!(
            "{inflight} of {inflight_max} in flight, {} acknowledged, {}/s; {waits}{lane}",
            grouped(one.acknowledged),
            rate(one.acknowledged_per_s)
        ));
    }

    fn journal(&mut self, journal: &Journal, comes_in: bool) {
        let full = format!("{:.0} % full", (journal.fill * 100.0).floor());
        let full = if journal.full.is_some() {
            self.paint.mark(Mark::Bad, &full)
        } else if journal.fill >= 0.8 {
            self.paint.mark(Mark::Warn, &full)
        } else {
            full
        };
        let capacity = if journal.capacity_bytes > 0 {
            bytes(journal.capacity_bytes)
        } else {
            bytes(journal.max_bytes)
        };
        self.say(
            "journal",
            &format!(
                "{full}: {} of {capacity}; {} free on the disk",
                bytes(journal.bytes),
                bytes(journal.free_bytes)
            ),
        );
        let depth = journal.depth_s.filter(|_| journal.readings > 0);
        let depth = depth.map_or(String::new(), |s| format!(", {} at this rate", seconds(s)));
        let segments = counted(journal.segments as u64, "segment");
        self.more(&format!("{}{depth}, in {segments}", waiting(journal)));
        match journal.room_s {
            Some(room) => {
                self.more(&format!("room for {} more without an uplink", seconds(room)));
            }
            None if comes_in => {
                self.more("how long the room lasts is told once there is enough to measure");
            }
            None => {}
        }
        if let (Some(time), Some(age)) = (&journal.oldest_event_time, journal.oldest_age_s) {
            self.more(&format!("the oldest is of {time}, {}", ago(age)));
        }
        if let Some(written) = written(journal) {
            self.more(&written);
        }
    }

    fn clock(&mut self, report: &Report) {
        let clock = &report.clock;
        let mark = match clock.state.as_str() {
            "synchronized" => Mark::Good,
            "holdover" => Mark::Warn,
            _ => Mark::Bad,
        };
        for (at, said) in words::all(clock).iter().enumerate() {
            if at == 0 {
                let said = self.paint.mark(mark, said);
                self.say("clock", &said);
            } else {
                self.more(said);
            }
        }
        match clock.corrections_waiting {
            0 => {}
            1 => self.more("1 correction waits"),
            several => self.more(&format!("{} wait", counted(several, "correction"))),
        }
    }

    /// What the log said last, the newest at the end.
    fn notices(&mut self, report: &Report) {
        let skipped = report.notices.len().saturating_sub(NOTICES_SHOWN);
        for (at, one) in report.notices.iter().skip(skipped).enumerate() {
            let level = format!("{:<5}", one.level);
            let level = match one.level.as_str() {
                "error" => self.paint.mark(Mark::Bad, &level),
                "warn" => self.paint.mark(Mark::Warn, &level),
                _ => level,
            };
            let time = one.at.get(..19).unwrap_or(&one.at).replace('T', " ");
            let line = format!("{time} {level} {}", notice(one));
            if at == 0 { self.say("log", &line) } else { self.more(&line) }
        }
    }
}

/// As the log has it.
fn notice(one: &Notice) -> String {
    harmless(&log_line::in_words(&one.text, &one.facts), false).into_owned()
}

/// What waits for an uplink; results of windows are no readings.
fn waiting(journal: &Journal) -> String {
    let readings = counted(journal.readings_alone(), "reading");
    let results = match journal.results {
        0 => String::new(),
        results => format!(" and {}", counted(results, "result")),
    };
    let verb = if journal.readings == 1 { "waits" } else { "wait" };
    format!("{readings}{results} {verb}")
}

/// What the disk got.
fn written(journal: &Journal) -> Option<String> {
    let mut line =
        format!("{} written to disk since the start", bytes(journal.disk_written_bytes?));
    if let Some(per_day) = journal.disk_bytes_per_day {
        line += &format!(", {} a day", bytes(per_day));
    }
    if let Some(per_reading) = journal.disk_bytes_per_reading {
        line += &format!(", {} a reading", bytes(per_reading.round() as u64));
    }
    Some(line)
}
