//! A simulated PLC: the same seed gives the same readings.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Door;
use crate::config::Simulate;
use crate::core::id::SourceId;
use crate::core::limits::SOURCE_BATCH_MAX;
use crate::core::reading::{Arrival, DeviceTime, Flags, Quality, Reading, Series, Value};
use crate::core::seam::Batch;
use crate::core::time::EventTime;

/// How often the PLC reports what has become due.
const TICK: Duration = Duration::from_millis(20);

/// The generator, without pacing.
#[derive(Clone, Debug)]
pub struct Plc {
    settings: Simulate,
    series: Vec<[Arc<Series>; 3]>,
    state: u64,
    made: u64,
    again: Option<Reading>,
}

impl Plc {
    /// A PLC that will produce what its seed says.
    pub fn new(settings: &Simulate) -> Self {
        let entity = |number: usize| {
            let entity = format!("press-{number}");
            let series = |property: &str, unit: Option<&str>| {
                Arc::new(Series {
                    entity: entity.as_str().into(),
                    property: property.into(),
                    unit: unit.map(Into::into),
                })
            };
            [series("pressure", Some("kPa")), series("strokes", None), series("running", None)]
        };
        Self {
            settings: settings.clone(),
            series: (1..=settings.entities.max(1)).map(entity).collect(),
            state: settings.seed,
            made: 0,
            again: None,
        }
    }

    /// Whether `count` readings have been made.
    pub fn is_finished(&self) -> bool {
        self.settings.count > 0 && self.made >= self.settings.count
    }

    /// The next reading, seen by the PLC at `arrival`.
    pub fn next(&mut self, arrival: &Arrival) -> Reading {
        self.made += 1;
        if let Some(again) = self.again.take() {
            return again;
        }
        let step = self.made;
        let draw = self.draw();
        let machine = (step % self.series.len() as u64) as usize;
        let signal = (step / self.series.len() as u64 % 3) as usize;
        let value = match signal {
            0 => Value::F64(wave(step, draw)),
            1 => Value::I64((step / 3) as i64),
            _ => Value::Bool(step / 97 % 5 != 0),
        };
        let reading = Reading {
            series: self.series[machine][signal].clone(),
            value,
            quality: Quality::Good,
            quality_detail: None,
            device_time: Some(self.stamp(arrival)),
            id: None,
        };
        let share = (self.draw() >> 11) as f64 / (1_u64 << 53) as f64;
        if share < self.settings.repeat {
            self.again = Some(reading.clone());
        }
        reading
    }

    fn stamp(&mut self, arrival: &Arrival) -> DeviceTime {
        let disorder_ns = self.settings.disorder.as_nanos().min(i64::MAX as u128) as u64;
        let back_ns = self.draw() % (disorder_ns + 1);
        let at = EventTime::from_unix_ns(arrival.ingest.unix_ns().saturating_sub(back_ns as i64));
        DeviceTime { at, utc_offset_s: None, flags: Flags::NONE }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// A pressure around 400 kPa that swings with the strokes, two decimals.
fn wave(step: u64, draw: u64) -> f64 {
    let phase = (step % 600) as f64 / 600.0 * std::f64::consts::TAU;
    let noise = (draw % 100) as f64 / 100.0;
    ((400.0 + 12.0 * phase.sin() + noise) * 100.0).round() / 100.0
}

/// Runs the PLC at its rate until it has finished or must stop.
pub(super) async fn run(name: String, settings: Simulate, mut door: Door) {
    let source = SourceId::new(&name);
    let mut plc = Plc::new(&settings);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let started = Instant::now();
    let mut made = 0_u64;
    while !plc.is_finished() {
        tokio::select! {
            _ = ticks.tick() => {}
            () = door.stopped() => return,
        }
        let elapsed = started.elapsed();
        let due = (elapsed.as_secs_f64() * settings.rate) as u64;
        if is_silent(&settings, elapsed) {
            // A PLC that is switched off makes nothing up for it.
            made = due;
            continue;
        }
        while made < due && !plc.is_finished() {
            let arrival = (door.clock)();
            let mut readings = Vec::new();
            while made < due && readings.len() < SOURCE_BATCH_MAX && !plc.is_finished() {
                readings.push(plc.next(&arrival));
                made += 1;
            }
            let source = source.clone();
            let batch = Batch { source, arrival, readings, refused: Vec::new(), receipt: None };
            if !door.hand_in(batch).await {
                return;
            }
        }
    }
}

fn is_silent(settings: &Simulate, elapsed: Duration) -> bool {
    let every = settings.outage_every.as_nanos();
    // The first stretch is always one with readings.
    every > 0 && elapsed.as_nanos() >= every && elapsed.as_nanos() % every < settings.outage_for.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::time::{IngestTime, MonoTime};

    #[test]
    fn one_seed_one_plc() {
        let settings = Simulate {
            seed: 7,
            rate: 10.0,
            count: 500,
            entities: 2,
            disorder: Duration::from_secs(2),
            repeat: 0.1,
            outage_every: Duration::ZERO,
            outage_for: Duration::ZERO,
        };
        let arrival =
            Arrival { ingest: IngestTime::from_unix_ns(1 << 60), uptime: MonoTime::from_ns(0) };
        let make = |seed| {
            let mut plc = Plc::new(&Simulate { seed, ..settings.clone() });
            (0..500).map(|_| plc.next(&arrival)).collect::<Vec<_>>()
        };
        let readings = make(7);
        assert_eq!(readings, make(7));
        assert_ne!(readings, make(8));
        let repeats = readings.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!((20..100).contains(&repeats), "{repeats} repeats of 500 at a share of 0.1");
        let disorder = readings.iter().filter_map(|reading| reading.device_time).map(|t| t.at);
        let earliest = disorder.min().unwrap();
        assert!(earliest.unix_ns() < (1 << 60) && earliest.unix_ns() >= (1 << 60) - 2_000_000_000);
    }
}
