//! Field cases of the uplink: sizes that brokers do not take, and brokers that
//! are slow.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use crate::agent::{Plant, first_seen, numbers};
use crate::support::broker::{Log, SeenPublish};
use crate::support::script::{Acks, Script};

fn readings(log: &Log) -> impl Iterator<Item = &SeenPublish> {
    log.publishes.iter().filter(|seen| seen.topic == "tidegate/gw/readings/in")
}

/// The numbers that a publish names: `gateway/source/epoch/first-last`.
fn seqs(publish: &SeenPublish) -> std::ops::RangeInclusive<u64> {
    let key = publish.user_properties.iter().find(|(name, _)| name == "tidegate-key");
    let (first, last) = key.unwrap().1.rsplit('/').next().unwrap().split_once('-').unwrap();
    first.parse().unwrap()..=last.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn m_02_a_reading_that_kills_connections_is_set_aside_and_its_neighbours_arrive() {
    // A broker that has a limit and does not say so.
    let script = Script { close_over: Some(60_000), ..Script::default() };
    let plant = Plant::start(script, "reconnect_min = \"10ms\"", &["in"]).await;
    let mut stream = plant.connect("in");
    let blob = "x".repeat(100_000);
    for n in 1..=11 {
        let value = if n == 6 { format!("\"{blob}\"") } else { n.to_string() };
        writeln!(stream, "{{\"entity\":\"e\",\"property\":\"p\",\"value\":{value}}}").unwrap();
    }
    plant.wait_for_status("all but it arrived, and it is in the books", |status| {
        let books = &status["sources"][0];
        books["acknowledged"] == 10 && books["lost"] == 1 && books["quarantined"] == 1
    });
    let expected: Vec<u64> = (1..=5).chain(7..=11).collect();
    assert_eq!(first_seen(&plant.broker.log(), "in"), expected);
    let too_large = |log: &Log| {
        let large = readings(log).filter(|seen| seen.payload.len() > 60_000);
        large.map(|seen| seen.connection).collect::<Vec<_>>()
    };
    // Two among others, until it is suspected; two alone, to be certain.
    let killed = too_large(&plant.broker.log());
    assert!((2..=4).contains(&killed.len()), "{killed:?}");
    let status = plant.status();
    assert_eq!(status["uplink"]["backlog"], 0, "{status:#}");
    // It is counted before it is durable.
    let list = || -> serde_json::Value {
        serde_json::from_str(&plant.say(&["quarantine", "list", "--json"], 0)).unwrap()
    };
    crate::support::process::wait("the list has it", || list()["items"][0].is_object());
    let list = list();
    let item = &list["items"][0];
    assert_eq!(item["kind"], "refused_by_broker", "{item}");
    let reason = item["reason"].as_str().unwrap();
    assert!(reason.contains("whenever it was the only one on its way"), "{reason}");
    plant
        .wait(|log| {
            let mut gaps = log.publishes.iter().filter(|seen| seen.topic == "tidegate/gw/gaps/in");
            gaps.any(|gap| gap.json()["first_seq"] == 6 && gap.json()["last_seq"] == 6)
        })
        .await;
    // The connection after it stands.
    let connects = plant.broker.connects().len();
    plant.feed("in", 20).join();
    plant.wait_for_status("nothing waits", |status| status["sources"][0]["acknowledged"] == 30);
    assert_eq!(plant.broker.connects().len(), connects);
}

#[tokio::test(flavor = "multi_thread")]
async fn m_03_batches_of_the_backlog_keep_to_what_the_broker_takes() {
    const LIMIT: usize = 131_072;
    for (format, max_packet_size) in [
        ("json-batch", None),
        ("postcard-batch", None),
        ("json-batch", Some(20_000)),
        ("postcard-batch", Some(20_000)),
    ] {
        let close_over = Some(LIMIT);
        let script = Script { close_over, max_packet_size, ..Script::default() };
        let plant = Plant::start(script, &format!("format = \"{format}\""), &["in"]).await;
        plant.cut_off();
        let mut stream = plant.connect("in");
        let mut text = String::new();
        for second in 0..2_500 {
            let (minute, second) = (second / 60, second % 60);
            let time = format!("2026-03-01T{:02}:{:02}:{second:02}Z", minute / 60, minute % 60);
            text += &format!("{{\"entity\":\"m\",\"time\":\"{time}\",\"values\":{{");
            let fields: Vec<_> = (0..8).map(|f| format!("\"f{f}\":{second}.{f}25")).collect();
            text += &format!("{}}}}}\n", fields.join(","));
        }
        stream.write_all(text.as_bytes()).unwrap();
        plant.wait_for_status("20,000 wait", |status| status["uplink"]["backlog"] == 20_000);
        let before = plant.broker.connects().len();
        plant.broker.refuse(false);
        plant.wait_for_status("all arrived", |status| status["uplink"]["backlog"] == 0);
        let log = plant.broker.log();
        assert_eq!(log.connects.len(), before + 1, "{format}: one connection for all");
        let distinct: BTreeSet<u64> = readings(&log).flat_map(seqs).collect();
        assert!(distinct.into_iter().eq(1..=20_000), "{format} {max_packet_size:?}");
        let sent = readings(&log).map(|seen| seqs(seen).count()).sum::<usize>();
        assert_eq!(sent, 20_000, "{format}: none is named twice");
        let largest = readings(&log).map(|seen| seen.payload.len()).max().unwrap();
        assert!(largest <= LIMIT, "{format}: {largest}");
        if let Some(limit) = max_packet_size {
            let largest = readings(&log).map(|seen| seen.packet_bytes).max().unwrap();
            assert!(largest <= limit as usize, "{format}: {largest} of {limit}");
            assert!(largest > limit as usize / 8 || format != "json-batch", "{largest} of {limit}");
        }
        assert_eq!(plant.status()["sources"][0]["lost"], 0, "split, not dropped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m_16_a_slow_broker_keeps_its_connection_while_a_backlog_drains() {
    // 150 in flight fill the way; the keep-alive comes round twice.
    let acks = Acks::Paced { latency: Duration::from_millis(300), per_second: 500 };
    let silence_max = Some(Duration::from_millis(7_500));
    let script = Script { acks, silence_max, ..Script::default() };
    let uplink = "keep_alive = \"5s\"\ninflight_max = 200";
    let plant = Plant::start(script, uplink, &["in", "live"]).await;
    plant.cut_off();
    plant.feed("in", 5_000).join();
    let before = plant.broker.connects().len();
    plant.broker.refuse(false);
    plant.wait(|log| log.connects.len() > before).await;
    plant.feed("live", 10).join();
    plant.wait_for_status("all arrived", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    assert!(numbers(&log, "in").into_iter().eq(1..=5_000), "once each, in order");
    assert_eq!(first_seen(&log, "live"), (1..=10).collect::<Vec<_>>());
    assert_eq!(log.connects.len(), before + 1, "no disconnect");
}

#[tokio::test(flavor = "multi_thread")]
async fn m_09_five_in_flight_and_a_slow_broker_while_a_backlog_drains() {
    let acks = Acks::Paced { latency: Duration::from_millis(20), per_second: 1_000 };
    let script = Script { receive_maximum: Some(5), acks, ..Script::default() };
    let plant = Plant::start(script, "", &["in"]).await;
    plant.cut_off();
    plant.feed("in", 200).join();
    let before = plant.broker.connects().len();
    plant.broker.refuse(false);
    plant.wait_for_status("all arrived", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    assert!(numbers(&log, "in").into_iter().eq(1..=200));
    assert_eq!(log.connects.len(), before + 1);
    assert!(log.unacknowledged_max <= 5, "{} at once", log.unacknowledged_max);
}

#[tokio::test(flavor = "multi_thread")]
async fn m_08_batches_that_prove_too_large_are_not_overtaken_by_those_behind_them() {
    // Six bytes of JSON for each control character, and a guess of two.
    let keys = "format = \"json-batch\"\nmax_payload = \"16KiB\"\nbatch_max_bytes = \"16KiB\"";
    let plant = Plant::start(Script::default(), keys, &["in"]).await;
    plant.broker.refuse(true);
    plant.broker.close_all();
    let text = "\\u0001".repeat(500);
    let mut stream = plant.connect("in");
    for number in 1..=200 {
        let id = format!("\"id\":\"{number}\"");
        writeln!(stream, "{{\"entity\":\"e\",\"property\":\"p\",\"value\":\"{text}\",{id}}}")
            .unwrap();
    }
    plant.wait_for_status("all is stored", |status| status["sources"][0]["stored"] == 200);
    plant.broker.refuse(false);
    plant.wait(|log| readings(log).flat_map(seqs).count() >= 200).await;
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    let all: Vec<u64> = readings(&log).flat_map(seqs).collect();
    assert_eq!(all, (1..=200).collect::<Vec<u64>>(), "in order, each once");
    assert!(readings(&log).count() > 1 && readings(&log).all(|seen| seen.payload.len() <= 16_384));
    assert_eq!(plant.status()["sources"][0]["lost"], 0);
}
