//! Connections that cannot wear the agent out, whoever opens them: their number is
//! bounded, and so are the size of a head and the time it may take; a client that does
//! not read what it asked for is disconnected. The time for a head is also that for the next one on
//! a connection that stays open, so that an idle client gives its place back.
//!
//! What comes when all places are taken waits in the kernel's queue. The control
//! socket has places of its own: its owner gets through whatever happens at the
//! address.

use std::convert::Infallible;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

use super::stream::CLIENTS_MAX;
use crate::core::limits::HTTP_CONNECTIONS_MAX;

/// For the head of a request, from the first moment at which it could have begun.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// For a client to take at least something of what waits for it.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of a head; browsers send some hundreds.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Lines of a head.
const HEADERS_MAX: usize = 64;

// Who follows the stream stays; the others must find a place beside them.
const _: () = assert!(3 * CLIENTS_MAX <= HTTP_CONNECTIONS_MAX);

/// Answers requests with `app` for ever. Dropped, it takes its connections with it.
pub async fn serve<L: Listener>(mut listener: L, app: Router) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= HTTP_CONNECTIONS_MAX {
            connections.join_next().await;
        }
        tokio::select! {
            (io, _) = listener.accept() => {
                connections.spawn(converse(io, app.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: I, app: Router) {
    let io = TokioIo::new(Impatient { io, stalled: None });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(io, TowerToHyperService::new(app));
    if let Err(error) = conversation.await {
        // Clients go away when they like.
        tracing::trace!(%error, "a connection broke");
    }
}

/// A connection whose other side must take what is written to it.
struct Impatient<I> {
    io: I,
    /// Runs while a write is stuck.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<I> Impatient<I> {
    /// `poll`, unless nothing has moved for too long.
    fn unless_stuck<T>(
        &mut self,
        poll: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(READ_WITHIN)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Impatient<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Impatient<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.unless_stuck(poll, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write_vectored(cx, bytes);
        self.unless_stuck(poll, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.io).poll_flush(cx);
        self.unless_stuck(poll, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.io).poll_shutdown(cx);
        self.unless_stuck(poll, cx)
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
