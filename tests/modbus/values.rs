//! MB-01, MB-02, MB-03, MB-06 and MB-07: what registers mean, to the last digit.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::core::reading::Value;

use super::rig::{bad, start};
use super::support::modbus::device;

type Said = (String, Result<Value, String>);

fn register(property: &str, address: u16, kind: &str, more: &str) -> String {
    format!(
        "  {{ property = '{property}', table = 'holding', address = {address}, type = '{kind}'{more} }},\n"
    )
}

fn is(property: &str, value: Value) -> Said {
    (property.to_owned(), Ok(value))
}

/// The first batch of a device with these words from address 0 on.
async fn said(words: &'static [u16], registers: &[String]) -> Vec<Said> {
    let device =
        device(|asked| asked.good(|at| words.get(usize::from(at)).copied().unwrap_or(0))).await;
    let keys = format!("address = '{}'\nregisters = [\n{}]", device.address, registers.concat());
    let mut rig = start(&keys);
    let said = rig.said().await;
    rig.stop().await;
    said
}

#[tokio::test]
async fn mb_01_floats_in_every_order() {
    const WORDS: [u16; 18] = [
        0x42F6, 0xE979, 0xE979, 0x42F6, 0xF642, 0x79E9, 0x79E9, 0xF642, 0, 0, 0xC071, 0x1266,
        0x6666, 0x6666, 0x6666, 0x6666, 0x1266, 0xC071,
    ];
    let registers = [
        register("abcd", 0, "f32", ""),
        register("cdab", 2, "f32", ", order = 'CDAB'"),
        register("badc", 4, "f32", ", order = 'BADC'"),
        register("dcba", 6, "f32", ", order = 'DCBA'"),
        register("big", 10, "f64", ""),
        register("reversed", 14, "f64", ", order = 'GHEFCDAB'"),
    ];
    let expected = [
        is("abcd", Value::F64(123.456)),
        is("cdab", Value::F64(123.456)),
        is("badc", Value::F64(123.456)),
        is("dcba", Value::F64(123.456)),
        is("big", Value::F64(-273.15)),
        is("reversed", Value::F64(-273.15)),
    ];
    assert_eq!(said(&WORDS, &registers).await, expected);
}

#[tokio::test]
async fn mb_02_integers_keep_sign_and_every_digit() {
    const WORDS: [u16; 17] = [
        0xFFEC, 0xFFFF, 0xFF06, 0xFFFF, 0xFFFF, 0xFFFF, 0xFBB5, 0x0020, 0, 0, 1, 0xB2D0, 0x5E00,
        0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
    ];
    let registers = [
        register("i16", 0, "i16", ""),
        register("tenths", 0, "i16", ", scale = 0.1"),
        register("i32", 1, "i32", ""),
        register("i64", 3, "i64", ""),
        register("u64", 7, "u64", ""),
        register("u32", 11, "u32", ""),
        register("max", 13, "u64", ""),
    ];
    let expected = [
        is("i16", Value::I64(-20)),
        is("tenths", Value::F64(-2.0)),
        is("i32", Value::I64(-250)),
        is("i64", Value::I64(-1099)),
        is("u64", Value::I64(9_007_199_254_740_993)),
        is("u32", Value::I64(3_000_000_000)),
        is("max", Value::U64(18_446_744_073_709_551_615)),
    ];
    assert_eq!(said(&WORDS, &registers).await, expected);
}

#[tokio::test]
async fn mb_03_each_notation_asks_for_the_same_register() {
    let device = device(|asked| asked.good(|at| 1_000_u16.wrapping_add(at))).await;
    for (notation, first, last) in [
        ("wire", "0", "65535"),
        ("wire", "0x0000", "0xFFFF"),
        ("40001", "40001", "465536"),
        ("40001", "400001", "465536"),
    ] {
        for (address, wire) in [(first, 0), (last, 0xFFFF)] {
            let mut rig = start(&format!(
                "address = '{}'\nnotation = '{notation}'\nregisters = [ {{ property = 'p', \
                 table = 'holding', address = {address}, type = 'u16' }} ]",
                device.address
            ));
            let value = i64::from(1_000_u16.wrapping_add(wire));
            assert_eq!(rig.said().await, [is("p", Value::I64(value))], "{notation} {address}");
            let asked = *device.asked().last().unwrap();
            assert_eq!((asked.function, asked.address, asked.count), (3, wire, 1));
            rig.stop().await;
        }
    }
}

#[tokio::test]
async fn mb_06_a_hole_in_a_long_row_costs_its_own_registers() {
    let device = device(|asked| {
        let hole = 3_100..3_110;
        let is_in_it = (asked.address..asked.address + asked.count).any(|at| hole.contains(&at));
        if is_in_it { asked.exception(2) } else { asked.good(|at| at) }
    })
    .await;
    let long = (0..88).map(|at| register(&format!("v{at}"), 3_000 + 2 * at, "u32", ""));
    let registers: String = long.chain([register("last", 3_176, "u16", "")]).collect();
    let mut rig = start(&format!("address = '{}'\nregisters = [\n{registers}]", device.address));
    let (mut good, mut lost) = (Vec::new(), Vec::new());
    while good.len() + lost.len() < 89 {
        for (property, value) in rig.said().await {
            match value {
                Ok(_) => good.push(property),
                Err(why) => {
                    assert_eq!(why, "exception 2 (illegal data address)");
                    lost.push(property);
                }
            }
        }
    }
    lost.sort();
    assert_eq!(lost, ["v50", "v51", "v52", "v53", "v54"]);
    assert_eq!(good.last().map(String::as_str), Some("last"));
    assert!(device.asked().iter().all(|asked| (1..=125).contains(&asked.count)));
    rig.stop().await;
}

#[tokio::test]
async fn mb_07_codes_for_not_available_are_no_measurements() {
    const POLLS: [[u16; 6]; 3] = [
        [0x0064, 0xFFF6, 0x0000, 0x0001, 0x41A0, 0x0000],
        [0xFFFF, 0x8000, 0x8000, 0x0000, 0x7FC0, 0x0000],
        [0x00C8, 0x000A, 0x0000, 0x0003, 0x41F0, 0x0000],
    ];
    let polls = AtomicUsize::new(0);
    let device = device(move |asked| {
        let words = POLLS[polls.fetch_add(1, Ordering::Relaxed).min(2)];
        asked.good(|at| words[usize::from(at)])
    })
    .await;
    let registers = [
        register("power", 0, "u16", ", scale = 0.1, invalid = ['0xFFFF']"),
        register("temp", 1, "i16", ", invalid = ['0x8000']"),
        register("energy", 2, "i32", ", invalid = ['0x80000000']"),
        register("level", 4, "f32", ""),
    ];
    let keys = format!("address = '{}'\nregisters = [\n{}]", device.address, registers.concat());
    let mut rig = start(&keys);
    let good = |power, temp, energy, level| {
        [
            is("power", Value::F64(power)),
            is("temp", Value::I64(temp)),
            is("energy", Value::I64(energy)),
            is("level", Value::F64(level)),
        ]
    };
    assert_eq!(rig.said().await, good(10.0, -10, 1, 20.0));
    let unavailable = [
        bad("power", "0xFFFF means not available"),
        bad("temp", "0x8000 means not available"),
        bad("energy", "0x80000000 means not available"),
        bad("level", "not a finite number"),
    ];
    assert_eq!(rig.said().await, unavailable);
    assert_eq!(rig.said().await, good(20.0, 10, 3, 30.0));
    rig.stop().await;
}
