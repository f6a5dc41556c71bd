//! Readings that come back out of the quarantine; what becomes of them is decided in the
//! agent.

use super::id::{ReceiptId, SourceId};
use super::reading::{Arrival, Reading, Record};
use super::time::IngestTime;

/// What an operator hands in again out of the quarantine.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// Its source.
    pub source: SourceId,
    /// When it first came, by the clock of that moment.
    pub came: IngestTime,
    /// The arrival now, when it was handed in again.
    pub arrival: Arrival,
    /// What it is.
    pub released: Released,
    /// To be answered once it is durable again, as a reading.
    pub receipt: Option<ReceiptId>,
}

/// What was in the quarantine.
#[derive(Clone, Debug, PartialEq)]
pub enum Released {
    /// The readings of a line, by the parser as it is configured now, or a reading that was
    /// refused before it got a number.
    Readings(Vec<Reading>),
    /// A reading that no broker took, as it was journaled.
    Record(Box<Record>),
}
