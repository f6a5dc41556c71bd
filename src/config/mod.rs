//! The configuration, checked and ready to use.
//!
//! [`Config::load`] gives either a [`Config`] in which every default is filled
//! in and every value lies in its range, or all [`Problems`] of the file at once.

mod agree;
mod check;
mod conversions;
mod credential;
mod dedupe;
mod file;
mod file_source;
mod fixed;
mod hints;
mod http;
mod lines;
mod login;
pub mod modbus;
mod mqtt_source;
mod on_disk;
mod output;
mod page;
mod print;
mod source;
mod template;
#[cfg(test)]
mod tests;
mod time;
mod topic;
mod units;
mod uplink;
mod url;
mod value;
mod value_rules;
mod window;

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::core::agent::{Settings, SourceSettings, WhenFull};
use crate::core::clock::{ClockSettings, Reference};
use crate::core::id::SourceId;
use crate::core::limits;
use crate::core::time::Span;
use crate::core::values::ValueRules;
use crate::core::window::WindowSpec;

pub use conversions::Conversions;
pub use credential::Credentials;
pub use dedupe::SourceDedupe;
pub use file_source::FileSource;
pub use http::Http;
pub use lines::{EntityPart, EntityTemplate, Format};
pub use login::Login;
pub use modbus::Modbus;
pub use mqtt_source::{MqttSource, Payload, Topic};
pub use output::{Ordered, Output, OutputKind, site_client_id};
pub use source::{Pointer, Simulate, Source, SourceKind, SourceMap, TimeUnit};
pub use time::SourceTime;
pub use topic::{Filter, NameTemplate};
pub use uplink::{Order, Protocol, Uplink, UplinkFormat};
pub use url::MqttUrl;

/// The name of the socket in the data directory where commands reach the agent.
pub const CONTROL_SOCKET: &str = "control.sock";
/// The name of the file in the data directory that one agent holds.
pub const LOCK_FILE: &str = "LOCK";

/// A whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// This gateway.
    pub gateway: Gateway,
    /// Its clock.
    pub clock: Clock,
    /// The journal.
    pub journal: Journal,
    /// The ways up, at least one.
    pub uplinks: Vec<Uplink>,
    /// Where readings come from.
    pub sources: Vec<Source>,
    /// What is computed on site.
    pub windows: Vec<WindowSpec>,
    /// Where results go on site.
    pub outputs: Vec<Output>,
    /// Status and metrics.
    pub http: Http,
}

/// `[gateway]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its name: letters, digits, `.`, `_`, `-`; up to 64.
    pub id: String,
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// The tracing filter: `info`, `tidegate=debug` …
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Journald where it runs the process, else text.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// Text with its priority and its facts as fields of the systemd journal.
    Journald,
}

/// `[clock]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Whose word on the clock is heard.
    pub reference: Reference,
    /// How long readings of an unsynchronized clock wait for a better one; zero
    /// to 1 d.
    pub hold_unsynchronized: Duration,
    /// How long a daemon may settle after the first synchronization before what
    /// waited is timed; zero to 1 h.
    pub restamp_settle: Duration,
    /// Bound on the crystal's rate error while it is not learnt, in parts per
    /// million, 1 to 1000.
    pub max_drift_ppm: u64,
    /// Where chronyd answers commands, over UDP.
    pub chrony_address: SocketAddr,
}

/// `[journal]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The longest a reading waits for its group commit.
    pub commit_interval: Duration,
    /// Estimated bytes that make a commit due at once.
    pub commit_bytes: u64,
    /// Bytes on disk, everything included.
    pub max_bytes: u64,
    /// Bytes of the file system that are never used.
    pub reserve_free: u64,
    /// What happens when either is reached.
    pub when_full: WhenFull,
    /// Readings older than this by event time are given up, with gap records; 1 m
    /// to 10 years. `None` keeps them.
    pub max_age: Option<Duration>,
    /// Bytes of one segment.
    pub segment_bytes: u64,
    /// How often the state of windows and of outputs' orders is saved: so much of
    /// the journal is read again after a crash.
    pub checkpoint_interval: Duration,
    /// A disk that does not answer for so long ends the process, 5 s to 1 h.
    pub stuck_after: Duration,
}

/// Where somebody listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1; `None` when the file as a whole is meant.
    pub line: Option<usize>,
    /// The key, with its section.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
}

/// Everything that is wrong with a file, or everything to be warned of. Prints one line
/// a problem: `FILE:LINE: key: what is wrong; what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The file.
    pub file: String,
    /// What is wrong, in the order of the lines.
    pub list: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            let Problem { line, key, what, fix } = problem;
            match line {
                Some(line) => write!(f, "{}:{line}: {key}: {what}; {fix}", self.file)?,
                None => write!(f, "{}: {key}: {what}; {fix}", self.file)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl Clock {
    /// What the model of the clock needs to know of it.
    pub fn settings(&self) -> ClockSettings {
        ClockSettings {
            reference: self.reference,
            max_drift_ppb: self.max_drift_ppm * 1_000,
            hold_unsynchronized: Span::from_std(self.hold_unsynchronized),
            restamp_settle: Span::from_std(self.restamp_settle),
            ..ClockSettings::DEFAULT
        }
    }
}

/// The configuration of a text in which nothing is wrong.
fn whole(
    text: &str,
    path: &Path,
    credentials: &Credentials,
) -> Result<(Config, file::Findings), Problems> {
    match check::check(text, credentials) {
        (Some(config), found) if found.problems.is_empty() => Ok((config, found)),
        (_, found) => Err(Problems { file: path.display().to_string(), list: found.problems }),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problems {
    let problem = Problem {
        line: None,
        key: "file".to_owned(),
        what: format!("cannot be read ({error})"),
        fix: "check the path and the permissions".to_owned(),
    };
    Problems { file: path.display().to_string(), list: vec![problem] }
}

impl Config {
    /// Reads and checks a file; `credentials` are those that it may name.
    ///
    /// # Errors
    /// All problems of the file; or the one that it cannot be read.
    pub fn load(path: &Path, credentials: &Credentials) -> Result<Config, Problems> {
        match std::fs::read_to_string(path) {
            Ok(text) => whole(&text, path, credentials).map(|(config, _)| config),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// The same for whoever wants to know all of it: also what is good and yet hardly
    /// meant, and what the file names that is not there, for the user who asks.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn survey(path: &Path, credentials: &Credentials) -> Result<(Config, Problems), Problems> {
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        let (config, found) = whole(&text, path, credentials)?;
        let missing = found.named.iter().filter_map(on_disk::Named::problem);
        let mut list: Vec<Problem> = found.warnings.iter().cloned().chain(missing).collect();
        list.sort_by_key(|warning| warning.line);
        Ok((config, Problems { file: path.display().to_string(), list }))
    }

    /// `gateway.data_dir` of a file, whatever else is wrong with it.
    pub fn data_dir_of(path: &Path) -> Option<PathBuf> {
        let text = std::fs::read_to_string(path).ok()?;
        let (tree, _) = toml::de::DeTable::parse_recoverable(&text);
        let gateway = tree.get_ref().get("gateway")?.get_ref().as_table()?;
        gateway.get("data_dir")?.get_ref().as_str().map(PathBuf::from)
    }

    /// Checks a text; `path` is for the messages only. Credentials stay unseen.
    ///
    /// # Errors
    /// All problems of the text.
    pub fn parse(text: &str, path: &Path) -> Result<Config, Problems> {
        whole(text, path, &Credentials::Unseen).map(|(config, _)| config)
    }

    /// All keys with the values in force, as TOML that parses to this same
    /// configuration.
    pub fn print(&self) -> String {
        print::print(self)
    }

    /// The names of the credentials that were not looked for.
    pub fn unseen_credentials(&self) -> BTreeSet<&str> {
        let uplinks = self.uplinks.iter().map(|uplink| &uplink.login);
        let sources = self.sources.iter().filter_map(|source| match &source.kind {
            SourceKind::Mqtt(mqtt) => Some(&mqtt.login),
            _ => None,
        });
        let outputs = self.outputs.iter().filter_map(|output| match &output.kind {
            OutputKind::Mqtt { login, .. } => Some(login),
            _ => None,
        });
        let files = uplinks.chain(sources).chain(outputs).flat_map(Login::files);
        files.chain(&self.http.token_file).filter_map(|path| credential::unseen(path)).collect()
    }

    /// What the agent needs to know of it.
    pub fn agent_settings(&self) -> Settings {
        let source = |source: &Source| {
            let values = Some(value_rules::of_source(source));
            let settings = SourceSettings {
                dedupe: source.dedupe.rule(),
                values: values.filter(|rules| *rules != ValueRules::default()).map(Arc::new),
                ..source.time.settings()
            };
            (SourceId::new(&source.name), settings)
        };
        Settings {
            commit_interval: Span::from_std(self.journal.commit_interval),
            commit_bytes: usize::try_from(self.journal.commit_bytes).unwrap_or(usize::MAX),
            quota_bytes: self.journal.max_bytes,
            reserve_bytes: self.journal.reserve_free.max(limits::RESERVE_BYTES_MIN),
            when_full: self.journal.when_full,
            max_age: self.journal.max_age.map(Span::from_std),
            uplinks: self.uplinks.iter().map(Uplink::settings).collect(),
            windows: self.windows.iter().cloned().map(Arc::new).collect(),
            orders: output::orders(&self.outputs, &self.sources),
            checkpoint_interval: Span::from_std(self.journal.checkpoint_interval),
            clock: self.clock.settings(),
            sources: self.sources.iter().map(source).collect(),
        }
    }
}
