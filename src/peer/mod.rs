//! The other side of a TCP connection that this gateway accepted.

use std::io;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// How long a peer may be silent before the kernel asks whether it is there.
const IDLE: Duration = Duration::from_secs(60);
/// How long it waits for an answer before it asks again,
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// and how often it asks.
const PROBES: u32 = 3;

/// Sets an accepted connection up: small answers leave at once, and a peer that
/// vanished without a word (its plug pulled, its cable cut) is noticed within about
/// 90 s, whether it is waited for or written to. A peer that is only silent answers
/// the kernel and may be silent for ever.
///
/// # Errors
/// The kernel refuses; mostly the connection has ended already.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    // While bytes are out unacknowledged the kernel does not probe, it sends them
    // again, by default for a quarter of an hour.
    let patience = IDLE + PROBE_INTERVAL * PROBES;
    sockopt::set_tcp_user_timeout(stream, patience.as_millis() as u32)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_vanished_peer_is_asked_for_and_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        assert!(!sockopt::socket_keepalive(&accepted).unwrap());
        prepare(&accepted).unwrap();
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap(), Duration::from_secs(60));
        assert_eq!(sockopt::tcp_keepintvl(&accepted).unwrap(), Duration::from_secs(10));
        assert_eq!(sockopt::tcp_keepcnt(&accepted).unwrap(), 3);
        assert_eq!(sockopt::tcp_user_timeout(&accepted).unwrap(), 90_000);
    }
}
