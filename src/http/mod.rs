//! The agent's window to the outside: status, metrics, health and results of
//! windows over HTTP, on loopback and on the control socket of the data directory,
//! and a page that shows them.

pub mod api;
pub mod clock;
pub mod config;
pub mod health;
mod history;
pub mod journal;
pub mod lateness;
pub mod metrics;
pub mod notices;
pub mod orders;
pub mod page;
pub mod serve;
pub mod status;
pub mod stream;
pub mod token;
pub mod visitor;
pub mod windows;
pub(crate) mod words;
