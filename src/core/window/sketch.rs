//! Quantiles of a stream in little memory, mergeable, with a stated error.
//!
//! The idea is that of DDSketch (Masson, Rim, Lee: "DDSketch: A fast and
//! fully-mergeable quantile sketch with relative-error guarantees", VLDB 2019):
//! count values in bins whose width grows with the value, so that the middle of
//! a bin is never far from any value in it, by proportion. The bins are those of
//! its bit-wise linear mapping: each power of two is cut into 64 equal parts,
//! which are the exponent and the first six bits of the fraction of a double. No
//! logarithm is taken: every machine puts a value into the same bin, and results
//! are the same to the last bit. (The crates that implement DDSketch take one,
//! from the C library or their own approximation.)
//!
//! What is kept is a function of the values alone: the order in which they come
//! and how they are split and merged changes nothing.

use std::collections::VecDeque;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Greatest relative error of a quantile: half a bin, 1/128 = 0.78 %, for
/// magnitudes within nine decades of the greatest ([`BINS_MAX`]).
pub const RELATIVE_ERROR: f64 = 1.0 / 128.0;

/// Bins of one sign: 32 powers of two, nine decades below the greatest
/// magnitude. What lies nearer to zero is counted in the least of them. 8 bytes
/// each, from the least to the greatest that is in use.
pub const BINS_MAX: usize = 2_048;

/// Parts of a whole in which quantiles are given: 9,900 is the 99th percentile.
pub const WHOLE: u64 = 10_000;

/// Fraction bits that do not matter: 52 of a double less the six that do.
const DROPPED_BITS: u32 = 46;

/// The bin of the greatest double.
const KEY_MAX: u32 = (f64::MAX.to_bits() >> DROPPED_BITS) as u32;

/// Quantiles of finite numbers of either sign, zero included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sketch {
    /// Least and greatest value, exact.
    ends: Option<(f64, f64)>,
    zeros: u64,
    positive: Bins,
    negative: Bins,
}

/// The bins of one sign, by magnitude.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bins {
    /// Exponent and first fraction bits of the least magnitude.
    least: u32,
    /// Counts from `least` on; neither the first nor the last is zero.
    counts: VecDeque<u64>,
}

impl Sketch {
    /// Takes one value; NaN and infinities are no values and are ignored.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.stretch(value, value);
        let key = (value.abs().to_bits() >> DROPPED_BITS) as u32;
        match value {
            0.0 => self.zeros += 1,
            _ if value > 0.0 => self.positive.add(key, 1),
            _ => self.negative.add(key, 1),
        }
    }

    /// Takes all values of another.
    pub fn merge(&mut self, other: &Sketch) {
        let Some((least, greatest)) = other.ends else { return };
        self.stretch(least, greatest);
        self.zeros += other.zeros;
        self.positive.merge(&other.positive);
        self.negative.merge(&other.negative);
    }

    /// Values taken.
    pub fn count(&self) -> u64 {
        self.zeros + self.positive.count() + self.negative.count()
    }

    /// The least value, exact.
    pub fn min(&self) -> Option<f64> {
        self.ends.map(|(least, _)| least)
    }

    /// The greatest value, exact.
    pub fn max(&self) -> Option<f64> {
        self.ends.map(|(_, greatest)| greatest)
    }

    /// The value that `parts` of [`WHOLE`] do not exceed, by nearest rank: the
    /// ⌈q·n⌉-th smallest, 0 and less giving the smallest. Within
    /// [`RELATIVE_ERROR`], and within the least and the greatest value. `None`
    /// without a value.
    pub fn quantile(&self, parts: u64) -> Option<f64> {
        let (least, greatest) = self.ends?;
        let count = self.count();
        let rank = (u128::from(count) * u128::from(parts)).div_ceil(u128::from(WHOLE));
        let mut left = u64::try_from(rank).unwrap_or(u64::MAX).clamp(1, count);
        if left == 1 || left == count {
            return Some(if left == 1 { least } else { greatest });
        }
        let negative = self.negative.iter().rev().map(|(key, count)| (-middle(key), count));
        let positive = self.positive.iter().map(|(key, count)| (middle(key), count));
        for (value, count) in negative.chain([(0.0, self.zeros)]).chain(positive) {
            if left <= count {
                return Some(value.clamp(least, greatest));
            }
            left -= count;
        }
        Some(greatest)
    }

    /// Bytes in memory beside the sketch itself.
    pub fn heap_bytes(&self) -> usize {
        (self.positive.counts.capacity() + self.negative.counts.capacity()) * size_of::<u64>()
    }

    fn stretch(&mut self, least: f64, greatest: f64) {
        // Zero has two signs, and which one is kept must not depend on order.
        let (low, high) = self.ends.unwrap_or((least, greatest));
        let low = if least.total_cmp(&low).is_lt() { least } else { low };
        let high = if greatest.total_cmp(&high).is_gt() { greatest } else { high };
        self.ends = Some((low, high));
    }
}

/// The middle of a bin.
fn middle(key: u32) -> f64 {
    let bits = (u64::from(key) << DROPPED_BITS) | (1 << (DROPPED_BITS - 1));
    f64::from_bits(bits)
}

impl Bins {
    fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, u64)> {
        let in_use = |(i, count): (usize, &u64)| (self.least + i as u32, *count);
        self.counts.iter().enumerate().map(in_use)
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts `count` (positive) at `key`, or at the least key that is kept. The
    /// greatest key decides which that is, so the result depends on the values
    /// alone: a bound that rose early would have risen anyway.
    fn add(&mut self, key: u32, count: u64) {
        if self.counts.is_empty() {
            self.least = key;
            self.counts.push_back(count);
            return;
        }
        let greatest = self.least + self.counts.len() as u32 - 1;
        let floor = greatest.max(key).saturating_sub(BINS_MAX as u32 - 1);
        if floor > self.least {
            self.raise(floor);
        }
        let key = key.max(floor);
        for _ in key..self.least {
            self.counts.push_front(0);
        }
        self.least = self.least.min(key);
        let at = (key - self.least) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += count;
    }

    /// Counts all below `floor` there.
    fn raise(&mut self, floor: u32) {
        let below = ((floor - self.least) as usize).min(self.counts.len());
        let moved: u64 = self.counts.drain(..below).sum();
        match self.counts.front_mut() {
            Some(first) => *first += moved,
            None => self.counts.push_back(moved),
        }
        self.least = floor;
    }

    fn merge(&mut self, other: &Bins) {
        // From the greatest on: what is given up is known from the start.
        for (key, count) in other.iter().rev().filter(|(_, count)| *count > 0) {
            self.add(key, count);
        }
    }
}

/// Stored as distance from the bin before and count, empty bins left out: two or
/// three bytes each.
impl Serialize for Bins {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut before = 0;
        let step = |(key, count): (u32, u64)| {
            let step = key - before;
            before = key;
            (step, count)
        };
        let in_use = self.iter().filter(|(_, count)| *count > 0);
        in_use.map(step).collect::<Vec<(u32, u64)>>().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Bins {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let steps = Vec::<(u32, u64)>::deserialize(from)?;
        let (mut bins, mut key) = (Self::default(), 0_u32);
        for (step, count) in steps.into_iter().filter(|(_, count)| *count > 0) {
            key = key.saturating_add(step).min(KEY_MAX);
            bins.add(key, count);
        }
        Ok(bins)
    }
}

#[cfg(test)]
#[path = "sketch_tests.rs"]
mod tests;
