//! M-12: a broker's certificate and a gateway whose clock is not right yet.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rumqttc::tokio_rustls::rustls::ServerConfig;
use rumqttc::tokio_rustls::rustls::crypto::ring;

use crate::clock::{Gateway, max_error_ns, ns};
use crate::support::broker::ScriptedBroker;
use crate::support::script::Script;
use crate::support::shim::{SATURATED, VOUCHED, showing};

/// 2027-07-01T00:00:00Z.
const VALID_S: i64 = 1_814_400_000;
/// 2029-01-01T00:00:00Z.
const EXPIRED_S: i64 = 1_861_920_000;

/// A TLS broker whose certificate is valid from 2027-06-01 to 2028-06-01, and
/// the certificate of its CA.
async fn broker() -> (ScriptedBroker, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "ours");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2027, 6, 1);
    params.not_after = rcgen::date_time_ymd(2028, 6, 1);
    let key = KeyPair::generate().unwrap();
    let chain = vec![params.signed_by(&key, &ca).unwrap().der().clone()];
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key.serialize_der().try_into().unwrap())
        .unwrap();
    (ScriptedBroker::start_tls(Script::default(), config).await, ca.pem())
}

/// `reconnect` are the two bounds of the wait between attempts.
async fn gateway(test: &str, reconnect: (&str, &str)) -> Option<Gateway> {
    let (broker, ca) = broker().await;
    let port = broker.port();
    let clock = "hold_unsynchronized = \"10m\"\nrestamp_settle = \"0s\"";
    Gateway::beside(broker, test, clock, |folder| {
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, ca).unwrap();
        let ca_file = ca_file.display();
        let (min, max) = reconnect;
        format!(
            "url = \"mqtts://localhost:{port}\"\nca_file = \"{ca_file}\"\n\
             reconnect_min = \"{min}\"\nreconnect_max = \"{max}\""
        )
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn m_12_a_certificate_that_is_not_valid_yet_is_refused_until_the_clock_is_set() {
    let test = "m_12_a_certificate_that_is_not_valid_yet_is_refused_until_the_clock_is_set";
    // Nothing but the clock can be what brings the next attempt.
    let Some(mut gateway) = gateway(test, ("1h", "1h")).await else { return };
    gateway.clock.set(showing(20), SATURATED);
    gateway.run();
    let mut sent: Vec<_> = (1..=3).map(|number| gateway.send(number)).collect();
    gateway.wait(|log| log.tls_failures == 1).await;
    gateway.wait_for_status("it says why", |status| {
        let reason = status["uplink"]["reason"].as_str().unwrap_or_default();
        status["uplink"]["state"] == "down" && reason.contains("not valid yet")
    });
    assert!(gateway.log().contains("not valid yet"), "{}", gateway.log());
    sent.extend((4..=5).map(|number| gateway.send(number)));
    assert_eq!(gateway.status()["sources"][0]["stored"], 5);
    assert_nothing_was_said(&gateway);
    let ahead_ns = showing(VALID_S);
    gateway.clock.set(ahead_ns, VOUCHED);
    for (number, sent) in (1..).zip(sent) {
        let reading = gateway.received(number).await;
        let time = &reading["time"];
        assert_eq!(time["origin"], "restamped", "{reading}");
        assert!(time["first_event_time"].as_str().unwrap().starts_with("1970-01-01T00:0"));
        sent.assert_near(ns(&reading["event_time"]) - ahead_ns, max_error_ns(time));
    }
    gateway.wait_for_state("synchronized");
    gateway.send(6);
    let reading = gateway.received(6).await;
    assert_eq!(reading["time"]["state"], "synchronized", "{reading}");
    assert!(reading["event_time"].as_str().unwrap().starts_with("2027-07-01T00:0"), "{reading}");
    let log = gateway.broker.log();
    assert_eq!((log.accepted, log.tls_failures, log.connects.len()), (2, 1, 1), "one attempt each");
}

#[tokio::test(flavor = "multi_thread")]
async fn m_12_an_expired_certificate_is_refused_and_readings_wait() {
    let test = "m_12_an_expired_certificate_is_refused_and_readings_wait";
    let Some(mut gateway) = gateway(test, ("100ms", "200ms")).await else { return };
    gateway.clock.set(showing(EXPIRED_S), VOUCHED);
    gateway.run();
    gateway.send(1);
    gateway.wait(|log| log.tls_failures >= 3).await;
    gateway.send(2);
    gateway.wait_for_status("it says why", |status| {
        let reason = status["uplink"]["reason"].as_str().unwrap_or_default();
        reason.contains("expired") && status["sources"][0]["stored"] == 2
    });
    assert!(gateway.log().contains("expired"), "{}", gateway.log());
    assert_nothing_was_said(&gateway);
}

/// No application byte went to a server that had not proved itself.
fn assert_nothing_was_said(gateway: &Gateway) {
    let log = gateway.broker.log();
    assert_eq!((log.connects.len(), log.publishes.len()), (0, 0), "{log:?}");
    assert!(log.accepted >= 1);
}
