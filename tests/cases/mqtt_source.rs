//! Field cases of the MQTT reader: what is acknowledged is durable, what is sent
//! again counts once, what is retained is old news.

mod filters;
mod mosquitto;
mod peer;
mod receipts;

use serde_json::Value;

use crate::agent::Plant;
use crate::support::broker::Log;
use crate::support::script::Script;
use peer::{Peer, Sent, Talk};

const WINDOW: &str = "[[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"1m\"\n\
    bound = \"5s\"\nidle_after = \"1h\"\nallowed_lateness = \"0s\"\n";
const VALUES: &str = "topics = [ { filter = \"plant/+/+\", entity = \"{1}\", property = \"{2}\", format = \"value\" } ]";
/// As the readers of the case number what they say.
const NUMBERED: &str = "topics = [ { filter = \"fb/+\", property = \"v\" } ]\n\
    [source.map]\nentity = \"/dev\"\nvalue = \"/v\"\ntime = \"/ts\"\nid = \"/n\"\n\
    [source.dedupe]\nkey = \"id\"\n";

/// A source `in` at the broker of that port.
fn source(port: u16, keys: &str) -> String {
    format!(
        "[[source]]\nname = \"in\"\ntype = \"mqtt\"\nurl = \"mqtt://127.0.0.1:{port}\"\n\
         reconnect_min = \"10ms\"\nreconnect_max = \"100ms\"\n{keys}\n"
    )
}

/// An agent that does not run yet, and the broker it will read from.
async fn plant(keys: &str) -> (Plant, Peer) {
    let peer = Peer::start();
    let plant = Plant::new(Script::default(), "", &[]).await;
    plant.configure(&source(peer.port(), keys));
    (plant, peer)
}

fn on(log: &Log, topic: &str) -> Vec<Value> {
    let topic = format!("tidegate/gw/{topic}");
    log.publishes.iter().filter(|seen| seen.topic == topic).map(|seen| seen.json()).collect()
}

fn source_of(status: &Value) -> &Value {
    &status["sources"][0]
}

fn send(talk: &mut Talk, topic: &str, payload: &str, pkid: u16) {
    talk.publish(topic, payload.as_bytes(), Sent { pkid, ..Sent::default() });
}

#[tokio::test(flavor = "multi_thread")]
async fn readings_come_by_their_topics_and_are_acknowledged_in_order() {
    for protocol in ["5", "3.1.1"] {
        let (mut plant, peer) = plant(&format!("protocol = \"{protocol}\"\n{VALUES}")).await;
        plant.run();
        let mut talk = peer.accept(false);
        assert_eq!((talk.client_id.as_str(), talk.clean_start), ("tidegate-gw-in", false));
        // On MQTT 5: QoS 1, and retained messages for a new subscription only.
        let options = if protocol == "5" { 0x11 } else { 0x01 };
        assert_eq!(talk.subscription.last(), Some(&options));
        for (pkid, payload) in
            [(5, "412.5"), (9, "true"), (2, "running"), (7, "18446744073709551615")]
        {
            send(&mut talk, "plant/pump-7/p", payload, pkid);
        }
        assert_eq!(talk.all_acknowledged(4), [5, 9, 2, 7]);
        plant.wait(|log| on(log, "readings/in").len() == 4).await;
        let log = plant.broker.log();
        let readings = on(&log, "readings/in");
        let values: Vec<Value> = readings.iter().map(|reading| reading["value"].clone()).collect();
        assert_eq!(Value::Array(values), serde_json::json!([412.5, true, "running", u64::MAX]));
        for reading in &readings {
            assert_eq!((&reading["entity"], &reading["property"]), (&"pump-7".into(), &"p".into()));
            assert_eq!(
                (&reading["quality"], &reading["flags"]),
                (&"good".into(), &Value::Array(vec![]))
            );
            assert_eq!(reading["time"]["origin"], "gateway");
        }
        let status = plant.status();
        assert_eq!(source_of(&status)["health"]["state"], "up", "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b_02_what_is_acknowledged_survives_sigkill() {
    let (mut plant, peer) = plant(VALUES).await;
    for round in 0..5_u16 {
        plant.run();
        let mut talk = peer.accept(round > 0);
        for n in 0..20 {
            send(&mut talk, "plant/e/n", &(round * 20 + n).to_string(), n + 1);
        }
        // The kill comes as soon as the first is acknowledged.
        assert_eq!(talk.acknowledged(), Some(1));
        plant.kill();
        let cat = plant.say(&["journal", "cat"], 0);
        let wanted = u64::from(round * 20);
        let values = cat.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let known: Vec<u64> = values.filter_map(|line| line["value"].as_u64()).collect();
        assert!(known.contains(&wanted), "{wanted} is not in {cat}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_before_a_stop_is_acknowledged_and_then_comes_a_goodbye() {
    let (mut plant, peer) = plant(VALUES).await;
    plant.rewrite("commit_interval = \"50ms\"", "commit_interval = \"60s\"");
    plant.run();
    let mut talk = peer.accept(false);
    for n in 1..=3 {
        send(&mut talk, "plant/e/n", &n.to_string(), n);
    }
    plant.wait_for_status("three are taken", |status| source_of(status)["accepted"] == 3);
    let stopping = std::thread::spawn(move || {
        assert_eq!(talk.all_acknowledged(3), [1, 2, 3]);
        talk.acknowledged()
    });
    assert_eq!(plant.stop(), Some(0));
    assert_eq!(stopping.join().unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_read_costs_itself_and_never_comes_again() {
    let keys = format!("{VALUES}\nmax_line = \"1KiB\"");
    let (mut plant, peer) =
        plant(&keys.replace("\"value\" }", "\"value\" }, { filter = \"json/+\" }")).await;
    plant.run();
    let mut talk = peer.accept(false);
    let bad: [(&str, &[u8]); 5] = [
        ("plant/e/n", &[b'1'; 2_000_000]),
        ("plant/e/n", b"\xff\xfe"),
        ("json/e", b"rubbish"),
        ("plant//", b"1"),
        ("gone/e", b"1"),
    ];
    for (pkid, (topic, payload)) in (1..).zip(bad) {
        talk.publish(topic, payload, Sent { pkid, ..Sent::default() });
        send(&mut talk, "plant/e/n", "7", pkid + 10);
    }
    assert_eq!(talk.all_acknowledged(10), [1, 11, 2, 12, 3, 13, 4, 14, 5, 15]);
    plant.wait_for_status("five and five", |status| {
        let books = source_of(status);
        books["accepted"] == 5 && books["quarantined"] == 5
    });
    assert!(talk.is_silent(), "one connection all along");
    let listed = plant.say(&["quarantine", "list"], 0);
    for kind in ["too_long", "not_utf8", "syntax", "name", "topic"] {
        assert!(listed.contains(kind), "{kind} is not in {listed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w_08_what_the_broker_sends_again_counts_once_and_dup_alone_is_no_reason_to_drop() {
    let (mut plant, peer) = plant(NUMBERED).await;
    plant.configure(WINDOW);
    plant.run();
    let payload = |n: i64| {
        let second = if n == 41 { 39 } else { n - 1 };
        let (minute, second) = (second / 60, second % 60);
        format!(
            "{{\"dev\":\"fb\",\"n\":{n},\"ts\":\"2026-03-01T12:{minute:02}:{second:02}Z\",\"v\":1}}"
        )
    };
    let mut talk = peer.accept(false);
    let mut sent = 0_u16;
    let mut send = |talk: &mut Talk, n: i64, dup| {
        sent += 1;
        talk.publish("fb/r", payload(n).as_bytes(), Sent { pkid: sent, dup, retain: false });
    };
    for n in 1..=35 {
        // 20 comes for the first time, and says that it does not.
        send(&mut talk, n, n == 20);
        if n == 10 {
            send(&mut talk, n, true);
        }
    }
    talk.all_acknowledged(36);
    drop(talk);
    let mut talk = peer.accept(true);
    for n in 30..=35 {
        send(&mut talk, n, true);
    }
    for n in 36..=60 {
        send(&mut talk, n, false);
    }
    // What closes the minute.
    send(&mut talk, 66, false);
    talk.all_acknowledged(6 + 25 + 1);
    plant.wait(|log| !on(log, "windows/w").is_empty()).await;
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    let results = on(&log, "windows/w");
    let last = results.last().unwrap();
    assert_eq!(
        (&last["start"], &last["count"], &last["sum"]),
        (&"2026-03-01T12:00:00.000000000Z".into(), &60.into(), &60.into())
    );
    assert_eq!(source_of(&plant.status())["duplicates"], 7);
    let ids: Vec<String> =
        on(&log, "readings/in").iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<String> = (1..=60).chain([66]).map(|n| n.to_string()).collect();
    assert_eq!(ids, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_retained_is_never_news() {
    let keys = VALUES.replace(
        "\"value\" }",
        "\"value\" }, { filter = \"own/+\", entity = \"{1}\", property = \"n\" }",
    );
    let (mut plant, peer) = plant(&keys).await;
    plant.configure(WINDOW);
    plant.run();
    let mut talk = peer.accept(false);
    let retained = |pkid| Sent { pkid, retain: true, ..Sent::default() };
    talk.publish("plant/grid/n", b"1", retained(1));
    talk.publish("own/grid", b"{\"time\":\"2026-03-01T12:00:00Z\",\"value\":2}", retained(2));
    // News, which closes nothing and stands alone in its window.
    send(&mut talk, "own/grid", "{\"time\":\"2026-03-01T12:00:30Z\",\"value\":3}", 3);
    send(&mut talk, "own/grid", "{\"time\":\"2026-03-01T12:01:05Z\",\"value\":4}", 4);
    talk.all_acknowledged(4);
    plant.wait(|log| !on(log, "windows/w").is_empty() && on(log, "readings/in").len() == 4).await;
    let log = plant.broker.log();
    let short = |reading: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&reading["quality"]), text(&reading["time"]["origin"]), reading["flags"].to_string())
    };
    let said: Vec<_> = on(&log, "readings/in").iter().map(short).collect();
    let expected = [
        ("uncertain", "unknown", "[\"retained\"]"),
        ("good", "device", "[\"retained\"]"),
        ("good", "device", "[]"),
        ("good", "device", "[]"),
    ];
    let expected = expected.map(|(q, o, f)| (q.to_owned(), o.to_owned(), f.to_owned()));
    assert_eq!(said, expected);
    assert_eq!(on(&log, "readings/in")[1]["event_time"], "2026-03-01T12:00:00.000000000Z");
    let results = on(&log, "windows/w");
    assert_eq!((&results[0]["count"], &results[0]["sum"]), (&1.into(), &3.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_is_tried_again_and_the_status_says_why() {
    let peer = Peer::start();
    let port = peer.port();
    drop(peer);
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    plant.configure(&source(port, VALUES));
    plant.run();
    plant.wait_for_status("it is down", |status| {
        let health = &source_of(status)["health"];
        let detail = health["detail"].as_str().unwrap_or_default();
        health["state"] == "down" && detail.starts_with(&format!("mqtt://127.0.0.1:{port}: "))
    });
    assert_eq!(plant.stop(), Some(0));
}
