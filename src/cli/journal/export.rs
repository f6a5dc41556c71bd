//! `tidegate journal export`: the journal as a file for other tools.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::place::{Progress, Which};
use crate::cli::terminal;
use crate::config::TimeUnit;
use crate::exit::{Exit, Failure};
use crate::source::parse::time::parse_text;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate journal export -c tidegate.toml --format csv \
    --source press-line --from 2026-11-30T00:00:00Z --output press.csv")]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// How it looks: every entry as the uplink would send it, or the readings alone
    /// as a table.
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// The file to write; it must not be there yet. Without it: stdout.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only of this source; of results `window:NAME`.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Only from this event time on, in RFC 3339; of results, their start.
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<String>,
    /// Only before this event time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values with a head, as RFC 4180 has them.
    Csv,
}

/// In the form that lines have, which sorts as text.
fn time(text: &str) -> Result<String, String> {
    let parsed = parse_text(text, TimeUnit::Auto).map_err(|fault| fault.to_string())?;
    Ok(parsed.at.to_string())
}

/// What of a line decides.
#[derive(Debug, Deserialize)]
struct Line<'a> {
    source: Option<&'a str>,
    event_time: Option<&'a str>,
    start: Option<&'a str>,
}

/// A reading as a row.
#[derive(Debug, Deserialize)]
struct Row<'a> {
    source: String,
    epoch: String,
    seq: u64,
    entity: String,
    property: String,
    #[serde(borrow)]
    value: &'a RawValue,
    unit: Option<String>,
    quality: String,
    event_time: String,
    ingest_time: String,
    time: RowTime,
    flags: Vec<String>,
    window: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RowTime {
    origin: String,
    clock: String,
    state: String,
    max_error_us: Option<u64>,
}

const HEAD: &str = "source,epoch,seq,entity,property,value,unit,quality,event_time,ingest_time,\
                    origin,clock,state,max_error_us,flags\r\n";

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let (place, gateway) = (args.which.place()?, args.which.gateway()?);
    let entries = place.stats()?.entries;
    let shown = args.output.as_ref().map_or("stdout".into(), |path| path.display().to_string());
    let failed = |error: io::Error| Failure::io(&shown, &error);
    let taken = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let what = format_args!("{shown} is there already: name another file, or remove it");
            Failure::new(Exit::Io, what)
        }
        _ => failed(error),
    };
    let mut out: Box<dyn Write> = match &args.output {
        None => Box::new(BufWriter::new(io::stdout().lock())),
        Some(path) => {
            let file = OpenOptions::new().write(true).create_new(true).open(path);
            Box::new(BufWriter::new(file.map_err(taken)?))
        }
    };
    if args.format == Format::Csv {
        out.write_all(HEAD.as_bytes()).map_err(failed)?;
    }
    let progress = Progress::new(entries, "entries");
    let mut row = Vec::new();
    let is_file = args.output.is_some();
    let damage = place.lines(&gateway, 0, |line| {
        progress.step();
        if !args.takes(line) {
            return Ok(true);
        }
        row.clear();
        match args.format {
            Format::Jsonl => row.extend_from_slice(line),
            Format::Csv => as_row(line, &mut row),
        }
        let row = match is_file {
            true => Cow::Borrowed(&row[..]),
            false => terminal::harmless_bytes_here(&row),
        };
        match out.write_all(&row) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(failed(error)),
        }
    })?;
    progress.end();
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(failed(error)),
        _ => {}
    }
    if damage.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::CheckFailed, format_args!("all but this: {}", damage.join("; "))))
}

impl Args {
    fn takes(&self, line: &[u8]) -> bool {
        if self.source.is_none() && self.from.is_none() && self.to.is_none() {
            return true;
        }
        // Names and times have no escapes; a line that does not read is not ours.
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return false };
        if self.source.as_deref().is_some_and(|source| line.source != Some(source)) {
            return false;
        }
        let at = line.event_time.or(line.start);
        let is_after = self.from.as_deref().is_none_or(|from| at.is_some_and(|at| at >= from));
        let is_before = self.to.as_deref().is_none_or(|to| at.is_some_and(|at| at < to));
        is_after && is_before
    }
}

/// Appends a reading as a row; anything else has none.
fn as_row(line: &[u8], out: &mut Vec<u8>) {
    let Ok(row) = serde_json::from_slice::<Row<'_>>(line) else { return };
    if row.window.is_some() {
        return;
    }
    let text: Result<String, _> = serde_json::from_str(row.value.get());
    let value = text.unwrap_or_else(|_| row.value.get().to_owned());
    let (seq, flags) = (row.seq.to_string(), row.flags.join(" "));
    let max_error = row.time.max_error_us.map(|us| us.to_string()).unwrap_or_default();
    let cells = [
        row.source.as_str(),
        &row.epoch,
        &seq,
        &row.entity,
        &row.property,
        &value,
        row.unit.as_deref().unwrap_or_default(),
        &row.quality,
        &row.event_time,
        &row.ingest_time,
        &row.time.origin,
        &row.time.clock,
        &row.time.state,
        &max_error,
        &flags,
    ];
    for (at, cell) in cells.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put_cell(cell, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// RFC 4180: quoted where it must be, quotes doubled.
fn put_cell(cell: &str, out: &mut Vec<u8>) {
    if !cell.contains([',', '"', '\r', '\n']) {
        out.extend_from_slice(cell.as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(cell.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    const READING: &str = r#"{"v":1,"gateway":"gw","source":"in","epoch":"1-00000009","seq":3,"entity":"pump, \"7\"","property":"p","value":{"x":1},"unit":"kPa","quality":"good","event_time":"2026-11-30T01:02:03.000000000Z","ingest_time":"2026-11-30T01:02:04.000000000Z","time":{"origin":"device","clock":"ntp","state":"synchronized","max_error_us":1200,"timebase":1},"flags":["skewed","order_break"]}"#;

    #[test]
    fn a_reading_is_a_row_and_nothing_else_is() {
        let mut out = Vec::new();
        as_row(READING.as_bytes(), &mut out);
        let expected = "in,1-00000009,3,\"pump, \"\"7\"\"\",p,\"{\"\"x\"\":1}\",kPa,good,\
                        2026-11-30T01:02:03.000000000Z,2026-11-30T01:02:04.000000000Z,\
                        device,ntp,synchronized,1200,skewed order_break\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        as_row(br#"{"v":1,"gateway":"gw","source":"in","first_seq":1}"#, &mut out);
        as_row(READING.replace("\"seq\"", "\"window\":\"w\",\"seq\"").as_bytes(), &mut out);
        assert_eq!(out, b"");
    }

    #[test]
    fn times_are_compared_in_one_form() {
        assert_eq!(time("2026-11-30T02:02:03+01:00").unwrap(), "2026-11-30T01:02:03.000000000Z");
        assert!(time("yesterday").is_err());
    }
}
