//! What only one part of a gateway may have: an address to listen on, a file to write,
//! standard input, a name at a broker.
//!
//! Every section claims its own while it is read, also one that has other mistakes. In
//! the end each claim is held against all that came before it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Component, Path, PathBuf};

use super::file::Wrong;
use super::{Address, MqttUrl};
use crate::core::window::glob;

/// What one part wants for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// To listen on TCP.
    Listen(SocketAddr),
    /// To write a file, or to make a socket there.
    Path(PathBuf),
    /// To follow the files of a folder whose names match; others may follow them too,
    /// but nobody may write them.
    Follow { folder: PathBuf, pattern: String },
    /// To read standard input.
    Stdin,
    /// To be the client of this name at a broker: two throw each other out, for ever.
    Session { host: String, port: u16, client_id: String },
}

impl Claim {
    pub(super) fn listen(address: &Address) -> Self {
        match address {
            Address::Tcp(address) => Self::Listen(*address),
            Address::Unix(path) => Self::path(path),
        }
    }

    pub(super) fn path(path: &Path) -> Self {
        Self::Path(placed(path))
    }

    pub(super) fn follow(path: &Path) -> Self {
        let path = placed(path);
        let pattern = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self::Follow { folder: path.parent().unwrap_or(&path).to_owned(), pattern }
    }

    pub(super) fn session(url: &MqttUrl, client_id: &str) -> Self {
        let client_id = client_id.to_owned();
        Self::Session { host: url.host.to_ascii_lowercase(), port: url.port, client_id }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(address) => address.fmt(f),
            Self::Path(path) => path.display().fmt(f),
            Self::Follow { folder, pattern } => folder.join(pattern).display().fmt(f),
            Self::Stdin => f.write_str("standard input"),
            Self::Session { client_id, .. } => write!(f, "the client id {client_id:?}"),
        }
    }
}

/// A claim, and who makes it.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) claim: Claim,
    /// The key, with its section.
    pub(super) key: String,
    pub(super) line: usize,
    /// Where it is, for others.
    pub(super) place: String,
    /// Whether it is written as it is, rather than a default or what follows of the key.
    pub(super) is_written: bool,
}

/// Every claim that another one is in the way of: its key and line, and what is wrong.
/// Of two it is the one that is easier to change, else the later one.
pub(super) fn contradictions(mut claims: Vec<Claimed>) -> Vec<(usize, String, Wrong)> {
    claims.sort_by_key(|one| (one.is_written, one.line));
    let mut found = Vec::new();
    for (at, one) in claims.iter().enumerate() {
        let wrong = claims.iter().take(at).find_map(|other| wrong(one, other));
        found.extend(wrong.map(|wrong| (one.line, one.key.clone(), wrong)));
    }
    found
}

/// What is wrong with a claim beside another one.
fn wrong(one: &Claimed, other: &Claimed) -> Option<Wrong> {
    let place = &other.place;
    match (&one.claim, &other.claim) {
        (Claim::Listen(new), Claim::Listen(old)) if overlap(*new, *old) => {
            let what = format!("{new} is taken: {place} is {old}");
            Some(Wrong::new(what, "give each its own"))
        }
        (Claim::Stdin, Claim::Stdin) => {
            let what = format!("standard input is taken: {place} is \"stdin\" too");
            Some(Wrong::new(what, "leave one: its lines would be torn between the two"))
        }
        (Claim::Path(file), Claim::Follow { .. }) if follows(&other.claim, file) => {
            let what = format!("{} is read by this gateway ({place}), round and round", one.claim);
            Some(Wrong::new(what, "write to another folder, or read by another pattern"))
        }
        (Claim::Follow { .. }, Claim::Path(file)) if follows(&one.claim, file) => {
            let what = format!("takes in what this gateway writes ({place}), round and round");
            Some(Wrong::new(what, "write to another folder, or read by another pattern"))
        }
        (new @ (Claim::Path(_) | Claim::Session { .. }), old) if new == old => {
            let here = if matches!(new, Claim::Path(_)) { "" } else { " at this broker" };
            let what = format!("{new} is taken{here}: {place} has it");
            Some(Wrong::new(what, "give each its own"))
        }
        _ => None,
    }
}

/// Whether the system would refuse one of two addresses. All addresses of a machine are
/// taken by the unspecified one of their kind; IPv6's takes IPv4 along, as Linux has it.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    let takes_in =
        |all: IpAddr, ip: IpAddr| all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4());
    // Of port 0 the system gives each its own.
    one.port() == other.port() && one.port() > 0 && (a == b || takes_in(a, b) || takes_in(b, a))
}

fn follows(claim: &Claim, file: &Path) -> bool {
    let Claim::Follow { folder, pattern } = claim else { return false };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.parent() == Some(folder) && glob::matches(pattern, &name)
}

/// The path in one form: absolute, without `.` and `..`.
fn placed(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut placed = PathBuf::new();
    for part in absolute.components() {
        if part == Component::ParentDir {
            placed.pop();
        } else {
            placed.push(part);
        }
    }
    placed
}

#[cfg(test)]
#[path = "agree_tests.rs"]
mod tests;
