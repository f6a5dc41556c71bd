//! Field cases of the uplink: what brokers and links do to a client.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::agent::{Plant, first_seen, numbers};
use crate::support::script::{Acks, Script};

fn all(count: u64) -> Vec<u64> {
    (1..=count).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn m_02_a_reading_over_the_payload_limit_is_set_aside_and_kills_no_connection() {
    let plant = Plant::start(Script::default(), "", &["in"]).await;
    let mut stream = plant.connect("in");
    // A reading with no text is about 400 bytes long, its clock facts included.
    for length in [0, 130_000, 131_072, 150_000, 0] {
        let blob = "x".repeat(length);
        writeln!(stream, "{{\"entity\":\"e\",\"property\":\"blob\",\"value\":\"{blob}\"}}")
            .unwrap();
    }
    let readings = |log: &crate::support::broker::Log| {
        let topic = "tidegate/gw/readings/in";
        let sizes = log.publishes.iter().filter(|publish| publish.topic == topic);
        sizes.map(|publish| publish.payload.len()).collect::<Vec<_>>()
    };
    // Neighbours may share one gap record.
    let named = |log: &crate::support::broker::Log| {
        let gaps = log.publishes.iter().filter(|seen| seen.topic == "tidegate/gw/gaps/in");
        let gaps = gaps.map(crate::support::broker::SeenPublish::json);
        let refused = gaps.filter(|gap| gap["reason"] == "refused_by_broker");
        let ends = |gap: &serde_json::Value| (gap["first_seq"].as_u64(), gap["last_seq"].as_u64());
        let spans = refused.map(|gap| ends(&gap)).collect::<Vec<_>>();
        let seqs = spans.iter().flat_map(|(first, last)| first.unwrap()..=last.unwrap());
        seqs.collect::<std::collections::BTreeSet<u64>>()
    };
    plant.wait(|log| readings(log).len() == 3 && named(log).len() == 2).await;
    let log = plant.broker.log();
    assert!(readings(&log).iter().all(|size| *size <= 131_072), "{:?}", readings(&log));
    assert_eq!(named(&log), [3, 4].into());
    assert_eq!(log.connects.len(), 1);
    plant.wait_for_status("the books say it", |status| {
        let books = &status["sources"][0];
        books["lost"] == 2 && books["acknowledged"] == 3 && books["quarantined"] == 2
    });
    assert!(plant.log().contains("over the limit of 131072 bytes"), "{}", plant.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn m_04_a_puback_with_an_error_is_not_a_delivery() {
    let quota_tries = Arc::new(AtomicU32::new(0));
    let judge = move |topic: &str| match topic {
        "tidegate/gw/readings/valve02" => 0x87,
        "tidegate/gw/readings/valve03" if quota_tries.fetch_add(1, Ordering::SeqCst) < 3 => 0x97,
        "tidegate/gw/readings/valve04" => 0x10,
        _ => 0,
    };
    let script = Script { acks: Acks::ByTopic(Arc::new(judge)), ..Script::default() };
    let sources = ["valve01", "valve02", "valve03", "valve04"];
    let plant = Plant::start(script, "", &sources).await;
    for source in sources {
        plant.feed(source, 10).join();
    }
    plant.wait_for_status("all but valve02 is delivered", |status| {
        let books: BTreeMap<&str, &serde_json::Value> = status["sources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|books| (books["name"].as_str().unwrap(), books))
            .collect();
        ["valve01", "valve03", "valve04"].iter().all(|source| books[source]["acknowledged"] == 10)
            && books["valve02"]["acknowledged"] == 0
            && books["valve02"]["stored"] == 10
    });
    let status = plant.status();
    let held = &status["uplink"]["held"][0];
    assert_eq!(held["source"], "valve02");
    assert!(held["code"].to_string().contains("87"), "{held}");
    assert_eq!(plant.broker.connects().len(), 1, "an error code drops no connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn m_07_what_was_not_acknowledged_is_sent_again_from_the_journal() {
    // CONNACK, then the retained status takes the first PUBACK.
    let first = Script { acks: Acks::First(21), close_at: Some(31), ..Script::default() };
    let plant = Plant::start(Script::default(), "frontier_interval = \"1h\"", &["in"]).await;
    plant.broker.next_connection(first);
    plant.broker.close_all();
    plant.feed("in", 40).join();
    plant.wait(|log| first_seen(log, "in").len() == 40).await;
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    assert_eq!(first_seen(&log, "in"), all(40));
    let mut contents: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for publish in log.publishes.iter().filter(|publish| publish.topic.contains("readings")) {
        assert!(!publish.dup, "a new packet, not the old one again");
        let number = publish.json()["value"].as_u64().unwrap();
        let known = contents.entry(number).or_insert_with(|| publish.payload.clone());
        assert_eq!(*known, publish.payload, "the same event time and seq, byte for byte");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m_08_the_first_sight_of_each_reading_is_in_order_per_source() {
    for session_present in [true, false] {
        let script = Script { acks: Acks::First(60), close_at: Some(90), ..Script::default() };
        let plant = Plant::start(script, "", &["a", "b"]).await;
        let feeders = [plant.feed("a", 200), plant.feed("b", 200)];
        plant.wait(|log| !log.closed.is_empty()).await;
        plant.broker.set_script(Script { session_present, ..Script::default() });
        for feeder in feeders {
            feeder.join();
        }
        plant
            .wait(|log| first_seen(log, "a").len() == 200 && first_seen(log, "b").len() == 200)
            .await;
        let log = plant.broker.log();
        assert_eq!((first_seen(&log, "a"), first_seen(&log, "b")), (all(200), all(200)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m_09_receive_maximum_bounds_what_is_in_flight() {
    // Each PUBACK waits for five later publishes: with five in flight at most,
    // none ever comes.
    let script = Script { receive_maximum: Some(5), acks: Acks::Delayed(5), ..Script::default() };
    let plant = Plant::start(script, "ack_timeout = \"2s\"", &["in"]).await;
    plant.feed("in", 200).join();
    plant.wait(|log| log.publishes.len() >= 5).await;
    let generous = Script { receive_maximum: Some(5), ..Script::default() };
    plant.broker.set_script(generous);
    plant.wait(|log| first_seen(log, "in").len() == 200).await;
    let log = plant.broker.log();
    let on_first =
        log.publishes.iter().filter(|publish| publish.connection == log.publishes[0].connection);
    assert_eq!(on_first.count(), 5);
    assert_eq!(first_seen(&log, "in"), all(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn b_09_m_06_a_broker_that_never_acknowledges_is_left_and_nothing_is_lost() {
    for script in [
        Script { acks: Acks::None, ..Script::default() },
        Script { deaf_after: Some(3), answers_pings: false, ..Script::default() },
    ] {
        let plant = Plant::start(script, "ack_timeout = \"2s\"", &["in"]).await;
        plant.feed("in", 60).join();
        plant.wait(|log| log.connects.len() >= 2).await;
        // A deaf broker has taken a few of each connection before.
        let waits = |status: &serde_json::Value| status["uplink"]["backlog"].as_u64();
        plant.wait_for_status("it shows", |status| waits(status).is_some_and(|n| n > 0));
        plant.broker.set_script(Script::default());
        plant.broker.close_all();
        plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
        assert_eq!(first_seen(&plant.broker.log(), "in"), all(60));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m_11_an_unresolvable_broker_is_not_fatal() {
    let mut plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.stop();
    let good = std::fs::read_to_string(&plant.config).unwrap();
    let bad = good.replace("mqtt://127.0.0.1", "mqtt://broker.invalid");
    std::fs::write(&plant.config, bad).unwrap();
    plant.run();
    plant.feed("in", 10).join();
    plant.wait_for_status("ten wait", |status| status["uplink"]["backlog"] == 10);
    assert_eq!(plant.stop(), Some(0));
    std::fs::write(&plant.config, good).unwrap();
    plant.run();
    plant.wait(|log| first_seen(log, "in").len() == 10).await;
    assert_eq!(numbers(&plant.broker.log(), "in"), all(10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_costs_itself_and_is_acknowledged_as_refused() {
    let plant = Plant::start(Script::default(), "", &["in"]).await;
    let mut stream = plant.connect("in");
    stream
        .write_all(
            b"{\"entity\":\"e\",\"property\":\"n\",\"value\":1}\nrubbish\n\
              {\"entity\":\"e\",\"property\":\"n\",\"value\":2}\n",
        )
        .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.lines().last(), Some("{\"acked\":3}"));
    plant.wait(|log| first_seen(log, "in").len() == 2).await;
    let books = &plant.status()["sources"][0];
    assert_eq!((&books["accepted"], &books["quarantined"]), (&2.into(), &1.into()));
}
