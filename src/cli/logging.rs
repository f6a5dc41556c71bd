//! Log lines on stderr.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;
use crate::exit::{Exit, Failure};
use crate::host::systemd;
use crate::shell::notices::Notices;

/// Starts logging for the rest of the process. `filter` is a tracing filter,
/// as in `info` or `info,tidegate::link=debug`. Returns the newest of them.
///
/// # Errors
/// The filter cannot be read.
pub(super) fn start(filter: &str, format: LogFormat) -> Result<Notices, Failure> {
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
    let notices = Notices::default();
    let ring = notices.clone();
    let started = match (format, is_journal) {
        (LogFormat::Json, _) => lines.json().finish().with(ring).try_init(),
        // The systemd journal has its own time stamps.
        (_, true) => lines.without_time().finish().with(ring).try_init(),
        (_, false) => lines.finish().with(ring).try_init(),
    };
    started.map(|()| notices).map_err(|error| Failure::new(Exit::Bug, error))
}
