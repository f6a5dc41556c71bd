//! The format `postcard-batch`: readings of one source and numbering, in order,
//! as one compact payload. It says what `json` says, no more and no less.
//!
//! # A payload
//!
//! | byte | is |
//! | --- | --- |
//! | 0 | the version, 1; with the top bit set (`0x81`) what follows is compressed |
//! | 1 … | a [`Batch`] in [postcard](https://postcard.jamesmunns.com/wire-format), or one zstd frame (RFC 8878) that holds it |
//!
//! Compression is used where it makes the payload smaller. Another version is
//! refused ([`BatchError`]): a version changes only when the schema does.
//!
//! In postcard integers are varints, least significant seven bits first; signed
//! ones are zigzag-coded before. `u8`, `bool` and the 16 bytes of a boot id stand
//! as they are, an `f64` as eight bytes, little-endian. Texts and lists begin with
//! their length, an option with 0 or 1, an enum with the number of its variant.
//! Fields follow each other in the order of their declaration.
//!
//! # The schema
//!
//! The schema is [`Batch`] and the types in it. What repeats is said once and
//! meant by its place in a list: [`BatchSeries`], [`Provenance`], boots. Numbers
//! that grow are said as the difference to the reading before; the first reading
//! counts from 0. Differences wrap around at 64 bits, so every pair of times has
//! one. The codes of [`Provenance`]:
//!
//! | code | `quality` | `origin` | `clock` | `state` |
//! | --- | --- | --- | --- | --- |
//! | 0 | `good` | `device` | `gnss` | `synchronized` |
//! | 1 | `uncertain` | `device_corrected` | `ptp` | `holdover` |
//! | 2 | `bad` | `gateway` | `ntp` | `stepped` |
//! | 3 | | `restamped` | `rtc` | `unsynchronized` |
//! | 4 | | `substituted` | `manual` | |
//! | 5 | | `bounded` | `free_running` | |
//! | 6 | | `unknown` | `saved` | |
//! | 7 | | | `unknown` | |
//!
//! `flags` has bit *n* set for the *n*-th name of
//! [`Flags::NAMES`](crate::core::reading::Flags::NAMES), `future` being bit 0.
//!
//! # A worked example
//!
//! One reading of gateway `gw`, source `in`, epoch `1-00000007`, seq 300:
//! `pump` `kpa` 412.5, without a unit, event time 1 s and ingest time 1 s + 1 µs
//! after 1970, from a device, under a clock synchronized by NTP within 1,200 µs,
//! timebase 3, no flags:
//!
//! ```text
//! 01                          version 1, not compressed
//! 02 67 77                    gateway "gw"
//! 02 69 6e                    source "in"
//! 01 07                       epoch: number 1, nonce 7
//! 01                          one series:
//!    04 70 75 6d 70              entity "pump"
//!    03 6b 70 61                 property "kpa"
//!    00                          no unit
//! 00                          no boots
//! 01                          one provenance:
//!    00 00 02 00                 quality good, origin device, clock ntp, synchronized
//!    01 b0 09                    max_error_us 1200
//!    03                          timebase 3
//!    00 00 00                    no boot, no UTC offset, no flags
//! 01                          one reading:
//!    ac 02                       seq 0 + 300
//!    00 00                       series 0, provenance 0
//!    80 a8 d6 b9 07              event time 0 + 1,000,000,000 ns
//!    d0 b7 d6 b9 07              ingest time 0 + 1,000,001,000 ns
//!    00 00 00 00 00 00 c8 79 40  value: variant 0, f64 412.5
//!    00                          nothing more
//! ```
//!
//! A test holds these bytes and those of a stored payload with everything in it.
//!
//! # In Rust
//!
//! ```
//! use tidegate::wire::batch::Batch;
//! use tidegate::wire::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let payload = [
//!     0x01, 2, 0x67, 0x77, 2, 0x69, 0x6e, 1, 7, 1, 4, 0x70, 0x75, 0x6d, 0x70, 3, 0x6b, 0x70,
//!     0x61, 0, 0, 1, 0, 0, 2, 0, 1, 0xb0, 0x09, 3, 0, 0, 0, 1, 0xac, 0x02, 0, 0, 0x80, 0xa8,
//!     0xd6, 0xb9, 0x07, 0xd0, 0xb7, 0xd6, 0xb9, 0x07, 0, 0, 0, 0, 0, 0, 0xc8, 0x79, 0x40, 0,
//! ];
//! let batch = Batch::decode(&payload)?;
//! for record in batch.records() {
//!     let mut line = Vec::new();
//!     json::reading(&batch.gateway, &record?, &mut line);
//!     assert!(line.starts_with(br#"{"v":1,"gateway":"gw","source":"in","epoch":"1-00000007","seq":300,"#));
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::core::reading::Record;

mod code;
mod gather;
mod payload;
mod resolve;

/// The content type of a batch, for MQTT 5.
pub const CONTENT_TYPE: &str = "application/vnd.tidegate.batch";

/// The version of the schema that is written and read.
pub const VERSION: u8 = 1;

/// Largest uncompressed batch that is taken, in bytes. Decoded it takes up to sixteen
/// times as much memory.
pub const BATCH_BYTES_MAX: usize = 24 * 1024 * 1024;

/// Readings of one source and numbering, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The gateway's id.
    pub gateway: String,
    /// The source.
    pub source: String,
    /// The epoch's number, before the dash.
    pub epoch_number: u32,
    /// The epoch's random part, behind the dash in eight hexadecimal digits.
    pub epoch_nonce: u32,
    /// What was measured.
    pub series: Vec<BatchSeries>,
    /// Boots of the gateway that `uptime_ns` counts from.
    pub boots: Vec<[u8; 16]>,
    /// What is to be known about times and values.
    pub provenances: Vec<Provenance>,
    /// The readings.
    pub readings: Vec<BatchReading>,
}

/// One property of one entity, in one unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSeries {
    /// The thing.
    pub entity: String,
    /// What of it.
    pub property: String,
    /// The unit as the source wrote it.
    pub unit: Option<String>,
}

/// Where the time of a reading comes from and what it and the value are worth.
/// The codes are in the documentation of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Provenance {
    /// The device's word on the value.
    pub quality: u8,
    /// Who set the event time: `time.origin`.
    pub origin: u8,
    /// What disciplined the gateway's clock: `time.clock`.
    pub clock: u8,
    /// How far that could be trusted: `time.state`.
    pub state: u8,
    /// Bound on |event time − UTC|, in microseconds; none where nothing bounds it.
    pub max_error_us: Option<u64>,
    /// The stretch of wall clock between two steps.
    pub timebase: u32,
    /// The boot, as a place in [`Batch::boots`], where the clock was not synchronized
    /// when it stamped or the time was found out later.
    pub boot: Option<u32>,
    /// The source's own UTC offset, in seconds east.
    pub utc_offset_s: Option<i32>,
    /// The flags as bits.
    pub flags: u32,
}

/// One reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchReading {
    /// The sequence number, less that of the reading before.
    pub seq_step: u64,
    /// A place in [`Batch::series`].
    pub series: u32,
    /// A place in [`Batch::provenances`].
    pub provenance: u32,
    /// The event time in nanoseconds since 1970, UTC, less that of the reading
    /// before.
    pub event_step_ns: i64,
    /// The ingest time, in the same way.
    pub ingest_step_ns: i64,
    /// The value.
    pub value: BatchValue,
    /// What few readings have.
    pub more: Option<Box<BatchMore>>,
}

/// A value. Numbers are exact, also those that are not finite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BatchValue {
    /// Variant 0: a floating-point number.
    F64(f64),
    /// Variant 1: an integer.
    I64(i64),
    /// Variant 2: an integer above the greatest of variant 1.
    U64(u64),
    /// Variant 3: true or false.
    Bool(bool),
    /// Variant 4: text.
    Text(String),
    /// Variant 5: an object or array, as the JSON text that came.
    Composite(String),
}

/// What few readings have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchMore {
    /// The reader's own name for the reading.
    pub id: Option<String>,
    /// The protocol's own word on the quality.
    pub quality_detail: Option<String>,
    /// The event time that was said first, less the event time, in nanoseconds.
    pub first_event_ns: Option<i64>,
    /// Uptime of [`Provenance::boot`] at arrival, in nanoseconds, less that of the
    /// last reading before that has one.
    pub uptime_step_ns: Option<i64>,
}

/// Why a payload is no batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// The payload is empty.
    Empty,
    /// A version that this program does not know.
    Version(u8),
    /// The compressed part is damaged or cut off.
    Compression(String),
    /// The batch is, or claims to be, larger than [`BATCH_BYTES_MAX`].
    TooLarge,
    /// The bytes are no [`Batch`].
    Schema {
        /// Where in the uncompressed payload, in bytes; its first byte is 0.
        offset: usize,
        /// Why, in the words of postcard.
        reason: String,
    },
    /// A reading means something that is not in the batch.
    Dangling {
        /// Which reading, from 0.
        reading: usize,
        /// What it means.
        what: &'static str,
        /// The place or code that there is not.
        code: u32,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchError::Empty => f.write_str("at byte 0: the payload is empty"),
            BatchError::Version(version) => write!(
                f,
                "at byte 0: version {version} of postcard-batch, and this program knows version \
                 {VERSION}: use a newer tidegate, or it is another format"
            ),
            BatchError::Compression(reason) => {
                write!(f, "at byte 1: the zstd frame cannot be read: {reason}")
            }
            BatchError::TooLarge => {
                write!(f, "at byte 1: more than {BATCH_BYTES_MAX} bytes when uncompressed")
            }
            BatchError::Schema { offset, reason } => {
                write!(f, "at byte {offset} (uncompressed): {reason}")
            }
            BatchError::Dangling { reading, what, code } => {
                write!(f, "reading {reading} of the batch: there is no {what} {code}")
            }
        }
    }
}

impl std::error::Error for BatchError {}

/// Appends readings of one source and numbering, compressed where it pays.
/// Nothing is appended for no readings.
pub fn encode(gateway: &str, records: &[Record], out: &mut Vec<u8>) {
    if let Some(batch) = Batch::gather(gateway, records) {
        payload::write(&batch, out);
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
