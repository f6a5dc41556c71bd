//! What the replay says.

use std::fmt::Write as _;

use serde::Serialize;

use super::super::digits::grouped;
use super::disorder::Disorder;
use super::engine::{Difference, Key, Outcome, Word};
use super::trace::Trace;
use crate::core::length::bound_text;
use crate::core::window::{LatePolicy, Number, WindowSpec};

/// Differences that are shown.
pub(super) const SHOWN_MAX: usize = 20;

/// The outcome of all runs.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Report {
    /// Version of this form: 1.
    v: u32,
    /// Readings of the trace.
    readings: usize,
    /// Lines that are no readings, the first ones: `FILE: line N: why`.
    refused: Vec<String>,
    refused_count: usize,
    /// Entries and readings that are nothing to a window.
    passed_over: u64,
    /// Readings that the trace itself held twice.
    repeated: u64,
    windows: Vec<String>,
    undisturbed: RunReport,
    pub(super) runs: Vec<RunReport>,
    /// Whether every run came to the results of the undisturbed one.
    pub(super) converged: bool,
    /// The first differences.
    differences: Vec<DifferenceReport>,
    /// What explains them.
    pub(super) hints: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct RunReport {
    /// From 1; 0 is the undisturbed one.
    run: u64,
    /// `--seed` of this run; `None` for the undisturbed one.
    seed: Option<u64>,
    results: usize,
    /// Firings that replaced an earlier one.
    revised: u64,
    /// Readings that were refused, counted for each window.
    too_late: u64,
    repeats_dropped: u64,
    pushed_stamps_kept_out: u64,
    /// Results that are not those of the undisturbed run.
    different: usize,
}

#[derive(Debug, PartialEq, Serialize)]
struct DifferenceReport {
    run: u64,
    window: String,
    entity: String,
    property: String,
    start: String,
    end: String,
    timebase: u32,
    /// The numbers; `None`: no such result.
    undisturbed: Option<String>,
    disturbed: Option<String>,
}

impl RunReport {
    pub(super) fn new(run: u64, seed: Option<u64>, outcome: &Outcome, different: usize) -> Self {
        Self {
            run,
            seed,
            results: outcome.results.len(),
            revised: outcome.revised,
            too_late: outcome.too_late(),
            repeats_dropped: outcome.repeats,
            pushed_stamps_kept_out: outcome.kept_out,
            different,
        }
    }

    /// As a line for people.
    pub(super) fn line(&self) -> String {
        let mut text = match self.seed {
            None => "undisturbed".to_owned(),
            Some(seed) => format!("run {}, seed {seed}", self.run),
        };
        let results = grouped(self.results as u64);
        let (revised, too_late) = (grouped(self.revised), grouped(self.too_late));
        // Writing to a string does not fail.
        let _ = write!(text, ": {results} results, {revised} revised, {too_late} too late");
        let more = [
            (self.repeats_dropped, "repeats dropped"),
            (self.pushed_stamps_kept_out, "pushed stamps kept out"),
            (self.different as u64, "DIFFERENT"),
        ];
        for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
            let _ = write!(text, ", {} {what}", grouped(count));
        }
        text + "\n"
    }
}

impl Report {
    pub(super) fn new(trace: &Trace, specs: &[WindowSpec], undisturbed: &Outcome) -> Self {
        Self {
            v: 1,
            readings: trace.readings.len(),
            refused: trace.refused.clone(),
            refused_count: trace.refused_count,
            passed_over: trace.passed_over,
            repeated: trace.repeated,
            windows: specs.iter().map(|spec| spec.name.to_string()).collect(),
            undisturbed: RunReport::new(0, None, undisturbed, 0),
            runs: Vec::new(),
            converged: true,
            differences: Vec::new(),
            hints: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, run: RunReport, differences: &[Difference]) {
        self.converged &= differences.is_empty();
        let room = SHOWN_MAX.saturating_sub(self.differences.len());
        for Difference { key, undisturbed, disturbed } in differences.iter().take(room) {
            let Key { window, series, start, end, timebase } = key;
            self.differences.push(DifferenceReport {
                run: run.run,
                window: self.windows[*window].clone(),
                entity: series.entity.to_string(),
                property: series.property.to_string(),
                start: start.to_string(),
                end: end.to_string(),
                timebase: timebase.0,
                undisturbed: undisturbed.as_ref().map(numbers),
                disturbed: disturbed.as_ref().map(numbers),
            });
        }
        self.runs.push(run);
    }

    /// What stands above the runs.
    pub(super) fn head(&self) -> String {
        let readings = grouped(self.readings as u64);
        let mut text = format!("{readings} readings, windows: {}\n", self.windows.join(", "));
        let counts = [
            (self.passed_over, "entries without a number for a window were passed over"),
            (self.repeated, "readings stood in the trace twice and were taken once"),
            (self.refused_count as u64, "lines are no readings:"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            let _ = writeln!(text, "{} {what}", grouped(count));
        }
        for why in &self.refused {
            let _ = writeln!(text, "  {why}");
        }
        more(&mut text, self.refused_count - self.refused.len());
        text + &self.undisturbed.line()
    }

    /// What stands below them.
    pub(super) fn verdict(&self) -> String {
        let runs = self.runs.len();
        if self.converged {
            return format!("converged: {runs} of {runs} runs came to the same final results\n");
        }
        let same = self.runs.iter().filter(|run| run.different == 0).count();
        let mut text = format!("NOT converged: {same} of {runs} runs came to the same results\n");
        for one in &self.differences {
            let DifferenceReport { run, window, entity, property, start, end, .. } = one;
            let _ = writeln!(text, "run {run}: {window} {entity} {property} {start} to {end}");
            let said = |word: &Option<String>| word.clone().unwrap_or("no such result".to_owned());
            let _ = writeln!(text, "  undisturbed: {}", said(&one.undisturbed));
            let _ = writeln!(text, "  disturbed:   {}", said(&one.disturbed));
        }
        let all: usize = self.runs.iter().map(|run| run.different).sum();
        more(&mut text, all - self.differences.len());
        for hint in &self.hints {
            let _ = writeln!(text, "{hint}");
        }
        text
    }
}

fn more(text: &mut String, count: usize) {
    if count > 0 {
        let _ = writeln!(text, "  and {} more", grouped(count as u64));
    }
}

/// What explains differences. `too_late` is what the disturbed runs refused, by
/// window.
pub(super) fn hints(
    specs: &[WindowSpec],
    disorder: &Disorder,
    undisturbed: &Outcome,
    too_late: &[u64],
) -> Vec<String> {
    let mut hints = Vec::new();
    let shuffle = bound_text(disorder.shuffle);
    for (at, spec) in specs.iter().enumerate() {
        let (name, late) = (&spec.name, grouped(too_late[at]));
        let (bound, lateness) = (bound_text(spec.bound), bound_text(spec.allowed_lateness));
        let (allowed, from) = match spec.late_policy {
            LatePolicy::SideOutput => (
                spec.bound + spec.allowed_lateness,
                format!("bound {bound} + allowed_lateness {lateness}"),
            ),
            LatePolicy::Grace => (spec.allowed_lateness, format!("allowed_lateness {lateness}")),
            LatePolicy::Adjust { .. } => {
                hints.push(format!(
                    "{name}: policy adjust moves event times by the order of arrival, so its \
                     results depend on it"
                ));
                continue;
            }
        };
        if allowed < disorder.shuffle && too_late[at] > 0 {
            hints.push(format!(
                "{name}: {late} readings were too late, over all runs: --shuffle {shuffle} exceeds \
                 what the window allows ({from})"
            ));
        } else if too_late[at] > 0 {
            hints.push(format!(
                "{name}: {late} readings were too late, over all runs: --shuffle {shuffle} comes on \
                 top of the disorder that the trace has, and the window allows {from}"
            ));
        }
        if undisturbed.too_late[at] > 0 {
            let late = grouped(undisturbed.too_late[at]);
            hints.push(format!("{name}: {late} readings are too late without any disturbance"));
        }
    }
    hints
}

fn numbers(word: &Word) -> String {
    let mut text = format!("readings {}, count {}", word.received, word.count);
    for (aggregate, value) in &word.values {
        let name = aggregate.as_str();
        if name == "count" {
            continue;
        }
        let _ = match value {
            Some(Number::Int(int)) => write!(text, ", {name} {int}"),
            Some(Number::Real(real)) => write!(text, ", {name} {real}"),
            None => write!(text, ", {name} undefined"),
        };
    }
    text
}
