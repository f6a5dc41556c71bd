//! Parsers: bytes from outside become readings, or a reason why not.

pub mod json;
pub mod time;

/// Why an input did not become a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// A short word for metrics: `syntax`, `time`, `no_value` …
    pub kind: &'static str,
    /// What is wrong, for people.
    pub reason: String,
}

impl Reject {
    /// A rejection of that kind.
    pub fn new(kind: &'static str, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }
}
