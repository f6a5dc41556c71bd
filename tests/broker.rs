//! The whole binary against a real Mosquitto: kills, restarts, clean stops.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::sync::{Arc, Mutex};

use support::feeder::Feeder;
use support::process::{Mosquitto, agent, configure, free_port, has_mosquitto, status, wait};
use support::subscriber::{Inbox, subscribe};

mod support;

/// How many readings the long test feeds; the accepted figure is 500,000
/// (`TIDEGATE_SOAK=500000`).
fn soak_readings() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a longer run is asked for by hand")]
    let wanted = std::env::var("TIDEGATE_SOAK").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(100_000)
}

fn arrived(inbox: &Arc<Mutex<Inbox>>, entity: &str) -> u64 {
    inbox.lock().unwrap().numbers(entity).len() as u64
}

#[test]
fn b_06_m_07_five_broker_restarts_and_five_kills_lose_and_confuse_nothing() {
    if !has_mosquitto("b_06") {
        return;
    }
    let count = soak_readings();
    let folder = tempfile::tempdir().unwrap();
    let mut broker = Mosquitto::start(folder.path());
    let inbox = subscribe(broker.port);
    let input = free_port();
    let config = configure(folder.path(), broker.port, input, "");
    let log = folder.path().join("agent.log");
    let mut running = agent(&config, &log);
    let feeder = Feeder::start(input, "soak", count);
    for round in 1..=5 {
        wait("a part of the readings is acknowledged", || feeder.acked() >= count * round / 11);
        broker.down();
        wait("more is acknowledged in the outage", || feeder.acked() >= count * (2 * round) / 11);
        running.kill();
        broker.up();
        running = agent(&config, &log);
    }
    feeder.join();
    wait("everything has arrived", || arrived(&inbox, "soak") == count);
    wait("nothing waits", || status(&config)["uplink"]["backlog"] == 0);
    assert_eq!(running.stop(), Some(0));
    let inbox = inbox.lock().unwrap();
    assert_eq!(inbox.numbers("soak"), (1..=count).collect());
    assert_eq!(inbox.confused, [], "two contents under one key");
    assert_eq!(inbox.holes(), []);
    assert_eq!(inbox.gaps, [] as [serde_json::Value; 0]);
}

#[test]
fn b_06_a_clean_stop_repeats_nothing() {
    if !has_mosquitto("b_06") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut broker = Mosquitto::start(folder.path());
    let inbox = subscribe(broker.port);
    broker.down();
    let input = free_port();
    let config = configure(folder.path(), broker.port, input, "");
    let log = folder.path().join("agent.log");
    let mut running = agent(&config, &log);
    Feeder::start(input, "clean", 500).join();
    // Fed and stopped while the uplink is down: exit 0, nothing lost (O-01).
    assert_eq!(running.stop(), Some(0));
    broker.up();
    for _ in 0..3 {
        running = agent(&config, &log);
        wait("all has arrived", || arrived(&inbox, "clean") == 500);
        wait("nothing waits", || status(&config)["uplink"]["backlog"] == 0);
        assert_eq!(running.stop(), Some(0));
    }
    let inbox = inbox.lock().unwrap();
    assert_eq!(inbox.copies, 500);
    assert_eq!(inbox.holes(), []);
    let last = inbox.statuses.last().unwrap();
    assert_eq!(last["status"], "offline", "the last word of a clean stop: {last}");
    let frontier = inbox.frontiers.last().unwrap();
    assert_eq!((&frontier["through_seq"], &frontier["pending"]), (&500.into(), &0.into()));
}

#[tokio::test]
async fn payloads_are_decoded_straight_from_a_broker() {
    if !has_mosquitto("decode") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let broker = Mosquitto::start(folder.path());
    let options = rumqttc::MqttOptions::new("sender", "127.0.0.1", broker.port);
    let (client, mut events) = rumqttc::AsyncClient::new(options, 10);
    let payload = std::fs::read("tests/data/batch-v1.bin").unwrap();
    let qos = rumqttc::QoS::AtLeastOnce;
    client.publish("plant/readings/a", qos, true, payload).await.unwrap();
    client.publish("plant/readings/b", qos, true, "no batch").await.unwrap();
    let mut taken = 0;
    while taken < 2 {
        let event = events.poll().await.unwrap();
        taken += u32::from(matches!(event, rumqttc::Event::Incoming(rumqttc::Packet::PubAck(_))));
    }
    let url = format!("mqtt://127.0.0.1:{}", broker.port);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["decode", "--url", &url, "--topic", "plant/#", "--count", "2"]);
    let output = command.output().unwrap();
    let (said, wrong) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    assert_eq!(said.unwrap(), std::fs::read_to_string("tests/data/batch-v1.jsonl").unwrap());
    assert!(wrong.unwrap().starts_with("tidegate: plant/readings/b: at byte 0: version 110 of "));
    assert_eq!(output.status.code(), Some(1));
}
