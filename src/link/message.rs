//! From what the core says to what MQTT carries.

use super::{BatchFormat, Settings};
use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::reading::{Entry, Record};
use crate::core::seam::{Lane, PublishBody};
use crate::core::window::LateReading;
use crate::wire::{batch, json, topic};

/// Usual length of a reading; one allocation for most payloads.
const PAYLOAD_BYTES_USUAL: usize = 512;

/// The content type of JSON.
const JSON: &str = "application/json";

/// Everything of a PUBLISH but its packet identifier.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
    pub(super) is_retained: bool,
    /// Of MQTT 5.
    pub(super) content_type: &'static str,
    pub(super) lane: Lane,
    /// The idempotency key; frontier and status have none, the newest counts.
    pub(super) key: Option<String>,
}

impl Message {
    pub(super) fn new(settings: &Settings, lane: Lane, body: &PublishBody) -> Message {
        let message = Message { lane, ..Message::live(settings, body) };
        let first = match body {
            PublishBody::Batch(records) => records.first(),
            PublishBody::Entry(Entry::Reading(record)) => Some(record),
            _ => None,
        };
        match (lane, &settings.backfill_topic, first) {
            (Lane::Backfill, Some(template), Some(record)) => {
                Message { topic: reading_topic(settings, template, record), ..message }
            }
            _ => message,
        }
    }

    /// As it goes out on the live lane.
    fn live(settings: &Settings, body: &PublishBody) -> Message {
        let gateway = settings.gateway.as_str();
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES_USUAL);
        match body {
            PublishBody::Batch(records) => Message::batch(settings, records),
            PublishBody::Entry(Entry::Reading(record)) => {
                json::reading(gateway, record, &mut payload);
                let topic = reading_topic(settings, &settings.topic, record);
                let key = key(gateway, &record.source, record.epoch, record.seq, record.seq);
                Message::json(topic, payload, Some(key))
            }
            PublishBody::Entry(Entry::Gap(gap)) => {
                json::gap(gateway, gap, &mut payload);
                let topic = topic::gaps(gateway, gap.source.as_str());
                let last_seq = gap.last_seq.unwrap_or(gap.first_seq);
                let key = key(gateway, &gap.source, gap.epoch, gap.first_seq, last_seq);
                Message::json(topic, payload, Some(key))
            }
            PublishBody::Entry(Entry::Correction(correction)) => {
                json::correction(gateway, correction, &mut payload);
                let topic = topic::corrections(gateway, correction.source.as_str());
                let (first, last) = (correction.first_seq, correction.last_seq);
                let key = key(gateway, &correction.source, correction.epoch, first, last);
                Message::json(topic, payload, Some(key))
            }
            PublishBody::Entry(Entry::Clock(event)) => {
                json::clock_event(gateway, event, &mut payload);
                let key = format!("{gateway}/clock/{}/{}", event.boot, event.uptime.ns());
                let topic = topic::clock(gateway);
                Message::json(topic, payload, Some(key))
            }
            PublishBody::Entry(Entry::Window(result)) => {
                json::window_result(gateway, result, &mut payload);
                let topic = topic::window(gateway, &result.window);
                let key = key(gateway, &result.source, result.epoch, result.seq, result.seq);
                Message::json(topic, payload, Some(key))
            }
            PublishBody::Entry(Entry::Late(late)) => Message::late(gateway, late, payload),
            PublishBody::Entry(Entry::Retimed(_) | Entry::Idle(_)) => {
                unreachable!("internal entries are never published")
            }
            PublishBody::Frontier(frontier) => {
                json::frontier(gateway, frontier, &mut payload);
                let topic = topic::frontier(gateway, frontier.source.as_str());
                Message::retained(topic, payload)
            }
            PublishBody::Status(status) => {
                json::link_status(gateway, status, &mut payload);
                Message::retained(topic::status(gateway), payload)
            }
        }
    }

    fn json(topic: String, payload: Vec<u8>, key: Option<String>) -> Message {
        let (is_retained, lane) = (false, Lane::Live);
        Message { topic, payload, is_retained, content_type: JSON, lane, key }
    }

    fn retained(topic: String, payload: Vec<u8>) -> Message {
        Message { is_retained: true, ..Message::json(topic, payload, None) }
    }

    /// Readings of one source and numbering, in order.
    fn batch(settings: &Settings, records: &[Record]) -> Message {
        let gateway = settings.gateway.as_str();
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES_USUAL);
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Message::json(topic::status(gateway), payload, None);
        };
        let content_type = match settings.batch_format {
            BatchFormat::Json => {
                json::batch(gateway, records, &mut payload);
                JSON
            }
            BatchFormat::Postcard => {
                batch::encode(gateway, records, &mut payload);
                batch::CONTENT_TYPE
            }
        };
        let topic = reading_topic(settings, &settings.topic, first);
        let key = key(gateway, &first.source, first.epoch, first.seq, last.seq);
        Message { content_type, ..Message::json(topic, payload, Some(key)) }
    }

    /// The reading itself goes up too, and one may be late for several windows: the
    /// key names the window besides.
    fn late(gateway: &str, late: &LateReading, mut payload: Vec<u8>) -> Message {
        json::late_reading(gateway, late, &mut payload);
        let topic = topic::late(gateway, &late.window);
        let Record { source, epoch, seq, .. } = &late.record;
        let (window, version) = (&late.window, late.version);
        let key = format!("{gateway}/late:{window}:{version}/{source}/{epoch}/{seq}-{seq}");
        Message::json(topic, payload, Some(key))
    }

    /// What the broker says for us when we vanish.
    pub(super) fn will(settings: &Settings) -> Message {
        let mut payload = Vec::new();
        json::will(&settings.gateway, &mut payload);
        Message::retained(topic::status(&settings.gateway), payload)
    }
}

fn reading_topic(settings: &Settings, template: &topic::Template, record: &Record) -> String {
    template.expand(&topic::Names {
        gateway: &settings.gateway,
        source: record.source.as_str(),
        entity: &record.series.entity,
        property: &record.series.property,
    })
}

fn key(gateway: &str, source: &SourceId, epoch: Epoch, first: Seq, last: Seq) -> String {
    format!("{gateway}/{source}/{epoch}/{first}-{last}")
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
