//! `tidegate audit`: what a gateway produced against what a consumer has.
//!
//! Produced are the numbers 1 to the newest of every source and epoch that the
//! journal knows of. Each must be with the consumer, or in a gap record, or still
//! wait in the journal. Where the journal still has a reading that the consumer
//! has too, both must say the same.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::journal::place::{Place, Progress};
use super::{print, to_json};
use crate::core::id::is_window;
use crate::exit::{Exit, Failure};
use crate::store::inspect::Numbering;

pub(super) mod proof;
pub(super) mod received;

use proof::{Produced, Tally};
use received::{Received, Stretch};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: tidegate audit --journal /var/lib/tidegate --received received.txt\n\
    where received.txt is what mosquitto_sub -t 'tidegate/gw-07/#' -v wrote\n\n\
    Example: tidegate audit --journal unix:/var/lib/tidegate/control.sock --received -"
)]
pub(super) struct Args {
    /// A data directory (its agent may run), a copy of one, or the control socket of
    /// an agent as unix:PATH.
    #[arg(long, value_name = "DIR|URL")]
    journal: String,
    /// What the consumer has: one message a line, its JSON alone or its topic before
    /// it; - for stdin.
    #[arg(long, value_name = "FILE")]
    received: PathBuf,
    /// Repeats are no fault: the consumer drops them by their name later.
    #[arg(long)]
    allow_repeats: bool,
    /// What a source sent before the first message that the consumer has of it is no
    /// hole: it subscribed later.
    #[arg(long)]
    from_first_received: bool,
    /// As JSON; the form is stable.
    #[arg(long)]
    json: bool,
}

/// What is no fault.
#[derive(Clone, Copy, Debug, Default)]
struct Lenience {
    repeats: bool,
    before_first: bool,
}

/// What came out.
#[derive(Debug, PartialEq, Serialize)]
struct Audit {
    /// Version of this form: 1.
    v: u32,
    /// Whether there is nothing to object to.
    holds: bool,
    sources: Vec<Line>,
    /// Lines that are no message of the contract.
    out_of_contract: u64,
    /// The first of them, and what is wrong with it.
    first_complaint: Option<String>,
}

/// One source and epoch.
#[derive(Debug, PartialEq, Serialize)]
struct Line {
    source: String,
    epoch: String,
    /// Numbers given out.
    produced: u64,
    /// Different ones that came.
    received: u64,
    /// Copies beyond the first of each.
    repeats: u64,
    /// Numbers that never come, named by gap records.
    in_gap_records: u64,
    /// Numbers that wait in the journal.
    waiting: u64,
    /// Numbers that should be there and are not.
    holes: u64,
    /// Numbers that are not there because the consumer came later, if that is no fault; they
    /// are not among the holes.
    before_first: u64,
    /// The least number that came.
    first_received: Option<u64>,
    /// The first number that is not there, for whatever reason.
    first_missing: Option<u64>,
    /// Numbers that came with two contents, or with another than the journal's.
    differences: u64,
    /// Numbers that came and were never given out.
    invented: u64,
}

impl Line {
    fn is_good(&self, lenience: Lenience) -> bool {
        let faults = self.holes + self.differences + self.invented;
        faults == 0 && (lenience.repeats || self.repeats == 0)
    }

    /// Where all that came before: what is missing may have been sent before the consumer
    /// subscribed.
    fn later_from(&self) -> Option<u64> {
        let is_later = self.first_missing == Some(1) && self.holes > 0;
        self.first_received.filter(|_| is_later)
    }
}

/// The parts of a line that say what it is.
#[derive(Debug, Deserialize)]
struct Kind {
    #[serde(default)]
    gateway: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    epoch: String,
    seq: Option<u64>,
    window: Option<String>,
    event_time: Option<String>,
    first_seq: Option<u64>,
    reason: Option<String>,
    #[serde(default)]
    time: Time,
}

#[derive(Debug, Default, Deserialize)]
struct Time {
    #[serde(default)]
    origin: String,
    #[serde(default)]
    state: String,
}

pub(super) fn execute(args: &Args) -> Result<Exit, Failure> {
    let place = place(&args.journal)?;
    let mut received = read(&args.received)?;
    let stats = place.stats()?;
    let gateway = received.gateway.clone();
    let mut books = Books::default();
    let progress = Progress::new(stats.entries, "entries of the journal");
    place.lines(&gateway, 0, |line| {
        progress.step();
        books.compare(line, &mut received.messages);
        Ok(true)
    })?;
    progress.end();
    let lenience = Lenience { repeats: args.allow_repeats, before_first: args.from_first_received };
    let audit = judge(&stats.numbers, &received.messages, &books, lenience);
    print(&if args.json { to_json(&audit)? } else { text(&audit, lenience) })?;
    Ok(if audit.holds { Exit::Done } else { Exit::CheckFailed })
}

fn place(journal: &str) -> Result<Place, Failure> {
    let folder = match journal.strip_prefix("unix:") {
        Some(socket) => Path::new(socket).parent().unwrap_or(Path::new(".")).to_path_buf(),
        None if journal.contains("://") => {
            let what =
                "readings are shown on the control socket alone: use unix:PATH or the folder";
            return Err(Failure::new(Exit::Usage, format_args!("--journal {journal}: {what}")));
        }
        None => PathBuf::from(journal),
    };
    Place::of(folder)
}

/// What a consumer has, and of which gateway.
#[derive(Debug, Default)]
struct Consumer {
    messages: Received,
    gateway: String,
}

fn read(path: &Path) -> Result<Consumer, Failure> {
    let failed = |error: &std::io::Error| Failure::io(path.display(), error);
    let lines: Box<dyn std::io::BufRead> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(|error| failed(&error))?))
    };
    let mut consumer = Consumer::default();
    for line in lines.split(b'\n') {
        consumer.take(&line.map_err(|error| failed(&error))?);
    }
    Ok(consumer)
}

impl Consumer {
    fn take(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        let payload = match line.iter().position(|byte| *byte == b'{') {
            _ if line.is_empty() => return,
            // The topic says nothing that the payload does not say.
            Some(at) => &line[at..],
            None => line,
        };
        let Some((topic, kind)) = topic(payload) else {
            return self.messages.take("no message", payload);
        };
        if self.gateway.is_empty() {
            self.gateway = kind.gateway;
        }
        self.messages.take(&topic, &canonical(payload));
    }
}

/// The topic that a payload goes to by the contract.
fn topic(payload: &[u8]) -> Option<(String, Kind)> {
    let kind: Kind = serde_json::from_slice(payload).ok()?;
    let (gateway, source) = (&kind.gateway, &kind.source);
    let topic = match (&kind.window, kind.seq, &kind.event_time, kind.first_seq) {
        (Some(window), Some(_), Some(_), _) => format!("tidegate/{gateway}/late/{window}"),
        (Some(window), Some(_), None, _) => format!("tidegate/{gateway}/windows/{window}"),
        (None, Some(_), Some(_), _) => format!("tidegate/{gateway}/readings/{source}"),
        (None, None, None, Some(_)) if kind.reason.is_some() => {
            format!("tidegate/{gateway}/gaps/{source}")
        }
        (None, None, None, Some(_)) => format!("tidegate/{gateway}/corrections/{source}"),
        _ => format!("tidegate/{gateway}/status"),
    };
    Some((topic, kind))
}

/// The same text for the same content, however a consumer writes JSON.
fn canonical(payload: &[u8]) -> Vec<u8> {
    let value = serde_json::from_slice::<Value>(payload);
    value.ok().and_then(|value| serde_json::to_vec(&value).ok()).unwrap_or(payload.to_vec())
}

/// What comparing with the journal has shown.
#[derive(Debug, Default)]
struct Books {
    /// Numbers that the journal has and the consumer has not.
    absent: BTreeSet<(String, String, u64)>,
    /// Numbers that both have, each its own.
    different: BTreeSet<(String, String, u64)>,
}

impl Books {
    fn compare(&mut self, line: &[u8], received: &mut Received) {
        let payload = canonical(line.trim_ascii());
        let Some((topic, kind)) = topic(&payload) else { return };
        if kind.first_seq.is_some() && kind.reason.is_some() {
            return received.take(&topic, &payload);
        }
        let is_late = kind.window.is_some() && kind.event_time.is_some();
        let Some(seq) = kind.seq.filter(|_| !is_late) else { return };
        let name = (kind.source, kind.epoch, seq);
        // How it was timed on its way out is forgotten once it is acknowledged.
        let is_settled = kind.time.state == "synchronized"
            || !matches!(kind.time.origin.as_str(), "gateway" | "substituted");
        match received.holds((&name.0, &name.1), seq, &payload) {
            None => {
                self.absent.insert(name);
            }
            Some(false) if is_settled => {
                self.different.insert(name);
            }
            Some(_) => {}
        }
    }
}

fn judge(numbers: &[Numbering], received: &Received, books: &Books, lenience: Lenience) -> Audit {
    let produced: Vec<Produced> = numbers
        .iter()
        // A window with nothing up there at all is computed for the site alone.
        .filter(|one| !is_window(&one.source) || received.knows(&one.source))
        .map(|one| Produced {
            source: one.source.clone(),
            epoch: one.epoch.clone(),
            accepted: one.last,
        })
        .collect();
    let nothing = Stretch::default();
    let of = |tally: Tally| {
        let key = (tally.source.clone(), tally.epoch.clone());
        let is_of = |name: &&(String, String, u64)| name.0 == key.0 && name.1 == key.1;
        let numbering =
            numbers.iter().find(|one| one.source == tally.source && one.epoch == tally.epoch);
        let through = numbering.map_or(0, |one| one.through);
        let stretch = received.stretch(&key).unwrap_or(&nothing);
        let waits = |name: &&(String, String, u64)| name.2 > through && !stretch.names(name.2);
        let waiting = || books.absent.iter().filter(is_of).filter(waits);
        let first_received = stretch.copies.keys().next().copied();
        let before_first = match first_received.filter(|_| lenience.before_first) {
            Some(first) => {
                let missing = (1..first).filter(|seq| !stretch.names(*seq)).count();
                (missing - waiting().filter(|name| name.2 < first).count()) as u64
            }
            None => 0,
        };
        let waiting = waiting().count() as u64;
        Line {
            produced: tally.produced,
            received: tally.distinct,
            repeats: tally.repeats(),
            in_gap_records: tally.missing_named,
            waiting,
            holes: tally.missing_unnamed.saturating_sub(waiting + before_first),
            before_first,
            first_received,
            first_missing: tally.first_missing,
            differences: tally.changed + books.different.iter().filter(is_of).count() as u64,
            invented: tally.invented,
            source: key.0,
            epoch: key.1,
        }
    };
    let sources: Vec<Line> = proof::tallies(&produced, received).into_iter().map(of).collect();
    let is_good = |line: &Line| line.is_good(lenience);
    Audit {
        v: 1,
        holds: sources.iter().all(is_good) && received.out_of_contract == 0,
        sources,
        out_of_contract: received.out_of_contract,
        first_complaint: received.first_complaint.clone(),
    }
}

/// For people. Writing to a string does not fail.
fn text(audit: &Audit, lenience: Lenience) -> String {
    let mut text = String::new();
    for line in &audit.sources {
        let mark = if line.is_good(lenience) { "ok  " } else { "BAD " };
        let _ = writeln!(
            text,
            "{mark}{} {}: {} produced, {} received, {} repeats, {} in gap records, {} waiting, \
             {} holes, {} differences, {} never given out",
            line.source,
            line.epoch,
            line.produced,
            line.received,
            line.repeats,
            line.in_gap_records,
            line.waiting,
            line.holes,
            line.differences,
            line.invented
        );
        if line.before_first > 0 {
            let before = line.before_first;
            let _ =
                writeln!(text, "    {before} from before the consumer's first message left out");
        }
        if let Some(first) = line.later_from() {
            let _ = writeln!(
                text,
                "    the consumer's first message is {first}: subscribed later? \
                 --from-first-received leaves out what was sent before"
            );
        } else if let Some(first) = line.first_missing.filter(|_| line.holes > 0) {
            let _ = writeln!(text, "    the first that is not there is {first}");
        }
    }
    if let Some(complaint) = &audit.first_complaint {
        let count = audit.out_of_contract;
        let _ = writeln!(text, "BAD {count} lines are no messages; the first: {complaint}");
    }
    let verdict = match audit.holds {
        true => "nothing is missing, repeated or different\n",
        false => "it does not hold\n",
    };
    text + verdict
}

#[cfg(test)]
#[path = "audit/audit_tests.rs"]
mod tests;
