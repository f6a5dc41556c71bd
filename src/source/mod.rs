//! How readings come in.
//!
//! What every source owes: bounded memory, the arrival time taken at the door,
//! an acknowledgement to its sender only after the commit, one bad input costs
//! exactly itself, its own failure never stops another.

pub mod lines;
pub mod listen;
pub mod parse;
pub mod simulate;
pub mod stdin;
pub mod text;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::config::{Source, SourceKind};
use crate::core::reading::Arrival;
use crate::core::seam::{Batch, Outcome};

/// What a source hands to the driver.
#[derive(Debug)]
pub struct SourceMessage {
    /// Readings and refused inputs; its receipt is left to the driver.
    pub batch: Batch,
    /// Answered once all of it is durable, if the sender wants to know.
    pub receipt: Option<oneshot::Sender<Outcome>>,
}

/// Reads the clocks, for the moment at which something came in.
pub type ArrivalClock = Arc<dyn Fn() -> Arrival + Send + Sync>;

/// A source that runs.
#[derive(Debug)]
pub struct SourceHandle {
    address: Option<SocketAddr>,
    task: JoinHandle<()>,
}

impl SourceHandle {
    /// Where it listens, if on TCP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Waits for its end. It ends once told to stop, or when its input has
    /// ended.
    pub async fn join(self) {
        // A source that panicked has said so through the panic hook.
        let _ = self.task.await;
    }
}

/// Why a source cannot start.
#[derive(Debug)]
pub struct SourceError {
    place: String,
    error: std::io::Error,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot listen on {}: {}; is the address free, and may this user bind it?",
            self.place, self.error
        )
    }
}

impl std::error::Error for SourceError {}

/// Starts a source. It sends to `out` and ends when `stop` turns true.
///
/// # Errors
/// A `listen` address that cannot be bound.
pub async fn spawn(
    source: &Source,
    out: mpsc::Sender<SourceMessage>,
    clock: ArrivalClock,
    stop: watch::Receiver<bool>,
) -> Result<SourceHandle, SourceError> {
    let door = Door { out, clock, stop };
    match &source.kind {
        SourceKind::Listen { address, acknowledge } => {
            listen::spawn(source, address, *acknowledge, door).await
        }
        SourceKind::Stdin => {
            let source = source.clone();
            let task = tokio::spawn(async move {
                stdin::run(&source, tokio::io::stdin(), door).await;
            });
            Ok(SourceHandle { address: None, task })
        }
        SourceKind::Simulate(plc) => {
            let task = tokio::spawn(simulate::run(source.name.clone(), plc.clone(), door));
            Ok(SourceHandle { address: None, task })
        }
    }
}

/// The way to the driver, as a source sees it.
#[derive(Clone)]
pub struct Door {
    /// Batches go here; waits when the driver is behind.
    pub out: mpsc::Sender<SourceMessage>,
    /// The clocks.
    pub clock: ArrivalClock,
    /// Turns true when the source must end.
    pub stop: watch::Receiver<bool>,
}

impl Door {
    /// Hands a batch in without asking for a receipt. False when nobody takes
    /// it any more.
    pub async fn hand_in(&self, batch: Batch) -> bool {
        self.out.send(SourceMessage { batch, receipt: None }).await.is_ok()
    }

    /// Hands a batch in; what comes back says what became of it.
    pub async fn hand_in_for_receipt(&self, batch: Batch) -> Option<oneshot::Receiver<Outcome>> {
        let (receipt, outcome) = oneshot::channel();
        self.out.send(SourceMessage { batch, receipt: Some(receipt) }).await.ok()?;
        Some(outcome)
    }

    /// Waits until the source must end.
    pub async fn stopped(&mut self) {
        // An error means that the sender is gone: the same as a stop.
        let _ = self.stop.wait_for(|is_stopped| *is_stopped).await;
    }
}
