//! `tidegate modbus scan`: which unit ids answer.

use std::time::Duration;

use super::{Place, length};
use crate::cli::print;
use crate::exit::{Exit, Failure};
use crate::source::modbus::{Fault, Link, Request};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: tidegate modbus scan /dev/ttyUSB0 --baud 9600 --parity none --to 32\n\
    A unit that answers with an exception is there too: it only lacks that register.\n\
    Ends with 1 when none answers."
)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// The first unit id.
    #[arg(long, default_value_t = 1)]
    from: u8,
    /// The last unit id.
    #[arg(long, default_value_t = 247)]
    to: u8,
    /// How long each may take.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = length)]
    timeout: Duration,
}

pub(super) async fn execute(args: &Args) -> Result<Exit, Failure> {
    let mut link = args.place.link(args.timeout);
    let mut found = 0;
    for unit in args.from..=args.to {
        let Some(line) = ask(&mut link, &args.place, unit).await? else { continue };
        found += 1;
        if !print(&format!("{line}\n"))? {
            return Ok(Exit::Done);
        }
    }
    let (from, to) = (args.from, args.to);
    print(&format!("{found} of the units {from} to {to} answer\n"))?;
    Ok(if found > 0 { Exit::Done } else { Exit::CheckFailed })
}

/// What there is to say of a unit that answers.
async fn ask(link: &mut Link, place: &Place, unit: u8) -> Result<Option<String>, Failure> {
    let request = Request { unit, table: place.table(), address: place.address, count: 1 };
    let (table, address) = (request.table.as_str(), request.address);
    match link.ask(request, || {}).await {
        Ok(data) => {
            let digits: String = data.iter().map(|byte| format!("{byte:02X}")).collect();
            Ok(Some(format!("unit {unit}: {table} {address} is 0x{digits}")))
        }
        Err(Fault::Exception(exception)) if !exception.is_unreachable() => {
            Ok(Some(format!("unit {unit}: {table} {address}: {exception}")))
        }
        Err(fault @ (Fault::NoConnection(_) | Fault::NotModbus(_))) => {
            Err(Failure::new(Exit::Io, fault))
        }
        Err(_) => Ok(None),
    }
}
