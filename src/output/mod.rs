//! On site: results of windows, and readings in order, for consumers beside the
//! gateway, whatever the uplink does.
//!
//! An output is fed with what is committed only, so that nobody acts on a number
//! that a power cut takes back. It is a copy: when its file, client or broker
//! does not keep up, the oldest that wait are dropped and counted, and
//! neither journal nor uplink notice. What must arrive goes up.
//!
//! ```text
//! driver ── offer ──► queue (bounded, drops the oldest) ──► task: jsonl | socket | mqtt
//! ```

mod jsonl;
mod mqtt;
mod queue;
mod socket;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::queue::Queue;
use crate::core::limits::HELD_READINGS_MAX;
use crate::core::order::OrderedReading;
use crate::core::window::WindowResult;
use crate::mqtt::Broker;
use crate::wire::json;

/// Results that wait for one output; beyond, the oldest go.
pub const QUEUE_MAX: usize = 4_096;
/// The same for an output that gets ordered readings: all that is held may be let
/// out at once, when a source falls silent that the others waited for.
pub const ORDERED_QUEUE_MAX: usize = QUEUE_MAX + HELD_READINGS_MAX;
/// How long an output may take to write what waits when the agent stops.
pub const STOP_WITHIN: Duration = Duration::from_millis(1_500);
/// The pause after a first failure; it doubles with each further one,
const RETRY_FIRST: Duration = Duration::from_millis(250);
/// up to this.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What one output needs to know of the configuration.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// The gateway's id, as it stands in topics.
    pub gateway: Arc<str>,
    /// Where results go.
    pub kind: OutputKind,
    /// Which windows, by name; empty: all.
    pub windows: Vec<Arc<str>>,
    /// The order of the readings that go there, by name, if any do.
    pub order: Option<Arc<str>>,
}

/// Kinds of outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// JSON lines appended to a file. A file that was moved or deleted is begun
    /// anew, so that any log rotation by renaming works.
    Jsonl {
        /// The file; its folder must exist.
        path: PathBuf,
    },
    /// A listening socket: each connected client gets JSON lines from then on.
    Socket {
        /// Where it listens.
        address: SocketAddress,
    },
    /// The newest result of each series, retained, at a broker on site.
    /// It speaks MQTT 3.1.1; its client id must differ from the uplink's at the same
    /// broker.
    Mqtt(Broker),
}

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketAddress {
    /// A TCP address; port 0 takes a free one ([`OutputHandle::local_addr`]).
    Tcp(SocketAddr),
    /// A Unix socket. A socket file that nobody listens on is replaced.
    Unix(PathBuf),
}

/// Something committed, for all outputs that want it.
#[derive(Clone, Debug)]
pub struct Item {
    gateway: Arc<str>,
    content: Content,
    /// Written when the first output needs it, once for all.
    line: Arc<OnceLock<Vec<u8>>>,
}

/// What outputs get.
#[derive(Clone, Debug)]
pub enum Content {
    /// A result.
    Result(Arc<WindowResult>),
    /// A reading in its place.
    Ordered(OrderedReading),
}

impl Item {
    /// For this gateway's outputs.
    pub fn new(gateway: &Arc<str>, content: Content) -> Self {
        Self { gateway: Arc::clone(gateway), content, line: Arc::default() }
    }

    /// Its JSON line, with the line break.
    fn line(&self) -> &[u8] {
        self.line.get_or_init(|| {
            let mut line = Vec::with_capacity(768);
            match &self.content {
                Content::Result(result) => json::window_result(&self.gateway, result, &mut line),
                Content::Ordered(OrderedReading { record, place, .. }) => {
                    json::ordered_reading(&self.gateway, record, *place, &mut line);
                }
            }
            line.push(b'\n');
            line
        })
    }

    /// The JSON object without the line break.
    fn object(&self) -> &[u8] {
        let line = self.line();
        line.strip_suffix(b"\n").unwrap_or(line)
    }
}

/// What an output did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputFacts {
    /// Results written, or acknowledged by the broker; for a socket those that at
    /// least one client was to get.
    pub written: u64,
    /// Results dropped because the output did not keep up.
    pub dropped: u64,
    /// Clients of a socket that were cut off because they did not read.
    pub slow_clients: u64,
    /// Clients connected to a socket now.
    pub clients: u64,
    /// Failures to write, bind or connect.
    pub failures: u64,
    /// The last of them, for people; `None` while all is well.
    pub failing: Option<String>,
}

/// Counts shared by the task and its handle.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    slow_clients: AtomicU64,
    clients: AtomicU64,
    failures: AtomicU64,
    failing: Mutex<Option<String>>,
}

impl Counts {
    fn wrote(&self, results: u64) {
        self.written.fetch_add(results, Ordering::Relaxed);
    }

    /// Logs the first of a row of failures, and its end ([`Self::recovered`]).
    fn failed(&self, what: &str, error: &dyn std::fmt::Display) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let text = format!("{what}: {error}");
        let before = self.failing().replace(text.clone());
        if before.is_none() {
            tracing::warn!("output {text}; it is tried again");
        }
    }

    fn recovered(&self, what: &str) {
        if self.failing().take().is_some() {
            tracing::info!("output {what} works again");
        }
    }

    fn failing(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pauses that double from failure to failure.
#[derive(Debug, Default)]
struct Pauses {
    failures: u32,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        let pause = RETRY_FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        pause.min(RETRY_MAX)
    }

    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A running output.
#[derive(Debug)]
pub struct OutputHandle {
    windows: Vec<Arc<str>>,
    order: Option<Arc<str>>,
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    bound: watch::Receiver<Option<SocketAddr>>,
    task: JoinHandle<()>,
}

impl OutputHandle {
    /// Hands in something committed. Never blocks; what was not asked for is passed
    /// over.
    pub fn offer(&self, item: &Item) {
        let is_chosen = match &item.content {
            Content::Result(result) => {
                self.windows.is_empty() || self.windows.contains(&result.window)
            }
            Content::Ordered(reading) => self.order.as_ref() == Some(&reading.order),
        };
        if is_chosen {
            self.queue.push(item.clone());
        }
    }

    /// What it did so far.
    pub fn facts(&self) -> OutputFacts {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        OutputFacts {
            written: count(&self.counts.written),
            dropped: self.queue.dropped(),
            slow_clients: count(&self.counts.slow_clients),
            clients: count(&self.counts.clients),
            failures: count(&self.counts.failures),
            failing: self.counts.failing().clone(),
        }
    }

    /// The address that a TCP socket is bound to, once it is; `None` for other
    /// kinds.
    pub async fn local_addr(&self) -> Option<SocketAddr> {
        let mut bound = self.bound.clone();
        bound.wait_for(Option::is_some).await.ok().and_then(|address| *address)
    }

    /// Writes what waits, within [`STOP_WITHIN`], and ends the output.
    pub async fn stop(mut self) {
        self.queue.close();
        if timeout(STOP_WITHIN, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Drop for OutputHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts an output. It never fails for good: what cannot be written, bound or
/// reached is tried again, with growing pauses of up to 30 s.
pub fn spawn(settings: OutputSettings) -> OutputHandle {
    let limit = if settings.order.is_some() { ORDERED_QUEUE_MAX } else { QUEUE_MAX };
    let queue = Arc::new(Queue::new(limit));
    let counts = Arc::new(Counts::default());
    let (announce, bound) = watch::channel(None);
    let (inbox, shared) = (Arc::clone(&queue), Arc::clone(&counts));
    let gateway = settings.gateway;
    let task = match settings.kind {
        OutputKind::Jsonl { path } => tokio::spawn(jsonl::run(path, inbox, shared)),
        OutputKind::Socket { address } => {
            tokio::spawn(socket::run(address, inbox, shared, announce))
        }
        OutputKind::Mqtt(broker) => tokio::spawn(mqtt::run(gateway, broker, inbox, shared)),
    };
    let OutputSettings { windows, order, .. } = settings;
    OutputHandle { windows, order, queue, counts, bound, task }
}

#[cfg(test)]
mod output_tests;
