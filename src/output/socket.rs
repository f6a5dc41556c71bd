//! A listening socket whose clients get JSON lines.
//!
//! Each client has a short queue of its own. One that takes nothing for a while
//! when that is full is cut off: it can connect again, and knows by the gap in
//! `seq` what it missed. Nothing that clients send is looked at; one that closes its side is
//! taken to have left, and one that vanished is found out by the kernel.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::queue::Queue;
use super::{Counts, Item, Pauses, SocketAddress};
use crate::peer;

/// Clients of one socket.
const CLIENTS_MAX: usize = 32;
/// Results that wait for one client.
const CLIENT_QUEUE_MAX: usize = 512;
/// How long one whose queue is full may keep the others waiting, before it is cut
/// off. Much may come at once: that is not its fault.
const CLIENT_PATIENCE: Duration = Duration::from_millis(500);
/// Results taken from the queue at once.
const BATCH_MAX: usize = 256;
/// Pause after a failed accept, which is mostly a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

type Halves = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);
type Clients = Vec<Client>;

/// One connected client: its queue, and the way to end its task.
struct Client {
    lines: mpsc::Sender<Item>,
    task: AbortHandle,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn bind(address: &SocketAddress) -> io::Result<Self> {
        match address {
            SocketAddress::Tcp(address) => Ok(Listener::Tcp(TcpListener::bind(address).await?)),
            SocketAddress::Unix(path) => {
                clear(path).await?;
                Ok(Listener::Unix(UnixListener::bind(path)?))
            }
        }
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    async fn accept(&self) -> io::Result<Halves> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let stream = listener.accept().await?.0;
                peer::prepare(&stream)?;
                let (read, write) = stream.into_split();
                (Box::new(read), Box::new(write))
            }
            Listener::Unix(listener) => {
                let (read, write) = listener.accept().await?.0.into_split();
                (Box::new(read), Box::new(write))
            }
        })
    }
}

/// Removes a socket file that a dead process left behind.
async fn clear(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of that name"));
    }
    if UnixStream::connect(path).await.is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
    }
    std::fs::remove_file(path)
}

pub(super) async fn run(
    address: SocketAddress,
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    announce: watch::Sender<Option<SocketAddr>>,
) {
    let what = match &address {
        SocketAddress::Tcp(address) => format!("socket {address}"),
        SocketAddress::Unix(path) => format!("socket unix:{}", path.display()),
    };
    let Some(listener) = bound(&address, &what, &queue, &counts).await else { return };
    announce.send_replace(listener.local_addr());
    let mut clients: Clients = Vec::new();
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            items = queue.take(BATCH_MAX) => match items {
                Some(items) => hand_out(&items, &mut clients, &counts).await,
                None => break,
            },
            accepted = listener.accept(), if clients.len() < CLIENTS_MAX => match accepted {
                Ok(halves) => {
                    let (sender, lines) = mpsc::channel(CLIENT_QUEUE_MAX);
                    let task = tasks.spawn(serve(halves, lines));
                    clients.push(Client { lines: sender, task });
                }
                Err(error) => {
                    counts.failed(&what, &error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = tasks.join_next() => clients.retain(|client| !client.lines.is_closed()),
        }
        counts.clients.store(clients.len() as u64, Ordering::Relaxed);
    }
    // What clients still have in their queues is theirs; the caller bounds the wait.
    drop(clients);
    while tasks.join_next().await.is_some() {}
    if let SocketAddress::Unix(path) = &address {
        // A file left behind is replaced at the next start.
        let _ = std::fs::remove_file(path);
    }
}

/// Binds, as often as it takes. What comes meanwhile has nobody to go to.
async fn bound(
    address: &SocketAddress,
    what: &str,
    queue: &Queue,
    counts: &Counts,
) -> Option<Listener> {
    let mut pauses = Pauses::default();
    loop {
        match Listener::bind(address).await {
            Ok(listener) => {
                counts.recovered(what);
                return Some(listener);
            }
            Err(error) => counts.failed(what, &error),
        }
        let mut pause = std::pin::pin!(tokio::time::sleep(pauses.next()));
        loop {
            tokio::select! {
                () = &mut pause => break,
                items = queue.take(BATCH_MAX) => { items?; }
            }
        }
    }
}

async fn hand_out(items: &[Item], clients: &mut Clients, counts: &Counts) {
    for item in items {
        let mut gone = Vec::new();
        for (at, client) in clients.iter().enumerate() {
            let sent = client.lines.send_timeout(item.clone(), CLIENT_PATIENCE).await;
            if let Err(mpsc::error::SendTimeoutError::Timeout(_)) = &sent {
                counts.slow_clients.fetch_add(1, Ordering::Relaxed);
                client.task.abort();
            }
            if sent.is_err() {
                gone.push(at);
            }
        }
        gone.into_iter().rev().for_each(|at| drop(clients.remove(at)));
        if !clients.is_empty() {
            counts.wrote(1);
        }
    }
}

/// Writes lines until the client leaves or nothing more comes.
async fn serve((mut read, mut write): Halves, mut lines: mpsc::Receiver<Item>) {
    let mut ignored = [0; 256];
    loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { break };
                if write.write_all(line.line()).await.is_err() {
                    break;
                }
            }
            read = read.read(&mut ignored) => if !matches!(read, Ok(1..)) { break },
        }
    }
    // The other side may be gone already.
    let _ = write.shutdown().await;
}
