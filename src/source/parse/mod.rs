//! From outside bytes to readings. Pure: no clock, no I/O.

pub mod bare;
pub mod influx;
pub mod json;
mod level;
pub(super) mod points;
mod series;
pub mod time;

use std::fmt;

use crate::config::{Format, Source};
use crate::core::limits::NAME_BYTES_MAX;
use crate::core::reading::Reading;

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

/// Turns the lines of one source into readings, whatever their format.
#[derive(Debug)]
pub enum Parser {
    /// JSON objects.
    Json(Box<json::JsonParser>),
    /// Points of the line protocol.
    Influx(Box<influx::InfluxParser>),
}

impl Parser {
    /// For lines of this format, with the keys of `source`.
    pub fn new(source: &Source, format: Format) -> Self {
        match format {
            Format::Json => Parser::Json(Box::new(json::JsonParser::new(source))),
            Format::Influx => Parser::Influx(Box::new(influx::InfluxParser::new(source))),
        }
    }

    /// Appends the readings of one line.
    ///
    /// # Errors
    /// Why the line is refused; `readings` is then as it was.
    pub fn parse(&mut self, line: &str, readings: &mut Vec<Reading>) -> Result<(), Fault> {
        match self {
            Parser::Json(parser) => parser.parse(line, readings),
            Parser::Influx(parser) => parser.parse(line, readings),
        }
    }
}

fn check_name(name: &str, what: &str) -> Result<(), Fault> {
    if name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let what = format!("{what} has {} bytes; at most {NAME_BYTES_MAX}", name.len());
    Err(Fault::new("name", what))
}
