//! Frames: what a request and its answer look like on the wire, over Modbus TCP
//! (Modbus Messaging on TCP/IP Implementation Guide V1.0b) and RTU (Modbus over
//! Serial Line V1.02). Only the four reading functions.
//!
//! A [`Finder`] looks for the one answer to one request in whatever comes: bytes
//! that belong to nobody, and frames that answer something else, are skipped. So
//! an answer that comes after its time is never taken for the next.

use std::fmt;

use crate::config::modbus::Table;

/// The longest frame of either kind: Modbus TCP has 7 bytes of header and 253 of
/// PDU.
pub(super) const FRAME_MAX: usize = 260;
const HEADER: usize = 7;
const PDU_MAX: usize = 253;

/// One question: for a stretch of registers or bits of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The device behind the address.
    pub unit: u8,
    /// The table.
    pub table: Table,
    /// The first register or bit, from 0.
    pub address: u16,
    /// How many; at least one.
    pub count: u16,
}

/// How frames are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// With the header of Modbus TCP and this transaction id.
    Tcp(u16),
    /// With the unit and a checksum.
    Rtu,
}

/// A device's word that it cannot answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception(pub u8);

impl Exception {
    /// A device does not have what was asked for, as a whole.
    pub(super) const fn is_about_the_place(self) -> bool {
        matches!(self.0, 2 | 3)
    }

    /// The gateway on the way does not reach the device.
    pub const fn is_unreachable(self) -> bool {
        matches!(self.0, 10 | 11)
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Modbus Application Protocol V1.1b3, section 7; 7 is of older editions.
        let name = match self.0 {
            1 => "illegal function",
            2 => "illegal data address",
            3 => "illegal data value",
            4 => "server device failure",
            5 => "acknowledge: the request takes long",
            6 => "server device busy",
            7 => "negative acknowledge",
            8 => "memory parity error",
            9 => "reserved",
            10 => "gateway path unavailable",
            11 => "gateway target device failed to respond",
            _ => "of the vendor's own",
        };
        write!(f, "exception {} ({name})", self.0)
    }
}

/// What a device answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes of the registers as they came, or the packed bits.
    Data(Vec<u8>),
    /// It cannot.
    Exception(Exception),
}

impl Request {
    const fn function(self) -> u8 {
        match self.table {
            Table::Coil => 1,
            Table::Discrete => 2,
            Table::Holding => 3,
            Table::Input => 4,
        }
    }

    /// Bytes of data in the answer.
    fn data_len(self) -> usize {
        let count = usize::from(self.count);
        if self.table.is_bits() { count.div_ceil(8) } else { 2 * count }
    }

    /// The request as it goes out.
    pub fn encode(self, framing: Framing) -> Vec<u8> {
        let [address_high, address_low] = self.address.to_be_bytes();
        let [count_high, count_low] = self.count.to_be_bytes();
        let pdu = [self.unit, self.function(), address_high, address_low, count_high, count_low];
        match framing {
            Framing::Tcp(id) => {
                let [high, low] = id.to_be_bytes();
                let mut frame = vec![high, low, 0, 0, 0, pdu.len() as u8];
                frame.extend_from_slice(&pdu);
                frame
            }
            Framing::Rtu => {
                let mut frame = pdu.to_vec();
                frame.extend_from_slice(&checksum(&pdu).to_le_bytes());
                frame
            }
        }
    }

    /// The answer in a PDU (function and data) of the right unit; `None` when it
    /// answers something else.
    fn answer(self, pdu: &[u8]) -> Option<Answer> {
        match pdu {
            [function, code] if *function == self.function() | 0x80 => {
                Some(Answer::Exception(Exception(*code)))
            }
            [function, len, data @ ..]
                if *function == self.function()
                    && data.len() == usize::from(*len)
                    && data.len() == self.data_len() =>
            {
                Some(Answer::Data(data.to_vec()))
            }
            _ => None,
        }
    }
}

/// What came is no Modbus, and where the next frame begins cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotModbus(pub &'static str);

/// Looks for the answer to one request.
#[derive(Debug)]
pub struct Finder {
    request: Request,
    framing: Framing,
    bytes: Vec<u8>,
    /// Whole frames that answered something else, or bytes that were skipped.
    strangers: u32,
}

impl Finder {
    /// For the answer to this request, wrapped in this way.
    pub fn new(request: Request, framing: Framing) -> Self {
        Self { request, framing, bytes: Vec::with_capacity(FRAME_MAX), strangers: 0 }
    }

    /// Whether anything came that was not the answer.
    pub fn has_seen_strangers(&self) -> bool {
        self.strangers > 0 || !self.bytes.is_empty()
    }

    /// Takes bytes as they come. Memory is bounded by two frames: what no frame
    /// can begin with is let go.
    ///
    /// # Errors
    /// Over TCP, when a header cannot be one: the stream is lost.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Answer>, NotModbus> {
        self.bytes.extend_from_slice(bytes);
        match self.framing {
            Framing::Tcp(id) => self.find_tcp(id),
            Framing::Rtu => Ok(self.find_rtu()),
        }
    }

    fn find_tcp(&mut self, id: u16) -> Result<Option<Answer>, NotModbus> {
        while let [id_high, id_low, protocol_high, protocol_low, len_high, len_low, ..] =
            self.bytes[..]
        {
            let len = usize::from(u16::from_be_bytes([len_high, len_low]));
            if (protocol_high, protocol_low) != (0, 0) {
                return Err(NotModbus("its header has a protocol id other than 0"));
            }
            if !(3..=PDU_MAX + 1).contains(&len) {
                return Err(NotModbus("its header has an impossible length"));
            }
            let end = HEADER - 1 + len;
            if self.bytes.len() < end {
                return Ok(None);
            }
            let frame: Vec<u8> = self.bytes.drain(..end).collect();
            let is_ours = u16::from_be_bytes([id_high, id_low]) == id
                && frame[HEADER - 1] == self.request.unit;
            match self.request.answer(&frame[HEADER..]).filter(|_| is_ours) {
                Some(answer) => return Ok(Some(answer)),
                None => self.strangers += 1,
            }
        }
        Ok(None)
    }

    /// Frames have no mark where they begin: every place is tried, and the
    /// checksum decides.
    fn find_rtu(&mut self) -> Option<Answer> {
        let longest = 5 + self.request.data_len();
        let mut from = 0;
        while from < self.bytes.len() {
            let rest = &self.bytes[from..];
            let [unit, function, ..] = rest else { break };
            let len = match *function {
                _ if *unit != self.request.unit => None,
                function if function == self.request.function() => Some(longest),
                function if function == self.request.function() | 0x80 => Some(5),
                _ => None,
            };
            match len {
                Some(len) if rest.len() < len => break,
                Some(len) if is_whole(&rest[..len]) => {
                    if let Some(answer) = self.request.answer(&rest[1..len - 2]) {
                        self.strangers += u32::from(from > 0);
                        self.bytes.clear();
                        return Some(answer);
                    }
                    from += 1;
                }
                _ => from += 1,
            }
        }
        if from > 0 {
            self.strangers += 1;
            self.bytes.drain(..from);
        }
        None
    }
}

/// Whether a frame ends with its own checksum.
fn is_whole(frame: &[u8]) -> bool {
    frame.split_last_chunk::<2>().is_some_and(|(body, sum)| checksum(body).to_le_bytes() == *sum)
}

/// CRC-16 of Modbus: polynomial 0xA001 (reflected), from 0xFFFF.
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| {
            if sum & 1 == 1 { (sum >> 1) ^ 0xA001 } else { sum >> 1 }
        })
    })
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
