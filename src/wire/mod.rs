//! Bytes that other people read: payloads and topics of section "Output" of the
//! contract. Pure functions; a renamed domain field never changes a format,
//! because every key is spelt out here.

pub mod batch;
pub mod json;
pub mod topic;

mod time;
