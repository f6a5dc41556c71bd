//! One run: the readings of a trace through every window, to the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::disorder::Step;
use super::trace::{Trace, Traced};
use crate::core::reading::{Flags, Series};
use crate::core::time::{EventTime, TimebaseId};
use crate::core::window::{
    Aggregate, Firing, Input, Millis, Number, Operator, Output, ResultStatus, Sample, WindowSpec,
};

/// Rounding of reals, relative: the order of summation shows in the last digits.
const ROUNDING: f64 = 1e-9;

/// Which result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Place of the window in the configuration.
    pub(super) window: usize,
    pub(super) series: Arc<Series>,
    pub(super) start: EventTime,
    pub(super) end: EventTime,
    pub(super) timebase: TimebaseId,
}

/// The last word on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Word {
    pub(super) revision: u32,
    pub(super) count: u64,
    pub(super) values: Vec<(Aggregate, Option<Number>)>,
    /// Readings that came, those of bad quality included.
    pub(super) received: u64,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) results: BTreeMap<Key, Word>,
    /// Firings that replaced an earlier one.
    pub(super) revised: u64,
    /// Readings that a window refused as too late, by window.
    pub(super) too_late: Vec<u64>,
    /// Repeats that were dropped.
    pub(super) repeats: u64,
    /// Pushed stamps that were kept out.
    pub(super) kept_out: u64,
}

impl Outcome {
    pub(super) fn too_late(&self) -> u64 {
        self.too_late.iter().sum()
    }
}

/// Where two runs differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) key: Key,
    /// What the undisturbed run says; `None`: nothing.
    pub(super) undisturbed: Option<Word>,
    /// What the disturbed run says; `None`: nothing.
    pub(super) disturbed: Option<Word>,
}

/// Gives the readings to the windows in this order, then lets event time run out.
pub(super) fn run(
    specs: &[WindowSpec],
    trace: &Trace,
    order: &[usize],
    step: Option<&Step>,
) -> Outcome {
    let mut run = Run::new(specs, trace);
    let pushed = step.map(|step| (step.by, step.part(trace.readings.len())));
    let mut has_come = vec![false; trace.readings.len()];
    for place in order {
        let reading = &trace.readings[*place];
        if std::mem::replace(&mut has_come[*place], true) {
            run.repeat(reading);
            continue;
        }
        if let Some((by, part)) = &pushed
            && part.contains(place)
            && reading.is_device()
        {
            let input = &reading.input;
            let sample = Sample { at: input.sample.at + *by, ..input.sample };
            let ahead = Input { sample, moves_watermark: false, ..input.clone() };
            run.give(reading, &ahead, reading.stamp.flags.with(Flags::FUTURE));
        }
        run.give(reading, &reading.input, reading.stamp.flags);
    }
    run.end()
}

struct Run<'a> {
    trace: &'a Trace,
    operators: Vec<Operator>,
    out: Vec<Output>,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(specs: &[WindowSpec], trace: &'a Trace) -> Self {
        // A source that gives nothing here would hold everything back.
        let operator = |(spec, sources): (&WindowSpec, _)| {
            let mut operator =
                Operator::new(Arc::new(WindowSpec { sources: Vec::new(), ..spec.clone() }));
            for source in sources {
                operator.expect_source(source);
            }
            operator
        };
        Self {
            trace,
            operators: specs.iter().zip(&trace.sources).map(operator).collect(),
            out: Vec::new(),
            outcome: Outcome { too_late: vec![0; specs.len()], ..Outcome::default() },
        }
    }

    fn give(&mut self, reading: &Traced, input: &Input, flags: Flags) {
        if !reading.enters(flags) {
            self.outcome.kept_out += u64::from(flags != reading.stamp.flags);
            return;
        }
        for window in &self.trace.routes[reading.route] {
            self.operators[*window].reading(input, &mut self.out);
            self.outcome.take(*window, &mut self.out);
        }
    }

    fn repeat(&mut self, reading: &Traced) {
        let Input { timebase, series, sample, .. } = &reading.input;
        for window in &self.trace.routes[reading.route] {
            self.operators[*window].duplicate(*timebase, series, sample.at);
        }
        self.outcome.repeats += 1;
    }

    fn end(mut self) -> Outcome {
        for (window, operator) in self.operators.iter_mut().enumerate() {
            operator.watermark(Millis(i64::MAX), &mut self.out);
            operator.clock_step(TimebaseId(u32::MAX), &mut self.out);
            self.outcome.take(window, &mut self.out);
        }
        self.outcome
    }
}

impl Outcome {
    fn take(&mut self, window: usize, out: &mut Vec<Output>) {
        for output in out.drain(..) {
            match output {
                Output::Fired(firing) => self.fired(window, firing),
                Output::Late(_) => self.too_late[window] += 1,
                Output::Cleared { .. } | Output::Between => {}
            }
        }
    }

    fn fired(&mut self, window: usize, firing: Firing) {
        let Firing { series, timebase, start, end, .. } = firing;
        let key = Key { window, series, start, end, timebase };
        if firing.status == ResultStatus::Retracted {
            self.results.remove(&key);
            return;
        }
        let word = Word {
            revision: firing.revision,
            count: firing.count,
            values: firing.values,
            received: firing.coverage.received,
        };
        let before = self.results.insert(key, word);
        self.revised += u64::from(before.is_some_and(|before| before.revision < firing.revision));
    }
}

/// Where the last words differ: in what they say, not in how often it was
/// revised. `scale` is the greatest value of the trace.
pub(super) fn compare(undisturbed: &Outcome, disturbed: &Outcome, scale: f64) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (key, word) in &undisturbed.results {
        let other = disturbed.results.get(key);
        if !other.is_some_and(|other| word.says_the_same(other, scale)) {
            let (undisturbed, disturbed) = (Some(word.clone()), other.cloned());
            differences.push(Difference { key: key.clone(), undisturbed, disturbed });
        }
    }
    for (key, word) in &disturbed.results {
        if !undisturbed.results.contains_key(key) {
            let disturbed = Some(word.clone());
            differences.push(Difference { key: key.clone(), undisturbed: None, disturbed });
        }
    }
    differences.sort_by(|a, b| a.key.cmp(&b.key));
    differences
}

impl Word {
    fn says_the_same(&self, other: &Word, scale: f64) -> bool {
        let values = self.values.iter().zip(&other.values);
        (self.count, self.received) == (other.count, other.received)
            && self.values.len() == other.values.len()
            && values.into_iter().all(|(own, other)| is_close(own, other, scale))
    }
}

fn is_close(
    (aggregate, own): &(Aggregate, Option<Number>),
    (_, other): &(Aggregate, Option<Number>),
    scale: f64,
) -> bool {
    match (own, other) {
        (Some(Number::Real(own)), Some(Number::Real(other))) => {
            let apart = (own - other).abs();
            // The spread of nearly equal values keeps few digits.
            let is_spread = *aggregate == Aggregate::Stddev && apart <= ROUNDING * scale;
            own == other || apart <= ROUNDING * own.abs().max(other.abs()) || is_spread
        }
        _ => own == other,
    }
}
