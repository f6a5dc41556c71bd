//! J-01 to J-09: JSON as it is met in the field. Every input goes through the
//! public door of a source, byte for byte.

use std::path::Path;

use tidegate::config::{Config, Source};
use tidegate::core::reading::{Reading, Value};
use tokio::io::AsyncReadExt;

use crate::stream::run;

/// A source of lines whose objects are the properties, with more keys of
/// `[source.map]`.
fn flat(map: &str) -> Source {
    source(&format!("values = ''\nid = ''\n{map}"))
}

fn source(map: &str) -> Source {
    let text = format!(
        "[gateway]\nid = 'g'\ndata_dir = '/d'\n[clock]\nhold_unsynchronized = '0s'\n[[uplink]]\nurl = 'mqtt://b'\n\
         [[source]]\nname = 's'\ntype = 'stdin'\nentity = 'e'\n[source.map]\n{map}\n"
    );
    Config::parse(&text, Path::new("t.toml")).unwrap().sources.remove(0)
}

/// Readings as `entity property=value`, and refusals as `kind: reason`.
fn lines(source: &Source, stream: impl AsRef<[u8]>) -> (Vec<String>, Vec<String>) {
    let stream = std::io::Cursor::new(stream.as_ref().to_vec());
    let (readings, refused) = run(source, stream);
    let refused = refused.iter().map(|one| format!("{}: {}", one.kind, one.reason)).collect();
    (readings.iter().map(shown).collect(), refused)
}

fn shown(reading: &Reading) -> String {
    let value = match &reading.value {
        Value::F64(number) => format!("f64 {number}"),
        Value::I64(number) => format!("i64 {number}"),
        Value::U64(number) => format!("u64 {number}"),
        Value::Bool(is_true) => format!("bool {is_true}"),
        Value::Text(text) => format!("text {text}"),
        Value::Composite(text) => format!("composite {text}"),
    };
    format!("{} {}={value}", reading.series.entity, reading.series.property)
}

#[test]
fn j_01_nan_and_infinity_are_refused_line_by_line() {
    let stream = r#"{"model":"clamp","pulses":410,"energy":-nan,"n":1}
{"model":"clamp","pulses":411,"energy":NaN,"n":2}
{"model":"clamp","pulses":412,"energy":Infinity,"n":3}
{"model":"clamp","pulses":413,"energy":1.5,"n":4}
"#;
    let (readings, refused) = lines(&flat("entity = '/model'"), stream);
    assert_eq!(readings, ["clamp pulses=i64 413", "clamp energy=f64 1.5", "clamp n=i64 4"]);
    let expected = [
        "syntax: line 1: invalid number at column 41",
        "syntax: line 2: not JSON at column 40",
        "syntax: line 3: not JSON at column 40",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn j_02_integers_keep_every_digit_or_are_refused() {
    let stream = r#"{"id":9007199254740993,"n":1}
{"id":9223372036854775807,"n":2}
{"id":18446744073709551615,"n":3}
{"id":-9007199254740993,"n":4}
{"id":123456789012345678901,"n":5}
{"id":1e3,"n":6}
{"id":0.1,"n":7}
"#;
    let (readings, refused) = lines(&flat(""), stream);
    let expected = [
        "e id=i64 9007199254740993",
        "e n=i64 1",
        "e id=i64 9223372036854775807",
        "e n=i64 2",
        "e id=u64 18446744073709551615",
        "e n=i64 3",
        "e id=i64 -9007199254740993",
        "e n=i64 4",
        "e id=f64 1000",
        "e n=i64 6",
        "e id=f64 0.1",
        "e n=i64 7",
    ];
    assert_eq!(readings, expected);
    let reason = "range: line 5: in \"id\": the integer 123456789012345678901 needs over 64 bits";
    assert_eq!(refused, [reason]);
}

#[test]
fn j_03_null_is_no_reading_and_a_line_without_any_is_refused() {
    let stream = r#"{"dev":"m1","t":20.5,"h":null}
{"dev":"m1","t":null,"h":null}
{"dev":"m1","t":"21.5","h":40}
{"dev":"m1","t":"n/a","h":41}
{"dev":"m1"}
{}
null
[]
{"dev":"m1","t":22.5,"h":42}
"#;
    let (readings, refused) = lines(&flat("entity = '/dev'"), stream);
    let expected = [
        "m1 t=f64 20.5",
        "m1 t=text 21.5",
        "m1 h=i64 40",
        "m1 t=text n/a",
        "m1 h=i64 41",
        "m1 t=f64 22.5",
        "m1 h=i64 42",
    ];
    assert_eq!(readings, expected);
    let expected = [
        "no_value: line 2: the line holds no value: no member beside those of [source.map], or all null",
        "no_value: line 5: the line holds no value: no member beside those of [source.map], or all null",
        "no_value: line 6: the line holds no value: no member beside those of [source.map], or all null",
        "shape: line 7: expected an object, found null",
        "shape: line 8: expected an object, found an array",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn a_stranger_learns_what_a_line_is_and_lacks() {
    let stream = r#"cpu,host=a load=1.5 1764464523123000000
 temperature 21
{"entity":"e","property":"p","value":tru}
{"entity":"e","property":"p","value":null}
{"entity":"e","values":{"p":null}}
{"entity":"e","values":{}}
{"entity":"e","property":"p"}
{"entity":"e","property":"p","value":1,"quality":192}
"#;
    let (readings, refused) = lines(&source(""), stream);
    assert_eq!(readings, Vec::<String>::new());
    let expected = [
        "syntax: line 1: not JSON at column 1 (is it line protocol? then `format = \"influx\"`)",
        "syntax: line 2: not JSON at column 2",
        "syntax: line 3: not JSON at column 41",
        "no_value: line 4: value is null: no value",
        "no_value: line 5: all of values is null: no value",
        "no_value: line 6: values is empty: no value",
        "no_value: line 7: the line holds no value: nothing at /value or /values",
        "shape: line 8: quality \"192\" is not good, uncertain or bad; what it means can be said in \
         the source's `quality`",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn j_04_duplicate_keys_are_refused() {
    let stream = r#"{"dev":"m2","t":1,"t":2}
{"dev":"a","t":3,"dev":"b"}
{"dev":"m2","t":{"x":1,"x":2}}
{"dev":"m2","t":4}
"#;
    let (readings, refused) = lines(&flat("entity = '/dev'"), stream);
    assert_eq!(readings, ["m2 t=i64 4"]);
    let expected = [
        "duplicate_key: line 1: repeated key \"t\" at column 24",
        "duplicate_key: line 2: repeated key \"dev\" at column 27",
        "duplicate_key: line 3: in \"t\": repeated key \"x\" at column 13",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn j_05_bom_and_crlf_cost_nothing() {
    let bom = b"\xef\xbb\xbf{\"n\":1}\r\n{\"n\":2}\r\n\r\n{\"n\":3}\r\n";
    let (readings, refused) = lines(&flat(""), bom);
    assert_eq!(readings, ["e n=i64 1", "e n=i64 2", "e n=i64 3"]);
    assert_eq!(refused, Vec::<String>::new());
    // A BOM where two files were joined costs its own line at most.
    let joined = b"{\"n\":1}\n\xef\xbb\xbf{\"n\":2}\n{\"n\":3}";
    let (readings, refused) = lines(&flat(""), joined);
    assert_eq!(readings, ["e n=i64 1", "e n=i64 3"]);
    assert_eq!(refused, ["syntax: line 2: not JSON at column 1"]);
    // Objects over several lines are not taken, each piece says so.
    let pretty = "{\n  \"n\": 10,\n  \"x\": { \"y\": 1.25 }\n}\n";
    let (readings, refused) = lines(&flat(""), pretty);
    assert_eq!(readings, Vec::<String>::new());
    let kinds: Vec<&str> = refused.iter().map(|one| &one[..6]).collect();
    assert_eq!(kinds, ["syntax"; 4]);
}

#[test]
fn j_07_a_line_that_is_too_long_is_skipped_and_counted_once() {
    let before = peak_rss_kib();
    let stream = std::io::Cursor::new(b"{\"n\":1}\n{\"n\":2,\"pad\":\"".to_vec())
        .chain(tokio::io::repeat(b'x').take(5 * 1024 * 1024))
        .chain(std::io::Cursor::new(b"\"}\n{\"n\":3}\n".to_vec()))
        .chain(tokio::io::repeat(b'y').take(50_000_000))
        .chain(std::io::Cursor::new(b"\n{\"n\":4}\n".to_vec()));
    let (readings, refused) = run(&flat(""), Box::pin(stream));
    let readings: Vec<String> = readings.iter().map(shown).collect();
    assert_eq!(readings, ["e n=i64 1", "e n=i64 3", "e n=i64 4"]);
    let lengths: Vec<(&str, u64)> = refused.iter().map(|one| (one.kind, one.length)).collect();
    assert_eq!(lengths, [("too_long", 5 * 1024 * 1024 + 16), ("too_long", 50_000_000)]);
    assert!(refused[0].content.starts_with(b"{\"n\":2,\"pad\":\"xxxx"));
    assert!(refused[1].content.iter().all(|byte| *byte == b'y'));
    assert_eq!(refused[1].reason, "line 4: the line has 50000000 bytes, more than max_line");
    let grown = peak_rss_kib() - before;
    assert!(grown < 48 * 1024, "grown by {grown} KiB");
}

/// Peak resident memory of this process in KiB; 0 where the system does not say.
fn peak_rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

#[test]
fn j_08_what_is_not_utf8_is_refused_and_never_replaced() {
    let stream = b"{\"n\":1,\"s\":\"caf\xc3\xa9\"}\n{\"n\":2,\"s\":\"caf\xe9\"}\n\
        {\"n\":3,\"s\":\"\xed\xa0\x80\"}\n{\"n\":4,\"s\":\"\\ud83d\"}\n{\"n\":5,\"s\":\"\\u0000\"}\n\
        \x00\x01\xfc~\xa9\n{\"n\":6}\n{\"n\":7,\"s\":[\"\\ud83d\"]}\n";
    let (readings, refused) = lines(&flat(""), stream);
    let expected = ["e n=i64 1", "e s=text caf\u{e9}", "e n=i64 5", "e s=text \u{0}", "e n=i64 6"];
    assert_eq!(readings, expected);
    let expected = [
        "not_utf8: line 2: the line is not UTF-8",
        "not_utf8: line 3: the line is not UTF-8",
        "syntax: line 4: in \"s\": unexpected end of hex escape at column 8",
        "not_utf8: line 6: the line is not UTF-8",
        "syntax: line 8: in \"s\": unexpected end of hex escape at column 8",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn j_09_no_depth_of_nesting_reaches_the_stack() {
    let deep = 100_000;
    let nested = |levels: usize| format!("{}1{}", "{\"k\":".repeat(levels), "}".repeat(levels));
    let stream = format!(
        "{}{}\n{}1{}\n{}\n{}\n{}\n{{\"n\":1}}\n",
        "[".repeat(deep),
        "]".repeat(deep),
        "{\"a\":".repeat(deep),
        "}".repeat(deep),
        nested(64),
        nested(65),
        nested(66),
    );
    let (readings, refused) = lines(&flat(""), stream);
    // The line itself is the first level, its value the others.
    let composite = |levels| format!("e k=composite {}", nested(levels));
    assert_eq!(readings, [composite(63), composite(64), "e n=i64 1".to_owned()]);
    let expected = [
        "shape: line 1: expected an object, found an array",
        "nesting: line 2: in \"a\": nested more than 64 levels",
        "nesting: line 5: in \"k\": nested more than 64 levels",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn the_shapes_of_the_contract_are_taken() {
    let stream = r#"{"entity":"pump-7","property":"pressure_kpa","value":412.5,"unit":"kPa","time":"2026-11-30T01:02:03.123Z","quality":"uncertain","id":"A-17"}
{"entity":"pump-7","time":1764464523123,"values":{"pressure_kpa":412.5,"temp_c":null,"on":true}}
{"entity":"agv-3","property":"pose","value":{"x":1.5, "y":2.0}}
"#;
    let (readings, refused) = run(&source(""), std::io::Cursor::new(stream));
    assert_eq!(refused, []);
    let names: Vec<String> = readings.iter().map(shown).collect();
    let expected = [
        "pump-7 pressure_kpa=f64 412.5",
        "pump-7 pressure_kpa=f64 412.5",
        "pump-7 on=bool true",
        "agv-3 pose=composite {\"x\":1.5, \"y\":2.0}",
    ];
    assert_eq!(names, expected);
    let time = |i: usize| readings[i].device_time.map(|time| time.at.to_string());
    assert_eq!(time(0).as_deref(), Some("2026-11-30T01:02:03.123000000Z"));
    assert_eq!(time(1).as_deref(), Some("2025-11-30T01:02:03.123000000Z"));
    assert_eq!(time(3), None);
    assert_eq!(readings[0].series.unit.as_deref(), Some("kPa"));
    assert_eq!(readings[0].quality, tidegate::core::reading::Quality::Uncertain);
    assert_eq!(readings[0].id.as_deref(), Some("A-17"));
}

#[test]
fn other_shapes_are_mapped_by_pointers_and_wrong_ones_are_refused() {
    let map = "entity = '/device/name'\nvalues = '/data/now'\ntime = '/data/ts'";
    let stream = r#"{"device":{"name":12},"data":{"ts":"0","now":{"t":1}}}
{"device":{"name":12},"data":{"ts":true,"now":{"t":1}}}
{"device":{"name":12},"value":3}
{"device":{"name":12.5},"data":{"now":{"t":1}}}
{"device":7,"quality":"fine","data":{"now":{"t":1}}}
{"data":{"now":[1]}}
{"data":{"now":{"t":1e400}}}
{"data":{"now":{"":1}}}
"#;
    let (readings, refused) = lines(&source(map), stream);
    assert_eq!(readings, ["12 t=i64 1"]);
    let expected = [
        "time: line 2: time is a boolean, not text or number",
        "no_property: line 3: the line has a value and no property",
        "shape: line 4: entity is a number, not a text",
        "shape: line 5: quality \"fine\" is not good, uncertain or bad; what it means can be said in the source's `quality`",
        "shape: line 6: in \"values\": expected an object, found an array",
        "range: line 7: in \"t\": 1e400 is too large for a number",
        "name: line 8: property is empty",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn names_units_and_qualities_are_changed_as_the_source_says() {
    let text = "[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n\
         [[source]]\nname = 's'\ntype = 'stdin'\nentity = 'e'\nrename = { p = 'pressure' }\n\
         unit = { pressure = 'kPa' }\nquality = { OK = 'good', '24' = 'bad' }\n";
    let source = Config::parse(text, Path::new("t.toml")).unwrap().sources.remove(0);
    let stream = r#"{"property":"p","value":1,"unit":"bar","quality":"OK"}
{"property":"t","value":2,"unit":"C","quality":24}
{"property":"t","value":3,"quality":"uncertain"}
{"property":"t","value":4,"quality":"ok"}
"#;
    let (readings, refused) = run(&source, std::io::Cursor::new(stream));
    let found: Vec<_> = readings
        .iter()
        .map(|one| (&*one.series.property, one.series.unit.as_deref(), one.quality))
        .collect();
    use tidegate::core::reading::Quality::{Bad, Good, Uncertain};
    let expected = [("pressure", Some("kPa"), Good), ("t", Some("C"), Bad), ("t", None, Uncertain)];
    assert_eq!(found, expected);
    assert_eq!(
        refused[0].reason,
        "line 4: quality \"ok\" is not good, uncertain or bad; what it means can be said in the source's `quality`"
    );
}
