//! What uplinks have to say.

use tracing::{info, warn};

use super::Telemetry;
use crate::core::id::UplinkId;
use crate::core::seam::{DownCause, LinkNotice};
use crate::core::time::MonoTime;
use crate::http::status::code_meaning;

impl Telemetry {
    pub(super) fn uplink(&mut self, id: UplinkId, notice: LinkNotice, now: MonoTime) {
        let uplink = self.uplinks.get(usize::from(id.0)).cloned().unwrap_or_default();
        // Between uplinks the same cause is two facts.
        let named = |cause: &str| format!("{cause} ({uplink})");
        match notice {
            LinkNotice::Acknowledged { entries: _, took } => self.metrics.acknowledged(id, took),
            LinkNotice::Up { down_for: Some(down_for), backlog, session_present } => {
                self.metrics.reconnected(id);
                if let Some(unsaid) = self.throttle.admit(&named("link up"), now) {
                    info!(
                        uplink, %down_for, backlog, session_present, unsaid,
                        "the uplink is up again"
                    );
                }
            }
            LinkNotice::Up { down_for: None, backlog, session_present } => {
                info!(uplink, backlog, session_present, "the uplink is up");
            }
            LinkNotice::Down { reason, cause, backlog } => {
                let cause = cause_word(cause);
                if let Some(unsaid) =
                    self.throttle.admit(&named(&format!("link down: {cause}")), now)
                {
                    warn!(uplink, cause, reason, backlog, unsaid, "the uplink is down");
                }
            }
            LinkNotice::ConnectFailed { attempts, reason, cause, retry_in, backlog } => {
                let cause = cause_word(cause);
                if let Some(unsaid) = self.throttle.admit(&named(&format!("connect: {cause}")), now)
                {
                    warn!(
                        uplink, cause, reason, attempts, %retry_in, backlog, unsaid,
                        "the uplink cannot connect"
                    );
                }
            }
            LinkNotice::BacklogDrained { sent, took } => {
                if let Some(unsaid) = self.throttle.admit(&named("backlog drained"), now) {
                    info!(uplink, sent, %took, unsaid, "the backlog is drained");
                }
            }
            LinkNotice::AckTimeout { oldest } => {
                if let Some(unsaid) = self.throttle.admit(&named("puback overdue"), now) {
                    warn!(uplink, %oldest, unsaid, "no PUBACK for too long: the connection is given up");
                }
            }
            LinkNotice::SourceHeld { source, code, retry_in } => {
                if let Some(unsaid) = self.throttle.admit(&named(&format!("{source} held")), now) {
                    let meaning = code_meaning(code);
                    let code = format!("{code:#04x}");
                    warn!(
                        uplink, %source, code, meaning, %retry_in, unsaid,
                        "the broker refuses a source"
                    );
                }
            }
            LinkNotice::SourceReleased { source } => {
                self.throttle.clear(&named(&format!("{source} held")));
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
