//! From messages to batches for the driver, and which messages each batch settles.

use std::collections::VecDeque;

use super::client::Message;
use crate::config::{Format, MqttSource, Payload, Source, Topic};
use crate::core::id::SourceId;
use crate::core::limits::{REFUSAL_BYTES_MAX, SOURCE_BATCH_MAX};
use crate::core::reading::{Arrival, Flags, Reading, Refusal};
use crate::core::seam::Batch;
use crate::source::lines::{Line, LineSplitter};
use crate::source::parse::Fault;
use crate::source::parse::bare::BareParser;
use crate::source::parse::influx::InfluxParser;
use crate::source::parse::json::{JsonParser, Names};

/// Bytes of payloads after which a batch is closed.
const BATCH_BYTES: usize = 256 * 1024;
/// Bytes that wait for the driver, estimated; beyond, nothing more is read.
const WAITING_BYTES: usize = 2 * 1024 * 1024;
/// What a message takes besides its payload, roughly.
const MESSAGE_BYTES: usize = 256;
/// How much of a topic stands in the reason of a refusal.
const TOPIC_SHOWN: usize = 200;

/// A batch on its way to the driver.
pub(super) struct Gathered {
    pub(super) batch: Batch,
    /// The messages that end in it, in their order, by packet identifier.
    pub(super) settles: Vec<u16>,
    bytes: usize,
    /// Whether its messages come again if they are not acknowledged.
    is_kept_by_broker: bool,
}

/// Gathers messages into batches.
pub(super) struct Gatherer {
    name: SourceId,
    entity: Option<String>,
    line_max: usize,
    routes: Vec<Route>,
    json: JsonParser,
    bare: BareParser,
    waiting: VecDeque<Gathered>,
    waiting_bytes: usize,
}

/// A topic, and the parser that is its own.
struct Route {
    topic: Topic,
    points: Option<InfluxParser>,
}

/// Why a message, or a part of it, is refused, and that part.
struct Refused {
    place: String,
    fault: Fault,
    content: Vec<u8>,
    length: u64,
}

impl Refused {
    fn whole(payload: &[u8], fault: Fault) -> Self {
        let content = payload[..payload.len().min(REFUSAL_BYTES_MAX)].to_vec();
        Self { place: String::new(), fault, content, length: payload.len() as u64 }
    }
}

impl Gatherer {
    pub(super) fn new(settings: &MqttSource, source: &Source) -> Self {
        let points = |entity: &Option<String>| {
            let format = Format::Influx;
            InfluxParser::new(&Source { entity: entity.clone(), format, ..source.clone() })
        };
        let route = |topic: &Topic| Route {
            topic: topic.clone(),
            points: match &topic.payload {
                Payload::Influx { entity } => Some(points(entity)),
                Payload::Value { .. } | Payload::Json { .. } => None,
            },
        };
        Self {
            name: SourceId::new(&source.name),
            entity: source.entity.clone(),
            line_max: source.max_line,
            routes: settings.topics.iter().map(route).collect(),
            json: JsonParser::new(source),
            bare: BareParser::new(source),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Takes a message in. Returns how many parts of it were refused.
    pub(super) fn take(&mut self, message: &Message, arrival: Arrival) -> u64 {
        let (mut readings, mut refused) = (Vec::new(), Vec::new());
        self.parse(message, &mut readings, &mut refused);
        if message.is_retained {
            for reading in &mut readings {
                reading.flags = reading.flags.with(Flags::RETAINED);
            }
        }
        let count = refused.len() as u64;
        let refused = refused.into_iter().map(|one| self.refusal(message, arrival, one));
        let refused: Vec<Refusal> = refused.collect();
        self.add(message, arrival, readings, refused);
        count
    }

    fn parse(
        &mut self,
        message: &Message,
        readings: &mut Vec<Reading>,
        refused: &mut Vec<Refused>,
    ) {
        let Message { topic, payload, .. } = message;
        let mut refuse = |kind, what: String| {
            refused.push(Refused::whole(payload, Fault::new(kind, what)));
        };
        let matching = self.routes.iter_mut().find_map(|route| {
            let captures = route.topic.filter.captures(topic)?;
            Some((route, captures))
        });
        let Some((Route { topic, points }, captures)) = matching else {
            let what = "no filter of this source matches it: the broker's session still has one \
                        that is not configured any more";
            return refuse("topic", what.to_owned());
        };
        if payload.len() > self.line_max {
            let what = format!("the payload has {} bytes, more than max_line", payload.len());
            return refuse("too_long", what);
        }
        let Ok(text) = std::str::from_utf8(payload) else {
            return refuse("not_utf8", "the payload is not UTF-8".to_owned());
        };
        // It takes back what was retained, and says nothing else.
        if text.trim().is_empty() {
            return;
        }
        let result = match (&topic.payload, points) {
            (_, Some(points)) => {
                return parse_points(points, payload, self.line_max, readings, refused);
            }
            (Payload::Value { entity, property }, _) => {
                let entity = entity.as_ref().map(|entity| entity.name(&captures));
                let entity = entity.as_deref().or(self.entity.as_deref()).unwrap_or_default();
                self.bare.parse(entity, &property.name(&captures), text, readings)
            }
            (Payload::Json { entity, property }, _) => {
                let entity = entity.as_ref().map(|entity| entity.name(&captures));
                let property = property.as_ref().map(|property| property.name(&captures));
                let names = Names { entity: entity.as_deref(), property: property.as_deref() };
                self.json.parse_of(text, names, readings)
            }
            (Payload::Influx { .. }, None) => Ok(()),
        };
        if let Err(fault) = result {
            refused.push(Refused::whole(payload, fault));
        }
    }

    fn refusal(&self, message: &Message, arrival: Arrival, refused: Refused) -> Refusal {
        let Refused { place, fault, content, length } = refused;
        let topic: String = message.topic.chars().take(TOPIC_SHOWN).collect();
        Refusal {
            source: self.name.clone(),
            at: arrival.ingest,
            kind: fault.kind,
            reason: format!("topic {topic:?}{place}: {fault}"),
            content,
            length,
            reading: None,
        }
    }

    /// Adds what a message gave, in as many batches as it takes; the last of them
    /// settles it.
    fn add(
        &mut self,
        message: &Message,
        arrival: Arrival,
        readings: Vec<Reading>,
        refused: Vec<Refusal>,
    ) {
        let is_kept = message.packet_id.is_some();
        let mut readings = readings.into_iter().peekable();
        let mut refused = refused.into_iter().peekable();
        let mut bytes = message.payload.len() + MESSAGE_BYTES;
        self.waiting_bytes += bytes;
        loop {
            let last = self.open(arrival, is_kept);
            last.bytes += std::mem::take(&mut bytes);
            let room = SOURCE_BATCH_MAX - last.batch.readings.len() - last.batch.refused.len();
            let before = last.batch.readings.len();
            last.batch.readings.extend(readings.by_ref().take(room));
            let room = room - (last.batch.readings.len() - before);
            last.batch.refused.extend(refused.by_ref().take(room));
            if readings.peek().is_none() && refused.peek().is_none() {
                last.settles.extend(message.packet_id);
                return;
            }
        }
    }

    /// The batch to add to.
    fn open(&mut self, arrival: Arrival, is_kept_by_broker: bool) -> &mut Gathered {
        let is_open = |last: &Gathered| {
            last.batch.arrival == arrival
                && last.is_kept_by_broker == is_kept_by_broker
                && last.bytes < BATCH_BYTES
                && last.batch.readings.len() + last.batch.refused.len() < SOURCE_BATCH_MAX
        };
        if !self.waiting.back().is_some_and(is_open) {
            let batch = Batch {
                source: self.name.clone(),
                arrival,
                readings: Vec::new(),
                refused: Vec::new(),
                advance: None,
                receipt: None,
            };
            let settles = Vec::new();
            self.waiting.push_back(Gathered { batch, settles, bytes: 0, is_kept_by_broker });
        }
        let last = self.waiting.len() - 1;
        &mut self.waiting[last]
    }

    /// The next batch.
    pub(super) fn next(&mut self) -> Option<Gathered> {
        let next = self.waiting.pop_front()?;
        self.waiting_bytes -= next.bytes;
        Some(next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting_bytes < WAITING_BYTES
    }

    /// A new connection: what the broker still has comes again, and what it has
    /// forgotten, with its session, must not be asked to be acknowledged.
    pub(super) fn reconnected(&mut self, session_present: bool) {
        if session_present {
            self.waiting.retain(|gathered| !gathered.is_kept_by_broker);
            self.waiting_bytes = self.waiting.iter().map(|gathered| gathered.bytes).sum();
        }
        self.waiting.iter_mut().for_each(|gathered| gathered.settles.clear());
    }
}

/// The points of a payload; each bad one costs itself.
fn parse_points(
    parser: &mut InfluxParser,
    payload: &[u8],
    line_max: usize,
    readings: &mut Vec<Reading>,
    refused: &mut Vec<Refused>,
) {
    let mut splitter = LineSplitter::points(line_max);
    let mut rest = payload;
    loop {
        while let Some((number, line)) = splitter.next_line() {
            let (bytes, result) = match &line {
                Line::Text(text) if text.trim_ascii().is_empty() => continue,
                Line::Text(text) => (text.as_bytes(), parser.parse(text, readings)),
                Line::NotUtf8(bytes) => {
                    (*bytes, Err(Fault::new("not_utf8", "the line is not UTF-8")))
                }
                Line::TooLong { head, length } => {
                    let what = format!("the line has {length} bytes, more than max_line");
                    (head.as_slice(), Err(Fault::new("too_long", what)))
                }
            };
            if let Err(fault) = result {
                let place = format!(", line {number}");
                refused.push(Refused { place, ..Refused::whole(bytes, fault) });
            }
        }
        if splitter.is_ended() {
            return;
        }
        let space = splitter.space();
        let count = space.len().min(rest.len());
        let (next, after) = rest.split_at(count);
        space[..count].copy_from_slice(next);
        splitter.filled(count);
        rest = after;
        if rest.is_empty() {
            splitter.end();
        }
    }
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;
