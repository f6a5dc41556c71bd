//! Which filters the session at the broker may have.
//!
//! The broker keeps them while nobody is connected: one that is not configured any
//! more must be taken out of the session, or its messages come for ever. So they are
//! remembered, as this source's position: before the broker is told of a filter, and
//! until it has let go of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::config::MqttSource;
use crate::core::limits::POSITION_BYTES_MAX;

/// First field of a stored position: tells it from those of other source types.
const KIND: &str = "mqtt session";
/// Separator of the fields; cannot occur in topics, hosts or client ids.
const BETWEEN: &str = "\0";

/// The filters of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filters {
    session: String,
    filters: BTreeSet<String>,
}

impl Filters {
    /// Those of the configuration.
    pub(super) fn wanted(settings: &MqttSource) -> Self {
        let url = &settings.url;
        Self {
            session: format!("{}:{}{BETWEEN}{}", url.host, url.port, settings.client_id),
            filters: settings.topics.iter().map(|topic| topic.filter.to_string()).collect(),
        }
    }

    /// Those of a position; none where it is of another session.
    pub(super) fn known(&self, position: &[u8]) -> Self {
        let text = std::str::from_utf8(position).unwrap_or_default();
        let own = format!("{KIND}{BETWEEN}{}{BETWEEN}", self.session);
        let filters = text.strip_prefix(&own).unwrap_or_default();
        let filters = filters.split(BETWEEN).filter(|filter| !filter.is_empty());
        Self { session: self.session.clone(), filters: filters.map(str::to_owned).collect() }
    }

    /// As a position.
    pub(super) fn position(&self) -> Arc<[u8]> {
        let filters: Vec<&str> = self.filters.iter().map(String::as_str).collect();
        let filters = filters.join(BETWEEN);
        format!("{KIND}{BETWEEN}{}{BETWEEN}{filters}", self.session).into_bytes().into()
    }

    /// Those that `wanted` lacks.
    pub(super) fn beyond<'a>(&'a self, wanted: &'a Self) -> impl Iterator<Item = &'a str> {
        self.filters.difference(&wanted.filters).map(String::as_str)
    }

    /// All of `wanted`, and of these as many as a position has room for.
    pub(super) fn and(&self, wanted: &Self) -> Self {
        let mut all = wanted.clone();
        let mut room = POSITION_BYTES_MAX.saturating_sub(wanted.position().len());
        for filter in self.beyond(wanted).filter(|filter| filter.len() < POSITION_BYTES_MAX) {
            if filter.len() < room {
                room -= filter.len() + 1;
                all.filters.insert(filter.to_owned());
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(session: &str, filters: &[&str]) -> Filters {
        let filters = filters.iter().map(|filter| (*filter).to_owned()).collect();
        Filters { session: session.to_owned(), filters }
    }

    #[test]
    fn what_is_not_wanted_any_more_is_known_until_it_is_gone() {
        let (old, wanted) = (filters("b:1\0id", &["a/+", "b"]), filters("b:1\0id", &["b", "c/#"]));
        let known = wanted.known(&old.position());
        assert_eq!(known, old);
        assert_eq!(known.beyond(&wanted).collect::<Vec<_>>(), ["a/+"]);
        assert_eq!(known.and(&wanted), filters("b:1\0id", &["a/+", "b", "c/#"]));
    }

    #[test]
    fn another_session_and_another_kind_of_source_say_nothing() {
        let wanted = filters("b:1\0id", &["b"]);
        let nothing = filters("b:1\0id", &[]);
        assert_eq!(wanted.known(&filters("b:1\0other", &["a"]).position()), nothing);
        assert_eq!(wanted.known(b"\x01file"), nothing);
        assert_eq!(wanted.known(b""), nothing);
    }

    #[test]
    fn a_position_never_grows_too_long() {
        let long = |n: usize| format!("{n:04}/{}", "x".repeat(995));
        let many: Vec<String> = (0..20).map(long).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let all = filters("s", &many).and(&filters("s", &["wanted"]));
        assert!(all.position().len() <= POSITION_BYTES_MAX);
        assert_eq!(all.filters.len(), 1 + 8);
    }
}
