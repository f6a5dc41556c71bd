//! Field cases of the gateway's own clock: the real binary under a clock of the
//! test's own (`support::shim`).

mod certificate;
mod quality;
mod steps;
mod story;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::broker::{Log, ScriptedBroker};
use crate::support::process::{self, Process, free_port};
use crate::support::script::Script;
use crate::support::shim::{FakeClock, truth_ns};

/// A gateway whose clock the test sets.
struct Gateway {
    folder: TempDir,
    clock: FakeClock,
    broker: ScriptedBroker,
    config: PathBuf,
    input: u16,
    running: Option<Process>,
}

/// True times around a reading's way in, in nanoseconds since the UNIX epoch.
#[derive(Clone, Copy, Debug)]
struct Sent {
    before_ns: i64,
    after_ns: i64,
}

impl Gateway {
    /// A broker, and an agent that does not run yet; `None` where the clock
    /// cannot be faked.
    async fn new(test: &str, clock: &str) -> Option<Self> {
        let broker = ScriptedBroker::start(Script::default()).await;
        let uplink = format!(
            "url = \"mqtt://127.0.0.1:{}\"\nreconnect_min = \"1s\"\nreconnect_max = \"2s\"",
            broker.port()
        );
        Self::beside(broker, test, clock, |_| uplink)
    }

    /// Beside this broker; `uplink` gets the folder for files of its own.
    fn beside(
        broker: ScriptedBroker,
        test: &str,
        clock: &str,
        uplink: impl FnOnce(&TempDir) -> String,
    ) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("tidegate.toml");
        let input = free_port();
        let uplink = uplink(&folder);
        let text = format!(
            "[gateway]\nid = \"gw\"\ndata_dir = \"{}/data\"\n[clock]\nreference = \"kernel\"\n\
             {clock}\n[http]\nlisten = \"\"\n[journal]\ncommit_interval = \"10ms\"\n[[uplink]]\n\
             {uplink}\n[[source]]\nname = \"in\"\ntype = \"listen\"\n\
             address = \"127.0.0.1:{input}\"\nacknowledge = true\n",
            folder.path().display(),
        );
        std::fs::write(&config, text).unwrap();
        let clock = FakeClock::build(folder.path(), test)?;
        Some(Self { folder, clock, broker, config, input, running: None })
    }

    /// A simulated PLC with the gateway's own times beside the `listen` source.
    fn add_simulated(&self, name: &str, rate_per_s: u64) {
        let mut file = std::fs::OpenOptions::new().append(true).open(&self.config).unwrap();
        write!(
            file,
            "[[source]]\nname = \"{name}\"\ntype = \"simulate\"\nrate = {rate_per_s}.0\n\
             [source.time]\ntrust = \"gateway\"\n"
        )
        .unwrap();
    }

    /// A window of whole seconds over one source.
    fn add_window(&self, name: &str, source: &str) {
        let mut file = std::fs::OpenOptions::new().append(true).open(&self.config).unwrap();
        write!(
            file,
            "[[window]]\nname = \"{name}\"\nsources = [\"{source}\"]\nkind = \"tumbling\"\n\
             size = \"1s\"\nbound = \"0s\"\nallowed_lateness = \"0s\"\nidle_after = \"1h\"\n\
             aggregates = [\"count\"]\n"
        )
        .unwrap();
    }

    fn run(&mut self) {
        self.running = Some(self.clock.agent(&self.config, &self.folder.path().join("log")));
        self.status();
    }

    fn kill(&mut self) {
        self.running.take().unwrap().kill();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn status(&self) -> Value {
        process::status(&self.config)
    }

    fn wait_for_status(&self, fact: &str, is_so: impl Fn(&Value) -> bool) {
        process::wait(fact, || is_so(&self.status()));
    }

    /// Until the agent has looked at the clock and calls it so.
    fn wait_for_state(&self, state: &str) {
        self.wait_for_status(state, |status| status["clock"]["state"] == state);
    }

    /// One reading with this number and no time of its own; durable on return.
    fn send(&self, number: u64) -> Sent {
        self.send_line(&format!("{{\"entity\":\"e\",\"property\":\"n\",\"value\":{number}}}\n"))
    }

    /// One reading with the time that its device gave it, in milliseconds.
    fn send_at(&self, number: u64, at_ms: i64) {
        self.send_line(&format!(
            "{{\"entity\":\"e\",\"property\":\"n\",\"value\":{number},\"time\":{at_ms}}}\n"
        ));
    }

    fn send_line(&self, line: &str) -> Sent {
        let mut stream = TcpStream::connect(("127.0.0.1", self.input)).unwrap();
        let before_ns = truth_ns();
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert_eq!(answer, "{\"acked\":1}\n");
        Sent { before_ns, after_ns: truth_ns() }
    }

    async fn wait(&self, is_so: impl Fn(&Log) -> bool) {
        self.broker.wait_for(is_so, crate::agent::DEADLINE).await;
    }

    /// The reading with this number, once it has arrived.
    async fn received(&self, number: u64) -> Value {
        self.wait(|log| reading(log, number).is_some()).await;
        reading(&self.broker.log(), number).unwrap()
    }

    /// The link is lost and does not come back.
    fn cut(&self) {
        self.broker.refuse(true);
        self.broker.close_all();
        self.wait_for_status("the uplink is down", |status| status["uplink"]["state"] != "up");
    }
}

impl Sent {
    /// Whether `event_ns` is within `error_ns` of the truth, `ahead_ns` of ours.
    #[track_caller]
    fn assert_near(self, event_ns: i64, error_ns: i64) {
        let is_near = event_ns + error_ns >= self.before_ns && event_ns - error_ns <= self.after_ns;
        assert!(is_near, "{event_ns} within {error_ns} of {self:?}");
    }
}

/// What arrived on `tidegate/gw/{topic}`, each once, in the order of first sight.
fn seen(log: &Log, topic: &str) -> Vec<Value> {
    let topic = format!("tidegate/gw/{topic}");
    let of_topic = log.publishes.iter().filter(|publish| publish.topic == topic);
    let mut seen: Vec<Value> = Vec::new();
    for value in of_topic.map(crate::support::broker::SeenPublish::json) {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn reading(log: &Log, number: u64) -> Option<Value> {
    seen(log, "readings/in").into_iter().find(|reading| reading["value"] == number)
}

/// The wire's time as nanoseconds since the UNIX epoch, by another library.
fn ns(time: &Value) -> i64 {
    let time = chrono::DateTime::parse_from_rfc3339(time.as_str().unwrap()).unwrap();
    time.timestamp_nanos_opt().unwrap()
}

/// The wire's bound in nanoseconds.
fn max_error_ns(of: &Value) -> i64 {
    of["max_error_us"].as_i64().unwrap() * 1_000
}
