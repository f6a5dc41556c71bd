//! What `/metrics` of a running agent says, and those who read it: Prometheus, the
//! dashboard and the alerts.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails a test")]

mod support;

#[path = "metrics/exposition.rs"]
mod exposition;
#[path = "metrics/promql.rs"]
mod promql;
#[path = "metrics/readers.rs"]
mod readers;
#[path = "metrics/said.rs"]
mod said;
