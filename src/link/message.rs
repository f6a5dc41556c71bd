//! From what the core says to what MQTT carries.

use super::Settings;
use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::reading::{Entry, Record};
use crate::core::seam::PublishBody;
use crate::core::window::LateReading;
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
            PublishBody::Entry(Entry::Window(result)) => {
                json::window_result(gateway, result, &mut payload);
                let topic = topic::window(gateway, &result.window);
                let key = key(gateway, &result.source, result.epoch, result.seq, result.seq);
                Message { topic, payload, is_retained: false, key: Some(key) }
            }
            PublishBody::Entry(Entry::Late(late)) => Message::late(gateway, late, payload),
            PublishBody::Entry(Entry::Retimed(_) | Entry::Idle(_)) => {
                unreachable!("internal entries are never published")
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

    /// The reading itself goes up too, and one may be late for several windows: the
    /// key names the window besides.
    fn late(gateway: &str, late: &LateReading, mut payload: Vec<u8>) -> Message {
        json::late_reading(gateway, late, &mut payload);
        let topic = topic::late(gateway, &late.window);
        let Record { source, epoch, seq, .. } = &late.record;
        let (window, version) = (&late.window, late.version);
        let key = format!("{gateway}/late:{window}:{version}/{source}/{epoch}/{seq}-{seq}");
        Message { topic, payload, is_retained: false, key: Some(key) }
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
#[path = "message_tests.rs"]
mod tests;
