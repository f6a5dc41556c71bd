//! All windows at one place of the journal, as bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::entry::Horizon;
use super::operator::OperatorState;
use crate::core::id::Offset;

/// The form of the bytes; another one is not read.
const FORM: u8 = 1;

/// All windows as they were when the journal had come to `through`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// One past the last entry that they have seen.
    pub through: Offset,
    /// Each of them.
    pub windows: Vec<WindowState>,
    /// What bounds the future for them.
    pub horizon: Horizon,
    /// Measured lateness ([`crate::core::lateness`]), in its own form.
    pub lateness: Vec<u8>,
}

/// One window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowState {
    /// Its name.
    pub name: String,
    /// Its version: another one starts afresh.
    pub version: u32,
    /// Its panes and watermarks.
    pub operator: OperatorState,
    /// The gateway's clock as its readings showed it: timebase, wall time less
    /// uptime in nanoseconds, and the timebase that results carry.
    pub clock: Option<(u32, i64, u32)>,
}

/// The bytes are no checkpoint that this version can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("their checkpoint was written by another version, or is damaged")
    }
}

impl std::error::Error for Unreadable {}

impl Checkpoint {
    /// As bytes. Empty if it cannot be encoded, which nothing in it brings about.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        if let Ok(body) = postcard::to_stdvec(self) {
            bytes.extend(body);
        }
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// Another form, or not a checkpoint.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        match bytes.split_first() {
            Some((&FORM, body)) => postcard::from_bytes(body).map_err(|_| Unreadable),
            _ => Err(Unreadable),
        }
    }
}
