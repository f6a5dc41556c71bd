//! The reader alone, with the test in the place of the driver.

use std::sync::Arc;

use tidegate::config::Config;
use tidegate::core::reading::{Arrival, Value};
use tidegate::core::seam::Outcome;
use tidegate::core::time::{IngestTime, Span, Uptime};
use tidegate::source::{self, SourceHandle, SourceMessage};
use tokio::sync::{mpsc, watch};

use super::peer::Peer;
use super::{VALUES, send, source};

struct Reader {
    peer: Peer,
    inbox: mpsc::Receiver<SourceMessage>,
    stop: watch::Sender<bool>,
    handle: SourceHandle,
}

/// A reader whose filters are remembered: that comes before it connects.
async fn reader() -> Reader {
    let peer = Peer::start();
    let text = format!(
        "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n{}",
        source(peer.port(), VALUES)
    );
    let config = Config::parse(&text, "t.toml".as_ref()).unwrap();
    let (out, mut inbox) = mpsc::channel(8);
    let (stop, seen) = watch::channel(false);
    let arrival = Arrival {
        ingest: IngestTime::from_unix_ns(0),
        uptime: Uptime::default(),
        half_round_trip: Span::ZERO,
    };
    let handle = source::spawn(&config.sources[0], out, Arc::new(move || arrival), seen).unwrap();
    let (none, mut filters) = next(&mut inbox).await;
    assert!(none.is_empty() && filters.batch.advance.is_some());
    answer(&mut filters, Outcome::Durable);
    Reader { peer, inbox, stop, handle }
}

/// The next batch: its values.
async fn next(inbox: &mut mpsc::Receiver<SourceMessage>) -> (Vec<i64>, SourceMessage) {
    let message = inbox.recv().await.unwrap();
    let value = |value: &Value| match value {
        Value::I64(number) => *number,
        other => panic!("{other:?}"),
    };
    (message.batch.readings.iter().map(|reading| value(&reading.value)).collect(), message)
}

fn answer(message: &mut SourceMessage, outcome: Outcome) {
    message.receipt.take().unwrap().send(outcome).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_before_its_receipt_and_all_in_order() {
    let Reader { peer, mut inbox, stop, handle } = reader().await;
    let mut talk = peer.accept(false);
    send(&mut talk, "plant/e/n", "1", 11);
    let (first, mut one) = next(&mut inbox).await;
    send(&mut talk, "plant/e/n", "2", 12);
    let (second, mut two) = next(&mut inbox).await;
    assert_eq!((first, second), (vec![1], vec![2]));
    assert!(talk.is_silent());
    // The later one is durable first.
    answer(&mut two, Outcome::Durable);
    assert!(talk.is_silent());
    answer(&mut one, Outcome::Durable);
    assert_eq!(talk.all_acknowledged(2), [11, 12]);
    stop.send(true).unwrap();
    assert_eq!(talk.acknowledged(), None);
    handle.join.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_full_buffer_turned_away_is_asked_for_again() {
    let Reader { peer, mut inbox, stop, handle } = reader().await;
    let mut talk = peer.accept(false);
    send(&mut talk, "plant/e/n", "1", 11);
    let (_, mut turned_away) = next(&mut inbox).await;
    answer(&mut turned_away, Outcome::Full);
    // A new connection to the same session, in which the broker has it still.
    let mut talk = peer.accept(true);
    assert!(!talk.clean_start);
    assert!(handle.health.last_error().is_some_and(|error| error == "the buffer is full"));
    send(&mut talk, "plant/e/n", "1", 11);
    let (again, mut taken) = next(&mut inbox).await;
    assert_eq!(again, [1]);
    answer(&mut taken, Outcome::Durable);
    assert_eq!(talk.acknowledged(), Some(11));
    // At a stop, what has its receipt still to come is waited for.
    send(&mut talk, "plant/e/n", "2", 12);
    let (_, mut last) = next(&mut inbox).await;
    stop.send(true).unwrap();
    answer(&mut last, Outcome::Durable);
    assert_eq!((talk.acknowledged(), talk.acknowledged()), (Some(12), None));
    handle.join.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_of_a_broken_connection_is_not_sent_on_the_next() {
    let Reader { peer, mut inbox, stop, handle } = reader().await;
    let mut talk = peer.accept(false);
    send(&mut talk, "plant/e/n", "1", 11);
    let (_, mut old) = next(&mut inbox).await;
    drop(talk);
    let mut talk = peer.accept(false);
    // Its receiver is gone with the connection.
    let _ = old.receipt.take().unwrap().send(Outcome::Durable);
    send(&mut talk, "plant/e/n", "2", 1);
    let (values, mut new) = next(&mut inbox).await;
    assert_eq!(values, [2]);
    answer(&mut new, Outcome::Durable);
    assert_eq!(talk.acknowledged(), Some(1));
    stop.send(true).unwrap();
    assert_eq!(talk.acknowledged(), None);
    handle.join.await.unwrap();
}
