//! Exit codes: a promise to scripts and to systemd.
//!
//! | code | meaning | what systemd should do |
//! | --- | --- | --- |
//! | 0 | done | nothing |
//! | 1 | the check that was asked for failed | nothing (never from `run`) |
//! | 2 | usage: the command line is wrong | nothing: a restart cannot help |
//! | 70 | a bug in Tidegate (please report) | restart |
//! | 74 | input or output failed | restart |
//! | 75 | try again: the data directory is in use | restart |
//! | 78 | configuration | nothing: `RestartPreventExitStatus=2 78` |

use std::fmt;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: the check asked for failed.
    CheckFailed,
    /// 2: the command line is wrong. clap ends with it by itself.
    Usage,
    /// 70: a bug (`EX_SOFTWARE`).
    Bug,
    /// 74: input or output failed (`EX_IOERR`).
    Io,
    /// 75: try again (`EX_TEMPFAIL`): the data directory is in use.
    TryAgain,
    /// 78: the configuration is wrong (`EX_CONFIG`).
    Config,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> i32 {
        match self {
            Exit::Done => 0,
            Exit::CheckFailed => 1,
            Exit::Usage => 2,
            Exit::Bug => 70,
            Exit::Io => 74,
            Exit::TryAgain => 75,
            Exit::Config => 78,
        }
    }
}

/// Why a command failed: what to say, and how to end.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// What went wrong and what to do, for people; may have several lines.
    pub message: String,
}

impl Failure {
    /// A failure with its message.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string() }
    }

    /// Input or output failed while doing `what`.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(Exit::Io, format_args!("{what}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_those_of_the_contract() {
        let all = [
            (Exit::Done, 0),
            (Exit::CheckFailed, 1),
            (Exit::Usage, 2),
            (Exit::Bug, 70),
            (Exit::Io, 74),
            (Exit::TryAgain, 75),
            (Exit::Config, 78),
        ];
        for (exit, code) in all {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }
}
