//! What is between the agent and a real Mosquitto: TLS with certificates on both
//! sides, and WebSocket.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use support::feeder::Feeder;
use support::pki::{self, Ca, Leaf};
use support::process::{Mosquitto, Process, agent, configure, free_port, has_mosquitto, status};
use support::process::{has_websockets, wait};
use support::subscriber::{Inbox, subscribe};

mod support;

/// A Mosquitto with one more listener, and an agent whose uplink goes there.
struct Plant {
    folder: tempfile::TempDir,
    broker: Mosquitto,
    inbox: Arc<Mutex<Inbox>>,
    input: u16,
    config: PathBuf,
    fed: u64,
}

impl Plant {
    /// `listener` are the lines of the listener, `uplink` the keys of the uplink, each
    /// of the folder and the listener's port.
    fn new(listener: impl Fn(&Path) -> String, uplink: impl Fn(&Path, u16) -> String) -> Plant {
        let folder = tempfile::tempdir().unwrap();
        let (port, input) = (free_port(), free_port());
        let lines = listener(folder.path());
        let log = folder.path().join("mosquitto.log");
        let broker = Mosquitto::start_with(
            folder.path(),
            &format!("log_dest file {}\nlistener {port} 127.0.0.1\n{lines}", log.display()),
        );
        let inbox = subscribe(broker.port);
        let config = configure(folder.path(), broker.port, input, "");
        let text = std::fs::read_to_string(&config).unwrap();
        let plain = format!("url = \"mqtt://127.0.0.1:{}\"", broker.port);
        assert!(text.contains(&plain));
        let text = text.replace(&plain, &uplink(folder.path(), port));
        std::fs::write(&config, text).unwrap();
        Plant { folder, broker, inbox, input, config, fed: 0 }
    }

    fn run(&self) -> Process {
        agent(&self.config, &self.folder.path().join("agent.log"))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn feed(&mut self, count: u64) {
        self.fed += count;
        Feeder::start(self.input, &format!("upto-{}", self.fed), count).join();
    }

    fn wait_for_all(&self) {
        wait("all has arrived", || self.inbox.lock().unwrap().readings.len() as u64 == self.fed);
        wait("nothing waits", || status(&self.config)["uplink"]["backlog"] == 0);
    }

    fn restart_broker(&mut self) {
        self.broker.down();
        self.broker.up();
    }

    fn assert_whole(&self) {
        let inbox = self.inbox.lock().unwrap();
        assert_eq!((inbox.holes(), &inbox.confused, &inbox.gaps), (vec![], &vec![], &vec![]));
    }
}

/// Through an outage, with readings before, in and after it.
fn forwards_through_an_outage(plant: &mut Plant) {
    let running = plant.run();
    plant.feed(500);
    plant.wait_for_all();
    plant.broker.down();
    plant.feed(1_500);
    plant.broker.up();
    plant.feed(500);
    plant.wait_for_all();
    plant.assert_whole();
    assert_eq!(running.stop(), Some(0));
    let last = plant.inbox.lock().unwrap().statuses.pop();
    assert!(last.unwrap().to_string().contains("offline"), "the last word came through");
}

fn server_files(folder: &Path, ours: &Ca) -> String {
    let server = pki::leaf("localhost", ours, |_| {});
    let ca = pki::write(folder, "ca.pem", &ours.pem(), 0o644);
    let cert = pki::write(folder, "server.pem", &server.certificate.pem(), 0o644);
    let key = pki::write(folder, "server.key", &server.key.serialize_pem(), 0o600);
    format!("cafile {}\ncertfile {}\nkeyfile {}\n", ca.display(), cert.display(), key.display())
}

fn write_cert(folder: &Path, client: &Leaf) {
    pki::write(folder, "client.pem", &client.certificate.pem(), 0o644);
}

fn write_key(folder: &Path, key: &str) {
    pki::write(folder, "client.key", key, 0o600);
}

#[test]
fn m_13_a_renewed_client_certificate_is_shown_at_the_next_connection_and_never_half() {
    if !has_mosquitto("m_13") {
        return;
    }
    let ours = pki::ca("ours");
    let (first, second) =
        (pki::client("first-cert", 1, &ours), pki::client("second-cert", 2, &ours));
    let mut plant = Plant::new(
        |folder| {
            write_cert(folder, &first);
            write_key(folder, &first.key.serialize_pem());
            server_files(folder, &ours)
                + "require_certificate true\nuse_identity_as_username true\n"
        },
        |folder, port| {
            let folder = folder.display();
            format!(
                "url = \"mqtts://localhost:{port}\"\nca_file = \"{folder}/ca.pem\"\n\
                 cert_file = \"{folder}/client.pem\"\nkey_file = \"{folder}/client.key\""
            )
        },
    );
    let folder = plant.folder.path().to_owned();
    let running = plant.run();
    let mut visits = 0;
    let mut next_visit = |plant: &mut Plant, name: &str| {
        visits += 1;
        plant.feed(100);
        plant.wait_for_all();
        let log = plant.read("mosquitto.log");
        let of_agent = log.lines().filter(|line| line.contains(" as tidegate-gw (p"));
        let names: Vec<_> = of_agent.filter_map(|line| line.split("u'").nth(1)).collect();
        assert_eq!(names.len(), visits, "{log}");
        assert!(names[visits - 1].starts_with(name), "{log}");
    };
    next_visit(&mut plant, "first-cert");
    // The certificate is new, its key not yet.
    write_cert(&folder, &second);
    for _ in 0..2 {
        plant.restart_broker();
        next_visit(&mut plant, "first-cert");
    }
    let key = second.key.serialize_pem();
    write_key(&folder, &key[..key.len() / 2]);
    plant.restart_broker();
    next_visit(&mut plant, "first-cert");
    write_key(&folder, &key);
    plant.restart_broker();
    next_visit(&mut plant, "second-cert");
    plant.assert_whole();
    assert_eq!(running.stop(), Some(0));
    let log = plant.read("agent.log");
    let said: Vec<_> =
        log.lines().filter(|line| line.contains("certificate on disk is not used")).collect();
    let files = format!(
        "cert_file {0}/client.pem and key_file {0}/client.key do not belong together",
        folder.display()
    );
    assert_eq!(said.len(), 2, "each reason once: {log}");
    assert!(said[0].contains(&files), "{}", said[0]);
    assert!(
        said[1].contains(&format!("key_file {}/client.key: ", folder.display())),
        "{}",
        said[1]
    );
    assert_eq!(log.matches("the client certificate was renewed").count(), 1, "{log}");
}

#[test]
fn readings_go_over_websocket_in_both_versions_of_mqtt() {
    if !has_websockets("websocket") {
        return;
    }
    for protocol in ["5", "3.1.1"] {
        let mut plant = Plant::new(
            |_| "protocol websockets\n".to_owned(),
            |_, port| format!("url = \"ws://127.0.0.1:{port}\"\nprotocol = \"{protocol}\""),
        );
        forwards_through_an_outage(&mut plant);
    }
}

#[test]
fn readings_go_over_websocket_and_tls_with_certificates_on_both_sides() {
    if !has_websockets("wss") {
        return;
    }
    for protocol in ["5", "3.1.1"] {
        let ours = pki::ca("ours");
        let client = pki::client("gw", 7, &ours);
        let mut plant = Plant::new(
            |folder| {
                write_cert(folder, &client);
                write_key(folder, &client.key.serialize_pem());
                server_files(folder, &ours) + "protocol websockets\nrequire_certificate true\n"
            },
            |folder, port| {
                let folder = folder.display();
                format!(
                    "url = \"wss://localhost:{port}/mqtt\"\nprotocol = \"{protocol}\"\n\
                     ca_file = \"{folder}/ca.pem\"\ncert_file = \"{folder}/client.pem\"\n\
                     key_file = \"{folder}/client.key\""
                )
            },
        );
        forwards_through_an_outage(&mut plant);
    }
}

#[test]
fn sources_and_outputs_go_over_websocket_too() {
    if !has_websockets("sources") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let listener = format!("listener {port} 127.0.0.1\nprotocol websockets\n");
    let broker = Mosquitto::start_with(folder.path(), &listener);
    let config = configure(folder.path(), broker.port, free_port(), "commit_interval = \"50ms\"");
    let more = format!(
        "[[source]]\nname = \"cell\"\ntype = \"mqtt\"\nurl = \"ws://127.0.0.1:{port}\"\n\
         reconnect_max = \"1s\"\n\
         [[source.topics]]\nfilter = \"plant/+\"\nentity = \"{{1}}\"\nproperty = \"n\"\n\
         format = \"value\"\n[source.time]\nbound = \"0s\"\n\
         [[output]]\ntype = \"mqtt\"\nurl = \"ws://127.0.0.1:{port}\"\n\
         ordered_readings = true\nsources = [\"cell\"]\n"
    );
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text + &more).unwrap();
    let running = agent(&config, &folder.path().join("agent.log"));
    let options = rumqttc::MqttOptions::new("plant", "127.0.0.1", broker.port);
    let (client, mut connection) = rumqttc::Client::new(options, 10);
    client.subscribe("tidegate/gw/ordered/cell", rumqttc::QoS::AtLeastOnce).unwrap();
    let mut number = 0;
    let mut seen = None;
    wait("a reading has gone the whole way", || {
        number += 1;
        client.try_publish("plant/pump", rumqttc::QoS::AtLeastOnce, false, number.to_string()).ok();
        while let Ok(Ok(event)) = connection.recv_timeout(std::time::Duration::from_millis(20)) {
            if let rumqttc::Event::Incoming(rumqttc::Packet::Publish(publish)) = event {
                seen = Some(publish.payload);
                return true;
            }
        }
        false
    });
    let reading: serde_json::Value = serde_json::from_slice(&seen.unwrap()).unwrap();
    assert_eq!((&reading["entity"], &reading["source"]), (&"pump".into(), &"cell".into()));
    assert_eq!(running.stop(), Some(0));
}
