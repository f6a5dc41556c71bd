//! Lines over TCP and Unix sockets, acknowledged after the commit.
//!
//! Each connection is a task of its own with two sides: one reads lines and
//! hands them to the driver, one waits for the receipts in the same order and
//! answers `{"acked":N}`. The bounded queue between them is what lets a sender
//! stream without waiting for each answer, and what stops a sender that does not
//! read its answers; other connections notice neither.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Door;
use super::feed::{Gatherer, Outstanding, Receipts, feed};
use crate::config::Source;
use crate::core::limits::LISTEN_CONNECTIONS_MAX;
use crate::core::seam::Outcome;

/// How long a peer may take to take an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept, which is mostly a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A bound socket.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

type Halves = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

impl Listener {
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }

    async fn accept(&self) -> std::io::Result<Halves> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let stream = listener.accept().await?.0;
                // Answers are short and waited for.
                stream.set_nodelay(true)?;
                let (read, write) = stream.into_split();
                (Box::new(read), Box::new(write))
            }
            Listener::Unix(listener, _) => {
                let (read, write) = listener.accept().await?.0.into_split();
                (Box::new(read), Box::new(write))
            }
        })
    }
}

/// Accepts connections until the source is stopped, then waits for them.
pub(super) async fn run(listener: Listener, source: Source, acknowledge: bool, mut door: Door) {
    door.health.up();
    let slots = Arc::new(Semaphore::new(LISTEN_CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = door.stopped() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (read, mut write) = match accepted {
            Ok(halves) => halves,
            Err(error) => {
                door.health.note_error(format!("accept: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            let reason = format!("more than {LISTEN_CONNECTIONS_MAX} connections");
            door.health.note_error(reason);
            // In a task of its own: this peer too may be slow.
            connections.spawn(async move {
                answer(&mut write, "{\"error\":\"too_many_connections\",\"acked\":0}\n").await;
            });
            continue;
        };
        let (gatherer, door) = (Gatherer::new(&source), door.clone());
        let queue_max = source.queue_max;
        connections.spawn(async move {
            let _slot = slot;
            let _connected = door.health.connect();
            if acknowledge {
                let (receipts, outstanding) = Receipts::new(queue_max);
                let reading = feed(read, gatherer, door, Some(receipts));
                tokio::join!(reading, acknowledge_lines(write, outstanding));
            } else {
                feed(read, gatherer, door, None).await;
            }
        });
    }
    if let Listener::Unix(_, path) = &listener {
        // Gone already is as good; left behind, the next start replaces it.
        let _ = std::fs::remove_file(path);
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// What is known about lines that are out.
enum Known {
    Settled,
    Full,
    /// The driver is gone: they may or may not be durable.
    Unknown,
}

impl Outstanding {
    async fn settled(&mut self) -> Known {
        match self.receipt.as_mut() {
            None => Known::Settled,
            Some(receipt) => match receipt.await {
                Ok(Outcome::Durable) => Known::Settled,
                Ok(Outcome::Full) => Known::Full,
                Err(_) => Known::Unknown,
            },
        }
    }

    /// Whether the answer is there and good; nothing is lost by asking.
    fn is_settled(&mut self) -> bool {
        use tokio::sync::oneshot::error::TryRecvError;
        let Some(receipt) = self.receipt.as_mut() else { return true };
        let known = match receipt.try_recv() {
            Ok(Outcome::Durable) => return true,
            Err(TryRecvError::Empty) => return false,
            Ok(outcome @ Outcome::Full) => Some(outcome),
            Err(TryRecvError::Closed) => None,
        };
        // A receipt can be taken once only: asked again, it must say the same.
        let (answer, receiver) = tokio::sync::oneshot::channel();
        if let Some(outcome) = known {
            let _ = answer.send(outcome);
        }
        self.receipt = Some(receiver);
        false
    }
}

/// Answers for the lines of one connection, in their order.
async fn acknowledge_lines(
    mut write: Box<dyn AsyncWrite + Send + Unpin>,
    mut outstanding: mpsc::Receiver<Outstanding>,
) {
    let mut acked = 0;
    let mut next = None;
    loop {
        let item = match next.take() {
            Some(item) => Some(item),
            None => outstanding.recv().await,
        };
        let Some(mut item) = item else { break };
        match item.settled().await {
            Known::Settled => acked += item.lines,
            Known::Full => {
                let text = format!("{{\"error\":\"full\",\"acked\":{acked}}}\n");
                answer(&mut write, &text).await;
                break;
            }
            Known::Unknown => break,
        }
        // Its lines count no longer against the bound.
        drop(item);
        // One commit settles many batches: one answer for all of them.
        while let Ok(mut item) = outstanding.try_recv() {
            if !item.is_settled() {
                next = Some(item);
                break;
            }
            acked += item.lines;
        }
        if !answer(&mut write, &format!("{{\"acked\":{acked}}}\n")).await {
            break;
        }
    }
    // Lets go of the peer's sending side first: it must not wait for us.
    drop(outstanding);
    let _ = timeout(ANSWER_TIMEOUT, write.shutdown()).await;
}

/// Whether the peer took it.
async fn answer(write: &mut (impl AsyncWrite + Unpin + ?Sized), text: &str) -> bool {
    matches!(timeout(ANSWER_TIMEOUT, write.write_all(text.as_bytes())).await, Ok(Ok(())))
}
