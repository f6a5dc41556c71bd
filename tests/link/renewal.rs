//! M-13: the client certificate is renewed while the gateway runs.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate::core::seam::DownCause;
use tidegate::link::Settings;
use tidegate::mqtt::Protocol;

use crate::harness::{BOTH, CONNECT, Link};
use crate::support::broker::ScriptedBroker;
use crate::support::pki::{self, Ca, Leaf, ca, leaf, set_mode};
use crate::tls::{broker, mqtts};

/// The files of a client, beside a broker that asks for them.
struct Files {
    folder: TempDir,
    ours: Ca,
    cert_file: PathBuf,
    key_file: PathBuf,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        let cert_file = folder.path().join("client.pem");
        let key_file = folder.path().join("client.key");
        Files { ours: ca("ours"), cert_file, key_file, folder }
    }

    async fn broker(&self, client_ca: &Ca) -> ScriptedBroker {
        broker(&leaf("localhost", &self.ours, |_| {}), Some(client_ca)).await
    }

    fn settings(&self, port: u16, protocol: Protocol) -> Settings {
        let ca_file = pki::write(self.folder.path(), "ca.pem", &self.ours.pem(), 0o644);
        let mut settings = mqtts(port, protocol, ca_file);
        settings.broker.login.cert_file = Some(self.cert_file.clone());
        settings.broker.login.key_file = Some(self.key_file.clone());
        settings
    }

    fn client(&self, serial: u8) -> Leaf {
        pki::client("gw-07", serial, &self.ours)
    }

    fn write_cert(&self, client: &Leaf) {
        replace(&self.cert_file, &client.certificate.pem());
    }

    fn write_key(&self, client: &Leaf) {
        replace(&self.key_file, &client.key.serialize_pem());
    }
}

fn replace(path: &Path, content: &str) {
    pki::write(path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap(), content, 0o600);
}

/// A connection, and a reading over it.
async fn visit(link: &mut Link, number: u64) {
    link.connect().await;
    link.publish(number);
    link.expect_pubacks([number]).await;
    link.disconnect().await;
}

#[tokio::test]
async fn m_13_the_next_connection_shows_the_renewed_certificate() {
    for protocol in BOTH {
        let files = Files::new();
        let broker = files.broker(&files.ours).await;
        let mut link = Link::spawn(files.settings(broker.port(), protocol));
        let (first, second) = (files.client(1), files.client(2));
        files.write_cert(&first);
        files.write_key(&first);
        visit(&mut link, 1).await;
        files.write_cert(&second);
        files.write_key(&second);
        visit(&mut link, 2).await;
        let shown = [first, second].map(|leaf| leaf.certificate.der().to_vec());
        assert_eq!(broker.log().certificates, shown);
        assert_eq!(broker.publishes().len(), 2);
    }
}

#[tokio::test]
async fn m_13_half_a_renewal_leaves_the_last_good_certificate_in_use() {
    let files = Files::new();
    let broker = files.broker(&files.ours).await;
    let mut link = Link::spawn(files.settings(broker.port(), Protocol::V5));
    let (first, second) = (files.client(1), files.client(2));
    let (cert, key) = (second.certificate.pem(), second.key.serialize_pem());
    files.write_cert(&first);
    files.write_key(&first);
    visit(&mut link, 1).await;
    let half = |text: &str| text[..text.len() / 2].to_owned();
    let garbled = cert.replace(cert.lines().nth(2).unwrap(), "AAAA");
    // What the two files are found to be while somebody writes them.
    let states = [
        (cert.clone(), first.key.serialize_pem()),
        (half(&cert), first.key.serialize_pem()),
        (half(&cert), key.clone()),
        (garbled, key.clone()),
        (format!("{cert}{}", half(&cert)), key.clone()),
        (String::new(), key.clone()),
        (cert.clone(), half(&key)),
        (cert.clone(), String::new()),
    ];
    let mut number = 1;
    for (cert, key) in &states {
        fs::write(&files.cert_file, cert).unwrap();
        fs::write(&files.key_file, key).unwrap();
        number += 1;
        visit(&mut link, number).await;
    }
    fs::remove_file(&files.key_file).unwrap();
    visit(&mut link, number + 1).await;
    files.write_key(&second);
    set_mode(&files.key_file, 0o644);
    visit(&mut link, number + 2).await;
    assert_eq!(broker.log().certificates, vec![first.certificate.der().to_vec(); 11]);
    set_mode(&files.key_file, 0o600);
    visit(&mut link, number + 3).await;
    assert_eq!(broker.log().certificates.last().unwrap(), second.certificate.der().as_ref());
    assert_eq!(broker.log().tls_failures, 0);
}

#[tokio::test]
async fn m_13_a_pair_that_was_never_whole_is_waited_for_and_named() {
    let files = Files::new();
    let broker = files.broker(&files.ours).await;
    let mut link = Link::spawn(files.settings(broker.port(), Protocol::V5));
    let (first, second) = (files.client(1), files.client(2));
    let (cert_file, key_file) = (files.cert_file.display(), files.key_file.display());
    let mut refused = async |words: &str| {
        link.command(CONNECT);
        let reason = link.expect_down(DownCause::Tls).await;
        assert!(reason.contains(words), "{reason}");
    };
    refused(&format!("cannot read cert_file {cert_file}: No such file")).await;
    files.write_cert(&first);
    refused(&format!("cannot read key_file {key_file}: No such file")).await;
    files.write_key(&second);
    let pair = format!("cert_file {cert_file} and key_file {key_file}");
    refused(&format!("{pair} do not belong together: the certificate is of another key")).await;
    assert_eq!(broker.log().accepted, 0, "nobody is bothered with it");
    files.write_cert(&second);
    visit(&mut link, 1).await;
}

#[tokio::test]
async fn m_13_a_broker_that_no_longer_takes_the_old_certificate_is_not_the_only_one_blamed() {
    let files = Files::new();
    let broker = files.broker(&ca("theirs")).await;
    let mut link = Link::spawn(files.settings(broker.port(), Protocol::V5));
    let first = files.client(1);
    files.write_cert(&first);
    files.write_key(&first);
    link.command(CONNECT);
    let reason = link.expect_down(DownCause::Tls).await;
    assert!(!reason.contains("older client certificate"), "{reason}");
    fs::write(&files.key_file, "").unwrap();
    link.command(CONNECT);
    let reason = link.expect_down(DownCause::Tls).await;
    let key_file = files.key_file.display();
    let words = format!("; an older client certificate was shown, because: key_file {key_file}: ");
    assert!(reason.contains(&words), "{reason}");
}
