//! The listeners of the HTTP API: the configured address and the control socket. Requests
//! that change something are only taken at the control socket.
//!
//! A listener that cannot be started is logged and does not keep the agent from its work.

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

pub use crate::config::CONTROL_SOCKET as SOCKET_NAME;

/// Longest body, in bytes, except of readings: statements on the clock, releases.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The running listeners.
#[derive(Debug)]
pub struct Listening {
    /// The bound address, if it could be had.
    pub address: Option<SocketAddr>,
    socket: Option<PathBuf>,
    tasks: Vec<JoinHandle<()>>,
}

/// The routes of the API.
#[derive(Clone)]
pub struct Routes {
    /// Answered by the driver.
    pub api: Api,
    /// Answered by the store.
    pub desk: Desk,
    /// Those that take readings.
    pub doors: Doors,
}

/// Starts the listeners that can be started. At the address only requests with the `token`
/// are answered; the control socket belongs to the owner of the data directory and needs
/// none.
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
                    .merge(ingest::router(doors.clone()))
                    .fallback(api::nothing_here);
                let has_token = token.is_some();
                let app = match token {
                    Some(token) => token.guard(app, Arc::clone(&api.metrics)),
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
                .merge(ingest::router(doors))
                .fallback(api::nothing_here);
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

/// Binds the control socket. This process holds the lock on the data directory, so a
/// socket that is there already is not in use. It is bound under another name first and
/// renamed once its mode is set: it must not be open to others for even a moment.
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
