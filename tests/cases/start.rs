//! Field cases of the start: what is not there yet, signals that come early, and what
//! the run before left behind.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::{DEADLINE, Plant, first_seen};
use crate::support::process::{free_port, wait};
use crate::support::script::Script;

/// Of the block for documentation: no machine has it.
const NOWHERE: &str = "192.0.2.7:7000";

fn listen(name: &str, address: &str) -> String {
    format!(
        "[[source]]\nname = \"{name}\"\ntype = \"listen\"\naddress = \"{address}\"\n\
         acknowledge = true\n"
    )
}

/// Sends one reading; whether its receipt came.
fn takes_a_reading(port: u16) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    writeln!(stream, "{{\"entity\":\"e\",\"property\":\"n\",\"value\":1}}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer == "{\"acked\":1}\n"
}

fn health<'a>(status: &'a Value, source: &str) -> &'a Value {
    let sources = status["sources"].as_array().unwrap();
    &sources.iter().find(|one| one["name"] == source).unwrap()["health"]
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Waits until the process has taken over the signal of that number.
fn wait_for_handler(plant: &Plant, signal: u32) {
    let path = format!("/proc/{}/status", plant.pid());
    wait("the signal has a handler", || {
        let text = std::fs::read_to_string(&path).unwrap();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (signal - 1) != 0
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_not_to_be_had_is_waited_for_and_keeps_no_other_source() {
    let mut plant = Plant::new(Script::default(), "", &[("here", "")]).await;
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = foreign.local_addr().unwrap();
    plant.configure(&listen("away", NOWHERE));
    plant.configure(&listen("taken", &taken.to_string()));
    plant.run();
    plant.feed("here", 10).join();
    plant.wait_for_status("it says what it lacks", |status| {
        ["away", "taken"].iter().all(|source| health(status, source)["state"] == "down")
    });
    let status = plant.status();
    assert_eq!(health(&status, "here")["state"], "up");
    let away = format!("cannot listen on {NOWHERE}: Cannot assign requested address (os error 99)");
    assert_eq!(health(&status, "away")["detail"], away);
    let held = format!("cannot listen on {taken}: Address already in use (os error 98)");
    assert_eq!(health(&status, "taken")["detail"], held);
    assert!(health(&status, "taken")["retry_in_s"].is_number());
    let trouble = status["degraded"].as_array().unwrap();
    assert_eq!(trouble.iter().filter(|one| one["code"] == "source_down").count(), 2);

    drop(foreign);
    plant.wait_for_status("it has its address", |status| health(status, "taken")["state"] == "up");
    assert!(takes_a_reading(taken.port()));
    let log = plant.log();
    for source in ["away", "taken"] {
        let said = format!("a source is down: source={source} ");
        assert_eq!(log.matches(&said).count(), 1, "{log}");
    }
    assert!(log.contains("a source is up again: source=taken "), "{log}");
    assert_eq!(plant.stop(), Some(0), "one that waits stops too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_in_a_folder_that_is_made_later_is_bound_then() {
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    let folder = plant.folder().join("run");
    let path = folder.join("in.sock");
    plant.configure(&listen("in", &format!("unix:{}", path.display())));
    plant.run();
    plant.wait_for_status("it lacks its folder", |status| health(status, "in")["state"] == "down");
    std::fs::create_dir(&folder).unwrap();
    plant.wait_for_status("it listens", |status| health(status, "in")["state"] == "up");
    std::os::unix::net::UnixStream::connect(&path).unwrap();
    assert_eq!(plant.stop(), Some(0));
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_an_agent_whose_configuration_cannot_be_read() {
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    std::fs::remove_file(&plant.config).unwrap();
    // Read like a file on a disk that does not answer: for ever.
    fifo(&plant.config);
    plant.run();
    wait_for_handler(&plant, 15);
    plant.signal("-TERM");
    assert_eq!(plant.ended(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_in_the_middle_of_a_recovery_ends_the_agent_and_harms_no_journal() {
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    plant.broker.refuse(true);
    plant.run();
    plant.feed("in", 100).join();
    plant.kill();
    let journal = plant.folder().join("data/journal");
    let manifest = journal.join("MANIFEST");
    let aside = plant.folder().join("manifest");
    std::fs::rename(&manifest, &aside).unwrap();
    fifo(&manifest);
    for signals in [1, 2] {
        plant.run();
        wait_for_handler(&plant, 15);
        let pid = format!("process {} ", plant.pid());
        let lock = plant.folder().join("data/LOCK");
        wait("the data directory is claimed", || {
            std::fs::read_to_string(&lock).unwrap().starts_with(&pid)
        });
        (0..signals).for_each(|_| plant.signal("-TERM"));
        assert_eq!(plant.ended(), Some(0), "{}", plant.log());
    }
    let log = plant.log();
    assert!(log.contains("stopping: the start is not done yet"), "{log}");
    std::fs::rename(&aside, &manifest).unwrap();
    plant.broker.refuse(false);
    plant.run();
    plant.wait(|log| first_seen(log, "in").len() == 100).await;
    assert_eq!(plant.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sighup_that_comes_before_all_is_set_up_reads_the_configuration_then() {
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    let first = std::fs::read_to_string(&plant.config).unwrap();
    std::fs::remove_file(&plant.config).unwrap();
    fifo(&plant.config);
    plant.run();
    wait_for_handler(&plant, 1);
    // Opened once the agent reads at the other end.
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&plant.config).unwrap();
    plant.signal("-HUP");
    let port = free_port();
    let second = plant.folder().join("second.toml");
    let added = listen("late", &format!("127.0.0.1:{port}"));
    std::fs::write(&second, format!("{first}{added}")).unwrap();
    std::fs::rename(&second, &plant.config).unwrap();
    pipe.write_all(first.as_bytes()).unwrap();
    drop(pipe);
    plant.wait_for_status("it is read again", |status| {
        let told = &status["config"]["last_reload"];
        told["ok"] == true && told["detail"] == "sources added: late"
    });
    assert!(takes_a_reading(port));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_cut_short_is_said_at_the_next_start_and_an_orderly_stop_is_not() {
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    plant.broker.refuse(true);
    plant.run();
    plant.feed("in", 10).join();
    let mode = std::fs::metadata(plant.folder().join("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "readings are the owner's alone");
    plant.kill();
    assert!(!plant.log().contains("did not stop cleanly"), "the first start: {}", plant.log());
    plant.run();
    plant.status();
    let said = "the last run did not stop cleanly: 10 readings found, 0 damaged";
    assert_eq!(plant.log().matches(said).count(), 1, "{}", plant.log());
    assert_eq!(plant.stop(), Some(0));
    let log = plant.log();
    assert!(log.contains("stopped: all synced, 10 wait for the broker\n"), "{log}");
    plant.run();
    plant.status();
    assert_eq!(plant.log().matches("did not stop cleanly").count(), 1, "{}", plant.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_it_from_starting_names_its_key_and_the_way_out() {
    let plant = Plant::new(Script::default(), "", &[]).await;
    let file = plant.folder().join("file");
    std::fs::write(&file, "").unwrap();
    let good = std::fs::read_to_string(&plant.config).unwrap();
    let beneath = file.join("data");
    plant.rewrite(&format!("{}/data", plant.folder().display()), beneath.to_str().unwrap());
    let said = plant.say(&["run"], 74);
    let expected = format!(
        "tidegate: gateway.data_dir: {} cannot be made ({} is a file, and no folder): mend that, or \
         set another\n",
        beneath.display(),
        file.display()
    );
    assert_eq!(said, expected);

    std::fs::write(&plant.config, good).unwrap();
    let token = plant.folder().join("token");
    let with_token =
        format!("[http]\nlisten = \"127.0.0.1:{}\"\ntoken_file = {}", free_port(), json!(token));
    plant.rewrite("[http]\nlisten = \"\"", &with_token);
    let said = plant.say(&["run"], 78);
    assert!(said.contains("http.token_file: ") && said.contains("openssl rand"), "{said}");
}
