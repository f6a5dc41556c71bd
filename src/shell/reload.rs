//! The configuration, read again while the agent runs.
//!
//! ```text
//! read and check ─► what cannot change? ─► bind what is free ─► stop ─► bind the rest
//!      │                    │                    │                          │
//!      └────────────────────┴─── the old one ────┘            ─► tell the core ─► start
//!                                stays whole
//! ```
//!
//! - What is wrong is found before anything is touched: nothing is half applied.
//!   Should an address be lost between its old and its new holder, the sources that
//!   were stopped start again as they were; one that lacks its address then binds it
//!   by itself when it can.
//! - An address that others hold is wrong, for the file can be mended. One that this
//!   machine does not have now is not, nor is one that the source had before: that
//!   source waits for it, as it does at a start.
//! - A source that is the same in both files notices nothing. One that changes stops
//!   like at the end of the agent, with receipts for what it has handed in, and then
//!   starts anew; where only its stamps or its repeats change, not even that.
//! - The journal, the uplinks, windows and outputs are not touched.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::desk;
use super::roster::{Change, Positions, Roster};
use crate::config::{Address, Config, Credentials, Problems, Source, SourceKind};
use crate::host::{HostClock, systemd};
use crate::http::config::ConfigBoard;
use crate::source::{self, Bound, SourceError};

/// Longest wait for a source to hand over what it holds: for a commit, or a broker's
/// answer.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Longest wait for the file to be read: a disk that does not answer must not keep the
/// next reload waiting for ever.
const LOAD_WITHIN: Duration = Duration::from_secs(10);

/// Sets the filter of the log.
pub type LogSwitch = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Where the configuration is, and what of it belongs to the process.
pub struct Origin {
    /// The file.
    pub file: PathBuf,
    /// The systemd credentials that it may name.
    pub credentials: Credentials,
    /// Sets `gateway.log`.
    pub log: LogSwitch,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("file", &self.file).finish_non_exhaustive()
    }
}

/// What a reload may change of a running agent.
#[derive(Debug)]
pub(super) struct Reloadable {
    /// What is in force.
    pub(super) config: Config,
    pub(super) board: ConfigBoard,
    pub(super) roster: Roster,
    pub(super) changes: mpsc::Sender<Change>,
    pub(super) parsers: desk::Sources,
    pub(super) clock: Arc<HostClock>,
}

/// How the sources of two configurations differ, by name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    added: BTreeSet<String>,
    removed: BTreeSet<String>,
    /// They must start anew.
    changed: BTreeSet<String>,
    /// They need not.
    judged: BTreeSet<String>,
}

impl Plan {
    fn between(old: &[Source], new: &[Source]) -> Self {
        let mut plan = Self::default();
        for source in new {
            let name = source.name.clone();
            match old.iter().find(|known| known.name == name) {
                None => plan.added.insert(name),
                Some(known) if known == source => false,
                Some(known) if known.needs_restart(source) => plan.changed.insert(name),
                Some(_) => plan.judged.insert(name),
            };
        }
        let has_left = |known: &&Source| new.iter().all(|source| source.name != known.name);
        plan.removed = old.iter().filter(has_left).map(|source| source.name.clone()).collect();
        plan
    }

    fn stops(&self, name: &str) -> bool {
        self.removed.contains(name) || self.changed.contains(name)
    }

    fn starts(&self, name: &str) -> bool {
        self.added.contains(name) || self.changed.contains(name)
    }
}

/// For people.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed: BTreeSet<&String> = self.changed.union(&self.judged).collect();
        let parts = [
            ("added", self.added.iter().collect()),
            ("changed", changed),
            ("removed", self.removed.iter().collect()),
        ];
        let mut is_first = true;
        for (word, names) in parts.iter().filter(|(_, names)| !names.is_empty()) {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            let space = if is_first { "" } else { "; " };
            write!(f, "{space}sources {word}: {}", names.join(", "))?;
            is_first = false;
        }
        if is_first { f.write_str("no source has changed") } else { Ok(()) }
    }
}

impl Reloadable {
    /// Reads the configuration again, and applies it or keeps the old one; says
    /// which in the log and in the status. May be dropped half done where the agent
    /// is stopped next.
    pub(super) async fn reload(&mut self, origin: &Origin) {
        systemd::reloading();
        let outcome = self.try_reload(origin).await;
        self.board.reloaded(self.clock.now().wall, &outcome);
        let file = origin.file.display();
        match outcome {
            Ok(detail) => tracing::info!(%file, "the configuration was read again: {detail}"),
            Err(detail) => {
                tracing::error!("the configuration is not taken over, the old one stays: {detail}");
            }
        }
        systemd::ready();
    }

    async fn try_reload(&mut self, origin: &Origin) -> Result<String, String> {
        let next = load(origin.file.clone(), origin.credentials.clone()).await?;
        let fixed = self.config.fixed_in(&next);
        if !fixed.is_empty() {
            let file = origin.file.display().to_string();
            return Err(one_line(&Problems { file, list: fixed }));
        }
        let plan = Plan::between(&self.config.sources, &next.sources);
        let told = self.apply(&plan, &next, &origin.file).await?;
        if next.gateway.log != self.config.gateway.log {
            // The filter was checked with the file.
            (origin.log)(&next.gateway.log)?;
        }
        self.config = next;
        Ok(told)
    }

    async fn apply(&mut self, plan: &Plan, next: &Config, file: &Path) -> Result<String, String> {
        let in_the_way = |error: SourceError| format!("{}: {error}", file.display());
        let starting = |source: &&Source| plan.starts(&source.name);
        let mut told = plan.to_string();
        let mut bound: Vec<(&Source, Bound)> = Vec::new();
        let mut held: Vec<&Source> = Vec::new();
        for source in next.sources.iter().filter(starting) {
            match self.is_held_by_leaving(source, plan) {
                true => held.push(source),
                false => bound.push((source, self.bind(source, &mut told).map_err(in_the_way)?)),
            }
        }
        self.roster.stop(|name| plan.stops(name), STOP_WITHIN).await;
        for source in held {
            match self.bind(source, &mut told) {
                Ok(address) => bound.push((source, address)),
                Err(error) => {
                    drop(bound);
                    self.start_again(plan).await?;
                    return Err(in_the_way(error));
                }
            }
        }
        let positions = self.tell_core(next).await?;
        for (source, bound) in bound {
            self.roster.start(source, bound, &positions);
        }
        self.sources_changed(&next.sources);
        Ok(told)
    }

    /// Whether a source that is going to stop listens where this one will.
    fn is_held_by_leaving(&self, source: &Source, plan: &Plan) -> bool {
        let Some(wanted) = address(source) else { return false };
        let leaving = self.config.sources.iter().filter(|known| plan.stops(&known.name));
        leaving.filter_map(address).any(|held| excludes(held, wanted))
    }

    /// What the source has to start with; `told` hears of it where that is not all.
    fn bind(&self, source: &Source, told: &mut String) -> Result<Bound, SourceError> {
        let before = self.config.sources.iter().find(|known| known.name == source.name);
        let is_new = before.and_then(address) != address(source);
        match source::bind(source) {
            Err(error) if error.is_absent || !is_new => {
                let SourceError { source, reason, .. } = error;
                told.push_str(&format!("; source {source} waits: {reason}"));
                Ok(Bound::default())
            }
            other => other,
        }
    }

    /// Starts the sources again, as they were before, that were stopped for a change that
    /// failed.
    async fn start_again(&mut self, plan: &Plan) -> Result<(), String> {
        let old = self.config.clone();
        let positions = self.tell_core(&old).await?;
        for source in old.sources.iter().filter(|source| plan.stops(&source.name)) {
            // Its address may be lost meanwhile: the source says so and waits for it.
            let bound = source::bind(source).unwrap_or_default();
            self.roster.start(source, bound, &positions);
        }
        self.sources_changed(&old.sources);
        Ok(())
    }

    /// Gives the core the new sources; returns the positions from which they go on.
    async fn tell_core(&self, config: &Config) -> Result<Positions, String> {
        let sources = config.agent_settings().sources;
        let (positions, told) = oneshot::channel();
        let change = Change { sources, positions };
        let gone = || "the agent is coming to its end".to_owned();
        self.changes.send(change).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())
    }

    fn sources_changed(&mut self, sources: &[Source]) {
        self.roster.open_doors();
        self.parsers.set(sources);
    }
}

async fn load(file: PathBuf, credentials: Credentials) -> Result<Config, String> {
    let shown = file.display().to_string();
    // The file may be on a slow disk.
    let loading = tokio::task::spawn_blocking(move || Config::load(&file, &credentials));
    match timeout(LOAD_WITHIN, loading).await {
        Ok(Ok(loaded)) => loaded.map_err(|problems| one_line(&problems)),
        Ok(Err(error)) => Err(format!("{shown}: it could not be read: {error}")),
        Err(_) => {
            let limit = humantime::format_duration(LOAD_WITHIN);
            Err(format!("{shown}: not read within {limit}; look at its disk (dmesg), and reload"))
        }
    }
}

/// All problems as one line of the log.
fn one_line(problems: &Problems) -> String {
    problems.to_string().replace('\n', " | ")
}

fn address(source: &Source) -> Option<&Address> {
    match &source.kind {
        SourceKind::Listen { address, .. } => Some(address),
        _ => None,
    }
}

/// Whether nobody can listen at one of them while somebody listens at the other.
fn excludes(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Tcp(one), Address::Tcp(other)) if one != other => {
            let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
            // Port 0 is another one for each.
            is_any && one.port() == other.port() && one.port() != 0
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_address_of_all_interfaces_excludes_its_port_on_each() {
        let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
        let unix = |path: &str| Address::Unix(Path::new(path).to_owned());
        let both = |one: &Address, other: &Address| {
            assert_eq!(excludes(one, other), excludes(other, one), "{one:?} {other:?}");
            excludes(one, other)
        };
        assert!(both(&tcp("127.0.0.1:7000"), &tcp("127.0.0.1:7000")));
        assert!(both(&tcp("127.0.0.1:7000"), &tcp("0.0.0.0:7000")));
        assert!(both(&tcp("127.0.0.1:7000"), &tcp("[::]:7000")), "Linux takes both families");
        assert!(both(&tcp("0.0.0.0:7000"), &tcp("[::]:7000")));
        assert!(!both(&tcp("127.0.0.1:7000"), &tcp("127.0.0.2:7000")));
        assert!(!both(&tcp("127.0.0.1:7000"), &tcp("0.0.0.0:7001")));
        assert!(!both(&tcp("127.0.0.1:0"), &tcp("0.0.0.0:0")));
        assert!(both(&unix("/run/a"), &unix("/run/a")));
        assert!(!both(&unix("/run/a"), &unix("/run/b")));
        assert!(!both(&unix("/run/a"), &tcp("0.0.0.0:7000")));
    }
}
