//! Prints how many readings a second one core encodes as JSON, and how many a
//! link carries to a broker that acknowledges at once.
//!
//! `cargo bench --bench wire`. The scripted broker logs every packet and shares
//! the machine, so the second number is a floor.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that fails stops")]
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(dead_code, reason = "it uses a part of the harness of the tests")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::hint::black_box;
use std::time::Instant;

use harness::{BOTH, Link, reading};
use support::broker::ScriptedBroker;
use support::script::Script;
use tidegate::core::reading::Entry;
use tidegate::core::seam::{LinkEvent, PublishBody};
use tidegate::mqtt::Protocol;
use tidegate::wire::json;

#[path = "../tests/link/harness.rs"]
mod harness;
#[path = "../tests/support/readings.rs"]
mod readings;
#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    encode();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for protocol in BOTH {
        runtime.block_on(carry(protocol));
    }
}

fn encode() {
    const COUNT: u32 = 3_000_000;
    let PublishBody::Entry(Entry::Reading(record)) = reading("press-line", 12_345) else {
        unreachable!()
    };
    let mut out = Vec::with_capacity(1_024);
    let start = Instant::now();
    for _ in 0..COUNT {
        out.clear();
        json::reading("gw-07", black_box(&record), &mut out);
        black_box(&out);
    }
    let rate = f64::from(COUNT) / start.elapsed().as_secs_f64();
    println!("encode json: {rate:.0} readings/s, {} bytes each", out.len());
}

async fn carry(protocol: Protocol) {
    const COUNT: u64 = 300_000;
    const IN_FLIGHT: u64 = 100;
    let broker = ScriptedBroker::start(Script::default()).await;
    let mut link = Link::up(broker.port(), protocol).await;
    let start = Instant::now();
    (1..=IN_FLIGHT).for_each(|number| link.publish(number));
    let (mut sent, mut done) = (IN_FLIGHT, 0);
    while done < COUNT {
        match link.events.recv().await {
            Some((_, LinkEvent::Puback { code: 0, .. })) => done += 1,
            event => panic!("{event:?}"),
        }
        if sent < COUNT {
            sent += 1;
            link.publish(sent);
        }
    }
    let rate = COUNT as f64 / start.elapsed().as_secs_f64();
    println!("link {protocol:?}: {rate:.0} messages/s at {IN_FLIGHT} in flight");
}
