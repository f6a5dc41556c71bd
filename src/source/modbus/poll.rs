//! One device: asked at its slots, left alone for a while when it does not answer.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::codec::{Decoded, decode};
use super::frame::Request;
use super::link::{Fault, Link};
use super::plan::{Block, plan};
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
/// A device that does not answer is tried this often at least, or at each poll if
/// that is rarer.
const REST_MAX: Duration = Duration::from_secs(30);

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
        // Dropped in the middle, at worst an answer finds nobody.
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

struct Device {
    modbus: Modbus,
    door: Door,
    link: Link,
    blocks: Vec<Block>,
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
            blocks: plan(&modbus),
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
        let result = match self.connect().await {
            Ok(()) => self.ask_for_all().await,
            Err(fault) => self.fail(&fault, 0).await,
        };
        result.is_ok()
    }

    async fn connect(&mut self) -> Result<(), Fault> {
        if self.link.is_connected() {
            return Ok(());
        }
        self.connected = None;
        self.link.connect().await?;
        self.connected = Some(self.door.health.connect());
        // Another device may stand there now, one that refuses less.
        self.blocks = plan(&self.modbus);
        Ok(())
    }

    async fn ask_for_all(&mut self) -> Result<(), Abandoned> {
        let mut at = 0;
        while at < self.blocks.len() {
            match self.ask(at).await {
                Ok((data, arrival)) => {
                    self.take(at, &data, arrival).await?;
                    at += 1;
                }
                Err(Fault::Exception(exception)) if !exception.is_unreachable() => {
                    let halves = self.blocks[at].halves(&self.modbus.registers);
                    match halves.filter(|_| exception.is_about_the_place()) {
                        // Asked for at once, and in this way from now on.
                        Some(halves) => drop(self.blocks.splice(at..=at, halves)),
                        None => {
                            self.door.health.note_error(exception.to_string());
                            self.give_up(at..at + 1, &exception.to_string()).await?;
                            at += 1;
                        }
                    }
                }
                Err(fault) => return self.fail(&fault, at).await,
            }
        }
        self.failures = 0;
        self.tell_health();
        Ok(())
    }

    /// One block: its bytes, and when they came.
    async fn ask(&mut self, at: usize) -> Result<(Vec<u8>, Arrival), Fault> {
        let Block { table, address, count, .. } = self.blocks[at];
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
        let block = &self.blocks[at];
        let mut readings = Vec::with_capacity(block.members.len());
        for member in &block.members {
            let register = &self.modbus.registers[*member];
            let decoded = decode(register, &block.bytes_of(register, data));
            readings.extend(self.told[*member].say(decoded, arrival.uptime));
        }
        self.send(readings, arrival).await
    }

    /// Says of all registers of some blocks why they have no value.
    async fn give_up(
        &mut self,
        blocks: std::ops::Range<usize>,
        why: &str,
    ) -> Result<(), Abandoned> {
        let arrival = (self.door.clock)();
        let mut readings = Vec::new();
        for member in self.blocks[blocks].iter().flat_map(|block| &block.members) {
            let none = Decoded::bad(why.to_owned());
            readings.extend(self.told[*member].say(none, arrival.uptime));
        }
        self.send(readings, arrival).await
    }

    /// The device does not answer: the rest of this poll, from this block on, has
    /// no values, and the device rests.
    async fn fail(&mut self, fault: &Fault, from: usize) -> Result<(), Abandoned> {
        let why = fault.to_string();
        if !self.link.is_connected() {
            self.connected = None;
        }
        // An answer that is late by up to the timeout is over by then: on a serial
        // line nothing else tells it from the next one.
        let least = self.modbus.timeout.max(self.modbus.poll);
        let most = REST_MAX.max(least);
        let rest =
            backoff::delay(self.failures, Span::from_std(least), Span::from_std(most), draw());
        self.failures = self.failures.saturating_add(1);
        let now = (self.door.clock)().uptime;
        // A slot that comes a breath before the end of the rest is as good as one
        // right after it.
        let grain = self.modbus.poll.min(Duration::from_millis(100)) / 10;
        let rest_ns = rest.to_std().saturating_sub(grain).as_nanos() as u64;
        self.rests_until = Uptime::from_ns(now.ns().saturating_add(rest_ns));
        self.door.health.note_error(why.clone());
        self.door.health.down(why.clone(), Some(self.rests_until));
        self.give_up(from..self.blocks.len(), &why).await
    }

    fn tell_health(&self) {
        let troubled: Vec<&Told> =
            self.told.iter().filter(|told| told.trouble().is_some()).collect();
        let Some(what) = troubled.first().and_then(|told| told.trouble()) else {
            return self.door.health.up();
        };
        let (count, all) = (troubled.len(), self.told.len());
        self.door
            .health
            .degraded(format!("{count} of {all} registers have no value: {what}"), None);
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
