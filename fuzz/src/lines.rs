//! Lines, points, bare values and times.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use tidegate::config::{Config, Source, TimeUnit};
use tidegate::core::reading::{Flags, Quality, Reading, Value};
use tidegate::source::lines::{Line, LineSplitter};
use tidegate::source::parse::bare::BareParser;
use tidegate::source::parse::influx::InfluxParser;
use tidegate::source::parse::json::JsonParser;
use tidegate::source::parse::time::{parse_number, parse_text};

/// What the sources of the targets have; numbers are nanoseconds, so that every time
/// can be written as one.
struct Sources {
    plain: Source,
    mapped: Source,
    influx: Source,
    template: Source,
}

fn sources() -> &'static Sources {
    static SOURCES: OnceLock<Sources> = OnceLock::new();
    SOURCES.get_or_init(|| Sources {
        plain: source("time_unit = 'ns'"),
        mapped: source(
            "entity = 'e'\n[source.map]\nvalues = ''\nentity = '/a~1b/name'\ntime = '/t'\nid = '/n'",
        ),
        influx: source("format = 'influx'"),
        template: source("format = 'influx'\nentity = '{measurement}/{tag:a}'\ntime_unit = 's'"),
    })
}

fn source(keys: &str) -> Source {
    let text = format!(
        "[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n\
         [[source]]\nname = 's'\ntype = 'stdin'\n{keys}\n"
    );
    Config::parse(&text, Path::new("t.toml")).expect("a good configuration").sources.remove(0)
}

/// One JSON line, as the contract has it and by pointers of another shape.
pub fn json(bytes: &[u8]) {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    let sources = sources();
    for source in [&sources.plain, &sources.mapped] {
        let mut readings = Vec::new();
        let result = JsonParser::new(source).parse(line, &mut readings);
        assert_eq!(result.is_ok(), !readings.is_empty(), "taken with a reading, or refused");
        for reading in &readings {
            let mut again = Vec::new();
            let written = as_json(reading);
            let result = JsonParser::new(&sources.plain).parse(&written, &mut again);
            assert_eq!(result, Ok(()), "{written}");
            assert_same(reading, &again, &written);
        }
    }
}

fn assert_same(reading: &Reading, again: &[Reading], written: &str) {
    let [read] = again else { panic!("{} readings of {written}", again.len()) };
    let known = |reading: &Reading| {
        let at = reading.device_time.map(|time| time.at);
        (reading.series.clone(), reading.value.clone(), reading.quality, reading.id.clone(), at)
    };
    assert_eq!(known(reading), known(read), "{written}");
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn as_json(reading: &Reading) -> String {
    let value = match &reading.value {
        Value::F64(number) => format!("{number:?}"),
        Value::I64(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Text(words) => text(words),
        Value::Composite(json) => json.to_string(),
    };
    let quality = match reading.quality {
        Quality::Good => "good",
        Quality::Uncertain => "uncertain",
        Quality::Bad => "bad",
    };
    let series = &reading.series;
    let mut line = format!(
        "{{\"entity\":{},\"property\":{},\"quality\":\"{quality}\",\"value\":{value}",
        text(&series.entity),
        text(&series.property)
    );
    for (key, known) in [("unit", series.unit.as_deref()), ("id", reading.id.as_deref())] {
        if let Some(known) = known {
            let _ = write!(line, ",\"{key}\":{}", text(known));
        }
    }
    if let Some(time) = reading.device_time {
        let _ = write!(line, ",\"time\":{}", time.at.unix_ns());
    }
    line + "}"
}

/// One point of the line protocol.
pub fn influx(bytes: &[u8]) {
    let Ok(point) = std::str::from_utf8(bytes) else { return };
    let sources = sources();
    let mut readings = Vec::new();
    let _ = InfluxParser::new(&sources.template).parse(point, &mut readings);
    readings.clear();
    let result = InfluxParser::new(&sources.influx).parse(point, &mut readings);
    assert!(result.is_ok() || readings.is_empty(), "a refused point gives nothing");
    for reading in &readings {
        let mut again = Vec::new();
        let written = as_point(reading);
        let result = InfluxParser::new(&sources.influx).parse(&written, &mut again);
        assert_eq!(result, Ok(()), "{written}");
        assert_same(reading, &again, &written);
    }
}

/// The entity is the measurement with its tags, as the protocol writes them.
fn as_point(reading: &Reading) -> String {
    let mut point = format!("{} ", reading.series.entity);
    for c in reading.series.property.chars() {
        point.extend(matches!(c, ',' | '=' | ' ').then_some('\\'));
        point.push(c);
    }
    let _ = match &reading.value {
        Value::F64(number) => write!(point, "={number:?}"),
        Value::I64(number) => write!(point, "={number}i"),
        Value::U64(number) => write!(point, "={number}u"),
        Value::Bool(truth) => write!(point, "={truth}"),
        Value::Text(text) | Value::Composite(text) => {
            write!(point, "=\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
    };
    if let Some(time) = reading.device_time {
        let _ = write!(point, " {}", time.at.unix_ns());
    }
    point
}

/// A line as it was found, with its number.
type Found = (u64, Result<String, (Vec<u8>, u64)>);

/// A stream in pieces; the first byte says how long lines may be and how it is cut.
/// However that is, the lines are the same, and no byte is lost.
pub fn splitter(bytes: &[u8]) {
    let Some((how, stream)) = bytes.split_first() else { return };
    let line_max = 8 + usize::from(*how);
    let whole = lines(LineSplitter::new(line_max), stream, usize::MAX);
    let ends = stream.iter().filter(|byte| **byte == b'\n').count();
    let has_rest = stream.last().is_some_and(|byte| *byte != b'\n');
    assert_eq!(whole.len(), ends + usize::from(has_rest));
    for step in [1, 1 + usize::from(*how) % 7] {
        assert_eq!(lines(LineSplitter::new(line_max), stream, step), whole, "pieces of {step}");
    }
    let whole = lines(LineSplitter::points(line_max), stream, usize::MAX);
    for step in [1, 1 + usize::from(*how) % 7] {
        let points = lines(LineSplitter::points(line_max), stream, step);
        assert_eq!(points, whole, "points in pieces of {step}");
    }
}

fn lines(mut splitter: LineSplitter, stream: &[u8], step: usize) -> Vec<Found> {
    let mut found = Vec::new();
    let mut drain = |splitter: &mut LineSplitter| {
        while let Some((number, line)) = splitter.next_line() {
            found.push((
                number,
                match line {
                    Line::Text(text) => Ok(text.to_owned()),
                    Line::NotUtf8(bytes) => Err((bytes.to_vec(), 0)),
                    Line::TooLong { head, length } => Err((head, length)),
                },
            ));
        }
    };
    let mut rest = stream;
    while !rest.is_empty() {
        let space = splitter.space();
        let count = step.min(space.len()).min(rest.len());
        let (piece, after) = rest.split_at(count);
        space[..count].copy_from_slice(piece);
        splitter.filled(count);
        rest = after;
        drain(&mut splitter);
    }
    splitter.end();
    drain(&mut splitter);
    assert_eq!(splitter.taken(), stream.len() as u64);
    assert!(found.is_sorted_by_key(|line| line.0));
    found
}

/// A payload that is a value and nothing else.
pub fn bare(bytes: &[u8]) {
    let Ok(payload) = std::str::from_utf8(bytes) else { return };
    let mut parser = BareParser::new(&sources().plain);
    let mut readings = Vec::new();
    if parser.parse("e", "p", payload, &mut readings).is_err() {
        assert!(readings.is_empty());
        return;
    }
    let Some(reading) = readings.first() else {
        assert_eq!(payload.trim(), "");
        return;
    };
    if let Value::Text(text) = &reading.value {
        assert_eq!(&**text, payload.trim(), "a text stays as it stands");
    } else {
        let mut again = Vec::new();
        let written = as_json(reading);
        let result = JsonParser::new(&sources().plain).parse(&written, &mut again);
        assert_eq!(result, Ok(()), "{written}");
        assert_same(reading, &again, &written);
    }
}

/// A time as text and as number, in every unit.
pub fn times(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for unit in
        [TimeUnit::Auto, TimeUnit::Seconds, TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos]
    {
        for time in [parse_text(text, unit), parse_number(text, unit)].into_iter().flatten() {
            let digits = time.at.unix_ns().to_string();
            let read = parse_text(&digits, TimeUnit::Nanos).expect("digits of a time");
            assert_eq!((read.at, read.utc_offset_s), (time.at, None));
            let written = chrono::DateTime::from_timestamp_nanos(time.at.unix_ns()).to_rfc3339();
            let read = parse_text(&written, unit).expect("a time in its plain form");
            assert_eq!((read.at, read.flags), (time.at, Flags::NONE), "{written}");
            assert!(time.utc_offset_s.is_none_or(|offset| offset.abs() < 86_400));
        }
    }
}
