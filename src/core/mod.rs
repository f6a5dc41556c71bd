//! The deterministic core: [`seam::Input`] in, [`seam::Effect`] out.
//!
//! No clock, no I/O, no async, no randomness of its own. The same inputs give
//! the same effects, on a Pi and in the simulator.

pub mod agent;
pub mod ages;
pub mod backoff;
pub mod books;
pub mod buffer;
pub mod clock;
pub mod connection;
pub mod dedupe;
pub mod expiry;
pub mod forward;
pub mod id;
pub mod lateness;
pub mod leap;
pub mod length;
pub mod limits;
pub mod notice;
pub mod order;
pub mod pending;
pub mod rangeset;
pub mod rate;
pub mod reading;
pub mod release;
pub mod renumber;
pub mod seam;
pub mod secret_mode;
pub mod settings;
pub mod skew;
pub mod stamp;
pub mod status;
pub mod time;
pub mod values;
pub mod wear;
pub mod window;
pub mod zone;
