//! The cable between gateway and broker: a TCP relay on the loopback interface
//! that can be cut and mended. What is on its way when it is cut is lost, as on
//! a real one; a call through a cut cable is hung up at once.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A cable; taken away when dropped.
#[derive(Debug)]
pub(super) struct Cable {
    /// The near end.
    pub(super) address: SocketAddr,
    is_cut: watch::Sender<bool>,
    connections: Arc<AtomicU64>,
    relay: JoinHandle<()>,
}

impl Cable {
    /// A whole cable that leads to `far_end`.
    ///
    /// # Errors
    /// No port is free.
    pub(super) async fn lay(far_end: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (is_cut, cut_seen) = watch::channel(false);
        let connections = Arc::new(AtomicU64::new(0));
        let relay = tokio::spawn(relay(listener, far_end, cut_seen, Arc::clone(&connections)));
        Ok(Self { address, is_cut, connections, relay })
    }

    /// Every connection breaks, and no new one comes about.
    pub(super) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// New connections come about again.
    pub(super) fn mend(&self) {
        self.is_cut.send_replace(false);
    }

    /// Connections that came about so far.
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // Connections see the sender go, and end.
        self.relay.abort();
    }
}

async fn relay(
    listener: TcpListener,
    far_end: SocketAddr,
    is_cut: watch::Receiver<bool>,
    connections: Arc<AtomicU64>,
) {
    loop {
        // An error is one connection's (or a moment's shortage of descriptors).
        let Ok((near, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        if *is_cut.borrow() {
            continue;
        }
        tokio::spawn(carry(near, far_end, is_cut.clone(), Arc::clone(&connections)));
    }
}

/// Carries bytes both ways until an end hangs up or the cable is cut.
async fn carry(
    mut near: TcpStream,
    far_end: SocketAddr,
    mut is_cut: watch::Receiver<bool>,
    connections: Arc<AtomicU64>,
) {
    let Ok(mut far) = TcpStream::connect(far_end).await else { return };
    let _ = near.set_nodelay(true);
    let _ = far.set_nodelay(true);
    connections.fetch_add(1, Ordering::Relaxed);
    tokio::select! {
        biased;
        _ = is_cut.wait_for(|is_cut| *is_cut) => {}
        _ = copy_bidirectional(&mut near, &mut far) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Sends back whatever comes.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        address
    }

    /// What comes back for one byte; `None` when the connection breaks instead.
    async fn answer(stream: &mut TcpStream, byte: u8) -> Option<u8> {
        stream.write_all(&[byte]).await.ok()?;
        stream.read_u8().await.ok()
    }

    #[tokio::test]
    async fn a_cut_breaks_what_is_connected_and_what_calls_until_it_is_mended() {
        let cable = Cable::lay(echo().await).await.unwrap();
        let mut before = TcpStream::connect(cable.address).await.unwrap();
        assert_eq!(answer(&mut before, 7).await, Some(7));

        cable.cut();
        assert!(before.read_u8().await.is_err());
        let mut during = TcpStream::connect(cable.address).await.unwrap();
        assert!(during.read_u8().await.is_err());

        cable.mend();
        let mut after = TcpStream::connect(cable.address).await.unwrap();
        assert_eq!(answer(&mut after, 9).await, Some(9));
        assert_eq!(cable.connections(), 2);
    }
}
