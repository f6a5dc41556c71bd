//! A serial port: exclusive, raw, with the silence between frames that RTU wants.
//!
//! Several sources may use one port. They share it here, and take turns: each
//! exchange has the line for itself.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{
    ControlModes, OptionalActions, QueueSelector, SpecialCodeIndex, ioctl_tiocexcl, tcflush,
    tcgetattr, tcsetattr,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until, timeout};

use crate::config::modbus::{Parity, SerialPort};

/// Above 19200 baud the standard fixes the silence between frames.
const SILENCE_MIN: Duration = Duration::from_micros(1_750);
/// After a fault, the line counts as quiet when nothing has come for this long.
const QUIET: Duration = Duration::from_millis(20);
/// Longest wait for a quiet line; then it is used all the same.
const QUIET_WITHIN: Duration = Duration::from_millis(500);

/// A port that is open, or will be when it is next needed.
#[derive(Debug)]
pub(super) struct SharedPort {
    settings: SerialPort,
    /// Fair: whoever waits longest is next.
    port: tokio::sync::Mutex<Option<Port>>,
}

static PORTS: Mutex<BTreeMap<PathBuf, Weak<SharedPort>>> = Mutex::new(BTreeMap::new());

/// The port of that path, the same one for all who use it at the same time.
pub(super) fn shared(settings: &SerialPort) -> Arc<SharedPort> {
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    ports.retain(|_, port| port.strong_count() > 0);
    if let Some(port) = ports.get(&settings.path).and_then(Weak::upgrade) {
        return port;
    }
    let port = Arc::new(SharedPort { settings: settings.clone(), port: Default::default() });
    ports.insert(settings.path.clone(), Arc::downgrade(&port));
    port
}

impl SharedPort {
    /// Waits for the turn; opens the port where it is not.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) async fn turn(&self) -> io::Result<Turn<'_>> {
        let mut place = self.port.lock().await;
        if place.is_none() {
            *place = Some(Port::open(&self.settings)?);
        }
        Ok(Turn(place))
    }
}

/// The port, for one exchange.
pub(super) struct Turn<'a>(tokio::sync::MutexGuard<'a, Option<Port>>);

impl Turn<'_> {
    /// The port, once the line has been silent for long enough; what came before
    /// is thrown away: it answers nothing that is asked now.
    ///
    /// # Errors
    /// The port is gone.
    pub(super) async fn fresh(&mut self) -> io::Result<&mut Port> {
        let port = self.0.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        sleep_until(port.silent_from).await;
        tcflush(&port.fd, QueueSelector::IFlush)?;
        Ok(port)
    }

    /// Ends an exchange that went well.
    pub(super) fn end(&mut self) {
        if let Some(port) = self.0.as_mut() {
            port.silent_from = Instant::now() + port.silence;
        }
    }

    /// Ends one that did not: whoever still speaks may finish first.
    pub(super) async fn settle(&mut self) {
        let Some(port) = self.0.as_mut() else { return };
        let until = Instant::now() + QUIET_WITHIN;
        let mut bytes = [0; 256];
        while Instant::now() < until
            && matches!(timeout(QUIET, port.read(&mut bytes)).await, Ok(Ok(1..)))
        {}
        port.silent_from = Instant::now() + port.silence;
    }

    /// Closes the port: the next turn opens it again.
    pub(super) fn close(mut self) {
        *self.0 = None;
    }
}

/// An open port.
#[derive(Debug)]
pub(super) struct Port {
    fd: AsyncFd<OwnedFd>,
    silence: Duration,
    silent_from: Instant,
}

impl Port {
    fn open(settings: &SerialPort) -> io::Result<Self> {
        let fd = open_raw(&settings.path, settings)?;
        let silence = silence(settings);
        #[expect(
            deprecated,
            reason = "sound here: an OwnedFd stays the same descriptor until it is closed"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Self { fd, silence, silent_from: Instant::now() + silence })
    }
}

fn open_raw(path: &Path, settings: &SerialPort) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    let mut modes = tcgetattr(&fd)?;
    // Two programs on one line would hear each other's answers.
    ioctl_tiocexcl(&fd)?;
    modes.make_raw();
    modes.control_modes.remove(
        ControlModes::PARENB | ControlModes::PARODD | ControlModes::CSTOPB | ControlModes::CRTSCTS,
    );
    modes.control_modes.insert(ControlModes::CLOCAL | ControlModes::CREAD);
    match settings.parity {
        Parity::None => {}
        Parity::Even => modes.control_modes.insert(ControlModes::PARENB),
        Parity::Odd => modes.control_modes.insert(ControlModes::PARENB | ControlModes::PARODD),
    }
    if settings.stop_bits == 2 {
        modes.control_modes.insert(ControlModes::CSTOPB);
    }
    // With nothing there, a read says so; no bytes then mean that the line is gone.
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    modes.set_speed(settings.baud)?;
    tcsetattr(&fd, OptionalActions::Now, &modes)?;
    Ok(fd)
}

/// Three and a half characters of eleven bits (Modbus over Serial Line V1.02,
/// 2.5.1.1).
fn silence(settings: &SerialPort) -> Duration {
    if settings.baud > 19_200 {
        return SILENCE_MIN;
    }
    Duration::from_secs_f64(3.5 * 11.0 / f64::from(settings.baud))
}

impl AsyncRead for Port {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            let space = buf.initialize_unfilled();
            match guard.try_io(|fd| Ok(rustix::io::read(fd, &mut *space)?)) {
                Ok(Ok(count)) => {
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Port {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.fd.poll_write_ready(cx))?;
            match guard.try_io(|fd| Ok(rustix::io::write(fd, bytes)?)) {
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silence_between_frames_is_that_of_the_standard() {
        let at = |baud| {
            let path = "/dev/ttyS0".into();
            silence(&SerialPort { path, baud, parity: Parity::Even, stop_bits: 1 }).as_micros()
        };
        assert_eq!([at(9_600), at(19_200), at(38_400)], [4_010, 2_005, 1_750]);
    }
}
