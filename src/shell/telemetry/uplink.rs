//! Logs what happens to uplinks.

use tracing::{info, warn};

use super::Telemetry;
use crate::core::id::UplinkId;
use crate::core::length::length_text;
use crate::core::seam::{DownCause, LinkNotice, puback_meaning};
use crate::core::time::{MonoTime, Span};

impl Telemetry {
    pub(super) fn uplink(&mut self, id: UplinkId, notice: LinkNotice, now: MonoTime) {
        let uplink = self.uplinks.get(usize::from(id.0)).cloned().unwrap_or_default();
        // The same cause at two uplinks is two facts.
        let named = |what: &str| format!("uplink {uplink} {what}");
        match notice {
            LinkNotice::Acknowledged { entries: _, took } => self.metrics.acknowledged(id, took),
            LinkNotice::Up { down_for, backlog, session_present } => {
                // It must not be said that it cannot connect once it is up.
                self.throttle.forget_unsaid(&named("cannot connect"));
                self.up(id, down_for, backlog, session_present, now);
            }
            LinkNotice::Down { reason, cause, backlog } => {
                let (cause, reason) = match self.overdue.remove(&id) {
                    Some(oldest) => ("no_puback", format!("no PUBACK for {}", length_text(oldest))),
                    None => (cause_word(cause), reason),
                };
                let what = named(&format!("is down ({cause})"));
                if let Some(unsaid) = self.throttle.admit(&what, now) {
                    warn!(uplink, cause, reason, backlog, unsaid, "the uplink is down");
                }
            }
            LinkNotice::ConnectFailed { attempts, reason, cause, retry_in, backlog } => {
                *self.failed_attempts.entry(id).or_default() += 1;
                let cause = cause_word(cause);
                let what = named(&format!("cannot connect ({cause})"));
                if let Some(unsaid) = self.throttle.admit(&what, now) {
                    let retry_in = length_text(retry_in);
                    warn!(
                        uplink,
                        cause,
                        reason,
                        attempts,
                        retry_in,
                        backlog,
                        unsaid,
                        "the uplink cannot connect"
                    );
                }
            }
            LinkNotice::BacklogDrained { sent, took } => {
                if let Some(unsaid) = self.throttle.admit(&named("is done with its backlog"), now) {
                    info!(uplink, sent, took = length_text(took), unsaid, "the backlog is drained");
                }
            }
            // The end of the connection follows and is logged with this.
            LinkNotice::AckTimeout { oldest } => {
                self.overdue.insert(id, oldest);
            }
            LinkNotice::SourceHeld { source, code, retry_in } => {
                let what = named(&format!("is refused {source}"));
                if let Some(unsaid) = self.throttle.admit(&what, now) {
                    let meaning = puback_meaning(code);
                    let (code, retry_in) = (format!("{code:#04x}"), length_text(retry_in));
                    warn!(
                        uplink, %source, code, meaning, retry_in, unsaid,
                        "the broker refuses a source"
                    );
                }
            }
            LinkNotice::SourceReleased { source } => {
                self.throttle.clear(&named(&format!("is refused {source}")));
                info!(uplink, %source, "the broker takes the source again");
            }
        }
    }

    /// `session_present` is worth a word only where it is so.
    fn up(
        &mut self,
        id: UplinkId,
        down_for: Option<Span>,
        backlog: u64,
        session_present: bool,
        now: MonoTime,
    ) {
        let uplink = self.uplinks.get(usize::from(id.0)).cloned().unwrap_or_default();
        let session_present = session_present.then_some(true);
        let Some(down_for) = down_for else {
            let failed_attempts = self.failed_attempts.remove(&id);
            info!(uplink, failed_attempts, backlog, session_present, "the uplink is up");
            return;
        };
        self.metrics.reconnected(id);
        if let Some(unsaid) = self.throttle.admit(&format!("uplink {uplink} is up again"), now) {
            let failed_attempts = self.failed_attempts.remove(&id);
            let down_for = length_text(down_for);
            info!(
                uplink,
                down_for,
                failed_attempts,
                backlog,
                session_present,
                unsaid,
                "the uplink is up again"
            );
        }
    }
}

/// The word for a cause in logs.
const fn cause_word(cause: DownCause) -> &'static str {
    match cause {
        DownCause::Network => "network",
        DownCause::Refused => "refused",
        DownCause::Tls => "tls",
        DownCause::TakenOver => "taken_over",
        DownCause::PacketTooLarge => "packet_too_large",
        DownCause::Asked => "asked",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::http::metrics::Metrics;
    use crate::shell::log_line::heard;

    const UPLINK: UplinkId = UplinkId(0);

    /// What is said of each fact, and of the minute after the last.
    fn said(facts: impl IntoIterator<Item = (u64, LinkNotice)>) -> Vec<String> {
        let names = vec!["main".to_owned()];
        let mut telemetry = Telemetry::new(Arc::new(Metrics::new(names.clone())), names);
        let at = |second: u64| MonoTime::from_ns(second * 1_000_000_000);
        let lines = heard::during(|| {
            let mut last = 0;
            for (second, fact) in facts {
                telemetry.uplink(UPLINK, fact, at(second));
                last = second;
            }
            (last..last + 90).for_each(|second| telemetry.sweep(at(second)));
        });
        lines.iter().map(|line| line.to_text()).collect()
    }

    fn failed(attempts: u32, cause: DownCause) -> LinkNotice {
        let reason = "no answer".to_owned();
        LinkNotice::ConnectFailed {
            attempts,
            reason,
            cause,
            retry_in: Span::from_secs(1),
            backlog: 0,
        }
    }

    fn up(down_for: Option<Span>) -> LinkNotice {
        LinkNotice::Up { down_for, backlog: 3, session_present: false }
    }

    #[test]
    fn an_uplink_that_is_up_is_not_said_to_be_unable_to_connect() {
        let lines = said([
            (0, failed(1, DownCause::Network)),
            (1, failed(2, DownCause::Network)),
            (3, failed(3, DownCause::Tls)),
            (7, up(None)),
        ]);
        let failed = "the uplink cannot connect: uplink=main";
        let expected = [
            format!("{failed} cause=network reason=\"no answer\" attempts=1 retry_in=1s backlog=0"),
            format!("{failed} cause=tls reason=\"no answer\" attempts=3 retry_in=1s backlog=0"),
            "the uplink is up: uplink=main failed_attempts=3 backlog=3".to_owned(),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn attempts_that_failed_are_told_with_the_next_line_that_it_is_up() {
        let minute = Some(Span::from_secs(60));
        let lines = said([
            (0, up(None)),
            (10, failed(1, DownCause::Network)),
            (20, up(minute)),
            (30, failed(1, DownCause::Network)),
            (40, up(minute)),
            (90, failed(1, DownCause::Network)),
            (100, up(minute)),
        ]);
        let ups: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| line.contains(" is up")).collect();
        let again = "the uplink is up again: uplink=main down_for=\"1m 0s\" failed_attempts=";
        let expected = [
            "the uplink is up: uplink=main backlog=3".to_owned(),
            format!("{again}1 backlog=3"),
            format!("{again}2 backlog=3 unsaid=1"),
        ];
        assert_eq!(ups, expected);
        assert!(lines.iter().all(|line| !line.contains("the same again")), "{lines:?}");
    }
}
