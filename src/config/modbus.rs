//! A source of type `modbus`: how a device is reached, and its registers.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use super::file::{Section, Wrong};
use super::on_disk::Wanted;
use super::page::{Page, word};
use super::units::{DAY, ms, secs};
use super::value::{self, quoted};
use super::{Source, SourceKind};
use crate::core::limits;

mod register;

pub use register::{InvalidCode, Order, Register, RegisterKind, Table};

/// Registers that one request may read, by the protocol.
pub const REGISTERS_MAX: u16 = 125;
/// Coils or discrete inputs that one request may read, by the protocol.
pub const BITS_MAX: u16 = 2_000;
/// Registers of one source.
const SOURCE_REGISTERS_MAX: usize = 10_000;

/// What a source of type `modbus` reads, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Modbus {
    /// How the device is reached.
    pub line: ModbusLine,
    /// The device behind that address: 0 to 255.
    pub unit_id: u8,
    /// From one reading of all registers to the next; 10 ms to 1 d.
    pub poll: Duration,
    /// How long one answer may take, and a connection; 10 ms to 1 min.
    pub timeout: Duration,
    /// Registers in one request at most; 1 to 125. Of bits, sixteen times as many.
    pub block_max: u16,
    /// Registers (sixteen times as many bits) between two wanted ones that are read
    /// in vain rather than asking twice; 0 to 124.
    pub gap_max: u16,
    /// How addresses are written.
    pub notation: Notation,
    /// What is read, at least one.
    pub registers: Vec<Register>,
}

/// How a device is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModbusLine {
    /// Over TCP.
    Tcp {
        /// A name or an IP address.
        host: String,
        /// The port.
        port: u16,
        /// RTU frames with their checksum, as transparent serial servers have them,
        /// instead of the header of Modbus TCP.
        is_rtu: bool,
    },
    /// Over a serial port, RTU. Sources of the same port take turns.
    Serial(SerialPort),
}

/// A serial port; eight data bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialPort {
    /// The device file.
    pub path: PathBuf,
    /// Bits per second; 300 to 4,000,000.
    pub baud: u32,
    /// The parity bit.
    pub parity: Parity,
    /// Stop bits, 1 or 2.
    pub stop_bits: u8,
}

/// The parity bit of a serial line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// None is sent.
    None,
    /// Even, the default of Modbus.
    Even,
    /// Odd.
    Odd,
}

/// How addresses are written in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// As in the frame: from 0, in every table.
    Wire,
    /// As in many manuals: 1 for the first coil, 10001 for the first discrete
    /// input, 30001 for the first input register, 40001 for the first holding
    /// register; 1, 100001, 300001, 400001 where six digits are needed.
    FromOne,
}

const PARITIES: [(&str, Parity); 3] =
    [("none", Parity::None), ("even", Parity::Even), ("odd", Parity::Odd)];
const NOTATIONS: [(&str, Notation); 2] = [("wire", Notation::Wire), ("40001", Notation::FromOne)];

/// The keys of a `modbus` source.
pub(super) fn read(section: &Section<'_>) -> Modbus {
    let line = line(section);
    let unit_id = section.read("unit_id", 1, value::integer(0..=255)) as u8;
    let poll = section.read("poll", secs(1), value::duration(ms(10)..=DAY));
    let timeout = section.read("timeout", secs(1), value::duration(ms(10)..=secs(60)));
    let block_max = value::integer(1..=u64::from(REGISTERS_MAX));
    let block_max = section.read("block_max", u64::from(REGISTERS_MAX), block_max) as u16;
    let gap_max = section.read("gap_max", 8, value::integer(0..=124)) as u16;
    let notation = section.read("notation", Notation::Wire, value::one_of(&NOTATIONS));
    if matches!(line, Some(ModbusLine::Serial(_))) && unit_id == 0 {
        let what = "is the broadcast address of a serial line: nobody answers to it";
        section.problem("unit_id", what, "use 1 to 247");
    }
    let sections = section.tables("registers");
    if sections.is_empty() && !section.is_noted("registers") {
        let fix = "write registers = [ { property = \"pressure\", table = \"holding\", \
                   address = 10, type = \"f32\" } ]";
        section.problem("registers", "nothing is read", fix);
    }
    if sections.len() > SOURCE_REGISTERS_MAX {
        let what = format!("{} registers are too many", sections.len());
        section.problem("registers", what, format!("use at most {SOURCE_REGISTERS_MAX}"));
    }
    let mut registers: Vec<Register> = Vec::new();
    for one in &sections {
        let register = register::read(one, notation, block_max);
        if registers.iter().any(|known| known.names_the_same(&register)) {
            let what = format!("{:?} is the property of an earlier register", register.property);
            one.problem("property", what, "give each its own");
        }
        registers.push(register);
    }
    if !section.has("notation") {
        warn_of_notation(&sections, &registers);
    }
    let nowhere = ModbusLine::Tcp { host: String::new(), port: 0, is_rtu: false };
    Modbus {
        line: line.unwrap_or(nowhere),
        unit_id,
        poll,
        timeout,
        block_max,
        gap_max,
        notation,
        registers,
    }
}

/// The commonest mistake: an address copied from a manual that counts from 40001. Said
/// once for a source, and only where it does not say how its addresses are meant.
fn warn_of_notation(sections: &[Section<'_>], registers: &[Register]) {
    let mut odd = sections.iter().zip(registers).filter(|(_, one)| register::is_of_manual(one));
    let Some((section, register)) = odd.next() else { return };
    let more = match odd.count() {
        0 => String::new(),
        more => format!(" ({more} more like it)"),
    };
    let what = format!(
        "{} is taken as in the frame, and looks like one of a manual that counts from 40001{more}",
        register.address
    );
    let fix = "write notation = \"40001\" in the source if it is one, notation = \"wire\" if not";
    section.warn("address", what, fix);
}

fn line(section: &Section<'_>) -> Option<ModbusLine> {
    if section.has("serial") && section.has("address") {
        let what = "a device has either an address or a serial port";
        section.problem("serial", what, "leave one of them out");
    }
    let serial_keys = ["baud", "parity", "stop_bits"];
    if !section.has("serial") {
        for key in serial_keys {
            section.out_of_place(key, "is of a serial port", "write serial, or leave it out");
        }
        section.out_of_place("serial", "", "");
        let address =
            section.require("address", "\"10.0.0.10:502\", or serial = \"/dev/ttyUSB0\"", host);
        let is_rtu = section.read("rtu_over_tcp", false, value::boolean);
        let (host, port) = address?;
        return Some(ModbusLine::Tcp { host, port, is_rtu });
    }
    section.out_of_place("rtu_over_tcp", "is of an address", "leave it out");
    section.out_of_place("address", "is not of a serial port", "leave one of them out");
    let path = section.require("serial", "\"/dev/ttyUSB0\"", value::path);
    if let Some(path) = &path {
        section.names("serial", Wanted::Device, path);
    }
    let baud = section.read("baud", 19_200, value::integer(300..=4_000_000)) as u32;
    let parity = section.read("parity", Parity::Even, value::one_of(&PARITIES));
    let stop_bits = section.read("stop_bits", 1, value::integer(1..=2)) as u8;
    Some(ModbusLine::Serial(SerialPort { path: path?, baud, parity, stop_bits }))
}

/// `HOST` or `HOST:PORT`.
fn host(value: &DeValue<'_>) -> Result<(String, u16), Wrong> {
    const FORM: &str = "write it like \"10.0.0.10:502\", \"[fd00::7]:502\" or \"meter.local\"";
    let written = value::text_of(value, "an address", FORM)?;
    parse_host(&written).ok_or_else(|| Wrong::new(format!("{written:?} is not an address"), FORM))
}

/// A host and a port from `HOST` or `HOST:PORT`; the port of Modbus is 502.
pub fn parse_host(written: &str) -> Option<(String, u16)> {
    let (host, port) = match written.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (written, 502),
    };
    let is_v6 = host.starts_with('[') && host.ends_with(']');
    let bare = if is_v6 { &host[1..host.len() - 1] } else { host };
    let is_odd = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_');
    let is_valid = match is_v6 {
        true => bare.parse::<std::net::Ipv6Addr>().is_ok(),
        false => !bare.is_empty() && !bare.contains(is_odd),
    };
    (is_valid && port > 0).then(|| (bare.to_owned(), port))
}

/// `HOST:PORT`, with the brackets of IPv6.
pub fn shown_host(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The name of an earlier source that uses the same serial port in another way.
pub(super) fn contradicted<'a>(earlier: &'a [Source], source: &Source) -> Option<&'a str> {
    let port = serial_port(source)?;
    let contradicts = |known: &&Source| {
        serial_port(known).is_some_and(|known| known.path == port.path && known != port)
    };
    earlier.iter().find(contradicts).map(|known| known.name.as_str())
}

fn serial_port(source: &Source) -> Option<&SerialPort> {
    match &source.kind {
        SourceKind::Modbus(Modbus { line: ModbusLine::Serial(port), .. }) => Some(port),
        _ => None,
    }
}

/// Without an entity of the source, each register needs one of its own.
pub(super) fn require_entities(section: &Section<'_>, kind: Option<&SourceKind>) {
    let Some(SourceKind::Modbus(modbus)) = kind else { return };
    let mut numbered = modbus.registers.iter().enumerate();
    if let Some((at, bare)) = numbered.find(|(_, one)| one.entity.is_none()) {
        let which = match bare.property.as_str() {
            "" => format!("registers[{at}]"),
            property => format!("the register {property:?}"),
        };
        let what = format!("missing, and {which} has none of its own");
        section.problem("entity", what, "write entity = \"press-1\"");
    }
}

/// An entity or a property: 1 to [`limits::NAME_BYTES_MAX`] bytes.
fn name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = value::text(value)?;
    if (1..=limits::NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(name);
    }
    let fix = format!("use 1 to {}", limits::NAME_BYTES_MAX);
    Err(Wrong::new(format!("has {} bytes", name.len()), fix))
}

/// Writes the keys as they are read.
pub(super) fn print(page: &mut Page, modbus: &Modbus) {
    match &modbus.line {
        ModbusLine::Tcp { host, port, is_rtu } => {
            page.text("address", &shown_host(host, *port));
            page.raw("rtu_over_tcp", is_rtu);
        }
        ModbusLine::Serial(port) => {
            page.path("serial", Some(&port.path));
            page.raw("baud", port.baud);
            page.text("parity", word(&PARITIES, port.parity));
            page.raw("stop_bits", port.stop_bits);
        }
    }
    page.raw("unit_id", modbus.unit_id);
    page.duration("poll", modbus.poll);
    page.duration("timeout", modbus.timeout);
    page.raw("block_max", modbus.block_max);
    page.raw("gap_max", modbus.gap_max);
    page.text("notation", word(&NOTATIONS, modbus.notation));
    let registers = modbus.registers.iter();
    let lines: Vec<String> =
        registers.map(|one| format!("  {},\n", register::shown(one, modbus.notation))).collect();
    page.raw("registers", format!("[\n{}]", lines.concat()));
}

#[cfg(test)]
#[path = "modbus/modbus_tests.rs"]
pub(super) mod tests;
