//! What a window computes: partial results that can be merged.
//!
//! Merging gives the same result as one pass over the readings, in any order: exactly for
//! integers, counts, extremes, ends, percentiles, `twa` and `rate`; within the rounding
//! stated at [`Compensated`] for sums of reals, within that of Welford's method for
//! `stddev`.
//!
//! Only what the wanted aggregates need is kept. `count`, `sum`, `mean`, `min`, `max` and
//! `range` share one fixed block; the others are in a box of their own.
//!
//! Readings whose value is NaN or infinite are refused or flagged when they come and do not
//! get here; if one does, it is ignored and not counted.

use serde::{Deserialize, Serialize};

use super::line::{Line, Point, Stretch};
use super::sketch::Sketch;
use super::sum::Compensated;
use super::{Aggregate, Number};
use crate::core::id::Seq;
use crate::core::time::EventTime;

/// One reading as an aggregate sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When it happened.
    pub at: EventTime,
    /// Decides between readings of one instant: the lowest is the first.
    pub seq: Seq,
    /// Its value.
    pub value: Number,
}

/// A partial result, mergeable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accumulator {
    count: u64,
    totals: Totals,
    rest: Option<Box<Rest>>,
}

/// Sum and extremes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Totals {
    /// No aggregate needs them.
    Unwanted,
    /// No reading yet.
    Empty,
    /// Integers only. The sum is exact; beyond 128 bits it stays at the end of
    /// their range, which 64-bit readings cannot reach.
    Ints { sum: i128, min: i128, max: i128 },
    /// Some reals. Integers among them are summed apart, so that it does not matter when
    /// the first real came.
    Reals { ints: i128, sum: Compensated, min: f64, max: f64 },
}

/// The parts that take more room, each only where it is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Rest {
    ends: Option<Ends>,
    spread: Option<Spread>,
    line: Option<Line>,
    sketch: Option<Sketch>,
    /// What the line of readings comes to, in place of the line, once it is condensed.
    /// Never stored.
    #[serde(skip)]
    stretch: Option<Stretch>,
}

/// First and last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Ends(Option<(End, End)>);

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct End {
    at_ns: i64,
    seq: u64,
    #[serde(with = "StoredNumber")]
    value: Number,
}

/// The stored form of a [`Number`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Number")]
enum StoredNumber {
    Int(i128),
    Real(f64),
}

/// Count, mean and sum of squared differences from the mean (Welford 1962),
/// merged as in Chan, Golub, LeVeque 1979.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Spread {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Number {
    fn to_f64(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Real(real) => real,
        }
    }

    /// The number if it is finite; else there is no result.
    fn finite(self) -> Option<Number> {
        match self {
            Number::Real(real) if !real.is_finite() => None,
            number => Some(number),
        }
    }
}

impl Accumulator {
    /// An empty one that can answer what is `wanted`.
    pub fn new(wanted: &[Aggregate]) -> Self {
        use Aggregate::{
            First, Last, Max, Mean, Min, P50, P95, P99, Range, Rate, Stddev, Sum, Twa,
        };
        let any = |of: &[Aggregate]| wanted.iter().any(|one| of.contains(one));
        let rest = Rest {
            ends: any(&[First, Last]).then(Ends::default),
            spread: any(&[Stddev]).then(Spread::default),
            line: any(&[Twa, Rate]).then(Line::default),
            sketch: any(&[P50, P95, P99]).then(Sketch::default),
            stretch: None,
        };
        let wants_totals = any(&[Sum, Mean, Min, Max, Range]);
        Self {
            count: 0,
            totals: if wants_totals { Totals::Empty } else { Totals::Unwanted },
            rest: (rest != Rest::default()).then(|| Box::new(rest)),
        }
    }

    /// Takes one reading; ignores a value that is not finite.
    pub fn add(&mut self, s: &Sample) {
        if let Number::Real(real) = s.value
            && !real.is_finite()
        {
            return;
        }
        self.count += 1;
        self.totals.add(s.value);
        if let Some(rest) = &mut self.rest {
            rest.add(s);
        }
    }

    /// Takes all readings of another accumulator, which was made for the same `wanted`.
    pub fn merge(&mut self, other: &Accumulator) {
        self.count += other.count;
        self.totals.merge(&other.totals);
        if let (Some(rest), Some(other)) = (&mut self.rest, &other.rest) {
            rest.merge(other);
        }
    }

    /// A copy of fixed size: the line of readings is replaced by what it comes to. Only
    /// accumulators of later readings can be merged into it.
    pub fn condensed(&self) -> Accumulator {
        let rest = self.rest.as_deref().map(|rest| {
            let Rest { ends, spread, sketch, .. } = rest;
            let (stretch, sketch) = (rest.stretch(), sketch.clone());
            Box::new(Rest { ends: *ends, spread: *spread, line: None, sketch, stretch })
        });
        Self { count: self.count, totals: self.totals, rest }
    }

    /// Readings taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The answers, in the order of `wanted`. `None` where one is not defined: no
    /// reading, `stddev` of one reading, `rate` where no time passed, a result
    /// beyond the range of a double, what the accumulator was not made for.
    ///
    /// - `mean`, `stddev`, `twa`, `rate` and percentiles are reals; the others
    ///   are integers where all readings are.
    /// - `twa`: each value stands until the next reading, and the last one to
    ///   the end of `window`; without a `window` to the last reading. It begins
    ///   with the first reading. There is no limit on gaps.
    /// - `rate`: increase per second between the first and the last reading; a
    ///   decrease is a reset to zero.
    /// - Percentiles: nearest rank, within [`super::sketch::RELATIVE_ERROR`].
    pub fn values(
        &self,
        wanted: &[Aggregate],
        window: Option<(EventTime, EventTime)>,
    ) -> Vec<(Aggregate, Option<Number>)> {
        let value = |one: &Aggregate| (*one, self.value(*one, window).and_then(Number::finite));
        wanted.iter().map(value).collect()
    }

    fn value(&self, one: Aggregate, window: Option<(EventTime, EventTime)>) -> Option<Number> {
        let rest = self.rest.as_deref();
        let stretch = || rest.and_then(Rest::stretch);
        let quantile = |parts| rest.and_then(|rest| rest.sketch.as_ref()?.quantile(parts));
        let ends = || rest.and_then(|rest| rest.ends?.0);
        match one {
            Aggregate::Count => Some(Number::Int(i128::from(self.count))),
            Aggregate::Sum => self.totals.sum(),
            Aggregate::Mean => {
                self.totals.sum().map(|sum| Number::Real(sum.to_f64() / self.count as f64))
            }
            Aggregate::Min => self.totals.extremes().map(|(min, _)| min),
            Aggregate::Max => self.totals.extremes().map(|(_, max)| max),
            Aggregate::Range => self.totals.range(),
            Aggregate::First => ends().map(|(first, _)| first.value),
            Aggregate::Last => ends().map(|(_, last)| last.value),
            Aggregate::Stddev => rest.and_then(|rest| rest.spread?.deviation()).map(Number::Real),
            Aggregate::Twa => {
                let end_ns = window.map(|(_, end)| end.unix_ns());
                stretch().map(|stretch| Number::Real(stretch.time_weighted_mean(end_ns)))
            }
            Aggregate::Rate => stretch().and_then(|stretch| stretch.rate()).map(Number::Real),
            Aggregate::P50 => quantile(5_000).map(Number::Real),
            Aggregate::P95 => quantile(9_500).map(Number::Real),
            Aggregate::P99 => quantile(9_900).map(Number::Real),
        }
    }

    /// Bytes in memory, all included.
    pub fn weight(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| {
            let line = rest.line.as_ref().map_or(0, Line::heap_bytes);
            let sketch = rest.sketch.as_ref().map_or(0, Sketch::heap_bytes);
            size_of::<Rest>() + line + sketch
        });
        size_of::<Self>() + rest
    }
}

impl Totals {
    fn add(&mut self, value: Number) {
        match (&mut *self, value) {
            (Totals::Unwanted, _) => {}
            (Totals::Ints { sum, min, max }, Number::Int(int)) => {
                *sum = sum.saturating_add(int);
                *min = int.min(*min);
                *max = int.max(*max);
            }
            (Totals::Reals { sum, min, max, .. }, Number::Real(real)) => {
                sum.add(real);
                *min = lesser(*min, real);
                *max = greater(*max, real);
            }
            (_, value) => self.merge(&Totals::of(value)),
        }
    }

    fn of(value: Number) -> Self {
        match value {
            Number::Int(int) => Totals::Ints { sum: int, min: int, max: int },
            Number::Real(real) => {
                let mut sum = Compensated::default();
                sum.add(real);
                Totals::Reals { ints: 0, sum, min: real, max: real }
            }
        }
    }

    fn merge(&mut self, other: &Totals) {
        *self = match (*self, *other) {
            (ours, Totals::Unwanted | Totals::Empty) => ours,
            (Totals::Unwanted, _) => Totals::Unwanted,
            (Totals::Empty, theirs) => theirs,
            (
                Totals::Ints { sum: a, min: a_min, max: a_max },
                Totals::Ints { sum: b, min: b_min, max: b_max },
            ) => Totals::Ints {
                sum: a.saturating_add(b),
                min: a_min.min(b_min),
                max: a_max.max(b_max),
            },
            (ours, theirs) => {
                let (a_ints, mut sum, a_min, a_max) = ours.as_reals();
                let (b_ints, other, b_min, b_max) = theirs.as_reals();
                sum.merge(&other);
                Totals::Reals {
                    ints: a_ints.saturating_add(b_ints),
                    sum,
                    min: lesser(a_min, b_min),
                    max: greater(a_max, b_max),
                }
            }
        };
    }

    /// The same as reals. Rounding keeps the order, so the rounded extreme is the extreme of
    /// the rounded values.
    fn as_reals(self) -> (i128, Compensated, f64, f64) {
        match self {
            Totals::Unwanted | Totals::Empty => {
                (0, Compensated::default(), f64::INFINITY, f64::NEG_INFINITY)
            }
            Totals::Ints { sum, min, max } => (sum, Compensated::default(), min as f64, max as f64),
            Totals::Reals { ints, sum, min, max } => (ints, sum, min, max),
        }
    }

    fn sum(&self) -> Option<Number> {
        match *self {
            Totals::Unwanted | Totals::Empty => None,
            Totals::Ints { sum, .. } => Some(Number::Int(sum)),
            Totals::Reals { ints, mut sum, .. } => {
                sum.add(ints as f64);
                Some(Number::Real(sum.total()))
            }
        }
    }

    fn extremes(&self) -> Option<(Number, Number)> {
        match *self {
            Totals::Unwanted | Totals::Empty => None,
            Totals::Ints { min, max, .. } => Some((Number::Int(min), Number::Int(max))),
            Totals::Reals { min, max, .. } => Some((Number::Real(min), Number::Real(max))),
        }
    }

    fn range(&self) -> Option<Number> {
        Some(match self.extremes()? {
            (Number::Int(min), Number::Int(max)) => Number::Int(max.saturating_sub(min)),
            (min, max) => Number::Real(max.to_f64() - min.to_f64()),
        })
    }
}

/// Of the two zeros, minus zero is the lesser, whichever came first.
fn lesser(a: f64, b: f64) -> f64 {
    if b.total_cmp(&a).is_lt() { b } else { a }
}

fn greater(a: f64, b: f64) -> f64 {
    if b.total_cmp(&a).is_gt() { b } else { a }
}

impl Rest {
    fn add(&mut self, s: &Sample) {
        let (at_ns, seq, real) = (s.at.unix_ns(), s.seq.0, s.value.to_f64());
        if let Some(ends) = &mut self.ends {
            ends.add(End { at_ns, seq, value: s.value });
        }
        if let Some(spread) = &mut self.spread {
            spread.add(real);
        }
        if let Some(line) = &mut self.line {
            line.add(Point { at_ns, seq, value: real });
        }
        if let Some(sketch) = &mut self.sketch {
            sketch.add(real);
        }
    }

    /// The stretch of the line of readings, where one is kept.
    fn stretch(&self) -> Option<Stretch> {
        self.stretch.or_else(|| self.line.as_ref()?.stretch())
    }

    fn merge(&mut self, other: &Rest) {
        if let (Some(ends), Some(other)) = (&mut self.ends, &other.ends) {
            ends.merge(other);
        }
        if let (Some(spread), Some(other)) = (&mut self.spread, &other.spread) {
            spread.merge(other);
        }
        if let (Some(line), Some(other)) = (&mut self.line, &other.line) {
            line.merge(other);
        }
        if self.line.is_none()
            && let Some(other) = other.stretch()
        {
            match &mut self.stretch {
                Some(stretch) => stretch.join(&other),
                None => self.stretch = Some(other),
            }
        }
        if let (Some(sketch), Some(other)) = (&mut self.sketch, &other.sketch) {
            sketch.merge(other);
        }
    }
}

impl Ends {
    fn add(&mut self, end: End) {
        let Some((first, last)) = &mut self.0 else {
            self.0 = Some((end, end));
            return;
        };
        if end.is_before(first) {
            *first = end;
        }
        if last.is_before(&end) {
            *last = end;
        }
    }

    fn merge(&mut self, other: &Ends) {
        if let Some((first, last)) = other.0 {
            self.add(first);
            self.add(last);
        }
    }
}

impl End {
    fn is_before(&self, other: &End) -> bool {
        let by_time = (self.at_ns, self.seq).cmp(&(other.at_ns, other.seq));
        by_time.then_with(|| self.value.to_f64().total_cmp(&other.value.to_f64())).is_lt()
    }
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    fn merge(&mut self, other: &Spread) {
        if self.count == 0 || other.count == 0 {
            if self.count == 0 {
                *self = *other;
            }
            return;
        }
        let count = self.count + other.count;
        let delta = other.mean - self.mean;
        let share = other.count as f64 / count as f64;
        self.squares += other.squares + delta * delta * share * self.count as f64;
        self.mean += delta * share;
        self.count = count;
    }

    /// Of the sample, n − 1.
    fn deviation(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }
}

#[cfg(test)]
#[path = "aggregate_tests.rs"]
mod tests;
