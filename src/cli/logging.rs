//! Log lines on stderr.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;
use crate::exit::{Exit, Failure};
use crate::host::systemd;
use crate::shell::reload::LogSwitch;

/// Starts logging for the rest of the process. `filter` is a tracing filter,
/// as in `info` or `info,tidegate::link=debug`. Returns what sets another one.
///
/// # Errors
/// The filter cannot be read.
pub(super) fn start(filter: &str, format: LogFormat) -> Result<LogSwitch, Failure> {
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
        (LogFormat::Json, _) => {
            let lines = lines.json().with_filter_reloading();
            let switch = switch(lines.reload_handle());
            lines.finish().try_init().map(|()| switch)
        }
        // The systemd journal has its own time stamps.
        (_, true) => {
            let lines = lines.without_time().with_filter_reloading();
            let switch = switch(lines.reload_handle());
            lines.finish().try_init().map(|()| switch)
        }
        (_, false) => {
            let lines = lines.with_filter_reloading();
            let switch = switch(lines.reload_handle());
            lines.finish().try_init().map(|()| switch)
        }
    };
    started.map_err(|error| Failure::new(Exit::Bug, error))
}

fn switch<S: 'static>(handle: Handle<EnvFilter, S>) -> LogSwitch {
    Box::new(move |filter| {
        let filter = EnvFilter::try_new(filter).map_err(|error| format!("gateway.log: {error}"))?;
        handle.reload(filter).map_err(|error| error.to_string())
    })
}
