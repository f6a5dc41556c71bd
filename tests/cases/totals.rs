//! Running totals and deadbands of the real binary: whatever is killed, sent again
//! or evicted, a total is the sum of what was acknowledged.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;

use crate::agent::Plant;
use crate::ledger::Ledger;
use crate::support::process::wait;
use crate::support::script::Script;

const ACCUMULATE: &str = "accumulate = [\"n\"]";
/// The same, and what is sent again is known by its id.
const WITHOUT_REPEATS: &str = "accumulate = [\"n\"]\n[source.dedupe]\nkey = \"id\"";

/// 1 + 2 + … + `count`.
const fn sum(count: u64) -> u64 {
    count * (count + 1) / 2
}

/// Gives lines to the source `in`; all of them are durable when it returns.
fn feed(plant: &Plant, lines: &[String]) {
    let mut stream = plant.connect("in");
    stream.write_all(lines.concat().as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let last = BufReader::new(stream).lines().map_while(Result::ok).last();
    assert_eq!(last, Some(format!("{{\"acked\":{}}}", lines.len())), "{}", plant.log());
}

fn line(entity: &str, property: &str, value: &str) -> String {
    format!("{{\"entity\":\"{entity}\",\"property\":\"{property}\",\"value\":{value}}}\n")
}

/// The newest reading of an entity, once nothing waits: its number and its value.
fn newest(plant: &Plant, entity: &str) -> (u64, u64) {
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let delivered = Ledger::of(&plant.broker.log(), "in").delivered;
    let of_entity = delivered.iter().rev().find(|(_, (known, _))| known == entity);
    of_entity.map(|(seq, (_, value))| (*seq, *value)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_total_is_the_sum_of_what_was_acknowledged_after_any_number_of_kills() {
    const COUNT: u64 = 30_000;
    const KILLS: u64 = 20;
    let mut plant = Plant::new(Script::default(), "", &[("in", WITHOUT_REPEATS)]).await;
    plant.rewrite("50ms\"", "20ms\"\nsegment_bytes = \"1MiB\"");
    let feeder = plant.feed_heavy("in", "meter", COUNT, 16);
    for kill in 1..=KILLS {
        plant.run();
        let until = COUNT * kill / (KILLS + 1);
        wait("more is acknowledged", || feeder.acked() >= until);
        plant.kill();
    }
    plant.run();
    feeder.join();
    assert_eq!(newest(&plant, "meter"), (COUNT, sum(COUNT)));
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(COUNT);
    // Each says the sum so far: none was left out or added twice on the way.
    for (seq, (_, total)) in &ledger.delivered {
        assert_eq!(*total, sum(*seq));
    }
    assert_eq!(plant.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_total_outlives_the_readings_that_said_it() {
    const COUNT: u64 = 15_000;
    let mut plant = Plant::new(Script::default(), "", &[("in", ACCUMULATE)]).await;
    plant.rewrite("50ms\"", "50ms\"\nmax_bytes = \"4MiB\"\nsegment_bytes = \"1MiB\"");
    plant.broker.refuse(true);
    plant.run();
    feed(&plant, &[line("quiet", "n", "7")]);
    for _ in 0..2 {
        plant.feed_heavy("in", "meter", COUNT, 256).join();
        plant.kill();
        plant.run();
    }
    let evicted = plant.status()["sources"][0]["evicted"].as_u64().unwrap();
    assert!(evicted > COUNT, "the first round is gone: {evicted}");
    feed(&plant, &[line("quiet", "n", "5"), line("meter", "n", "1")]);
    plant.broker.refuse(false);
    assert_eq!(newest(&plant, "quiet"), (2 * COUNT + 2, 12));
    assert_eq!(newest(&plant, "meter"), (2 * COUNT + 3, 2 * sum(COUNT) + 1));
    let log = plant.log();
    assert!(!log.contains("running totals may lack"), "{log}");
    assert_eq!(plant.stop(), Some(0));
    plant.run();
    feed(&plant, &[line("quiet", "n", "1")]);
    assert_eq!(newest(&plant, "quiet").1, 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn readings_say_that_they_are_totals_and_what_cannot_be_added_is_kept() {
    let mut plant = Plant::new(Script::default(), "", &[("in", ACCUMULATE)]).await;
    plant.run();
    feed(
        &plant,
        &[
            line("a", "n", "0.1"),
            line("a", "n", "0.2"),
            line("a", "n", "\"much\""),
            line("a", "other", "5"),
            line("b", "n", "18446744073709551615"),
            line("b", "n", "1"),
        ],
    );
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    let readings = log.publishes.iter().filter(|seen| seen.topic == "tidegate/gw/readings/in");
    let said: Vec<String> = readings
        .map(|seen| seen.json())
        .map(|json| {
            format!("{} {} {} {}", json["seq"], json["property"], json["value"], json["flags"])
        })
        .collect();
    let expected = [
        r#"1 "n" 0.1 ["total"]"#,
        r#"2 "n" 0.3 ["total"]"#,
        r#"3 "other" 5 []"#,
        r#"4 "n" 18446744073709551615 ["total"]"#,
    ];
    assert_eq!(said, expected);
    let refused = plant.say(&["quarantine", "list"], 0);
    for word in ["not_a_number", "overflow"] {
        assert!(refused.contains(word), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_moves_too_little_has_no_number_and_is_counted() {
    let keys = "deadband = { n = 2, \"t_*\" = { percent = 10 } }";
    let mut plant = Plant::new(Script::default(), "", &[("in", keys)]).await;
    plant.run();
    let values = |property, values: &[&str]| -> Vec<String> {
        values.iter().map(|value| line("a", property, value)).collect()
    };
    feed(&plant, &values("n", &["10", "12", "11", "13", "13"]));
    feed(&plant, &values("t_in", &["100", "110", "111"]));
    feed(&plant, &values("free", &["1", "1"]));
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let delivered = Ledger::of(&plant.broker.log(), "in").delivered;
    let said: Vec<(u64, u64)> = delivered.iter().map(|(seq, (_, n))| (*seq, *n)).collect();
    assert_eq!(said, [(1, 10), (2, 13), (3, 100), (4, 111), (5, 1), (6, 1)]);
    let source = plant.status()["sources"][0].clone();
    assert_eq!((&source["accepted"], &source["within_deadband"]), (&6.into(), &4.into()));
    let metrics = plant.page("/metrics");
    assert!(metrics.contains("tidegate_readings_deadband_total{source=\"in\"} 4\n"), "{metrics}");
    // The first one after a restart says how things are.
    plant.kill();
    plant.run();
    feed(&plant, &values("n", &["13", "13"]));
    assert_eq!(newest(&plant, "a"), (7, 13));
}
