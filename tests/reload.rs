//! SIGHUP with the real binary: sources come, change and go; what cannot change is
//! refused by name; what is wrong leaves everything as it was.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

#[path = "reload/addresses.rs"]
mod addresses;
#[expect(dead_code, reason = "each test crate uses its own part of this")]
#[path = "cases/agent.rs"]
mod agent;
#[path = "reload/kinds.rs"]
mod kinds;
mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

use agent::Plant;
use serde_json::{Value, json};
use support::broker::Log;
use support::process::{free_port, wait};
use support::script::Script;

/// A `listen` source with acknowledgements.
fn listen(name: &str, port: u16, keys: &str) -> String {
    format!(
        "[[source]]\nname = \"{name}\"\ntype = \"listen\"\naddress = \"127.0.0.1:{port}\"\n\
         acknowledge = true\n{keys}\n"
    )
}

async fn plant(sources: &[String]) -> Plant {
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    plant.configure(&sources.concat());
    plant.run();
    plant.status();
    plant
}

/// As the agent itself serves it: whatever is in the file.
fn status(plant: &Plant) -> Value {
    serde_json::from_str(&plant.get("/api/v1/status")).unwrap()
}

/// SIGHUP, and what came of it.
fn reload(plant: &Plant) -> (bool, String) {
    let before = status(plant)["config"]["last_reload"].clone();
    hang_up(plant);
    let mut newest = Value::Null;
    wait("the configuration is read again", || {
        newest = status(plant)["config"]["last_reload"].clone();
        newest != before
    });
    (newest["ok"] == true, newest["detail"].as_str().unwrap().to_owned())
}

fn hang_up(plant: &Plant) {
    let pid = plant.pid().to_string();
    let sent = std::process::Command::new("kill").args(["-HUP", &pid]).status();
    assert!(sent.unwrap().success());
}

/// What a source says of itself.
fn health(plant: &Plant, source: &str) -> Value {
    let status = status(plant);
    let mut sources = status["sources"].as_array().unwrap().iter();
    sources.find(|one| one["name"] == source).unwrap()["health"].clone()
}

/// A sender that waits for its receipts.
struct Sender {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Sender {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(agent::DEADLINE)).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        Self { stream, answers }
    }

    /// Sends a line; the answer.
    fn say(&mut self, line: &Value) -> Value {
        writeln!(self.stream, "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// A reading of that number.
    fn count(&mut self, n: u64) -> Value {
        self.say(&json!({"entity": "e", "property": "n", "value": n}))
    }

    /// Whether the other side has let go.
    fn is_over(&mut self) -> bool {
        self.answers.read_line(&mut String::new()).unwrap() == 0
    }
}

/// What arrived of a source: number and value.
fn arrived(log: &Log, source: &str) -> Vec<(u64, Value)> {
    let topic = format!("tidegate/gw/readings/{source}");
    let of_source = log.publishes.iter().filter(|seen| seen.topic == topic);
    of_source
        .map(|seen| (seen.json()["seq"].as_u64().unwrap(), seen.json()["value"].clone()))
        .collect()
}

fn numbered(count: u64) -> Vec<(u64, Value)> {
    (1..=count).map(|n| (n, json!(n))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_come_change_and_go_while_another_connection_lives_on() {
    let [kept, changed, removed, added] = [(); 4].map(|()| free_port());
    let plant = plant(&[
        listen("kept", kept, ""),
        listen("changed", changed, ""),
        listen("removed", removed, ""),
    ])
    .await;
    let mut untouched = Sender::connect(kept);
    assert_eq!(untouched.count(1), json!({"acked": 1}));
    let mut old = Sender::connect(changed);
    assert_eq!(old.count(1), json!({"acked": 1}));
    let mut gone = Sender::connect(removed);
    assert_eq!(gone.count(1), json!({"acked": 1}));

    let map = "[source.map]\nentity = \"/device\"\n";
    plant.rewrite(&listen("changed", changed, ""), &listen("changed", changed, map));
    plant.rewrite(&listen("removed", removed, ""), &listen("added", added, ""));
    let told = "sources added: added; sources changed: changed; sources removed: removed";
    assert_eq!(reload(&plant), (true, told.to_owned()));

    assert_eq!(untouched.count(2), json!({"acked": 2}), "the same connection");
    assert!(old.is_over() && gone.is_over());
    assert!(TcpStream::connect(("127.0.0.1", removed)).is_err());
    let line = json!({"device": "d", "property": "n", "value": 2});
    assert_eq!(Sender::connect(changed).say(&line), json!({"acked": 1}));
    assert_eq!(Sender::connect(added).count(1), json!({"acked": 1}));
    let all = |log: &Log| {
        ["kept", "changed"].iter().all(|source| arrived(log, source).len() == 2)
            && ["removed", "added"].iter().all(|source| arrived(log, source).len() == 1)
    };
    plant.wait(all).await;
    let log = plant.broker.log();
    assert_eq!(arrived(&log, "kept"), numbered(2));
    assert_eq!(arrived(&log, "changed"), numbered(2), "numbers go on");
    let status = status(&plant);
    assert_eq!(status["config"]["file"], plant.config.display().to_string());
    let states = status["sources"].as_array().unwrap().iter();
    let states: Vec<_> = states.map(|one| (&one["name"], &one["health"]["state"])).collect();
    let up = &json!("up");
    let name = |name: &str| json!(name);
    let expected = [
        (&name("added"), up),
        (&name("changed"), up),
        (&name("kept"), up),
        (&name("removed"), &Value::Null),
    ];
    assert_eq!(states, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn o_02_what_waits_is_delivered_and_a_source_that_comes_back_goes_on() {
    let [a, b] = [(); 2].map(|()| free_port());
    let plant = plant(&[listen("a", a, ""), listen("b", b, "")]).await;
    plant.cut_off();
    let (mut of_a, mut of_b) = (Sender::connect(a), Sender::connect(b));
    for n in 1..=20 {
        assert_eq!((of_a.count(n), of_b.count(n)), (json!({"acked": n}), json!({"acked": n})));
    }
    plant.rewrite(&listen("b", b, ""), "");
    assert_eq!(reload(&plant), (true, "sources removed: b".to_owned()));
    assert_eq!(of_a.count(21), json!({"acked": 21}));
    plant.configure(&listen("b", b, ""));
    assert_eq!(reload(&plant), (true, "sources added: b".to_owned()));
    assert_eq!(Sender::connect(b).count(21), json!({"acked": 1}));
    plant.broker.refuse(false);
    plant.wait(|log| ["a", "b"].iter().all(|source| arrived(log, source).len() == 21)).await;
    let log = plant.broker.log();
    for source in ["a", "b"] {
        let mut all = arrived(&log, source);
        all.sort_by_key(|(seq, _)| *seq);
        assert_eq!(all, numbered(21), "{source}");
    }
}

/// What is wrong, besides what the clock of this machine may have.
fn troubles(status: &Value) -> Vec<&str> {
    let codes = status["degraded"].as_array().unwrap().iter();
    codes
        .map(|one| one["code"].as_str().unwrap())
        .filter(|code| *code != "clock_untrusted")
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn o_02_a_file_that_is_wrong_changes_nothing_and_is_said_once() {
    let port = free_port();
    let plant = plant(&[listen("in", port, "")]).await;
    let mut sender = Sender::connect(port);
    assert_eq!(sender.count(1), json!({"acked": 1}));
    let loaded_at = status(&plant)["config"]["loaded_at"].clone();
    let good = std::fs::read_to_string(&plant.config).unwrap();

    std::fs::write(
        &plant.config,
        format!("{good}[[source]]\ntype = \"listn\"\nname = \"b a d\"\n"),
    )
    .unwrap();
    let line = good.lines().count() + 2;
    let (is_ok, detail) = reload(&plant);
    assert!(!is_ok);
    let file = plant.config.display();
    assert!(detail.contains(&format!("{file}:{line}: source.type: ")), "{detail}");
    assert!(detail.contains(" | ") && detail.contains("source.name: "), "all of it: {detail}");
    let log = plant.log();
    let said: Vec<_> = log.lines().filter(|line| line.contains("the old one stays")).collect();
    assert_eq!(said.len(), 1, "{log}");
    assert!(said[0].contains(&detail), "{said:?}");
    let told = status(&plant);
    assert_eq!(told["config"]["loaded_at"], loaded_at);
    assert_eq!(troubles(&told), ["reload_refused"]);

    std::fs::write(&plant.config, good.replace("[[source]]", "[[source")).unwrap();
    let (is_ok, detail) = reload(&plant);
    assert!(!is_ok && detail.contains("syntax"), "{detail}");
    assert_eq!(sender.count(2), json!({"acked": 2}));

    std::fs::write(&plant.config, good).unwrap();
    assert_eq!(reload(&plant), (true, "no source has changed".to_owned()));
    assert_eq!(troubles(&status(&plant)), [""; 0]);
    assert_eq!(sender.count(3), json!({"acked": 3}));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_change_is_refused_by_name_and_nothing_else_is_applied() {
    let [port, new] = [(); 2].map(|()| free_port());
    let plant = plant(&[listen("in", port, "")]).await;
    plant.rewrite("id = \"gw\"", "id = \"gw-2\"");
    plant.rewrite("commit_interval = \"50ms\"", "commit_interval = \"60ms\"");
    plant.configure(&listen("new", new, ""));
    let (is_ok, detail) = reload(&plant);
    assert!(!is_ok);
    let id = "gateway.id: cannot become \"gw-2\" from \"gw\" while the agent runs; restart";
    assert!(detail.contains(id), "{detail}");
    assert!(detail.contains("journal.commit_interval: cannot become"), "{detail}");
    assert!(TcpStream::connect(("127.0.0.1", new)).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_refuses_the_whole_file() {
    let [stays, goes] = [(); 2].map(|()| free_port());
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = foreign.local_addr().unwrap().port();
    let plant = plant(&[listen("stays", stays, ""), listen("goes", goes, "")]).await;
    let mut sender = Sender::connect(goes);
    assert_eq!(sender.count(1), json!({"acked": 1}));
    plant.rewrite(&listen("goes", goes, ""), &listen("comes", taken, ""));
    let (is_ok, detail) = reload(&plant);
    assert!(
        !is_ok && detail.contains(&format!("source comes: cannot listen on 127.0.0.1:{taken}")),
        "{detail}"
    );
    assert_eq!(sender.count(2), json!({"acked": 2}));
    drop(foreign);
    assert!(reload(&plant).0);
    assert_eq!(Sender::connect(taken).count(1), json!({"acked": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sources_exchange_their_addresses() {
    let [one, two] = [(); 2].map(|()| free_port());
    let plant = plant(&[listen("a", one, ""), listen("b", two, "")]).await;
    plant.rewrite(&listen("a", one, ""), &listen("a", two, ""));
    plant.rewrite(&listen("b", two, ""), &listen("b", one, ""));
    assert_eq!(reload(&plant), (true, "sources changed: a, b".to_owned()));
    assert_eq!(Sender::connect(two).count(1), json!({"acked": 1}));
    plant.wait(|log| arrived(log, "a").len() == 1).await;
    assert_eq!(arrived(&plant.broker.log(), "b"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn how_readings_are_stamped_and_the_log_change_without_a_new_connection() {
    let port = free_port();
    let plant = plant(&[listen("in", port, "")]).await;
    let mut sender = Sender::connect(port);
    let line = json!({"entity": "e", "property": "n", "value": 1, "time": "2026-01-01T00:00:00Z", "id": "x"});
    assert_eq!(sender.say(&line), json!({"acked": 1}));
    assert!(!plant.log().contains("DEBUG"));
    plant.rewrite("id = \"gw\"", "id = \"gw\"\nlog = \"debug\"");
    plant.configure("[source.time]\ntrust = \"gateway\"\n[source.dedupe]\nkey = \"id\"\n");
    assert_eq!(reload(&plant), (true, "sources changed: in".to_owned()));
    assert_eq!(sender.say(&line), json!({"acked": 2}));
    assert_eq!(sender.say(&line), json!({"acked": 3}), "a repeat now");
    plant.wait(|log| arrived(log, "in").len() == 2).await;
    let log = plant.broker.log();
    let origins = log.publishes.iter().filter(|seen| seen.topic == "tidegate/gw/readings/in");
    let origins: Vec<Value> = origins.map(|seen| seen.json()["time"]["origin"].clone()).collect();
    assert_eq!(origins, ["device", "gateway"]);
    assert_eq!(status(&plant)["sources"][0]["duplicates"], 1);
    plant.rewrite("log = \"debug\"", "log = \"nonsense=nonsense\"");
    let (is_ok, detail) = reload(&plant);
    assert!(!is_ok && detail.contains("gateway.log: "), "{detail}");
    plant.rewrite("log = \"nonsense=nonsense\"", "log = \"trace\"");
    assert!(reload(&plant).0);
    wait("the log says more", || plant.log().contains("TRACE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_followed_again_goes_on_where_it_was() {
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    let path = plant.folder().join("readings.jsonl");
    let append = |numbers: std::ops::RangeInclusive<u64>| {
        let lines =
            numbers.map(|n| format!("{}\n", json!({"entity": "e", "property": "n", "value": n})));
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        file.write_all(lines.collect::<String>().as_bytes()).unwrap();
    };
    append(1..=100);
    let source =
        format!("[[source]]\nname = \"log\"\ntype = \"file\"\npath = {path:?}\nfrom = \"start\"\n");
    plant.configure(&source);
    plant.run();
    plant.wait_for_status("all is read", |status| status["sources"][0]["accepted"] == 100);
    plant.rewrite(&source, "");
    assert_eq!(reload(&plant), (true, "sources removed: log".to_owned()));
    append(101..=110);
    plant.configure(&source);
    assert_eq!(reload(&plant), (true, "sources added: log".to_owned()));
    plant.wait(|log| arrived(log, "log").len() >= 110).await;
    assert_eq!(arrived(&plant.broker.log(), "log"), numbered(110));
}

#[tokio::test(flavor = "multi_thread")]
async fn o_02_signals_in_a_row_leave_one_consistent_configuration_and_a_stop_is_not_kept_waiting() {
    let [a, b] = [(); 2].map(|()| free_port());
    let mut plant = plant(&[listen("a", a, "")]).await;
    for _ in 0..10 {
        plant.configure(&listen("b", b, ""));
        hang_up(&plant);
        plant.rewrite(&listen("b", b, ""), "");
        hang_up(&plant);
    }
    plant.configure(&listen("b", b, ""));
    hang_up(&plant);
    plant.wait_for_status("both are there at the end", |status| {
        status["sources"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["health"]["state"] == "up")
            .count()
            == 2
    });
    assert_eq!(Sender::connect(b).count(1), json!({"acked": 1}));
    assert_eq!(Sender::connect(a).count(1), json!({"acked": 1}));
    hang_up(&plant);
    assert_eq!(plant.stop(), Some(0));
}
