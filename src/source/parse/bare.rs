//! Bare values: a payload that is a number, a boolean or a text, and nothing else.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::series::Interner;
use super::{Fault, check_name, json};
use crate::config::Source;
use crate::core::reading::{Flags, Quality, Reading, Value};

/// Turns bare values of one source into readings.
#[derive(Debug)]
pub struct BareParser {
    interner: Interner,
}

impl BareParser {
    /// For the values of this source.
    pub fn new(source: &Source) -> Self {
        Self { interner: Interner::new(&source.conversions) }
    }

    /// Appends the reading of a value: a number as JSON writes it, `true` or `false`,
    /// or else a text, as it stands. Space around it does not count; nothing at all
    /// is no reading.
    ///
    /// # Errors
    /// Why it is refused: a number that does not fit, a name that is none.
    pub fn parse(
        &mut self,
        entity: &str,
        property: &str,
        payload: &str,
        readings: &mut Vec<Reading>,
    ) -> Result<(), Fault> {
        let text = payload.trim();
        if text.is_empty() {
            return Ok(());
        }
        for (what, name) in [("entity", entity), ("property", property)] {
            check_name(name, what)?;
            if name.is_empty() {
                return Err(Fault::new("name", format!("{what} is empty")));
            }
        }
        readings.push(Reading {
            series: self.interner.series(entity, property, None),
            value: value(text)?,
            quality: Quality::Good,
            quality_detail: None,
            device_time: None,
            id: None,
            flags: Flags::NONE,
        });
        Ok(())
    }
}

fn value(text: &str) -> Result<Value, Fault> {
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && serde_json::from_str::<&RawValue>(text).is_ok();
    Ok(match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        number if is_number => json::number(number)?,
        text => Value::Text(Arc::from(text)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit_and_the_rest_is_text() {
        for (text, expected) in [
            ("412.5", Value::F64(412.5)),
            ("7", Value::I64(7)),
            ("-9007199254740993", Value::I64(-9_007_199_254_740_993)),
            ("18446744073709551615", Value::U64(u64::MAX)),
            ("1e3", Value::F64(1000.0)),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("TRUE", Value::Text("TRUE".into())),
            ("1,5", Value::Text("1,5".into())),
            ("007", Value::Text("007".into())),
            ("12 bar", Value::Text("12 bar".into())),
            ("\"a\"", Value::Text("\"a\"".into())),
            ("NaN", Value::Text("NaN".into())),
            ("-", Value::Text("-".into())),
        ] {
            assert_eq!(value(text).unwrap(), expected, "{text}");
        }
        assert_eq!(value("18446744073709551616").unwrap_err().kind, "range");
        assert_eq!(value("1e999").unwrap_err().kind, "range");
    }
}
