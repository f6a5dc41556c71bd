//! How the connections to a broker go: when one has proved itself, how long to wait
//! before the next, and over which message they end.

use std::time::Duration;

use tokio::time::Instant;

use super::super::Pauses;
use super::waiting::Message;

/// A connection that lived so long is a good one, whatever came over it.
const GOOD_AFTER: Duration = Duration::from_secs(60);
/// Connections in a row that ended over one message before it is given up.
pub(super) const ENDS_MAX: u32 = 3;

/// Publishes that may be unacknowledged,
const INFLIGHT_MAX: u16 = 100;
/// and while a connection may end over one of them.
const INFLIGHT_SUSPECT_MAX: u16 = 1;

/// How it went so far.
#[derive(Debug, Default)]
pub(super) struct Course {
    pauses: Pauses,
    connection: Option<Connection>,
    /// The topic that went first when connections ended, and how many did.
    suspect: Option<(String, u32)>,
}

#[derive(Debug)]
struct Connection {
    since: Instant,
    has_published: bool,
    is_good: bool,
}

impl Course {
    /// The pause before the next attempt.
    pub(super) fn pause(&mut self) -> Duration {
        self.pauses.next()
    }

    /// How many publishes may be unacknowledged. Where connections end over one, each
    /// goes alone: the reset of a connection can swallow the acknowledgements of those
    /// before it.
    pub(super) fn inflight_max(&self) -> u16 {
        if self.suspect.is_some() { INFLIGHT_SUSPECT_MAX } else { INFLIGHT_MAX }
    }

    /// The broker took the connection. That alone proves nothing. As of the others of
    /// its kind the answer is whether the connection has just proved to be good.
    pub(super) fn connected(&mut self, now: Instant) -> bool {
        let connection = Connection { since: now, has_published: false, is_good: false };
        self.connection = Some(connection);
        false
    }

    /// Something was written.
    pub(super) fn published(&mut self, now: Instant) -> bool {
        if let Some(connection) = &mut self.connection {
            connection.has_published = true;
        }
        self.goes_on(now)
    }

    /// The broker acknowledged something.
    pub(super) fn acknowledged(&mut self) -> bool {
        self.suspect = None;
        self.proved()
    }

    /// Anything else happened; a living connection has its pings.
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        let since = self.connection.as_ref().map(|connection| connection.since);
        since.is_some_and(|since| now.duration_since(since) >= GOOD_AFTER) && self.proved()
    }

    fn proved(&mut self) -> bool {
        self.pauses.reset();
        let connection = self.connection.as_mut();
        connection.is_some_and(|connection| !std::mem::replace(&mut connection.is_good, true))
    }

    /// The connection, or the attempt, ended; `first` is the first message that was
    /// not acknowledged. Whether that is to be given up: brokers acknowledge in order,
    /// so it is the one that they end a connection over.
    pub(super) fn ended(&mut self, first: Option<&Message>) -> bool {
        let Some(connection) = self.connection.take() else { return false };
        let Some(first) = first.filter(|_| connection.has_published) else { return false };
        let ends = match &self.suspect {
            Some((topic, ends)) if *topic == first.topic => ends + 1,
            _ => 1,
        };
        let is_given_up = ends >= ENDS_MAX;
        self.suspect = (!is_given_up).then(|| (first.topic.clone(), ends));
        is_given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(topic: &str) -> Message {
        Message { topic: topic.to_owned(), payload: Vec::new(), is_retained: false }
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_connection_is_good_once_something_is_acknowledged_or_it_has_lived() {
        let (start, mut course) = (Instant::now(), Course::default());
        let pauses: Vec<u64> = (0..3)
            .map(|_| {
                assert!(!course.connected(start) && !course.goes_on(after(start, 59)));
                assert!(!course.ended(None));
                course.pause().as_millis() as u64
            })
            .collect();
        assert_eq!(pauses, [250, 500, 1000]);
        course.connected(start);
        assert!(course.acknowledged() && !course.acknowledged(), "said once");
        assert_eq!((course.ended(None), course.pause().as_millis()), (false, 250));
        course.connected(start);
        assert!(course.goes_on(after(start, 60)) && !course.goes_on(after(start, 61)));
        assert_eq!((course.ended(None), course.pause().as_millis()), (false, 250));
    }

    #[test]
    fn a_message_is_given_up_after_three_connections_that_ended_over_it() {
        let (start, mut course) = (Instant::now(), Course::default());
        let mut ends = |topic: &str, is_written: bool, is_acknowledged: bool| {
            course.connected(start);
            if is_written {
                course.published(start);
            }
            if is_acknowledged {
                course.acknowledged();
            }
            course.ended(Some(&message(topic)))
        };
        assert!(!ends("a", true, false) && !ends("a", true, false));
        // What never went out is no cause, nor is an attempt that failed.
        assert!(!ends("a", false, false));
        assert!(ends("a", true, false));
        assert!(!ends("a", true, false) && !ends("a", true, false));
        // Others that get through speak for the broker and against what stays first.
        assert!(!ends("a", true, true) && !ends("a", true, false) && ends("a", true, false));
        assert!(!ends("a", true, false) && !ends("b", true, false) && !ends("a", true, false));
        assert!(!course.ended(Some(&message("a"))));
        assert_eq!(course.inflight_max(), 1);
        course.acknowledged();
        assert_eq!(course.inflight_max(), 100);
    }
}
