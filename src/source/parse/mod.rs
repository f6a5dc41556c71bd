//! From outside bytes to readings. Pure: no clock, no I/O.

pub mod json;
mod series;
pub mod time;

use std::fmt;

/// Why an input did not become a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A short word for metrics.
    pub kind: &'static str,
    /// What is wrong, for people.
    pub what: String,
}

impl Fault {
    pub(crate) fn new(kind: &'static str, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
