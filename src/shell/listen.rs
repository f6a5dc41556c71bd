//! Where the HTTP API answers: the configured address and the control socket,
//! which alone takes what changes something.
//! Neither is worth stopping the agent for: what cannot be had is said, and the
//! agent does its work.

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::serve::Listener;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use super::desk::{self, Desk};
use super::ingest::{self, Doors};
use crate::http::api::{self, Api};
use crate::http::page;
use crate::http::serve::serve;
use crate::http::token::Token;
use crate::http::visitor;

/// The name of the control socket in the data directory.
pub const SOCKET_NAME: &str = "control.sock";

/// Of a body that is no lines of readings: what is vouched, what is released.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The running listeners.
#[derive(Debug)]
pub struct Listening {
    /// The bound address, if it could be had.
    pub address: Option<SocketAddr>,
    socket: Option<PathBuf>,
    tasks: Vec<JoinHandle<()>>,
}

/// What is asked for over HTTP.
#[derive(Clone)]
pub struct Routes {
    /// What the driver answers.
    pub api: Api,
    /// What the store answers.
    pub desk: Desk,
    /// What takes readings.
    pub doors: Doors,
}

/// Starts what can be started. Only requests that bear the `token` are answered
/// at the address; the control socket is the owner's and needs none.
pub async fn start(
    address: Option<SocketAddr>,
    token: Option<Token>,
    data_dir: &Path,
    Routes { api, desk, doors }: Routes,
) -> Listening {
    let mut listening = Listening { address: None, socket: None, tasks: Vec::new() };
    if let Some(wanted) = address {
        match TcpListener::bind(wanted).await {
            Ok(listener) => {
                listening.address = listener.local_addr().ok();
                let app = api::router(api.clone())
                    .merge(desk::router(desk.clone()))
                    .merge(ingest::router(doors.clone()));
                let has_token = token.is_some();
                let app = match token {
                    Some(token) => token.guard(app),
                    None => app,
                };
                let app = visitor::keep_out(app, has_token);
                listening.spawn(listener, app);
            }
            Err(error) => tracing::error!(address = %wanted, %error, "http.listen cannot be bound"),
        }
    }
    let path = data_dir.join(SOCKET_NAME);
    match bind_socket(&path) {
        Ok(listener) => {
            let app = api::control_router(api)
                .merge(desk::control_router(desk))
                .merge(ingest::router(doors));
            listening.spawn(listener, app);
            listening.socket = Some(path);
        }
        Err(error) => {
            let path = path.display();
            tracing::error!(%path, %error, "the control socket cannot be bound");
        }
    }
    listening
}

impl Listening {
    fn spawn<L: Listener>(&mut self, listener: L, app: Router) {
        // The bodies of lines have a limit of their own.
        let app = page::protect(app.layer(DefaultBodyLimit::max(BODY_BYTES_MAX)));
        self.tasks.push(tokio::spawn(async move {
            serve(listener, app).await;
        }));
    }

    /// Ends the listeners and takes the socket away.
    pub fn stop(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
        if let Some(path) = self.socket.take() {
            // A socket left behind is replaced at the next start.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The lock on the data directory is ours, so that a socket found here belongs
/// to nobody any more. Bound under another name first: it must not be open to
/// others for even a moment.
fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    let fresh = path.with_extension("new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    std::fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
    std::fs::rename(&fresh, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_is_the_owners_alone_and_replaces_a_stale_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SOCKET_NAME);
        std::fs::write(&path, "stale").unwrap();
        let _listener = bind_socket(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        tokio::net::UnixStream::connect(&path).await.unwrap();
    }
}
