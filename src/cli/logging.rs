//! Log lines on stderr, or in the systemd journal.
//!
//! | format | a line |
//! | --- | --- |
//! | `text` | `2026-11-30T01:02:03.000Z WARN  the uplink is down: uplink=main cause=network backlog=12` |
//! | `json` | `{"at":…,"level":"warn","target":…,"text":"the uplink is down","facts":{"uplink":"main",…}}` |
//! | `journald` | the text without its time, under `MESSAGE`; `PRIORITY`; each fact as a field: `UPLINK=main` |
//!
//! Where the journal's socket is out of reach, `journald` is text with priorities as
//! in sd-daemon(3): `<4>the uplink is down: …`. `auto` is `journald` where stderr goes
//! to the journal, else `text`.

use std::io::{self, Write as _};
use std::path::Path;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, registry, reload};

use super::terminal::{Mark, Paint};
use crate::config::LogFormat;
use crate::exit::{Exit, Failure};
use crate::host::journald::{self, Journald};
use crate::host::{kernel_clock, systemd};
use crate::shell::log_line::LogLine;
use crate::shell::notices::Notices;
use crate::shell::reload::LogSwitch;

/// Characters of a time in text: to the millisecond.
const TIME_CHARS: usize = "2026-11-30T01:02:03.000".len();

/// What goes on being needed of a log that was started.
pub(super) struct Log {
    /// The newest lines.
    pub(super) notices: Notices,
    /// Sets another filter.
    pub(super) switch: LogSwitch,
}

/// Starts logging for the rest of the process. `filter` is a tracing filter,
/// as in `info` or `info,tidegate::link=debug`.
///
/// # Errors
/// The filter cannot be read.
pub(super) fn start(filter: &str, format: LogFormat) -> Result<Log, Failure> {
    let filter = parse(filter).map_err(|error| Failure::new(Exit::Config, error))?;
    let (filter, handle) = reload::Layer::new(filter);
    let notices = Notices::default();
    registry()
        .with(filter)
        .with(Lines::new(format))
        .with(notices.clone())
        .try_init()
        .map_err(|error| Failure::new(Exit::Bug, error))?;
    let switch = Box::new(move |filter: &str| {
        handle.reload(parse(filter)?).map_err(|error| error.to_string())
    });
    Ok(Log { notices, switch })
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|error| format!("gateway.log: {error}"))
}

/// Where lines go, and how they look there.
#[derive(Debug)]
enum Lines {
    Text(Paint),
    Json,
    Journald(Journald),
    /// Without the journal's socket.
    Priorities,
}

impl Lines {
    fn new(format: LogFormat) -> Self {
        match format {
            LogFormat::Auto if systemd::logs_to_journal() => {
                Self::to_journal(journald::SOCKET.as_ref())
            }
            LogFormat::Auto | LogFormat::Text => Self::Text(Paint::of(&io::stderr())),
            LogFormat::Json => Self::Json,
            LogFormat::Journald => Self::to_journal(journald::SOCKET.as_ref()),
        }
    }

    fn to_journal(socket: &Path) -> Self {
        Journald::at(socket).map_or(Self::Priorities, Self::Journald)
    }

    /// The line as it goes to stderr; `None` where the journal has it already.
    fn form(&self, line: &LogLine, at: &str) -> Option<String> {
        match self {
            Self::Text(paint) => {
                let time = at.get(..TIME_CHARS).unwrap_or(at);
                let time = paint.mark(Mark::Faint, &format!("{time}Z"));
                let level = mark(*paint, line.level);
                Some(format!("{time} {level} {}\n", line.to_text()))
            }
            Self::Json => Some(line.to_json(at) + "\n"),
            Self::Journald(journal) if journal.send(fields(line)).is_ok() => None,
            Self::Journald(_) | Self::Priorities => {
                Some(format!("<{}>{}\n", line.priority(), line.to_text()))
            }
        }
    }
}

fn mark(paint: Paint, level: Level) -> String {
    let word = format!("{:<5}", level.as_str());
    match level {
        Level::ERROR => paint.mark(Mark::Bad, &word),
        Level::WARN => paint.mark(Mark::Warn, &word),
        Level::INFO => word,
        _ => paint.mark(Mark::Faint, &word),
    }
}

/// What the journal gets to know of a line.
fn fields(line: &LogLine) -> impl Iterator<Item = (&str, String)> {
    let own = [
        ("MESSAGE", line.to_text()),
        ("PRIORITY", line.priority().to_string()),
        ("SYSLOG_IDENTIFIER", env!("CARGO_PKG_NAME").to_owned()),
        ("TARGET", line.target.clone()),
    ];
    let facts = line.facts.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name, text)
    });
    own.into_iter().chain(facts)
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let at = kernel_clock::wall().to_string();
        if let Some(text) = self.form(&LogLine::of(event), &at) {
            // One write a line, so that lines of two threads do not mix. When stderr
            // is gone there is nobody to tell.
            let _ = io::stderr().lock().write_all(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use serde_json::{Value, json};

    use super::*;
    use crate::http::notices::Facts;

    const AT: &str = "2026-11-30T01:02:03.123456789Z";

    fn line() -> LogLine {
        let facts = [("uplink", json!("main")), ("reason", json!("a\nb")), ("backlog", json!(12))];
        LogLine {
            level: Level::WARN,
            target: "tidegate::shell::telemetry".to_owned(),
            text: "the uplink is down".to_owned(),
            facts: Facts(facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        }
    }

    #[test]
    fn text_has_time_level_words_and_facts() {
        let said = r#"the uplink is down: uplink=main reason="a\nb" backlog=12"#;
        let plain = Lines::Text(Paint::OFF).form(&line(), AT).unwrap();
        assert_eq!(plain, format!("2026-11-30T01:02:03.123Z WARN  {said}\n"));
        let coloured = Lines::Text(Paint::ON).form(&line(), AT).unwrap();
        let time = "\x1b[2m2026-11-30T01:02:03.123Z\x1b[0m";
        assert_eq!(coloured, format!("{time} \x1b[33mWARN \x1b[0m {said}\n"));
        assert_eq!(Lines::Priorities.form(&line(), AT).unwrap(), format!("<4>{said}\n"));
    }

    #[test]
    fn json_has_the_whole_time() {
        let text = Lines::Json.form(&line(), AT).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["at"], &value["facts"]["backlog"]), (&json!(AT), &json!(12)));
        assert!(text.ends_with("}\n") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn the_journal_gets_facts_as_fields_and_stderr_what_it_does_not_take() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(matches!(Lines::to_journal(&path), Lines::Priorities));
        let journal = UnixDatagram::bind(&path).unwrap();
        let lines = Lines::to_journal(&path);
        assert_eq!(lines.form(&line(), AT), None);
        let mut datagram = [0; 1_024];
        let length = journal.recv(&mut datagram).unwrap();
        let expected = "MESSAGE=the uplink is down: uplink=main reason=\"a\\nb\" backlog=12\n\
                        PRIORITY=4\nSYSLOG_IDENTIFIER=tidegate\nTARGET=tidegate::shell::telemetry\n\
                        UPLINK=main\nREASON\n\x03\0\0\0\0\0\0\0a\nb\nBACKLOG=12\n";
        assert_eq!(String::from_utf8_lossy(&datagram[..length]), expected);
        drop(journal);
        assert!(lines.form(&line(), AT).unwrap().starts_with("<4>the uplink is down: "));
    }
}
