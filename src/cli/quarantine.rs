//! `tidegate quarantine`: what was refused, and what becomes of it.
//!
//! Three things end there: inputs that became no reading, readings that no broker
//! takes, and segments of the journal that could not be read. The first two can be
//! handed in again, to the running agent, for only it gives numbers.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use clap::Subcommand;

use super::digits::{bytes, counted, grouped};
use super::journal::place::{Place, failure};
use super::table::{Cell, table};
use super::terminal::{Paint, harmless, harmless_here};
use super::{ConfigFile, control, print, to_json};
use crate::config::Config;
use crate::core::limits::REFUSALS_KEPT_MAX;
use crate::exit::{Exit, Failure};
use crate::shell::desk::CHOSEN_MAX;
use crate::shell::quarantine::{self as kept, Chosen, Done, Listing, Whole};
use crate::store::quarantine::Filter;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tidegate quarantine list -c tidegate.toml --source press-line")]
pub(super) struct Args {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// What is in it, the newest first.
    #[command(after_help = "Example: tidegate quarantine list -c tidegate.toml --kind syntax")]
    List {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        filter: Filtered,
        /// At most N of them, up to 10000.
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// One of them whole.
    #[command(after_help = "Example: tidegate quarantine show 17 -c tidegate.toml")]
    Show {
        #[command(flatten)]
        common: Common,
        /// Its number.
        id: u64,
    },
    /// Hand it in again (needs the running agent).
    ///
    /// A line goes through its source's parser as it is now, a reading
    /// under its source's next number with its first event time and the flag
    /// `released`. The gap record of the number that it had stands. Ends with 74
    /// without the agent, with 1 when one is refused again, with its new reason.
    /// A crash between the acceptance and its note leaves it here: look at the
    /// readings before you release it twice.
    #[command(
        after_help = "Example: tidegate quarantine release --source press-line -c tidegate.toml"
    )]
    Release {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        chosen: ChosenBy,
    },
    /// Delete it for good. Says what it was.
    #[command(
        after_help = "Example: tidegate quarantine discard 17 segment:000007 -c tidegate.toml"
    )]
    Discard {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        chosen: ChosenBy,
    },
}

#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    config: ConfigFile,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Filtered {
    /// Only of this source.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Only of this kind: `syntax`, `too_long`, `time`, `refused_by_broker` …
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ChosenBy {
    /// Numbers, and `segment:NAME`, as `list` has them.
    #[arg(value_name = "ID", required_unless_present_any = ["all", "source", "kind"])]
    ids: Vec<String>,
    /// All refused inputs; segments only by their id.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    #[command(flatten)]
    filter: Filtered,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    match &args.act {
        Act::List { common, filter, limit } => {
            let config = common.config.load()?;
            let listing = list(&config, filter, *limit)?;
            print(&if common.json {
                to_json(&listing)?
            } else {
                text_of_list(&listing, Paint::of(&io::stdout()))
            })?;
            Ok(Exit::Done)
        }
        Act::Show { common, id } => show(common, *id),
        Act::Release { common, chosen } => {
            let config = common.config.load()?;
            let data_dir = match Place::of(config.gateway.data_dir.clone())? {
                Place::Live(data_dir) => data_dir,
                // Only an agent can take readings in.
                Place::Still(data_dir) => return Err(control::no_agent(&data_dir)),
            };
            let ids = chosen.ids(&config)?;
            tell(
                common,
                &in_parts(&ids, |chosen| post(&data_dir, "/api/v1/quarantine/release", chosen))?,
            )
        }
        Act::Discard { common, chosen } => {
            let config = common.config.load()?;
            let ids = chosen.ids(&config)?;
            let done = match Place::of(config.gateway.data_dir.clone())? {
                Place::Live(data_dir) => {
                    in_parts(&ids, |chosen| post(&data_dir, "/api/v1/quarantine/discard", chosen))?
                }
                Place::Still(data_dir) => {
                    let mut refusals = crate::store::quarantine::open(&data_dir);
                    let one = |id: &String| kept::discard(&mut refusals, &data_dir, id);
                    let done: Result<Vec<Done>, _> = ids.iter().map(one).collect();
                    refusals.close();
                    done.map_err(|error| failure(&error))?
                }
            };
            tell(common, &done)
        }
    }
}

impl Filtered {
    fn filter(&self) -> Filter {
        Filter { source: self.source.clone(), kind: self.kind.clone() }
    }

    fn query(&self, limit: usize) -> String {
        let mut query = format!("/api/v1/quarantine?limit={limit}");
        for (key, value) in [("source", &self.source), ("kind", &self.kind)] {
            if let Some(value) = value {
                // Writing to a string does not fail.
                let _ = write!(query, "&{key}={value}");
            }
        }
        query
    }
}

impl ChosenBy {
    /// The numbers that are meant, the oldest first: so they were taken in.
    fn ids(&self, config: &Config) -> Result<Vec<String>, Failure> {
        if !self.ids.is_empty() {
            return Ok(self.ids.clone());
        }
        let listing = list(config, &self.filter, REFUSALS_KEPT_MAX)?;
        Ok(listing.items.iter().rev().map(|item| item.id.to_string()).collect())
    }
}

fn list(config: &Config, filter: &Filtered, limit: usize) -> Result<Listing, Failure> {
    let gateway = &config.gateway.id;
    match Place::of(config.gateway.data_dir.clone())? {
        Place::Live(data_dir) => control::get_json(&data_dir, &filter.query(limit))
            .map_err(|error| control::failure(&data_dir, &error)),
        Place::Still(data_dir) => {
            let mut refusals = crate::store::quarantine::open(&data_dir);
            let listing = kept::list(&mut refusals, &data_dir, gateway, &filter.filter(), limit);
            refusals.close();
            listing.map_err(|error| failure(&error))
        }
    }
}

fn show(common: &Common, id: u64) -> Result<Exit, Failure> {
    let config = common.config.load()?;
    let whole = match Place::of(config.gateway.data_dir.clone())? {
        Place::Live(data_dir) => {
            match control::get_json(&data_dir, &format!("/api/v1/quarantine/{id}")) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                other => Some(other.map_err(|error| control::failure(&data_dir, &error))?),
            }
        }
        Place::Still(data_dir) => {
            let mut refusals = crate::store::quarantine::open(&data_dir);
            let whole = kept::show(&mut refusals, &config.gateway.id, id);
            refusals.close();
            whole.map_err(|error| failure(&error))?
        }
    };
    let Some(whole) = whole else {
        return Err(Failure::new(Exit::CheckFailed, kept::absent(&id.to_string()).detail));
    };
    print(&if common.json { to_json(&whole)? } else { text_of_whole(&whole) })?;
    Ok(Exit::Done)
}

fn post(data_dir: &Path, path: &str, chosen: &Chosen) -> Result<Vec<Done>, Failure> {
    control::post_json(data_dir, path, chosen).map_err(|error| control::failure(data_dir, &error))
}

/// Not more at once than the agent takes.
fn in_parts(
    ids: &[String],
    mut send: impl FnMut(&Chosen) -> Result<Vec<Done>, Failure>,
) -> Result<Vec<Done>, Failure> {
    let mut done = Vec::new();
    for part in ids.chunks(CHOSEN_MAX) {
        done.extend(send(&Chosen { ids: part.to_vec() })?);
    }
    Ok(done)
}

fn tell(common: &Common, done: &[Done]) -> Result<Exit, Failure> {
    let text = if common.json { to_json(&done)? } else { done.iter().map(text_of_done).collect() };
    print(&text)?;
    let is_good = done.iter().all(Done::is_good);
    Ok(if is_good { Exit::Done } else { Exit::CheckFailed })
}

fn text_of_done(done: &Done) -> String {
    let Done { id, outcome, readings, detail } = done;
    match outcome.as_str() {
        "accepted" => format!("{id}: accepted, {}\n", counted(*readings, "reading")),
        outcome => format!("{id}: {outcome}: {}\n", harmless(detail, false)),
    }
}

/// An instant to the second.
fn to_second(at: &str) -> String {
    at.get(..19).unwrap_or(at).replace('T', " ")
}

fn text_of_list(listing: &Listing, paint: Paint) -> String {
    let mut text = String::new();
    let clean = |text: &str| harmless(text, false).into_owned();
    let items = listing.items.iter().map(|one| {
        let row = [one.id.to_string(), clean(&one.source), one.kind.clone(), to_second(&one.at)];
        (row, one.length, format!("{}\n        {}", clean(&one.reason), clean(&one.head)))
    });
    let segments = listing.segments.iter().map(|one| {
        let row = [clean(&one.id), String::new(), "segment".to_owned(), to_second(&one.at)];
        (row, one.bytes, clean(&one.reason))
    });
    let all: Vec<_> = items.chain(segments).collect();
    let rows: Vec<_> = all
        .iter()
        .map(|([id, source, kind, at], length, _)| {
            let length = grouped(*length);
            [id, source, kind, at, &length].map(Cell::plain)
        })
        .collect();
    if !rows.is_empty() {
        let mut lines =
            table("", ["id", "source", "kind", "at", "bytes"], &rows, paint).into_iter();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}  reason, and how it begins", lines.next().unwrap_or_default());
        for (line, (_, _, reason)) in lines.zip(&all) {
            let _ = writeln!(text, "{line}  {reason}");
        }
    }
    let (items, segments) = (listing.items.len(), listing.segments.len());
    let _ = writeln!(
        text,
        "{} and {} shown; {} kept, {} dropped for room",
        counted(items as u64, "refused input"),
        counted(segments as u64, "segment"),
        bytes(listing.kept_bytes),
        listing.dropped
    );
    text
}

fn text_of_whole(whole: &Whole) -> String {
    let item = &whole.item;
    let mut text = format!(
        "id       {}\nsource   {}\nkind     {}\nat       {}\nreason   {}\nlength   {} bytes, {} kept\n\n",
        item.id,
        item.source,
        item.kind,
        item.at,
        harmless(&item.reason, false),
        item.length,
        item.kept_bytes
    );
    let reading = whole.reading.as_ref().map(ToString::to_string);
    let content = reading.as_ref().or(whole.text.as_ref()).or(whole.hex.as_ref());
    text.extend(content.map(|content| harmless_here(content)));
    text.push('\n');
    text
}
