//! The status as JSON: a stable form of its own, so that renaming something
//! inside never changes what people's scripts read.
//!
//! Times are RFC 3339 in UTC, durations seconds, sizes bytes. What is not known
//! is `null`. Fields are added, never renamed; `v` counts the breaks.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use super::clock::Clock;
use super::clock::rounded;
pub use super::config::{ConfigInForce, Reload};
pub use super::health::SourceHealth;
pub use super::journal::Journal;
use super::journal::{fill, journal};
use super::lateness::SourceLateness;
use super::notices::Notice;
pub use super::orders::Ordered;
pub use super::windows::Window;
use super::words;
use crate::core::agent::{LinkState, SourceStatus, Status};
use crate::core::id::{SourceId, is_window};
use crate::core::seam::{FullCause, Now, puback_meaning};
use crate::core::status::UplinkStatus;
use crate::core::time::{IngestTime, MonoTime, Span};
use crate::core::wear::Wear;

/// An uplink with something in flight and no PUBACK for longer than this is called
/// degraded although the connection stands.
const PUBACK_OVERDUE: Span = Span::from_secs(60);

/// What does not change while the agent runs.
#[derive(Clone, Debug)]
pub struct About {
    /// The gateway's id.
    pub gateway: String,
    /// When the agent started, by both clocks.
    pub started: (MonoTime, IngestTime),
    /// `journal.max_bytes`.
    pub quota_bytes: u64,
    /// `journal.reserve_free`.
    pub reserve_bytes: u64,
}

/// Everything the agent says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this form: 1.
    pub v: u32,
    /// The gateway's id.
    pub gateway: String,
    /// Tidegate's version.
    pub version: String,
    /// When this was said, by the gateway's clock.
    pub at: String,
    /// When the agent started, by the gateway's clock then.
    pub started_at: String,
    /// Seconds since the agent started.
    pub uptime_s: f64,
    /// The numbering in use.
    pub epoch: String,
    /// The configuration in force; `null` where the agent was started without a file.
    #[serde(default)]
    pub config: Option<ConfigInForce>,
    /// What is not as it should be; empty when all is well.
    pub degraded: Vec<Degraded>,
    /// Readings accepted per second, over the last seconds.
    pub accepted_per_s: f64,
    /// Memory that the process has (resident set), in bytes, by the kernel's word;
    /// `null` where it does not tell.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// The journal.
    pub journal: Journal,
    /// The first uplink.
    pub uplink: Uplink,
    /// Every uplink, as configured.
    #[serde(default)]
    pub uplinks: Vec<Uplink>,
    /// The clock.
    pub clock: Clock,
    /// The books per source, by name.
    pub sources: Vec<Source>,
    /// How late readings come, per source that one was measured of, by name.
    #[serde(default)]
    pub lateness: Vec<SourceLateness>,
    /// The windows on site, by name.
    #[serde(default)]
    pub windows: Vec<Window>,
    /// The outputs that get ordered readings.
    #[serde(default)]
    pub ordered: Vec<Ordered>,
    /// What the log said last, oldest first; up to 32 lines.
    #[serde(default)]
    pub notices: Arc<[Notice]>,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    /// For scripts: `uplink_down`, `puback_overdue`, `store_failing`, `full`,
    /// `filling`, `clock_untrusted`, `source_held`, `source_down`, `source_degraded`, `reload_refused`.
    pub code: String,
    /// For people.
    pub detail: String,
}

/// An uplink.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uplink {
    /// Its name.
    pub name: String,
    /// `up`, `connecting`, `down` or `stopped`.
    pub state: String,
    /// Seconds in `up` or `down`.
    pub for_s: Option<f64>,
    /// Seconds until the next attempt.
    pub retry_in_s: Option<f64>,
    /// Why it is down.
    pub reason: Option<String>,
    /// Publishes without PUBACK.
    pub inflight: usize,
    /// Their bound.
    pub inflight_max: usize,
    /// Age of the oldest of them.
    pub oldest_inflight_s: Option<f64>,
    /// Entries acknowledged per second, over the last seconds.
    pub acknowledged_per_s: f64,
    /// Readings and results that its broker has acknowledged.
    #[serde(default)]
    pub acknowledged: u64,
    /// Readings and results that wait.
    pub backlog: u64,
    /// Entries of them that drain on a lane of their own beside live ones.
    #[serde(default)]
    pub backfill: u64,
    /// Seconds until the backlog is gone at the present rates; `null` while it
    /// does not shrink.
    pub drain_eta_s: Option<f64>,
    /// Sources whose readings the broker refuses.
    pub held: Vec<Held>,
}

/// A source whose readings the broker refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The source.
    pub source: String,
    /// The MQTT 5 reason code, as in `0x87`.
    pub code: String,
    /// What it means.
    pub meaning: String,
}

/// The books of one source: `accepted = acknowledged + stored + evicted + lost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Readings accepted.
    pub accepted: u64,
    /// Readings the broker acknowledged.
    pub acknowledged: u64,
    /// Readings that wait in the journal.
    pub stored: u64,
    /// Readings evicted, with a gap record.
    pub evicted: u64,
    /// Readings lost to damage or refused by the broker, with a gap record.
    pub lost: u64,
    /// Inputs refused since the agent started.
    pub quarantined: u64,
    /// Repeats dropped since the agent started.
    #[serde(default)]
    pub duplicates: u64,
    /// Readings within their deadband, dropped since the agent started.
    #[serde(default)]
    pub within_deadband: u64,
    /// Names of readings that repeats are known by.
    #[serde(default)]
    pub dedupe_known: u64,
    /// Names forgotten within the horizon since the agent started, because
    /// `entries_max` was reached: their repeats pass.
    #[serde(default)]
    pub dedupe_forgotten: u64,
    /// Readings refused at the door since the agent started, buffer full.
    pub refused_full: u64,
    /// Stamps flagged future or past since the agent started.
    pub implausible: u64,
    /// Seconds since the last reading.
    pub last_reading_age_s: Option<f64>,
    /// How the source itself fares; `null` for windows, and for sources that are
    /// no longer configured.
    #[serde(default)]
    pub health: Option<SourceHealth>,
}

impl Report {
    /// Readings accepted, ever.
    pub fn accepted(&self) -> u64 {
        accepted(&self.sources)
    }

    /// Adds what the kernel says the process has written, in bytes, and at what rate by the
    /// `wear` so far.
    #[must_use]
    pub fn with_disk_written(mut self, written: Option<u64>, wear: &Wear) -> Self {
        let journal = &mut self.journal;
        journal.disk_written_bytes = written;
        journal.disk_bytes_per_day = wear.bytes_per_day().map(|bytes| bytes as u64);
        journal.disk_bytes_per_reading = wear.bytes_per_reading().map(rounded);
        self
    }

    /// Adds what the kernel says the process has in memory, in bytes.
    #[must_use]
    pub fn with_memory(self, memory_bytes: Option<u64>) -> Self {
        Self { memory_bytes, ..self }
    }

    /// Adds what the log said last, oldest first.
    #[must_use]
    pub fn with_notices(self, notices: Arc<[Notice]>) -> Self {
        Self { notices, ..self }
    }

    /// The report of `status` as it stands `now`.
    pub fn new(about: &About, status: &Status, now: &Now) -> Self {
        let wall = now.wall;
        let uplinks: Vec<Uplink> =
            status.uplinks.iter().map(|one| uplink(status, one, now)).collect();
        Self {
            v: 1,
            gateway: about.gateway.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: wall.to_string(),
            started_at: about.started.1.to_string(),
            uptime_s: seconds(now.mono.since(about.started.0)),
            epoch: status.epoch.to_string(),
            config: None,
            degraded: degraded(status, now),
            accepted_per_s: rounded(status.accept_rate),
            memory_bytes: None,
            journal: journal(about, status, wall),
            uplink: uplinks.first().cloned().unwrap_or_default(),
            uplinks,
            clock: Clock::new(&status.clock),
            sources: status.sources.iter().map(|(id, books)| source(id, books, now)).collect(),
            lateness: status.lateness.iter().map(|(id, q)| SourceLateness::new(id, q)).collect(),
            windows: status.windows.iter().map(|(name, w)| Window::new(name, w, wall)).collect(),
            ordered: status.orders.iter().map(|(name, o)| Ordered::new(name, o, wall)).collect(),
            notices: Arc::default(),
        }
    }
}

/// Readings in the books of all sources, results of windows excepted.
fn accepted(sources: &[Source]) -> u64 {
    let readings = sources.iter().filter(|source| !is_window(&source.name));
    readings.map(|source| source.accepted).sum()
}

fn uplink(status: &Status, one: &UplinkStatus, now: &Now) -> Uplink {
    let (state, since, retry_at, reason) = match &one.state {
        LinkState::Connecting => ("connecting", None, None, None),
        LinkState::Up { since } => ("up", Some(*since), None, None),
        LinkState::Down { since, retry_at, reason } => {
            ("down", Some(*since), Some(*retry_at), Some(reason.clone()))
        }
        LinkState::Stopped => ("stopped", None, None, None),
    };
    Uplink {
        name: one.name.to_string(),
        state: state.to_owned(),
        for_s: since.map(|since| seconds(now.mono.since(since))),
        retry_in_s: retry_at.map(|at| seconds(at.since(now.mono))),
        reason,
        inflight: one.inflight,
        inflight_max: one.inflight_max,
        oldest_inflight_s: one.oldest_inflight.map(seconds),
        acknowledged_per_s: rounded(one.ack_rate),
        acknowledged: one.acknowledged,
        backlog: one.backlog,
        backfill: one.backfill,
        drain_eta_s: drain_eta(status, one),
        held: one.held.iter().map(|(id, code)| held(id, *code)).collect(),
    }
}

/// At the present rates; a backlog that does not shrink has no end.
fn drain_eta(status: &Status, one: &UplinkStatus) -> Option<f64> {
    let shrinks_by = one.ack_rate - status.accept_rate;
    let is_up = matches!(one.state, LinkState::Up { .. });
    if one.backlog == 0 && is_up {
        Some(0.0)
    } else {
        (is_up && shrinks_by > 0.0).then(|| rounded(one.backlog as f64 / shrinks_by))
    }
}

fn held(id: &SourceId, code: u8) -> Held {
    Held {
        source: id.to_string(),
        code: format!("{code:#04x}"),
        meaning: puback_meaning(code).to_owned(),
    }
}

/// The word for a limit in status, logs and metrics.
pub const fn full_word(limit: FullCause) -> &'static str {
    match limit {
        FullCause::Quota => "quota",
        FullCause::Reserve => "reserve",
        FullCause::Store => "store",
    }
}

fn source(id: &SourceId, books: &SourceStatus, now: &Now) -> Source {
    Source {
        name: id.to_string(),
        accepted: books.accepted,
        acknowledged: books.acknowledged,
        stored: books.stored,
        evicted: books.evicted,
        lost: books.lost,
        quarantined: books.quarantined,
        duplicates: books.duplicates,
        within_deadband: books.held_back,
        dedupe_known: books.known.names,
        dedupe_forgotten: books.known.forgotten,
        refused_full: books.refused_full,
        implausible: books.implausible,
        last_reading_age_s: books.last_reading.map(|at| seconds(now.mono.since(at))),
        health: None,
    }
}

fn degraded(status: &Status, now: &Now) -> Vec<Degraded> {
    let mut found = Vec::new();
    let mut say = |code: &str, detail: String| {
        found.push(Degraded { code: code.to_owned(), detail });
    };
    for one in &status.uplinks {
        let name = &one.name;
        if let LinkState::Down { since, reason, .. } = &one.state {
            let down = words::whole(now.mono.since(*since).as_secs_f64());
            say("uplink_down", format!("uplink {name} is down for {down}: {reason}"));
        }
        if let Some(oldest) = one.oldest_inflight.filter(|age| *age > PUBACK_OVERDUE) {
            let age = words::whole(oldest.as_secs_f64());
            let what = format!("the broker of uplink {name} acknowledges nothing for {age}");
            say("puback_overdue", what);
        }
    }
    if !status.is_committing {
        say("store_failing", "commits fail: nothing new is durable".to_owned());
    }
    if let Some(limit) = status.full {
        say("full", format!("the buffer is full ({})", full_word(limit)));
    }
    if status.is_filling && status.full.is_none() {
        let percent = (fill(status) * 100.0).floor();
        say("filling", format!("the buffer runs full: {percent:.0} % are taken"));
    }
    let reading = &status.clock.reading;
    if !reading.state.is_trusted() && status.clock.held_for.is_none() {
        let words = words::state(&Clock::new(&status.clock));
        say("clock_untrusted", format!("the clock is {words}"));
    }
    for (name, id, code) in status
        .uplinks
        .iter()
        .flat_map(|one| one.held.iter().map(|(id, code)| (&one.name, id, code)))
    {
        let meaning = puback_meaning(*code);
        let what = format!("the broker of uplink {name} refuses {id}: {meaning} ({code:#04x})");
        say("source_held", what);
    }
    found
}

fn seconds(span: Span) -> f64 {
    rounded(span.as_secs_f64())
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
