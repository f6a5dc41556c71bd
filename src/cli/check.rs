//! `tidegate check`: every problem of the configuration at once.

use super::{ConfigFile, print};
use crate::exit::{Exit, Failure};

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
    let config = args.config.load()?;
    if args.print {
        print(&config.print())?;
    } else {
        print(&format!("{}: good\n", args.config.path.display()))?;
    }
    Ok(Exit::Done)
}
