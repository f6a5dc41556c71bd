//! Log lines on stderr.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;
use crate::exit::{Exit, Failure};
use crate::host::systemd;

/// Starts logging for the rest of the process. `filter` is a tracing filter,
/// as in `info` or `info,tidegate::link=debug`.
///
/// # Errors
/// The filter cannot be read.
pub(super) fn start(filter: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| Failure::new(Exit::Config, format_args!("gateway.log: {error}")))?;
    let is_journal = match format {
        LogFormat::Auto => systemd::logs_to_journal(),
        LogFormat::Journald => true,
        LogFormat::Text | LogFormat::Json => false,
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(!is_journal && io::stderr().is_terminal());
    let started = match (format, is_journal) {
        (LogFormat::Json, _) => lines.json().finish().try_init(),
        // The systemd journal has its own time stamps.
        (_, true) => lines.without_time().finish().try_init(),
        (_, false) => lines.finish().try_init(),
    };
    started.map_err(|error| Failure::new(Exit::Bug, error))
}
