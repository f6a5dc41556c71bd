//! A simulated PLC. [`Plc`] says what it measures, from a seed and nothing else;
//! `run` paces it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::{Door, SourceMessage};
use crate::config::Simulate;
use crate::core::limits::SOURCE_BATCH_MAX;
use crate::core::reading::{DeviceTime, Flags, Quality, Reading, Series, Value};
use crate::core::seam::Batch;
use crate::core::time::Span;

/// Readings are made at most so often; faster rates make several at once.
const TICK: Duration = Duration::from_millis(10);

/// One thing that the PLC says.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its number, from 1; a repeat has the number of what it repeats.
    pub number: u64,
    /// What was measured.
    pub series: Arc<Series>,
    /// The value.
    pub value: Value,
    /// How long before it was sent it happened.
    pub age: Span,
    /// Whether it is the one before, sent again.
    pub is_repeat: bool,
}

/// One machine.
#[derive(Clone, Debug)]
struct Machine {
    series: [Arc<Series>; 4],
    pressure_tenths: i64,
    temperature_tenths: i64,
    parts: i64,
    is_running: bool,
}

/// The generator: the same seed gives the same samples on every machine.
#[derive(Clone, Debug)]
pub struct Plc {
    random: Random,
    machines: Vec<Machine>,
    disorder: Span,
    repeat: f64,
    number: u64,
    last: Option<Sample>,
}

impl Plc {
    /// A PLC with `entities` machines. `disorder` is the greatest age of a
    /// sample, `repeat` the share of samples that come twice.
    pub fn new(seed: u64, entities: usize, disorder: Span, repeat: f64) -> Self {
        let machine = |index: usize| {
            let entity = format!("plc-{}", index + 1);
            let series = |property: &str, unit: Option<&str>| {
                Arc::new(Series {
                    entity: entity.as_str().into(),
                    property: property.into(),
                    unit: unit.map(Box::from),
                })
            };
            Machine {
                series: [
                    series("pressure_kpa", Some("kPa")),
                    series("temp_c", Some("Cel")),
                    series("parts", None),
                    series("running", None),
                ],
                pressure_tenths: 4_125,
                temperature_tenths: 331,
                parts: 0,
                is_running: true,
            }
        };
        Self {
            random: Random(seed),
            machines: (0..entities.max(1)).map(machine).collect(),
            disorder,
            repeat,
            number: 0,
            last: None,
        }
    }

    /// The next sample.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends: an iterator would only hide that"
    )]
    pub fn next(&mut self) -> Sample {
        if let Some(last) = self.last.take().filter(|_| self.random.share() < self.repeat) {
            return Sample { is_repeat: true, ..last };
        }
        let position = self.number as usize;
        self.number += 1;
        let count = self.machines.len();
        let machine = &mut self.machines[position / 4 % count];
        let property = position % 4;
        let value = machine.measure(property, &mut self.random);
        let age = match self.disorder.ns() {
            ..=0 => Span::ZERO,
            most => Span::from_ns(self.random.below(most.unsigned_abs() + 1) as i64),
        };
        let series = Arc::clone(&machine.series[property]);
        let sample = Sample { number: self.number, series, value, age, is_repeat: false };
        self.last = Some(sample.clone());
        sample
    }
}

impl Machine {
    fn measure(&mut self, property: usize, random: &mut Random) -> Value {
        match property {
            0 => {
                let aim = if self.is_running { 4_125 } else { 1_013 };
                self.pressure_tenths = walk(self.pressure_tenths, aim, 40, random);
                Value::F64(self.pressure_tenths as f64 / 10.0)
            }
            1 => {
                let aim = if self.is_running { 331 } else { 214 };
                self.temperature_tenths = walk(self.temperature_tenths, aim, 4, random);
                Value::F64(self.temperature_tenths as f64 / 10.0)
            }
            2 => {
                self.parts += i64::from(self.is_running) * random.below(3) as i64;
                Value::I64(self.parts)
            }
            _ => {
                if random.below(50) == 0 {
                    self.is_running = !self.is_running;
                }
                Value::Bool(self.is_running)
            }
        }
    }
}

/// A step of at most `step`, drawn towards `aim`. In tenths: exact everywhere.
fn walk(from: i64, aim: i64, step: i64, random: &mut Random) -> i64 {
    let noise = random.below(2 * step.unsigned_abs() + 1) as i64 - step;
    from + noise + (aim - from) / 16
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators").
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        // The bias of a remainder is far below what a plausible signal needs.
        self.draw() % bound
    }

    /// Between 0 and 1, 1 excluded.
    fn share(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Whether the PLC is silent when `elapsed` has passed since its start. An outage is at
/// the end of each period, so a fresh start speaks first.
fn is_silent(plc: &Simulate, elapsed: Duration) -> bool {
    if plc.outage_for.is_zero() || plc.outage_every.is_zero() {
        return false;
    }
    let within = elapsed.as_nanos() % plc.outage_every.as_nanos();
    within >= (plc.outage_every - plc.outage_for).as_nanos()
}

/// Paces a PLC until it is stopped or has sent its count, repeats included.
pub(super) async fn run(plc: Simulate, mut door: Door) {
    door.health.up();
    let _connected = door.health.connect();
    let mut generator = Plc::new(plc.seed, plc.entities, Span::from_std(plc.disorder), plc.repeat);
    let tick = TICK.max(Duration::from_secs_f64(1.0 / plc.rate));
    let mut ticks = interval(tick);
    // A rate is a rate: what a slow driver delayed is made up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut elapsed = Duration::ZERO;
    let (mut due, mut sent) = (1.0_f64, 0_u64);
    let mut last = None;
    loop {
        tokio::select! {
            biased;
            () = door.stopped() => return,
            _ = ticks.tick() => {}
        }
        let now = elapsed;
        elapsed += tick;
        let count = due as u64;
        due = due.fract() + tick.as_secs_f64() * plc.rate;
        if is_silent(&plc, now) {
            continue;
        }
        let left = if plc.count == 0 { u64::MAX } else { plc.count - sent };
        let mut rest = count.min(left);
        while rest > 0 {
            let batch = rest.min(SOURCE_BATCH_MAX as u64);
            if !send(&mut generator, batch, &mut last, &door).await {
                return;
            }
            rest -= batch;
        }
        sent += count.min(left);
        if plc.count != 0 && sent >= plc.count {
            return;
        }
    }
}

/// Sends the next samples as one batch; false when nobody takes it.
async fn send(plc: &mut Plc, count: u64, last: &mut Option<Reading>, door: &Door) -> bool {
    let arrival = (door.clock)();
    let mut readings = Vec::new();
    for _ in 0..count {
        let sample = plc.next();
        let reading = match last.take().filter(|_| sample.is_repeat) {
            Some(reading) => reading,
            None => Reading {
                series: sample.series,
                value: sample.value,
                quality: Quality::Good,
                quality_detail: None,
                device_time: Some(DeviceTime {
                    at: arrival.ingest.as_event_time() - sample.age,
                    utc_offset_s: None,
                    flags: Flags::NONE,
                }),
                id: Some(Arc::from(sample.number.to_string())),
                flags: Flags::NONE,
            },
        };
        *last = Some(reading.clone());
        readings.push(reading);
    }
    door.health.note_lines(count, 0);
    let source = door.name.clone();
    let batch =
        Batch { source, arrival, readings, refused: Vec::new(), advance: None, receipt: None };
    door.out.send(SourceMessage { batch, receipt: None }).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_random_numbers_are_those_of_the_published_generator() {
        let mut random = Random(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.draw()).collect();
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(drawn, expected);
    }

    #[test]
    fn an_outage_ends_each_period() {
        let plc = Simulate {
            seed: 1,
            rate: 1.0,
            count: 0,
            entities: 1,
            disorder: Duration::ZERO,
            repeat: 0.0,
            outage_every: Duration::from_secs(60),
            outage_for: Duration::from_secs(15),
        };
        let silent: Vec<u64> =
            (0..130).filter(|s| is_silent(&plc, Duration::from_secs(*s))).collect();
        assert_eq!(silent, (45..60).chain(105..120).collect::<Vec<u64>>());
        let steady = Simulate { outage_for: Duration::ZERO, ..plc };
        assert!((0..130).all(|s| !is_silent(&steady, Duration::from_secs(s))));
    }

    #[test]
    fn counters_only_grow_and_signals_stay_plausible() {
        let mut plc = Plc::new(3, 1, Span::ZERO, 0.0);
        let mut parts = 0;
        for _ in 0..20_000 {
            match plc.next().value {
                Value::I64(next) => {
                    assert!((parts..parts + 3).contains(&next));
                    parts = next;
                }
                Value::F64(value) => assert!((0.0..600.0).contains(&value), "{value}"),
                Value::Bool(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(parts > 1_000);
    }
}
