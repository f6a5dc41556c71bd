//! One device: asked at its slots, left alone for a while when it does not answer.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::codec::{Decoded, decode};
use super::frame::Request;
use super::link::{Fault, Link};
use super::part::{self, Part};
use super::plan::Block;
use super::schedule::Schedule;
use super::told::Told;
use crate::config::{Modbus, Source};
use crate::core::backoff;
use crate::core::limits::SOURCE_BATCH_MAX;
use crate::core::reading::{Arrival, Reading};
use crate::core::seam::Batch;
use crate::core::time::{Span, Uptime};
use crate::source::health::Connected;
use crate::source::{Door, SourceMessage};

/// Devices of a long period are asked at once after a start, give or take this.
const START_WITHIN: Duration = Duration::from_secs(1);
/// What does not answer, a device or a block, is tried this often at least, or at each poll if
/// that is rarer.
const REST_MAX: Duration = Duration::from_secs(30);
/// Blocks without an answer, one after the other, before a device that did answer
/// counts as silent. One that was silent is asked for one block only.
const SILENCES_MAX: usize = 3;

/// Asks until the source is stopped.
pub(super) async fn poll_until_stopped(modbus: Modbus, source: Source, mut door: Door) {
    let mut device = Device::new(modbus, &source, door.clone());
    // A thousand devices that start together are not asked in one breath.
    let first = part_of(device.modbus.poll.min(START_WITHIN), draw());
    let mut schedule = Schedule::new(device.modbus.poll, first);
    let start = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = door.stopped() => return,
            () = sleep_until(start + schedule.next()) => {}
        }
        // Dropped in the middle: the line knows that an answer may still come.
        let is_taken = tokio::select! {
            biased;
            () = door.stopped() => return,
            is_taken = device.poll() => is_taken,
        };
        if !is_taken {
            return;
        }
        door.health.note_missed(schedule.advance(start.elapsed()));
    }
}

/// A random number; 0 where there is none to be had.
fn draw() -> u64 {
    getrandom::u64().unwrap_or(0)
}

fn part_of(whole: Duration, draw: u64) -> Duration {
    whole.mul_f64((draw >> 11) as f64 / (1_u64 << 53) as f64)
}

/// Nobody takes readings any more.
struct Abandoned;

/// How a poll went.
#[derive(Default)]
struct Round {
    /// The device answered something.
    is_alive: bool,
    /// The blocks it did not answer, by place, and why.
    silent: Vec<(usize, Fault)>,
    /// The line was lost, and before which block.
    lost: Option<(usize, Fault)>,
}

struct Device {
    modbus: Modbus,
    door: Door,
    link: Link,
    parts: Vec<Part>,
    told: Vec<Told>,
    connected: Option<Connected>,
    /// Polls without an answer, one after the other.
    failures: u32,
    /// Not asked before.
    rests_until: Uptime,
}

impl Device {
    fn new(modbus: Modbus, source: &Source, door: Door) -> Self {
        let entity = source.entity.as_deref();
        Self {
            link: Link::new(&modbus.line, modbus.timeout),
            parts: Part::all(&modbus),
            told: modbus.registers.iter().map(|one| Told::new(one, entity)).collect(),
            modbus,
            door,
            connected: None,
            failures: 0,
            rests_until: Uptime::default(),
        }
    }

    /// Asks for all registers once. False when nobody takes readings any more.
    async fn poll(&mut self) -> bool {
        if (self.door.clock)().uptime < self.rests_until {
            return true;
        }
        self.ask_and_conclude().await.is_ok()
    }

    async fn ask_and_conclude(&mut self) -> Result<(), Abandoned> {
        let Round { is_alive, mut silent, lost } = self.ask_for_all().await?;
        if is_alive {
            for (at, fault) in &silent {
                self.door.health.note_error(fault.for_some());
                self.give_up(*at..at + 1, &fault.for_some()).await?;
            }
        }
        match lost {
            Some((at, fault)) if is_alive => return self.fail(&fault, at).await,
            Some((_, fault)) => {
                self.fail(&fault, 0).await?;
                // The device may come back as another one, one that refuses less.
                self.parts = Part::all(&self.modbus);
                return Ok(());
            }
            None if !is_alive => {
                let Some((_, fault)) = silent.pop() else { return Ok(()) };
                return self.fail(&fault, 0).await;
            }
            None => self.failures = 0,
        }
        // The last first: halves move the places of what comes after them.
        for (at, _) in silent.into_iter().rev() {
            if let Some(halves) = self.parts[at].halves_of_silent(&self.modbus.registers) {
                self.parts.splice(at..=at, halves);
            }
        }
        self.tell_health();
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), Fault> {
        if self.link.is_connected() {
            return Ok(());
        }
        self.connected = None;
        self.link.connect().await?;
        self.connected = Some(self.door.health.connect());
        Ok(())
    }

    /// Asks for all that is due, until the line or the device turns out to be gone.
    async fn ask_for_all(&mut self) -> Result<Round, Abandoned> {
        let now = (self.door.clock)().uptime;
        let was_down = self.failures > 0;
        let silences_max = if was_down { 1 } else { SILENCES_MAX };
        let mut round = Round::default();
        part::sort(&mut self.parts);
        let mut at = 0;
        while at < self.parts.len() {
            // What rests was silent of itself, or only because all was.
            if !was_down && !self.parts[at].is_due(now) {
                at += 1;
                continue;
            }
            match self.ask(at).await {
                Ok((data, arrival)) => {
                    round.is_alive = true;
                    self.parts[at].note_answer();
                    self.take(at, &data, arrival).await?;
                    at += 1;
                }
                Err(Fault::Exception(exception)) if !exception.is_unreachable() => {
                    round.is_alive = true;
                    self.parts[at].note_answer();
                    let halves = self.parts[at].block.halves(&self.modbus.registers);
                    match halves.filter(|_| exception.is_about_the_place()) {
                        // Asked for at once, and in this way from now on.
                        Some(halves) => drop(self.parts.splice(at..=at, halves.map(Part::new))),
                        None => {
                            self.door.health.note_error(exception.to_string());
                            self.give_up(at..at + 1, &exception.to_string()).await?;
                            at += 1;
                        }
                    }
                }
                Err(fault) if fault.is_of_the_line() => {
                    round.lost = Some((at, fault));
                    break;
                }
                Err(fault) => {
                    let rests_until = self.rest(self.parts[at].silences());
                    self.parts[at].note_silence(rests_until);
                    round.silent.push((at, fault));
                    if !round.is_alive && round.silent.len() >= silences_max {
                        break;
                    }
                    at += 1;
                }
            }
        }
        Ok(round)
    }

    /// One block: its bytes, and when they came.
    async fn ask(&mut self, at: usize) -> Result<(Vec<u8>, Arrival), Fault> {
        self.connect().await?;
        let Block { table, address, count, .. } = self.parts[at].block;
        let request = Request { unit: self.modbus.unit_id, table, address, count };
        let clock = &self.door.clock;
        let mut asked = clock().uptime;
        let data = self.link.ask(request, || asked = clock().uptime).await?;
        let arrival = clock();
        let round_trip_ns = arrival.uptime.since_ns(asked);
        let half_round_trip = Span::from_ns(i64::try_from(round_trip_ns / 2).unwrap_or(i64::MAX));
        Ok((data, Arrival { half_round_trip, ..arrival }))
    }

    async fn take(&mut self, at: usize, data: &[u8], arrival: Arrival) -> Result<(), Abandoned> {
        let block = &self.parts[at].block;
        let mut readings = Vec::with_capacity(block.members.len());
        for member in &block.members {
            let register = &self.modbus.registers[*member];
            let decoded = decode(register, &block.bytes_of(register, data));
            readings.extend(self.told[*member].say(decoded, arrival.uptime));
        }
        self.send(readings, arrival).await
    }

    /// Says of all registers of some blocks why they have no value.
    async fn give_up(&mut self, parts: std::ops::Range<usize>, why: &str) -> Result<(), Abandoned> {
        let arrival = (self.door.clock)();
        let mut readings = Vec::new();
        for member in self.parts[parts].iter().flat_map(|part| &part.block.members) {
            let none = Decoded::bad(why.to_owned());
            readings.extend(self.told[*member].say(none, arrival.uptime));
        }
        self.send(readings, arrival).await
    }

    /// Nothing answers any more: from this block on there are no values, and the
    /// device rests.
    async fn fail(&mut self, fault: &Fault, from: usize) -> Result<(), Abandoned> {
        let why = fault.to_string();
        if !self.link.is_connected() {
            self.connected = None;
        }
        self.rests_until = self.rest(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.door.health.note_error(why.clone());
        self.door.health.down(why.clone(), Some(self.rests_until));
        self.give_up(from..self.parts.len(), &why).await
    }

    /// Until when to rest after so many failures and one more.
    fn rest(&self, failures: u32) -> Uptime {
        let least = self.modbus.timeout.max(self.modbus.poll);
        let most = REST_MAX.max(least);
        let rest = backoff::delay(failures, Span::from_std(least), Span::from_std(most), draw());
        // A slot that comes a breath before the end of the rest is as good as one
        // right after it.
        let grain = self.modbus.poll.min(Duration::from_millis(100)) / 10;
        let rest_ns = rest.to_std().saturating_sub(grain).as_nanos() as u64;
        let now = (self.door.clock)().uptime;
        Uptime::from_ns(now.ns().saturating_add(rest_ns))
    }

    fn tell_health(&self) {
        let troubled: Vec<&Told> =
            self.told.iter().filter(|told| told.trouble().is_some()).collect();
        let Some(what) = troubled.first().and_then(|told| told.trouble()) else {
            return self.door.health.up();
        };
        let (count, all) = (troubled.len(), self.told.len());
        let retry_at = self.parts.iter().filter_map(Part::retry_at).min();
        self.door
            .health
            .degraded(format!("{count} of {all} registers have no value: {what}"), retry_at);
    }

    async fn send(&self, readings: Vec<Reading>, arrival: Arrival) -> Result<(), Abandoned> {
        self.door.health.note_lines(readings.len() as u64, 0);
        let mut rest = readings.into_iter().peekable();
        while rest.peek().is_some() {
            let readings = rest.by_ref().take(SOURCE_BATCH_MAX).collect();
            let source = self.door.name.clone();
            let batch = Batch {
                source,
                arrival,
                readings,
                refused: Vec::new(),
                advance: None,
                receipt: None,
            };
            let message = SourceMessage { batch, receipt: None };
            self.door.out.send(message).await.map_err(|_| Abandoned)?;
        }
        Ok(())
    }
}
