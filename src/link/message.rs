//! From what the core says to what MQTT carries.

use super::Settings;
use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::reading::Entry;
use crate::core::seam::PublishBody;
use crate::wire::{json, topic};

/// Usual length of a reading; one allocation for most payloads.
const PAYLOAD_BYTES_USUAL: usize = 512;

/// Everything of a PUBLISH but its packet identifier.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
    pub(super) is_retained: bool,
    /// The idempotency key; frontier and status have none, the newest counts.
    pub(super) key: Option<String>,
}

impl Message {
    pub(super) fn new(settings: &Settings, body: &PublishBody) -> Message {
        let gateway = settings.gateway.as_str();
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES_USUAL);
        match body {
            PublishBody::Entry(Entry::Reading(record)) => {
                json::reading(gateway, record, &mut payload);
                let names = topic::Names {
                    gateway,
                    source: record.source.as_str(),
                    entity: &record.series.entity,
                    property: &record.series.property,
                };
                let topic = settings.topic.expand(&names);
                let key = key(gateway, &record.source, record.epoch, record.seq, record.seq);
                Message { topic, payload, is_retained: false, key: Some(key) }
            }
            PublishBody::Entry(Entry::Gap(gap)) => {
                json::gap(gateway, gap, &mut payload);
                let topic = topic::gaps(gateway, gap.source.as_str());
                let last_seq = gap.last_seq.unwrap_or(gap.first_seq);
                let key = key(gateway, &gap.source, gap.epoch, gap.first_seq, last_seq);
                Message { topic, payload, is_retained: false, key: Some(key) }
            }
            PublishBody::Entry(Entry::Correction(correction)) => {
                json::correction(gateway, correction, &mut payload);
                let topic = topic::corrections(gateway, correction.source.as_str());
                let (first, last) = (correction.first_seq, correction.last_seq);
                let key = key(gateway, &correction.source, correction.epoch, first, last);
                Message { topic, payload, is_retained: false, key: Some(key) }
            }
            PublishBody::Entry(Entry::Clock(event)) => {
                json::clock_event(gateway, event, &mut payload);
                let key = format!("{gateway}/clock/{}/{}", event.boot, event.uptime.ns());
                let topic = topic::clock(gateway);
                Message { topic, payload, is_retained: false, key: Some(key) }
            }
            PublishBody::Frontier(frontier) => {
                json::frontier(gateway, frontier, &mut payload);
                let topic = topic::frontier(gateway, frontier.source.as_str());
                Message { topic, payload, is_retained: true, key: None }
            }
            PublishBody::Status(status) => {
                json::link_status(gateway, status, &mut payload);
                Message { topic: topic::status(gateway), payload, is_retained: true, key: None }
            }
        }
    }

    /// What the broker says for us when we vanish.
    pub(super) fn will(settings: &Settings) -> Message {
        let mut payload = Vec::new();
        json::will(&settings.gateway, &mut payload);
        Message { topic: topic::status(&settings.gateway), payload, is_retained: true, key: None }
    }
}

fn key(gateway: &str, source: &SourceId, epoch: Epoch, first: Seq, last: Seq) -> String {
    format!("{gateway}/{source}/{epoch}/{first}-{last}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::core::clock::event::CLOCK_SOURCE;
    use crate::core::clock::{ClockEvent, ClockEventKind, ClockSource, ClockState, Correction};
    use crate::core::id::BootId;
    use crate::core::time::{IngestTime, MaxError, Span, TimebaseId, Uptime};
    use crate::link::{MAX_PAYLOAD_BYTES, Protocol};

    fn sent(entry: Entry) -> (String, bool, String, String) {
        let settings = Settings {
            gateway: "gw".into(),
            host: String::new(),
            port: 1883,
            tls: false,
            protocol: Protocol::V5,
            client_id: String::new(),
            username: None,
            password_file: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            keep_alive: Duration::from_secs(30),
            inflight_max: 1,
            max_payload: MAX_PAYLOAD_BYTES,
            topic: topic::Template::parse("t").unwrap(),
            time_floor_s: 0,
        };
        let Message { topic, payload, is_retained, key } =
            Message::new(&settings, &PublishBody::Entry(entry));
        (topic, is_retained, key.unwrap(), String::from_utf8(payload).unwrap())
    }

    #[test]
    fn corrections_are_keyed_by_what_they_correct() {
        let (topic, is_retained, key, payload) = sent(Entry::Correction(Correction {
            source: SourceId::new("s"),
            epoch: Epoch { number: 1, nonce: 7 },
            first_seq: Seq(1),
            last_seq: Seq(9),
            boot: BootId([0xab; 16]),
            timebase: TimebaseId(2),
            shift: Span::from_ns(123),
            max_error: MaxError::from_ns(1),
            at: IngestTime::from_unix_ns(0),
        }));
        assert_eq!((topic.as_str(), is_retained), ("tidegate/gw/corrections/s", false));
        assert_eq!(key, "gw/s/1-00000007/1-9");
        assert!(payload.contains(r#""shift_ns":123"#), "{payload}");
    }

    #[test]
    fn clock_events_are_keyed_by_boot_and_uptime() {
        let (topic, is_retained, key, payload) = sent(Entry::Clock(ClockEvent {
            source: SourceId::new(CLOCK_SOURCE),
            kind: ClockEventKind::State,
            boot: BootId([0xab; 16]),
            uptime: Uptime::from_ns(77),
            timebase: TimebaseId(2),
            at: IngestTime::from_unix_ns(0),
            state_before: ClockState::Stepped,
            state: ClockState::Synchronized,
            clock: ClockSource::Ntp,
            max_error: None,
        }));
        assert_eq!((topic.as_str(), is_retained), ("tidegate/gw/clock", false));
        assert_eq!(key, "gw/clock/abababab-abab-abab-abab-abababababab/77");
        assert!(payload.contains(r#""event":"state""#), "{payload}");
    }
}
