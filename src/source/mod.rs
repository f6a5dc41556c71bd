//! Sources: where readings come in.
//!
//! Every source takes arrival time at the door, parses in bounded memory, hands
//! batches to the driver and answers its sender only after the commit. A bad
//! input costs exactly itself: it becomes a refusal with its reason. The failure
//! of one source never stops another.

mod bind;
mod feed;
mod file;
mod foreign;
pub mod health;
pub mod lines;
mod listen;
pub mod modbus;
mod mqtt;
pub mod parse;
pub mod push;
pub mod simulate;
mod stdin;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::config::{Source, SourceKind};
use crate::core::id::SourceId;
use crate::core::reading::Arrival;
use crate::core::seam::{Batch, Outcome};

pub use health::Health;

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

/// A running source.
#[derive(Debug)]
pub struct SourceHandle {
    /// Its name.
    pub name: SourceId,
    /// Where it listens, if it listens on TCP and the address was to be had when it
    /// started.
    pub local_addr: Option<SocketAddr>,
    /// Where bodies are handed in, if it takes any.
    pub push: Option<Arc<push::Push>>,
    /// What it says about itself.
    pub health: Arc<Health>,
    /// Ends when the source has ended: after its stop, or at the end of input.
    pub join: JoinHandle<()>,
}

/// A source does not have what it needs to start.
#[derive(Debug)]
pub struct SourceError {
    /// Its name.
    pub source: String,
    /// What failed, for people.
    pub reason: String,
    /// Whether only the machine does not have the address, or not now: an interface
    /// that is unplugged, a lease that has not come.
    pub is_absent: bool,
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

/// What a source has before it starts: the address that it listens on. With the
/// default, which is nothing yet, it binds by itself as soon as it can, and is `down`
/// until then.
#[derive(Debug, Default)]
pub struct Bound(Option<listen::Listener>);

/// Takes what a source needs. Must be called within a tokio runtime.
///
/// # Errors
/// The address of a `listen` source cannot be bound now.
pub fn bind(source: &Source) -> Result<Bound, SourceError> {
    let SourceKind::Listen { address, .. } = &source.kind else { return Ok(Bound(None)) };
    let bound = bind::bind(address);
    bound.map(|listener| Bound(Some(listener))).map_err(|error| SourceError {
        source: source.name.clone(),
        reason: error.to_string(),
        is_absent: error.kind() == io::ErrorKind::AddrNotAvailable,
    })
}

/// Starts a source. It ends when `stop` becomes true: it takes nothing more,
/// waits for the receipts that are out, answers its senders and closes. Must be
/// called within a tokio runtime.
///
/// # Errors
/// Those of [`bind`].
pub fn spawn(
    source: &Source,
    out: mpsc::Sender<SourceMessage>,
    clock: ArrivalClock,
    stop: watch::Receiver<bool>,
) -> Result<SourceHandle, SourceError> {
    spawn_at(source, Arc::default(), out, clock, stop)
}

/// As [`spawn`], for a source that goes on from a position; empty is none.
///
/// # Errors
/// Those of [`spawn`].
pub fn spawn_at(
    source: &Source,
    position: Arc<[u8]>,
    out: mpsc::Sender<SourceMessage>,
    clock: ArrivalClock,
    stop: watch::Receiver<bool>,
) -> Result<SourceHandle, SourceError> {
    Ok(spawn_bound(source, bind(source)?, position, out, clock, stop))
}

/// As [`spawn_at`], with what [`bind`] gave for this source.
pub fn spawn_bound(
    source: &Source,
    bound: Bound,
    position: Arc<[u8]>,
    out: mpsc::Sender<SourceMessage>,
    clock: ArrivalClock,
    stop: watch::Receiver<bool>,
) -> SourceHandle {
    let name = SourceId::new(&source.name);
    let health = Arc::new(Health::default());
    let door = Door { name: name.clone(), out, clock, stop, health: Arc::clone(&health) };
    let mut push = None;
    let (local_addr, join) = match (&source.kind, bound.0) {
        (SourceKind::Listen { acknowledge, address }, listener) => {
            let local_addr = listener.as_ref().and_then(listen::Listener::local_addr);
            let task = bind::listen(listener, address.clone(), source.clone(), *acknowledge, door);
            (local_addr, watched(task, &health))
        }
        (SourceKind::Stdin, _) => {
            (None, watched(stdin::run(tokio::io::stdin(), source.clone(), door), &health))
        }
        (SourceKind::File(settings), _) => {
            let task = file::run(settings.clone(), source.clone(), position, door);
            (None, watched(task, &health))
        }
        (SourceKind::Http { max_body }, _) => {
            let taking = Arc::new(push::Push::new(source.clone(), *max_body, door));
            push = Some(Arc::clone(&taking));
            (None, watched(taking.run(), &health))
        }
        (SourceKind::Mqtt(settings), _) => {
            (None, watched(mqtt::run(settings.clone(), source.clone(), position, door), &health))
        }
        (SourceKind::Modbus(device), _) => {
            (None, watched(modbus::run(device.clone(), source.clone(), door), &health))
        }
        (SourceKind::Simulate(plc), _) => {
            (None, watched(simulate::run(plc.clone(), door), &health))
        }
    };
    SourceHandle { name, local_addr, push, health, join }
}

/// A task whose end its health tells.
fn watched(
    task: impl Future<Output = ()> + Send + 'static,
    health: &Arc<Health>,
) -> JoinHandle<()> {
    let running = health.until_dropped();
    tokio::spawn(async move {
        let _running = running;
        task.await;
    })
}

/// As [`spawn`], for a source of type `stdin` that reads from `reader` instead. Only
/// tests use it: a process has one standard input, and that is not theirs.
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
    let join = watched(stdin::run(reader, source.clone(), door), &health);
    SourceHandle { name, local_addr: None, push: None, health, join }
}
