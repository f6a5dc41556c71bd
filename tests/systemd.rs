//! The unit of the package: what it must say, what it must never say, what
//! systemd makes of it; and what the agent tells systemd.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::broker::ScriptedBroker;
use support::process::wait;
use support::script::Script;

mod support;

const UNIT: &str = include_str!("../systemd/tidegate.service");

/// Section and key, and every value it is given.
fn unit() -> BTreeMap<(String, String), Vec<String>> {
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in UNIT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').unwrap().to_owned();
        } else {
            let (key, value) = line.split_once('=').unwrap();
            found.entry((section.clone(), key.to_owned())).or_default().push(value.to_owned());
        }
    }
    found
}

fn value(section: &str, key: &str) -> String {
    let values = unit().remove(&(section.to_owned(), key.to_owned())).unwrap_or_default();
    values.join(" ")
}

#[test]
fn the_agent_starts_without_network_and_clock() {
    assert_eq!(value("Unit", "After"), "network.target time-set.target");
    for key in ["Wants", "Requires", "BindsTo", "Requisite"] {
        assert_eq!(value("Unit", key), "", "{key}");
    }
}

#[test]
fn a_crash_restarts_for_ever_and_a_wrong_configuration_never() {
    assert_eq!(value("Service", "Restart"), "always");
    assert_eq!(value("Service", "RestartPreventExitStatus"), "2 78");
    assert_eq!(value("Service", "TimeoutStartSec"), "infinity");
    // Restarts alone must never use the limit up.
    assert_eq!(value("Service", "RestartSec"), "10s");
    assert_eq!(value("Unit", "StartLimitIntervalSec"), "5min");
    let starts: u32 = value("Unit", "StartLimitBurst").parse().unwrap();
    assert!(starts > 5 * 60 / 10, "{starts}");
}

/// Whoever reloads must not wait for a word that an older systemd does not know.
#[test]
fn a_reload_is_a_hang_up() {
    assert_eq!(value("Service", "Type"), "notify");
    assert_eq!(value("Service", "ExecReload"), "/bin/kill -HUP $MAINPID");
}

/// What would take the kernel's word on the clock away, or serial lines.
#[test]
fn the_sandbox_leaves_what_the_agent_needs() {
    for key in ["ProtectClock", "PrivateDevices", "PrivateNetwork", "ProcSubset", "DynamicUser"] {
        assert_eq!(value("Service", key), "", "{key}");
    }
    let filters = unit().remove(&("Service".into(), "SystemCallFilter".into())).unwrap();
    assert!(filters.iter().all(|filter| !filter.contains("@clock")), "{filters:?}");
    // After everything that takes it away.
    assert!(filters.last().unwrap().split(' ').any(|call| call == "adjtimex"), "{filters:?}");
    assert_eq!(value("Service", "CapabilityBoundingSet"), "");
    assert_eq!(value("Service", "SupplementaryGroups"), "dialout");
    assert_eq!(value("Service", "StateDirectory"), "tidegate");
}

#[test]
fn its_user_folder_and_program_are_those_of_the_package() {
    assert_eq!(value("Service", "User"), "tidegate");
    let command = value("Service", "ExecStart");
    assert_eq!(command, "/usr/bin/tidegate run -c /etc/tidegate/tidegate.toml");
    let packaged = include_str!("../packages/tidegate.toml");
    assert!(packaged.contains("data_dir = \"/var/lib/tidegate\""));
}

#[expect(clippy::print_stdout, reason = "a skip is said, not silent")]
fn has_systemd_analyze(test: &str) -> bool {
    let is_there = Path::new("/usr/bin/systemd-analyze").is_file();
    #[expect(clippy::disallowed_methods, reason = "CI says that a skip is a failure")]
    let is_required = std::env::var_os("TIDEGATE_REQUIRE_SYSTEMD").is_some();
    assert!(is_there || !is_required, "systemd-analyze is required and not installed");
    if !is_there {
        println!("{test}: skipped, systemd-analyze is not installed");
    }
    is_there
}

/// The verdict of `systemd-analyze` on a copy whose program and man page exist here.
fn analyze(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("tidegate.service");
    let here = UNIT
        .replace("ExecStart=/usr/bin/tidegate ", "ExecStart=/bin/sh ")
        .replace("Documentation=man:", "#Documentation=man:");
    std::fs::write(&copy, here).unwrap();
    let output = Command::new("systemd-analyze").args(arguments).arg(&copy).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "systemd-analyze {arguments:?}: {said}");
    said
}

#[test]
fn systemd_understands_every_line() {
    if has_systemd_analyze("systemd_understands_every_line") {
        let said = analyze(&["verify", "--man=no"]);
        assert!(!said.contains("tidegate.service"), "{said}");
    }
}

#[test]
fn systemd_finds_it_locked_up_well() {
    if has_systemd_analyze("systemd_finds_it_locked_up_well") {
        // Tenths: an exposure of 2.5 of 10.
        analyze(&["security", "--offline=true", "--threshold=25", "--no-pager"]);
    }
}

/// What the agent tells systemd, one line each.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn hears(&self) -> Vec<String> {
        let mut message = [0; 4096];
        let len = self.socket.recv(&mut message).unwrap();
        let text = String::from_utf8(message[..len].to_vec()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Everything up to the first `line`.
    fn hears_until(&self, line: &str) -> Vec<String> {
        let mut all = Vec::new();
        while !all.iter().any(|one| one == line) {
            all.extend(self.hears());
        }
        all
    }
}

/// A configuration of an agent that finds no broker.
fn config(folder: &Path) -> PathBuf {
    let config = folder.join("tidegate.toml");
    let text = format!(
        "[gateway]\nid = \"gw\"\ndata_dir = {:?}\n[[uplink]]\nurl = \"mqtt://127.0.0.1:9\"\n\
         [[source]]\nname = \"plc\"\ntype = \"simulate\"\n[http]\nlisten = \"\"\n",
        folder.join("data")
    );
    std::fs::write(&config, text).unwrap();
    config
}

fn manager(folder: &Path) -> (Manager, PathBuf) {
    let path = folder.join("notify");
    let manager = Manager { socket: UnixDatagram::bind(&path).unwrap() };
    manager.socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (manager, path)
}

/// What an agent writes, to its end, to a file whose device and inode `JOURNAL_STREAM`
/// names, plus so much. It has failed to connect once before it stops.
fn log_under_journal(beside: u64) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (manager, socket) = manager(folder.path());
    let path = folder.path().join("log");
    let log = std::fs::File::create(&path).unwrap();
    let about = log.metadata().unwrap();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "-c"])
        .arg(config(folder.path()))
        .env("NOTIFY_SOCKET", socket)
        .env("JOURNAL_STREAM", format!("{}:{}", about.dev(), about.ino() + beside))
        .stderr(log)
        .spawn()
        .unwrap();
    manager.hears_until("READY=1");
    wait("the uplink has failed", || {
        std::fs::read_to_string(&path).unwrap().contains("the uplink cannot connect")
    });
    let pid = agent.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(agent.wait().unwrap().code(), Some(0));
    std::fs::read_to_string(path).unwrap()
}

/// Where the journal has no socket, as in a container, lines carry their priorities.
#[test]
fn lines_for_the_journal_carry_their_priority_and_no_time() {
    if Path::new("/run/systemd/journal/socket").exists() {
        // They would go to the journal of this machine.
        return;
    }
    let log = log_under_journal(0);
    assert!(log.lines().all(|line| line.starts_with('<')), "{log}");
    assert!(log.contains("\n<4>the uplink cannot connect: uplink=main cause=network "), "{log}");
    assert!(log.contains("\n<6>stopping\n"), "{log}");
}

/// A child of a service inherits the variable, and its stderr is another file.
#[test]
fn lines_for_a_file_are_text_even_below_systemd() {
    let log = log_under_journal(1);
    assert!(log.lines().all(|line| line.starts_with("20")), "{log}");
    assert!(log.contains("Z INFO  stopping\n"), "{log}");
}

#[test]
fn systemd_hears_that_the_agent_is_ready_lives_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, path) = manager(folder.path());
    let config = config(folder.path());
    let mut agent = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "-c"])
        .arg(&config)
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "1000000")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();

    let before = manager.hears_until("READY=1");
    let mut alive = Vec::new();
    for _ in 0..3 {
        alive.extend(manager.hears_until("WATCHDOG=1"));
    }
    let pid = agent.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let before_reload = manager.hears_until("RELOADING=1");
    assert!(before_reload.last().unwrap().starts_with("MONOTONIC_USEC="), "{before_reload:?}");
    let reloaded = manager.hears_until("READY=1");
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let stopping = manager.hears_until("STOPPING=1");
    assert_eq!(agent.wait().unwrap().code(), Some(0));

    let all = [before, alive, before_reload, reloaded, stopping].concat();
    assert_eq!(all.iter().filter(|line| *line == "READY=1").count(), 2, "{all:?}");
    assert!(all.iter().any(|line| line.starts_with("STATUS=uplink down")), "{all:?}");
}

/// A configuration whose password is a credential.
fn with_password(folder: &Path, port: u16) -> std::path::PathBuf {
    let config = folder.join("tidegate.toml");
    let text = format!(
        "[gateway]\nid = \"gw\"\ndata_dir = {:?}\n[[uplink]]\nurl = \"mqtt://127.0.0.1:{port}\"\n\
         username = \"gw\"\npassword_file = \"credential:password\"\n\
         [[source]]\nname = \"plc\"\ntype = \"simulate\"\n[http]\nlisten = \"\"\n",
        folder.join("data")
    );
    std::fs::write(&config, text).unwrap();
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_may_come_from_systemd_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials");
    std::fs::create_dir(&credentials).unwrap();
    let broker = ScriptedBroker::start(Script::default()).await;
    let config = with_password(folder.path(), broker.port());
    let command = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg(name).arg("-c").arg(&config).env_remove("CREDENTIALS_DIRECTORY");
        command
    };
    let said = |mut command: Command| {
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, text) = said(command("check"));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("not looked for: password. systemd gives credentials to"), "{text}");
    let (code, text) = said(command("run"));
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("systemd has given no credentials to this process"), "{text}");
    // As a service of whose unit LoadCredential names another.
    for name in ["check", "run"] {
        let mut command = command(name);
        command.env("CREDENTIALS_DIRECTORY", &credentials);
        let (code, text) = said(command);
        assert_eq!(code, Some(78), "{text}");
        assert!(text.contains("systemd has given no credential \"password\" to this"), "{text}");
    }
    std::fs::write(credentials.join("password"), "secret of systemd\n").unwrap();
    let mut command = command("run");
    command.env("CREDENTIALS_DIRECTORY", &credentials).stderr(Stdio::null());
    let agent = support::process::Process(command.spawn().unwrap());
    broker.wait_for(|log| !log.connects.is_empty(), Duration::from_secs(60)).await;
    assert_eq!(broker.connects()[0].password.as_deref(), Some("secret of systemd"));
    assert_eq!(agent.stop(), Some(0));
}
