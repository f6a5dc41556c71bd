//! The newest lines of the log, for those who look at the status and not at the
//! log: a bounded ring behind the lines that are written.
//!
//! It takes lines from `tracing` and not the core's notices, so that it has those of
//! sources, listeners and the wiring too, and none that the configured filter keeps out of
//! the log.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::log_line::LogLine;
use crate::host::kernel_clock;
use crate::http::notices::{Facts, Notice};

/// Lines that are remembered.
pub const NOTICES_MAX: usize = 32;
/// Characters kept of a text, which may quote input of any length.
const TEXT_CHARS_MAX: usize = 300;

/// The ring. Cheap to clone: all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    newest: Arc<Mutex<Arc<[Notice]>>>,
}

impl Notices {
    /// The newest lines, oldest first, up to [`NOTICES_MAX`].
    pub fn newest(&self) -> Arc<[Notice]> {
        Arc::clone(&self.newest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lines are rare and reports are not: so each line makes a new list, and a report only
    /// shares it.
    fn push(&self, notice: Notice) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = newest.len().saturating_sub(NOTICES_MAX - 1);
        *newest = newest[kept..].iter().cloned().chain([notice]).collect();
    }
}

impl<S: Subscriber> Layer<S> for Notices {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() > Level::INFO {
            return;
        }
        let line = LogLine::of(event);
        if !line.is_ours() {
            return;
        }
        self.push(Notice {
            at: kernel_clock::wall().to_string(),
            level: line.level_word().to_owned(),
            text: line.text.chars().take(TEXT_CHARS_MAX).collect(),
            facts: Facts(
                line.facts.0.into_iter().map(|(name, value)| (name, cut(value))).collect(),
            ),
        });
    }
}

/// As the status has it.
fn cut(value: Value) -> Value {
    match value {
        Value::String(text) => text.chars().take(TEXT_CHARS_MAX).collect::<String>().into(),
        value => value,
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
        let json = serde_json::to_string(&Notice { at: "then".to_owned(), ..notice.clone() });
        let expected = concat!(
            r#"{"at":"then","level":"warn","text":"down","facts":{"uplink":"main","#,
            r#""reason":"connection refused","backlog":12,"took":"1.5s","ok":false}}"#
        );
        assert_eq!(json.unwrap(), expected);
        // Whoever reads it gets it in that order, too.
        let read: Notice = serde_json::from_str(expected).unwrap();
        assert_eq!(read.facts, notice.facts);
    }

    #[test]
    fn what_was_left_out_before_is_counted() {
        let found = said(|| warn!(unsaid = 59_u64, "down"));
        assert_eq!(found[0].facts, Facts(vec![("unsaid".to_owned(), 59.into())]));
    }

    #[test]
    fn only_the_newest_are_kept_oldest_first() {
        let found = said(|| (0..100_u64).for_each(|n| info!(n, "said")));
        let numbers: Vec<u64> =
            found.iter().map(|one| one.facts.0[0].1.as_u64().unwrap()).collect();
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
        assert_eq!(found[0].facts.0[0].1, "é".repeat(TEXT_CHARS_MAX));
    }
}
