//! The newest lines of the log, for those who look at the status and not at the
//! log: a bounded ring behind the lines that are written.
//!
//! It hangs on `tracing` and not on the core's notices, so that what sources,
//! listeners and the wiring say is there too, and nothing that the configured
//! filter keeps out of the log.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::host::kernel_clock;
use crate::http::notices::Notice;

/// So many are remembered.
pub const NOTICES_MAX: usize = 32;
/// A text is cut after so many characters: a reason may quote what somebody sent.
const TEXT_CHARS_MAX: usize = 300;
/// The lines of ours; a library's are not meant for those who look here.
const OURS: &str = env!("CARGO_PKG_NAME");

/// The ring. Cheap to clone: all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    newest: Arc<Mutex<Arc<[Notice]>>>,
}

impl Notices {
    /// What was said last, oldest first: at most [`NOTICES_MAX`].
    pub fn newest(&self) -> Arc<[Notice]> {
        Arc::clone(&self.newest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lines are rare, looks are not: so each line makes the list anew, and a look
    /// only shares it.
    fn push(&self, notice: Notice) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = newest.len().saturating_sub(NOTICES_MAX - 1);
        *newest = newest[kept..].iter().cloned().chain([notice]).collect();
    }
}

impl<S: Subscriber> Layer<S> for Notices {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let is_ours = metadata.target().split("::").next() == Some(OURS);
        if !is_ours || *metadata.level() > Level::INFO {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        self.push(Notice {
            at: kernel_clock::wall().to_string(),
            level: metadata.level().as_str().to_ascii_lowercase(),
            text: line.text,
            facts: line.facts,
        });
    }
}

/// The parts of a line.
#[derive(Default)]
struct Line {
    text: String,
    facts: BTreeMap<String, Value>,
}

impl Line {
    fn note(&mut self, field: &Field, value: Value) {
        let is_said = field.name() != "unsaid" || value != 0_u64;
        if is_said {
            self.facts.insert(field.name().to_owned(), value);
        }
    }

    fn note_text(&mut self, field: &Field, text: &str) {
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        if field.name() == "message" {
            self.text = text;
        } else {
            self.note(field, text.into());
        }
    }
}

impl Visit for Line {
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

#[cfg(test)]
mod tests {
    use tracing::{debug, info, warn};
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::registry;

    use super::*;

    /// What is remembered of what `say` says.
    fn said(say: impl FnOnce()) -> Vec<Notice> {
        let notices = Notices::default();
        tracing::subscriber::with_default(registry().with(notices.clone()), say);
        notices.newest().to_vec()
    }

    #[test]
    fn a_line_is_there_with_its_particulars() {
        let found = said(|| {
            let (reason, backlog, unsaid) = ("connection refused", 12_u64, 0_u64);
            warn!(uplink = "main", reason, backlog, unsaid, took = %"1.5s", ok = false, "down");
        });
        let [notice] = &found[..] else { panic!("{found:?}") };
        assert!(notice.at.ends_with('Z') && notice.at.len() == 30, "{}", notice.at);
        let mut json = serde_json::to_value(notice).unwrap();
        json.as_object_mut().unwrap().remove("at");
        let expected = serde_json::json!({
            "level": "warn",
            "text": "down",
            "facts": {
                "backlog": 12, "ok": false, "reason": "connection refused", "took": "1.5s",
                "uplink": "main",
            },
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn what_was_left_out_before_is_counted() {
        let found = said(|| warn!(unsaid = 59_u64, "down"));
        assert_eq!(found[0].facts, BTreeMap::from([("unsaid".to_owned(), 59.into())]));
    }

    #[test]
    fn only_the_newest_are_kept_oldest_first() {
        let found = said(|| (0..100_u64).for_each(|n| info!(n, "said")));
        let numbers: Vec<u64> = found.iter().map(|one| one.facts["n"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (100 - NOTICES_MAX as u64..100).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_for_developers_or_from_libraries_is_left_out() {
        let found = said(|| {
            debug!("of no interest");
            info!(target: "rumqttd::server", "somebody else's");
            info!(target: "tidegate_of_another::house", "somebody else's");
            info!(target: "tidegate::shell", "ours");
        });
        let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(texts, ["ours"]);
    }

    #[test]
    fn a_long_text_is_cut() {
        let found = said(|| warn!(reason = "é".repeat(1_000), "down"));
        assert_eq!(found[0].facts["reason"], "é".repeat(TEXT_CHARS_MAX));
    }
}
