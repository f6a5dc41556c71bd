//! Wakes when somebody sets the wall clock.
//!
//! A timer on `CLOCK_REALTIME` that is never due, armed to be cancelled when the
//! clock is set: the kernel then reports `ECANCELED`. It does so after
//! `settimeofday`, an `ADJ_SETOFFSET` of any size, a leap second and a resume
//! from suspend, and not while a daemon slews. It is a hint to look at once; the
//! look decides what happened. Without it a step is seen a second later.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Never due: 2200-01-01.
const NEVER: Timespec = Timespec { tv_sec: 7_258_118_400, tv_nsec: 0 };

/// Waits for changes of the wall clock.
#[derive(Debug)]
pub struct StepWatch {
    timer: AsyncFd<OwnedFd>,
}

impl StepWatch {
    /// Watches from now on. Needs a tokio runtime.
    ///
    /// # Errors
    /// The system gives no timer (a sandbox, no file descriptors left).
    pub fn new() -> io::Result<Self> {
        Self::due(NEVER)
    }

    #[expect(unsafe_code, reason = "tokio's only door for a file descriptor of one's own")]
    fn due(time: Timespec) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        arm(&timer, time)?;
        // SAFETY: an `OwnedFd` is open for as long as it lives and always the same
        // descriptor; the `AsyncFd` owns it and nobody takes it out.
        let timer = unsafe { AsyncFd::register(timer)? };
        Ok(Self { timer })
    }

    /// Waits until the wall clock was set. Several changes that nobody waited
    /// for are reported once. May be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// The timer fails; there is no point in waiting again.
    pub async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut guard = self.timer.readable().await?;
            let mut expirations = [0; 8];
            match guard.try_io(|timer| Ok(rustix::io::read(timer, &mut expirations)?)) {
                // Not yet.
                Err(_would_block) => continue,
                Ok(Err(error)) if error.raw_os_error() != Some(libc::ECANCELED) => {
                    return Err(error);
                }
                // Set, or set so far ahead that the timer is due.
                Ok(_) => {}
            }
            arm(&self.timer, NEVER)?;
            return Ok(());
        }
    }
}

fn arm(timer: impl std::os::fd::AsFd, due: Timespec) -> io::Result<()> {
    let never_again = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Itimerspec { it_interval: never_again, it_value: due };
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    match timerfd_settime(timer, flags, &times) {
        // Armed all the same: the clock was set while it was (timerfd_create(2)).
        Ok(_) | Err(Errno::CANCELED) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_pending(watch: &mut StepWatch) -> bool {
        let changed = pin!(watch.changed());
        matches!(changed.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
    }

    #[tokio::test]
    async fn nothing_is_reported_while_nobody_sets_the_clock() {
        let mut watch = StepWatch::new().unwrap();
        assert!(is_pending(&mut watch));
    }

    /// No test may set the clock; a timer that is due goes the same way.
    #[tokio::test]
    async fn after_a_report_it_watches_again() {
        let mut watch = StepWatch::due(Timespec { tv_sec: 1, tv_nsec: 0 }).unwrap();
        watch.changed().await.unwrap();
        assert!(is_pending(&mut watch));
    }
}
