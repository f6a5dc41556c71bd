//! The uplink's connection: when to try, when to give up, how long to wait.

use super::backoff;
use super::seam::DownCause;
use super::status::LinkState;
use super::time::{MonoTime, Span};

/// A connection that lasted this long counts as proven: after its loss, the wait before
/// the next attempt starts from its least again.
const PROVEN_AFTER: Span = Span::from_secs(60);

/// One with a PUBACK is proven after this time already. Not at once: two gateways with
/// one client id throw each other out, and would do so without a pause.
const PROVEN_WITH_PUBACK_AFTER: Span = Span::from_secs(5);

/// The state machine of one connection after another.
#[derive(Clone, Debug)]
pub struct Connection {
    backoff: (Span, Span),
    phase: Phase,
    attempts: u32,
    has_puback: bool,
    down_since: MonoTime,
    was_up: bool,
    outages: u32,
    last_cause: Option<DownCause>,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Waiting { until: MonoTime, reason: String },
    Connecting,
    Up { since: MonoTime },
    Closing { was_up: bool },
    Stopped,
}

/// What a lost connection means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Whether it had been up.
    pub was_up: bool,
    /// Failed attempts in a row.
    pub attempts: u32,
    /// Until the next attempt.
    pub retry_in: Span,
}

impl Connection {
    /// Not connected; the first attempt is due at once.
    pub fn new(backoff: (Span, Span), now: MonoTime) -> Self {
        let phase = Phase::Waiting { until: now, reason: "not yet tried".to_owned() };
        Self {
            backoff,
            phase,
            attempts: 0,
            has_puback: false,
            down_since: now,
            was_up: false,
            outages: 0,
            last_cause: None,
        }
    }

    /// Whether publishes may go out.
    pub fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up { .. })
    }

    /// Whether nothing more will happen.
    pub fn is_stopped(&self) -> bool {
        self.phase == Phase::Stopped
    }

    /// When it came up.
    pub fn up_since(&self) -> Option<MonoTime> {
        match self.phase {
            Phase::Up { since } => Some(since),
            _ => None,
        }
    }

    /// Starts an attempt if one is due.
    pub fn try_connect(&mut self, now: MonoTime) -> bool {
        let is_due = matches!(&self.phase, Phase::Waiting { until, .. } if *until <= now);
        if is_due {
            self.phase = Phase::Connecting;
        }
        is_due
    }

    /// When [`Connection::try_connect`] will say yes.
    pub fn next_deadline(&self) -> Option<MonoTime> {
        match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// CONNACK came. False for a late one, after the connection was given up:
    /// it changes nothing.
    pub fn came_up(&mut self, now: MonoTime) -> bool {
        let is_expected = self.phase == Phase::Connecting;
        if is_expected {
            self.phase = Phase::Up { since: now };
            self.has_puback = false;
            self.outages += u32::from(self.was_up);
            self.was_up = true;
        }
        is_expected
    }

    /// How long the last outage was; `None` before the first.
    pub fn down_for(&self) -> Option<Span> {
        let since = self.up_since().filter(|_| self.outages > 0)?;
        Some(since.since(self.down_since))
    }

    /// A PUBACK came on this connection.
    pub fn saw_puback(&mut self) {
        self.has_puback = true;
    }

    /// Gives the connection up; true if there was one.
    pub fn close(&mut self, now: MonoTime) -> bool {
        let was_up = self.is_up();
        if was_up {
            self.down_since = now;
        }
        let is_open = was_up || self.phase == Phase::Connecting;
        if is_open {
            self.phase = Phase::Closing { was_up };
        }
        is_open
    }

    /// No attempt will follow.
    pub fn stop(&mut self) {
        self.phase = Phase::Stopped;
    }

    /// The connection is gone, or the attempt failed.
    pub fn went_down(
        &mut self,
        now: MonoTime,
        cause: DownCause,
        reason: &str,
        draw: u64,
    ) -> Option<Lost> {
        let was_up = match self.phase {
            Phase::Stopped => return None,
            Phase::Up { since } => {
                self.down_since = now;
                let lived = now.since(since);
                let is_proven =
                    lived >= PROVEN_AFTER || (self.has_puback && lived >= PROVEN_WITH_PUBACK_AFTER);
                if is_proven {
                    self.attempts = 0;
                }
                true
            }
            Phase::Closing { was_up } => was_up,
            Phase::Connecting | Phase::Waiting { .. } => false,
        };
        let (min, max) = self.backoff;
        // Another client that took over this client id will do so again: the wait is
        // longer.
        let floor =
            if cause == DownCause::TakenOver { max.min(Span::from_secs(10)).max(min) } else { min };
        self.last_cause = Some(cause);
        let retry_in = backoff::delay(self.attempts, floor, max, draw);
        self.attempts += 1;
        self.phase = Phase::Waiting { until: now + retry_in, reason: reason.to_owned() };
        Some(Lost { was_up, attempts: self.attempts, retry_in })
    }

    /// The wall clock was set. A certificate may be valid now that was not: an
    /// attempt that failed on TLS is made again at once, the others wait on.
    pub fn clock_was_set(&mut self, now: MonoTime) {
        let has_failed_on_tls = self.last_cause == Some(DownCause::Tls);
        if let (Phase::Waiting { until, .. }, true) = (&mut self.phase, has_failed_on_tls) {
            *until = now;
            self.attempts = 0;
            self.last_cause = None;
        }
    }

    /// For status.
    pub fn state(&self) -> LinkState {
        match &self.phase {
            Phase::Waiting { until, reason } => {
                LinkState::Down { since: self.down_since, retry_at: *until, reason: reason.clone() }
            }
            Phase::Connecting | Phase::Closing { .. } => LinkState::Connecting,
            Phase::Up { since } => LinkState::Up { since: *since },
            Phase::Stopped => LinkState::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: (Span, Span) = (Span::from_secs(1), Span::from_secs(60));

    fn at(seconds: u64) -> MonoTime {
        MonoTime::from_ns(seconds * 1_000_000_000)
    }

    #[test]
    fn m_05_a_connection_that_is_accepted_and_dropped_does_not_reset_the_backoff() {
        let mut connection = Connection::new(BACKOFF, at(0));
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert!(connection.try_connect(now));
            assert!(connection.came_up(now));
            connection.saw_puback();
            let lost = connection.went_down(now, DownCause::Network, "closed", u64::MAX).unwrap();
            waits.push(lost.retry_in.ns() / 1_000_000_000);
            now = now + lost.retry_in;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn m_12_a_failure_on_tls_is_tried_again_when_the_clock_is_set_and_no_other_is() {
        let mut connection = Connection::new(BACKOFF, at(0));
        for _ in 0..7 {
            connection.went_down(at(0), DownCause::Tls, "certificate not yet valid", u64::MAX);
        }
        assert_eq!(connection.next_deadline(), Some(at(60)));
        connection.clock_was_set(at(5));
        assert_eq!(connection.next_deadline(), Some(at(5)));
        connection.went_down(at(5), DownCause::Network, "refused", u64::MAX);
        connection.clock_was_set(at(5));
        assert_eq!(connection.next_deadline(), Some(at(6)), "the backoff stands");
    }

    #[test]
    fn a_proven_connection_resets_it() {
        let mut connection = Connection::new(BACKOFF, at(0));
        for _ in 0..5 {
            connection.went_down(at(0), DownCause::Network, "refused", u64::MAX);
        }
        assert!(connection.try_connect(at(100)));
        assert!(connection.came_up(at(100)));
        assert_eq!(connection.down_for(), None);
        connection.saw_puback();
        let lost = connection.went_down(at(105), DownCause::Network, "reset", u64::MAX).unwrap();
        assert_eq!((lost.was_up, lost.retry_in), (true, Span::from_secs(1)));
        assert!(connection.try_connect(at(107)));
        assert!(connection.came_up(at(108)));
        assert_eq!(connection.down_for(), Some(Span::from_secs(3)));
    }
}
