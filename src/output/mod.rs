//! On site: results of windows for consumers beside the gateway, whatever the
//! uplink does.
//!
//! An output is fed with committed results only, so that nobody acts on a number
//! that a power cut takes back. It is a copy: when its file, client or broker
//! does not keep up, the oldest waiting results are dropped and counted, and
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
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::queue::Queue;
use crate::core::window::WindowResult;
use crate::wire::json;

/// Results that wait for one output; beyond, the oldest go.
pub const QUEUE_MAX: usize = 4_096;
/// How long an output may take to write what waits when the agent stops.
const STOP_WITHIN: Duration = Duration::from_secs(2);
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
    Mqtt(MqttSettings),
}

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketAddress {
    /// A TCP address; port 0 takes a free one ([`OutputHandle::local_addr`]).
    Tcp(SocketAddr),
    /// A Unix socket. A socket file that nobody listens on is replaced.
    Unix(PathBuf),
}

/// A broker on site. Plain MQTT 3.1.1: it is on this machine or the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttSettings {
    /// Host name or address.
    pub host: String,
    /// Port, usually 1883.
    pub port: u16,
    /// MQTT client identifier; must differ from the uplink's at the same broker.
    pub client_id: String,
    /// User name and password, if the broker wants them.
    pub login: Option<(String, String)>,
}

/// A committed result with its JSON, made once for all outputs.
#[derive(Clone, Debug)]
pub struct Item {
    /// The result.
    pub result: Arc<WindowResult>,
    /// Its JSON line, with the line break.
    pub line: Arc<Vec<u8>>,
}

impl Item {
    /// Writes the JSON of a result.
    pub fn new(gateway: &str, result: Arc<WindowResult>) -> Self {
        let mut line = Vec::with_capacity(768);
        json::window_result(gateway, &result, &mut line);
        line.push(b'\n');
        Self { result, line: Arc::new(line) }
    }

    /// The JSON object without the line break.
    fn object(&self) -> &[u8] {
        self.line.strip_suffix(b"\n").unwrap_or(&self.line)
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
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    bound: watch::Receiver<Option<SocketAddr>>,
    task: JoinHandle<()>,
}

impl OutputHandle {
    /// Hands in a committed result. Never blocks; one of a window that is not
    /// chosen is passed over.
    pub fn offer(&self, item: &Item) {
        let is_chosen = self.windows.is_empty() || self.windows.contains(&item.result.window);
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

    /// Writes what waits, within two seconds, and ends the output.
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
    let queue = Arc::new(Queue::new(QUEUE_MAX));
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
    OutputHandle { windows: settings.windows, queue, counts, bound, task }
}

#[cfg(test)]
mod output_tests;
