//! Lines from standard input. There is nobody to acknowledge to; when the
//! driver is slow, the pipe fills and its writer waits.

use tokio::io::AsyncRead;

use super::Door;
use super::feed::{Gatherer, feed};
use crate::config::Source;

/// Reads to the end of the stream or to the stop of the source.
pub(super) async fn run(reader: impl AsyncRead + Unpin + Send, source: Source, door: Door) {
    door.health.up();
    let _connected = door.health.connect();
    feed(reader, Gatherer::new(&source), door, None).await;
}
