//! Peers that misbehave on request, shared by the integration tests.
#![expect(clippy::allow_attributes, reason = "dead code differs from test crate to test crate")]
#![allow(dead_code, reason = "each test crate uses its own part of this")]

pub(crate) mod broker;
pub(crate) mod packet;
