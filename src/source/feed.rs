//! From a stream of bytes to batches for the driver: what every source of lines
//! has in common.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::lines::{Line, LineSplitter};
use super::parse::{Fault, Parser};
use super::{Door, SourceMessage};
use crate::config::{Format, Source};
use crate::core::id::SourceId;
use crate::core::limits::{REFUSAL_BYTES_MAX, SOURCE_BATCH_MAX};
use crate::core::reading::{Arrival, Reading, Refusal};
use crate::core::seam::{Batch, Outcome};

/// Bytes of lines after which a batch is closed: long lines make short batches.
const BATCH_BYTES: usize = 256 * 1024;
/// Batches of one connection that may wait for their receipts.
pub(super) const OUTSTANDING_MAX: usize = 8;

/// How long the rest of a quoted text may take that a line of the line protocol
/// has left open; then that line is a bad one.
const TEXT_WITHIN: Duration = Duration::from_secs(5);

/// Gathers the lines of one stream into batches.
pub(super) struct Gatherer {
    name: SourceId,
    /// Where refused lines are said to be: of a stream by their number, of this
    /// file by their byte.
    file: Option<String>,
    /// The byte of the file at which the stream began.
    pub(super) base: u64,
    pub(super) splitter: LineSplitter,
    parser: Parser,
    lines_max: u64,
    carried: Carried,
}

/// Readings of a line that found no room in the last batch, and what they settle.
#[derive(Default)]
struct Carried {
    readings: Vec<Reading>,
    lines: u64,
}

/// A batch, and what it settles of the stream.
pub(super) struct Gathered {
    pub(super) batch: Batch,
    /// So many lines more.
    pub(super) lines: u64,
    /// The numbers of the refused lines, from 1, and why.
    pub(super) faults: Vec<(u64, Fault)>,
    /// The stream up to this byte.
    pub(super) through: u64,
}

impl Gatherer {
    pub(super) fn new(source: &Source) -> Self {
        Self::with_format(source, source.format)
    }

    pub(super) fn with_format(source: &Source, format: Format) -> Self {
        Self {
            name: SourceId::new(&source.name),
            file: None,
            base: 0,
            splitter: match format {
                Format::Json => LineSplitter::new(source.max_line),
                Format::Influx => LineSplitter::points(source.max_line),
            },
            parser: Parser::new(source, format),
            lines_max: source.queue_max.min(SOURCE_BATCH_MAX) as u64,
            carried: Carried::default(),
        }
    }

    /// For the lines of a file of that name, from a byte on.
    pub(super) fn of_file(source: &Source, name: String, base: u64) -> Self {
        Self { file: Some(name), base, ..Self::new(source) }
    }

    /// The next batch of complete lines; `None` when there are none.
    pub(super) fn gather(&mut self, arrival: Arrival) -> Option<Gathered> {
        let Carried { mut readings, mut lines } = std::mem::take(&mut self.carried);
        let (mut refused, mut faults) = (Vec::new(), Vec::new());
        let mut through = self.splitter.taken();
        let mut bytes = 0;
        while lines < self.lines_max
            && bytes < BATCH_BYTES
            && readings.len() + refused.len() < SOURCE_BATCH_MAX
        {
            let (lines_before, at) = (self.splitter.number(), self.splitter.taken());
            let Some((number, line)) = self.splitter.next_line() else { break };
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
                let place = match &self.file {
                    None => format!("line {number}"),
                    Some(file) => format!("{file}, byte {}", self.base + at),
                };
                refused.push(refusal(&self.name, arrival, &place, &line, &fault));
                faults.push((number, fault));
            }
            let line_count = self.splitter.number() - lines_before;
            if readings.len() + refused.len() > SOURCE_BATCH_MAX {
                // Only readings of this line can have gone over: a refusal adds
                // one, and there was room for one.
                let readings = readings.split_off(before);
                self.carried = Carried { readings, lines: line_count };
                break;
            }
            lines += line_count;
            through = self.splitter.taken();
        }
        let batch = Batch {
            source: self.name.clone(),
            arrival,
            readings,
            refused,
            advance: None,
            receipt: None,
        };
        (lines > 0).then_some(Gathered { batch, lines, faults, through })
    }
}

fn refusal(
    source: &SourceId,
    arrival: Arrival,
    place: &str,
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
        reason: format!("{place}: {fault}"),
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
    lines_max: usize,
}

impl Receipts {
    pub(super) fn new(queue_max: usize) -> (Self, mpsc::Receiver<Outstanding>) {
        let (queue, outstanding) = mpsc::channel(OUTSTANDING_MAX);
        let lines = Arc::new(Semaphore::new(queue_max));
        (Self { queue, lines, lines_max: queue_max }, outstanding)
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
        let is_in_text = gatherer.splitter.is_in_text();
        let read = tokio::select! {
            biased;
            () = door.stopped() => return,
            () = abandoned(receipts.as_ref()) => return,
            read = reader.read(gatherer.splitter.space()) => Some(read),
            () = text_waited(is_in_text) => None,
        };
        // Taken at the door: before anything is parsed.
        let arrival = (door.clock)();
        let is_end = match read {
            Some(Ok(count)) => {
                gatherer.splitter.filled(count);
                count == 0
            }
            None => {
                gatherer.splitter.give_up_text();
                false
            }
            Some(Err(error)) => {
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

/// The rest of an open text has been waited for.
async fn text_waited(is_in_text: bool) {
    if !is_in_text {
        return std::future::pending().await;
    }
    tokio::time::sleep(TEXT_WITHIN).await;
}

async fn abandoned(receipts: Option<&Receipts>) {
    match receipts {
        Some(receipts) => receipts.queue.closed().await,
        None => std::future::pending().await,
    }
}

/// Whether there is still somebody to hand to.
async fn hand_over(door: &Door, receipts: Option<&Receipts>, gathered: Gathered) -> bool {
    let Gathered { batch, lines, .. } = gathered;
    door.health.note_lines(lines, batch.refused.len() as u64);
    let is_empty = batch.readings.is_empty() && batch.refused.is_empty();
    let Some(receipts) = receipts else {
        return is_empty || door.out.send(SourceMessage { batch, receipt: None }).await.is_ok();
    };
    // A batch has no more lines than the bound, unless one text has: that waits
    // for all there is.
    let permits = u32::try_from(lines.min(receipts.lines_max as u64)).unwrap_or(u32::MAX);
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
