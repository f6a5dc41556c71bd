//! An address to listen on: had at once, or waited for.
//!
//! An interface that is unplugged, an address that DHCP has not given yet, a port
//! that another program still holds: none of these is worth more than the one source
//! that wants it. It says that it is `down` and why, and tries again by itself.

use std::io;
use std::path::Path;

use tokio::net::{TcpListener, UnixListener};

use super::Door;
use super::listen::{self, Listener};
use crate::config::{Address, Source};
use crate::core::backoff;
use crate::core::time::{Span, Uptime};

/// Pauses between two attempts grow from the first to the second. An attempt costs
/// next to nothing, and whoever plugs a cable in should not have to wait.
const PAUSES: (Span, Span) = (Span::from_millis(500), Span::from_secs(10));

/// Binds an address; a socket file that nobody listens on is replaced. Must be called
/// within a tokio runtime.
///
/// # Errors
/// The system's, with a text that names the address.
pub(super) fn bind(address: &Address) -> io::Result<Listener> {
    let named = |error: io::Error| {
        let place = match address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => format!("unix:{}", path.display()),
        };
        io::Error::new(error.kind(), format!("cannot listen on {place}: {error}"))
    };
    let bound = match address {
        Address::Tcp(address) => std::net::TcpListener::bind(address)
            .and_then(|listener| {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            })
            .map(Listener::Tcp),
        Address::Unix(path) => clear(path)
            .and_then(|()| UnixListener::bind(path))
            .map(|listener| Listener::Unix(listener, path.clone())),
    };
    bound.map_err(named)
}

/// Removes a socket file that a dead process left behind.
fn clear(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        let what = "the path exists and is not a socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
        // Only this says that nobody does: a full queue, or a socket that we may not
        // open, is somebody's.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Listens with what was bound, or else as soon as the address is to be had.
pub(super) async fn listen(
    bound: Option<Listener>,
    address: Address,
    source: Source,
    acknowledge: bool,
    mut door: Door,
) {
    let listener = match bound {
        Some(listener) => listener,
        None => match until_bound(&address, &mut door).await {
            Some(listener) => listener,
            None => return,
        },
    };
    listen::run(listener, source, acknowledge, door).await;
}

/// Binds, as often as it takes; `None` when the source is stopped before.
async fn until_bound(address: &Address, door: &mut Door) -> Option<Listener> {
    let mut failures = 0;
    loop {
        let reason = match bind(address) {
            Ok(listener) => return Some(listener),
            Err(error) => error.to_string(),
        };
        // Nobody else is in the way, so that the pauses need not be spread.
        let pause = backoff::delay(failures, PAUSES.0, PAUSES.1, u64::MAX);
        failures = failures.saturating_add(1);
        let now = (door.clock)().uptime;
        let retry_at = Uptime::from_ns(now.ns().saturating_add(pause.ns().unsigned_abs()));
        door.health.note_error(reason.clone());
        door.health.down(reason, Some(retry_at));
        tokio::select! {
            biased;
            () = door.stopped() => return None,
            () = tokio::time::sleep(pause.to_std()) => {}
        }
    }
}
