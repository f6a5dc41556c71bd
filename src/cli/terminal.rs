//! What a terminal takes that a file does not: colour, and a screen that is drawn
//! anew.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use crate::host::terminal;

/// How text is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// As it should be.
    Good,
    /// To be looked at.
    Warn,
    /// Something is wrong.
    Bad,
    /// Beside the point.
    Faint,
    /// The name of something.
    Strong,
}

/// Marks text where its reader sees colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    /// None at all: for files, pipes and tests.
    #[cfg(test)]
    pub(super) const OFF: Self = Self { is_on: false };
    /// Whatever the reader is.
    #[cfg(test)]
    pub(super) const ON: Self = Self { is_on: true };

    /// For what goes to `stream`.
    pub(super) fn of(stream: &impl IsTerminal) -> Self {
        Self { is_on: terminal::wants_colour(stream) }
    }

    /// The text, marked.
    pub(super) fn mark(self, mark: Mark, text: &str) -> String {
        if !self.is_on || text.is_empty() {
            return text.to_owned();
        }
        let code = match mark {
            Mark::Good => 32,
            Mark::Warn => 33,
            Mark::Bad => 31,
            Mark::Faint => 2,
            Mark::Strong => 1,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Text of others, with nothing in it that a terminal would obey: control characters stand
/// as `\\x1b`. Ends of lines and tabs stay where `is_many_lines`.
pub(super) fn harmless(text: &str, is_many_lines: bool) -> Cow<'_, str> {
    let is_harmful = |one: char| one.is_control() && !(is_many_lines && matches!(one, '\n' | '\t'));
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for one in text.chars() {
        match is_harmful(one) {
            // Writing to a string does not fail.
            true => drop(write!(out, "\\x{:02x}", u32::from(one))),
            false => out.push(one),
        }
    }
    Cow::Owned(out)
}

/// The same where stdout is a terminal; a file or a pipe gets what there is.
pub(super) fn harmless_here(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() { harmless(text, true) } else { Cow::Borrowed(text) }
}

/// The same of bytes that are meant to be text.
pub(super) fn harmless_bytes_here(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !io::stdout().is_terminal() {
        return Cow::Borrowed(bytes);
    }
    Cow::Owned(harmless(&String::from_utf8_lossy(bytes), true).into_owned().into_bytes())
}

/// Empties the screen.
pub(super) const CLEAR: &str = "\x1b[2J";

/// What draws `text` in the place of the screen before: from the top, each line to
/// its end, and nothing left below. Nothing is cleared first, so nothing flickers.
/// Lines that the screen has no room for are left out, the last one kept says so.
pub(super) fn redraw(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // One row stays free for the cursor.
    let room = rows.saturating_sub(1).max(1);
    let shown = if lines.len() > room { room - 1 } else { lines.len() };
    // Home; no wrapping, or a long line would push the rest down.
    let mut out = "\x1b[H\x1b[?7l".to_owned();
    for line in &lines[..shown] {
        out += line;
        out += "\x1b[K\r\n";
    }
    if shown < lines.len() {
        // Writing to a string does not fail.
        let _ = write!(out, "… {} more lines\x1b[K\r\n", lines.len() - shown);
    }
    out += "\x1b[?7h\x1b[J";
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_there_only_where_they_are_seen() {
        assert_eq!(Paint::OFF.mark(Mark::Bad, "down"), "down");
        assert_eq!(Paint::ON.mark(Mark::Bad, "down"), "\x1b[31mdown\x1b[0m");
        assert_eq!(Paint::ON.mark(Mark::Bad, ""), "");
    }

    #[test]
    fn a_terminal_obeys_no_text_of_others() {
        let bad = "\x1b[31ma\x1b]0;b\x07\u{9b}1m\x7f\tc\n";
        let expected = "\\x1b[31ma\\x1b]0;b\\x07\\x9b1m\\x7f";
        assert_eq!(harmless(bad, false), format!("{expected}\\x09c\\x0a"));
        assert_eq!(harmless(bad, true), format!("{expected}\tc\n"));
        assert!(matches!(harmless("pump é 7", false), Cow::Borrowed("pump é 7")));
    }

    #[test]
    fn a_screen_is_drawn_over_the_one_before() {
        let expected = "\x1b[H\x1b[?7la\x1b[K\r\nb\x1b[K\r\n\x1b[?7h\x1b[J";
        assert_eq!(redraw("a\nb\n", 24), expected);
        let expected = "\x1b[H\x1b[?7la\x1b[K\r\n… 3 more lines\x1b[K\r\n\x1b[?7h\x1b[J";
        assert_eq!(redraw("a\nb\nc\nd\n", 3), expected);
    }
}
