//! Bytes to lines, in bounded memory.
//!
//! [`LineSplitter`] is a machine without I/O: bytes go in, lines come out. A
//! line that is too long is skipped to its end and reported once, with its
//! beginning only.

use super::parse::points::{PointEnd, PointScan};

/// Bytes asked for in one read.
const READ_BYTES: usize = 64 * 1024;
/// What is kept of a line that is too long.
const HEAD_BYTES: usize = 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// One line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line of text; blank ones are among them.
    Text(&'a str),
    /// Bytes that are not UTF-8.
    NotUtf8(&'a [u8]),
    /// More bytes than allowed.
    TooLong {
        /// Its beginning.
        head: Vec<u8>,
        /// How many bytes it had.
        length: u64,
    },
}

/// What is known of a line that is too long and has not ended yet.
#[derive(Debug, Default)]
struct Skipped {
    /// Its beginning.
    head: Vec<u8>,
    /// How many bytes it had so far,
    length: u64,
    /// and LFs among them: it may be a point with texts.
    feeds: u64,
}

impl Skipped {
    fn add(&mut self, bytes: &[u8]) {
        let missing = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        self.length += bytes.len() as u64;
        self.feeds += feeds(bytes);
    }
}

fn feeds(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Splits a stream into lines, the same ones whatever the pieces in which it comes.
/// They end with LF or CRLF; the last one may end with the stream. A byte order mark
/// at the start of the stream is dropped.
#[derive(Debug)]
pub struct LineSplitter {
    buffer: Vec<u8>,
    /// What is not yet taken lies between these two.
    start: usize,
    end: usize,
    /// Bytes from `start` that hold no LF.
    searched: usize,
    line_max: usize,
    number: u64,
    /// Bytes of lines taken and of beginnings skipped.
    taken: u64,
    skipping: Option<Skipped>,
    /// Where the bytes are points of the line protocol.
    points: Option<PointScan>,
    is_ended: bool,
    /// An open text is not waited for any more.
    gives_up_text: bool,
}

impl LineSplitter {
    /// For lines of at most `line_max` bytes, their end not counted.
    pub fn new(line_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            searched: 0,
            line_max,
            number: 0,
            taken: 0,
            skipping: None,
            points: None,
            is_ended: false,
            gives_up_text: false,
        }
    }

    /// For points of the line protocol, of at most `line_max` bytes each: what it
    /// gives as a line may have line feeds in its quoted texts.
    pub fn points(line_max: usize) -> Self {
        Self { points: Some(PointScan::default()), ..Self::new(line_max) }
    }

    /// Lines of the stream taken so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes of the stream taken so far, ends of lines included.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether a line is there whose quoted text goes on in one to come.
    pub fn is_in_text(&self) -> bool {
        self.points.as_ref().is_some_and(PointScan::is_in_text)
    }

    /// Says that the rest of an open text is not waited for any more.
    pub fn give_up_text(&mut self) {
        self.gives_up_text = self.is_in_text();
    }

    /// Where the next bytes are to be written; never empty. Call
    /// [`LineSplitter::filled`] afterwards.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            // A long line is no reason to keep its room for ever.
            if self.buffer.len() > 2 * READ_BYTES {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.end < READ_BYTES / 4 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() - self.end < READ_BYTES / 4 {
            // Doubling, so that a long line is not copied once per read.
            self.buffer.resize((2 * self.buffer.len()).max(READ_BYTES), 0);
        }
        let end = self.buffer.len().min(self.end + READ_BYTES);
        &mut self.buffer[self.end..end]
    }

    /// Says that the first `count` bytes of [`LineSplitter::space`] were written.
    pub fn filled(&mut self, count: usize) {
        self.end = self.buffer.len().min(self.end + count);
    }

    /// Says that no more bytes will come: what is left is the last line.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// Whether [`LineSplitter::end`] was called.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Bytes of memory in use.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The next complete line and its number, from 1; `None` when more bytes
    /// are needed, or at the end.
    pub fn next_line(&mut self) -> Option<(u64, Line<'_>)> {
        let found = self.find_end();
        let pending = &self.buffer[self.start..self.end];
        let (length, taken) = match found {
            Some(at) => (at, at + 1),
            None if self.is_ended && (!pending.is_empty() || self.skipping.is_some()) => {
                (pending.len(), pending.len())
            }
            None => {
                self.searched = pending.len();
                self.skip_if_too_long();
                return None;
            }
        };
        let number = self.number + 1;
        let skipping = self.skipping.take();
        let within = feeds(&pending[..length]) + skipping.as_ref().map_or(0, |line| line.feeds);
        self.searched = 0;
        let from = self.start;
        self.start += taken;
        self.taken += taken as u64;
        self.number = number + within;
        let mut bytes = &self.buffer[from..from + length];
        bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if let Some(mut line) = skipping {
            line.add(bytes);
            let Skipped { head, length, .. } = line;
            return Some((number, Line::TooLong { head, length }));
        }
        if number == 1 {
            bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        }
        if bytes.len() > self.line_max {
            let head = bytes[..bytes.len().min(HEAD_BYTES)].to_vec();
            return Some((number, Line::TooLong { head, length: bytes.len() as u64 }));
        }
        let line = std::str::from_utf8(bytes).map_or(Line::NotUtf8(bytes), Line::Text);
        Some((number, line))
    }

    /// The LF at which the next line ends, counted from its beginning.
    fn find_end(&mut self) -> Option<usize> {
        let pending = &self.buffer[self.start..self.end];
        let is_skipping = self.skipping.is_some();
        let Some(scan) = self.points.as_mut().filter(|_| !is_skipping) else {
            let found = memchr::memchr(b'\n', &pending[self.searched..]);
            return found.map(|at| at + self.searched);
        };
        // No further than a point may reach, or the pieces in which it comes would
        // decide where it ends.
        let reach = line_reach(self.line_max);
        let (near, far) = pending.split_at(pending.len().min(reach));
        let end = match scan.look(near) {
            PointEnd::At(at) | PointEnd::Broken(at) => Some(at),
            PointEnd::Unknown if self.is_ended || self.gives_up_text || near.len() == reach => {
                let first = scan.give_up(near);
                first.or_else(|| memchr::memchr(b'\n', far).map(|at| near.len() + at))
            }
            PointEnd::Unknown => None,
        };
        self.gives_up_text &= end.is_none();
        end
    }

    /// Drops the bytes of an unfinished line that can only become too long.
    fn skip_if_too_long(&mut self) {
        let mut pending = &self.buffer[self.start..self.end];
        if self.skipping.is_none() && pending.len() < line_reach(self.line_max) {
            return;
        }
        // It may be half of the line's end.
        pending = pending.strip_suffix(b"\r").unwrap_or(pending);
        self.taken += pending.len() as u64;
        self.start += pending.len();
        self.searched = 0;
        let is_first = self.skipping.is_none() && self.number == 0;
        let without_bom = pending.strip_prefix(BOM).filter(|_| is_first);
        self.skipping.get_or_insert_default().add(without_bom.unwrap_or(pending));
    }
}

/// Bytes after which a line can only be too long: there is room for a BOM and a CR,
/// which do not count.
const fn line_reach(line_max: usize) -> usize {
    line_max + BOM.len() + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line of a stream that comes in pieces of `step` bytes.
    fn lines(stream: &[u8], line_max: usize, step: usize) -> Vec<(u64, String)> {
        split(LineSplitter::new(line_max), stream, step)
    }

    fn split(mut splitter: LineSplitter, stream: &[u8], step: usize) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        let mut drain = |splitter: &mut LineSplitter| {
            while let Some((number, line)) = splitter.next_line() {
                let text = match line {
                    Line::Text(text) => text.to_owned(),
                    Line::NotUtf8(bytes) => format!("not utf-8: {bytes:?}"),
                    Line::TooLong { head, length } => {
                        format!("too long: {length}, {}", String::from_utf8_lossy(&head))
                    }
                };
                found.push((number, text));
            }
        };
        for piece in stream.chunks(step) {
            splitter.space()[..piece.len()].copy_from_slice(piece);
            splitter.filled(piece.len());
            drain(&mut splitter);
        }
        splitter.end();
        drain(&mut splitter);
        found
    }

    #[test]
    fn every_cut_of_the_stream_gives_the_same_lines() {
        let stream = b"\xef\xbb\xbfone\r\n\r\ntwo\n\xff\n123456789\nmid\xef\xbb\xbf\nlast";
        let expected = [
            (1, "one".to_owned()),
            (2, String::new()),
            (3, "two".to_owned()),
            (4, "not utf-8: [255]".to_owned()),
            (5, "too long: 9, 123456789".to_owned()),
            (6, "mid\u{feff}".to_owned()),
            (7, "last".to_owned()),
        ];
        for step in 1..=stream.len() {
            assert_eq!(lines(stream, 8, step), expected, "pieces of {step} bytes");
        }
    }

    #[test]
    fn how_far_a_text_reaches_is_no_matter_of_pieces() {
        let stream = b"m s=\"12345678\n90\" 1\nm s=\"1\n2\",t=1,u=2,v=3 1\nn v=1\r\n";
        let expected = [
            (1, "too long: 13, m s=\"12345678".to_owned()),
            (2, "90\" 1".to_owned()),
            (3, "too long: 23, m s=\"1\n2\",t=1,u=2,v=3 1".to_owned()),
            (5, "n v=1".to_owned()),
        ];
        for step in 1..=stream.len() {
            let points = split(LineSplitter::points(10), stream, step);
            assert_eq!(points, expected, "pieces of {step} bytes");
        }
    }

    #[test]
    fn an_open_text_is_waited_for_until_it_is_given_up() {
        let mut splitter = LineSplitter::points(100);
        let stream = b"m s=\"a\nn v=1\n";
        splitter.space()[..stream.len()].copy_from_slice(stream);
        splitter.filled(stream.len());
        assert_eq!(splitter.next_line(), None);
        assert!(splitter.is_in_text());
        splitter.give_up_text();
        assert_eq!(splitter.next_line(), Some((1, Line::Text("m s=\"a"))));
        assert_eq!(splitter.next_line(), Some((2, Line::Text("n v=1"))));
        assert_eq!(splitter.next_line(), None);
        assert_eq!((splitter.number(), splitter.taken()), (2, 13));
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_taken() {
        for step in 1..=9 {
            assert_eq!(lines(b"12345678\r\n", 8, step), [(1, "12345678".to_owned())]);
            let bom = [b"\xef\xbb\xbf".as_slice(), b"12345678\r\n"].concat();
            assert_eq!(lines(&bom, 8, step), [(1, "12345678".to_owned())]);
        }
    }

    #[test]
    fn the_last_line_may_be_too_long_or_absent() {
        assert_eq!(lines(b"", 8, 1), []);
        assert_eq!(lines(b"\n", 8, 1), [(1, String::new())]);
        let long = vec![b'x'; 5000];
        let expected = format!("too long: 5000, {}", "x".repeat(1024));
        assert_eq!(lines(&long, 8, 700), [(1, expected)]);
    }

    #[test]
    fn memory_stays_bounded_whatever_the_length_of_a_line() {
        let mut splitter = LineSplitter::new(1000);
        for _ in 0..1000 {
            let space = splitter.space();
            space.fill(b'x');
            let count = space.len();
            splitter.filled(count);
            assert_eq!(splitter.next_line(), None);
            assert!(splitter.capacity() <= 2 * READ_BYTES);
        }
    }
}
