//! Sums of reals that do not depend on the order of their terms but for the last
//! digit.

use serde::{Deserialize, Serialize};

/// A sum of reals with its rounding errors summed beside it (Neumaier 1974).
///
/// However the terms are ordered and split, the total differs from the exact sum
/// by at most one unit in its last place and n²·2^-104 · Σ|x|.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    pub(super) fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        let lost = if self.sum.abs() >= term.abs() {
            (self.sum - sum) + term
        } else {
            (term - sum) + self.sum
        };
        self.sum = sum;
        self.error += lost;
    }

    /// Adds `a` · `b` and what that loses by rounding.
    pub(super) fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.add(product);
        self.error += a.mul_add(b, -product);
    }

    pub(super) fn merge(&mut self, other: &Compensated) {
        self.add(other.sum);
        self.error += other.error;
    }

    /// The total divided by `by`, rounded once or twice in all.
    pub(super) fn ratio(&self, by: f64) -> f64 {
        let quotient = self.sum / by;
        let left = quotient.mul_add(-by, self.sum) + self.error;
        quotient + left / by
    }

    pub(super) fn total(&self) -> f64 {
        self.sum + self.error
    }
}
