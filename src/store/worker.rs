//! The store's own thread: sled blocks, and may hang for good on a bad disk. The
//! heartbeat shows whether it still turns.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::{OpenError, Options, Store, checkpoint};
use crate::core::id::SegmentId;
use crate::core::limits::EVENT_QUEUE_MAX;
use crate::core::seam::{Checkpointed, Commit, Fetch, Recovered, StoreEvent};

/// Name of the thread, in traces and in the panic hook.
pub const THREAD_NAME: &str = "tidegate-store";

/// Pings without a question, about one a second, after which the segment that was opened
/// for looking is closed.
const LOOK_AWAY_AFTER: u32 = 10;

/// Something to be asked of the store on its thread.
type Question = Box<dyn FnOnce(&mut Store) + Send>;

enum Request {
    Commit(Box<Commit>),
    Fetch(Fetch),
    Remove(SegmentId),
    Checkpoint(Checkpointed, Arc<Vec<u8>>),
    Ask(Question),
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

/// A handle for questions to the store (listings, statistics, checks) that are
/// answered on its thread between commits and fetches.
#[derive(Clone, Debug)]
pub struct Questions {
    requests: SyncSender<Request>,
}

impl Questions {
    /// Asks, and waits for the answer: the store thread has its other work too.
    /// A question should be answered within milliseconds.
    ///
    /// # Errors
    /// The store thread is gone.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Store) -> T + Send + 'static,
    ) -> Result<T, WorkerGone> {
        let (answer, result) = sync_channel(1);
        let asked: Question = Box::new(move |store| {
            // Whoever asked may have gone away.
            let _ = answer.send(question(store));
        });
        self.requests.send(Request::Ask(asked)).map_err(|_| WorkerGone)?;
        result.recv().map_err(|_| WorkerGone)
    }
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
            // The caller does not wait any more.
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
    let mut idle_pings = 0_u32;
    for request in inbox {
        match request {
            Request::Commit(commit) => {
                let id = commit.id;
                let committed = store.commit(&commit);
                if let Some((count, reason)) = store.take_refusals_dropped() {
                    events(StoreEvent::RefusalsDropped { count, reason });
                }
                events(match committed {
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
            Request::Ask(question) => {
                question(&mut store);
                idle_pings = 0;
            }
            Request::Ping => {
                // Other processes fill and empty the same disk too.
                events(StoreEvent::Measured(store.disk()));
                idle_pings += 1;
                if idle_pings == LOOK_AWAY_AFTER {
                    store.look_away();
                }
            }
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

    /// A handle for questions that others ask.
    pub fn questions(&self) -> Questions {
        Questions { requests: self.requests.clone() }
    }

    /// Counts requests answered; advances with [`Worker::ping`] too.
    pub fn heartbeat(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.heartbeat)
    }

    /// Asks for a sign of life, answered by [`StoreEvent::Measured`]. Does nothing when the
    /// queue is full: then the requests in it advance the heartbeat.
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
