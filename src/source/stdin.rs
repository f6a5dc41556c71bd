//! Standard input, line by line. There is nobody to acknowledge to.

use tokio::io::{AsyncRead, BufReader};

use super::Door;
use super::text::Gatherer;
use crate::config::Source;

/// Reads until the end of the stream or a stop.
pub async fn run(source: &Source, reader: impl AsyncRead + Unpin, mut door: Door) {
    let mut gatherer = Gatherer::new(source, BufReader::new(reader));
    let clock = door.clock.clone();
    loop {
        let gathered = tokio::select! {
            gathered = gatherer.next(&clock) => gathered,
            () = door.stopped() => return,
        };
        match gathered {
            Ok(gathered) => {
                if !door.hand_in(gathered.batch).await || gathered.is_end {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(source = source.name, %error, "standard input cannot be read");
                return;
            }
        }
    }
}
