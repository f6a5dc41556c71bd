//! How connections begin and end, and what is said about it.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use tidegate::core::seam::{DownCause, LinkCommand};
use tidegate::mqtt::Protocol;

use crate::harness::{BOTH, CONNECT, Link, PATIENCE, settings, status, text};
use crate::support::broker::ScriptedBroker;
use crate::support::packet::Will;
use crate::support::script::{Acks, Script};

fn level(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::V5 => 5,
        Protocol::V311 => 4,
    }
}

#[tokio::test]
async fn connect_carries_a_retained_will_and_wants_no_session() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        let _link = Link::up(broker.port(), protocol).await;
        let connect = broker.connects().remove(0);
        let will = Will {
            topic: "tidegate/gw-07/status".into(),
            payload: br#"{"v":1,"gateway":"gw-07","status":"offline","reason":"connection_lost"}"#
                .to_vec(),
            qos: 1,
            retain: true,
        };
        assert_eq!(connect.level, level(protocol));
        assert_eq!(connect.will, Some(will));
        assert_eq!((connect.clean_start, connect.keep_alive_s), (true, 30));
        assert_eq!(connect.client_id, "tidegate-gw-07");
        assert_eq!((connect.username, connect.password), (None, None));
    }
}

#[tokio::test]
async fn the_password_file_is_read_at_each_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        let mut settings = settings(broker.port(), protocol);
        settings.broker.login.username = Some("gw-07".into());
        settings.broker.login.password_file = Some(file.clone());
        let mut link = Link::spawn(settings);
        for (content, password) in [("s3cret \n", "s3cret "), ("other\r\n", "other"), ("p", "p")] {
            fs::write(&file, content).unwrap();
            link.connect().await;
            link.disconnect().await;
            let connect = broker.connects().pop().unwrap();
            assert_eq!(connect.username.as_deref(), Some("gw-07"));
            assert_eq!(connect.password.as_deref(), Some(password));
        }
        fs::remove_file(&file).unwrap();
        link.command(CONNECT);
        let reason = link.expect_down(DownCause::Refused).await;
        assert!(reason.contains("cannot read the password file"), "{reason}");
        assert_eq!(broker.log().accepted, 3);
    }
}

#[tokio::test]
async fn a_refused_connect_says_why() {
    for (protocol, code, cause, words) in [
        (Protocol::V311, 4, DownCause::Refused, "user name or password"),
        (Protocol::V311, 5, DownCause::Refused, "not authorized"),
        (Protocol::V311, 3, DownCause::Network, "unavailable"),
        (Protocol::V5, 0x86, DownCause::Refused, "user name or password"),
        (Protocol::V5, 0x87, DownCause::Refused, "not authorized"),
        (Protocol::V5, 0x85, DownCause::Refused, "client id"),
        (Protocol::V5, 0x8A, DownCause::Refused, "banned"),
        (Protocol::V5, 0x89, DownCause::Network, "ServerBusy"),
    ] {
        let script = Script { connack_code: code, ..Script::default() };
        let broker = ScriptedBroker::start(script).await;
        let reason = Link::refused(settings(broker.port(), protocol), cause).await;
        assert!(reason.contains(words), "{reason}");
        assert!(reason.starts_with(&format!("127.0.0.1:{}: ", broker.port())), "{reason}");
    }
}

#[tokio::test]
async fn an_unreachable_broker_is_named_and_tried_again_when_asked() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for protocol in BOTH {
        let reason = Link::refused(settings(port, protocol), DownCause::Network).await;
        assert!(reason.contains("refused") && reason.contains(&port.to_string()), "{reason}");
        let broker = ScriptedBroker::start(Script::default()).await;
        broker.refuse(true);
        let mut link = Link::spawn(settings(broker.port(), protocol));
        link.command(CONNECT);
        link.expect_down(DownCause::Network).await;
        broker.refuse(false);
        link.connect().await;
        link.publish(1);
        link.expect_pubacks([1]).await;
    }
}

#[tokio::test]
async fn a_disconnect_of_mqtt_5_is_understood() {
    for (code, cause, words) in [
        (0x8E, DownCause::TakenOver, "another client took over"),
        (0x95, DownCause::PacketTooLarge, "too large"),
        (0x87, DownCause::Refused, "no longer allows"),
        (0x8B, DownCause::Network, "0x8B"),
    ] {
        for at in [0, 1] {
            let script = Script { disconnect_at: Some((at, code)), ..Script::default() };
            let broker = ScriptedBroker::start(script).await;
            let mut link = Link::up(broker.port(), Protocol::V5).await;
            if at == 1 {
                link.publish(1);
            }
            let reason = link.expect_down(cause).await;
            assert!(reason.contains(words), "{reason}");
        }
    }
}

#[tokio::test]
async fn a_disconnect_comes_after_what_is_queued_and_is_answered_once() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script { acks: Acks::None, ..Script::default() }).await;
        let mut link = Link::up(broker.port(), protocol).await;
        (1..=50).for_each(|number| link.publish(number));
        link.say(51, status(false));
        link.disconnect().await;
        let log = broker.log();
        assert_eq!(log.publishes.len(), 51);
        assert_eq!(log.disconnects, [(1, 0)]);
        // Asked again while down: the answer was given.
        link.command(LinkCommand::Disconnect);
        link.connect().await;
        link.disconnect().await;
    }
}

#[tokio::test]
async fn stopping_says_goodbye() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        let link = Link::up(broker.port(), protocol).await;
        link.say(1, status(false));
        let Link { handle, mut events } = link;
        handle.stop().await;
        let log = broker.log();
        assert_eq!(log.publishes.len(), 1);
        assert_eq!(log.disconnects, [(1, 0)]);
        let mut rest = Vec::new();
        while let Some(event) = events.recv().await {
            rest.push(event);
        }
        assert!(rest.len() <= 2, "{rest:?}");
    }
}

#[tokio::test]
async fn an_attempt_without_answer_can_be_given_up() {
    for protocol in BOTH {
        let script = Script { answers_connect: false, ..Script::default() };
        let broker = ScriptedBroker::start(script).await;
        let mut link = Link::spawn(settings(broker.port(), protocol));
        link.command(CONNECT);
        broker.wait_for(|log| log.connects.len() == 1, PATIENCE).await;
        // A publish before the link is up has no connection to go to.
        link.publish(1);
        link.disconnect().await;
        assert!(broker.publishes().is_empty());
    }
}

#[tokio::test]
async fn a_broker_that_answers_no_ping_is_given_up() {
    // Side by side: it takes two keep-alives of the shortest kind, 5 s.
    tokio::join!(no_ping_answered(Protocol::V5), no_ping_answered(Protocol::V311));
}

async fn no_ping_answered(protocol: Protocol) {
    let broker = ScriptedBroker::start(Script { answers_pings: false, ..Script::default() }).await;
    let mut settings = settings(broker.port(), protocol);
    settings.keep_alive = Duration::from_secs(5);
    let mut link = Link::spawn(settings);
    link.connect().await;
    let reason = link.expect_down(DownCause::Network).await;
    assert!(reason.contains("ping"), "{reason}");
    assert_eq!(broker.log().pings, 1);
}

#[tokio::test]
async fn a_socket_that_takes_no_more_bytes_can_be_given_up() {
    for protocol in BOTH {
        let broker =
            ScriptedBroker::start(Script { deaf_after: Some(1), ..Script::default() }).await;
        let mut settings = settings(broker.port(), protocol);
        settings.max_payload = 2_000_000;
        let mut link = Link::spawn(settings);
        link.connect().await;
        link.publish(1);
        link.expect_pubacks([1]).await;
        // More than the buffers of both ends hold.
        (2..=60).for_each(|number| link.say(number, text(number, "x".repeat(1_000_000))));
        link.disconnect().await;
        assert!(broker.log().disconnects.is_empty());
    }
}

#[tokio::test]
async fn a_host_name_is_looked_up() {
    let broker = ScriptedBroker::start(Script::default()).await;
    let mut settings = settings(broker.port(), Protocol::V5);
    settings.broker.host = "localhost".into();
    let mut link = Link::spawn(settings);
    link.connect().await;
    link.disconnect().await;
}

#[tokio::test]
async fn connections_that_never_last_are_said_to_be_a_case_of_two_with_one_client_id() {
    for protocol in BOTH {
        let script = Script { close_at: Some(1), ..Script::default() };
        let broker = ScriptedBroker::start(script).await;
        let mut link = Link::spawn(settings(broker.port(), protocol));
        let mut reasons = Vec::new();
        for _ in 0..3 {
            link.connect().await;
            link.publish(1);
            reasons.push(link.expect_down(DownCause::Network).await);
        }
        let is_named = |reason: &String| reason.contains("the client id \"tidegate-gw-07\"");
        assert_eq!(reasons.iter().map(is_named).collect::<Vec<_>>(), [false, false, true]);
    }
}
