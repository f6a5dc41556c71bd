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

use serde::{Deserialize, Serialize};

/// Greatest relative error of a quantile: half a bin, 1/128 = 0.78 %, where no
/// bin had to be given up.
pub const RELATIVE_ERROR: f64 = 1.0 / 128.0;

/// Bins of one sign: 32 powers of two, nine decades, if every bin is in use.
/// Beyond, the bins nearest to zero are counted together. 16 bytes each.
pub const BINS_MAX: usize = 2_048;

/// Parts of a whole in which quantiles are given: 9,900 is the 99th percentile.
pub const WHOLE: u64 = 10_000;

/// Fraction bits that do not matter: 52 of a double less the six that do.
const DROPPED_BITS: u32 = 46;

/// Quantiles of finite numbers of either sign, zero included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sketch {
    /// Least and greatest value, exact.
    ends: Option<(f64, f64)>,
    zeros: u64,
    positive: Bins,
    negative: Bins,
}

/// The bins of one sign, by magnitude, least first; none is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Bins {
    #[serde(with = "packed")]
    bins: Vec<Bin>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bin {
    /// Exponent and first fraction bits of the magnitude.
    key: u32,
    count: u64,
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
            _ if value > 0.0 => self.positive.add(key),
            _ => self.negative.add(key),
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
        let negative = self.negative.bins.iter().rev().map(|bin| (-middle(bin.key), bin.count));
        let positive = self.positive.bins.iter().map(|bin| (middle(bin.key), bin.count));
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
        (self.positive.bins.capacity() + self.negative.bins.capacity()) * size_of::<Bin>()
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
    fn count(&self) -> u64 {
        self.bins.iter().map(|bin| bin.count).sum()
    }

    fn add(&mut self, key: u32) {
        match self.bins.binary_search_by_key(&key, |bin| bin.key) {
            Ok(at) => self.bins[at].count += 1,
            Err(at) => {
                self.bins.insert(at, Bin { key, count: 1 });
                self.shrink();
            }
        }
    }

    fn merge(&mut self, other: &Bins) {
        let mut merged = Vec::with_capacity(self.bins.len().max(other.bins.len()));
        let (mut ours, mut theirs) = (self.bins.iter().peekable(), other.bins.iter().peekable());
        loop {
            let from_ours = match (ours.peek(), theirs.peek()) {
                (None, None) => break,
                (Some(a), Some(b)) if a.key == b.key => {
                    merged.push(Bin { key: a.key, count: a.count + b.count });
                    ours.next();
                    theirs.next();
                    continue;
                }
                (Some(a), Some(b)) => a.key < b.key,
                (ours, None) => ours.is_some(),
                (None, Some(_)) => false,
            };
            merged.extend(if from_ours { ours.next() } else { theirs.next() });
        }
        self.bins = merged;
        self.shrink();
    }

    /// Counts the bins nearest to zero together until the bound is kept. Which
    /// ones survive, and so the result, depends on the values alone: those of
    /// the greatest keys are among the greatest of every part too.
    fn shrink(&mut self) {
        let Some(excess) = self.bins.len().checked_sub(BINS_MAX).filter(|excess| *excess > 0)
        else {
            return;
        };
        let given_up: u64 = self.bins.drain(..excess).map(|bin| bin.count).sum();
        if let Some(least) = self.bins.first_mut() {
            least.count += given_up;
        }
    }
}

/// Bins as distance from the bin before and count: two or three bytes each.
mod packed {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Bin;

    pub(super) fn serialize<S: Serializer>(bins: &[Bin], to: S) -> Result<S::Ok, S::Error> {
        let mut before = 0;
        let step = |bin: &Bin| {
            let step = bin.key.wrapping_sub(before);
            before = bin.key;
            (step, bin.count)
        };
        bins.iter().map(step).collect::<Vec<(u32, u64)>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Bin>, D::Error> {
        let steps = Vec::<(u32, u64)>::deserialize(from)?;
        let mut key = 0_u32;
        let bin = |(step, count)| {
            key = key.wrapping_add(step);
            Bin { key, count }
        };
        Ok(steps.into_iter().map(bin).collect())
    }
}

#[cfg(test)]
#[path = "sketch_tests.rs"]
mod tests;
