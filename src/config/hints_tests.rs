use super::super::tests::{check, problems};
use super::near;

#[test]
fn short_words_must_be_nearer_than_long_ones() {
    assert_eq!(near("rate", &["name", "time"]), None);
    assert_eq!(near("tme", &["name", "time"]), Some("time"));
    assert_eq!(near("port", &["poll", "path"]), None);
    assert_eq!(near("htp", &["clock", "http"]), Some("http"));
    assert_eq!(
        near("commit_intervall", &["commit_bytes", "commit_interval"]),
        Some("commit_interval")
    );
    assert_eq!(near("keepalive", &["keep_alive"]), Some("keep_alive"));
    assert_eq!(near("from_start", &["format", "from"]), None);
}

#[test]
fn words_of_others_are_answered_with_what_is_written_here() {
    let modbus = "[[source]]\nname = 'a'\ntype = 'modbus'\naddress = 'plc'\nentity = 'e'\n\
                  registers = [ { property = 'p', table = 'input', address = 0, type = 'u16' } ]";
    check(
        &format!("{modbus}\nport = 502"),
        "t.toml:12: source.port: unknown key; write it in address, like \"10.0.0.10:502\"",
    );
    check(
        "[[source]]\nname = 'a'\ntype = 'file'\npath = '/a'\nfrom_start = true",
        "t.toml:10: source.from_start: unknown key; write from = \"start\" or from = \"end\"",
    );
    check(
        "password = 'p'",
        "t.toml:6: uplink.password: unknown key; write it into a file and name that in \
         password_file",
    );
}

#[test]
fn a_number_where_an_address_belongs_is_answered_with_its_form() {
    check(
        "[[source]]\nname = 'a'\ntype = 'listen'\naddress = 7000",
        "t.toml:9: source.address: is an integer, not an address; write it like \
         \"127.0.0.1:7000\" or \"unix:/run/tidegate/in.sock\"",
    );
    check(
        "[http]\nlisten = 9180",
        "t.toml:7: http.listen: is an integer, not an address; write it like \"127.0.0.1:9180\", \
         or \"\" for none",
    );
    check(
        "backfill_rate = 2000",
        "t.toml:6: uplink.backfill_rate: is an integer, not a rate; write readings a second like \
         \"2000/s\", or \"none\"",
    );
}

#[test]
fn one_mistake_hides_no_other() {
    // What cannot be read stands for nothing; all else is checked beside it.
    check(
        "[[source]]\nname = 'a'\ntype = 'modbus'\naddress = 'plc'\nregisters = [\n\
         { property = 'p', table = 'input', address = 0, type = 'u17', unit = 3 },\n\
         { property = 'p', table = 'inptu', address = 1, type = 'u16', colour = 1 } ]",
        "t.toml:6: source.entity: missing, and the register \"p\" has none of its own; write \
         entity = \"press-1\"\n\
         t.toml:11: source.registers[0].type: \"u17\" is not known; use bool | bit | i16 | u16 | \
         i32 | u32 | i64 | u64 | f32 | f64 | string\n\
         t.toml:11: source.registers[0].unit: is an integer, not a text; put it in quotes\n\
         t.toml:12: source.registers[1].table: \"inptu\" is not known; use coil | discrete | input \
         | holding\n\
         t.toml:12: source.registers[1].colour: unknown key; known here: property, entity, table, \
         type, bit, length, address, order, scale, offset, deadband, invalid, unit\n\
         t.toml:12: source.registers[1].property: \"p\" is the property of an earlier register; \
         give each its own",
    );
    check(
        "[[source]]\nname = 'a'\ntype = 'mqtt'\nkeep_alive = 3\n\
         topics = [ { filter = 'a/#/b' }, { filter = 'a', format = 'csv', colour = 1 } ]",
        "t.toml:6: source.url: missing; write url = \"mqtt://127.0.0.1:1883\"\n\
         t.toml:9: source.keep_alive: is an integer, not a duration; write a text with its unit, \
         like \"500ms\"\n\
         t.toml:10: source.topics[0].filter: has a # before its end; write it like \"plant/+/+\" \
         or \"readers/#\"\n\
         t.toml:10: source.topics[1].format: \"csv\" is not known; use value | json | influx\n\
         t.toml:10: source.topics[1].colour: unknown key; known here: filter, format, entity, \
         property",
    );
    let said = problems(
        "[[source]]\naccumulate = 1\n[source.time]\nzone = 'Nowhere'\n[[output]]\nwindows = ['w']",
    );
    let keys: Vec<&str> = said.lines().filter_map(|line| line.split(':').nth(2)).collect();
    let expected = [
        " gateway.id",
        " gateway.data_dir",
        " uplink",
        " source.name",
        " source.type",
        " source.accumulate",
        " source.time.zone",
        " output.type",
        " output.windows",
    ];
    assert_eq!(keys, expected, "{said}");
}
