//! Log lines on stderr.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry, reload};

use crate::config::LogFormat;
use crate::exit::{Exit, Failure};
use crate::host::systemd;
use crate::shell::notices::Notices;
use crate::shell::reload::LogSwitch;

/// What goes on being needed of a log that was started.
pub(super) struct Log {
    /// The newest lines.
    pub(super) notices: Notices,
    /// Sets another filter.
    pub(super) switch: LogSwitch,
}

/// Starts logging for the rest of the process. `filter` is a tracing filter,
/// as in `info` or `info,tidegate::link=debug`.
///
/// # Errors
/// The filter cannot be read.
pub(super) fn start(filter: &str, format: LogFormat) -> Result<Log, Failure> {
    let filter = parse(filter).map_err(|error| Failure::new(Exit::Config, error))?;
    let is_journal = match format {
        LogFormat::Auto => systemd::logs_to_journal(),
        LogFormat::Journald => true,
        LogFormat::Text | LogFormat::Json => false,
    };
    let lines =
        fmt::layer().with_writer(io::stderr).with_ansi(!is_journal && io::stderr().is_terminal());
    let lines = match (format, is_journal) {
        (LogFormat::Json, _) => lines.json().boxed(),
        // The systemd journal has its own time stamps.
        (_, true) => lines.without_time().boxed(),
        (_, false) => lines.boxed(),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let notices = Notices::default();
    registry()
        .with(filter)
        .with(lines)
        .with(notices.clone())
        .try_init()
        .map_err(|error| Failure::new(Exit::Bug, error))?;
    let switch = Box::new(move |filter: &str| {
        handle.reload(parse(filter)?).map_err(|error| error.to_string())
    });
    Ok(Log { notices, switch })
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|error| format!("gateway.log: {error}"))
}
