//! Logs what happens to uplinks.

use tracing::{info, warn};

use super::Telemetry;
use crate::core::id::UplinkId;
use crate::core::length::length_text;
use crate::core::seam::{DownCause, LinkNotice, puback_meaning};
use crate::core::time::MonoTime;

impl Telemetry {
    pub(super) fn uplink(&mut self, id: UplinkId, notice: LinkNotice, now: MonoTime) {
        let uplink = self.uplinks.get(usize::from(id.0)).cloned().unwrap_or_default();
        // The same cause at two uplinks is two facts.
        let named = |what: &str| format!("uplink {uplink} {what}");
        match notice {
            LinkNotice::Acknowledged { entries: _, took } => self.metrics.acknowledged(id, took),
            LinkNotice::Up { down_for: Some(down_for), backlog, session_present } => {
                self.metrics.reconnected(id);
                if let Some(unsaid) = self.throttle.admit(&named("is up again"), now) {
                    let down_for = length_text(down_for);
                    info!(
                        uplink,
                        down_for, backlog, session_present, unsaid, "the uplink is up again"
                    );
                }
            }
            LinkNotice::Up { down_for: None, backlog, session_present } => {
                info!(uplink, backlog, session_present, "the uplink is up");
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
