//! The deterministic core: [`seam::Input`] in, [`seam::Effect`] out.
//!
//! No clock, no I/O, no async, no randomness of its own. The same inputs give
//! the same effects, on a Pi and in the simulator.

pub mod agent;
pub mod clock;
pub mod id;
pub mod limits;
pub mod reading;
pub mod seam;
pub mod time;
