//! `tidegate modbus`: tries a device from the command line, before it is written
//! into the configuration.

mod read;
mod scan;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};

use crate::config::modbus::{ModbusLine, Parity, SerialPort, Table, parse_host};
use crate::exit::{Exit, Failure};
use crate::source::modbus::Link;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate modbus scan 10.0.0.10:502\n\
    Asks the device itself; no agent and no configuration is needed. Not for a serial port \
    that a running agent uses: they would hear each other's answers.")]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read registers, and show them in every type and order to find the right one.
    Read(read::Args),
    /// Find the unit ids that answer.
    Scan(scan::Args),
}

/// How the device is reached.
#[derive(Debug, clap::Args)]
struct Place {
    /// HOST, HOST:PORT, or the path of a serial port.
    #[arg(value_name = "DEVICE", value_parser = place)]
    place: Where,
    /// RTU frames over TCP.
    #[arg(long)]
    rtu_over_tcp: bool,
    /// Bits per second of a serial port.
    #[arg(long, default_value_t = 19_200, value_parser = clap::value_parser!(u32).range(300..=4_000_000))]
    baud: u32,
    /// Parity of a serial port.
    #[arg(long, value_enum, default_value = "even")]
    parity: ParityWord,
    /// Stop bits of a serial port.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    stop_bits: u8,
    /// The table to read.
    #[arg(long, value_enum, default_value = "holding")]
    table: TableWord,
    /// The first register, as in the frame: from 0.
    #[arg(long, default_value_t = 0)]
    address: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Where {
    Tcp(String, u16),
    Serial(PathBuf),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ParityWord {
    None,
    Even,
    Odd,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TableWord {
    Coil,
    Discrete,
    Input,
    Holding,
}

fn place(text: &str) -> Result<Where, String> {
    if text.starts_with('/') {
        return Ok(Where::Serial(text.into()));
    }
    let wrong = "write HOST, HOST:PORT, or the path of a serial port like /dev/ttyUSB0";
    parse_host(text).map(|(host, port)| Where::Tcp(host, port)).ok_or_else(|| wrong.to_owned())
}

/// A length of time from 10 ms to a minute.
fn length(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(10)..=Duration::from_secs(60);
    if range.contains(&length) { Ok(length) } else { Err("use 10ms to 1m".to_owned()) }
}

impl Place {
    fn link(&self, timeout: Duration) -> Link {
        let line = match &self.place {
            Where::Tcp(host, port) => {
                ModbusLine::Tcp { host: host.clone(), port: *port, is_rtu: self.rtu_over_tcp }
            }
            Where::Serial(path) => ModbusLine::Serial(SerialPort {
                path: path.clone(),
                baud: self.baud,
                parity: match self.parity {
                    ParityWord::None => Parity::None,
                    ParityWord::Even => Parity::Even,
                    ParityWord::Odd => Parity::Odd,
                },
                stop_bits: self.stop_bits,
            }),
        };
        Link::new(&line, timeout)
    }

    fn table(&self) -> Table {
        match self.table {
            TableWord::Coil => Table::Coil,
            TableWord::Discrete => Table::Discrete,
            TableWord::Input => Table::Input,
            TableWord::Holding => Table::Holding,
        }
    }
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Io, format!("the runtime does not start: {error}")))?;
    runtime.block_on(async {
        match &args.action {
            Action::Read(read) => read::execute(read).await,
            Action::Scan(scan) => scan::execute(scan).await,
        }
    })
}
