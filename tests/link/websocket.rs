//! MQTT inside of WebSocket: what is said when it does not come about. How it works
//! is tested beside a real broker.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use tidegate::core::seam::DownCause;
use tidegate::link::Settings;
use tidegate::mqtt::Protocol;

use crate::harness::{BOTH, Link, settings};
use crate::support::pki::{self, ca, leaf};
use crate::tls::{broker, mqtts};

fn over_websocket(mut settings: Settings) -> Settings {
    settings.broker.path = Some("/plant/mqtt".into());
    settings
}

/// A web server of one answer; gives back what it was asked.
fn server(answer: &'static str) -> (u16, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut some = [0; 1_024];
            let count = stream.read(&mut some).unwrap();
            assert!(count > 0);
            asked.extend_from_slice(&some[..count]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    });
    (port, thread)
}

#[tokio::test]
async fn a_web_server_that_has_no_broker_is_named_as_such() {
    for protocol in BOTH {
        let (port, asked) = server("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        let settings = over_websocket(settings(port, protocol));
        let reason = Link::refused(settings, DownCause::Network).await;
        assert_eq!(
            reason,
            format!(
                "127.0.0.1:{port}: the web server does not open a WebSocket (HTTP error: 404 Not \
                 Found); is the path in the url right?"
            )
        );
        let asked = asked.join().unwrap();
        assert!(asked.starts_with("GET /plant/mqtt HTTP/1.1\r\n"), "{asked}");
        assert!(asked.to_lowercase().contains("sec-websocket-protocol: mqtt\r\n"), "{asked}");
    }
}

#[tokio::test]
async fn inside_of_websocket_certificates_are_judged_as_outside() {
    let directory = tempfile::tempdir().unwrap();
    let ours = ca("ours");
    let ca_file = pki::write(directory.path(), "ca.pem", &ours.pem(), 0o644);
    let cases = [
        (leaf("localhost", &ca("theirs"), |_| {}), "no CA in ca_file vouches for it"),
        (leaf("other.example", &ours, |_| {}), "not for the server name"),
    ];
    for (leaf, words) in cases {
        for protocol in BOTH {
            let broker = broker(&leaf, None).await;
            let settings = over_websocket(mqtts(broker.port(), protocol, ca_file.clone()));
            let reason = Link::refused(settings, DownCause::Tls).await;
            assert!(reason.contains(words), "{reason}");
            assert_eq!(broker.connects(), []);
        }
    }
    let broker = broker(&leaf("localhost", &ours, |_| {}), None).await;
    let mut settings = over_websocket(mqtts(broker.port(), Protocol::V5, ca_file));
    settings.broker.login.ca_file = None;
    let reason = Link::refused(settings, DownCause::Tls).await;
    assert!(reason.contains("TLS needs ca_file"), "{reason}");
    assert_eq!(broker.log().accepted, 0);
}
