//! `tidegate status`: what the running agent says about itself.

use std::io;
use std::time::Duration;

use super::terminal::{self, Paint};
use super::{ConfigFile, control, print, to_json};
use crate::exit::{Exit, Failure};
use crate::host;
use crate::shell::Report;

mod lists;
mod screen;

/// Between two looks of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate status -c /etc/tidegate/tidegate.toml --json\n\
    The JSON is that of /api/v1/status, whose fields the API's description explains; with --watch\n\
    it is one object a line. Ends with 74 when no agent answers; --watch waits for one that is\n\
    started again. Colours only on a terminal and without NO_COLOR.")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
    /// Again every second, until interrupted; on a terminal in the same place.
    #[arg(long)]
    watch: bool,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let data_dir = args.config.data_dir()?;
    let paint = Paint::of(&io::stdout());
    let first = args.text(&control::report(&data_dir)?, paint)?;
    if !args.watch {
        print(&first)?;
        return Ok(Exit::Done);
    }
    let mut text = first;
    let mut is_first = true;
    loop {
        if !print(&args.after(&text, is_first, host::terminal::rows()))? {
            return Ok(Exit::Done);
        }
        std::thread::sleep(WATCH_INTERVAL);
        is_first = false;
        text = match control::report(&data_dir) {
            Ok(report) => args.text(&report, paint)?,
            // Lines are for programs: they hear of it by their absence.
            Err(_) if args.json => String::new(),
            Err(failure) => format!("{}\n", failure.message),
        };
    }
}

impl Args {
    fn text(&self, report: &Report, paint: Paint) -> Result<String, Failure> {
        match (self.json, self.watch) {
            (false, _) => Ok(screen::text(report, paint)),
            (true, false) => to_json(report),
            (true, true) => serde_json::to_string(report)
                .map(|line| line + "\n")
                .map_err(|error| Failure::new(Exit::Bug, error)),
        }
    }

    /// A look of several: over the one before on a terminal, else after it.
    fn after(&self, text: &str, is_first: bool, rows: Option<usize>) -> String {
        match rows {
            Some(rows) if !self.json => {
                let clear = if is_first { terminal::CLEAR } else { "" };
                clear.to_owned() + &terminal::redraw(text, rows)
            }
            _ if self.json || is_first => text.to_owned(),
            _ => format!("\n{text}"),
        }
    }
}

#[cfg(test)]
#[path = "status/status_tests.rs"]
mod tests;
