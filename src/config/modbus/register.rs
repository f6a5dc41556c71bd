//! One register of a device: where it is, how its bytes are read, what they mean.

use toml::de::DeValue;

use super::{BITS_MAX, Notation, name, quoted, word};
use crate::config::file::{Section, Wrong};
use crate::config::value;
use crate::core::limits;

/// One value that is read. Several may overlap.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// What of the entity it is.
    pub property: String,
    /// The thing, where it is not that of the source.
    pub entity: Option<String>,
    /// The table it is in.
    pub table: Table,
    /// Its first register or bit, as in the frame: from 0.
    pub address: u16,
    /// How its bytes are read.
    pub kind: RegisterKind,
    /// The order of its bytes.
    pub order: Order,
    /// The value is the number read times `scale` plus `offset`.
    pub scale: f64,
    /// See `scale`; in the unit of the value.
    pub offset: f64,
    /// The unit of the value.
    pub unit: Option<String>,
    /// Values that differ from the last one sent by no more than this are not
    /// sent; zero sends all.
    pub deadband: f64,
    /// Numbers that mean "not available".
    pub invalid: Vec<InvalidCode>,
}

/// The four tables of Modbus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Bits that may be written; function 1.
    Coil,
    /// Bits that may only be read; function 2.
    Discrete,
    /// Registers that may only be read; function 4.
    Input,
    /// Registers that may be written; function 3.
    Holding,
}

impl Table {
    /// Whether it holds bits.
    pub const fn is_bits(self) -> bool {
        matches!(self, Table::Coil | Table::Discrete)
    }

    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        word(&TABLES, self)
    }
}

/// How bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterKind {
    /// A coil or discrete input.
    Bool,
    /// One bit of a register; 0 is the least significant, 15 the most.
    Bit(u8),
    /// 16 bits, signed.
    I16,
    /// 16 bits.
    U16,
    /// 32 bits, signed.
    I32,
    /// 32 bits.
    U32,
    /// 64 bits, signed.
    I64,
    /// 64 bits.
    U64,
    /// IEEE 754, 32 bits.
    F32,
    /// IEEE 754, 64 bits.
    F64,
    /// Text of so many registers, two bytes each, to its first NUL; UTF-8, else
    /// Latin-1. Spaces at the end are cut off.
    Text(u16),
}

impl RegisterKind {
    /// How many registers, or bits of a table of bits, it takes.
    pub const fn width(self) -> u16 {
        match self {
            RegisterKind::I32 | RegisterKind::U32 | RegisterKind::F32 => 2,
            RegisterKind::I64 | RegisterKind::U64 | RegisterKind::F64 => 4,
            RegisterKind::Text(width) => width,
            _ => 1,
        }
    }

    /// Whether it is a number.
    pub const fn is_number(self) -> bool {
        !matches!(self, RegisterKind::Bool | RegisterKind::Bit(_) | RegisterKind::Text(_))
    }

    /// Whether it is a floating-point number.
    pub const fn is_float(self) -> bool {
        matches!(self, RegisterKind::F32 | RegisterKind::F64)
    }
}

/// The order of the bytes of a value: A is the most significant one of the
/// number, and the name says in which order they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The two bytes of each register are swapped.
    pub swaps_bytes: bool,
    /// The registers come least significant first.
    pub reverses_words: bool,
}

impl Order {
    /// Every order, big endian first.
    pub const ALL: [Order; 4] = [
        Order { swaps_bytes: false, reverses_words: false },
        Order { swaps_bytes: false, reverses_words: true },
        Order { swaps_bytes: true, reverses_words: false },
        Order { swaps_bytes: true, reverses_words: true },
    ];

    /// Its name for a value of so many registers; texts have those of one register.
    pub fn name(self, width: u16) -> &'static str {
        orders(width).iter().find(|(_, order)| *order == self).map_or("", |(name, _)| name)
    }
}

const fn order(name: &'static str, at: usize) -> (&'static str, Order) {
    (name, Order::ALL[at])
}

/// The orders of a value of so many registers, by name.
fn orders(width: u16) -> &'static [(&'static str, Order)] {
    const OF_ONE: [(&str, Order); 2] = [order("AB", 0), order("BA", 2)];
    const OF_TWO: [(&str, Order); 4] =
        [order("ABCD", 0), order("CDAB", 1), order("BADC", 2), order("DCBA", 3)];
    const OF_FOUR: [(&str, Order); 4] =
        [order("ABCDEFGH", 0), order("GHEFCDAB", 1), order("BADCFEHG", 2), order("HGFEDCBA", 3)];
    match width {
        2 => &OF_TWO,
        4 => &OF_FOUR,
        _ => &OF_ONE,
    }
}

/// A number that means "not available".
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InvalidCode {
    /// Its bits, in the order of the value: `"0xFFFF"`.
    Bits(u64),
    /// The number itself, before scale and offset.
    Whole(i128),
    /// A floating-point number.
    Real(f64),
}

const TABLES: [(&str, Table); 4] = [
    ("coil", Table::Coil),
    ("discrete", Table::Discrete),
    ("input", Table::Input),
    ("holding", Table::Holding),
];

const KINDS: [(&str, RegisterKind); 11] = [
    ("bool", RegisterKind::Bool),
    ("bit", RegisterKind::Bit(0)),
    ("i16", RegisterKind::I16),
    ("u16", RegisterKind::U16),
    ("i32", RegisterKind::I32),
    ("u32", RegisterKind::U32),
    ("i64", RegisterKind::I64),
    ("u64", RegisterKind::U64),
    ("f32", RegisterKind::F32),
    ("f64", RegisterKind::F64),
    ("string", RegisterKind::Text(1)),
];

impl Register {
    /// A register without scale, unit and the like.
    pub fn plain(table: Table, address: u16, kind: RegisterKind) -> Self {
        Self {
            property: String::new(),
            entity: None,
            table,
            address,
            kind,
            order: Order::default(),
            scale: 1.0,
            offset: 0.0,
            unit: None,
            deadband: 0.0,
            invalid: Vec::new(),
        }
    }

    pub(super) fn names_the_same(&self, other: &Register) -> bool {
        !self.property.is_empty() && self.property == other.property && self.entity == other.entity
    }
}

/// One element of `registers`. Where its table or type cannot be used, what depends on
/// them is taken as it is, and all else is checked.
pub(super) fn read(section: &Section<'_>, notation: Notation, block_max: u16) -> Register {
    let property = section.require("property", "\"pressure\"", name);
    let entity = section.read("entity", None, |value| name(value).map(Some));
    let table = section.require("table", "\"holding\"", value::one_of(&TABLES));
    let kind = section.require("type", "\"u16\"", value::one_of(&KINDS));
    let kind = widths(section, table, kind);
    let example = if notation == Notation::Wire { "0" } else { "40001" };
    let address = section.require("address", example, |value| address(value, table, notation));
    let width = kind.map_or(1, RegisterKind::width);
    if u32::from(address.unwrap_or(0)) + u32::from(width) > 65_536 {
        let what = format!("its {width} registers reach beyond the last one, 65535");
        section.problem("address", what, "lower it, or use a shorter type");
    }
    let most = if table.is_some_and(Table::is_bits) { BITS_MAX } else { block_max };
    if width > most {
        let what = format!("takes {width} registers, more than block_max");
        section.problem("type", what, "one value is never read in two requests: raise block_max");
    }
    let order = order_of(section, table, kind);
    let plain = Register::plain(
        table.unwrap_or(Table::Holding),
        address.unwrap_or(0),
        kind.unwrap_or(RegisterKind::U16),
    );
    let mut register = Register { order, entity, ..plain };
    register.property = property.unwrap_or_default();
    numbers(section, kind, &mut register);
    register.unit = section.read("unit", None, |value| {
        let unit = value::text(value)?;
        let fix = format!("use at most {}", limits::NAME_BYTES_MAX);
        match unit.len() {
            0 => Ok(None),
            1..=limits::NAME_BYTES_MAX => Ok(Some(unit)),
            bytes => Err(Wrong::new(format!("has {bytes} bytes"), fix)),
        }
    });
    section.refuse_unknown();
    register
}

/// What only numbers have.
fn numbers(section: &Section<'_>, kind: Option<RegisterKind>, register: &mut Register) {
    let Some(kind) = kind.filter(|kind| !kind.is_number()) else {
        register.scale = section.read("scale", 1.0, scale);
        register.offset = section.read("offset", 0.0, value::number(-1e300..=1e300));
        register.deadband = section.read("deadband", 0.0, value::number(0.0..=1e300));
        register.invalid = section.read("invalid", Vec::new(), |value| match kind {
            Some(kind) => codes(value, kind),
            None => Ok(Vec::new()),
        });
        return;
    };
    for key in ["scale", "offset", "deadband", "invalid"] {
        let what = format!("means nothing for a {}", kind_word(kind));
        section.out_of_place(key, what, "leave it out, or use a type that is a number");
    }
}

/// The kind with its bit or length, refused where the table has none such.
fn widths(
    section: &Section<'_>,
    table: Option<Table>,
    kind: Option<RegisterKind>,
) -> Option<RegisterKind> {
    let (bits, lengths) = (value::integer(0..=15), value::integer(1..=125));
    let Some(kind) = kind else {
        section.read("bit", 0, bits);
        section.read("length", 1, lengths);
        return None;
    };
    if let Some(table) = table.filter(|table| table.is_bits() != (kind == RegisterKind::Bool)) {
        let (what, fix) = match table.is_bits() {
            true => ("a table of bits holds no registers", "use type = \"bool\""),
            false => (
                "a register is no bool",
                "use type = \"bit\" with bit = 0 to 15, or table = \"coil\" or \"discrete\"",
            ),
        };
        section.problem("type", what, fix);
    }
    let bit = match kind {
        RegisterKind::Bit(_) => section.require("bit", "0", bits),
        _ => {
            section.out_of_place("bit", "is of type = \"bit\"", "leave it out");
            None
        }
    };
    let length = match kind {
        RegisterKind::Text(_) => section.require("length", "8", lengths),
        _ => {
            section.out_of_place("length", "is of type = \"string\"", "leave it out");
            None
        }
    };
    Some(match kind {
        RegisterKind::Bit(_) => RegisterKind::Bit(bit.unwrap_or(0) as u8),
        RegisterKind::Text(_) => RegisterKind::Text(length.unwrap_or(1) as u16),
        kind => kind,
    })
}

fn kind_word(kind: RegisterKind) -> &'static str {
    match kind {
        RegisterKind::Bit(_) => "bit",
        RegisterKind::Text(_) => "string",
        kind => word(&KINDS, kind),
    }
}

fn scale(value: &DeValue<'_>) -> Result<f64, Wrong> {
    match value::number(-1e300..=1e300)(value)? {
        0.0 => Err(Wrong::new("is 0: every value would be the same", "use another number")),
        scale => Ok(scale),
    }
}

fn order_of(section: &Section<'_>, table: Option<Table>, kind: Option<RegisterKind>) -> Order {
    if table.is_some_and(Table::is_bits) {
        section.out_of_place("order", "means nothing for a bool", "leave it out");
        return Order::default();
    }
    let Some(kind) = kind else {
        let all = [orders(1), orders(2), orders(4)].concat();
        return section.read("order", Order::default(), value::one_of(&all));
    };
    section.read("order", Order::default(), value::one_of(orders(order_width(kind))))
}

/// Texts are ordered within their registers only.
const fn order_width(kind: RegisterKind) -> u16 {
    match kind {
        RegisterKind::Text(_) => 1,
        kind => kind.width(),
    }
}

/// First address of a table where the first digit names the table: with five
/// digits, and with six.
const fn from_one(table: Table) -> (u64, u64) {
    match table {
        Table::Coil => (1, 1),
        Table::Discrete => (10_001, 100_001),
        Table::Input => (30_001, 300_001),
        Table::Holding => (40_001, 400_001),
    }
}

/// Whether an address in the notation of the frame begins with the digit of its table
/// and has its length, as those of manuals do.
pub(super) fn is_of_manual(register: &Register) -> bool {
    let (first, _) = from_one(register.table);
    let address = u64::from(register.address);
    register.table != Table::Coil && (first..first + 9_999).contains(&address)
}

/// `table`: `None` where it cannot be used.
fn address(value: &DeValue<'_>, table: Option<Table>, notation: Notation) -> Result<u16, Wrong> {
    if notation == Notation::Wire {
        let in_range = value::integer(0..=65_535)(value).map_err(|wrong| {
            let hint = "0 to 65535, as in the frame (notation = \"40001\" counts as manuals do)";
            Wrong::new(wrong.what, format!("use {hint}"))
        });
        return in_range.map(|address| address as u16);
    }
    let Some(table) = table else {
        let any = value::integer(1..=465_536)(value);
        return any.map(|_| 0);
    };
    let name = table.as_str();
    let (five, six) = from_one(table);
    let ranges = match table {
        Table::Coil => "1 to 65536".to_owned(),
        _ => format!("{five} to {}, or {six} to {}", five + 9_998, six + 65_535),
    };
    let fix = format!("by notation = \"40001\" a {name} address is {ranges}");
    let number = value::integer(0..=u64::MAX >> 1)(value)
        .map_err(|wrong| Wrong::new(wrong.what, fix.clone()))?;
    let from_five = number.checked_sub(five).filter(|at| table == Table::Coil || *at < 9_999);
    let at = from_five.or_else(|| number.checked_sub(six));
    at.and_then(|at| u16::try_from(at).ok())
        .ok_or_else(|| Wrong::new(format!("{number} is not an address of a {name}"), fix))
}

fn codes(value: &DeValue<'_>, kind: RegisterKind) -> Result<Vec<InvalidCode>, Wrong> {
    let Some(array) = value.as_array() else {
        return Err(Wrong::new("is not a list", "write [\"0xFFFF\"] or [-32768]"));
    };
    array.iter().map(|element| code(element.get_ref(), kind)).collect()
}

fn code(value: &DeValue<'_>, kind: RegisterKind) -> Result<InvalidCode, Wrong> {
    let bits = 16 * u32::from(kind.width());
    let fits = |number: i128| match kind {
        RegisterKind::I16 | RegisterKind::I32 | RegisterKind::I64 => {
            number >= -(1 << (bits - 1)) && number < 1 << (bits - 1)
        }
        _ => number >= 0 && number < 1 << bits,
    };
    let fix = format!(
        "write bits like \"0x{}\", or a number that the type can be",
        "F".repeat(bits as usize / 4)
    );
    match value {
        DeValue::String(text) => {
            let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
            let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let fitting = number.filter(|number| bits == 64 || number >> bits == 0);
            fitting
                .map(InvalidCode::Bits)
                .ok_or_else(|| Wrong::new(format!("{text:?} is no code of {bits} bits"), fix))
        }
        DeValue::Integer(digits) if !kind.is_float() => {
            let number = i128::from_str_radix(digits.as_str(), digits.radix()).ok();
            number
                .filter(|number| fits(*number))
                .map(InvalidCode::Whole)
                .ok_or_else(|| Wrong::new(format!("{digits} is no number of the type"), fix))
        }
        other if kind.is_float() => value::number(-f64::MAX..=f64::MAX)(other)
            .map(InvalidCode::Real)
            .map_err(|_| Wrong::new("has a code that is no number", fix)),
        _ => Err(Wrong::new("has a code that is no number of the type", fix)),
    }
}

/// As an inline table.
pub(super) fn shown(register: &Register, notation: Notation) -> String {
    let Register { table, kind, .. } = register;
    let address = match (notation, from_one(*table)) {
        (Notation::Wire, _) => u64::from(register.address),
        (Notation::FromOne, (_, six)) => six + u64::from(register.address),
    };
    let mut parts = vec![format!("property = {}", quoted(register.property.as_str()))];
    let mut part = |key: &str, value: String| parts.push(format!("{key} = {value}"));
    if let Some(entity) = &register.entity {
        part("entity", quoted(entity.as_str()));
    }
    part("table", quoted(table.as_str()));
    part("address", address.to_string());
    part("type", quoted(kind_word(*kind)));
    match kind {
        RegisterKind::Bit(bit) => part("bit", bit.to_string()),
        RegisterKind::Text(length) => part("length", length.to_string()),
        _ => {}
    }
    if !table.is_bits() {
        part("order", quoted(register.order.name(order_width(*kind))));
    }
    if kind.is_number() {
        part("scale", format!("{:?}", register.scale));
        part("offset", format!("{:?}", register.offset));
        part("deadband", format!("{:?}", register.deadband));
        let code = |code: &InvalidCode| match code {
            InvalidCode::Bits(bits) => format!("\"{bits:#X}\"").replace("0X", "0x"),
            InvalidCode::Whole(number) => number.to_string(),
            InvalidCode::Real(real) => format!("{real:?}"),
        };
        let codes: Vec<String> = register.invalid.iter().map(code).collect();
        part("invalid", format!("[{}]", codes.join(", ")));
    }
    part("unit", quoted(register.unit.as_deref().unwrap_or_default()));
    format!("{{ {} }}", parts.join(", "))
}
