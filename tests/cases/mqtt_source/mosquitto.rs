//! The same with a real Mosquitto, killed and restarted.

use std::collections::BTreeSet;
use std::time::Duration;

use rumqttc::{Client, Event, MqttOptions, Outgoing, Packet, QoS};
use serde_json::Value;

use super::{on, source, source_of};
use crate::agent::Plant;
use crate::support::process::{self, Mosquitto, has_mosquitto};
use crate::support::script::Script;

const COUNT: u64 = 10_000;
const KILLS: u64 = 5;

/// Publishes to a broker, QoS 1; back when all is acknowledged.
fn publish(port: u16, messages: impl Iterator<Item = (String, bool, String)> + Send + 'static) {
    // rumqttc's blocking client has a runtime of its own.
    std::thread::spawn(move || publish_all(port, messages)).join().unwrap();
}

fn publish_all(port: u16, messages: impl Iterator<Item = (String, bool, String)>) {
    let messages: Vec<_> = messages.collect();
    let mut missing = messages.len();
    let mut options = MqttOptions::new("feed", "127.0.0.1", port);
    options.set_keep_alive(Duration::from_secs(30)).set_inflight(100);
    let (client, mut connection) = Client::new(options, 100);
    let feed = client.clone();
    let feeding = std::thread::spawn(move || {
        for (topic, retain, payload) in messages {
            feed.publish(topic, QoS::AtLeastOnce, retain, payload).unwrap();
        }
    });
    for event in connection.iter() {
        match event.unwrap() {
            Event::Incoming(Packet::PubAck(_)) => {
                missing -= 1;
                if missing == 0 {
                    client.disconnect().unwrap();
                }
            }
            Event::Outgoing(Outgoing::Disconnect) => break,
            _ => {}
        }
    }
    feeding.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m_17_puback_means_durable_over_five_kills() {
    if !has_mosquitto("m_17") {
        return;
    }
    for protocol in ["5", "3.1.1"] {
        let mut plant = Plant::new(Script::default(), "", &[]).await;
        let site = Mosquitto::start(plant.folder());
        plant.broker.refuse(true);
        let keys = format!(
            "protocol = \"{protocol}\"\n\
             topics = [ {{ filter = \"feed/+\", entity = \"{{1}}\", format = \"json\" }} ]\n\
             [source.map]\nvalues = \"\"\n"
        );
        plant.configure(&source(site.port, &keys));
        plant.run();
        plant.wait_for_status("it is subscribed", |status| {
            source_of(status)["health"]["state"] == "up"
        });
        let port = site.port;
        let message = |n| ("feed/e".to_owned(), false, format!("{{\"n\":{n}}}"));
        let feed = std::thread::spawn(move || publish(port, (1..=COUNT).map(message)));
        let accepted = |plant: &Plant| source_of(&plant.status())["accepted"].as_u64().unwrap_or(0);
        for kill in 1..=KILLS {
            process::wait("some more are taken", || accepted(&plant) >= kill * COUNT / (KILLS + 2));
            plant.kill();
            plant.run();
        }
        feed.join().unwrap();
        plant.broker.refuse(false);
        let numbers = |log: &crate::support::broker::Log| {
            let readings = on(log, "readings/in");
            readings.iter().filter_map(|reading| reading["value"].as_u64()).collect::<Vec<_>>()
        };
        process::wait("all are taken", || {
            let status = plant.status();
            status["uplink"]["backlog"] == 0 && numbers(&plant.broker.log()).contains(&COUNT)
        });
        plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
        let all = numbers(&plant.broker.log());
        let distinct: BTreeSet<u64> = all.iter().copied().collect();
        assert_eq!(distinct, (1..=COUNT).collect());
        assert_eq!(plant.stop(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w_12_what_is_retained_stays_old_news_over_every_restart() {
    if !has_mosquitto("w_12") {
        return;
    }
    for protocol in ["5", "3.1.1"] {
        let mut plant = Plant::new(Script::default(), "", &[]).await;
        let mut site = Mosquitto::start(plant.folder());
        let keys = format!(
            "protocol = \"{protocol}\"\n\
             topics = [ {{ filter = \"grid/p\", entity = \"grid\", property = \"p\", format = \"value\" }},\n\
             {{ filter = \"grid/q\", entity = \"grid\", property = \"q\" }},\n\
             {{ filter = \"now\", entity = \"now\", property = \"n\", format = \"value\" }} ]\n\
             [source.map]\ntime = \"/ts\"\nvalue = \"/v\"\nid = \"/n\"\n[source.dedupe]\nkey = \"id\"\n\
             [[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"1s\"\nbound = \"0s\"\n"
        );
        plant.configure(&source(site.port, &keys));
        let old =
            [("grid/p", "17.5"), ("grid/q", "{\"v\":4,\"n\":1,\"ts\":\"2026-11-29T10:00:00Z\"}")];
        let port = site.port;
        publish(
            port,
            old.map(|(topic, payload)| (topic.to_owned(), true, payload.to_owned())).into_iter(),
        );
        let is_up = |status: &Value| source_of(status)["health"]["state"] == "up";
        plant.run();
        let mut news = 0;
        for restart in 0..5 {
            match restart {
                0 => {}
                4 => {
                    site.down();
                    plant.wait_for_status("it is missed", |status| !is_up(status));
                    site.up();
                }
                _ => {
                    assert_eq!(plant.stop(), Some(0));
                    plant.run();
                }
            }
            plant.wait_for_status("it is subscribed", is_up);
            // Comes behind whatever is retained.
            news += 1;
            publish(port, [("now".to_owned(), false, news.to_string())].into_iter());
            plant
                .wait(|log| {
                    on(log, "readings/in")
                        .iter()
                        .any(|r| r["entity"] == "now" && r["value"] == news)
                })
                .await;
        }
        plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
        let log = plant.broker.log();
        let readings = on(&log, "readings/in");
        let of = |property: &str| -> Vec<&Value> {
            readings.iter().filter(|reading| reading["property"] == property).collect()
        };
        assert!(!of("p").is_empty());
        for reading in of("p") {
            assert_eq!(reading["quality"], "uncertain", "{reading}");
            assert_eq!(reading["time"]["origin"], "unknown", "{reading}");
            assert_eq!(reading["flags"], serde_json::json!(["retained"]), "{reading}");
        }
        assert_eq!(of("q").len(), 1, "one reading, whatever the restarts");
        assert_eq!(of("q")[0]["event_time"], "2026-11-29T10:00:00.000000000Z");
        assert_eq!(of("q")[0]["flags"], serde_json::json!(["retained"]));
        // Without an id one that was not yet acknowledged when the session broke may come
        // twice.
        let mut fresh: Vec<u64> =
            of("n").iter().map(|reading| reading["value"].as_u64().unwrap()).collect();
        fresh.dedup();
        assert_eq!(fresh, [1, 2, 3, 4, 5]);
        let in_windows = on(&log, "windows/w");
        assert!(in_windows.iter().all(|result| result["entity"] == "now"), "{in_windows:?}");
    }
}
