//! The API of a running agent against its description, and against those who mean
//! it no good.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails a test")]

mod support;

#[path = "api/answers.rs"]
mod answers;
#[path = "api/description.rs"]
mod description;
#[path = "api/refusals.rs"]
mod refusals;
#[path = "api/visitors.rs"]
mod visitors;
