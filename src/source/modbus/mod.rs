//! A device that is asked over Modbus: TCP, RTU on a serial line, or RTU over TCP.
//!
//! ```text
//!  schedule ──► poll ──► plan (blocks) ──► link ──► frame ──► the device
//!                 │                                             │
//!                 ◄── told (what is worth saying) ◄── codec ◄───┘
//! ```
//!
//! Each source is one device with a task of its own: whatever one does, the others
//! keep their time. Only those that share a line of RTU, a serial port or a serial
//! server, wait for each other, one exchange at a time.

mod codec;
mod frame;
mod line;
mod link;
mod part;
mod plan;
mod poll;
mod schedule;
mod serial;
mod told;

pub use codec::{Decoded, decode};
pub use frame::{Answer, Exception, Finder, Framing, NotModbus, Request};
pub use link::{Fault, Link};
pub use plan::{Block, plan};
pub use schedule::Schedule;

use super::Door;
use crate::config::{self, Source};

/// Asks a device until the source is stopped.
pub(super) async fn run(device: config::Modbus, source: Source, door: Door) {
    poll::poll_until_stopped(device, source, door).await;
}
