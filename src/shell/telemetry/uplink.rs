//! Logs what happens to uplinks.

use tracing::{info, warn};

use super::{Telemetry, length};
use crate::core::id::UplinkId;
use crate::core::seam::{DownCause, LinkNotice};
use crate::core::time::{MonoTime, Span};
use crate::http::status::code_meaning;

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
                    Some(oldest) => ("no_puback", format!("no PUBACK for {}", length(oldest))),
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
                    let retry_in = length(retry_in);
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
                    info!(uplink, sent, took = length(took), unsaid, "the backlog is drained");
                }
            }
            // The end of the connection follows and is logged with this.
            LinkNotice::AckTimeout { oldest } => {
                self.overdue.insert(id, oldest);
            }
            LinkNotice::SourceHeld { source, code, retry_in } => {
                let what = named(&format!("is refused {source}"));
                if let Some(unsaid) = self.throttle.admit(&what, now) {
                    let meaning = code_meaning(code);
                    let (code, retry_in) = (format!("{code:#04x}"), length(retry_in));
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
            let down_for = length(down_for);
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
