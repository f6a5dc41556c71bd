//! One line of the log as data: its text and its facts, in the order in which they were
//! given. The log and the newest lines in the status are both made from it.

use std::fmt::{self, Write as _};

use serde::Serialize;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use crate::http::notices::Facts;

/// Targets that begin with this are of this program, not of a library.
const OURS: &str = env!("CARGO_PKG_NAME");
/// Characters kept of a text, which may quote input of any length.
const CHARS_MAX: usize = 4_096;

/// What an event says.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// How grave it is.
    pub level: Level,
    /// Which module says so.
    pub target: String,
    /// What happened; the same words for the same kind of fact.
    pub text: String,
    /// The particulars. `unsaid` is left out where it is 0.
    pub facts: Facts,
}

impl LogLine {
    /// Reads an event.
    pub fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let (level, target) = (*metadata.level(), metadata.target().to_owned());
        let mut line = Self { level, target, text: String::new(), facts: Facts::default() };
        event.record(&mut line);
        line.unwrap_record();
        line
    }

    /// A record of the crate `log` comes as an event with the target `log`; its own target
    /// is among the facts and is put in place.
    fn unwrap_record(&mut self) {
        if self.target != "log" {
            return;
        }
        for (name, value) in self.facts.iter() {
            if let ("log.target", Value::String(target)) = (name, value) {
                self.target.clone_from(target);
            }
        }
        self.facts.0.retain(|(name, _)| !name.starts_with("log."));
    }

    /// Whether this program says it, and no library.
    pub fn is_ours(&self) -> bool {
        self.target.split("::").next() == Some(OURS)
    }

    /// In lower case: `warn`.
    pub fn level_word(&self) -> &'static str {
        match self.level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            _ => "trace",
        }
    }

    /// The priority of syslog(3): 3 is an error, 7 is for developers.
    pub fn priority(&self) -> u8 {
        match self.level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        }
    }

    /// For people, on one line whatever a reason quotes:
    /// `the uplink is down: uplink=main reason="connection refused" backlog=12`.
    /// Lines for developers and of libraries begin with their target.
    pub fn to_text(&self) -> String {
        let text = in_words(&self.text, &self.facts);
        if self.is_ours() && self.level <= Level::INFO {
            text
        } else {
            format!("{}: {text}", self.target)
        }
    }

    /// For programs: one object, `at` by the gateway's clock.
    pub fn to_json(&self, at: &str) -> String {
        #[derive(Serialize)]
        struct Object<'a> {
            at: &'a str,
            level: &'a str,
            target: &'a str,
            text: &'a str,
            facts: &'a Facts,
        }
        let Self { target, text, facts, .. } = self;
        let object = Object { at, level: self.level_word(), target, text, facts };
        // Texts, numbers and booleans always have a form in JSON.
        serde_json::to_string(&object).unwrap_or_default()
    }

    fn note(&mut self, field: &Field, value: Value) {
        let is_said = field.name() != "unsaid" || value != 0_u64;
        if is_said {
            self.facts.0.push((field.name().to_owned(), value));
        }
    }

    fn note_text(&mut self, field: &Field, text: &str) {
        let text: String = text.chars().take(CHARS_MAX).collect();
        if field.name() == "message" {
            self.text = text;
        } else {
            self.note(field, text.into());
        }
    }
}

/// A text and its facts on one line: `down: uplink=main reason="no answer"`.
pub(crate) fn in_words(text: &str, facts: &Facts) -> String {
    let mut out = String::new();
    for char in text.chars() {
        // A line feed in quoted input must not look like the start of a line of the log.
        if char.is_control() { out.extend(char.escape_default()) } else { out.push(char) }
    }
    for (at, (name, value)) in facts.iter().enumerate() {
        let before = if at == 0 { ": " } else { " " };
        // Writing to a string does not fail.
        let _ = match value {
            Value::String(text) if is_plain(text) => write!(out, "{before}{name}={text}"),
            Value::String(text) => write!(out, "{before}{name}={text:?}"),
            value => write!(out, "{before}{name}={value}"),
        };
    }
    out
}

/// Whether a text needs no quotes to be seen as one.
fn is_plain(text: &str) -> bool {
    let is_plain = |char: char| char.is_alphanumeric() || "._:/+-@#".contains(char);
    !text.is_empty() && text.chars().all(is_plain)
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.note_text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.note_text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.note(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.note(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.note(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.note(field, value.into());
    }
}

/// What the log says while something runs, for tests.
#[cfg(test)]
pub(crate) mod heard {
    use std::sync::{Arc, Mutex};

    use tracing::Subscriber;
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
    use tracing_subscriber::registry;

    use super::*;

    #[derive(Clone, Default)]
    struct Ear(Arc<Mutex<Vec<LogLine>>>);

    impl<S: Subscriber> Layer<S> for Ear {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(LogLine::of(event));
        }
    }

    /// The lines that `say` says.
    pub(crate) fn during(say: impl FnOnce()) -> Vec<LogLine> {
        let ear = Ear::default();
        tracing::subscriber::with_default(registry().with(ear.clone()), say);
        std::mem::take(&mut *ear.0.lock().unwrap())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tracing::{debug, info, warn};

    use super::*;

    fn one(say: impl FnOnce()) -> LogLine {
        heard::during(say).remove(0)
    }

    #[test]
    fn facts_keep_their_order_and_quotes_are_only_where_they_help() {
        let line = one(|| {
            let (reason, backlog, unsaid) = ("connection refused", 12_u64, 0_u64);
            warn!(uplink = "main", reason, backlog, unsaid, took = %"1.5s", ok = false, "down");
        });
        let text = r#"down: uplink=main reason="connection refused" backlog=12 took=1.5s ok=false"#;
        assert_eq!(line.to_text(), text);
        assert_eq!((line.level_word(), line.priority()), ("warn", 4));
    }

    #[test]
    fn what_was_left_out_before_is_counted() {
        assert_eq!(one(|| warn!(unsaid = 59_u64, "down")).to_text(), "down: unsaid=59");
    }

    #[test]
    fn one_fact_is_one_line_whatever_it_quotes() {
        let line = one(|| warn!(reason = "a\nb \"c\"", "source press\nERROR all is lost"));
        let text = r#"source press\nERROR all is lost: reason="a\nb \"c\"""#;
        assert_eq!(line.to_text(), text);
        assert_eq!(line.to_json("now").lines().count(), 1);
    }

    #[test]
    fn developers_and_libraries_say_who_they_are() {
        let debug = one(|| debug!(n = 1, "a turn"));
        assert_eq!(debug.to_text(), "tidegate::shell::log_line::tests: a turn: n=1");
        let library = one(|| info!(target: "rumqttd::server", "accepted"));
        assert_eq!(library.to_text(), "rumqttd::server: accepted");
        assert!(!library.is_ours() && debug.is_ours());
        let namesake = one(|| info!(target: "tidegate_of_another::house", "theirs"));
        assert!(!namesake.is_ours());
    }

    #[test]
    fn as_json_it_has_the_form_of_the_notices_in_the_status() {
        let line = one(|| info!(target: "tidegate::shell", backlog = 3_u64, "the uplink is up"));
        let json: Value = serde_json::from_str(&line.to_json("2026-11-30T01:02:03Z")).unwrap();
        let expected = json!({
            "at": "2026-11-30T01:02:03Z", "level": "info", "target": "tidegate::shell",
            "text": "the uplink is up", "facts": {"backlog": 3},
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn as_json_it_keeps_the_order_of_its_facts() {
        let line = one(|| {
            warn!(target: "tidegate::shell", uplink = "main", cause = "network", attempts = 1_u64, "down");
        });
        let json = r#"{"at":"now","level":"warn","target":"tidegate::shell","text":"down","facts":{"uplink":"main","cause":"network","attempts":1}}"#;
        assert_eq!(line.to_json("now"), json);
    }

    #[test]
    fn a_text_without_end_is_cut() {
        let line = one(|| warn!(reason = "é".repeat(10_000), "down"));
        assert_eq!(line.facts.0[0].1.as_str().map(|text| text.chars().count()), Some(CHARS_MAX));
    }
}
