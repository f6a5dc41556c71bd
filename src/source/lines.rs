//! Lines from a byte stream, in bounded memory.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end, in [`Lines::bytes`].
    Whole,
    /// A line of so many bytes, too long to keep; its beginning is in
    /// [`Lines::bytes`].
    TooLong(u64),
    /// The stream has ended.
    End,
}

/// Splits at line feeds; a carriage return before one belongs to it. A byte
/// order mark at the beginning of the stream is dropped. The last line needs no
/// line feed.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    line_max: usize,
    /// Bytes of the current line so far, beyond the buffer too.
    length: u64,
    is_line_done: bool,
    count: u64,
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Lines of at most `line_max` bytes.
    pub fn new(reader: R, line_max: usize) -> Self {
        Self { reader, buffer: Vec::new(), line_max, length: 0, is_line_done: true, count: 0 }
    }

    /// The bytes of the line that [`Lines::next`] told of.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Lines so far, the current one included.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The next line. Cancel safe: what was read stays in the buffer.
    ///
    /// # Errors
    /// Those of the stream.
    pub async fn next(&mut self) -> std::io::Result<Line> {
        if std::mem::take(&mut self.is_line_done) {
            self.buffer.clear();
            self.length = 0;
        }
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                let is_rest = self.length > 0;
                return Ok(if is_rest { self.finish() } else { self.end() });
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let room = (self.line_max + 2).saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&part[..part.len().min(room)]);
            self.length += part.len() as u64;
            let used = end.map_or(available.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(self.finish());
            }
        }
    }

    fn finish(&mut self) -> Line {
        self.is_line_done = true;
        self.count += 1;
        if self.count == 1 && self.buffer.starts_with(BOM) {
            self.buffer.drain(..BOM.len());
            self.length -= BOM.len() as u64;
        }
        if self.length == self.buffer.len() as u64 && self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
            self.length -= 1;
        }
        if self.length > self.line_max as u64 {
            self.buffer.truncate(self.line_max);
            return Line::TooLong(self.length);
        }
        Line::Whole
    }

    fn end(&mut self) -> Line {
        self.is_line_done = true;
        Line::End
    }
}
