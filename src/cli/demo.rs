//! `tidegate demo`: the whole job with nothing to install.

use crate::exit::{Exit, Failure};

/// No options yet.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) fn execute(_args: &Args) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::Bug, "the demo is not part of this build"))
}
