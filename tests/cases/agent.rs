//! A real agent beside a scripted broker, for the cases of this area.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::broker::{Log, ScriptedBroker};
use crate::support::feeder::Feeder;
use crate::support::limit::MemoryLimit;
use crate::support::process::{self, Process, free_port};
use crate::support::script::Script;
use crate::support::shim::{BadDisk, FakeClock, VolatileDisk};

/// Far beyond what anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

pub(crate) struct Plant {
    folder: TempDir,
    pub(crate) broker: ScriptedBroker,
    pub(crate) config: PathBuf,
    ports: BTreeMap<String, u16>,
    running: Option<Process>,
}

impl Plant {
    /// A broker, and an agent with these `listen` sources that runs.
    pub(crate) async fn start(script: Script, uplink: &str, sources: &[&str]) -> Self {
        let sources: Vec<_> = sources.iter().map(|name| (*name, "")).collect();
        let mut plant = Self::new(script, uplink, &sources).await;
        plant.run();
        plant
    }

    /// The same with an agent that does not run yet; each source has a name and
    /// keys, sections of its own included.
    pub(crate) async fn new(script: Script, uplink: &str, sources: &[(&str, &str)]) -> Self {
        let broker = ScriptedBroker::start(script).await;
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("tidegate.toml");
        let mut text = format!(
            "[gateway]\nid = \"gw\"\ndata_dir = \"{}/data\"\n[clock]\nhold_unsynchronized = \"0s\"\n\
             [http]\nlisten = \"\"\n[journal]\n\
             commit_interval = \"50ms\"\n[[uplink]]\nurl = \"mqtt://127.0.0.1:{}\"\n\
             reconnect_max = \"1s\"\n{uplink}\n",
            folder.path().display(),
            broker.port()
        );
        let mut ports = BTreeMap::new();
        for (source, keys) in sources {
            let port = free_port();
            ports.insert((*source).to_owned(), port);
            let _ = write!(
                text,
                "[[source]]\nname = \"{source}\"\ntype = \"listen\"\n\
                 address = \"127.0.0.1:{port}\"\nacknowledge = true\n{keys}\n"
            );
        }
        std::fs::write(&config, text).unwrap();
        Self { folder, broker, config, ports, running: None }
    }

    /// Adds sections to the configuration.
    pub(crate) fn configure(&self, sections: &str) {
        let text = std::fs::read_to_string(&self.config).unwrap();
        std::fs::write(&self.config, format!("{text}{sections}\n")).unwrap();
    }

    /// Changes the configuration.
    pub(crate) fn rewrite(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(&self.config).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&self.config, text.replace(from, to)).unwrap();
    }

    /// Runs a command with this configuration: its exit code and what it says.
    pub(crate) fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(arguments)
            .arg("-c")
            .arg(&self.config)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    /// The same where the exit code is known.
    pub(crate) fn say(&self, arguments: &[&str], code: i32) -> String {
        let (ended, said) = self.command(arguments);
        assert_eq!(ended, Some(code), "{arguments:?}: {said}");
        said
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn run(&mut self) {
        self.running = Some(process::agent(&self.config, &self.folder.path().join("log")));
    }

    /// Runs it under a clock of the test's own.
    pub(crate) fn run_under(&mut self, clock: &FakeClock) {
        self.running = Some(clock.agent(&self.config, &self.folder.path().join("log")));
    }

    /// Runs it on a disk that can be made bad.
    pub(crate) fn run_on(&mut self, disk: &BadDisk) {
        self.running = Some(disk.agent(&self.config, &self.folder.path().join("log")));
    }

    /// Runs it on a disk whose page cache a power cut takes.
    pub(crate) fn run_on_volatile(&mut self, disk: &VolatileDisk) {
        self.running = Some(disk.agent(&self.config, &self.folder.path().join("log")));
    }

    /// Runs it with so much memory and no more.
    pub(crate) fn run_within(&mut self, limit: &MemoryLimit) {
        self.running = Some(limit.agent(&self.config, &self.folder.path().join("log")));
    }

    /// Waits until it ends by itself; the exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.running.take().unwrap().ended()
    }

    pub(crate) fn kill(&mut self) {
        self.running.take().unwrap().kill();
    }

    /// Sends a signal, as `-TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        self.running.as_ref().unwrap().signal(signal);
    }

    /// SIGTERM; the exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.running.take().unwrap().stop()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub(crate) fn feed(&self, source: &str, count: u64) -> Feeder {
        Feeder::start(self.ports[source], source, count)
    }

    /// Feeds readings of `entity`, each with an id of so many characters.
    pub(crate) fn feed_heavy(
        &self,
        source: &str,
        entity: &str,
        count: u64,
        id_chars: usize,
    ) -> Feeder {
        Feeder::heavy(self.ports[source], entity, count, id_chars)
    }

    /// A connection of one's own, once the agent listens.
    pub(crate) fn connect(&self, source: &str) -> TcpStream {
        self.status();
        TcpStream::connect(("127.0.0.1", self.ports[source])).unwrap()
    }

    /// What the kernel says of the running agent: `/proc/PID/` and `file`.
    pub(crate) fn kernel_says(&self, file: &str, key: &str) -> u64 {
        let pid = self.running.as_ref().unwrap().0.id();
        let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// A page of the agent's own HTTP, over its socket.
    pub(crate) fn page(&self, path: &str) -> String {
        let socket = self.folder().join("data/control.sock");
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let answer = std::io::read_to_string(stream).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    pub(crate) fn status(&self) -> Value {
        process::status(&self.config)
    }

    /// The broker closes every connection and takes no new one; returns when the
    /// agent knows.
    pub(crate) fn cut_off(&self) {
        self.broker.refuse(true);
        self.wait_for_status("the uplink is down", |status| {
            // Again, for one that was just being taken.
            self.broker.close_all();
            let log = self.broker.log();
            status["uplink"]["state"] == "down" && log.closed.len() == log.accepted
        });
    }

    /// What the agent serves at this path on its socket.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = UnixStream::connect(self.folder().join("data/control.sock")).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let answer = std::io::read_to_string(stream).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200"), "{answer}");
        body.to_owned()
    }

    /// The process id of the running agent.
    pub(crate) fn pid(&self) -> u32 {
        self.running.as_ref().unwrap().0.id()
    }

    /// Waits until the status is as wanted.
    pub(crate) fn wait_for_status(&self, fact: &str, is_so: impl Fn(&Value) -> bool) {
        process::wait(fact, || is_so(&self.status()));
    }

    pub(crate) async fn wait(&self, is_so: impl Fn(&Log) -> bool) {
        self.broker.wait_for(is_so, DEADLINE).await;
    }
}

/// The numbers of one source's readings, as they appeared on the wire.
pub(crate) fn numbers(log: &Log, source: &str) -> Vec<u64> {
    let topic = format!("tidegate/gw/readings/{source}");
    let of_source = log.publishes.iter().filter(|publish| publish.topic == topic);
    of_source.filter_map(|publish| publish.json()["value"].as_u64()).collect()
}

/// Without repeats, in the order of first appearance.
pub(crate) fn first_seen(log: &Log, source: &str) -> Vec<u64> {
    let mut seen = std::collections::BTreeSet::new();
    numbers(log, source).into_iter().filter(|number| seen.insert(*number)).collect()
}
