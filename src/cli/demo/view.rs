//! What people see: on a terminal a block of lines that is drawn again and
//! again, with the phases above it; elsewhere plain lines now and then.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use super::super::digits::{bytes, grouped};
use crate::cli::audit::proof::{Proof, Tally};
use crate::cli::print;
use crate::core::id::is_window;
use crate::exit::Failure;

/// Seconds between two progress lines where nothing can be drawn again.
const PLAIN_EVERY_S: f64 = 5.0;
const BAR_CELLS: usize = 16;
const GREEN: &str = "\x1b[1;32m";
const RED: &str = "\x1b[1;31m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// One look at the whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    /// Seconds since the start, and how many the PLC runs for.
    pub(super) elapsed_s: f64,
    pub(super) run_for_s: f64,
    /// The uplink in a few words.
    pub(super) uplink: String,
    /// Readings that wait, and the most that ever did.
    pub(super) depth: u64,
    pub(super) depth_peak: u64,
    pub(super) journal_bytes: u64,
    /// Age of the oldest that waits.
    pub(super) oldest_s: Option<f64>,
    pub(super) accepted: u64,
    pub(super) accepted_per_s: f64,
    pub(super) acknowledged_per_s: f64,
    /// Readings that the subscriber has.
    pub(super) arrived: u64,
}

/// The screen, or whatever stdout is.
#[derive(Debug)]
pub(super) struct View {
    is_terminal: bool,
    /// Lines of the block that is on the screen.
    drawn: usize,
    said_s: f64,
}

impl View {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stdout().is_terminal(), drawn: 0, said_s: 0.0 }
    }

    /// Says something for good. A reader that hung up does not end the run: its
    /// exit code still answers.
    ///
    /// # Errors
    /// Stdout fails.
    pub(super) fn say(&mut self, text: &str) -> Result<(), Failure> {
        let text = format!("{}{text}\n", self.erase());
        print(&text).map(drop)
    }

    /// Says that something happened at `elapsed_s`.
    ///
    /// # Errors
    /// Stdout fails.
    pub(super) fn phase(&mut self, elapsed_s: f64, what: &str) -> Result<(), Failure> {
        self.said_s = elapsed_s;
        self.say(&format!("{elapsed_s:>6.1} s  {what}"))
    }

    /// Shows how things stand; not on every call where lines stay.
    ///
    /// # Errors
    /// Stdout fails.
    pub(super) fn progress(&mut self, now: &Snapshot) -> Result<(), Failure> {
        if self.is_terminal {
            let block = block(now);
            let text = self.erase() + &block;
            self.drawn = block.lines().count();
            print(&text).map(drop)
        } else if now.elapsed_s - self.said_s >= PLAIN_EVERY_S {
            self.said_s = now.elapsed_s;
            print(&plain(now)).map(drop)
        } else {
            Ok(())
        }
    }

    /// The table and the verdict.
    ///
    /// # Errors
    /// Stdout fails.
    pub(super) fn verdict(&mut self, proof: &Proof, facts: &[String]) -> Result<(), Failure> {
        let mut text = String::from("\n");
        for fact in facts {
            let _ = writeln!(text, "  {fact}");
        }
        for tally in &proof.tallies {
            text += &table(tally, proof);
        }
        text.push('\n');
        if proof.holds() {
            let sentence = "PROVED: all that was produced was delivered; nothing lost, \
                nothing confused.";
            text += &self.painted(GREEN, sentence);
        } else {
            text += &self.painted(RED, "NOT PROVED:");
            for objection in &proof.objections {
                let _ = write!(text, "\n  - {objection}");
            }
        }
        self.say(&text)
    }

    /// Less important.
    pub(super) fn dim(&self, text: &str) -> String {
        self.painted(DIM, text)
    }

    fn painted(&self, paint: &str, text: &str) -> String {
        if self.is_terminal { format!("{paint}{text}{RESET}") } else { text.to_owned() }
    }

    /// What takes the block off the screen.
    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }
}

fn block(now: &Snapshot) -> String {
    let time = bar(now.elapsed_s, now.run_for_s);
    let depth = bar(now.depth as f64, now.depth_peak as f64);
    let run = format!("{:.0} of {:.0} s", now.elapsed_s.min(now.run_for_s), now.run_for_s);
    let waiting = format!("{} waiting{}", grouped(now.depth), oldest(now));
    let (taken, gone) = (now.accepted_per_s, now.acknowledged_per_s);
    let mut text = String::new();
    let _ = writeln!(text, "\n  time   [{time}]  {run}");
    let _ = writeln!(text, "  depth  [{depth}]  {waiting}");
    let _ = writeln!(text, "  rates  {taken:>6.0}/s in  {gone:>6.0}/s out   uplink {}", now.uplink);
    let _ = writeln!(
        text,
        "  sum    {:>9} accepted  {:>9} at the subscriber   {} on disk",
        grouped(now.accepted),
        grouped(now.arrived),
        bytes(now.journal_bytes)
    );
    text
}

fn plain(now: &Snapshot) -> String {
    format!(
        "{:>6.1} s  uplink {}: {} accepted, {} waiting{}, {} at the subscriber; {:.0}/s in, {:.0}/s out\n",
        now.elapsed_s,
        now.uplink,
        grouped(now.accepted),
        grouped(now.depth),
        oldest(now),
        grouped(now.arrived),
        now.accepted_per_s,
        now.acknowledged_per_s,
    )
}

fn oldest(now: &Snapshot) -> String {
    now.oldest_s.map_or_else(String::new, |age| format!(" (oldest {age:.1} s)"))
}

fn table(tally: &Tally, proof: &Proof) -> String {
    if is_window(&tally.source) {
        let Tally { source, produced, distinct, .. } = tally;
        let (produced, distinct, repeats) =
            (grouped(*produced), grouped(*distinct), tally.repeats());
        return format!(
            "\n  {source}: {produced} results, {distinct} of them delivered, {repeats} repeats\n"
        );
    }
    let gaps = tally.missing_named + tally.missing_unnamed;
    let named = match gaps {
        0 => "numbers that never came".to_owned(),
        _ => format!("{} of them named by gap records", grouped(tally.missing_named)),
    };
    let planned = format!("by the agent's books; {} were planned", grouped(proof.planned));
    let rows = [
        ("produced", tally.produced, planned.as_str()),
        ("delivered", tally.delivered, "messages at the subscriber"),
        ("distinct", tally.distinct, "different sequence numbers among them"),
        ("repeats", tally.repeats(), "same name, sent again: at least once"),
        ("changed", tally.changed, "one name, two contents"),
        ("gaps", gaps, named.as_str()),
        ("invented", tally.invented, "numbers that were never given out"),
        ("out of contract", proof.out_of_contract, "messages of any kind"),
    ];
    let mut text = format!("\n  source {}, epoch {}\n", tally.source, tally.epoch);
    for (name, count, note) in rows {
        let _ = writeln!(text, "    {name:<16}{:>10}   {note}", grouped(count));
    }
    text
}

fn bar(part: f64, whole: f64) -> String {
    let share = if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let full = (share * BAR_CELLS as f64).round() as usize;
    "#".repeat(full) + &".".repeat(BAR_CELLS - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let shown = [0, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn a_bar_keeps_its_length() {
        for (part, whole, full) in [(0.0, 0.0, 0), (1.0, 2.0, 8), (9.0, 2.0, 16)] {
            let bar = bar(part, whole);
            assert_eq!((bar.len(), bar.matches('#').count()), (16, full));
        }
    }

    #[test]
    fn the_block_fits_a_narrow_terminal() {
        let now = Snapshot {
            elapsed_s: 1_000.0,
            run_for_s: 3_600.0,
            uplink: "down, next try in 30.0 s".to_owned(),
            depth: 1_234_567,
            depth_peak: 1_234_567,
            journal_bytes: 999 << 20,
            oldest_s: Some(3_599.9),
            accepted: 5_000_000,
            accepted_per_s: 100_000.0,
            acknowledged_per_s: 100_000.0,
            arrived: 5_000_000,
        };
        for line in block(&now).lines() {
            assert!(line.len() < 80, "{line}");
        }
    }
}
