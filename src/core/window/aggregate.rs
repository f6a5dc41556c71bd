//! What a window computes. Stands in until the full set is there: `count`, `sum`,
//! `min`, `max`, `first`, `last`.

use serde::{Deserialize, Serialize};

use super::{Aggregate, Number};
use crate::core::id::Seq;
use crate::core::time::EventTime;

/// One value to aggregate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When it happened.
    pub at: EventTime,
    /// Settles ties: the order of arrival.
    pub seq: Seq,
    /// The value.
    pub value: Number,
}

/// A part of a result that further readings and other parts can join.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accumulator {
    count: u64,
    sum: (i128, f64, bool),
    least: Option<(i128, f64)>,
    greatest: Option<(i128, f64)>,
    first: Option<(i64, u64, i128, f64)>,
    last: Option<(i64, u64, i128, f64)>,
}

fn parts(number: Number) -> (i128, f64, bool) {
    match number {
        Number::Int(value) => (value, value as f64, false),
        Number::Real(value) => (0, value, true),
    }
}

impl Accumulator {
    /// Nothing yet.
    pub fn new(_wanted: &[Aggregate]) -> Self {
        Self {
            count: 0,
            sum: (0, 0.0, false),
            least: None,
            greatest: None,
            first: None,
            last: None,
        }
    }

    /// One more.
    pub fn add(&mut self, s: &Sample) {
        let (int, real, is_real) = parts(s.value);
        let key = (s.at.unix_ns(), s.seq.0, int, real);
        self.merge(&Self {
            count: 1,
            sum: (int, real, is_real),
            least: Some((int, real)),
            greatest: Some((int, real)),
            first: Some(key),
            last: Some(key),
        });
    }

    /// All of `other` too.
    pub fn merge(&mut self, other: &Accumulator) {
        self.count += other.count;
        self.sum.0 += other.sum.0;
        self.sum.1 += other.sum.1;
        self.sum.2 |= other.sum.2;
        let Some(theirs) = other.least else { return };
        if self
            .least
            .is_none_or(|ours| theirs.1 < ours.1 || (theirs.1 == ours.1 && theirs.0 < ours.0))
        {
            self.least = Some(theirs);
        }
        let Some(theirs) = other.greatest else { return };
        if self
            .greatest
            .is_none_or(|ours| theirs.1 > ours.1 || (theirs.1 == ours.1 && theirs.0 > ours.0))
        {
            self.greatest = Some(theirs);
        }
        let (Some(first), Some(last)) = (other.first, other.last) else { return };
        if self.first.is_none_or(|ours| (first.0, first.1) < (ours.0, ours.1)) {
            self.first = Some(first);
        }
        if self.last.is_none_or(|ours| (last.0, last.1) > (ours.0, ours.1)) {
            self.last = Some(last);
        }
    }

    /// Readings in it.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What was asked for, in that order.
    pub fn values(
        &self,
        wanted: &[Aggregate],
        _window: Option<(EventTime, EventTime)>,
    ) -> Vec<(Aggregate, Option<Number>)> {
        let is_real = self.sum.2;
        let number = |(int, real): (i128, f64)| {
            if is_real { Number::Real(real) } else { Number::Int(int) }
        };
        let value = |aggregate| match aggregate {
            Aggregate::Count => Some(Number::Int(i128::from(self.count))),
            Aggregate::Sum => Some(number((self.sum.0, self.sum.1))),
            Aggregate::Min => self.least.map(number),
            Aggregate::Max => self.greatest.map(number),
            Aggregate::First => self.first.map(|(_, _, int, real)| number((int, real))),
            Aggregate::Last => self.last.map(|(_, _, int, real)| number((int, real))),
            _ => None,
        };
        wanted.iter().map(|aggregate| (*aggregate, value(*aggregate))).collect()
    }
}
