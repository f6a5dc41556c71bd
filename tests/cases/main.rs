//! The field cases, one file per area, by their id.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod json;
