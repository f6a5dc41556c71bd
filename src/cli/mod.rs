//! The command line: one file per command, no policy.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};

use crate::config::{Config, Credentials};
use crate::exit::{Exit, Failure};

mod audit;
mod check;
mod clock;
mod completions;
mod control;
mod decode;
#[cfg(feature = "demo")]
pub mod demo;
mod digits;
mod journal;
mod lateness;
mod logging;
mod modbus;
mod plan;
mod quarantine;
mod replay;
mod run;
mod status;
mod subscription;
mod table;
mod terminal;

/// Where the configuration is looked for when no `-c` says otherwise.
pub const CONFIG_FILE: &str = "/etc/tidegate/tidegate.toml";

/// Edge gateway agent: stamps, journals and forwards readings, and loses none.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done; 1 the check asked for failed; 2 usage; 70 a bug; \
    74 input or output; 75 the data directory is in use; 78 configuration.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the agent (systemd runs this).
    Run(run::Args),
    /// Say every problem of the configuration at once.
    Check(check::Args),
    /// Show the state of the running agent.
    Status(status::Args),
    /// Show how good the clock is, or set it by hand.
    Clock(clock::Args),
    /// Show how late readings come, and the bound to choose.
    Lateness(lateness::Args),
    /// Say how long the buffer lasts, what windows need, what is written.
    Plan(plan::Args),
    /// Prove that the windows come to the same results, whatever the disorder.
    Replay(replay::Args),
    /// Look into the journal, or export it.
    Journal(journal::Args),
    /// Compare what was produced with what a consumer has.
    Audit(audit::Args),
    /// Look at what was refused; hand it in again, or delete it.
    Quarantine(quarantine::Args),
    /// Try a Modbus device from here.
    Modbus(modbus::Args),
    /// Print payloads of the format postcard-batch as JSON lines.
    Decode(decode::Args),
    /// Print what a shell needs to complete commands of tidegate.
    Completions(completions::Args),
    /// Write the man pages.
    #[command(hide = true)]
    ManPages(completions::ManPagesArgs),
    /// Show the whole job with nothing to install: broker, outage, drain, proof.
    #[cfg(feature = "demo")]
    Demo(demo::Args),
}

/// `-c FILE`, common to most commands.
#[derive(Debug, Args)]
pub struct ConfigFile {
    /// The configuration.
    #[arg(short = 'c', long = "config", value_name = "FILE", default_value = CONFIG_FILE)]
    pub path: PathBuf,
}

impl ConfigFile {
    /// Reads and checks it, without looking for credentials.
    ///
    /// # Errors
    /// All its problems, with exit code 78.
    pub fn load(&self) -> Result<Config, Failure> {
        Config::load(&self.path, &Credentials::Unseen)
            .map_err(|problems| Failure::new(Exit::Config, problems))
    }
}

impl ConfigFile {
    /// Where the agent of this file keeps everything: also of one that has problems
    /// elsewhere, for the agent goes on by what it read before.
    ///
    /// # Errors
    /// All its problems, with exit code 78.
    pub fn data_dir(&self) -> Result<PathBuf, Failure> {
        let failure = match self.load() {
            Ok(config) => return Ok(config.gateway.data_dir),
            Err(failure) => failure,
        };
        Config::data_dir_of(&self.path).ok_or(failure)
    }
}

impl Cli {
    /// From the arguments of this process. Where they are wrong, or ask for help, this says
    /// so and ends the process.
    pub fn of_arguments() -> Self {
        Self::try_parse().unwrap_or_else(|error| {
            let tip = misplaced(&error);
            // When stderr is gone there is nobody to tell.
            let _ = error.print();
            if let Some(tip) = tip {
                let _ = writeln!(io::stderr().lock(), "\n{tip}");
            }
            std::process::exit(error.exit_code());
        })
    }

    /// Carries the command out.
    ///
    /// # Errors
    /// What to say on stderr, and how to end.
    pub fn execute(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Run(args) => run::execute(&args),
            Command::Check(args) => check::execute(&args),
            Command::Status(args) => status::execute(&args),
            Command::Clock(args) => clock::execute(&args),
            Command::Lateness(args) => lateness::execute(&args),
            Command::Plan(args) => plan::execute(&args),
            Command::Replay(args) => replay::execute(&args),
            Command::Journal(args) => journal::execute(&args),
            Command::Audit(args) => audit::execute(&args),
            Command::Quarantine(args) => quarantine::execute(&args),
            Command::Modbus(args) => modbus::execute(&args),
            Command::Decode(args) => decode::execute(&args),
            Command::Completions(args) => completions::execute(&args),
            Command::ManPages(args) => completions::write_man_pages(&args),
            #[cfg(feature = "demo")]
            Command::Demo(args) => demo::execute(&args),
        }
    }
}

/// A tip where `-c` stands before the command.
fn misplaced(error: &clap::Error) -> Option<&'static str> {
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.as_str(),
        _ => return None,
    };
    let is_config = ["-c", "--config"].iter().any(|name| argument.starts_with(name));
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let tip = "the configuration is named after the command: tidegate status -c FILE";
    (is_unknown && is_config).then_some(tip)
}

/// Writes to stdout; a reader that hung up (`| head`) is no failure but the end
/// of the job: false.
fn print(text: &str) -> Result<bool, Failure> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::io("stdout", &error)),
    }
}

/// As indented JSON.
fn to_json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(Exit::Bug, error))
}

#[cfg(test)]
#[path = "examples_tests.rs"]
mod examples;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn an_option_before_the_command_is_shown_its_place() {
        let tip = |arguments: &[&str]| {
            let all = ["tidegate"].iter().chain(arguments);
            misplaced(&Cli::try_parse_from(all).unwrap_err())
        };
        assert!(tip(&["-c", "t.toml", "status"]).unwrap().ends_with("tidegate status -c FILE"));
        assert!(tip(&["--config", "t.toml", "status"]).is_some());
        assert_eq!(tip(&["--nonsense", "status"]), None);
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
