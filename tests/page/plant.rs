//! A real agent with a page, beside a scripted broker.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use super::support::broker::ScriptedBroker;
use super::support::process::{Process, agent, free_port, wait};
use super::support::script::Script;

/// A name that is trouble for whoever reads it as HTML.
pub(crate) const HOSTILE: &str = "<img src=x onerror=globalThis.struck=1>";

pub(crate) struct Plant {
    folder: TempDir,
    broker: ScriptedBroker,
    config: PathBuf,
    input: u16,
    http: u16,
    running: Option<Process>,
}

impl Plant {
    /// An agent that runs, with one source of lines, one window of ten seconds and
    /// these keys of `[http]`.
    pub(crate) async fn start(http_keys: &str) -> Self {
        Self::start_with(http_keys, "").await
    }

    /// The same with more sources and windows.
    pub(crate) async fn start_with(http_keys: &str, more: &str) -> Self {
        let broker = ScriptedBroker::start(Script::default()).await;
        let folder = tempfile::tempdir().unwrap();
        let (input, http) = (free_port(), free_port());
        let config = folder.path().join("tidegate.toml");
        let text = format!(
            "[gateway]\nid = \"gw-07\"\ndata_dir = \"{}/data\"\n\
             [clock]\nhold_unsynchronized = \"0s\"\n\
             [journal]\ncommit_interval = \"50ms\"\n\
             [http]\nlisten = \"127.0.0.1:{http}\"\n{http_keys}\n\
             [[uplink]]\nname = \"main\"\nurl = \"mqtt://127.0.0.1:{}\"\nreconnect_max = \"1s\"\n\
             [[source]]\nname = \"press-line\"\ntype = \"listen\"\n\
             address = \"127.0.0.1:{input}\"\nacknowledge = true\n\
             [[window]]\nname = \"pressure-10s\"\nkind = \"tumbling\"\nsize = \"10s\"\n\
             bound = \"5s\"\nallowed_lateness = \"30s\"\nexpected_interval = \"1s\"\n\
             idle_after = \"1h\"\n{more}",
            folder.path().display(),
            broker.port()
        );
        std::fs::write(&config, text).unwrap();
        let mut plant = Self { folder, broker, config, input, http, running: None };
        plant.run();
        plant
    }

    pub(crate) fn run(&mut self) {
        self.running = Some(agent(&self.config, &self.folder.path().join("log")));
        wait("the agent listens", || TcpStream::connect(("127.0.0.1", self.http)).is_ok());
        wait("the source listens", || TcpStream::connect(("127.0.0.1", self.input)).is_ok());
    }

    pub(crate) fn kill(&mut self) {
        self.running.take().unwrap().kill();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.http)
    }

    /// Hands lines in and waits until all are durable, or in quarantine.
    pub(crate) fn feed(&self, lines: &[String]) {
        self.feed_to(self.input, lines);
    }

    /// The same at the port of another source.
    pub(crate) fn feed_to(&self, port: u16, lines: &[String]) {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
        let mut answers = BufReader::new(stream).lines();
        let all = format!("{{\"acked\":{}}}", lines.len());
        while answers.next().unwrap().unwrap() != all {}
    }

    /// The broker closes every connection and takes no new one, or takes them again.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.broker.refuse(is_cut);
        if is_cut {
            self.broker.close_all();
        }
    }

    /// What the API says.
    pub(crate) fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let answer = std::io::read_to_string(stream).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200"), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    pub(crate) fn status(&self) -> Value {
        self.get("/api/v1/status")
    }

    /// Waits until the status is as wanted.
    pub(crate) fn wait(&self, fact: &str, is_so: impl Fn(&Value) -> bool) {
        wait(fact, || is_so(&self.status()));
    }
}

/// A reading a second of each entity, in these seconds after ten o'clock of a day gone by.
pub(crate) fn readings(entities: &[&str], seconds: std::ops::Range<u32>) -> Vec<String> {
    let line = |entity: &str, second: u32| {
        let value = 400.0 + f64::from(second * 37 % 50) / 4.0;
        let (minute, second) = (second / 60, second % 60);
        format!(
            "{{\"entity\":\"{entity}\",\"property\":\"pressure_kpa\",\"value\":{value},\
             \"unit\":\"<b>kPa</b>\",\"time\":\"2025-06-01T10:{minute:02}:{second:02}Z\"}}"
        )
    };
    seconds.flat_map(|second| entities.iter().map(move |entity| line(entity, second))).collect()
}
