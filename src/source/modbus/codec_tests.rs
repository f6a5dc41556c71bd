use proptest::prelude::*;

use super::*;
use crate::config::modbus::Table;

fn register(kind: RegisterKind) -> Register {
    Register::plain(Table::Holding, 0, kind)
}

fn ordered_as(kind: RegisterKind, order: Order) -> Register {
    Register { order, ..register(kind) }
}

fn bytes(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn value(register: &Register, words: &[u16]) -> Value {
    let decoded = decode(register, &bytes(words));
    assert_eq!((decoded.quality, decoded.detail), (Quality::Good, None));
    decoded.value
}

fn why_bad(register: &Register, words: &[u16]) -> String {
    let decoded = decode(register, &bytes(words));
    assert!(matches!(decoded.value, Value::F64(number) if number.is_nan()));
    assert_eq!(decoded.quality, Quality::Bad);
    decoded.detail.unwrap()
}

#[test]
fn each_order_gives_the_same_float() {
    let float = [
        ("ABCD", [0x42F6, 0xE979]),
        ("CDAB", [0xE979, 0x42F6]),
        ("BADC", [0xF642, 0x79E9]),
        ("DCBA", [0x79E9, 0xF642]),
    ];
    for (order, (name, words)) in Order::ALL.into_iter().zip(float) {
        assert_eq!(order.name(2), name);
        let register = ordered_as(RegisterKind::F32, order);
        assert_eq!(value(&register, &words), Value::F64(123.456), "{name}");
    }
    let double = [
        ("ABCDEFGH", [0xC071, 0x1266, 0x6666, 0x6666]),
        ("GHEFCDAB", [0x6666, 0x6666, 0x1266, 0xC071]),
        ("BADCFEHG", [0x71C0, 0x6612, 0x6666, 0x6666]),
        ("HGFEDCBA", [0x6666, 0x6666, 0x6612, 0x71C0]),
    ];
    for (order, (name, words)) in Order::ALL.into_iter().zip(double) {
        assert_eq!(order.name(4), name);
        let register = ordered_as(RegisterKind::F64, order);
        assert_eq!(value(&register, &words), Value::F64(-273.15), "{name}");
    }
}

#[test]
fn integers_keep_sign_and_every_digit() {
    let whole = |kind, words: &[u16]| value(&register(kind), words);
    assert_eq!(whole(RegisterKind::I16, &[0xFFEC]), Value::I64(-20));
    assert_eq!(whole(RegisterKind::I32, &[0xFFFF, 0xFF06]), Value::I64(-250));
    assert_eq!(whole(RegisterKind::I64, &[0xFFFF, 0xFFFF, 0xFFFF, 0xFBB5]), Value::I64(-1_099));
    let beyond_f64 = [0x0020, 0, 0, 1];
    assert_eq!(whole(RegisterKind::U64, &beyond_f64), Value::I64(9_007_199_254_740_993));
    assert_eq!(whole(RegisterKind::U32, &[0xB2D0, 0x5E00]), Value::I64(3_000_000_000));
    assert_eq!(whole(RegisterKind::U64, &[0xFFFF; 4]), Value::U64(u64::MAX));
    assert_eq!(whole(RegisterKind::U16, &[0xFFEC]), Value::I64(65_516));
    let swapped = ordered_as(RegisterKind::U16, Order::ALL[2]);
    assert_eq!(value(&swapped, &[0x1234]), Value::I64(0x3412));
}

#[test]
fn scale_and_offset_round_once() {
    let scaled = |kind, scale, offset, words: &[u16]| {
        value(&Register { scale, offset, ..register(kind) }, words)
    };
    assert_eq!(scaled(RegisterKind::I16, 0.1, 0.0, &[0xFFEC]), Value::F64(-2.0));
    assert_eq!(scaled(RegisterKind::U16, 0.1, 0.0, &[3]), Value::F64(0.3));
    assert_eq!(scaled(RegisterKind::U16, 0.001, -273.15, &[10_000]), Value::F64(-263.15));
    assert_eq!(scaled(RegisterKind::U16, 10.0, 0.5, &[7]), Value::F64(70.5));
    let most = scaled(RegisterKind::U64, 0.1, 0.0, &[0xFFFF; 4]);
    assert_eq!(most, Value::F64(1_844_674_407_370_955_161.5));
    // Too long for decimals of 128 bits: in binary then.
    assert_eq!(scaled(RegisterKind::U16, 1e300, 1e-300, &[2]), Value::F64(2e300));
    assert_eq!(scaled(RegisterKind::F32, 2.0, 1.0, &[0x41A0, 0]), Value::F64(41.0));
}

#[test]
fn codes_that_mean_not_available_are_no_measurements() {
    let coded = |kind, invalid: &[InvalidCode]| Register {
        invalid: invalid.to_vec(),
        scale: 0.1,
        ..register(kind)
    };
    let none = coded(RegisterKind::U16, &[InvalidCode::Bits(0xFFFF)]);
    assert_eq!(value(&none, &[0x0064]), Value::F64(10.0));
    assert_eq!(why_bad(&none, &[0xFFFF]), "0xFFFF means not available");
    let signed = coded(RegisterKind::I16, &[InvalidCode::Whole(-32_768)]);
    assert_eq!(why_bad(&signed, &[0x8000]), "0x8000 means not available");
    let swapped = Register {
        order: Order::ALL[1],
        ..coded(RegisterKind::I32, &[InvalidCode::Bits(0x8000_0000)])
    };
    assert_eq!(why_bad(&swapped, &[0, 0x8000]), "0x80000000 means not available");
    let real = coded(RegisterKind::F32, &[InvalidCode::Real(-9_999.0)]);
    assert_eq!(why_bad(&real, &[0xC61C, 0x3C00]), "0xC61C3C00 means not available");
    let long = coded(RegisterKind::U64, &[InvalidCode::Bits(u64::MAX)]);
    assert_eq!(why_bad(&long, &[0xFFFF; 4]), "0xFFFFFFFFFFFFFFFF means not available");
    for not_finite in [[0x7FC0, 0], [0x7F80, 0], [0xFF80, 0]] {
        let plain = register(RegisterKind::F32);
        assert_eq!(why_bad(&plain, &not_finite), "not a finite number");
    }
}

#[test]
fn bits_and_texts() {
    let bit = |bit| value(&register(RegisterKind::Bit(bit)), &[0x8001]);
    assert_eq!([bit(0), bit(1), bit(15)], [true, false, true].map(Value::Bool));
    let coil = Register::plain(Table::Coil, 0, RegisterKind::Bool);
    assert_eq!(decode(&coil, &[1]).value, Value::Bool(true));
    assert_eq!(decode(&coil, &[0]).value, Value::Bool(false));
    let text = |order, words: &[u16]| {
        value(&ordered_as(RegisterKind::Text(words.len() as u16), order), words)
    };
    let big = Order::default();
    assert_eq!(text(big, &[0x4142, 0x4320, 0x2000]), Value::Text("ABC".into()));
    assert_eq!(text(big, &[0x4142, 0x0043]), Value::Text("AB".into()));
    assert_eq!(text(Order::ALL[2], &[0x4241, 0x2043]), Value::Text("ABC".into()));
    // Latin-1, and UTF-8, of the same two signs.
    assert_eq!(text(big, &[0xB043]), Value::Text("°C".into()));
    assert_eq!(text(big, &[0xC2B0, 0x4300]), Value::Text("°C".into()));
}

proptest! {
    #[test]
    fn every_integer_comes_back_in_every_order(number: i64, order in 0..4_usize) {
        let order = Order::ALL[order];
        let mut words: Vec<[u8; 2]> = number.to_be_bytes().as_chunks().0.to_vec();
        if order.reverses_words {
            words.reverse();
        }
        if order.swaps_bytes {
            words.iter_mut().for_each(|word| word.reverse());
        }
        let decoded = decode(&ordered_as(RegisterKind::I64, order), &words.concat());
        prop_assert_eq!(decoded.value, Value::I64(number));
    }

    #[test]
    fn a_decimal_scale_gives_the_number_that_people_would_write(raw: i32, places in 0..7_u32) {
        let text = format!("{raw}e-{places}");
        let scale = format!("1e-{places}").parse().unwrap();
        let scaled = Register { scale, ..register(RegisterKind::I32) };
        let words = raw.to_be_bytes();
        let expected: f64 = text.parse().unwrap();
        match decode(&scaled, &words).value {
            Value::F64(number) => prop_assert_eq!(number, expected),
            Value::I64(number) => prop_assert_eq!(number, i64::from(raw)),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
