//! A stream of lines through the public door of a source.

use std::sync::Arc;

use tidegate::config::Source;
use tidegate::core::reading::{Arrival, Reading, Refusal};
use tidegate::core::time::{IngestTime, Span, Uptime};
use tidegate::source::{SourceMessage, spawn_reader};
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, watch};

/// What comes of a stream that is read to its end. What is refused is counted.
pub(crate) fn run(
    source: &Source,
    stream: impl AsyncRead + Unpin + Send + 'static,
) -> (Vec<Reading>, Vec<Refusal>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (out, mut messages) = mpsc::channel::<SourceMessage>(4);
        let (_stop, stopped) = watch::channel(false);
        let arrival = Arrival {
            ingest: IngestTime::from_unix_ns(7),
            uptime: Uptime::from_ns(8),
            half_round_trip: Span::ZERO,
        };
        let handle = spawn_reader(source, stream, out, Arc::new(move || arrival), stopped);
        let (mut readings, mut refused) = (Vec::new(), Vec::new());
        while let Some(message) = messages.recv().await {
            readings.extend(message.batch.readings);
            refused.extend(message.batch.refused);
        }
        handle.join.await.unwrap();
        assert_eq!(handle.health.refused(), refused.len() as u64);
        (readings, refused)
    })
}
