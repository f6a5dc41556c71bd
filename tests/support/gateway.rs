//! A running agent with something of everything, and a client that speaks plain HTTP
//! to it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::broker::ScriptedBroker;
use super::process::{Process, agent, free_port, wait};
use super::script::Script;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// `http.listen`.
    Address,
    /// `control.sock`.
    Control,
}

/// An answer, taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// The value of a line of the head.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// The agent and what it needs.
pub(crate) struct Gateway {
    folder: TempDir,
    broker: ScriptedBroker,
    http: u16,
    _running: Process,
}

impl Gateway {
    /// An agent with a source `posted` of type `http`, a window `pressure-10s`, an
    /// output of readings in order, and these keys of `[http]`.
    pub(crate) async fn start(http_keys: &str) -> Self {
        let broker = ScriptedBroker::start(Script::default()).await;
        let folder = tempfile::tempdir().unwrap();
        let http = free_port();
        let config = folder.path().join("tidegate.toml");
        let place = folder.path().display();
        let text = format!(
            "[gateway]\nid = \"gw-07\"\ndata_dir = \"{place}/data\"\n\
             [clock]\nhold_unsynchronized = \"0s\"\n\
             [journal]\ncommit_interval = \"50ms\"\n\
             [http]\nlisten = \"127.0.0.1:{http}\"\n{http_keys}\n\
             [[uplink]]\nname = \"main\"\nurl = \"mqtt://127.0.0.1:{}\"\nreconnect_max = \"1s\"\n\
             [[source]]\nname = \"posted\"\ntype = \"http\"\nmax_body = \"64KiB\"\n\
             [[window]]\nname = \"pressure-10s\"\nkind = \"tumbling\"\nsize = \"10s\"\n\
             bound = \"5s\"\nallowed_lateness = \"30s\"\nexpected_interval = \"1s\"\n\
             idle_after = \"1s\"\n\
             aggregates = [\"count\", \"sum\", \"mean\", \"min\", \"max\", \"first\", \"last\", \
             \"range\", \"stddev\", \"twa\", \"p50\", \"p95\", \"p99\", \"rate\"]\n\
             [[output]]\ntype = \"jsonl\"\npath = \"{place}/out.jsonl\"\nordered_readings = true\n",
            broker.port()
        );
        std::fs::write(&config, text).unwrap();
        let running = agent(&config, &folder.path().join("log"));
        let gateway = Self { folder, broker, http, _running: running };
        wait("the agent listens", || TcpStream::connect(("127.0.0.1", http)).is_ok());
        gateway.wait_for_source();
        gateway
    }

    /// The source opens when the address has been open for a moment.
    fn wait_for_source(&self) {
        wait("the control socket is there", || self.data_dir().join("control.sock").exists());
        wait("the source takes readings", || {
            self.post(Door::Control, "/api/v1/readings", "", "").status == 200
        });
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.http
    }

    /// The broker closes every connection and takes no new one.
    pub(crate) fn cut(&self) {
        self.broker.refuse(true);
        self.broker.close_all();
    }

    pub(crate) fn address(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.http)).unwrap()
    }

    fn control(&self) -> UnixStream {
        UnixStream::connect(self.data_dir().join("control.sock")).unwrap()
    }

    /// What comes for this request until the connection ends.
    pub(crate) fn exchange(&self, door: Door, request: &str) -> Answer {
        fn all(mut stream: impl Read + Write, request: &str) -> String {
            // A request that is refused may be left unread.
            let _ = stream.write_all(request.as_bytes());
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            String::from_utf8(bytes).unwrap()
        }
        Answer::of(&match door {
            Door::Address => all(self.address(), request),
            Door::Control => all(self.control(), request),
        })
    }

    pub(crate) fn ask(&self, door: Door, method: &str, target: &str, headers: &str) -> Answer {
        self.exchange(door, &format!("{method} {target} HTTP/1.0\r\n{headers}\r\n"))
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask(Door::Address, "GET", target, "")
    }

    pub(crate) fn post(&self, door: Door, target: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!("POST {target} HTTP/1.0\r\nContent-Length: {length}\r\n{headers}\r\n");
        self.exchange(door, &(head + body))
    }

    pub(crate) fn status(&self) -> Value {
        self.ask(Door::Control, "GET", "/api/v1/status", "").json()
    }

    /// The beginning of a stream, until `is_enough` of it has come.
    pub(crate) fn follow(&self, target: &str, is_enough: impl Fn(&str) -> bool) -> Answer {
        let mut stream = self.address();
        write!(stream, "GET {target} HTTP/1.0\r\n\r\n").unwrap();
        let (mut seen, mut piece) = (Vec::new(), [0; 4_096]);
        while !is_enough(&String::from_utf8_lossy(&seen)) {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "the stream ended: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..count]);
        }
        stream.shutdown(Shutdown::Both).unwrap();
        Answer::of(&String::from_utf8_lossy(&seen))
    }

    /// Hands in a story with something of everything: windows that are provisional,
    /// revised and final, a late reading, flags, composites, a refused line, a stamp
    /// from the future. All of it is durable, and told, when this comes back.
    pub(crate) fn tell_story(&self) {
        // Else, on a machine without a time server, nothing would bound the clock's
        // error, and nothing be in the future.
        let json = "Content-Type: application/json\r\n";
        let word = "{\"error_ns\":1000000}";
        let vouched = self.post(Door::Control, "/api/v1/clock/vouch", json, word);
        assert_eq!(vouched.status, 200, "{vouched:?}");
        let at = |second: u32, value: &str| {
            let (minute, second) = (second / 60, second % 60);
            format!(
                "{{\"entity\":\"pump-7\",\"property\":\"pressure_kpa\",\"unit\":\"kPa\",\
                 \"value\":{value},\"time\":\"2025-06-01T10:{minute:02}:{second:02}+01:00\"}}\n"
            )
        };
        let mut lines: String = (0..40).map(|second| at(second, "412.5")).collect();
        // A revision; then event time goes on until the first windows are gone.
        lines += &at(3, "400");
        lines += &at(90, "413.5");
        let taken = self.post(Door::Control, "/api/v1/readings", "", &lines);
        assert_eq!(taken.status, 200, "{taken:?}");
        let mut lines = at(5, "1");
        lines += "not JSON at all\n";
        lines += "{\"entity\":\"agv-3\",\"property\":\"pose\",\"value\":{\"x\":1.5,\"y\":2}}\n";
        lines += "{\"entity\":\"agv-3\",\"property\":\"door\",\"value\":\"open\",\"id\":\"A-17\",\
                  \"quality\":\"uncertain\",\"time\":\"2100-01-01T00:00:00Z\"}\n";
        let taken = self.post(Door::Control, "/api/v1/readings", "", &lines);
        assert_eq!(taken.status, 400, "{taken:?}");
        wait("the late reading is told", || self.status()["windows"][0]["too_late"] == 1);
        wait("the quarantine has the line", || {
            let list = self.ask(Door::Control, "GET", "/api/v1/quarantine", "").json();
            list["items"].as_array().is_some_and(|items| items.len() == 1)
        });
        wait("all is acknowledged", || self.status()["journal"]["readings"] == 0);
    }
}
