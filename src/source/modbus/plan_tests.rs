use proptest::prelude::*;

use super::*;
use crate::config::modbus::{ModbusLine, Notation, RegisterKind};

fn device(registers: Vec<Register>) -> Modbus {
    Modbus {
        line: ModbusLine::Tcp { host: "plc".to_owned(), port: 502, is_rtu: false },
        unit_id: 1,
        poll: std::time::Duration::from_secs(1),
        timeout: std::time::Duration::from_secs(1),
        block_max: 125,
        gap_max: 8,
        notation: Notation::Wire,
        registers,
    }
}

fn input(address: u16, kind: RegisterKind) -> Register {
    Register::plain(Table::Input, address, kind)
}

/// First address and length of each block.
fn blocks(modbus: &Modbus) -> Vec<(u16, u16)> {
    plan(modbus).iter().map(|block| (block.address, block.count)).collect()
}

/// 88 values of 32 bits and one of 16 behind them.
fn meter() -> Modbus {
    let long = (0..88).map(|at| input(3_000 + 2 * at, RegisterKind::U32));
    device(long.chain([input(3_176, RegisterKind::U16)]).collect())
}

#[test]
fn a_long_row_is_cut_between_values() {
    assert_eq!(blocks(&meter()), [(3_000, 124), (3_124, 53)]);
    let shorter = Modbus { block_max: 50, ..meter() };
    assert_eq!(blocks(&shorter), [(3_000, 50), (3_050, 50), (3_100, 50), (3_150, 27)]);
    let one = Modbus { block_max: 2, ..meter() };
    assert_eq!(blocks(&one).len(), 89);
}

#[test]
fn gaps_are_read_over_as_far_as_they_may() {
    let at = |addresses: &[u16]| {
        device(addresses.iter().map(|at| input(*at, RegisterKind::U16)).collect())
    };
    assert_eq!(blocks(&at(&[0, 9])), [(0, 10)]);
    assert_eq!(blocks(&at(&[0, 10])), [(0, 1), (10, 1)]);
    assert_eq!(blocks(&Modbus { gap_max: 0, ..at(&[0, 1, 3]) }), [(0, 2), (3, 1)]);
    assert_eq!(blocks(&at(&[65_535, 65_530])), [(65_530, 6)]);
}

#[test]
fn tables_are_apart_and_bits_go_sixteen_to_a_register() {
    let bit = |table, address| Register::plain(table, address, RegisterKind::Bool);
    let mixed = device(vec![
        input(5, RegisterKind::U16),
        bit(Table::Coil, 5),
        bit(Table::Coil, 133),
        bit(Table::Discrete, 5),
        Register::plain(Table::Holding, 5, RegisterKind::U16),
        bit(Table::Coil, 263),
    ]);
    let found: Vec<(Table, u16, u16)> =
        plan(&mixed).iter().map(|block| (block.table, block.address, block.count)).collect();
    let expected = [
        (Table::Coil, 5, 129),
        (Table::Coil, 263, 1),
        (Table::Discrete, 5, 1),
        (Table::Input, 5, 1),
        (Table::Holding, 5, 1),
    ];
    assert_eq!(found, expected);
    let row = (0..2_500).map(|address| bit(Table::Coil, address)).collect();
    assert_eq!(blocks(&device(row)), [(0, 2_000), (2_000, 500)]);
}

#[test]
fn overlapping_registers_share_what_they_have_in_common() {
    let modbus = device(vec![
        input(10, RegisterKind::U32),
        input(11, RegisterKind::Bit(3)),
        input(10, RegisterKind::U64),
        input(11, RegisterKind::Bit(4)),
    ]);
    let block = &plan(&modbus)[0];
    assert_eq!((block.address, block.count), (10, 4));
    let data = [0, 1, 2, 3, 4, 5, 6, 7];
    assert_eq!(block.bytes_of(&modbus.registers[0], &data), [0, 1, 2, 3]);
    assert_eq!(block.bytes_of(&modbus.registers[1], &data), [2, 3]);
    assert_eq!(block.bytes_of(&modbus.registers[2], &data), data);
}

#[test]
fn a_refused_block_is_halved_down_to_single_places() {
    let modbus = device(vec![
        input(0, RegisterKind::U32),
        input(4, RegisterKind::Bit(0)),
        input(4, RegisterKind::Bit(1)),
    ]);
    let block = plan(&modbus).remove(0);
    let [before, after] = block.halves(&modbus.registers).unwrap();
    assert_eq!((before.address, before.count, &before.members[..]), (0, 2, &[0][..]));
    assert_eq!((after.address, after.count, &after.members[..]), (4, 1, &[1, 2][..]));
    assert_eq!(before.halves(&modbus.registers), None);
    assert_eq!(after.halves(&modbus.registers), None, "both bits are in one register");
}

#[test]
fn bits_are_unpacked_from_the_least_significant() {
    let bit = |address| Register::plain(Table::Coil, address, RegisterKind::Bool);
    let modbus = device((19..56).map(bit).collect());
    let block = plan(&modbus).remove(0);
    // The example of the standard: coils 20 to 56 of a manual.
    let data = [0xCD, 0x6B, 0xB2, 0x0E, 0x1B];
    let first: Vec<u8> =
        modbus.registers[..8].iter().map(|one| block.bytes_of(one, &data)[0]).collect();
    assert_eq!(first, [1, 0, 1, 1, 0, 0, 1, 1]);
    assert_eq!(block.bytes_of(&modbus.registers[36], &data), [1]);
}

fn kind() -> impl Strategy<Value = RegisterKind> {
    prop_oneof![
        Just(RegisterKind::U16),
        Just(RegisterKind::F32),
        Just(RegisterKind::I64),
        (1..20_u16).prop_map(RegisterKind::Text),
    ]
}

fn registers() -> impl Strategy<Value = Vec<Register>> {
    let one = (any::<bool>(), 0..600_u16, kind()).prop_map(|(is_input, address, kind)| {
        let table = if is_input { Table::Input } else { Table::Holding };
        Register::plain(table, address, kind)
    });
    proptest::collection::vec(one, 1..80)
}

proptest! {
    #[test]
    fn every_register_is_read_once_whole_and_within_the_limits(
        registers in registers(),
        block_max in 20..=125_u16,
        gap_max in 0..20_u16,
    ) {
        let modbus = Modbus { block_max, gap_max, ..device(registers) };
        let blocks = plan(&modbus);
        let mut seen: Vec<usize> = Vec::new();
        for block in &blocks {
            prop_assert!((1..=block_max).contains(&block.count));
            for at in &block.members {
                let one = &modbus.registers[*at];
                prop_assert_eq!(one.table, block.table);
                prop_assert!(one.address >= block.address);
                let end = one.address + one.kind.width();
                prop_assert!(end <= block.address + block.count);
            }
            seen.extend(&block.members);
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..modbus.registers.len()).collect::<Vec<_>>());
    }

    #[test]
    fn halving_ends_and_loses_nothing(registers in registers()) {
        let modbus = device(registers);
        let mut todo = plan(&modbus);
        let mut seen: Vec<usize> = Vec::new();
        while let Some(block) = todo.pop() {
            match block.halves(&modbus.registers) {
                Some(halves) => {
                    prop_assert!(halves.iter().all(|half| half.members.len() < block.members.len()));
                    prop_assert!(halves.iter().all(|half| !half.members.is_empty()));
                    todo.extend(halves);
                }
                None => seen.extend(block.members),
            }
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..modbus.registers.len()).collect::<Vec<_>>());
    }
}
