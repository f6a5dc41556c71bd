//! mqtts with a CA made here.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tidegate::core::order::{OrderedReading, Place};
use tidegate::core::seam::DownCause;
use tidegate::link::Settings;
use tidegate::mqtt::{Broker, Login, Protocol};
use tidegate::output::{self, Content, Item, OutputKind, OutputSettings};

use crate::harness::{BOTH, CONNECT, Link, PATIENCE, record, settings};
use crate::support::broker::ScriptedBroker;
use crate::support::pki::{self, Ca, Leaf, ca, leaf, set_mode};
use crate::support::script::Script;

pub(crate) async fn broker(leaf: &Leaf, client_ca: Option<&Ca>) -> ScriptedBroker {
    ScriptedBroker::start_tls(Script::default(), pki::server(leaf, client_ca)).await
}

fn write(directory: &TempDir, name: &str, content: &str, mode: u32) -> PathBuf {
    pki::write(directory.path(), name, content, mode)
}

pub(crate) fn mqtts(port: u16, protocol: Protocol, ca_file: PathBuf) -> Settings {
    let plain = settings(port, protocol);
    let login = Login { tls: true, ca_file: Some(ca_file), ..Login::default() };
    let broker = Broker { host: "localhost".into(), login, ..plain.broker };
    Settings { broker, ..plain }
}

#[tokio::test]
async fn the_right_ca_opens_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let ours = ca("ours");
    let broker = broker(&leaf("localhost", &ours, |_| {}), None).await;
    let ca_file = write(&directory, "ca.pem", &ours.pem(), 0o644);
    for protocol in BOTH {
        let mut link = Link::spawn(mqtts(broker.port(), protocol, ca_file.clone()));
        link.connect().await;
        (1..=20).for_each(|number| link.publish(number));
        link.expect_pubacks(1..=20).await;
        link.disconnect().await;
    }
    assert_eq!(broker.publishes().len(), 40);
}

#[tokio::test]
async fn a_broker_that_cannot_prove_itself_hears_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let ours = ca("ours");
    let ca_file = write(&directory, "ca.pem", &ours.pem(), 0o644);
    let cases = [
        (leaf("localhost", &ca("theirs"), |_| {}), "no CA in ca_file vouches for it"),
        (leaf("other.example", &ours, |_| {}), "not for the server name"),
        (
            leaf("localhost", &ours, |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1)),
            "it has expired",
        ),
        (
            leaf("localhost", &ours, |params| params.not_before = rcgen::date_time_ymd(2200, 1, 1)),
            "it is not valid yet",
        ),
    ];
    for (leaf, words) in cases {
        for protocol in BOTH {
            let broker = broker(&leaf, None).await;
            let settings = mqtts(broker.port(), protocol, ca_file.clone());
            let reason = Link::refused(settings, DownCause::Tls).await;
            assert!(reason.contains(words), "{reason}");
            broker.wait_for(|log| log.tls_failures == 1, PATIENCE).await;
            assert!(broker.connects().is_empty());
        }
    }
}

#[tokio::test]
async fn a_gateway_in_1970_judges_certificates_by_its_build_date() {
    let directory = tempfile::tempdir().unwrap();
    let ours = ca("ours");
    let ca_file = write(&directory, "ca.pem", &ours.pem(), 0o644);
    let future = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2200, 1, 1);
        params.not_after = rcgen::date_time_ymd(2300, 1, 1);
    };
    let broker = broker(&leaf("localhost", &ours, future), None).await;
    let mut settings = mqtts(broker.port(), Protocol::V5, ca_file);
    settings.broker.login.time_floor_s = 7_274_000_000; // in the year 2200
    let mut link = Link::spawn(settings);
    link.connect().await;
    link.disconnect().await;
}

#[tokio::test]
async fn a_new_ca_file_counts_at_the_next_connection() {
    let directory = tempfile::tempdir().unwrap();
    let ours = ca("ours");
    let broker = broker(&leaf("localhost", &ours, |_| {}), None).await;
    let ca_file = write(&directory, "ca.pem", &ca("theirs").pem(), 0o644);
    let mut link = Link::spawn(mqtts(broker.port(), Protocol::V5, ca_file.clone()));
    link.command(CONNECT);
    link.expect_down(DownCause::Tls).await;
    fs::write(&ca_file, ours.pem()).unwrap();
    link.connect().await;
    link.disconnect().await;
}

#[tokio::test]
async fn a_client_certificate_is_shown_and_its_key_kept_from_others() {
    let directory = tempfile::tempdir().unwrap();
    let ours = ca("ours");
    let broker = broker(&leaf("localhost", &ours, |_| {}), Some(&ours)).await;
    let client = leaf("gw-07", &ours, |_| {});
    let ca_file = write(&directory, "ca.pem", &ours.pem(), 0o644);
    let mut settings = mqtts(broker.port(), Protocol::V5, ca_file);
    let without = Link::refused(settings.clone(), DownCause::Tls).await;
    assert!(without.contains("TLS"), "{without}");
    settings.broker.login.cert_file =
        Some(write(&directory, "cert.pem", &client.certificate.pem(), 0o644));
    let half = Link::refused(settings.clone(), DownCause::Tls).await;
    assert!(half.contains("cert_file and key_file go together"), "{half}");
    let key_file = write(&directory, "key.pem", &client.key.serialize_pem(), 0o640);
    settings.broker.login.key_file = Some(key_file.clone());
    let shown = Link::refused(settings.clone(), DownCause::Tls).await;
    assert!(shown.contains("others may read this private key (mode 640)"), "{shown}");
    set_mode(&key_file, 0o600);
    let mut link = Link::spawn(settings);
    link.connect().await;
    link.publish(1);
    link.expect_pubacks([1]).await;
    assert_eq!(broker.connects().len(), 1);
}

#[tokio::test]
async fn mqtts_without_a_usable_ca_file_is_refused_before_a_byte_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let broker = ScriptedBroker::start(Script::default()).await;
    let empty = write(&directory, "empty.pem", "no certificate here\n", 0o644);
    let missing = directory.path().join("missing.pem");
    let mut settings = mqtts(broker.port(), Protocol::V5, empty);
    let reason = Link::refused(settings.clone(), DownCause::Tls).await;
    assert!(reason.contains("no certificate in it"), "{reason}");
    settings.broker.login.ca_file = Some(missing);
    let reason = Link::refused(settings.clone(), DownCause::Tls).await;
    assert!(reason.contains("cannot read ca_file"), "{reason}");
    settings.broker.login.ca_file = None;
    let reason = Link::refused(settings, DownCause::Tls).await;
    assert!(reason.contains("TLS needs ca_file"), "{reason}");
    assert_eq!(broker.log().accepted, 0);
}

/// Waits until an output says why it fails, or that all is well.
async fn until_failing(output: &output::OutputHandle, is_so: impl Fn(Option<&str>) -> bool) {
    let wait = async {
        while !is_so(output.facts().failing.as_deref()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "{:?}", output.facts());
}

#[tokio::test]
async fn an_output_logs_in_as_the_uplink_does_and_reads_its_files_anew() {
    let directory = tempfile::tempdir().unwrap();
    let ours = ca("ours");
    let broker = broker(&leaf("localhost", &ours, |_| {}), Some(&ours)).await;
    let client = leaf("gw-07", &ours, |_| {});
    let ca_file = write(&directory, "ca.pem", &ca("theirs").pem(), 0o644);
    let password_file = directory.path().join("password");
    let login = Login {
        tls: true,
        username: Some("on-site".into()),
        password_file: Some(password_file.clone()),
        ca_file: Some(ca_file.clone()),
        cert_file: Some(write(&directory, "cert.pem", &client.certificate.pem(), 0o644)),
        key_file: Some(write(&directory, "key.pem", &client.key.serialize_pem(), 0o600)),
        time_floor_s: 0,
    };
    let (host, port, client_id) = ("localhost".into(), broker.port(), "site".into());
    let output = output::spawn(OutputSettings {
        gateway: "gw".into(),
        kind: OutputKind::Mqtt(Broker { host, port, path: None, client_id, login }),
        windows: Vec::new(),
        order: Some("o".into()),
    });
    let says = |what: &'static str| {
        move |failing: Option<&str>| failing.is_some_and(|text| text.contains(what))
    };
    until_failing(&output, says("cannot read the password file")).await;
    assert_eq!(broker.log().accepted, 0);
    fs::write(&password_file, "secret\n").unwrap();
    until_failing(&output, says("no CA in ca_file vouches for it")).await;
    for seq in 1..=600 {
        let record = Arc::new(record("press-line", seq));
        let place = if seq == 3 { Place::Late } else { Place::InOrder };
        let reading = OrderedReading { order: "o".into(), record, place };
        output.offer(&Item::new(&"gw".into(), Content::Ordered(reading)));
    }
    fs::write(&ca_file, ours.pem()).unwrap();
    broker.wait_for(|log| log.publishes.len() == 600, PATIENCE).await;
    until_failing(&output, |failing| failing.is_none()).await;
    output.stop().await;
    let log = broker.log();
    let connect = &log.connects[0];
    assert_eq!(connect.username.as_deref(), Some("on-site"));
    assert_eq!(connect.password.as_deref(), Some("secret"));
    for (seq, seen) in (1_u64..).zip(&log.publishes) {
        assert_eq!((seen.topic.as_str(), seen.retain), ("tidegate/gw/ordered/press-line", false));
        let reading = seen.json();
        assert_eq!(reading["seq"], seq);
        assert_eq!(reading.get("late").is_some(), seq == 3);
    }
}
