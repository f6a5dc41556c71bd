//! A modelled source: counts up, keeps what has no receipt, sends it again
//! after a crash, as a reader with acknowledgements does.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate::core::id::{ReceiptId, SourceId};
use tidegate::core::reading::{
    Arrival, DeviceTime, Flags, Quality, Reading, Record, Series, Value,
};
use tidegate::core::seam::Batch;
use tidegate::core::time::EventTime;

use crate::rng::Rng;

/// The source whose repeats are dropped, and whose readings are increments.
pub const REPEATING: &str = "oven";

/// Which of its source's readings this is: by its id where it has one, for then its
/// value may be a total.
pub fn number(record: &Record) -> Option<i64> {
    match (&record.id, &record.value) {
        (Some(id), _) => id.parse().ok(),
        (None, Value::I64(n)) => Some(*n),
        (None, _) => None,
    }
}

#[derive(Clone, Debug)]
pub struct Source {
    pub id: SourceId,
    series: Arc<Series>,
    next: i64,
    pub limit: i64,
    /// Its device has no clock at all.
    is_deaf: bool,
    /// It gives its readings ids, and sends them again without need.
    repeats: bool,
    /// Sent, not yet receipted: receipt and the numbers it covers.
    pub waiting: VecDeque<(ReceiptId, Vec<i64>)>,
    /// To be sent again before anything new.
    again: VecDeque<Vec<i64>>,
    /// Receipted.
    pub durable: Vec<i64>,
    is_stopped: bool,
    pub is_configured: bool,
    /// The agent was started without it: what is a repeat of before is not known.
    pub was_forgotten: bool,
}

impl Source {
    pub fn new(name: &str, limit: i64) -> Self {
        let series = Series { entity: name.into(), property: "n".into(), unit: None };
        Self {
            id: SourceId::new(name),
            series: Arc::new(series),
            next: 1,
            limit,
            is_deaf: name == "pump",
            repeats: name == REPEATING,
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            durable: Vec::new(),
            is_stopped: false,
            is_configured: true,
            was_forgotten: false,
        }
    }

    pub fn batch(
        &mut self,
        rng: &mut Rng,
        (arrival, truth_ns): (Arrival, i64),
        receipt: ReceiptId,
    ) -> Option<Batch> {
        if self.is_stopped {
            return None;
        }
        let mut numbers = self.again.pop_front().or_else(|| self.fresh(rng))?;
        if self.repeats && rng.chance(50) {
            let last = self.next as u64 - 1;
            let repeats = (0..rng.between(1, 4)).map(|_| rng.between(1, last) as i64);
            numbers.extend(repeats.collect::<Vec<_>>());
        }
        let readings = numbers.iter().map(|n| self.reading(*n, rng, truth_ns)).collect();
        self.waiting.push_back((receipt, numbers));
        let (source, receipt) = (self.id.clone(), Some(receipt));
        Some(Batch { source, arrival, readings, refused: Vec::new(), advance: None, receipt })
    }

    pub fn receipted(&mut self, receipt: ReceiptId) -> Vec<i64> {
        let Some(at) = self.waiting.iter().position(|(id, _)| *id == receipt) else {
            return Vec::new();
        };
        let (_, numbers) = self.waiting.remove(at).unwrap_or_default();
        self.durable.extend(&numbers);
        numbers
    }

    pub fn crashed(&mut self) {
        self.again = self.waiting.drain(..).map(|(_, numbers)| numbers).collect();
    }

    /// Hands in nothing more.
    pub fn stops(&mut self) {
        self.is_stopped = true;
    }

    pub fn starts(&mut self) {
        (self.is_stopped, self.is_configured) = (false, true);
    }

    pub fn is_finished(&self) -> bool {
        self.next > self.limit && self.waiting.is_empty() && self.again.is_empty()
    }

    fn fresh(&mut self, rng: &mut Rng) -> Option<Vec<i64>> {
        let end = (self.next + rng.between(1, 12) as i64).min(self.limit + 1);
        let numbers: Vec<i64> = (self.next..end).collect();
        self.next = end;
        (!numbers.is_empty()).then_some(numbers)
    }

    fn reading(&self, n: i64, rng: &mut Rng, truth_ns: i64) -> Reading {
        let disorder_ns = rng.between(0, 5_000_000_000) as i64;
        let future_ns = if rng.chance(1) { 900_000_000_000 } else { 0 };
        let at = EventTime::from_unix_ns(truth_ns - disorder_ns + future_ns);
        let device_time = Some(DeviceTime { at, utc_offset_s: None, flags: Flags::NONE });
        Reading {
            series: self.series.clone(),
            value: Value::I64(n),
            quality: Quality::Good,
            quality_detail: None,
            device_time: device_time.filter(|_| !self.is_deaf && rng.chance(50)),
            id: self.repeats.then(|| n.to_string().into()),
            flags: Flags::NONE,
        }
    }
}
