//! Inputs that are made to hurt: each costs itself, little memory, and says why.

use std::fmt::Write as _;
use std::path::Path;

use tidegate::config::{Config, Format, Source};
use tidegate::core::limits::{LINE_BYTES_MAX, NESTING_MAX};
use tidegate::core::reading::Value;
use tidegate::source::lines::{Line, LineSplitter};
use tidegate::source::parse::Parser;
use tidegate::wire::batch::Batch;

use crate::memory;

const MIB: usize = 1024 * 1024;

fn source() -> Source {
    let text = "[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n\
                [[source]]\nname = 's'\ntype = 'stdin'\n";
    Config::parse(text, Path::new("t.toml")).unwrap().sources.remove(0)
}

/// Why a line is refused, and how much memory that took beyond the line itself.
fn refused(format: Format, line: &str) -> (String, usize) {
    let mut parser = Parser::new(&source(), format);
    let mut readings = Vec::new();
    let (result, taken) = memory::peak(|| parser.parse(line, &mut readings));
    let fault = result.unwrap_err();
    assert_eq!(readings, []);
    (format!("{}: {}", fault.kind, fault.what), taken)
}

fn json(line: &str) -> (String, usize) {
    refused(Format::Json, line)
}

fn value_of(value: &str) -> String {
    format!("{{\"entity\":\"e\",\"property\":\"p\",\"value\":{value}}}")
}

#[test]
fn depth_never_reaches_the_stack() {
    // As deep as a longest line can be, in every place that is opened.
    let depth = LINE_BYTES_MAX / 8;
    let nested = |open: &str, close: &str| open.repeat(depth) + "1" + &close.repeat(depth);
    for (bomb, why) in [
        (value_of(&nested("[", "]")), "nesting: in \"p\": nested more than 64 levels"),
        (value_of(&nested("{\"a\":", "}")), "nesting: in \"p\": nested more than 64 levels"),
        (value_of(&"[".repeat(depth)), "syntax: not JSON at column 131110"),
        (nested("[", "]"), "shape: expected an object, found an array"),
    ] {
        let (said, taken) = json(&bomb);
        assert!(said.starts_with(why), "{said}");
        assert!(taken < 4 * MIB, "{taken} bytes");
    }
    let deepest = value_of(&("[".repeat(NESTING_MAX) + &"]".repeat(NESTING_MAX)));
    let mut readings = Vec::new();
    Parser::new(&source(), Format::Json).parse(&deepest, &mut readings).unwrap();
    assert!(matches!(&readings[0].value, Value::Composite(_)));
}

#[test]
fn a_number_of_a_million_digits_is_refused_and_not_quoted_whole() {
    let digits = "9".repeat(1_000_000);
    let shown = "9".repeat(40);
    for (value, why) in [
        (digits.clone(), format!("range: in \"p\": the integer {shown} needs over 64 bits")),
        (format!("{digits}.0"), format!("range: in \"p\": {shown} is too large for a number")),
        (
            format!("1e{digits}"),
            format!("range: in \"p\": 1e{} is too large for a number", &shown[2..]),
        ),
    ] {
        let (said, taken) = json(&value_of(&value));
        assert_eq!(said, why);
        assert!(taken < 4 * MIB, "{taken} bytes");
    }
    let (said, _) = json(&format!("{{\"entity\":\"e\",\"time\":{digits},\"values\":{{\"p\":1}}}}"));
    assert_eq!(said, format!("time: time {shown:?} is out of range"));
    let (said, _) = refused(Format::Influx, &format!("m v={digits}i"));
    assert_eq!(said, format!("range: in \"v\": {:?} needs over 64 bits", "9".repeat(60)));
}

#[test]
fn objects_and_points_with_too_many_members_are_refused() {
    let mut values = String::from("{\"entity\":\"e\",\"values\":{");
    let mut fields = String::from("m ");
    let mut tags = String::from("m");
    for number in 0..60_000 {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(values, "{comma}\"k{number}\":1");
        let _ = write!(fields, "{comma}k{number}=1");
        let _ = write!(tags, ",k{number}=1");
    }
    values.push_str("}}");
    let (said, taken) = json(&values);
    assert_eq!(said, "too_many: 60000 readings in one line; at most 512");
    assert!(taken < 64 * MIB, "{taken} bytes");
    let (said, taken) = refused(Format::Influx, &fields);
    assert_eq!(said, "too_many: more than 512 fields in one point");
    assert!(taken < MIB, "{taken} bytes");
    let (said, taken) = refused(Format::Influx, &(tags + " v=1"));
    assert_eq!(said, "too_many: more than 256 tags");
    assert!(taken < MIB, "{taken} bytes");
}

/// A stream through a splitter: what it says of each line, and its memory.
fn split(mut splitter: LineSplitter, stream: &[u8]) -> (Vec<String>, usize) {
    memory::peak(|| {
        let mut said = Vec::new();
        let mut rest = stream;
        loop {
            let space = splitter.space();
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            splitter.filled(count);
            rest = &rest[count..];
            if rest.is_empty() {
                splitter.end();
            }
            while let Some((number, line)) = splitter.next_line() {
                said.push(match line {
                    Line::Text(text) => format!("{number}: {text}"),
                    Line::NotUtf8(bytes) => format!("{number}: not UTF-8, {}", bytes.len()),
                    Line::TooLong { length, .. } => format!("{number}: too long, {length}"),
                });
            }
            if splitter.is_ended() {
                return said;
            }
        }
    })
}

#[test]
fn lines_of_ten_megabytes_cost_themselves() {
    let long = "x".repeat(10 * MIB);
    let stream = format!("a v=1\n{long}\nb v=\"{long}\n{long}\" 1\r\nc v=1");
    let plain =
        ["1: a v=1", "2: too long, 10485760", "3: too long, 10485765", "4: too long, 10485763"];
    let (said, taken) = split(LineSplitter::new(LINE_BYTES_MAX), stream.as_bytes());
    assert_eq!(said[..4], plain);
    assert_eq!(said[4..], ["5: c v=1"]);
    assert!(taken < 4 * MIB, "{taken} bytes");
    // The text is given up: its first line is the bad one, and then its second.
    let (said, taken) = split(LineSplitter::points(LINE_BYTES_MAX), stream.as_bytes());
    assert_eq!(said[..4], plain);
    assert_eq!(said[4..], ["5: c v=1"]);
    assert!(taken < 4 * MIB, "{taken} bytes");
}

#[test]
fn bytes_that_are_no_text_cost_their_line() {
    let stream = b"a v=1\n\xff\xfe\xfd\n\xed\xa0\x80\n\xf5\x80\x80\x80\nb v=1\n\xc3";
    let said = [
        "1: a v=1",
        "2: not UTF-8, 3",
        "3: not UTF-8, 3",
        "4: not UTF-8, 4",
        "5: b v=1",
        "6: not UTF-8, 1",
    ];
    assert_eq!(split(LineSplitter::new(100), stream).0, said);
    assert_eq!(split(LineSplitter::points(100), stream).0, said);
}

#[test]
fn a_batch_that_promises_much_is_given_nothing() {
    for (payload, why) in [
        // Lists and texts of 2^32 and 2^63 members.
        (&b"\x01\x00\x00\x00\x00\xff\xff\xff\xff\x0f"[..], "at byte 10 (uncompressed): "),
        (b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "at byte "),
        // A zstd frame of 2^40 bytes, by its own word.
        (b"\x81\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x01\x00\x00", "at byte 1: "),
    ] {
        let (result, taken) = memory::peak(|| Batch::decode(payload));
        let said = result.unwrap_err().to_string();
        assert!(said.starts_with(why), "{said}");
        assert!(taken < 256 * 1024, "{taken} bytes");
    }
}

#[test]
fn a_configuration_of_brackets_is_refused() {
    let bomb = format!("a = {}{}", "[".repeat(200_000), "]".repeat(200_000));
    let problems = Config::parse(&bomb, Path::new("t.toml")).unwrap_err();
    assert_eq!(problems.list[0].line, Some(1));
    let (problems, taken) = memory::peak(|| {
        let keys: String = (0..2_000).map(|key| format!("k{key} = 1\n")).collect();
        Config::parse(&keys, Path::new("t.toml")).unwrap_err()
    });
    assert!(problems.list.len() > 2_000, "each key by its name");
    assert!(taken < 64 * MIB, "{taken} bytes");
}
