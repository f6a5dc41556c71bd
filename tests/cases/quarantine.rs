//! What was refused: listed, shown, handed in again, deleted.

use std::io::{Read, Write};

use serde_json::Value;

use crate::agent::Plant;
use crate::support::broker::Log;
use crate::support::script::Script;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn readings(log: &Log) -> Vec<Value> {
    let seen = log.publishes.iter().filter(|seen| seen.topic == "tidegate/gw/readings/in");
    seen.map(crate::support::broker::SeenPublish::json).collect()
}

impl Plant {
    fn list(&self, arguments: &[&str]) -> Value {
        json(&self.say(&[&["quarantine", "list", "--json"], arguments].concat(), 0))
    }

    /// The list once it has so many: they are counted before they are durable.
    fn list_of(&self, count: usize) -> Value {
        let is_so = || self.list(&[])["items"].as_array().unwrap().len() == count;
        crate::support::process::wait("the list has them", is_so);
        self.list(&[])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_refused_for_its_mapping_is_accepted_once_that_is_mended() {
    let mut plant = Plant::start(Script::default(), "", &["in"]).await;
    let mut stream = plant.connect("in");
    let lines = [
        "{\"device\":\"pump-7\",\"property\":\"p\",\"value\":1,\"time\":\"2026-11-30T12:00:00Z\"}",
        "{\"device\":\"pump-8\",\"property\":\"p\",\"value\":2}",
        "not JSON at all",
    ];
    for line in lines {
        writeln!(stream, "{line}").unwrap();
    }
    let listing = plant.list_of(3);
    let items = listing["items"].as_array().unwrap();
    let kinds: Vec<(&Value, &Value)> = items.iter().map(|one| (&one["id"], &one["kind"])).collect();
    let kind = |text: &'static str| -> Value { text.into() };
    assert_eq!(kinds[0].0, 3);
    assert_eq!(kinds[1..], [(&2.into(), &kind("no_entity")), (&1.into(), &kind("no_entity"))]);
    assert_eq!(items[2]["head"], lines[0].chars().take(80).collect::<String>());
    assert_eq!(plant.list(&["--kind", "no_entity"])["items"].as_array().unwrap().len(), 2);
    assert_eq!(plant.list(&["--source", "none"])["items"], serde_json::json!([]));
    let whole = json(&plant.say(&["quarantine", "show", "1", "--json"], 0));
    assert_eq!(whole["text"], lines[0]);

    assert_eq!(plant.stop(), Some(0));
    // Without an agent the same list, and nothing can be handed in.
    assert_eq!(plant.list(&[]), listing);
    assert_eq!(plant.command(&["quarantine", "release", "--all"]).0, Some(74));
    plant.configure("[source.map]\nentity = \"/device\"\n");
    plant.run();
    plant.status();
    let (code, done) = plant.command(&["quarantine", "release", "--all", "--json"]);
    assert_eq!(code, Some(1), "one is refused again: {done}");
    let outcomes: Vec<Value> =
        json(&done).as_array().unwrap().iter().map(|one| one["outcome"].clone()).collect();
    assert_eq!(outcomes, ["accepted", "accepted", "refused"]);
    plant.wait(|log| readings(log).len() == 2).await;
    let sent = readings(&plant.broker.log());
    assert_eq!((&sent[0]["entity"], &sent[0]["seq"]), (&kind("pump-7"), &1.into()));
    assert_eq!(sent[0]["event_time"], "2026-11-30T12:00:00.000000000Z");
    assert_eq!(sent[0]["time"]["origin"], "device");
    // It had no time: it happened when it first came, as far as anybody knows.
    let came = items[1]["at"].as_str().unwrap();
    assert_eq!(
        (sent[1]["event_time"].as_str().unwrap(), sent[1]["time"]["origin"].as_str().unwrap()),
        (came, "bounded")
    );
    plant.wait_for_status("they are counted as new", |status| {
        let books = &status["sources"][0];
        books["accepted"] == 2 && books["acknowledged"] == 2 && books["lost"] == 0
    });
    let left = plant.list(&[]);
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert_eq!(left["items"][0]["id"], 3);
    let said = plant.say(&["quarantine", "discard", "3"], 0);
    assert!(said.starts_with("3: discarded: syntax from in: "), "{said}");
    assert_eq!(plant.list(&[])["items"], serde_json::json!([]));
    assert_eq!(plant.command(&["quarantine", "discard", "3"]).0, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reading_that_no_broker_took_comes_again_under_another_number() {
    let mut plant = Plant::new(Script::default(), "max_payload = \"1KiB\"", &[("in", "")]).await;
    plant.run();
    let mut stream = plant.connect("in");
    let blob = "x".repeat(2_000);
    for value in ["1", &format!("\"{blob}\""), "3"] {
        writeln!(
            stream,
            "{{\"entity\":\"e\",\"property\":\"p\",\"value\":{value},\"time\":\"2026-11-30T12:00:00Z\"}}"
        )
        .unwrap();
    }
    let listing = plant.list_of(1);
    let item = &listing["items"][0];
    assert_eq!((&item["kind"], &item["source"]), (&"refused_by_broker".into(), &"in".into()));
    let whole = json(&plant.say(&["quarantine", "show", "1", "--json"], 0));
    assert_eq!(
        (&whole["reading"]["value"], &whole["reading"]["seq"]),
        (&blob.clone().into(), &2.into())
    );
    assert_eq!(plant.stop(), Some(0));
    plant.rewrite("max_payload = \"1KiB\"", "max_payload = \"8KiB\"");
    plant.run();
    plant.status();
    assert_eq!(plant.say(&["quarantine", "release", "1"], 0), "1: accepted, 1 reading\n");
    plant.wait(|log| readings(log).len() == 3).await;
    let log = plant.broker.log();
    let again = readings(&log).pop().unwrap();
    let mut first = whole["reading"].clone();
    // The number, and that it is another one, is all that differs.
    first["seq"] = 4.into();
    first["flags"].as_array_mut().unwrap().push("released".into());
    assert_eq!(again, first);
    let gaps: Vec<Value> = log
        .publishes
        .iter()
        .filter(|seen| seen.topic == "tidegate/gw/gaps/in")
        .map(crate::support::broker::SeenPublish::json)
        .collect();
    assert_eq!((&gaps[0]["first_seq"], &gaps[0]["last_seq"]), (&2.into(), &2.into()));
    plant.wait_for_status("the books say it", |status| {
        let books = &status["sources"][0];
        books["accepted"] == 4 && books["acknowledged"] == 3 && books["lost"] == 1
    });
    assert_eq!(plant.list(&[])["items"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_was_set_aside_is_listed_and_only_deleted_by_its_name() {
    let mut plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.broker.refuse(true);
    plant.broker.close_all();
    plant.feed("in", 100).join();
    plant.kill();
    let db = plant.folder().join("data/journal/000001/db");
    let length = std::fs::metadata(&db).unwrap().len();
    std::fs::write(&db, vec![0; usize::try_from(length).unwrap()]).unwrap();
    plant.run();
    plant.status();
    let listing = plant.list(&[]);
    let segment = &listing["segments"][0];
    assert_eq!(segment["id"], "segment:000001", "{listing}");
    assert!(segment["reason"].as_str().unwrap().starts_with("segment 000001 set aside: "));
    let (code, said) = plant.command(&["quarantine", "release", "segment:000001"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("journal export --journal"), "{said}");
    plant.say(&["quarantine", "discard", "--all"], 0);
    assert_eq!(plant.list(&[])["segments"].as_array().unwrap().len(), 1);
    plant.say(&["quarantine", "discard", "segment:000001"], 0);
    assert_eq!(plant.list(&[])["segments"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_network_the_quarantine_is_told_and_cannot_be_changed() {
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    let port = crate::support::process::free_port();
    plant.rewrite("listen = \"\"", &format!("listen = \"127.0.0.1:{port}\""));
    plant.run();
    let mut stream = plant.connect("in");
    writeln!(stream, "nonsense").unwrap();
    plant.list_of(1);
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let told = ask("GET /api/v1/quarantine?source=in HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    assert_eq!(json(body), plant.list(&[]));
    let wrong = ask("GET /api/v1/quarantine?sorce=in HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert!(wrong.starts_with("HTTP/1.0 400"), "{wrong}");
    for path in ["quarantine/discard", "quarantine/release", "quarantine/1", "journal/page"] {
        let body = "{\"ids\":[\"1\"]}";
        let answer = ask(&format!(
            "POST /api/v1/{path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert!(answer.starts_with("HTTP/1.0 404"), "{path}: {answer}");
    }
    assert_eq!(plant.list(&[])["items"].as_array().unwrap().len(), 1);
}
