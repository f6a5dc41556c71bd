//! The source of type `http`: lines that somebody posts. HTTP itself is spoken
//! elsewhere; here a body becomes batches, and its sender gets an answer for all
//! of it once it is durable.
//!
//! A request is held in memory whole, and only [`PUSH_REQUESTS_MAX`] of them at a
//! time: whoever comes then is asked to come again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::feed::{Gathered, Gatherer};
use super::{Door, SourceMessage};
use crate::config::{Format, Source};
use crate::core::limits::PUSH_REQUESTS_MAX;
use crate::core::seam::Outcome;

/// How long a batch may wait for room before its sender is asked to come again.
const ROOM_WITHIN: Duration = Duration::from_secs(5);
/// How long a request may wait for its commit.
const COMMIT_WITHIN: Duration = Duration::from_secs(30);
/// Refused lines that an answer names one by one.
pub const FAULTS_TOLD_MAX: usize = 100;

/// Where bodies are handed in.
pub struct Push {
    source: Source,
    body_max: usize,
    door: Door,
    slots: Arc<Semaphore>,
}

impl std::fmt::Debug for Push {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Push").field("source", &self.source.name).finish_non_exhaustive()
    }
}

/// The right to hand in one body.
#[derive(Debug)]
pub struct Slot(#[expect(dead_code, reason = "held until dropped")] OwnedSemaphorePermit);

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// All are taken.
    Busy,
    /// The source has stopped.
    Stopped,
}

/// What became of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How far it was taken.
    pub end: End,
    /// Lines from the first on that are settled: durable, or refused and kept in
    /// the quarantine.
    pub lines: u64,
    /// Readings in them.
    pub accepted: u64,
    /// Refused lines among them, from 1, and why; the first of them.
    pub faults: Vec<(u64, String)>,
    /// How many there were.
    pub refused: u64,
}

/// How far a body was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// All of it.
    #[default]
    Whole,
    /// The buffer, or the way to it, is full.
    Full,
    /// Nobody can tell yet: the commit takes too long, or the agent stops.
    Unknown,
}

struct Outstanding {
    gathered: Settles,
    outcome: oneshot::Receiver<Outcome>,
}

/// What a batch settles once it is durable.
struct Settles {
    lines: u64,
    readings: u64,
    faults: Vec<(u64, String)>,
}

impl Push {
    pub(super) fn new(source: Source, body_max: usize, door: Door) -> Self {
        Self { source, body_max, door, slots: Arc::new(Semaphore::new(PUSH_REQUESTS_MAX)) }
    }

    /// The format of bodies that do not say theirs.
    pub fn format(&self) -> Format {
        self.source.format
    }

    /// The longest body that is to be handed in, in bytes.
    pub fn body_max(&self) -> usize {
        self.body_max
    }

    /// The right to hand in a body, to be had before it is read.
    ///
    /// # Errors
    /// There is none now, or will be none any more.
    pub fn slot(&self) -> Result<Slot, NoSlot> {
        use tokio::sync::TryAcquireError;
        match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(permit) => Ok(Slot(permit)),
            Err(TryAcquireError::NoPermits) => Err(NoSlot::Busy),
            Err(TryAcquireError::Closed) => Err(NoSlot::Stopped),
        }
    }

    /// Until the source is stopped, and then until nobody is waiting for an answer.
    pub(super) async fn run(self: Arc<Self>) {
        let mut door = self.door.clone();
        door.health.up();
        door.stopped().await;
        let all = u32::try_from(PUSH_REQUESTS_MAX).unwrap_or(u32::MAX);
        // Whoever holds a slot gives it back, for waits have their bounds.
        let _all = self.slots.acquire_many(all).await;
        self.slots.close();
    }

    /// Takes a body in; comes back when all that could be taken of it is durable.
    /// A body that is not taken whole may be posted again from the first line that
    /// is not settled.
    pub async fn take(&self, _slot: &Slot, body: &[u8], format: Format) -> Taken {
        let _connected = self.door.health.connect();
        let arrival = (self.door.clock)();
        let mut gatherer = Gatherer::with_format(&self.source, format);
        let mut outstanding = VecDeque::new();
        let mut end = End::Whole;
        let mut rest = body;
        while end == End::Whole {
            if let Some(gathered) = gatherer.gather(arrival) {
                end = self.send(gathered, &mut outstanding).await;
                continue;
            }
            if gatherer.splitter.is_ended() {
                break;
            }
            let space = gatherer.splitter.space();
            let count = space.len().min(rest.len());
            let (next, after) = rest.split_at(count);
            space[..count].copy_from_slice(next);
            gatherer.splitter.filled(count);
            rest = after;
            if rest.is_empty() {
                gatherer.splitter.end();
            }
        }
        let mut taken = Taken::default();
        let settle = settle(&mut taken, outstanding);
        let settled = timeout(COMMIT_WITHIN, settle).await.unwrap_or(End::Unknown);
        taken.end = if settled == End::Whole { end } else { settled };
        taken
    }

    async fn send(&self, gathered: Gathered, outstanding: &mut VecDeque<Outstanding>) -> End {
        let Gathered { batch, lines, faults, .. } = gathered;
        let (receipt, outcome) = oneshot::channel();
        self.door.health.note_lines(lines, faults.len() as u64);
        let settles = Settles {
            lines,
            readings: batch.readings.len() as u64,
            faults: faults.into_iter().map(|(line, fault)| (line, fault.what)).collect(),
        };
        if batch.readings.is_empty() && batch.refused.is_empty() {
            // Blank lines and comments; whoever waits must not wait for ever.
            let _ = receipt.send(Outcome::Durable);
        } else {
            let message = SourceMessage { batch, receipt: Some(receipt) };
            match timeout(ROOM_WITHIN, self.door.out.send(message)).await {
                Err(_) => return End::Full,
                Ok(Err(_)) => return End::Unknown,
                Ok(Ok(())) => {}
            }
        }
        outstanding.push_back(Outstanding { gathered: settles, outcome });
        End::Whole
    }
}

/// Waits for what is out, in order, up to the first that is not taken.
async fn settle(taken: &mut Taken, outstanding: VecDeque<Outstanding>) -> End {
    for Outstanding { gathered, outcome } in outstanding {
        match outcome.await {
            Ok(Outcome::Durable) => {}
            Ok(Outcome::Full) => return End::Full,
            Err(_) => return End::Unknown,
        }
        taken.lines += gathered.lines;
        taken.accepted += gathered.readings;
        taken.refused += gathered.faults.len() as u64;
        let room = FAULTS_TOLD_MAX - taken.faults.len().min(FAULTS_TOLD_MAX);
        taken.faults.extend(gathered.faults.into_iter().take(room));
    }
    End::Whole
}
