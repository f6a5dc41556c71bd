//! A data directory that is put back to an older copy: what it numbers again
//! must not be taken for what left before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::support::feeder::Feeder;
use crate::support::process::{
    Mosquitto, Process, agent, configure, free_port, has_mosquitto, status, wait,
};
use crate::support::subscriber::{Inbox, subscribe};

/// An agent beside Mosquitto, and a consumer that finds out what is confused.
struct Site {
    folder: TempDir,
    broker: Mosquitto,
    inbox: Arc<Mutex<Inbox>>,
    config: PathBuf,
    input: u16,
}

impl Site {
    fn new(protocol: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let broker = Mosquitto::start(folder.path());
        let inbox = subscribe(broker.port);
        let input = free_port();
        let config = configure(folder.path(), broker.port, input, "commit_interval = \"50ms\"");
        let text = std::fs::read_to_string(&config).unwrap();
        let keys =
            format!("[[uplink]]\nprotocol = \"{protocol}\"\nfrontier_interval = \"100ms\"\n");
        std::fs::write(&config, text.replace("[[uplink]]\n", &keys)).unwrap();
        Self { folder, broker, inbox, config, input }
    }

    fn run(&self) -> Process {
        agent(&self.config, &self.folder.path().join("log"))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn feed(&self, entity: &str, count: u64) {
        Feeder::start(self.input, entity, count).join();
    }

    fn wait_for(&self, entity: &str, count: u64) {
        let arrived = || self.inbox.lock().unwrap().numbers(entity).len() as u64;
        wait(&format!("{count} of {entity} have arrived"), || arrived() == count);
    }

    /// Waits until the broker retains that the source is so far.
    fn wait_for_frontier(&self, through_seq: u64) {
        let newest = || {
            let inbox = self.inbox.lock().unwrap();
            inbox.frontiers.last().and_then(|frontier| frontier["through_seq"].as_u64())
        };
        wait(&format!("the frontier is at {through_seq}"), || newest() == Some(through_seq));
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn backup(&self) -> PathBuf {
        self.folder.path().join("backup")
    }

    fn put_back(&self) {
        std::fs::remove_dir_all(self.data()).unwrap();
        copy(&self.backup(), &self.data());
    }

    /// The epochs that one entity's readings came under.
    fn epochs(&self, entity: &str) -> BTreeSet<String> {
        let inbox = self.inbox.lock().unwrap();
        let of = inbox.readings.iter().filter(|(_, (of, _, _))| of == entity);
        of.map(|((_, epoch, _), _)| epoch.clone()).collect()
    }
}

/// Files and folders; sockets are left out, as a backup does.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Copied at 150 readings, 100 of them sent; 300 sent; stopped; put back.
fn restored(protocol: &str, starts_online: bool) {
    let mut site = Site::new(protocol);
    let running = site.run();
    site.feed("sent", 100);
    site.wait_for("sent", 100);
    site.wait_for_frontier(100);
    site.broker.down();
    site.feed("waiting", 50);
    copy(&site.data(), &site.backup());
    site.broker.up();
    site.wait_for("waiting", 50);
    site.feed("more", 150);
    site.wait_for("more", 150);
    site.wait_for_frontier(300);
    assert_eq!(running.stop(), Some(0));

    site.put_back();
    if !starts_online {
        site.broker.down();
    }
    let running = site.run();
    site.feed("first", 200);
    if !starts_online {
        site.broker.up();
    }
    site.wait_for("first", 200);
    let log = site.log();
    assert!(log.contains("a new numbering begins"), "{log}");
    assert!(log.contains("which this disk never gave: it is an older copy"), "{log}");
    site.feed("second", 100);
    site.wait_for("second", 100);
    wait("nothing waits", || status(&site.config)["uplink"]["backlog"] == 0);
    assert_eq!(running.stop(), Some(0));

    // The next start finds its own numbering and goes on with it.
    let running = site.run();
    site.feed("third", 100);
    site.wait_for("third", 100);
    assert_eq!(running.stop(), Some(0));
    let [old, new] = [site.epochs("sent"), site.epochs("first")];
    assert_eq!((old.len(), new.len()), (1, 1));
    assert_ne!(old, new);
    assert_eq!((site.epochs("more"), site.epochs("second")), (old, new.clone()));
    assert_eq!(site.epochs("third"), new);
    let inbox = site.inbox.lock().unwrap();
    assert_eq!(inbox.confused, [], "two contents under one key");
    assert_eq!(inbox.holes(), []);
    assert_eq!(inbox.gaps, [] as [serde_json::Value; 0]);
}

#[test]
fn a_copy_put_back_starts_another_epoch_before_anything_is_sent() {
    if has_mosquitto("restored online") {
        restored("5", true);
    }
}

#[test]
fn a_copy_put_back_that_collects_before_the_broker_is_there_does_too() {
    if has_mosquitto("restored offline") {
        restored("5", false);
    }
}

#[test]
fn a_copy_put_back_is_known_over_mqtt_3_1_1() {
    if has_mosquitto("restored over MQTT 3.1.1") {
        restored("3.1.1", true);
        restored("3.1.1", false);
    }
}
