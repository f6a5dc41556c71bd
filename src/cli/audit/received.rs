//! What the subscriber got, by name: `(source, epoch, seq)`. Reads payloads as
//! a stranger would, by the contract alone and with none of the agent's code.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::RangeInclusive;

use chrono::DateTime;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Before the name of a window, as a source of results.
const WINDOW: &str = "window:";

/// Everything that came.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Received {
    /// By source and epoch.
    pub(in crate::cli) stretches: BTreeMap<(String, String), Stretch>,
    /// Results of windows, by source (`window:NAME`) and epoch.
    pub(in crate::cli) results: BTreeMap<(String, String), Stretch>,
    /// Readings that came too late for a window.
    pub(in crate::cli) late: u64,
    /// Messages that break the contract.
    pub(in crate::cli) out_of_contract: u64,
    /// The first of them, and what is wrong with it.
    pub(in crate::cli) first_complaint: Option<String>,
    /// Delivery frontiers, corrections, status messages and clock events.
    pub(in crate::cli) side_messages: u64,
}

/// What came of one source and epoch.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Stretch {
    /// Readings, repeats included.
    pub(in crate::cli) delivered: u64,
    /// By number.
    pub(in crate::cli) copies: BTreeMap<u64, Copies>,
    /// Numbers that gap records name.
    pub(in crate::cli) gaps: Vec<RangeInclusive<u64>>,
}

impl Stretch {
    /// Whether a gap record names the number.
    pub(in crate::cli) fn names(&self, seq: u64) -> bool {
        self.gaps.iter().any(|gap| gap.contains(&seq))
    }

    /// One more copy of the reading or result of that number.
    fn take(&mut self, seq: u64, payload: &[u8]) {
        let content = Content::of(payload);
        self.delivered += 1;
        match self.copies.entry(seq) {
            Entry::Vacant(free) => {
                free.insert(Copies { content, is_changed: false });
            }
            Entry::Occupied(mut first) => {
                let copies = first.get_mut();
                copies.is_changed |= copies.content != content;
            }
        }
    }
}

/// The copies of one reading.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Copies {
    content: Content,
    /// Whether two of them differ.
    pub(in crate::cli) is_changed: bool,
}

/// Stands for the bytes of a payload: with millions of readings the bytes
/// themselves would not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    length: usize,
    hash: u64,
}

impl Content {
    fn of(bytes: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        Self { length: bytes.len(), hash: hasher.finish() }
    }
}

/// The parts of a reading that the contract always has.
#[derive(Deserialize)]
struct ReadingForm {
    v: u32,
    gateway: String,
    source: String,
    epoch: String,
    seq: u64,
    event_time: String,
    ingest_time: String,
    #[serde(rename = "entity")]
    _entity: String,
    #[serde(rename = "property")]
    _property: String,
    #[serde(rename = "value")]
    _value: IgnoredAny,
    #[serde(rename = "time")]
    _time: IgnoredAny,
}

/// The parts of a window's result that name it.
#[derive(Deserialize)]
struct ResultForm {
    v: u32,
    gateway: String,
    source: String,
    epoch: String,
    seq: u64,
    window: String,
    start: String,
    end: String,
    #[serde(rename = "revision")]
    _revision: u64,
    #[serde(rename = "status")]
    _status: IgnoredAny,
    #[serde(rename = "coverage")]
    _coverage: IgnoredAny,
}

#[derive(Deserialize)]
struct GapForm {
    v: u32,
    gateway: String,
    source: String,
    epoch: String,
    first_seq: u64,
    last_seq: Option<u64>,
}

impl Received {
    /// Takes one message in.
    pub(in crate::cli) fn take(&mut self, topic: &str, payload: &[u8]) {
        if let Err(problem) = self.sort(topic, payload) {
            self.out_of_contract += 1;
            self.first_complaint.get_or_insert_with(|| format!("{topic}: {problem}"));
        }
    }

    /// Readings or results of one source and epoch.
    pub(in crate::cli) fn stretch(&self, key: &(String, String)) -> Option<&Stretch> {
        let stretches = if key.0.starts_with(WINDOW) { &self.results } else { &self.stretches };
        stretches.get(key)
    }

    /// Whether anything of a source came.
    pub(in crate::cli) fn knows(&self, source: &str) -> bool {
        self.stretches.keys().chain(self.results.keys()).any(|(known, _)| known == source)
    }

    /// Whether a number came with this content; `None` where it did not come.
    pub(in crate::cli) fn holds(
        &self,
        (source, epoch): (&str, &str),
        seq: u64,
        payload: &[u8],
    ) -> Option<bool> {
        let stretch = self.stretch(&(source.to_owned(), epoch.to_owned()))?;
        let copies = stretch.copies.get(&seq)?;
        Some(copies.content == Content::of(payload))
    }

    /// Different readings.
    #[cfg(any(feature = "demo", test))]
    pub(in crate::cli) fn distinct(&self) -> u64 {
        self.stretches.values().map(|stretch| stretch.copies.len() as u64).sum()
    }

    fn sort(&mut self, topic: &str, payload: &[u8]) -> Result<(), String> {
        let levels: Vec<&str> = topic.split('/').collect();
        match levels.as_slice() {
            ["tidegate", gateway, "readings", source] => self.reading(gateway, source, payload),
            ["tidegate", gateway, "gaps", source] => self.gap(gateway, source, payload),
            ["tidegate", gateway, "windows", window] => self.result(gateway, window, payload),
            ["tidegate", _, "late", _] => {
                serde_json::from_slice::<ReadingForm>(payload).map_err(|e| e.to_string())?;
                self.late += 1;
                Ok(())
            }
            ["tidegate", _, "frontier" | "corrections", _]
            | ["tidegate", _, "status" | "clock"] => {
                serde_json::from_slice::<IgnoredAny>(payload).map_err(|error| error.to_string())?;
                self.side_messages += 1;
                Ok(())
            }
            _ => Err("a topic that the contract does not have".to_owned()),
        }
    }

    fn reading(&mut self, gateway: &str, source: &str, payload: &[u8]) -> Result<(), String> {
        let form: ReadingForm =
            serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        check_head(form.v, (&form.gateway, gateway), (&form.source, source))?;
        if form.seq == 0 {
            return Err("seq is 0: numbers count from 1".to_owned());
        }
        check_time("event_time", &form.event_time)?;
        check_time("ingest_time", &form.ingest_time)?;
        let stretch = self.stretches.entry((form.source, form.epoch)).or_default();
        stretch.take(form.seq, payload);
        Ok(())
    }

    fn result(&mut self, gateway: &str, window: &str, payload: &[u8]) -> Result<(), String> {
        let form: ResultForm =
            serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        let source = format!("window:{window}");
        check_head(form.v, (&form.gateway, gateway), (&form.source, &source))?;
        if form.window != window || form.seq == 0 {
            return Err(format!("{source} has a result {} of {}", form.seq, form.window));
        }
        check_time("start", &form.start)?;
        check_time("end", &form.end)?;
        self.results.entry((form.source, form.epoch)).or_default().take(form.seq, payload);
        Ok(())
    }

    fn gap(&mut self, gateway: &str, source: &str, payload: &[u8]) -> Result<(), String> {
        let form: GapForm = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        check_head(form.v, (&form.gateway, gateway), (&form.source, source))?;
        // Without an end it names everything from its start.
        let numbers = form.first_seq..=form.last_seq.unwrap_or(u64::MAX);
        if numbers.is_empty() {
            return Err("a gap that ends before it starts".to_owned());
        }
        let is_of_window = form.source.starts_with(WINDOW);
        let stretches = if is_of_window { &mut self.results } else { &mut self.stretches };
        stretches.entry((form.source, form.epoch)).or_default().gaps.push(numbers);
        Ok(())
    }
}

/// Payload and topic name the same.
fn check_head(v: u32, gateway: (&str, &str), source: (&str, &str)) -> Result<(), String> {
    if v != 1 {
        return Err(format!("v is {v}, not 1"));
    }
    for (what, (payload, topic)) in [("gateway", gateway), ("source", source)] {
        if payload != topic {
            return Err(format!("{what} is {payload} in the payload and {topic} in the topic"));
        }
    }
    Ok(())
}

/// RFC 3339, UTC, nine decimals.
fn check_time(key: &str, text: &str) -> Result<(), String> {
    const LENGTH: usize = "2026-11-30T12:00:00.000000000Z".len();
    let has_form = text.len() == LENGTH && text.ends_with('Z');
    if has_form && DateTime::parse_from_rfc3339(text).is_ok() {
        Ok(())
    } else {
        Err(format!("{key} is no RFC 3339 time in UTC with nine decimals: {text}"))
    }
}

#[cfg(test)]
pub(in crate::cli) mod tests {
    use super::*;

    /// A reading of `demo/plc` as the contract has it.
    pub(in crate::cli) fn reading(epoch: &str, seq: u64, value: u64) -> String {
        format!(
            r#"{{"v":1,"gateway":"demo","source":"plc","epoch":"{epoch}","seq":{seq},"entity":"plc-1","property":"parts","value":{value},"quality":"good","event_time":"2026-11-30T12:00:00.000000001Z","ingest_time":"2026-11-30T12:00:00.000000002Z","time":{{"origin":"device"}},"flags":[]}}"#
        )
    }

    fn take(topic: &str, payload: &str) -> Received {
        let mut received = Received::default();
        received.take(topic, payload.as_bytes());
        received
    }

    fn complaint(topic: &str, payload: &str) -> String {
        let received = take(topic, payload);
        assert_eq!((received.out_of_contract, received.distinct()), (1, 0));
        received.first_complaint.unwrap()
    }

    #[test]
    fn readings_and_gap_records_are_kept_by_name() {
        let mut received = take("tidegate/demo/readings/plc", &reading("1-a", 4, 7));
        received.take(
            "tidegate/demo/gaps/plc",
            br#"{"v":1,"gateway":"demo","source":"plc","epoch":"1-a","first_seq":2,"last_seq":3,"reason":"evicted"}"#,
        );
        received.take("tidegate/demo/status", br#"{"v":1}"#);
        received.take("tidegate/demo/clock", br#"{"v":1}"#);
        let stretch = &received.stretches[&("plc".to_owned(), "1-a".to_owned())];
        assert_eq!(stretch.copies.keys().collect::<Vec<_>>(), [&4]);
        assert_eq!(stretch.gaps, [2..=3]);
        assert_eq!((received.out_of_contract, received.side_messages), (0, 2));
    }

    #[test]
    fn results_and_late_readings_are_no_readings() {
        let result = r#"{"v":1,"gateway":"demo","source":"window:w","epoch":"1-a","seq":3,"window":"w","start":"2026-11-30T12:00:00.000000000Z","end":"2026-11-30T12:00:10.000000000Z","revision":1,"status":"final","coverage":{}}"#;
        let mut received = take("tidegate/demo/windows/w", result);
        received.take("tidegate/demo/windows/w", result.as_bytes());
        received.take("tidegate/demo/late/w", reading("1-a", 4, 7).as_bytes());
        let stretch = &received.results[&("window:w".to_owned(), "1-a".to_owned())];
        assert_eq!((stretch.delivered, stretch.copies.len()), (2, 1));
        let counts = (received.late, received.distinct(), received.out_of_contract);
        assert_eq!(counts, (1, 0, 0), "{:?}", received.first_complaint);
        let wrong = result.replace("window:w", "w");
        assert!(complaint("tidegate/demo/windows/w", &wrong).contains("source is w "));
        let wrong = result.replace("\"window\":\"w\"", "\"window\":\"x\"");
        assert!(complaint("tidegate/demo/windows/w", &wrong).contains("a result 3 of x"));
    }

    #[test]
    fn what_breaks_the_contract_is_said_with_its_topic() {
        let topic = "tidegate/demo/readings/plc";
        let good = reading("1-a", 4, 7);
        assert!(complaint(topic, "{").starts_with("tidegate/demo/readings/plc: EOF"));
        assert!(complaint(topic, &good.replace("\"seq\":4,", "")).contains("missing field `seq`"));
        assert!(complaint(topic, &good.replace("\"value\":7,", "")).contains("`value`"));
        assert!(complaint(topic, &good.replace("\"v\":1", "\"v\":2")).contains("v is 2"));
        assert!(complaint(topic, &good.replace("\"seq\":4", "\"seq\":0")).contains("seq is 0"));
        assert!(complaint(topic, &good.replace("000001Z", "1Z")).contains("event_time"));
        assert!(complaint("tidegate/demo/readings/other", &good).contains("source is plc"));
        assert!(complaint("tidegate/demo/noise", &good).contains("a topic"));
    }
}
