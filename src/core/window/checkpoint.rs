//! The state of all windows as of an offset in the journal, as bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::entry::Horizon;
use super::operator::OperatorState;
use crate::core::id::Offset;
use crate::core::order::OrderState;

/// The version of the stored form that is written. Older ones are not read, except
/// [`FORM_WITHOUT_ORDERS`].
const FORM: u8 = 2;
/// The version before, which had no orders.
const FORM_WITHOUT_ORDERS: u8 = 1;

/// All windows as they were when the journal had come to `through`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// One past the last entry that they have seen.
    pub through: Offset,
    /// Each of them.
    pub windows: Vec<WindowState>,
    /// Bounds how far into the future an event time may move watermarks.
    pub horizon: Horizon,
    /// Measured lateness ([`crate::core::lateness`]), in its own form.
    pub lateness: Vec<u8>,
    /// The orders of outputs.
    pub orders: Vec<OrderState>,
}

/// One window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowState {
    /// Its name.
    pub name: String,
    /// Its version: a window of another version starts empty.
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
    /// The first entry of the journal that is needed to go on from here.
    pub fn needs_from(&self) -> Offset {
        let held = self.orders.iter().filter_map(|order| order.from);
        held.min().map_or(self.through, |from| from.min(self.through))
    }

    /// As bytes; empty if it could not be encoded, which does not happen with its types.
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
    /// The bytes are of another version, or not a checkpoint.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        match bytes.split_first() {
            Some((&FORM, body)) => postcard::from_bytes(body).map_err(|_| Unreadable),
            Some((&FORM_WITHOUT_ORDERS, body)) => {
                let no_orders = [0];
                let body = [body, &no_orders].concat();
                postcard::from_bytes(&body).map_err(|_| Unreadable)
            }
            _ => Err(Unreadable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_from_before_there_were_orders_is_read() {
        let checkpoint = Checkpoint {
            through: Offset(7),
            windows: Vec::new(),
            horizon: Horizon::default(),
            lateness: vec![1, 2, 3],
            orders: Vec::new(),
        };
        let mut old = checkpoint.encode();
        old[0] = FORM_WITHOUT_ORDERS;
        assert_eq!(old.pop(), Some(0), "no orders");
        for bytes in [old, checkpoint.encode()] {
            let known = Checkpoint::decode(&bytes).unwrap();
            assert_eq!((known.through, known.needs_from()), (Offset(7), Offset(7)));
            assert_eq!((known.lateness, known.orders.len()), (vec![1, 2, 3], 0));
        }
        assert!(Checkpoint::decode(&[FORM + 1, 0]).is_err());
    }
}
