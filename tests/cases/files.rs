//! O-10: a file and its place, on the real agent under SIGKILL.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::agent::{Plant, numbers};
use crate::support::script::Script;

const COUNT: u64 = 300_000;
/// Ten of them, each with a kill.
const ROUND: u64 = 30_000;

#[tokio::test(flavor = "multi_thread")]
async fn o_10_a_file_read_under_sigkill_is_delivered_once() {
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    let path = plant.folder().join("data.jsonl");
    let mut lines = String::new();
    plant.configure(&format!(
        "[[source]]\nname = \"history\"\ntype = \"file\"\npath = \"{}\"\nentity = \"e\"\n\
         poll = \"20ms\"\n[source.map]\nvalues = \"\"",
        path.display()
    ));
    plant.broker.refuse(true);
    let accepted = |status: &serde_json::Value| {
        let books =
            status["sources"].as_array().unwrap().iter().find(|one| one["name"] == "history");
        books.map_or(0, |books| books["accepted"].as_u64().unwrap())
    };
    for first in (0..COUNT).step_by(ROUND as usize) {
        for n in first + 1..=first + ROUND {
            let _ = writeln!(lines, "{{\"n\":{n}}}");
        }
        // The whole of it anew, as the same file.
        std::fs::write(&path, &lines).unwrap();
        plant.run();
        plant.wait_for_status("some more are durable", |status| accepted(status) > first);
        plant.kill();
    }
    plant.broker.refuse(false);
    plant.run();
    plant.wait_for_status("all of it is delivered", |status| {
        accepted(status) == COUNT && status["uplink"]["backlog"] == 0
    });
    let log = plant.broker.log();
    let delivered = numbers(&log, "history");
    assert_eq!(delivered.iter().copied().collect::<BTreeSet<_>>(), (1..=COUNT).collect());
    // No line got a second number: repeats of delivery bear the name of the first.
    let seqs: BTreeSet<u64> = log
        .publishes
        .iter()
        .filter(|seen| seen.topic == "tidegate/gw/readings/history")
        .map(|seen| seen.json()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=COUNT).collect());
}
