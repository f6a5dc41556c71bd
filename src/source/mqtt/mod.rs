//! A broker on site whose topics are readings.
//!
//! ```text
//!             messages                  batches
//!  broker ──────────────► session ─────────────► driver
//!         ◄──────────────         ◄─────────────
//!          PUBACK, in order        receipts, once the batch is durable
//! ```
//!
//! - The broker's session is the buffer before the door: it is asked to keep one
//!   while we are away, and a message stays in it until its PUBACK. That is sent
//!   when the readings of the message are in the journal (or refused and in the
//!   quarantine: a message that can never be taken must not come for ever).
//! - So a message whose commit was on its way when this process was killed, or the
//!   connection lost, comes again. `DUP` says nothing of that: it tells that the
//!   broker sent it before, not that it arrived. Whether it is a repeat,
//!   `[source.dedupe]` decides by what the message says itself.
//! - One connection, one rumqttc client: no acknowledgement of an old one can go
//!   out on a new one.
//! - The session has the filters that it was ever told of, until it is told to let
//!   go of them: those that left the configuration are remembered for that.
//! - Retained messages are old news, and flagged so
//!   ([`crate::core::stamp::old_news`]). On MQTT 5 the broker sends them only for a
//!   subscription that is new to the session; on 3.1.1 at every connection.

mod client;
mod filters;
mod gather;
mod session;

use std::sync::Arc;
use std::time::Duration;

use super::Door;
use crate::config::{self, Source};
use crate::core::backoff;
use crate::core::time::{Span, Uptime};
use crate::mqtt::Broker;
use session::{End, Session};

/// A connection that lasted this long, or that a message came through, counts as good:
/// the next attempt comes soon.
const GOOD_AFTER: Duration = Duration::from_secs(60);

/// Reads until the source is stopped. `position` says which filters the session has.
pub(super) async fn run(
    settings: config::MqttSource,
    source: Source,
    position: Arc<[u8]>,
    mut door: Door,
) {
    let broker = Broker::of(&settings.url, &*settings.client_id, &settings.login);
    let backoff = (Span::from_std(settings.reconnect_min), Span::from_std(settings.reconnect_max));
    let mut session = Session::new(settings, &source, position, door.clone());
    let mut failures = 0;
    loop {
        let began = (door.clock)().uptime;
        let End::Failed { reason, was_useful } = session.connection(&broker).await else { return };
        let now = (door.clock)().uptime;
        if was_useful || now.since_ns(began) >= GOOD_AFTER.as_nanos() as u64 {
            failures = 0;
        }
        let draw = getrandom::u64().unwrap_or(0);
        let pause = backoff::delay(failures, backoff.0, backoff.1, draw);
        failures = failures.saturating_add(1);
        let retry_at = Uptime::from_ns(now.ns().saturating_add(pause.ns().unsigned_abs()));
        door.health.note_error(reason.clone());
        door.health.down(reason, Some(retry_at));
        tokio::select! {
            biased;
            () = door.stopped() => return,
            () = tokio::time::sleep(pause.to_std()) => {}
        }
    }
}
