//! Tidegate (crate docs follow).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
pub mod config;
pub mod core;
pub mod source;
