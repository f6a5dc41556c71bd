//! Tidegate stands beside PLC and fieldbus readers, stamps each reading with UTC
//! event time, clock quality and a durable sequence number, keeps readings on
//! disk while the uplink is away, and forwards them over MQTT. Every reading it
//! acknowledged arrives, under one name, or a gap record says why not.
//!
//! # The picture
//!
//! ```text
//!  sources (tasks)        driver loop (one task)                 store thread (blocking)
//!   Readings ───────►  1. gather inputs up to a bound
//!   host facts ─────►  2. read the clock once  -> Now
//!   LinkEvent ──────►  3. agent.handle(now, input) for each
//!   Committed ──────►  4. agent.end_turn(now)                ──►  Commit -> flush, fdatasync -> Committed
//!   Stop ───────────►  5. carry out every Effect             ──►  Fetch, Remove -> Fetched, Removed
//!                           │                                ──►  link task (rumqttc): Publish, Connect
//!                           ▼
//!               core::agent::Agent
//!               clock → dedupe → stamp → values → number → window → pending → buffer → forward
//! ```
//!
//! A deterministic core decides, a thin shell acts. The border between them is
//! data: [`core::seam::Input`] in, [`core::seam::Effect`] out. The product
//! carries effects out with tokio, sled and rumqttc; `tests/sim` carries out the
//! same effects against a modelled disk, broker and clock, from a seed.
//!
//! # A reading's walk
//!
//! 1. A [`source`] notes the arrival at the door, parses, and hands a batch in.
//!    It does not acknowledge yet.
//! 2. The [`shell`]'s driver reads the clock once and calls the agent.
//! 3. [`core::clock`] says how good the clock is, [`core::dedupe`] drops what was
//!    numbered before, [`core::stamp`] chooses the event time, [`core::values`]
//!    makes totals of increments and drops what moved too little, [`core::books`]
//!    gives the number, [`core::window`] gets the reading and may come to results,
//!    [`core::pending`] gathers both.
//! 4. At the end of a turn one group commit may be due: entries, refused inputs
//!    and the state that belongs to them.
//! 5. The [`store`] applies, flushes and syncs it. Only now receipts go to the
//!    senders, [`output`] and [`http`] show results on site, [`core::order`] lets
//!    readings out in the order of event time, and [`core::forward`] may see the
//!    entries.
//! 6. A reading whose time was open gets its final one, sealed in the journal
//!    before it leaves ([`core::clock::seal`]). The [`link`] publishes and reports
//!    PUBACKs; only those make an entry done.
//! 7. [`core::buffer`] lets go of whole segments that are done with, or, when the
//!    disk is full, writes the oldest off with a gap record first.
//! 8. After a link loss the cursor goes back to the acknowledged frontier. The
//!    store is the only memory.
//! 9. After a restart the windows take up their last checkpoint and are given the
//!    journal from there once more: readings, late times, silences, in order.
//!    Results that it holds are compared and not said again; until the end is
//!    reached nothing leaves. The memory of repeats and the running
//!    totals go on in the same way, and until they are whole no reading is taken.
//!
//! # What always holds
//!
//! - A sequence number names one reading, for ever ([`core::id`]).
//! - Nothing is published or acknowledged to a sender before it is durable.
//! - A name has one content: a time that is found out later is a correction
//!   record, never a second version of a reading.
//! - Nothing is deleted before it is acknowledged, except with a gap record.
//! - `accepted = acknowledged + stored + evicted + lost`, for every source.
//! - One commit is outstanding; every queue has a bound in [`core::limits`].
//! - The same journal gives the same results with the same revision numbers.
//! - The core reads no clock, no disk, no network and no random number.
//!
//! # Where to begin
//!
//! [`core::seam`], then [`core::agent`], then [`core::forward`]; for the disk the
//! essay in [`store`]; for time the essay in [`core::clock`]; for windows
//! [`core::window`]; for brokers [`mqtt`]; for what is seen from outside [`wire`], [`http`] and
//! [`output`].

pub mod cli;
pub mod config;
pub mod core;
pub mod exit;
#[cfg(test)]
#[path = "../tests/support/golden.rs"]
mod golden;
#[cfg(test)]
#[path = "../tests/support/readings.rs"]
mod readings;
// So that what the tests share means the same within the crate and outside.
#[cfg(test)]
extern crate self as tidegate;
pub mod host;
pub mod http;
pub mod link;
pub mod mqtt;
pub mod output;
mod peer;
pub mod shell;
pub mod source;
pub mod store;
pub mod wire;
