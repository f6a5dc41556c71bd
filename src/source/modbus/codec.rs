//! From the bytes of registers to a value, and what it is worth.

use std::fmt::Write as _;

use crate::config::modbus::{InvalidCode, Order, Register, RegisterKind};
use crate::core::reading::{Quality, Value};

/// A value that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The value; not a number where there is none.
    pub value: Value,
    /// Whether it is a measurement.
    pub quality: Quality,
    /// Why not.
    pub detail: Option<String>,
}

impl Decoded {
    fn good(value: Value) -> Self {
        Self { value, quality: Quality::Good, detail: None }
    }

    /// No value, and why.
    pub(super) fn bad(detail: String) -> Self {
        Self { value: Value::F64(f64::NAN), quality: Quality::Bad, detail: Some(detail) }
    }
}

/// What a register says. `bytes` are its own, two a register, as they came.
pub fn decode(register: &Register, bytes: &[u8]) -> Decoded {
    if let RegisterKind::Text(_) = register.kind {
        return Decoded::good(Value::Text(text(&ordered(bytes, register.order)).into()));
    }
    let ordered = ordered(bytes, register.order);
    let bits = ordered.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let raw = match register.kind {
        RegisterKind::Bit(bit) => return Decoded::good(Value::Bool(bits >> bit & 1 == 1)),
        RegisterKind::Bool => return Decoded::good(Value::Bool(bits != 0)),
        RegisterKind::F32 => Raw::Float(widened(f32::from_bits(bits as u32))),
        RegisterKind::F64 => Raw::Float(f64::from_bits(bits)),
        RegisterKind::I16 => Raw::Whole(i128::from(bits as u16 as i16)),
        RegisterKind::I32 => Raw::Whole(i128::from(bits as u32 as i32)),
        RegisterKind::I64 => Raw::Whole(i128::from(bits as i64)),
        RegisterKind::U16 | RegisterKind::U32 | RegisterKind::U64 | RegisterKind::Text(_) => {
            Raw::Whole(i128::from(bits))
        }
    };
    if register.invalid.iter().any(|code| raw.is(bits, code)) {
        let digits = 2 * ordered.len();
        return Decoded::bad(format!("0x{bits:0digits$X} means not available"));
    }
    match raw.scaled(register.scale, register.offset) {
        Value::F64(number) if !number.is_finite() => Decoded::bad("not a finite number".to_owned()),
        value => Decoded::good(value),
    }
}

/// The bytes of a value, most significant first; of a text, first to last.
fn ordered(bytes: &[u8], order: Order) -> Vec<u8> {
    let mut words: Vec<[u8; 2]> = bytes.as_chunks().0.to_vec();
    if order.reverses_words {
        words.reverse();
    }
    if order.swaps_bytes {
        words.iter_mut().for_each(|word| word.reverse());
    }
    match bytes {
        // A bit has a byte of its own.
        [bit] => vec![*bit],
        _ => words.concat(),
    }
}

/// The shortest decimal that names this number, as a number of twice its size:
/// what the device shows on its own display.
fn widened(number: f32) -> f64 {
    if !number.is_finite() {
        return f64::from(number);
    }
    number.to_string().parse().unwrap_or(f64::from(number))
}

/// To the first NUL, without spaces at the end.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let bytes = &bytes[..end];
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // Latin-1: each byte is the code point of its character.
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    text.trim_end().to_owned()
}

/// A number before scale and offset.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Raw {
    Whole(i128),
    Float(f64),
}

impl Raw {
    fn is(self, bits: u64, code: &InvalidCode) -> bool {
        match (self, code) {
            (_, InvalidCode::Bits(code)) => bits == *code,
            (Raw::Whole(number), InvalidCode::Whole(code)) => number == *code,
            (Raw::Float(number), InvalidCode::Real(code)) => number == *code,
            _ => false,
        }
    }

    fn scaled(self, scale: f64, offset: f64) -> Value {
        match self {
            Raw::Whole(number) if scale == 1.0 && offset == 0.0 => whole(number),
            Raw::Whole(number) => Value::F64(scaled_exactly(number, scale, offset)),
            Raw::Float(number) if scale == 1.0 && offset == 0.0 => Value::F64(number),
            Raw::Float(number) => Value::F64(number * scale + offset),
        }
    }
}

fn whole(number: i128) -> Value {
    match (i64::try_from(number), u64::try_from(number)) {
        (Ok(small), _) => Value::I64(small),
        (_, Ok(large)) => Value::U64(large),
        // 64 bits hold every raw number.
        _ => Value::F64(number as f64),
    }
}

/// `number × scale + offset` in decimal, rounded once: 3 × 0.1 is 0.3, not
/// 0.30000000000000004. In binary where decimals get too long.
fn scaled_exactly(number: i128, scale: f64, offset: f64) -> f64 {
    let exact = || {
        let (scale, offset) = (Decimal::of(scale)?, Decimal::of(offset)?);
        let exponent = scale.exponent.min(offset.exponent);
        let product = number.checked_mul(scale.at(exponent)?)?;
        let sum = product.checked_add(offset.at(exponent)?)?;
        let mut digits = String::new();
        write!(digits, "{sum}e{exponent}").ok()?;
        digits.parse::<f64>().ok()
    };
    exact().unwrap_or(number as f64 * scale + offset)
}

/// `mantissa × 10^exponent`.
struct Decimal {
    mantissa: i128,
    exponent: i32,
}

impl Decimal {
    /// The shortest decimal that names a number.
    fn of(number: f64) -> Option<Self> {
        let shortest = format!("{number:e}");
        let (digits, exponent) = shortest.split_once('e')?;
        let exponent: i32 = exponent.parse().ok()?;
        let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
        let mantissa = digits.replace('.', "").parse().ok()?;
        Some(Self { mantissa, exponent: exponent - i32::try_from(places).ok()? })
    }

    /// Its mantissa with a smaller exponent.
    fn at(&self, exponent: i32) -> Option<i128> {
        if self.mantissa == 0 {
            return Some(0);
        }
        let power = u32::try_from(self.exponent - exponent).ok()?;
        self.mantissa.checked_mul(10_i128.checked_pow(power)?)
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
