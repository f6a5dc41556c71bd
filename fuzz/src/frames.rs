//! Answers of Modbus devices.

use std::sync::OnceLock;

use tidegate::config::modbus::{Order, Register, RegisterKind, Table};
use tidegate::core::reading::{Quality, Value};
use tidegate::source::modbus::{Answer, Finder, Framing, NotModbus, Request, decode};

/// A question made of the first bytes, and the rest.
fn question(bytes: &[u8]) -> Option<(Request, &[u8])> {
    let ([unit, table, count], rest) = bytes.split_first_chunk()?;
    let table = match table % 4 {
        0 => Table::Coil,
        1 => Table::Discrete,
        2 => Table::Holding,
        _ => Table::Input,
    };
    let count = 1 + u16::from(*count) % 125;
    Some((Request { unit: *unit, table, address: 0, count }, rest))
}

/// What a finder makes of a stream that comes in pieces.
fn found(
    request: Request,
    framing: Framing,
    stream: &[u8],
    step: usize,
) -> Result<Option<Answer>, NotModbus> {
    let mut finder = Finder::new(request, framing);
    for piece in stream.chunks(step) {
        if let Some(answer) = finder.push(piece)? {
            let Answer::Data(data) = &answer else { return Ok(Some(answer)) };
            let count = usize::from(request.count);
            let wanted = if request.table.is_bits() { count.div_ceil(8) } else { 2 * count };
            assert_eq!(data.len(), wanted, "an answer has what was asked for");
            return Ok(Some(answer));
        }
    }
    Ok(None)
}

fn any_cut(request: Request, framing: Framing, stream: &[u8]) {
    let whole = found(request, framing, stream, stream.len().max(1));
    for step in [1, 3] {
        assert_eq!(found(request, framing, stream, step), whole, "pieces of {step}");
    }
}

/// Modbus TCP, the stream as it came and its rest in a frame of its own.
pub fn tcp(bytes: &[u8]) {
    let Some((request, stream)) = question(bytes) else { return };
    any_cut(request, Framing::Tcp(7), stream);
    let pdu = &stream[..stream.len().min(253)];
    let mut framed = vec![0, 7, 0, 0];
    framed.extend((pdu.len() as u16 + 1).to_be_bytes());
    framed.push(request.unit);
    framed.extend_from_slice(pdu);
    framed.extend_from_slice(stream);
    any_cut(request, Framing::Tcp(7), &framed);
}

/// RTU, the stream as it came and with the checksum it should have.
pub fn rtu(bytes: &[u8]) {
    let Some((request, stream)) = question(bytes) else { return };
    any_cut(request, Framing::Rtu, stream);
    let body = [&[request.unit], stream].concat();
    let sum = body.iter().fold(0xFFFF_u16, |sum, byte| {
        let shift = |sum: u16| if sum & 1 == 1 { sum >> 1 ^ 0xA001 } else { sum >> 1 };
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| shift(sum))
    });
    any_cut(request, Framing::Rtu, &[&body[..], &sum.to_le_bytes()].concat());
}

/// Registers of every kind in every order.
pub fn registers(bytes: &[u8]) {
    static REGISTERS: OnceLock<Vec<Register>> = OnceLock::new();
    let registers = REGISTERS.get_or_init(|| {
        let kinds = [
            RegisterKind::Bit(9),
            RegisterKind::I16,
            RegisterKind::U16,
            RegisterKind::I32,
            RegisterKind::U32,
            RegisterKind::I64,
            RegisterKind::U64,
            RegisterKind::F32,
            RegisterKind::F64,
            RegisterKind::Text(5),
        ];
        let of = |kind| Order::ALL.map(|order| (kind, order));
        let plain = |(kind, order)| Register { order, ..Register::plain(Table::Holding, 0, kind) };
        kinds.into_iter().flat_map(of).map(plain).collect()
    });
    for register in registers {
        let Some(own) = bytes.get(..2 * usize::from(register.kind.width())) else { continue };
        let decoded = decode(register, own);
        let is_finite = !matches!(decoded.value, Value::F64(number) if !number.is_finite());
        assert_eq!(is_finite, decoded.quality == Quality::Good, "{decoded:?}");
        assert_eq!(is_finite, decoded.detail.is_none(), "{decoded:?}");
    }
}
