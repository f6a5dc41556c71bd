//! The service manager: readiness, status line, watchdog. Without
//! `NOTIFY_SOCKET` every call here does nothing.

use std::path::PathBuf;
use std::time::Duration;

use sd_notify::NotifyState;

/// The agent is ready: systemd starts what waits for it.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The agent has begun to read its configuration again; [`ready`] ends that.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(at) => tell(&[NotifyState::Reloading, at]),
        Err(error) => tracing::debug!(%error, "the monotonic clock cannot be read"),
    }
}

/// The agent has begun to stop.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// One line for `systemctl status`.
pub fn status(line: &str) {
    tell(&[NotifyState::Status(line)]);
}

/// The agent lives.
pub fn feed_watchdog() {
    tell(&[NotifyState::Watchdog]);
}

/// Within which time systemd wants to hear that the agent lives; `None` when it
/// does not ask.
pub fn watchdog_timeout() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|timeout| !timeout.is_zero())
}

/// Whether stderr goes straight to the systemd journal, which has its own
/// time stamps. systemd.exec(5): `JOURNAL_STREAM` must name this very file, for
/// children inherit the variable and have a stderr of their own.
pub fn logs_to_journal() -> bool {
    #[expect(clippy::disallowed_methods, reason = "systemd announces its journal this way only")]
    let announced = std::env::var("JOURNAL_STREAM");
    let Ok(stderr) = rustix::fs::fstat(std::io::stderr()) else { return false };
    announced.is_ok_and(|stream| names(&stream, stderr.st_dev, stderr.st_ino))
}

/// Whether `DEVICE:INODE`, in decimal, is this file.
fn names(stream: &str, device: u64, inode: u64) -> bool {
    let parts = stream.split_once(':');
    let parts = parts.map(|(device, inode)| (device.parse(), inode.parse()));
    parts == Some((Ok(device), Ok(inode)))
}

/// The folder under `/run` that systemd made for this service
/// (`RuntimeDirectory=`): the first, where there are several.
pub fn runtime_directory() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "systemd names its folders this way only")]
    let folders = std::env::var_os("RUNTIME_DIRECTORY")?;
    std::env::split_paths(&folders).next().filter(|folder| folder.is_absolute())
}

/// The folder of the credentials of this service (`LoadCredential=`), each a file of
/// its name.
pub fn credentials_directory() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "systemd names its folders this way only")]
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY")?;
    Some(PathBuf::from(folder)).filter(|folder| folder.is_absolute())
}

/// A lost message is no reason to stop: the next one follows soon.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "systemd could not be told");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_known_by_the_very_file() {
        assert!(names("8:1234", 8, 1234));
        for other in ["", "8", "8:", "8:1235", "9:1234", "8:1234:1", "a:b"] {
            assert!(!names(other, 8, 1234), "{other}");
        }
    }
}
