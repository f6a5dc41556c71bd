//! Tidegate (crate docs follow).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
pub mod cli;
pub mod config;
pub mod core;
pub mod exit;
pub mod host;
pub mod http;
pub mod link;
pub mod shell;
pub mod source;
pub mod store;
pub mod wire;
