//! `tidegate check`: every problem of the configuration at once.

use super::{ConfigFile, print};
use crate::config::Credentials;
use crate::exit::{Exit, Failure};
use crate::host;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate check -c tidegate.toml --print\n\
    Ends with 0 when all is well and with 78 when something is wrong.")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Print all keys as they are understood, defaults included.
    #[arg(long)]
    print: bool,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    // Only the service itself has them, and commands that its unit runs before it.
    let credentials =
        host::systemd::credentials_directory().map_or(Credentials::Unseen, Credentials::In);
    let config = args.config.load_with(&credentials)?;
    if args.print {
        print(&config.print())?;
        return Ok(Exit::Done);
    }
    let file = args.config.path.display();
    let unseen = config.unseen_credentials().into_iter().collect::<Vec<_>>();
    if !unseen.is_empty() {
        print(&format!(
            "{file}: not looked for: {}. systemd gives credentials to the service when it starts\n",
            unseen.join(", ")
        ))?;
    }
    print(&format!("{file}: good\n"))?;
    Ok(Exit::Done)
}
