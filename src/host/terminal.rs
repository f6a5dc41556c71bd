//! The terminal, if there is one.

use std::io::IsTerminal;

/// Whether who reads `stream` sees colours and wants them: a terminal that has them
/// (`TERM`), and `NO_COLOR` is not set (no-color.org).
#[expect(clippy::disallowed_methods, reason = "terminals and users say it this way only")]
pub fn wants_colour(stream: &impl IsTerminal) -> bool {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    stream.is_terminal() && !is_unwanted && !is_dumb
}

/// The rows of the terminal that stdout is, at least 2; `None` where it is none.
pub fn rows() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    // One that does not say, or says 0, has what terminals always had.
    let size = rustix::termios::tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_row));
    Some(size.filter(|rows| *rows > 0).map_or(24, |rows| rows.max(2)))
}
