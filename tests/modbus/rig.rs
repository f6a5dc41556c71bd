//! A source of type `modbus`, and the driver's end of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::config::Config;
use tidegate::core::reading::{Arrival, Quality, Reading, Value};
use tidegate::core::time::{IngestTime, Span, Uptime};
use tidegate::source::health::HealthView;
use tidegate::source::{ArrivalClock, SourceHandle, SourceMessage, spawn};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

const S: u64 = 1_000_000_000;

/// No fact that these tests wait for takes so long.
pub(crate) async fn soon<T>(fact: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), fact).await.unwrap()
}

/// A clock that is a second later at each look: a round trip takes a second, and
/// rests are over after as many looks as they have seconds.
pub(crate) fn clock() -> ArrivalClock {
    let looks = AtomicU64::new(0);
    Arc::new(move || {
        let now = (looks.fetch_add(1, Ordering::Relaxed) + 1) * S;
        Arrival {
            ingest: IngestTime::from_unix_ns(now as i64),
            uptime: Uptime::from_ns(now),
            half_round_trip: Span::ZERO,
        }
    })
}

pub(crate) struct Rig {
    pub(crate) handle: SourceHandle,
    pub(crate) messages: mpsc::Receiver<SourceMessage>,
    stop: watch::Sender<bool>,
}

/// Starts the sources of these keys; `name` and `type` are given.
pub(crate) fn start_all(all: &[String]) -> Vec<Rig> {
    let source = |(number, keys): (usize, &String)| {
        format!("[[source]]\nname = 's{number}'\ntype = 'modbus'\nentity = 'e'\n{keys}\n")
    };
    let sources: String = all.iter().enumerate().map(source).collect();
    let text =
        format!("[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n{sources}");
    let config = Config::parse(&text, Path::new("t.toml")).unwrap();
    let start = |source| {
        let (out, messages) = mpsc::channel(1_000);
        let (stop, stopped) = watch::channel(false);
        Rig { handle: spawn(source, out, clock(), stopped).unwrap(), messages, stop }
    };
    config.sources.iter().map(start).collect()
}

/// Starts a source that polls as fast as it can.
pub(crate) fn start(keys: &str) -> Rig {
    start_all(&[format!("poll = '10ms'\n{keys}")]).remove(0)
}

impl Rig {
    pub(crate) async fn next(&mut self) -> (Arrival, Vec<Reading>) {
        loop {
            let message = soon(self.messages.recv()).await.unwrap();
            let batch = message.batch;
            assert!(batch.refused.is_empty());
            if !batch.readings.is_empty() {
                return (batch.arrival, batch.readings);
            }
        }
    }

    /// The next batch: property and value, or what is wrong.
    pub(crate) async fn said(&mut self) -> Vec<(String, Result<Value, String>)> {
        self.next().await.1.into_iter().map(shown).collect()
    }

    /// Waits until the source says this of one property.
    pub(crate) async fn until(&mut self, property: &str, what: &Result<Value, String>) {
        while !self.said().await.iter().any(|(name, said)| name == property && said == what) {}
    }

    pub(crate) fn health(&self) -> HealthView {
        self.handle.health.view()
    }

    pub(crate) async fn stop(self) {
        self.stop.send(true).unwrap();
        soon(self.handle.join).await.unwrap();
    }
}

fn shown(reading: Reading) -> (String, Result<Value, String>) {
    let property = reading.series.property.to_string();
    assert_eq!(&*reading.series.entity, "e");
    match reading.quality {
        Quality::Good => (property, Ok(reading.value)),
        _ => {
            assert!(matches!(reading.value, Value::F64(number) if number.is_nan()));
            (property, Err(reading.quality_detail.unwrap().to_string()))
        }
    }
}

pub(crate) fn good(property: &str, number: i64) -> (String, Result<Value, String>) {
    (property.to_owned(), Ok(Value::I64(number)))
}

pub(crate) fn bad(property: &str, why: &str) -> (String, Result<Value, String>) {
    (property.to_owned(), Err(why.to_owned()))
}
