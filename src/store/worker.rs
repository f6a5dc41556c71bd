//! The store's own thread: sled blocks, and may hang for good on a bad disk. The
//! heartbeat shows whether it still turns.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::quarantine::Refused;
use super::{OpenError, Options, Store, StoreError, checkpoint};
use crate::core::id::SegmentId;
use crate::core::limits::EVENT_QUEUE_MAX;
use crate::core::seam::{Checkpointed, Commit, Fetch, Recovered, StoreEvent};

/// Name of the thread, in traces and in the panic hook.
pub const THREAD_NAME: &str = "tidegate-store";

enum Request {
    Commit(Box<Commit>),
    Fetch(Fetch),
    Remove(SegmentId),
    Checkpoint(Checkpointed, Arc<Vec<u8>>),
    Refused(usize, SyncSender<Result<Vec<Refused>, StoreError>>),
    Ping,
    Close,
}

/// A handle to the store thread. Requests are answered in order, through the
/// callback given to [`spawn`].
#[derive(Debug)]
pub struct Worker {
    requests: SyncSender<Request>,
    heartbeat: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// The store thread is gone: it panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerGone;

impl fmt::Display for WorkerGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store thread is gone")
    }
}

impl std::error::Error for WorkerGone {}

/// Opens the journal on a thread of its own, and returns once it is open.
/// `events` is called on that thread and should only pass them on.
pub fn spawn(
    options: Options,
    events: Box<dyn Fn(StoreEvent) + Send>,
) -> Result<(Worker, Recovered), OpenError> {
    let (requests, inbox) = sync_channel(EVENT_QUEUE_MAX);
    let (opened, answer) = sync_channel(1);
    let heartbeat = Arc::new(AtomicU64::new(0));
    let beat = Arc::clone(&heartbeat);
    let run_store = move || match Store::open(&options) {
        Ok((store, recovered)) => {
            if opened.send(Ok(recovered)).is_ok() {
                run(store, &inbox, &*events, &beat);
            }
        }
        Err(error) => {
            // Nobody waits any more: nobody to tell.
            let _ = opened.send(Err(error));
        }
    };
    let thread = std::thread::Builder::new().name(THREAD_NAME.into()).spawn(run_store);
    let thread = thread.map_err(|_| OpenError::Thread)?;
    let recovered = answer.recv().map_err(|_| OpenError::Thread)??;
    Ok((Worker { requests, heartbeat, thread }, recovered))
}

fn run(
    mut store: Store,
    inbox: &Receiver<Request>,
    events: &dyn Fn(StoreEvent),
    heartbeat: &AtomicU64,
) {
    for request in inbox {
        match request {
            Request::Commit(commit) => {
                let id = commit.id;
                events(match store.commit(&commit) {
                    Ok((segments, disk)) => StoreEvent::Committed { id, segments, disk },
                    Err(error) => StoreEvent::CommitFailed { id, reason: error.to_string() },
                });
            }
            Request::Fetch(fetch) => events(StoreEvent::Fetched(store.fetch(&fetch))),
            Request::Remove(id) => events(StoreEvent::Removed { id, disk: store.remove(id) }),
            Request::Checkpoint(of, bytes) => {
                let written = checkpoint::write(store.data_dir(), of, &bytes);
                let error = written.err().map(|error| error.to_string());
                events(StoreEvent::Checkpointed { of, error });
            }
            Request::Refused(limit, answer) => {
                // Whoever asked may have gone away.
                let _ = answer.send(store.refusals().list(limit));
            }
            Request::Ping => {}
            Request::Close => break,
        }
        heartbeat.fetch_add(1, Ordering::Relaxed);
    }
    store.close();
}

impl Worker {
    /// Answered by [`StoreEvent::Committed`] or [`StoreEvent::CommitFailed`].
    pub fn commit(&self, commit: Commit) -> Result<(), WorkerGone> {
        self.send(Request::Commit(Box::new(commit)))
    }

    /// Answered by [`StoreEvent::Fetched`].
    pub fn fetch(&self, fetch: Fetch) -> Result<(), WorkerGone> {
        self.send(Request::Fetch(fetch))
    }

    /// Answered by [`StoreEvent::Removed`].
    pub fn remove(&self, id: SegmentId) -> Result<(), WorkerGone> {
        self.send(Request::Remove(id))
    }

    /// Answered by [`StoreEvent::Checkpointed`].
    pub fn checkpoint(&self, of: Checkpointed, bytes: Arc<Vec<u8>>) -> Result<(), WorkerGone> {
        self.send(Request::Checkpoint(of, bytes))
    }

    /// The newest refused inputs, at most `limit`. Waits for the store thread;
    /// not for the driver loop.
    pub fn refused(&self, limit: usize) -> Result<Result<Vec<Refused>, StoreError>, WorkerGone> {
        let (answer, result) = sync_channel(1);
        self.send(Request::Refused(limit, answer))?;
        result.recv().map_err(|_| WorkerGone)
    }

    /// Counts requests answered; advances with [`Worker::ping`] too.
    pub fn heartbeat(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.heartbeat)
    }

    /// Asks for a sign of life. When the queue is full there is work enough to
    /// see one.
    pub fn ping(&self) {
        let _ = self.requests.try_send(Request::Ping);
    }

    /// Carries out what was asked, closes the journal, ends the thread.
    pub fn close_and_join(self) {
        let _ = self.send(Request::Close);
        // A panic has been reported by the hook.
        let _ = self.thread.join();
    }

    fn send(&self, request: Request) -> Result<(), WorkerGone> {
        self.requests.send(request).map_err(|_| WorkerGone)
    }
}
