//! A serial line, by way of a pseudo-terminal.

use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// The device's end of a line, the path of ours, and our end held open: while
/// nobody has it open, the device could not even wait.
pub(crate) fn line() -> (OwnedFd, String, OwnedFd) {
    let device = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&device).unwrap();
    unlockpt(&device).unwrap();
    let mut modes = tcgetattr(&device).unwrap();
    modes.make_raw();
    tcsetattr(&device, OptionalActions::Now, &modes).unwrap();
    let path = ptsname(&device, Vec::new()).unwrap().into_string().unwrap();
    let held = ioctl_tiocgptpeer(&device, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    (device, path, held)
}
