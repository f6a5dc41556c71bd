//! Peers that misbehave on request, shared by the integration tests.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails a test")]
#![allow(dead_code, reason = "each test crate uses its own part of this")]

pub(crate) mod broker;
mod conversation;
pub(crate) mod feeder;
pub(crate) mod gateway;
pub(crate) mod limit;
pub(crate) mod modbus;
pub(crate) mod mount;
pub(crate) mod packet;
pub(crate) mod pki;
pub(crate) mod process;
pub(crate) mod pty;
pub(crate) mod script;
pub(crate) mod shim;
pub(crate) mod subscriber;
