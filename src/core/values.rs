//! What becomes of a source's values before readings get a number: increments become
//! running totals ([`totals`]), and readings that moved too little are dropped
//! ([`deadband`]).
//!
//! Both happen after repeats are dropped and the event time is known, and before the
//! number is given: a dropped reading has none, and every total is in the journal. A
//! property that is accumulated has no deadband, because a crash would take back a total
//! that was not journaled.

pub mod deadband;
pub mod decimal;
pub mod totals;

use super::reading::Value;
use super::window::glob;

/// What a source makes of its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueRules {
    /// Properties, or patterns of them, whose readings are increments.
    pub accumulate: Vec<String>,
    /// Deadbands: which changes are too small to be kept. The first that matches counts.
    pub deadbands: Vec<deadband::Rule>,
}

impl ValueRules {
    /// Whether readings of this property are increments.
    pub fn accumulates(&self, property: &str) -> bool {
        self.accumulate.iter().any(|name| glob::is_of(name, property))
    }
}

/// A number as it is, whole or not.
fn as_f64(value: &Value) -> Option<f64> {
    match value {
        Value::F64(number) => Some(*number),
        Value::I64(number) => Some(*number as f64),
        Value::U64(number) => Some(*number as f64),
        Value::Bool(_) | Value::Text(_) | Value::Composite(_) => None,
    }
}

/// A whole number with all its digits.
fn as_whole(value: &Value) -> Option<i128> {
    match value {
        Value::I64(number) => Some(i128::from(*number)),
        Value::U64(number) => Some(i128::from(*number)),
        _ => None,
    }
}
