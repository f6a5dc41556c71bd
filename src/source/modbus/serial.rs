//! A serial port: exclusive, raw, with the silence between frames that RTU wants.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{
    ControlModes, OptionalActions, QueueSelector, SpecialCodeIndex, ioctl_tiocexcl, tcflush,
    tcgetattr, tcsetattr,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::line::Wire;
use crate::config::modbus::{Parity, SerialPort};

/// Above 19200 baud the standard fixes the silence between frames.
const SILENCE_MIN: Duration = Duration::from_micros(1_750);
/// An open port.
#[derive(Debug)]
pub(super) struct Port {
    fd: AsyncFd<OwnedFd>,
}

impl Port {
    /// Opens it with these settings.
    ///
    /// # Errors
    /// It is not there, not ours, or in use.
    pub(super) fn open(settings: &SerialPort) -> io::Result<Self> {
        let fd = open_raw(&settings.path, settings)?;
        #[expect(
            deprecated,
            reason = "sound here: an OwnedFd stays the same descriptor until it is closed"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Self { fd })
    }
}

impl Wire for Port {
    fn discard(&mut self) -> io::Result<()> {
        Ok(tcflush(&self.fd, QueueSelector::IFlush)?)
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

/// The silence between two frames: three and a half characters of eleven bits (Modbus over Serial Line V1.02,
/// 2.5.1.1).
pub(super) fn silence(settings: &SerialPort) -> Duration {
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
