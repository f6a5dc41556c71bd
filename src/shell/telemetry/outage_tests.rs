//! An outage of an hour, told by the real core under a virtual clock: what the log
//! says, line by line.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::core::agent::Agent;
use crate::core::clock::BootFacts;
use crate::core::id::{Offset, UplinkId};
use crate::core::reading::{Arrival, Entry, Flags, Quality, Reading, Refusal, Series, Value};
use crate::core::seam::{
    Batch, DiskFacts, DownCause, Effect, Fetch, Fetched, Input, LinkCommand, LinkEvent, LinkTerms,
    Now, Recovered, StoreEvent,
};
use crate::core::settings::{Settings, SourceSettings};
use crate::core::time::IngestTime;
use crate::golden;
use crate::shell::log_line::heard;
use crate::source::health::{HealthState, HealthView};

const SECOND: u64 = 1_000_000_000;
const UTC_S: i64 = 1_796_000_000;
const HOUR: u64 = 3_600;
/// A large one.
const DISK: DiskFacts = DiskFacts { used_bytes: 0, free_bytes: 1 << 40, written_bytes: 0 };

/// How the broker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broker {
    Well,
    Refuses,
    /// Takes connections and acknowledges nothing.
    HalfOpen,
}

/// An agent and what is around it. Ten readings and five bad lines come a second, and
/// one Modbus device is dead.
struct Site {
    agent: Agent,
    telemetry: Telemetry,
    broker: Broker,
    journal: Vec<Entry>,
    second: u64,
    draw: u64,
    /// When each line was said, and the line.
    said: Vec<(u64, String)>,
}

impl Site {
    fn new() -> Self {
        let source = (SourceId::new("press"), SourceSettings::DEFAULT);
        let settings = Settings::for_tests([source].into());
        let (mut effects, facts) = (Vec::new(), BootFacts::default());
        let recovered = Recovered { disk: DISK, ..Recovered::default() };
        let agent = Agent::new(settings, recovered, facts, 7, &now(0), &mut effects);
        let metrics = Arc::new(Metrics::new(vec!["main".to_owned()]));
        let telemetry = Telemetry::new(metrics, vec!["main".to_owned()]);
        let (broker, journal, said) = (Broker::Well, Vec::new(), Vec::new());
        let mut site = Self { agent, telemetry, broker, journal, second: 0, draw: 1, said };
        let lines = heard::during(|| site.carry_out(effects));
        site.note(lines.iter().map(|line| line.to_text()));
        site
    }

    /// Until that second, under such a broker.
    fn run(&mut self, broker: Broker, until: u64) {
        self.broker = broker;
        while self.second < until {
            self.second += 1;
            let lines = heard::during(|| self.pass_second());
            self.note(lines.iter().map(|line| line.to_text()));
        }
    }

    fn note(&mut self, lines: impl Iterator<Item = String>) {
        self.said.extend(lines.map(|line| (self.second, line)));
    }

    fn pass_second(&mut self) {
        let mut effects = Vec::new();
        let now = now(self.second);
        self.agent.handle(&now, Input::Readings(batch(&now)), &mut effects);
        self.agent.end_turn(&now, &mut effects);
        self.carry_out(effects);
        let mut effects = Vec::new();
        // What was taken in has waited for its commit for a millisecond.
        self.agent.end_turn(&later(&now), &mut effects);
        self.carry_out(effects);
        let detail = Some("10.0.0.10:502 does not answer".to_owned());
        let dead = HealthView { state: HealthState::Down, detail, ..HealthView::default() };
        self.telemetry.health(&[(SourceId::new("meter"), dead)], now.mono);
        self.telemetry.sweep(now.mono);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut effects = std::collections::VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            let now = later(&now(self.second));
            let input = match effect {
                Effect::Notice(notice) => {
                    self.telemetry.take(notice, now.mono);
                    continue;
                }
                Effect::Commit(commit) => {
                    self.journal.extend(commit.entries.iter().cloned());
                    let (id, disk) = (commit.id, DISK);
                    Input::Store(StoreEvent::Committed { id, segments: Vec::new(), disk })
                }
                Effect::Fetch(fetch) => Input::Store(StoreEvent::Fetched(self.fetched(&fetch))),
                Effect::Link(uplink, command) => match self.answer(command) {
                    Some(event) => Input::Link(uplink, event),
                    None => continue,
                },
                _ => continue,
            };
            let mut more = Vec::new();
            self.agent.handle(&now, input, &mut more);
            self.agent.end_turn(&now, &mut more);
            effects.extend(more);
        }
    }

    fn fetched(&self, fetch: &Fetch) -> Fetched {
        let from = fetch.from.0 as usize;
        let end = (from + fetch.entries_max).min(self.journal.len());
        let entries = (from..end).map(|at| (Offset(at as u64), self.journal[at].clone())).collect();
        let (purpose, next) = (fetch.purpose, Offset(end as u64));
        Fetched { purpose, from: fetch.from, entries, next, damaged: Vec::new() }
    }

    fn answer(&mut self, command: LinkCommand) -> Option<LinkEvent> {
        match (command, self.broker) {
            (LinkCommand::Connect { .. }, Broker::Refuses) => {
                Some(self.down("connection refused", DownCause::Network))
            }
            (LinkCommand::Connect { .. }, _) => Some(LinkEvent::Up(LinkTerms {
                receive_max: 65_535,
                payload_max: None,
                session_present: true,
                frontiers: Vec::new(),
            })),
            (LinkCommand::Disconnect, _) => Some(self.down("asked for", DownCause::Asked)),
            (LinkCommand::Publish(publish), Broker::Well) => {
                Some(LinkEvent::Puback { id: publish.id, code: 0 })
            }
            (LinkCommand::Publish(_), _) => None,
        }
    }

    fn down(&mut self, reason: &str, cause: DownCause) -> LinkEvent {
        // Any numbers that are spread well, and always the same.
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        LinkEvent::Down { reason: reason.to_owned(), cause, draw: self.draw }
    }

    fn cut(&mut self, reason: &str) {
        let event = self.down(reason, DownCause::Network);
        let lines = heard::during(|| {
            let (now, mut effects) = (later(&now(self.second)), Vec::new());
            self.agent.handle(&now, Input::Link(UplinkId(0), event), &mut effects);
            self.carry_out(effects);
        });
        self.note(lines.iter().map(|line| line.to_text()));
    }
}

fn at(mono_ns: u64) -> Now {
    Now {
        mono: MonoTime::from_ns(mono_ns),
        wall: IngestTime::from_unix_ns(UTC_S * SECOND as i64 + mono_ns as i64),
        raw_ns: mono_ns,
        suspended_ns: 0,
        span_ns: 0,
    }
}

fn now(second: u64) -> Now {
    at(second * SECOND)
}

fn later(now: &Now) -> Now {
    at(now.mono.ns() + 2_000_000)
}

fn batch(now: &Now) -> Batch {
    let series = Series { entity: "pump-7".into(), property: "p".into(), unit: None };
    let reading = Reading {
        series: Arc::new(series),
        value: Value::I64(1),
        quality: Quality::Good,
        quality_detail: None,
        device_time: None,
        id: None,
        flags: Flags::NONE,
    };
    let source = SourceId::new("press");
    let refusal = Refusal {
        source: source.clone(),
        at: now.wall,
        kind: "syntax",
        reason: "line 7: expected a value".to_owned(),
        content: b"{".to_vec(),
        length: 1,
        reading: None,
    };
    let arrival = Arrival { ingest: now.wall, uptime: now.uptime(), half_round_trip: Span::ZERO };
    let (readings, refused) = (vec![reading; 10], vec![refusal; 5]);
    Batch { source, arrival, readings, refused, advance: None, receipt: None }
}

/// The words of a line, without what changes from one to the next.
fn kind(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.contains('=')).collect();
    let cause = line.split(' ').filter(|word| {
        ["cause=", "uplink=", "source=", "what="].iter().any(|name| word.starts_with(name))
    });
    words.into_iter().chain(cause).collect::<Vec<_>>().join(" ")
}

#[test]
fn o_04_an_hour_of_outage_is_a_line_a_minute_for_each_cause_and_no_more() {
    let mut site = Site::new();
    site.run(Broker::Well, 60);
    site.cut("connection reset by peer");
    site.run(Broker::Refuses, 60 + HOUR / 2);
    site.run(Broker::HalfOpen, 60 + HOUR);
    site.run(Broker::Well, 60 + HOUR + 300);
    let mut last = BTreeMap::new();
    for (at, line) in &site.said {
        if let Some(before) = last.insert(kind(line), *at) {
            assert!(at - before >= 59, "{before}, {at}: {line}");
        }
    }
    // Each with its time and level.
    let bytes: usize = site.said.iter().map(|(_, line)| line.len() + 32).sum();
    assert!(site.said.len() <= 300 && bytes <= 100_000, "{} lines, {bytes}", site.said.len());
    let said = site.said.iter().map(|(at, line)| format!("{at} {line}\n")).collect::<String>();
    golden::check("outage.txt", &said);
}
