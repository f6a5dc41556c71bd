//! Lines over TCP and Unix sockets, acknowledged after the commit.
//!
//! Each connection is a task of its own with two sides: one reads lines and
//! hands them to the driver, one waits for the receipts in the same order and
//! answers `{"acked":N}`. The bounded queue between them is what lets a sender
//! stream without waiting for each answer, and what stops a sender that does not
//! read its answers; other connections notice neither.
//!
//! A sender may be silent for ever, but not be gone: the kernel asks after it, for
//! its place may be needed. HTTP is turned away before anything of it is read.

use std::io::Cursor;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Door;
use super::feed::{Gatherer, Outstanding, Receipts, feed};
use super::foreign::{self, Beginning};
use crate::config::Source;
use crate::core::limits::LISTEN_CONNECTIONS_MAX;
use crate::core::seam::Outcome;
use crate::peer;

/// How long a peer may take to take an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept, which is mostly a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// How long a peer that is turned away may take to hear why,
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);
/// and what it may still send meanwhile, in bytes.
const FAREWELL_BYTES_MAX: u64 = 1024 * 1024;

const NO_PLACE: &str = "{\"error\":\"too_many_connections\",\"acked\":0}\n";
const NO_HTTP: &str = "{\"error\":\"this is HTTP: use a source of type http\",\"acked\":0}\n";

/// A bound socket.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;
type Halves = (Reader, Writer);

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
                peer::prepare(&stream)?;
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
    let places = Arc::new(Semaphore::new(LISTEN_CONNECTIONS_MAX));
    let farewells = Arc::new(Semaphore::new(LISTEN_CONNECTIONS_MAX));
    let mut is_refusing = false;
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = door.stopped() => break,
            Some(_) = connections.join_next() => {
                if is_refusing && places.available_permits() > 0 {
                    is_refusing = false;
                    door.health.up();
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let halves = match accepted {
            Ok(halves) => halves,
            Err(error) => {
                door.health.note_error(format!("accept: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            let (source, door) = (source.clone(), door.clone());
            connections.spawn(async move {
                let _place = place;
                converse(halves, &source, acknowledge, door).await;
            });
            continue;
        }
        is_refusing = true;
        door.health.note_error(format!("more than {LISTEN_CONNECTIONS_MAX} connections"));
        let told = format!(
            "all {LISTEN_CONNECTIONS_MAX} connections are taken: more are refused until one ends"
        );
        door.health.degraded(told, None);
        // In a task of its own: this peer too may be slow. One of too many of those
        // is closed without a word.
        if let Ok(farewell) = Arc::clone(&farewells).try_acquire_owned() {
            let door = door.clone();
            connections.spawn(async move {
                let _farewell = farewell;
                turn_away(halves, NO_PLACE, door).await;
            });
        }
    }
    if let Listener::Unix(_, path) = &listener {
        // Gone already is as good; left behind, the next start replaces it.
        let _ = std::fs::remove_file(path);
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Takes the lines of one connection, to its end.
async fn converse((mut read, write): Halves, source: &Source, acknowledge: bool, mut door: Door) {
    let _connected = door.health.connect();
    let beginning = tokio::select! {
        biased;
        () = door.stopped() => return,
        beginning = foreign::beginning(&mut read) => beginning,
    };
    let first = match beginning {
        Ok(Beginning::Lines(first)) => first,
        Ok(Beginning::Http) => {
            let told = "a peer spoke HTTP and was turned away: that needs a source of type http";
            door.health.note_error(told.to_owned());
            let length = NO_HTTP.len();
            let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n";
            let head = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n");
            return turn_away((read, write), &(head + NO_HTTP), door).await;
        }
        Err(error) => return door.health.note_error(format!("read: {error}")),
    };
    let read = Cursor::new(first).chain(read);
    let gatherer = Gatherer::new(source);
    if acknowledge {
        let (receipts, outstanding) = Receipts::new(source.queue_max);
        let reading = feed(read, gatherer, door, Some(receipts));
        tokio::join!(reading, acknowledge_lines(write, outstanding));
    } else {
        feed(read, gatherer, door, None).await;
    }
}

/// Tells a peer why nothing is taken from it.
async fn turn_away((read, mut write): Halves, text: &str, mut door: Door) {
    let farewell = async {
        write.write_all(text.as_bytes()).await?;
        write.shutdown().await?;
        // Closed with bytes unread, a connection is reset, and that may overtake the
        // answer.
        tokio::io::copy(&mut read.take(FAREWELL_BYTES_MAX), &mut tokio::io::sink()).await
    };
    // It may be gone already, or not want to know.
    tokio::select! {
        _ = timeout(FAREWELL_WITHIN, farewell) => {}
        () = door.stopped() => {}
    }
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
async fn acknowledge_lines(mut write: Writer, mut outstanding: mpsc::Receiver<Outstanding>) {
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
async fn answer(write: &mut Writer, text: &str) -> bool {
    matches!(timeout(ANSWER_TIMEOUT, write.write_all(text.as_bytes())).await, Ok(Ok(())))
}
