//! `tidegate run`: the agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ConfigFile;
use super::logging::{self, Log};
use crate::config::{Config, Credentials};
use crate::exit::{Exit, Failure};
use crate::host;
use crate::host::signal::Signals;
use crate::shell::lock::LockError;
use crate::shell::reload::Origin;
use crate::shell::run::{self, StoreFailure};
use crate::shell::startup::StartupError;
use crate::store::OpenError;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate run -c /etc/tidegate/tidegate.toml\n\
    SIGTERM stops it within eight seconds, also while it starts; a second one stops it at once.\n\
    SIGHUP reads FILE again: sources and gateway.log may change; anything else, or\n\
    anything wrong, leaves all as it was.")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    host::memory::keep_little();
    let runtime =
        run::runtime().map_err(|error| Failure::io("the runtime cannot start", &error))?;
    // First of all: a SIGHUP that comes early must not end the process.
    let signals = runtime.block_on(async { Signals::new() });
    let mut signals = signals.map_err(|error| Failure::io("signals cannot be handled", &error))?;
    let credentials = Credentials::given(host::systemd::credentials_directory());
    let path = args.config.path.clone();
    let Some(config) = runtime.block_on(load(path, credentials.clone(), &mut signals)) else {
        // The read that hangs must not keep the process.
        runtime.shutdown_background();
        return Ok(Exit::Done);
    };
    let config = config?;
    let Log { notices, switch } = logging::start(&config.gateway.log, config.gateway.log_format)?;
    let data_dir = config.gateway.data_dir.clone();
    let origin = Origin { file: args.config.path.clone(), credentials, log: switch };
    let end = runtime.block_on(run::run(config, notices, origin, signals));
    // What still hangs (a store on a dead disk) must not keep the process.
    runtime.shutdown_background();
    let end = end.map_err(|error| Failure::new(exit_of(&error), error))?;
    match end.failure {
        None => {}
        Some(StoreFailure::Gone) => {
            return Err(Failure::new(Exit::Bug, "the store thread ended by itself"));
        }
        Some(StoreFailure::Hangs(limit)) => return Err(hung(limit, &data_dir)),
    }
    if !end.is_durable {
        return Err(Failure::new(Exit::Io, "stopped before the last readings were durable"));
    }
    Ok(Exit::Done)
}

/// The configuration; `None` when a signal asked for the end before it could be read.
async fn load(
    file: PathBuf,
    credentials: Credentials,
    signals: &mut Signals,
) -> Option<Result<Config, Failure>> {
    // On a thread of its own: it may lie on a disk that does not answer.
    let loading = tokio::task::spawn_blocking(move || Config::load(&file, &credentials));
    tokio::select! {
        loaded = loading => Some(match loaded {
            Ok(loaded) => loaded.map_err(|problems| Failure::new(Exit::Config, problems)),
            Err(error) => Err(Failure::new(Exit::Bug, error)),
        }),
        () = signals.stop() => None,
    }
}

fn hung(limit: Duration, data_dir: &Path) -> Failure {
    let limit = humantime::format_duration(limit);
    let message = format!(
        "the store has not answered for {limit}: the disk of {} hangs. Ending, so that the next \
         start goes on with all that is durable; look at the disk (dmesg)",
        data_dir.display()
    );
    tracing::error!("{message}");
    Failure::new(Exit::Io, message)
}

/// Which end a failed start has.
const fn exit_of(error: &StartupError) -> Exit {
    match error {
        StartupError::Lock(LockError::Held { .. }) => Exit::TryAgain,
        StartupError::Store(OpenError::Busy { .. }) => Exit::TryAgain,
        StartupError::Config(_) | StartupError::Store(OpenError::NewerSchema { .. }) => {
            Exit::Config
        }
        StartupError::Store(OpenError::Thread) | StartupError::Broke => Exit::Bug,
        StartupError::Store(OpenError::Io { .. })
        | StartupError::Lock(LockError::Io { .. })
        | StartupError::DataDir { .. }
        | StartupError::Clock(_)
        | StartupError::Signals(_) => Exit::Io,
    }
}
