//! The systemd journal, in its own words: a datagram of fields for each line, so that
//! `journalctl UPLINK=main` finds what an uplink said. The form is that of
//! "Native Journal Protocol" (systemd.io).

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Where the journal listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";

/// A way to the journal.
#[derive(Debug)]
pub struct Journald {
    socket: UnixDatagram,
    /// Named with every datagram: the journal may be started anew.
    path: PathBuf,
}

impl Journald {
    /// The way to the journal that listens there.
    ///
    /// # Errors
    /// There is none.
    pub fn at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // A journal that hangs must not hang the agent.
        socket.set_nonblocking(true)?;
        std::fs::metadata(path)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// Hands one line over.
    ///
    /// # Errors
    /// The journal is away, is busy, or takes nothing of this size.
    pub fn send<'a>(&self, fields: impl Iterator<Item = (&'a str, String)>) -> io::Result<()> {
        let mut datagram = Vec::new();
        for (name, value) in fields {
            put(&name.to_ascii_uppercase(), &value, &mut datagram);
        }
        self.socket.send_to(&datagram, &self.path).map(drop)
    }
}

/// Appends a field; one whose name the journal does not take is left out. Names have
/// `A-Z`, `0-9` and `_`, do not begin with either of the last two, and no more than
/// 64 characters.
fn put(name: &str, value: &str, out: &mut Vec<u8>) {
    let is_known = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let begins_well = name.as_bytes().first().is_some_and(u8::is_ascii_uppercase);
    if !begins_well || name.len() > 64 || !name.bytes().all(is_known) {
        return;
    }
    out.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_datagram_of_its_fields() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert_eq!(Journald::at(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let journal = UnixDatagram::bind(&path).unwrap();
        let journald = Journald::at(&path).unwrap();
        let fields = [("MESSAGE", "down"), ("uplink", "main"), ("reason", "a\nb"), ("_PID", "1")];
        journald.send(fields.into_iter().map(|(name, value)| (name, value.to_owned()))).unwrap();
        let mut datagram = [0; 256];
        let length = journal.recv(&mut datagram).unwrap();
        let expected = b"MESSAGE=down\nUPLINK=main\nREASON\n\x03\0\0\0\0\0\0\0a\nb\n";
        assert_eq!(&datagram[..length], expected);
    }

    #[test]
    fn a_journal_that_was_started_anew_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = UnixDatagram::bind(&path).unwrap();
        let journald = Journald::at(&path).unwrap();
        let say = || journald.send([("MESSAGE", "x".to_owned())].into_iter());
        drop(first);
        assert_eq!(say().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        std::fs::remove_file(&path).unwrap();
        let _second = UnixDatagram::bind(&path).unwrap();
        assert!(say().is_ok());
    }
}
