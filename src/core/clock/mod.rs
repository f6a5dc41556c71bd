//! What the gateway knows about its own clock.
//!
//! [`quality`] names the states and judges what the kernel says. The model that
//! tells steps from slews, bounds holdover and re-stamps readings taken before
//! the clock was right belongs here beside it.

pub mod encode;
pub mod quality;

pub use quality::{ClockReading, ClockSource, ClockState, KernelClock};
