//! The real binary and a real Mosquitto, each in a process of its own.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A free port, as far as one can know.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn mosquitto_path() -> Option<PathBuf> {
    ["/usr/sbin/mosquitto", "/usr/bin/mosquitto", "/usr/local/sbin/mosquitto"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
}

/// Whether a test that needs Mosquitto can run. Where it must be there
/// (`TIDEGATE_REQUIRE_MOSQUITTO`), a missing one is a failure.
pub(crate) fn has_mosquitto(test: &str) -> bool {
    let is_there = mosquitto_path().is_some();
    #[expect(clippy::disallowed_methods, reason = "CI says that a skip is a failure")]
    let is_required = std::env::var_os("TIDEGATE_REQUIRE_MOSQUITTO").is_some();
    assert!(is_there || !is_required, "mosquitto is required and not installed");
    if !is_there {
        skip(test);
    }
    is_there
}

/// Whether that Mosquitto takes MQTT over WebSocket: some builds do not.
pub(crate) fn has_websockets(test: &str) -> bool {
    if !has_mosquitto(test) {
        return false;
    }
    let program = std::fs::read(mosquitto_path().unwrap()).unwrap();
    let name = b"libwebsockets";
    let is_there = program.windows(name.len()).any(|bytes| bytes == name);
    if !is_there {
        skip(test);
    }
    is_there
}

#[expect(clippy::print_stdout, reason = "a skip is said, not silent")]
fn skip(test: &str) {
    println!("{test}: skipped, mosquitto is not installed");
}

/// A process that is killed when dropped.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// SIGTERM, then the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        self.0.wait().unwrap().code()
    }

    /// Waits until it ends by itself; the exit code.
    pub(crate) fn ended(mut self) -> Option<i32> {
        let mut code = None;
        wait("the process ends", || {
            let status = self.0.try_wait().unwrap();
            code = status.map(|status| status.code());
            code.is_some()
        });
        code.flatten()
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Mosquitto with a memory that survives a restart.
pub(crate) struct Mosquitto {
    pub(crate) port: u16,
    config: PathBuf,
    process: Option<Process>,
}

impl Mosquitto {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_with(folder, "")
    }

    /// With more listeners than the plain one of `port`.
    pub(crate) fn start_with(folder: &Path, listeners: &str) -> Self {
        let port = free_port();
        let config = folder.join("mosquitto.conf");
        let text = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\n\
             persistence_location {}/\nmax_queued_messages 0\nmax_inflight_messages 0\nuser root\n\
             {listeners}",
            folder.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut broker = Self { port, config, process: None };
        broker.up();
        broker
    }

    pub(crate) fn up(&mut self) {
        let child = Command::new(mosquitto_path().unwrap())
            .arg("-c")
            .arg(&self.config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.process = Some(Process(child));
        wait("mosquitto listens", || {
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    pub(crate) fn down(&mut self) {
        if let Some(process) = self.process.take() {
            process.stop();
        }
    }
}

/// The agent, run from a configuration file; its log is appended to `log`.
pub(crate) fn agent(config: &Path, log: &Path) -> Process {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "-c"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    Process(child)
}

/// Writes a configuration of one uplink and one acknowledging `listen` source.
pub(crate) fn configure(folder: &Path, broker: u16, input: u16, journal: &str) -> PathBuf {
    let path = folder.join("tidegate.toml");
    let mut file = std::fs::File::create(&path).unwrap();
    write!(
        file,
        "[gateway]\nid = \"gw\"\ndata_dir = \"{}/data\"\n[clock]\nhold_unsynchronized = \"0s\"\n\
         [http]\nlisten = \"\"\n\
         [journal]\n{journal}\n[[uplink]]\nurl = \"mqtt://127.0.0.1:{broker}\"\n\
         reconnect_min = \"1s\"\nreconnect_max = \"1s\"\n[[source]]\nname = \"in\"\n\
         type = \"listen\"\naddress = \"127.0.0.1:{input}\"\nacknowledge = true\n",
        folder.display()
    )
    .unwrap();
    path
}

/// The status as JSON, once the agent answers.
pub(crate) fn status(config: &Path) -> serde_json::Value {
    let mut found = None;
    wait("the agent answers", || {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["status", "--json", "-c"])
            .arg(config)
            .output()
            .unwrap();
        found = serde_json::from_slice(&output.stdout).ok();
        found.is_some()
    });
    found.unwrap()
}

/// Waits for a fact, with a deadline far beyond what it takes.
pub(crate) fn wait(fact: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..9_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("waited in vain: {fact}");
}
