//! `tidegate completions` and the hidden `tidegate man-pages`: what a shell and
//! `man` know of the command line is made from the command line itself.

use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, print};
use crate::exit::{Exit, Failure};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate completions bash > /etc/bash_completion.d/tidegate\n\
    Example: tidegate completions fish > ~/.config/fish/completions/tidegate.fish\n\n\
    The Debian package has installed those of bash, zsh and fish already.")]
pub(super) struct Args {
    /// The shell that is to complete commands.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    // Into memory first: a reader that hangs up (`| head`) is no failure.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tidegate", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// For those who make packages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate man-pages target/man && man -l target/man/tidegate.1")]
pub(super) struct ManPagesArgs {
    /// Where `tidegate.1` and one page for each command are put. Must exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn write_man_pages(args: &ManPagesArgs) -> Result<Exit, Failure> {
    clap_mangen::generate_to(Cli::command(), &args.folder)
        .map_err(|error| Failure::io(args.folder.display(), &error))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_every_command_but_the_hidden_one() {
        let folder = tempfile::tempdir().unwrap();
        write_man_pages(&ManPagesArgs { folder: folder.path().to_owned() }).unwrap();
        for command in Cli::command().get_subcommands() {
            let page = folder.path().join(format!("tidegate-{}.1", command.get_name()));
            assert_eq!(page.exists(), !command.is_hide_set(), "{}", page.display());
        }
        let main = std::fs::read_to_string(folder.path().join("tidegate.1")).unwrap();
        assert!(main.contains("tidegate\\-status(1)") && main.contains("75 the data directory"));
    }

    #[test]
    fn a_folder_that_is_not_there_is_said_by_name() {
        let folder = PathBuf::from("/nowhere/at/all");
        let failure = write_man_pages(&ManPagesArgs { folder }).unwrap_err();
        assert_eq!(failure.exit, Exit::Io);
        assert!(failure.message.starts_with("/nowhere/at/all: "), "{failure}");
    }
}
