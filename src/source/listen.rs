//! A TCP or Unix socket that takes lines, and says which are durable.
//!
//! With `acknowledge` each connection gets `{"acked":N}`: the first N lines of
//! this connection are durable, or refused and durably quarantined. A sender
//! that reconnects sends again from N.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use super::text::Gatherer;
use super::{Door, SourceError, SourceHandle};
use crate::config::{Address, Source};
use crate::core::limits::LISTEN_CONNECTIONS_MAX;
use crate::core::seam::Outcome;

/// Batches of one connection that may wait for their commit.
const OUTSTANDING_MAX: usize = 16;
const READ_BUFFER_BYTES: usize = 64 * 1024;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Binds and listens until told to stop.
///
/// # Errors
/// The address cannot be bound.
pub(super) async fn spawn(
    source: &Source,
    address: &Address,
    acknowledge: bool,
    door: Door,
) -> Result<SourceHandle, SourceError> {
    let refused = |place: String| move |error| SourceError { place, error };
    let (listener, bound) = match address {
        Address::Tcp(address) => {
            let bound = TcpListener::bind(address).await;
            let listener = bound.map_err(refused(address.to_string()))?;
            let bound = listener.local_addr().map_err(refused(address.to_string()))?;
            (Listener::Tcp(listener), Some(bound))
        }
        Address::Unix(path) => {
            let listener = bind_unix(path).map_err(refused(format!("unix:{}", path.display())))?;
            (Listener::Unix(listener), None)
        }
    };
    let task = tokio::spawn(accept(source.clone(), listener, acknowledge, door));
    Ok(SourceHandle { address: bound, task })
}

/// A socket file that a killed process left behind is replaced; anything else at
/// that path is left alone.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::FileTypeExt;
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

async fn accept(source: Source, listener: Listener, acknowledge: bool, mut door: Door) {
    let room = Arc::new(Semaphore::new(LISTEN_CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // At the bound the next sender waits in the backlog of the socket.
        let permit = tokio::select! {
            permit = room.clone().acquire_owned() => permit,
            () = door.stopped() => break,
        };
        let Ok(permit) = permit else { break };
        let connection = Connection { source: source.clone(), acknowledge, door: door.clone(), permit };
        let accepted = tokio::select! {
            accepted = accept_one(&listener) => accepted,
            () = door.stopped() => break,
        };
        match accepted {
            Ok(Stream::Tcp(stream)) => {
                let (reader, writer) = stream.into_split();
                connections.spawn(connection.serve(reader, writer));
            }
            Ok(Stream::Unix(stream)) => {
                let (reader, writer) = stream.into_split();
                connections.spawn(connection.serve(reader, writer));
            }
            Err(error) => {
                tracing::warn!(source = source.name, %error, "a connection could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
}

enum Stream {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

async fn accept_one(listener: &Listener) -> io::Result<Stream> {
    match listener {
        Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
        Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
    }
}

struct Connection {
    source: Source,
    acknowledge: bool,
    door: Door,
    permit: OwnedSemaphorePermit,
}

/// A batch on its way to the disk: what it covers, and its receipt.
type Outstanding = (u64, oneshot::Receiver<Outcome>);

impl Connection {
    async fn serve(
        self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
    ) {
        let Connection { source, acknowledge, door, permit } = self;
        let (outstanding, receipts) = mpsc::channel(OUTSTANDING_MAX);
        let read = read_lines(&source, reader, door, acknowledge.then_some(outstanding));
        let answer = answer(receipts, writer);
        // Whichever side ends first for an error ends the other: a sender that
        // was told "full" must not go on.
        let mut read = std::pin::pin!(read);
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            () = &mut read => answer.await,
            () = &mut answer => if !acknowledge { read.await },
        }
        drop(permit);
    }
}

async fn read_lines(
    source: &Source,
    reader: impl AsyncRead + Unpin,
    mut door: Door,
    outstanding: Option<mpsc::Sender<Outstanding>>,
) {
    let reader = BufReader::with_capacity(READ_BUFFER_BYTES, reader);
    let mut gatherer = Gatherer::new(source, reader);
    let clock = door.clock.clone();
    loop {
        let gathered = tokio::select! {
            gathered = gatherer.next(&clock) => gathered,
            () = door.stopped() => return,
        };
        // A connection that broke has said all it will: the sender comes again.
        let Ok(gathered) = gathered else { return };
        let is_handed_in = match &outstanding {
            None => door.hand_in(gathered.batch).await,
            Some(outstanding) => match door.hand_in_for_receipt(gathered.batch).await {
                Some(receipt) => outstanding.send((gathered.lines, receipt)).await.is_ok(),
                None => false,
            },
        };
        if !is_handed_in || gathered.is_end {
            return;
        }
    }
}

/// Answers in order; several receipts that are there at once share one answer.
async fn answer(mut receipts: mpsc::Receiver<Outstanding>, mut writer: impl AsyncWrite + Unpin) {
    let mut acked = 0;
    while let Some((lines, receipt)) = receipts.recv().await {
        let reply = match receipt.await {
            Ok(Outcome::Durable) => {
                acked = lines;
                format!("{{\"acked\":{acked}}}\n")
            }
            Ok(Outcome::Full) => format!("{{\"error\":\"full\",\"acked\":{acked}}}\n"),
            // The agent ended without a word on this batch: neither do we.
            Err(_) => break,
        };
        let is_full = acked != lines;
        if writer.write_all(reply.as_bytes()).await.is_err() || is_full {
            break;
        }
    }
    // The sender may be gone; then there is nobody to say goodbye to.
    let _ = writer.shutdown().await;
}
