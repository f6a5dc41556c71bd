//! From a stream of bytes to batches for the driver: what every source of lines
//! has in common.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::lines::{Line, LineSplitter};
use super::parse::Fault;
use super::parse::json::JsonParser;
use super::{Door, SourceMessage};
use crate::config::Source;
use crate::core::id::SourceId;
use crate::core::limits::{REFUSAL_BYTES_MAX, SOURCE_BATCH_MAX};
use crate::core::reading::{Arrival, Reading, Refusal};
use crate::core::seam::{Batch, Outcome};

/// Bytes of lines after which a batch is closed: long lines make short batches.
const BATCH_BYTES: usize = 256 * 1024;
/// Batches of one connection that may wait for their receipts.
pub(super) const OUTSTANDING_MAX: usize = 8;

/// Gathers the lines of one stream into batches.
pub(super) struct Gatherer {
    name: SourceId,
    splitter: LineSplitter,
    parser: JsonParser,
    lines_max: u64,
    /// Readings of a line that found no room in the last batch.
    carried: Vec<Reading>,
}

/// A batch, and how many lines of the stream it settles.
struct Gathered {
    batch: Batch,
    lines: u64,
}

impl Gatherer {
    pub(super) fn new(source: &Source) -> Self {
        Self {
            name: SourceId::new(&source.name),
            splitter: LineSplitter::new(source.max_line),
            parser: JsonParser::new(source),
            lines_max: source.queue_max.min(SOURCE_BATCH_MAX) as u64,
            carried: Vec::new(),
        }
    }

    /// The next batch of complete lines; `None` when there are none.
    fn gather(&mut self, arrival: Arrival) -> Option<Gathered> {
        let mut readings = std::mem::take(&mut self.carried);
        let mut refused = Vec::new();
        let mut lines = u64::from(!readings.is_empty());
        let mut bytes = 0;
        while lines < self.lines_max
            && bytes < BATCH_BYTES
            && readings.len() + refused.len() < SOURCE_BATCH_MAX
        {
            let Some((number, line)) = self.splitter.next_line() else { break };
            lines += 1;
            let before = readings.len();
            let result = match &line {
                Line::Text(text) if text.trim_ascii().is_empty() => Ok(()),
                Line::Text(text) => self.parser.parse(text, &mut readings),
                Line::NotUtf8(_) => Err(Fault::new("not_utf8", "the line is not UTF-8")),
                Line::TooLong { length, .. } => {
                    let what = format!("the line has {length} bytes, more than max_line");
                    Err(Fault::new("too_long", what))
                }
            };
            bytes += match &line {
                Line::Text(text) => text.len(),
                Line::NotUtf8(bytes) => bytes.len(),
                Line::TooLong { head, .. } => head.len(),
            };
            if let Err(fault) = result {
                refused.push(refusal(&self.name, arrival, number, &line, &fault));
            }
            if readings.len() + refused.len() > SOURCE_BATCH_MAX {
                // Only readings of this line can have gone over: a refusal adds
                // one, and there was room for one.
                self.carried = readings.split_off(before);
                lines -= 1;
                break;
            }
        }
        let batch = Batch { source: self.name.clone(), arrival, readings, refused, receipt: None };
        (lines > 0).then_some(Gathered { batch, lines })
    }
}

fn refusal(
    source: &SourceId,
    arrival: Arrival,
    number: u64,
    line: &Line<'_>,
    fault: &Fault,
) -> Refusal {
    let (bytes, length) = match line {
        Line::Text(text) => (text.as_bytes(), text.len() as u64),
        Line::NotUtf8(bytes) => (*bytes, bytes.len() as u64),
        Line::TooLong { head, length } => (head.as_slice(), *length),
    };
    Refusal {
        source: source.clone(),
        at: arrival.ingest,
        kind: fault.kind,
        reason: format!("line {number}: {fault}"),
        content: bytes[..bytes.len().min(REFUSAL_BYTES_MAX)].to_vec(),
        length,
        reading: None,
    }
}

/// Lines on their way to becoming durable, in the order of their stream.
pub(super) struct Outstanding {
    pub(super) lines: u64,
    /// `None` for lines that held nothing to store.
    pub(super) receipt: Option<oneshot::Receiver<Outcome>>,
    _permit: OwnedSemaphorePermit,
}

/// Where receipts are expected; without it nobody waits for any.
pub(super) struct Receipts {
    queue: mpsc::Sender<Outstanding>,
    lines: Arc<Semaphore>,
}

impl Receipts {
    pub(super) fn new(queue_max: usize) -> (Self, mpsc::Receiver<Outstanding>) {
        let (queue, outstanding) = mpsc::channel(OUTSTANDING_MAX);
        (Self { queue, lines: Arc::new(Semaphore::new(queue_max)) }, outstanding)
    }
}

/// Hands the lines of a stream to the driver until the stream ends, the source
/// is stopped, or nobody takes batches or receipts any more.
pub(super) async fn feed(
    mut reader: impl AsyncRead + Unpin,
    mut gatherer: Gatherer,
    mut door: Door,
    receipts: Option<Receipts>,
) {
    loop {
        let read = tokio::select! {
            biased;
            () = door.stopped() => return,
            () = abandoned(receipts.as_ref()) => return,
            read = reader.read(gatherer.splitter.space()) => read,
        };
        // Taken at the door: before anything is parsed.
        let arrival = (door.clock)();
        let is_end = match read {
            Ok(count) => {
                gatherer.splitter.filled(count);
                count == 0
            }
            Err(error) => {
                // What was not finished stays unacknowledged: it is not a line.
                door.health.note_error(format!("read: {error}"));
                return;
            }
        };
        if is_end {
            gatherer.splitter.end();
        }
        while let Some(gathered) = gatherer.gather(arrival) {
            if !hand_over(&door, receipts.as_ref(), gathered).await {
                return;
            }
        }
        if is_end {
            return;
        }
    }
}

async fn abandoned(receipts: Option<&Receipts>) {
    match receipts {
        Some(receipts) => receipts.queue.closed().await,
        None => std::future::pending().await,
    }
}

/// Whether there is still somebody to hand to.
async fn hand_over(door: &Door, receipts: Option<&Receipts>, gathered: Gathered) -> bool {
    let Gathered { batch, lines } = gathered;
    door.health.note_lines(lines, batch.refused.len() as u64);
    let is_empty = batch.readings.is_empty() && batch.refused.is_empty();
    let Some(receipts) = receipts else {
        return is_empty || door.out.send(SourceMessage { batch, receipt: None }).await.is_ok();
    };
    // A batch has no more lines than the bound: `gather` sees to it.
    let permits = u32::try_from(lines).unwrap_or(u32::MAX);
    let Ok(permit) = Arc::clone(&receipts.lines).acquire_many_owned(permits).await else {
        return false;
    };
    let Ok(place) = receipts.queue.reserve().await else { return false };
    let mut receipt = None;
    if !is_empty {
        let (answer, receiver) = oneshot::channel();
        receipt = Some(receiver);
        if door.out.send(SourceMessage { batch, receipt: Some(answer) }).await.is_err() {
            return false;
        }
    }
    place.send(Outstanding { lines, receipt, _permit: permit });
    true
}
