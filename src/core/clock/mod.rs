//! What the gateway knows about its own clock, and what follows from it.
//!
//! `host` samples, this decides. Reading order:
//!
//! 1. [`quality`]: the terms. [`facts`]: what the machine says.
//! 2. [`kernel`], [`chrony`], [`ptp`]: what each of them is worth; [`combine`]:
//!    all of it together, as a state and an error bound.
//! 3. [`detect`]: steps, leap seconds, suspends, told apart by comparing clocks.
//! 4. [`model`]: the clock over time; [`boots`]: what outlives a boot.
//! 5. [`timeline`]: what UTC was at an uptime, by anchors; [`seal`]: a reading's
//!    final time; [`correct`]: what went out before it was known.
//!
//! One number decides: the bound on |clock − UTC|. States and flags follow from it. No
//! stamp is clamped or moved to keep the order: true ones stay even when they go
//! backwards, and the sequence number gives the order.

pub mod boots;
pub mod chrony;
pub mod combine;
pub mod correct;
pub mod detect;
pub mod drift;
pub mod encode;
pub mod event;
pub mod facts;
pub mod kernel;
pub mod model;
pub mod ptp;
pub mod quality;
pub mod seal;
pub mod timeline;
pub mod updates;

pub use boots::Boot;
pub use correct::{Correction, SentStretch};
pub use event::{ClockEvent, ClockEventKind};
pub use facts::{BootFacts, ClockFacts, Vouch};
pub use model::{ClockModel, ClockSettings, Reference};
pub use quality::{ClockReading, ClockSource, ClockState};
pub use seal::Seal;
