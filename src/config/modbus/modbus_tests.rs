use super::*;
use crate::config::tests::{check, parse};
use crate::config::{Config, Source, SourceKind};

const HEAD: &str = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";

fn whole(keys: &str) -> Config {
    parse(&format!("{HEAD}[[source]]\nname = 'a'\ntype = 'modbus'\nentity = 'e'\n{keys}\n"))
}

fn modbus(keys: &str) -> Modbus {
    match whole(keys).sources.remove(0).kind {
        SourceKind::Modbus(modbus) => modbus,
        other => panic!("{other:?}"),
    }
}

/// What is said about one register; its line is 10.
fn check_register(keys: &str, expected: &str) {
    let lines = format!(
        "[[source]]\nname = 'a'\ntype = 'modbus'\naddress = 'plc'\nentity = 'e'\n\
         registers = [ {{ property = 'p', {keys} }} ]"
    );
    check(&lines, &format!("t.toml:11: source.registers[0].{expected}"));
}

/// What is said about these lines beside a good register; the first is line 11.
fn check_keys(keys: &str, expected: &str) {
    let lines = format!(
        "[[source]]\nname = 'a'\ntype = 'modbus'\nentity = 'e'\n\
         registers = [ {{ property = 'p', table = 'input', address = 0, type = 'u16' }} ]\n{keys}"
    );
    check(&lines, expected);
}

const ONE: &str = "registers = [ { property = 'p', table = 'input', address = 0, type = 'u16' } ]";

/// The Modbus devices of the sample with their registers, and nothing else that is
/// no default.
pub(in crate::config) fn sampled_devices() -> Vec<Source> {
    let registers = "registers = [
        { property = 'pressure', entity = 'press-1', table = 'holding', address = 10, type = 'f32' },
        { property = 'fault', entity = 'press-1', table = 'holding', address = 12, type = 'bit', bit = 3 },
        { property = 'serial', entity = 'press-1', table = 'input', address = 100, type = 'string', length = 8 },
        { property = 'running', entity = 'press-1', table = 'coil', address = 3, type = 'bool' },
    ]";
    let devices = format!(
        "[[source]]
        name = 'press'
        type = 'modbus'
        address = '10.0.0.10:502'
        entity = 'press-1'
        {registers}
        [[source]]
        name = 'meter'
        type = 'modbus'
        serial = '/dev/ttyUSB0'
        entity = 'meter-1'
        registers = [ {{ property = 'energy_kwh', entity = 'meter-1', table = 'input', address = 0, type = 'u32' }} ]
        "
    );
    parse(&format!("{HEAD}{devices}")).sources
}

#[test]
fn the_least_that_works_has_the_defaults() {
    let expected = Modbus {
        line: ModbusLine::Tcp { host: "plc".to_owned(), port: 502, is_rtu: false },
        unit_id: 1,
        poll: secs(1),
        timeout: secs(1),
        block_max: 125,
        gap_max: 8,
        notation: Notation::Wire,
        registers: vec![Register {
            property: "p".to_owned(),
            ..Register::plain(Table::Input, 0, RegisterKind::U16)
        }],
    };
    assert_eq!(modbus(&format!("address = 'plc'\n{ONE}")), expected);
    let serial = modbus(&format!("serial = '/dev/ttyS0'\n{ONE}")).line;
    let path = PathBuf::from("/dev/ttyS0");
    let port = SerialPort { path, baud: 19_200, parity: Parity::Even, stop_bits: 1 };
    assert_eq!(serial, ModbusLine::Serial(port));
}

#[test]
fn what_is_printed_parses_to_the_same() {
    let config = whole(
        "address = '[fd00::7]:1502'\nrtu_over_tcp = true\nnotation = '40001'\nregisters = [\n\
         { property = 'a', table = 'coil', address = 7, type = 'bool' },\n\
         { property = 'b', entity = 'x', table = 'discrete', address = 10001, type = 'bool' },\n\
         { property = 'c', table = 'input', address = 365536, type = 'i16', order = 'BA',\n\
           scale = 0.1, offset = -40, unit = 'Cel', deadband = 0.5, invalid = ['0x8000', -1] },\n\
         { property = 'd', table = 'holding', address = 40001, type = 'f64', order = 'GHEFCDAB',\n\
           invalid = [9999.5, '0x7FF8000000000000'] },\n\
         { property = 'e', table = 'holding', address = 40001, type = 'bit', bit = 15 },\n\
         { property = 'f', table = 'holding', address = 40002, type = 'string', length = 8, order = 'BA' },\n]",
    );
    assert_eq!(parse(&config.print()), config);
    let serial = whole(&format!(
        "serial = '/dev/ttyUSB0'\nbaud = 9600\nparity = 'none'\nstop_bits = 2\nunit_id = 247\n\
         poll = '500ms'\ntimeout = '300ms'\nblock_max = 50\ngap_max = 0\n{ONE}"
    ));
    assert_eq!(parse(&serial.print()), serial);
}

#[test]
fn each_notation_names_the_same_wire_address() {
    let address = |notation: &str, table: &str, address: &str| {
        let kind = if table == "coil" || table == "discrete" { "bool" } else { "u16" };
        let keys = format!(
            "address = 'plc'\nnotation = '{notation}'\nregisters = [ {{ property = 'p', \
             table = '{table}', address = {address}, type = '{kind}' }} ]"
        );
        let register = modbus(&keys).registers.remove(0);
        register.address
    };
    for first in ["0", "0x0000"] {
        assert_eq!(address("wire", "holding", first), 0);
    }
    assert_eq!(address("wire", "holding", "65535"), 0xFFFF);
    assert_eq!(address("40001", "holding", "40001"), 0);
    assert_eq!(address("40001", "holding", "49999"), 9_998);
    assert_eq!(address("40001", "holding", "400001"), 0);
    assert_eq!(address("40001", "holding", "465536"), 0xFFFF);
    assert_eq!(address("40001", "input", "30011"), 10);
    assert_eq!(address("40001", "input", "365536"), 0xFFFF);
    assert_eq!(address("40001", "discrete", "10001"), 0);
    assert_eq!(address("40001", "coil", "1"), 0);
    assert_eq!(address("40001", "coil", "65536"), 0xFFFF);
}

#[test]
fn an_address_of_another_table_is_refused_and_never_shifted() {
    let refused = |table: &str, kind: &str, address: &str, expected: &str| {
        let lines = format!(
            "[[source]]\nname = 'a'\ntype = 'modbus'\naddress = 'plc'\nentity = 'e'\n\
             notation = '40001'\nregisters = [ {{ property = 'p', table = '{table}', \
             address = {address}, type = '{kind}' }} ]"
        );
        check(&lines, &format!("t.toml:12: source.registers[0].address: {expected}"));
    };
    let holding =
        "by notation = \"40001\" a holding address is 40001 to 49999, or 400001 to 465536";
    for wrong in ["30001", "0", "40000", "50000", "465537"] {
        let expected = format!("{wrong} is not an address of a holding; {holding}");
        refused("holding", "u16", wrong, &expected);
    }
    let coil = "by notation = \"40001\" a coil address is 1 to 65536";
    refused("coil", "bool", "0", &format!("0 is not an address of a coil; {coil}"));
    refused("coil", "bool", "65537", &format!("65537 is not an address of a coil; {coil}"));
}

#[test]
fn registers_that_cannot_be_are_refused_with_their_line() {
    check_register(
        "table = 'holding', address = 65536, type = 'u16'",
        "address: 65536 is out of range; use 0 to 65535, as in the frame \
         (notation = \"40001\" counts as manuals do)",
    );
    check_register(
        "table = 'holding', address = 65535, type = 'f32'",
        "address: its 2 registers reach beyond the last one, 65535; lower it, or use a shorter type",
    );
    check_register(
        "table = 'coil', address = 1, type = 'u16'",
        "type: a table of bits holds no registers; use type = \"bool\"",
    );
    check_register(
        "table = 'input', address = 1, type = 'bool'",
        "type: a register is no bool; use type = \"bit\" with bit = 0 to 15, \
         or table = \"coil\" or \"discrete\"",
    );
    check_register(
        "table = 'coil', address = 1, type = 'bool', scale = 0.1",
        "scale: means nothing for a bool; leave it out, or use a type that is a number",
    );
    check_register("table = 'input', address = 1, type = 'bit'", "bit: missing; write bit = 0");
    check_register(
        "table = 'input', address = 1, type = 'u16', bit = 3",
        "bit: is of type = \"bit\"; leave it out",
    );
    check_register(
        "table = 'input', address = 1, type = 'f32', order = 'ABDC'",
        "order: \"ABDC\" is not known; use ABCD | CDAB | BADC | DCBA",
    );
    check_register(
        "table = 'input', address = 1, type = 'u64', order = 'ABCD'",
        "order: \"ABCD\" is not known; use ABCDEFGH | GHEFCDAB | BADCFEHG | HGFEDCBA",
    );
    check_register(
        "table = 'input', address = 1, type = 'u16', scale = 0",
        "scale: is 0: every value would be the same; use another number",
    );
    check_register(
        "table = 'input', address = 1, type = 'u16', invalid = ['0x10000']",
        "invalid: \"0x10000\" is no code of 16 bits; \
         write bits like \"0xFFFF\", or a number that the type can be",
    );
    check_register(
        "table = 'input', address = 1, type = 'i16', invalid = [32768]",
        "invalid: 32768 is no number of the type; \
         write bits like \"0xFFFF\", or a number that the type can be",
    );
}

#[test]
fn lines_that_cannot_be_are_refused() {
    check_keys(
        "",
        "t.toml:6: source.address: missing; write address = \"10.0.0.10:502\", \
         or serial = \"/dev/ttyUSB0\"",
    );
    check_keys(
        "address = 'http://plc'",
        "t.toml:11: source.address: \"http://plc\" is not an address; \
         write it like \"10.0.0.10:502\", \"[fd00::7]:502\" or \"meter.local\"",
    );
    check_keys(
        "address = 'plc'\nbaud = 9600",
        "t.toml:12: source.baud: is of a serial port; write serial, or leave it out",
    );
    check_keys(
        "serial = '/dev/ttyS0'\nrtu_over_tcp = true",
        "t.toml:12: source.rtu_over_tcp: is of an address; leave it out",
    );
    check_keys(
        "serial = '/dev/ttyS0'\nunit_id = 0",
        "t.toml:12: source.unit_id: is the broadcast address of a serial line: \
         nobody answers to it; use 1 to 247",
    );
    check_keys(
        "address = 'plc'\nunit_id = 256",
        "t.toml:12: source.unit_id: 256 is out of range; use 0 to 255",
    );
    check_keys(
        "address = 'plc'\nformat = 'json'",
        "t.toml:12: source.format: unknown key; known here: name, type, baud, \
         parity, stop_bits, serial, address, rtu_over_tcp, unit_id, poll, timeout, block_max, gap_max, notation, registers, \
         time, entity, accumulate, deadband, dedupe",
    );
    check(
        "[[source]]\nname = 'a'\ntype = 'modbus'\naddress = 'plc'\nregisters = []\nentity = 'e'",
        "t.toml:10: source.registers: nothing is read; write registers = [ { property = \
         \"pressure\", table = \"holding\", address = 10, type = \"f32\" } ]",
    );
    check(
        &format!("[[source]]\nname = 'a'\ntype = 'modbus'\naddress = 'plc'\n{ONE}"),
        "t.toml:6: source.entity: missing, and the register \"p\" has none of its own; \
         write entity = \"press-1\"",
    );
}

#[test]
fn sources_of_one_port_agree_on_it_and_properties_come_once() {
    let port = |more: &str| {
        format!(
            "[[source]]\nname = 'n{}'\ntype = 'modbus'\nentity = 'e'\nserial = '/dev/ttyS0'\n{more}\n{ONE}\n",
            more.len()
        )
    };
    parse(&format!("{HEAD}{}{}", port("unit_id = 1"), port("unit_id = 22")));
    check(
        &format!("{}{}", port("baud = 9600"), port("parity = 'odd'")),
        "t.toml:17: source.serial: the source n11 uses this port in another way; \
         write the same baud, parity and stop_bits",
    );
    check(
        "[[source]]\nname = 'a'\ntype = 'modbus'\naddress = 'plc'\nentity = 'e'\nregisters = [\n\
         { property = 'p', table = 'input', address = 0, type = 'u16' },\n\
         { property = 'p', table = 'input', address = 1, type = 'u16' },\n]",
        "t.toml:13: source.registers[1].property: \"p\" is the property of an earlier register; \
         give each its own",
    );
}
