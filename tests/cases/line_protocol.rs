//! L-01 to L-11: InfluxDB line protocol as it is met in the field. Every input
//! goes through the public door of a source, byte for byte.

use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;
use serde_json::Value as Json;
use tidegate::config::{Config, Source};
use tidegate::core::reading::{Reading, Value};

use crate::stream::run;

fn source(keys: &str) -> Source {
    let text = format!(
        "[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n\
         [[source]]\nname = 's'\ntype = 'stdin'\nformat = 'influx'\n{keys}\n"
    );
    Config::parse(&text, Path::new("t.toml")).unwrap().sources.remove(0)
}

fn lines_of(source: &Source, stream: &[u8]) -> (Vec<String>, Vec<String>) {
    let (readings, refused) = run(source, Cursor::new(stream.to_vec()));
    let refused = refused.iter().map(|one| format!("{}: {}", one.kind, one.reason)).collect();
    (readings.iter().map(shown).collect(), refused)
}

/// What comes of a stream, and which lines are refused.
fn lines(stream: impl AsRef<[u8]>) -> (Vec<String>, Vec<String>) {
    let (readings, refused) = lines_of(&source(""), stream.as_ref());
    let number = |text: &String| {
        let number = text.split_once("line ").unwrap().1.split_once(':').unwrap().0;
        number.to_owned()
    };
    (readings, refused.iter().map(number).collect())
}

fn shown(reading: &Reading) -> String {
    let value = match &reading.value {
        Value::F64(number) if number.abs() > 1e20 => format!("f64 {number:e}"),
        Value::F64(number) if *number != 0.0 && number.abs() < 1e-20 => format!("f64 {number:e}"),
        Value::F64(number) => format!("f64 {number}"),
        Value::I64(number) => format!("i64 {number}"),
        Value::U64(number) => format!("u64 {number}"),
        Value::Bool(is_true) => format!("bool {is_true}"),
        Value::Text(text) => format!("text {text}"),
        Value::Composite(text) => format!("composite {text}"),
    };
    let time = reading.device_time.map(|time| format!(" @{}", time.at.unix_ns()));
    let series = &reading.series;
    format!("{} {}={value}{}", series.entity, series.property, time.unwrap_or_default())
}

#[test]
fn json_is_told_what_it_is() {
    let (readings, refused) = lines_of(&source(""), b"{\"entity\":\"e\",\"values\":{\"p\":1}}\n");
    assert_eq!(readings, Vec::<String>::new());
    let expected = "syntax: line 1: not line protocol (is it JSON? then `format = \"json\"`)";
    assert_eq!(refused, [expected]);
}

#[test]
fn l_01_crlf_is_no_part_of_anything() {
    let stream = "oven,zone=a temp=181.5,door=\"shut\" 1772366400000000000\r\noven,zone=b temp=182\r\n\
                  oven,zone=c ok=true 1772366401000000000\r\n\r\noven,zone=d n=7i 1772366402000000000\r\n";
    let expected = [
        "oven,zone=a temp=f64 181.5 @1772366400000000000",
        "oven,zone=a door=text shut @1772366400000000000",
        "oven,zone=b temp=f64 182",
        "oven,zone=c ok=bool true @1772366401000000000",
        "oven,zone=d n=i64 7 @1772366402000000000",
    ];
    assert_eq!(lines(stream), (expected.map(str::to_owned).to_vec(), vec![]));
}

#[test]
fn l_03_a_bad_line_costs_exactly_one_line() {
    let stream = "pump v=1 1772366400000000000\npump v=2a.0 1772366401000000000\n\
                  pump v=3b 1772366402000000000\npump v=4 1772366403000000000\n\
                  pump,side= v=5 1772366404000000000\npump v=6 1772366405000000000\npump\n\
                  pump v=8 1772366407000000000\n";
    let (readings, refused) = lines(stream);
    let values: Vec<&str> =
        readings.iter().map(|line| line.split(['=', '@']).nth(1).unwrap().trim()).collect();
    assert_eq!(values, ["f64 1", "f64 4", "f64 6", "f64 8"]);
    assert_eq!(refused, ["2", "3", "5", "7"]);
}

#[test]
fn l_04_blanks_comments_and_a_missing_end_cost_nothing() {
    let stream = "\n# plant 7, line 2\nfan v=1 1772366400000000000\n\n   \n   fan v=2 1772366401000000000\n\
                  fan   v=3    1772366402000000000   \n#fan v=99 1772366400000000000\n\
                  fan v=4 1772366403000000000 # not a comment here\nfan v=5 1772366404000000000";
    let expected = [
        "fan v=f64 1 @1772366400000000000",
        "fan v=f64 2 @1772366401000000000",
        "fan v=f64 3 @1772366402000000000",
        "fan v=f64 5 @1772366404000000000",
    ];
    assert_eq!(lines(stream), (expected.map(str::to_owned).to_vec(), vec!["9".to_owned()]));
}

#[test]
fn l_05_numbers_keep_every_digit_or_are_refused() {
    let stream = "m a=16106127360i 1\nm a=9223372036854775807i 2\nm a=-9223372036854775808i 3\n\
                  m a=18446744073709551615u 4\nm a=007i 5\nm a=.5 6\nm a=1. 7\nm a=-1.5e-3 8\nm a=1E4 9\n\
                  m a=9223372036854775808i 11\nm a=18446744073709551616u 12\nm a=-1u 13\nm a=NaN 14\n\
                  m a=+Inf 15\nm a=1.0i 16\nm a=1e400 17\nm a=1_000 18\nm a=1 9223372036854775808 \nm a=0x10 20\n";
    let expected = [
        "m a=i64 16106127360 @1",
        "m a=i64 9223372036854775807 @2",
        "m a=i64 -9223372036854775808 @3",
        "m a=u64 18446744073709551615 @4",
        "m a=i64 7 @5",
        "m a=f64 0.5 @6",
        "m a=f64 1 @7",
        "m a=f64 -0.0015 @8",
        "m a=f64 10000 @9",
    ];
    let refused = (10..=19).map(|number| number.to_string()).collect();
    assert_eq!(lines(stream), (expected.map(str::to_owned).to_vec(), refused));
}

#[test]
fn l_06_a_line_feed_in_a_text_and_a_quote_that_is_never_closed() {
    let stream = "log,dev=a msg=\"first\nsecond\",n=1i 1772366400000000000\n\
                  log,dev=b msg=\"plain\",n=2i 1772366401000000000\n\
                  log,dev=c msg=\"open,n=3i 1772366402000000000\n\
                  log,dev=d msg=\"after\",n=4i 1772366403000000000\n\
                  log,dev=e msg=\"tail\",n=5i 1772366404000000000\nlog,dev=f n=6i 1772366405000000000\n";
    let (readings, refused) = lines(stream);
    assert_eq!(readings[0], "log,dev=a msg=text first\nsecond @1772366400000000000");
    let numbers: Vec<&str> =
        readings.iter().filter_map(|line| line.split(" n=i64 ").nth(1)).collect();
    let numbers: Vec<&str> = numbers.iter().map(|number| &number[..1]).collect();
    assert_eq!(numbers, ["1", "2", "4", "5", "6"]);
    assert_eq!(refused, ["4"]);
}

#[test]
fn l_07_points_without_a_timestamp_stay_readings_of_their_own() {
    let stream = "score,unit=7 value=1\nscore,unit=7 value=2\nscore,unit=7 value=3\n";
    let expected = [1, 2, 3].map(|n| format!("score,unit=7 value=f64 {n}"));
    assert_eq!(lines(stream), (expected.to_vec(), vec![]));
}

#[test]
fn l_08_malformed_tags_are_refused() {
    let stream = "truck,plate,fleet=north v=1 1\ntruck, v=2 1\ntruck,fleet= v=3 1\ntruck,=north v=4 1\n\
                  truck,fleet=north,fleet=south v=5 1\ntruck,fleet=north v=6,w 1\ntruck,fleet=north v=7 1\n";
    let (readings, refused) = lines(stream);
    assert_eq!(readings, ["truck,fleet=north v=f64 7 @1"]);
    assert_eq!(refused, ["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn l_09_odd_bytes_cost_their_line() {
    let stream = b"\xef\xbb\xbfboiler v=1 1\nboiler,room=k\xc3\xbcche v=2 1\nboi\xffler v=3 1\n\
                   boiler,room=\xc3( v=4 1\nboiler\xc2\xa0v=5 1\nboiler s=\"a\x00b\",v=6 1\nboiler v=7 1\n";
    let expected = [
        "boiler v=f64 1 @1",
        "boiler,room=küche v=f64 2 @1",
        "boiler s=text a\0b @1",
        "boiler v=f64 6 @1",
        "boiler v=f64 7 @1",
    ];
    let refused = ["3", "4", "5"].map(str::to_owned).to_vec();
    assert_eq!(lines(stream), (expected.map(str::to_owned).to_vec(), refused));
}

#[test]
fn l_10_booleans_and_what_looks_like_them() {
    let mut stream = String::new();
    for word in ["t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE"] {
        stream += &format!("g b={word} 1\n");
    }
    stream += "g b=\"true\" 11\ng b=tRUE 12\ng b=yes 13\n";
    let mut expected = vec!["g b=bool true @1"; 5];
    expected.extend(["g b=bool false @1"; 5]);
    expected.push("g b=text true @11");
    let (readings, refused) = lines(stream);
    assert_eq!(readings, expected);
    assert_eq!(refused, ["12", "13"]);
}

#[test]
fn l_11_the_corpus_gives_what_it_says() {
    let corpus = include_str!("../data/influx/corpus.jsonl");
    let mut wrong = Vec::new();
    for line in corpus.lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        let input = case["in"].as_str().unwrap();
        let (readings, refused) = lines_of(&source(""), input.as_bytes());
        let is_as_said = match case["refused"].as_str() {
            Some(kind) => {
                readings.is_empty()
                    && refused.iter().any(|one| one.starts_with(&format!("{kind}:")))
            }
            None => refused.is_empty() && case["out"] == Json::from(readings.clone()),
        };
        if !is_as_said {
            wrong.push(format!("{line}\n  {readings:?}\n  {refused:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(corpus.lines().count() > 200);
}

#[test]
fn measurement_and_tags_name_the_entity_as_the_template_says() {
    let named = |entity: &str, point: &str| {
        let source = source(&format!("entity = '{entity}'"));
        let (readings, refused) = lines_of(&source, point.as_bytes());
        readings.into_iter().chain(refused).collect::<Vec<_>>()
    };
    let point = "cpu,host=a\\ b,core=0 v=1 5";
    assert_eq!(named("", point), ["cpu,core=0,host=a\\ b v=f64 1 @5"]);
    assert_eq!(named("{measurement}/{tag:host}", point), ["cpu/a b v=f64 1 @5"]);
    assert_eq!(named("press", point), ["press v=f64 1 @5"]);
    let missing = ["no_entity: line 1: the point has no tag \"rack\""];
    assert_eq!(named("{tag:rack}", point), missing);
}

#[test]
fn the_unit_of_timestamps_is_the_sources() {
    for (unit, expected) in [("s", 5_000_000_000_i64), ("ms", 5_000_000), ("us", 5_000), ("ns", 5)]
    {
        let source = source(&format!("time_unit = '{unit}'"));
        let (readings, _) = lines_of(&source, b"m v=1 5");
        assert_eq!(readings, [format!("m v=f64 1 @{expected}")]);
    }
}

#[test]
fn limits_cost_one_point_and_say_so() {
    let fields: Vec<String> = (0..513).map(|i| format!("f{i}=1")).collect();
    let tags: Vec<String> = (0..257).map(|i| format!("t{i}=1")).collect();
    let long = "x".repeat(513);
    let stream = format!(
        "m {}\nm,{} v=1\n{long} v=1\nm {long}=1\nm s=\"{}\"\nm v=1 5\n",
        fields.join(","),
        tags.join(","),
        "y".repeat(9_000)
    );
    let (readings, refused) = lines_of(&source("max_line = '8KiB'"), stream.as_bytes());
    assert_eq!(readings, ["m v=f64 1 @5"]);
    let expected = [
        "too_many: line 1: more than 512 fields in one point",
        "too_many: line 2: more than 256 tags",
        "name: line 3: entity has 513 bytes; at most 512",
        "name: line 4: property has 513 bytes; at most 512",
        "too_long: line 5: the line has 9006 bytes, more than max_line",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn an_open_quote_reaches_no_further_than_max_line() {
    let filler = "pad v=1 1\n".repeat(30);
    let stream = format!("m s=\"open\n{filler}");
    let (readings, refused) = lines_of(&source("max_line = '64B'"), stream.as_bytes());
    assert_eq!(readings.len(), 30);
    assert_eq!(refused, ["syntax: line 1: the text of field \"s\" has no closing quote"]);
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_,= \"é\\\\#]{1,12}"
        .prop_filter("a backslash at the end would escape what follows", |name| {
            !name.ends_with('\\')
                && !name.contains("\\,")
                && !name.contains("\\ ")
                && !name.contains("\\=")
        })
        .prop_filter("a comment", |name| !name.starts_with('#'))
}

fn escaped(name: &str) -> String {
    name.replace(',', "\\,").replace(' ', "\\ ").replace('=', "\\=")
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_refused_and_the_next_line_is_right(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "[mv,=\" \\\\\n\r\t#0-9ieE.+-]{0,200}".prop_map(String::into_bytes),
        ],
    ) {
        // Whatever quote is open, a closed one and a line feed end it.
        let mut stream = bytes;
        stream.extend(b"\nx \"=1\nlast v=1 5\nlast v=2 6\n");
        let (readings, _) = run(&source("max_line = '4KiB'"), Cursor::new(stream));
        prop_assert_eq!(readings.last().map(shown), Some("last v=f64 2 @6".to_owned()));
    }

    #[test]
    fn points_come_back_as_they_were_written(
        measurement in name(),
        tags in proptest::collection::btree_map(name(), name(), 0..4),
        fields in proptest::collection::btree_map(name(), prop_oneof![
            any::<i64>().prop_map(|n| (format!("{n}i"), format!("i64 {n}"))),
            any::<u32>().prop_map(|n| (format!("{n}u"), format!("i64 {n}"))),
            (-1e15..1e15).prop_filter("shown apart", |n: &f64| n.abs() > 1e-15)
                .prop_map(|n| (format!("{n:?}"), format!("f64 {n}"))),
            any::<bool>().prop_map(|b| (b.to_string(), format!("bool {b}"))),
            "\\PC{0,20}|[\n\"\\\\ ,=]{0,9}".prop_map(|text| {
                let written = text.replace('\\', "\\\\").replace('"', "\\\"");
                (format!("\"{written}\""), format!("text {text}"))
            }),
        ], 1..5),
        time in proptest::option::of(0..i64::MAX),
    ) {
        let tag = |(key, value): (&String, &String)| format!(",{}={}", escaped(key), escaped(value));
        let tags: String = tags.iter().map(tag).collect();
        let written: Vec<String> = fields.iter()
            .map(|(key, (written, _))| format!("{}={written}", escaped(key)))
            .collect();
        let at = |sign: &str| time.map(|time| format!(" {sign}{time}")).unwrap_or_default();
        // In the measurement = stands for itself.
        let name = measurement.replace(',', "\\,").replace(' ', "\\ ");
        let point = format!("{name}{tags} {}{}\nnext v=1\n", written.join(","), at(""));
        let (readings, refused) = lines_of(&source(""), point.as_bytes());
        prop_assert_eq!(refused, Vec::<String>::new(), "{}", point);
        let expected: Vec<String> = fields.iter()
            .map(|(key, (_, value))| format!("{name}{tags} {key}={value}{}", at("@")))
            .chain(["next v=f64 1".to_owned()])
            .collect();
        prop_assert_eq!(readings, expected);
    }
}
