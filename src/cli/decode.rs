//! `tidegate decode`: payloads of `postcard-batch` as the JSON lines that
//! `format = "json"` would have sent.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use self::broker::Broker;
use super::terminal;
use crate::exit::{Exit, Failure};
use crate::wire::batch::{BATCH_BYTES_MAX, Batch};
use crate::wire::json;

mod broker;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate decode payload.bin | jq .value\n\
    Example: tidegate decode --url mqtt://broker:1883 --topic 'tidegate/+/readings/#'\n\
    Example: mosquitto_sub -t 'tidegate/+/readings/#' -F %x | tidegate decode --hex -\n\n\
    A payload that is JSON already is printed as it is. One that cannot be decoded is named on \
    stderr with its offset and the reason, the rest goes on, and the command ends with 1. A \
    connection that breaks ends it with 74; Ctrl-C or a reader that hangs up end it too.")]
pub(super) struct Args {
    /// What to decode: files of one payload each; `-` is the standard input.
    #[arg(value_name = "FILE", required_unless_present = "url")]
    files: Vec<PathBuf>,
    /// The files hold payloads in hexadecimal digits, one a line.
    #[arg(long, conflicts_with = "url")]
    hex: bool,
    #[command(flatten)]
    broker: Broker,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let mut decoder = Decoder { out: io::stdout().lock(), is_open: true, has_failed: false };
    for path in &args.files {
        let bytes = read(path)?;
        let name = path.display().to_string();
        if args.hex {
            decoder.hex_lines(&name, &bytes)?;
        } else {
            decoder.payload(&name, &bytes)?;
        }
    }
    if let Some(url) = &args.broker.url {
        args.broker.follow(url, |topic, payload| {
            decoder.payload(topic, payload)?;
            Ok(decoder.is_open)
        })?;
    }
    Ok(if decoder.has_failed { Exit::CheckFailed } else { Exit::Done })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let outcome = if path.as_os_str() == "-" {
        io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    outcome.map_err(|error| Failure::io(path.display(), &error))?;
    Ok(bytes)
}

/// Takes payloads, writes lines.
struct Decoder<W> {
    out: W,
    /// Nobody hung up yet.
    is_open: bool,
    /// A payload could not be decoded.
    has_failed: bool,
}

impl<W: Write> Decoder<W> {
    /// Payloads in hexadecimal digits, one a line; empty lines are none.
    fn hex_lines(&mut self, name: &str, text: &[u8]) -> Result<(), Failure> {
        for (line, digits) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let digits = digits.trim_ascii();
            if digits.is_empty() || !self.is_open {
                continue;
            }
            let name = format!("{name} line {line}");
            match bytes_of_hex(digits) {
                Ok(payload) => self.payload(&name, &payload)?,
                Err(place) => {
                    self.failed(&name, &format_args!("at digit {place}: not hexadecimal"));
                }
            }
        }
        Ok(())
    }

    /// One payload, from `name`.
    fn payload(&mut self, name: &str, payload: &[u8]) -> Result<(), Failure> {
        let mut lines = Vec::new();
        if payload.first() == Some(&b'{') {
            lines.extend_from_slice(payload.trim_ascii_end());
            lines.push(b'\n');
            return self.write(&lines);
        }
        let batch = match Batch::decode(payload) {
            Ok(batch) => batch,
            Err(error) => {
                self.failed(name, &error);
                return Ok(());
            }
        };
        for record in batch.records() {
            match record {
                Ok(record) => {
                    lines.clear();
                    json::reading(&batch.gateway, &record, &mut lines);
                    lines.push(b'\n');
                    self.write(&lines)?;
                }
                Err(error) => self.failed(name, &error),
            }
        }
        Ok(())
    }

    fn failed(&mut self, name: &str, why: &dyn std::fmt::Display) {
        self.has_failed = true;
        // When stderr is gone there is nobody to tell.
        let _ = writeln!(
            io::stderr().lock(),
            "tidegate: {}",
            terminal::harmless(&format!("{name}: {why}"), false)
        );
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), Failure> {
        if !self.is_open {
            return Ok(());
        }
        match self.out.write_all(&terminal::harmless_bytes_here(lines)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_open = false;
                Ok(())
            }
            Err(error) => Err(Failure::io("stdout", &error)),
        }
    }
}

/// The bytes, or the place of the first character that is no digit, from 0.
fn bytes_of_hex(digits: &[u8]) -> Result<Vec<u8>, usize> {
    let digit = |place: usize| {
        let one = digits.get(place).and_then(|byte| char::from(*byte).to_digit(16));
        one.map(|value| value as u8).ok_or(place)
    };
    (0..digits.len()).step_by(2).map(|at| Ok(digit(at)? << 4 | digit(at + 1)?)).collect()
}

/// The longest packet that is taken from a broker: a batch, its topic, its
/// properties.
const PACKET_BYTES_MAX: u32 = BATCH_BYTES_MAX as u32 + 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: &[u8] =
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/batch-v1.bin"));
    const LINES: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/batch-v1.jsonl"));

    fn decoder() -> Decoder<Vec<u8>> {
        Decoder { out: Vec::new(), is_open: true, has_failed: false }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn what_cannot_be_decoded_does_not_stop_the_rest() {
        let mut decoder = decoder();
        let text = format!("0199\nxx\n1\n\n{}\r\n", hex(PAYLOAD));
        decoder.hex_lines("in", text.as_bytes()).unwrap();
        assert!(decoder.has_failed);
        assert_eq!(String::from_utf8(decoder.out).unwrap(), LINES);
    }

    #[test]
    fn digits_make_bytes() {
        assert_eq!(bytes_of_hex(b"00aFf1"), Ok(vec![0x00, 0xaf, 0xf1]));
        assert_eq!((bytes_of_hex(b"0g"), bytes_of_hex(b"0")), (Err(1), Err(1)));
    }

    #[test]
    fn json_passes() {
        let mut decoder = decoder();
        decoder.payload("a", b"{\"v\":1}\n").unwrap();
        decoder.payload("b", b"{\"v\":2}").unwrap();
        assert_eq!(decoder.out, b"{\"v\":1}\n{\"v\":2}\n");
    }
}
