//! Where points of the line protocol end: a line feed within a quoted text is
//! part of it.
//!
//! A text whose closing quote is missing would swallow what comes after it. So a
//! closing quote counts only before a comma, a space or the end of the line;
//! else, and where the text reaches beyond `max_line`, the line in which it began
//! is the bad one, and the next line begins a point again.

/// Where a point ends in a stream of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointEnd {
    /// At this LF.
    At(usize),
    /// A quoted text is not closed as it should be: nobody can tell where it was
    /// meant to end, so that the point is its first line, up to this LF.
    Broken(usize),
    /// Not known before more bytes come.
    Unknown,
}

/// Finds the end of a point: its LF, those within quoted texts not counted.
/// Remembers how far it looked; starts anew after each end.
#[derive(Debug, Default)]
pub(crate) struct PointScan {
    /// The first LF.
    first: Option<usize>,
    /// Bytes that need not be looked at again.
    at: usize,
    is_in_text: bool,
}

impl PointScan {
    /// Whether the point so far ends within a quoted text.
    pub(crate) fn is_in_text(&self) -> bool {
        self.is_in_text
    }

    /// The end of the point that begins at the front of `bytes`.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> PointEnd {
        let end = self.find(bytes);
        if end != PointEnd::Unknown {
            *self = Self::default();
        }
        end
    }

    /// What an unknown end comes down to where no more bytes will come, or none
    /// are waited for: the first LF of a point with an open text; `None` where
    /// all of `bytes` is the point.
    pub(crate) fn give_up(&mut self, bytes: &[u8]) -> Option<usize> {
        let Self { first, at, is_in_text } = std::mem::take(self);
        let is_closed = bytes.get(at..) == Some(b"\"".as_slice());
        first.filter(|_| is_in_text && !is_closed)
    }

    fn find(&mut self, bytes: &[u8]) -> PointEnd {
        loop {
            if self.is_in_text {
                match closing(bytes, self.at) {
                    Closing::At(at) => (self.at, self.is_in_text) = (at, false),
                    Closing::Never => return PointEnd::Broken(self.first.unwrap_or(self.at)),
                    Closing::Unknown(at) => {
                        self.at = at;
                        return PointEnd::Unknown;
                    }
                }
            }
            let Some(found) = memchr::memchr(b'\n', &bytes[self.at..]) else {
                if self.first.is_none() {
                    self.at = bytes.len();
                }
                return PointEnd::Unknown;
            };
            let end = self.at + found;
            let is_open = match self.first {
                None => leaves_open(&bytes[..end]),
                // Behind a text: another field, or none.
                Some(_) => bytes[self.at] == b',' && fields_leave_open(&bytes[self.at + 1..end]),
            };
            if !is_open {
                return PointEnd::At(end);
            }
            self.first.get_or_insert(end);
            (self.at, self.is_in_text) = (end, true);
        }
    }
}

enum Closing {
    /// In front of this byte.
    At(usize),
    Never,
    /// There is none before this byte.
    Unknown(usize),
}

/// Looks for the closing quote of an open text.
fn closing(bytes: &[u8], from: usize) -> Closing {
    let mut at = from;
    loop {
        let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at..]) else {
            return Closing::Unknown(bytes.len());
        };
        at += found;
        let Some(next) = bytes.get(at + 1) else { return Closing::Unknown(at) };
        match (bytes[at], next) {
            (b'"', b',' | b' ' | b'\r' | b'\n') => return Closing::At(at + 1),
            (b'"', _) => return Closing::Never,
            (_, b'"' | b'\\') => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether a line ends within a quoted text.
fn leaves_open(line: &[u8]) -> bool {
    // Most points have no quote at all.
    if memchr::memchr(b'"', line).is_none() {
        return false;
    }
    let start = line.iter().position(|byte| *byte != b' ').unwrap_or(line.len());
    let line = &line[start..];
    if line.first() == Some(&b'#') {
        return false;
    }
    let series = plain(line, b" ");
    let gap = line[series..].iter().take_while(|byte| **byte == b' ').count();
    fields_leave_open(&line[series + gap..])
}

/// The same for what follows measurement and tags.
fn fields_leave_open(fields: &[u8]) -> bool {
    let mut rest = fields;
    loop {
        rest = &rest[plain(rest, b"= ")..];
        let Some(value) = rest.strip_prefix(b"=") else { return false };
        rest = match value.strip_prefix(b"\"") {
            None => {
                let length = value.iter().position(|byte| b", ".contains(byte));
                &value[length.unwrap_or(value.len())..]
            }
            Some(text) => match quoted_length(text) {
                Some(length) => &text[length + 1..],
                None => return true,
            },
        };
        let Some(next) = rest.strip_prefix(b",") else { return false };
        rest = next;
    }
}

/// Bytes before the closing quote.
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', &text[at..])?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += if matches!(text.get(at + 1), Some(b'"' | b'\\')) { 2 } else { 1 };
    }
}

/// The length of what comes before the first of these bytes that is not escaped.
fn plain(bytes: &[u8], ends: &[u8]) -> usize {
    let is_end = |at: &usize| ends.contains(&bytes[*at]) && (*at == 0 || bytes[*at - 1] != b'\\');
    (0..bytes.len()).find(is_end).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(bytes: &str) -> PointEnd {
        PointScan::default().look(bytes.as_bytes())
    }

    #[test]
    fn a_point_ends_at_its_line_feed_and_not_within_a_text() {
        assert_eq!(look("m v=1"), PointEnd::Unknown);
        assert_eq!(look("m v=1\nn"), PointEnd::At(5));
        assert_eq!(look("m s=\"a\nb\",n=1i 7\nx"), PointEnd::At(16));
        assert_eq!(look("m s=\"a\nb\",t=\"c\nd\"\n"), PointEnd::At(17));
        assert_eq!(look("m s=\"a\\\"\nb\"\r\n"), PointEnd::At(12));
        assert_eq!(look("m s=\"a\nb"), PointEnd::Unknown);
        assert_eq!(look("m s=\"a\nb\""), PointEnd::Unknown);
        assert_eq!(look("m s=\"a\nb s=\"c\"\n"), PointEnd::Broken(6));
        assert_eq!(look("# it\"s\nm v=1\n"), PointEnd::At(6));
        assert_eq!(look("m,t=\"x v=1\n"), PointEnd::At(10));
        assert_eq!(look("m\\ \\,,a\\=b=\"c  v=\"\n"), PointEnd::Unknown);
    }

    #[test]
    fn every_cut_of_the_stream_gives_the_same_end() {
        let stream = b"m,a=b s=\"a\\\\\",t=\"x\\\"\ny, z=\n\\\\\",u=\"\n\",v=1 17\n";
        for cut in 0..stream.len() {
            let mut scan = PointScan::default();
            for end in (0..stream.len()).step_by(cut + 1) {
                assert_eq!(scan.look(&stream[..end]), PointEnd::Unknown, "{cut} {end}");
            }
            assert_eq!(scan.look(stream), PointEnd::At(stream.len() - 1), "{cut}");
        }
    }
}
