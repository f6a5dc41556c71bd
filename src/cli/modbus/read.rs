//! `tidegate modbus read`: registers as they are, and what they would mean in
//! each type and order.

use std::fmt::Write as _;
use std::time::Duration;

use clap::ValueEnum;

use super::{Place, length};
use crate::cli::print;
use crate::config::modbus::{Order, Register, RegisterKind};
use crate::core::reading::Value;
use crate::exit::{Exit, Failure};
use crate::source::modbus::{Request, decode};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: tidegate modbus read 10.0.0.10:502 --unit 1 --table input --address 40 --type f32\n\
    The column whose values make sense is the order to write into the configuration."
)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// The unit id.
    #[arg(long, default_value_t = 1)]
    unit: u8,
    /// How many registers, or bits.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=125))]
    count: u16,
    /// Only this type [default: all].
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    kind: Option<Type>,
    /// How long the device may take.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = length)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Type {
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Type {
    const fn kind(self) -> RegisterKind {
        match self {
            Type::I16 => RegisterKind::I16,
            Type::U16 => RegisterKind::U16,
            Type::I32 => RegisterKind::I32,
            Type::U32 => RegisterKind::U32,
            Type::I64 => RegisterKind::I64,
            Type::U64 => RegisterKind::U64,
            Type::F32 => RegisterKind::F32,
            Type::F64 => RegisterKind::F64,
        }
    }

    fn word(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

pub(super) async fn execute(args: &Args) -> Result<Exit, Failure> {
    let Args { place, unit, count, kind, timeout } = args;
    let request =
        Request { unit: *unit, table: place.table(), address: place.address, count: *count };
    if u32::from(place.address) + u32::from(*count) > 65_536 {
        return Err(Failure::new(Exit::Usage, "the last register is 65535: lower --count"));
    }
    let data = place
        .link(*timeout)
        .ask(request, || {})
        .await
        .map_err(|fault| Failure::new(Exit::Io, fault))?;
    print(&if request.table.is_bits() {
        bits(request, &data)
    } else {
        words(request, *kind, &data)
    })?;
    Ok(Exit::Done)
}

/// Writing to a string does not fail.
fn bits(request: Request, data: &[u8]) -> String {
    let mut out = String::new();
    for (at, address) in (0..usize::from(request.count)).zip(request.address..=u16::MAX) {
        let bit = data.get(at / 8).copied().unwrap_or(0) >> (at % 8) & 1;
        let _ = writeln!(out, "{} {address}: {}", request.table.as_str(), bit == 1);
    }
    out
}

fn words(request: Request, only: Option<Type>, data: &[u8]) -> String {
    let mut out = format!("{} as they came\n", request.table.as_str());
    for (word, address) in data.as_chunks::<2>().0.iter().zip(request.address..=u16::MAX) {
        let _ = writeln!(out, "{address:>7}  0x{:04X}", u16::from_be_bytes(*word));
    }
    for one in Type::value_variants() {
        let width = one.kind().width();
        let is_asked = only.is_none_or(|only| only == *one);
        if is_asked && width <= request.count {
            out += &table(request, *one, data);
        }
    }
    out
}

/// One type: a row a value, a column an order.
fn table(request: Request, one: Type, data: &[u8]) -> String {
    let kind = one.kind();
    let mut orders: Vec<Order> = Order::ALL.to_vec();
    if kind.width() == 1 {
        orders.retain(|order| !order.reverses_words);
    }
    let names = orders.iter().map(|order| format!("  {:>24}", order.name(kind.width())));
    let mut out = format!("\n{:>7}{}\n", one.word(), names.collect::<String>());
    let rows = data.chunks_exact(2 * usize::from(kind.width()));
    let addresses = (request.address..=u16::MAX).step_by(usize::from(kind.width()));
    for (bytes, address) in rows.zip(addresses) {
        let value = |order: &Order| {
            let register = Register { order: *order, ..Register::plain(request.table, 0, kind) };
            format!("  {:>24}", shown(&decode(&register, bytes).value))
        };
        let _ = writeln!(out, "{address:>7}{}", orders.iter().map(value).collect::<String>());
    }
    out
}

fn shown(value: &Value) -> String {
    match value {
        Value::F64(number) if !number.is_finite() => "not a number".to_owned(),
        Value::F64(number) if number.abs() >= 1e15 || (*number != 0.0 && number.abs() < 1e-4) => {
            format!("{number:e}")
        }
        Value::F64(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::modbus::Table;

    #[test]
    fn a_float_is_shown_in_every_order() {
        let request = Request { unit: 1, table: Table::Input, address: 40, count: 2 };
        let text = words(request, Some(Type::F32), &[0x42, 0xF6, 0xE9, 0x79]);
        let row = |cells: [&str; 4]| cells.map(|cell| format!("  {cell:>24}")).concat();
        let expected = format!(
            "input as they came\n     40  0x42F6\n     41  0xE979\n\n    f32{}\n     40{}\n",
            row(["ABCD", "CDAB", "BADC", "DCBA"]),
            row(["123.456", "-1.8833671e25", "-9.8611155e32", "1.5184998e35"]),
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn without_a_type_all_that_fit_are_shown_and_bits_one_by_one() {
        let request = Request { unit: 1, table: Table::Holding, address: 65_534, count: 2 };
        let text = words(request, None, &[0xFF, 0xEC, 0, 1]);
        assert!(
            text.contains("  65534                       -20                     -4865\n"),
            "{text}"
        );
        assert!(!text.contains("i64"));
        let coils = Request { table: Table::Coil, address: 7, count: 3, ..request };
        assert_eq!(bits(coils, &[0b101]), "coil 7: true\ncoil 8: false\ncoil 9: true\n");
    }
}
