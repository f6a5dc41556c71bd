//! The whole agent in one process: JSON lines over TCP to durable, then the
//! drain of that backlog to Mosquitto in each format, beside bare rumqttc with
//! ready payloads and the same bound in flight, and beside a Mosquitto bridge with
//! the same backlog. `cargo bench --bench end_to_end [-- READINGS]`; Linux,
//! mosquitto installed.
#![expect(clippy::print_stdout, reason = "its output is the table")]
#![expect(clippy::unwrap_used, reason = "a failing benchmark may stop")]
#![expect(clippy::disallowed_methods, reason = "it measures time and reads arguments")]

mod agent;
mod peers;
mod process;

use std::time::Duration;

/// Publishes without PUBACK: of the agent, of bare rumqttc and of the bridge.
const INFLIGHT: u16 = 100;

/// Pairs of a drain by the agent and one by the bridge.
const BRIDGE_ROUNDS: usize = 5;

/// A format, and what one of its publishes is: readings and bytes, for peers that
/// get their payloads ready.
struct Format {
    name: &'static str,
    readings: u64,
    bytes: usize,
}

/// As the agent makes them of these readings at the defaults of the configuration.
const FORMATS: [Format; 3] = [
    Format { name: "json", readings: 1, bytes: 300 },
    Format { name: "json-batch", readings: 210, bytes: 49_000 },
    Format { name: "postcard-batch", readings: 500, bytes: 3_600 },
];

fn main() {
    tidegate::shell::run::runtime().unwrap().block_on(measure());
}

async fn measure() {
    let mut wanted = Vec::new();
    let mut count = 500_000;
    for argument in std::env::args().skip(1).filter(|argument| !argument.starts_with('-')) {
        match argument.parse() {
            Ok(number) => count = number,
            Err(_) => wanted.push(argument),
        }
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == name);
    for format in FORMATS.iter().filter(|format| is_wanted(format.name)) {
        let drained = agent::fill_and_drain(format.name, count).await;
        let bare = peers::bare_rumqttc(count / format.readings, format.bytes).await;
        report("  bare rumqttc with ready payloads", count, bare);
        println!("  drain at {:.2} of bare rumqttc", ratio(bare, drained));
    }
    if is_wanted("bridge") {
        beside_the_bridge(count).await;
    }
}

/// Agent and bridge in turn: on a machine that is busy with other work the ratio of
/// one pair says as much of that work.
async fn beside_the_bridge(count: u64) {
    let single = &FORMATS[0];
    let mut ratios = Vec::new();
    for _ in 0..BRIDGE_ROUNDS {
        let drained = agent::fill_and_drain(single.name, count).await;
        let bridged = peers::bridge(count, single.bytes).await;
        report("mosquitto bridge", count, bridged);
        ratios.push(ratio(bridged, drained));
        println!("  {} drain at {:.2} of the bridge", single.name, ratio(bridged, drained));
    }
    ratios.sort_by(f64::total_cmp);
    println!("{} drain beside the bridge, median: {:.2}", single.name, ratios[ratios.len() / 2]);
}

fn ratio(peer: Duration, ours: Duration) -> f64 {
    peer.as_secs_f64() / ours.as_secs_f64()
}

fn report(what: &str, count: u64, took: Duration) {
    let rate = count as f64 / took.as_secs_f64();
    println!("{what}: {count} readings in {:.2} s, {rate:.0}/s", took.as_secs_f64());
}
