//! Lines become batches: the part that every text source shares.

use tokio::io::AsyncBufRead;

use super::ArrivalClock;
use super::lines::{Line, Lines};
use super::parse::Reject;
use super::parse::json::Parser;
use crate::config::Source;
use crate::core::id::SourceId;
use crate::core::limits::{REFUSAL_BYTES_MAX, SOURCE_BATCH_MAX};
use crate::core::reading::{Arrival, Refusal};
use crate::core::seam::Batch;

/// Gathers the lines of one stream into batches.
#[derive(Debug)]
pub struct Gatherer<R> {
    source: SourceId,
    lines: Lines<R>,
    parser: Parser,
}

/// A batch, and what it covers.
#[derive(Debug)]
pub struct Gathered {
    /// Its content.
    pub batch: Batch,
    /// Lines of the stream so far, this batch included.
    pub lines: u64,
    /// Whether the stream has ended.
    pub is_end: bool,
}

/// Bytes of values that one batch may carry: long lines go in small batches.
const BATCH_BYTES_MAX: usize = 512 * 1024;

impl<R: AsyncBufRead + Unpin> Gatherer<R> {
    /// Reads `reader` for `source`.
    pub fn new(source: &Source, reader: R) -> Self {
        let lines = Lines::new(reader, source.max_line);
        Self { source: SourceId::new(&source.name), lines, parser: Parser::new(source) }
    }

    /// Waits for a line, then takes what else is there without waiting.
    ///
    /// # Errors
    /// Those of the stream.
    pub async fn next(&mut self, clock: &ArrivalClock) -> std::io::Result<Gathered> {
        let mut line = self.lines.next().await?;
        let arrival = clock();
        let batch = Batch {
            source: self.source.clone(),
            arrival,
            readings: Vec::new(),
            refused: Vec::new(),
            receipt: None,
        };
        let mut gathered = Gathered { batch, lines: 0, is_end: false };
        let mut bytes = 0;
        loop {
            gathered.is_end = line == Line::End;
            bytes += self.lines.bytes().len();
            self.take(line, &arrival, &mut gathered.batch);
            let size = gathered.batch.readings.len() + gathered.batch.refused.len();
            if gathered.is_end || size >= SOURCE_BATCH_MAX / 2 || bytes >= BATCH_BYTES_MAX {
                break;
            }
            // Only what is already there: a poll that would wait ends the batch.
            match futures_now(self.lines.next()).await {
                Some(next) => line = next?,
                None => break,
            }
        }
        gathered.lines = self.lines.count();
        Ok(gathered)
    }

    fn take(&mut self, line: Line, arrival: &Arrival, batch: &mut Batch) {
        let bytes = self.lines.bytes();
        let (length, outcome) = match line {
            Line::End => return,
            Line::TooLong(length) => {
                let reason = format!("a line of {length} bytes, over max_line");
                (length, Err(Reject::new("too_long", reason)))
            }
            Line::Whole if bytes.iter().all(u8::is_ascii_whitespace) => return,
            Line::Whole => (bytes.len() as u64, self.parser.line(bytes)),
        };
        match outcome {
            Ok(readings) if readings.len() <= SOURCE_BATCH_MAX / 2 => batch.readings.extend(readings),
            Ok(readings) => {
                let reason =
                    format!("{} values in one line, at most {}", readings.len(), SOURCE_BATCH_MAX / 2);
                self.refuse(Reject::new("too_many", reason), length, arrival, batch);
            }
            Err(reject) => self.refuse(reject, length, arrival, batch),
        }
    }

    fn refuse(&self, reject: Reject, length: u64, arrival: &Arrival, batch: &mut Batch) {
        let bytes = self.lines.bytes();
        batch.refused.push(Refusal {
            source: self.source.clone(),
            at: arrival.ingest,
            kind: reject.kind,
            reason: format!("line {}: {}", self.lines.count(), reject.reason),
            content: bytes[..bytes.len().min(REFUSAL_BYTES_MAX)].to_vec(),
            length,
        });
    }
}

/// The result of a cancel-safe future if it is ready now.
async fn futures_now<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
