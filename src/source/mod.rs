//! Sources: where readings come in.
//!
//! Every source takes arrival time at the door, parses in bounded memory, hands
//! batches to the driver and answers its sender only after the commit. A bad
//! input costs exactly itself: it becomes a refusal with its reason. The failure
//! of one source never stops another.

mod feed;
pub mod lines;
mod listen;
pub mod parse;
pub mod simulate;
mod stdin;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::config::{Source, SourceKind};
use crate::core::id::SourceId;
use crate::core::reading::Arrival;
use crate::core::seam::{Batch, Outcome};

/// A batch on its way to the driver.
#[derive(Debug)]
pub struct SourceMessage {
    /// What came in; its own `receipt` is for the driver to fill in.
    pub batch: Batch,
    /// To be answered once the batch is durable or refused as a whole. Dropped
    /// without an answer, it closes the connection it belongs to.
    pub receipt: Option<oneshot::Sender<Outcome>>,
}

/// Tells the time at the door.
pub type ArrivalClock = Arc<dyn Fn() -> Arrival + Send + Sync>;

/// What a source says about itself.
#[derive(Debug, Default)]
pub struct Health {
    connections: AtomicUsize,
    lines: AtomicU64,
    refused: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Health {
    /// Open connections; 1 for a source that has no connections and runs.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Lines taken since the start, blank and refused ones included; readings
    /// where a source has no lines.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Lines refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The newest error of the source itself, for people.
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_error(&self, error: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn note_lines(&self, lines: u64, refused: u64) {
        self.lines.fetch_add(lines, Ordering::Relaxed);
        self.refused.fetch_add(refused, Ordering::Relaxed);
    }

    /// Counts one connection until the guard is dropped.
    fn connect(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(Arc::clone(self))
    }
}

struct Connected(Arc<Health>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A running source.
#[derive(Debug)]
pub struct SourceHandle {
    /// Its name.
    pub name: SourceId,
    /// Where it listens, if it listens on TCP.
    pub local_addr: Option<SocketAddr>,
    /// What it says about itself.
    pub health: Arc<Health>,
    /// Ends when the source has ended: after its stop, or at the end of input.
    pub join: JoinHandle<()>,
}

/// A source cannot start.
#[derive(Debug)]
pub struct SourceError {
    /// Its name.
    pub source: String,
    /// What failed, for people.
    pub reason: String,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {}: {}", self.source, self.reason)
    }
}

impl std::error::Error for SourceError {}

/// What every source needs: its name and its ways in and out.
#[derive(Clone)]
struct Door {
    name: SourceId,
    out: mpsc::Sender<SourceMessage>,
    clock: ArrivalClock,
    stop: watch::Receiver<bool>,
    health: Arc<Health>,
}

impl Door {
    /// Comes back when the source has to stop.
    async fn stopped(&mut self) {
        // A dropped sender means that nobody runs us any more.
        let _ = self.stop.wait_for(|is_stopped| *is_stopped).await;
    }
}

/// Starts a source. It ends when `stop` becomes true: it takes nothing more,
/// waits for the receipts that are out, answers its senders and closes. Must be
/// called within a tokio runtime.
///
/// # Errors
/// A `listen` source that cannot bind its address.
pub fn spawn(
    source: &Source,
    out: mpsc::Sender<SourceMessage>,
    clock: ArrivalClock,
    stop: watch::Receiver<bool>,
) -> Result<SourceHandle, SourceError> {
    let name = SourceId::new(&source.name);
    let health = Arc::new(Health::default());
    let door = Door { name: name.clone(), out, clock, stop, health: Arc::clone(&health) };
    let (local_addr, join) = match &source.kind {
        SourceKind::Listen { address, acknowledge } => {
            let listener = listen::bind(address)
                .map_err(|reason| SourceError { source: source.name.clone(), reason })?;
            let local_addr = listener.local_addr();
            let task = listen::run(listener, source.clone(), *acknowledge, door);
            (local_addr, tokio::spawn(task))
        }
        SourceKind::Stdin => {
            (None, tokio::spawn(stdin::run(tokio::io::stdin(), source.clone(), door)))
        }
        SourceKind::Simulate(plc) => (None, tokio::spawn(simulate::run(plc.clone(), door))),
    };
    Ok(SourceHandle { name, local_addr, health, join })
}

/// As [`spawn`], for a source of type `stdin` that reads from somewhere else.
pub fn spawn_reader(
    source: &Source,
    reader: impl tokio::io::AsyncRead + Unpin + Send + 'static,
    out: mpsc::Sender<SourceMessage>,
    clock: ArrivalClock,
    stop: watch::Receiver<bool>,
) -> SourceHandle {
    let name = SourceId::new(&source.name);
    let health = Arc::new(Health::default());
    let door = Door { name: name.clone(), out, clock, stop, health: Arc::clone(&health) };
    let join = tokio::spawn(stdin::run(reader, source.clone(), door));
    SourceHandle { name, local_addr: None, health, join }
}
