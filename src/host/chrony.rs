//! A client of chronyd's command protocol (candm version 6): asks for the
//! `TRACKING` report that `chronyc tracking` prints.
//!
//! UDP on the loopback interface needs no privilege, where chronyd's UNIX socket
//! does. All fields are big-endian. A request is padded with zeros to the length
//! of its reply, lest a forged one amplify anything: chronyd answers a shorter
//! one with status 19, and one below its header with silence.
//!
//! ```text
//! request   0 version=6  1 type=1  4 u16 command=33  8 u32 sequence  … zeros to 104
//! reply     0 version=6  1 type=2  4 u16 command  6 u16 reply=5  8 u16 status
//!          16 u32 sequence  28 u32 ref_id  48 u16 family (0 = reference clock)
//!          52 u16 stratum  54 u16 leap (3 = not synchronised)
//!          56 u32 seconds, high  60 u32 seconds, low  64 u32 nanoseconds
//!          68 correction  80 frequency  88 skew  92 root delay
//!          96 root dispersion  100 update interval
//! ```
//!
//! The command `tracking` is one of those that chrony promises to keep
//! (chrony.conf(5), `opencommands`).

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;

use crate::core::clock::chrony::ChronyReport;

/// Where chronyd listens unless `cmdport` or `bindcmdaddress` says otherwise.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 323);

/// Bytes of a `TRACKING` reply, and so of its request.
const LENGTH: usize = 104;
/// Bytes of a reply's header, which is all that comes with an error.
const HEADER: usize = 28;
const VERSION: u8 = 6;
const PACKET_REQUEST: u8 = 1;
const PACKET_REPLY: u8 = 2;
const COMMAND_TRACKING: u16 = 33;
const REPLY_TRACKING: u16 = 5;
const LEAP_NOT_SYNCHRONISED: u16 = 3;
const FAMILY_NONE: u16 = 0;
/// High half of the seconds where the sender has only 32 bits of them.
const NO_HIGH_SECONDS: u32 = 0x7FFF_FFFF;
/// How long one answer may take on the loopback interface.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
const TRIES: u32 = 2;

/// Why there is no report.
#[derive(Debug)]
pub enum ChronyError {
    /// Nobody answered in time, although the port did not refuse.
    Silent {
        /// Whom we asked.
        address: SocketAddr,
    },
    /// The question could not be asked, or the port is closed.
    Unreachable {
        /// Whom we asked.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// chronyd answers with an error.
    Refused {
        /// The `STT_` number.
        status: u16,
    },
    /// It speaks another version of the protocol.
    OtherVersion {
        /// Which.
        version: u8,
    },
    /// The answer is to another question.
    OtherSequence {
        /// The number it answers.
        sequence: u32,
    },
    /// The answer is no `TRACKING` reply.
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl fmt::Display for ChronyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChronyError::Silent { address } => {
                write!(f, "chronyd at {address} does not answer; does `cmdallow` let us in?")
            }
            ChronyError::Unreachable { address, error } => {
                write!(f, "chronyd at {address} cannot be asked: {error}; ")?;
                write!(f, "is it running, with this `cmdport`, in this network namespace?")
            }
            ChronyError::Refused { status } => {
                write!(f, "chronyd refuses to answer: {} (status {status})", meaning(*status))
            }
            ChronyError::OtherVersion { version } => {
                write!(f, "chronyd speaks version {version} of its command protocol, ")?;
                write!(f, "and this gateway version {VERSION}")
            }
            ChronyError::OtherSequence { sequence } => {
                write!(f, "the answer belongs to another question (number {sequence})")
            }
            ChronyError::Malformed { reason } => {
                write!(f, "what answers is no chronyd, or a damaged one: {reason}")
            }
        }
    }
}

impl std::error::Error for ChronyError {}

/// The status codes that a question without a password can meet.
fn meaning(status: u16) -> &'static str {
    match status {
        1 => "it failed",
        2 => "not authorised; add `tracking` to its `opencommands`",
        3 => "it does not know the command",
        6 => "the command is not enabled",
        18 => "it speaks another version of the protocol",
        19 => "the request has the wrong length",
        _ => "for a reason of its own",
    }
}

/// The request for a `TRACKING` report; `sequence` comes back in the reply.
pub fn request(sequence: u32) -> [u8; LENGTH] {
    let mut packet = [0; LENGTH];
    packet[0] = VERSION;
    packet[1] = PACKET_REQUEST;
    packet[4..6].copy_from_slice(&COMMAND_TRACKING.to_be_bytes());
    packet[8..12].copy_from_slice(&sequence.to_be_bytes());
    packet
}

/// Reads the reply to [`request`]`(sequence)`.
///
/// Seconds become whole nanoseconds, rounded to the nearest, halves away from
/// zero; parts per million stay the exact value of the packet.
///
/// # Errors
/// chronyd refuses, or the packet is not the reply to this request.
pub fn parse(reply: &[u8], sequence: u32) -> Result<ChronyReport, ChronyError> {
    if reply.len() < HEADER {
        return Err(ChronyError::Malformed { reason: "the reply is shorter than its header" });
    }
    if reply[0] != VERSION {
        return Err(ChronyError::OtherVersion { version: reply[0] });
    }
    if reply[1] != PACKET_REPLY || u16_at(reply, 4) != COMMAND_TRACKING {
        return Err(ChronyError::Malformed { reason: "it is no reply to a `tracking` request" });
    }
    let answered = u32_at(reply, 16);
    if answered != sequence {
        return Err(ChronyError::OtherSequence { sequence: answered });
    }
    let status = u16_at(reply, 8);
    if status != 0 {
        return Err(ChronyError::Refused { status });
    }
    if u16_at(reply, 6) != REPLY_TRACKING || reply.len() < LENGTH {
        return Err(ChronyError::Malformed { reason: "the reply carries no tracking report" });
    }
    Ok(report(reply))
}

fn report(reply: &[u8]) -> ChronyReport {
    ChronyReport {
        ref_id: u32_at(reply, 28),
        is_refclock: u16_at(reply, 48) == FAMILY_NONE,
        stratum: u16_at(reply, 52),
        is_synchronised: u16_at(reply, 54) != LEAP_NOT_SYNCHRONISED,
        reference_ns: time_at(reply, 56),
        correction_ns: Float::at(reply, 68).times_billion(),
        freq_ppm: Float::at(reply, 80).value(),
        skew_ppm: Float::at(reply, 88).value(),
        root_delay_ns: Float::at(reply, 92).times_billion(),
        root_dispersion_ns: Float::at(reply, 96).times_billion(),
        update_interval_ns: Float::at(reply, 100).times_billion(),
    }
}

/// chrony's own 32-bit real: a signed exponent of 7 bits, then a signed
/// coefficient of 25; the value is coefficient · 2^(exponent − 25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Float {
    coefficient: i32,
    /// The power of two, the 25 already taken off: −89 to 38.
    power: i32,
}

impl Float {
    fn at(reply: &[u8], at: usize) -> Self {
        let bits = i32::from_be_bytes(bytes_at(reply, at));
        // Arithmetic shifts carry the signs.
        Self { coefficient: (bits << 7) >> 7, power: (bits >> 25) - 25 }
    }

    /// Exact: a double has 53 bits of coefficient.
    fn value(self) -> f64 {
        f64::from(self.coefficient) * 2_f64.powi(self.power)
    }

    /// Seconds as nanoseconds, rounded to the nearest, halves away from zero;
    /// saturates at 292 years.
    fn times_billion(self) -> i64 {
        // At most 2^24 · 2^30 · 2^38: fits.
        let scaled = i128::from(self.coefficient) * 1_000_000_000;
        let whole = if self.power >= 0 {
            scaled << self.power
        } else {
            let shift = self.power.unsigned_abs();
            let magnitude = (scaled.unsigned_abs() + (1 << (shift - 1))) >> shift;
            scaled.signum() * magnitude as i128
        };
        whole.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// A time of 64-bit seconds and nanoseconds, as nanoseconds since the UNIX
/// epoch; saturates at the years 1678 and 2262.
fn time_at(reply: &[u8], at: usize) -> i64 {
    let high = match u32_at(reply, at) {
        NO_HIGH_SECONDS => 0,
        high => high,
    };
    let seconds = (i64::from(high) << 32) | i64::from(u32_at(reply, at + 4));
    let nanoseconds = u32_at(reply, at + 8).min(999_999_999);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.into())
}

fn u16_at(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes_at(packet, at))
}

fn u32_at(packet: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes_at(packet, at))
}

/// Zeros where the packet has ended; [`parse`] has checked that it has not.
fn bytes_at<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    packet.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Asks the chronyd at `address`: two tries of a second each, every one with a
/// new number. A closed port is reported at once.
///
/// # Errors
/// Nobody answers, or the answer is none; see [`ChronyError`].
pub async fn track(address: SocketAddr) -> Result<ChronyReport, ChronyError> {
    let unreachable = |error| ChronyError::Unreachable { address, error };
    let own = match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((own, 0)).await.map_err(unreachable)?;
    // Connected: packets of anybody else never get here, and a closed port says so.
    socket.connect(address).await.map_err(unreachable)?;
    for _ in 0..TRIES {
        let sequence = super::draw() as u32;
        socket.send(&request(sequence)).await.map_err(unreachable)?;
        match tokio::time::timeout(REPLY_TIMEOUT, answer(&socket, sequence)).await {
            Ok(Ok(parsed)) => return parsed,
            Ok(Err(error)) => return Err(unreachable(error)),
            Err(_elapsed) => {}
        }
    }
    Err(ChronyError::Silent { address })
}

/// Waits for the reply to `sequence`; a late one to an earlier try is passed over.
async fn answer(
    socket: &UdpSocket,
    sequence: u32,
) -> io::Result<Result<ChronyReport, ChronyError>> {
    // Longer than any reply of the protocol that could come.
    let mut packet = [0; 1_024];
    loop {
        let length = socket.recv(&mut packet).await?;
        match parse(&packet[..length], sequence) {
            Err(ChronyError::OtherSequence { .. }) => {}
            parsed => return Ok(parsed),
        }
    }
}

#[cfg(test)]
#[path = "chrony_tests.rs"]
mod tests;
