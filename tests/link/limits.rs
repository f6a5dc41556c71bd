//! Limits of ours and of the broker.

use tidegate::core::id::PublishId;
use tidegate::core::seam::{DownCause, LinkEvent, LinkTerms, PublishBody};
use tidegate::mqtt::Protocol;

use crate::harness::{BOTH, CONNECT, Link, frontier, reading, record, settings, text};
use crate::support::broker::{ScriptedBroker, SeenPublish};
use crate::support::script::Script;

#[tokio::test]
async fn receive_maximum_and_maximum_packet_size_are_reported() {
    let tight = (Some(7), Some(20_000));
    for (protocol, (receive_maximum, max_packet_size), (receive_max, payload_max)) in [
        (Protocol::V5, tight, (7, Some(19_488))),
        (Protocol::V5, (None, Some(100)), (u16::MAX, Some(0))),
        (Protocol::V5, (None, None), (u16::MAX, None)),
        (Protocol::V311, (None, None), (u16::MAX, None)),
    ] {
        let script = Script { receive_maximum, max_packet_size, ..Script::default() };
        let broker = ScriptedBroker::start(script).await;
        let mut link = Link::spawn(settings(broker.port(), protocol));
        link.command(CONNECT);
        let up = LinkEvent::Up(LinkTerms {
            receive_max,
            payload_max,
            session_present: false,
            frontiers: Vec::new(),
        });
        assert_eq!(link.event().await, up);
    }
}

#[tokio::test]
async fn a_payload_over_our_limit_is_not_sent_and_the_rest_is() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        let mut settings = settings(broker.port(), protocol);
        settings.max_payload = 20_000;
        let mut link = Link::spawn(settings);
        link.connect().await;
        link.say(1, text(1, "x".repeat(30_000)));
        link.publish(2);
        match link.event().await {
            LinkEvent::TooLarge { id: PublishId(1), size, limit: 20_000 } => {
                assert!((30_000..31_000).contains(&size), "{size}");
            }
            event => panic!("{event:?}"),
        }
        link.expect_pubacks([2]).await;
        link.say(3, text(3, "x".repeat(19_000)));
        link.expect_pubacks([3]).await;
        assert_eq!(broker.publishes().len(), 2);
    }
}

#[tokio::test]
async fn what_follows_a_batch_over_the_limit_waits_until_that_is_known() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        let mut settings = settings(broker.port(), protocol);
        settings.max_payload = 2_000;
        let mut link = Link::spawn(settings);
        link.connect().await;
        let batch = |source, seqs: std::ops::RangeInclusive<u64>| {
            PublishBody::Batch(seqs.map(|seq| record(source, seq)).collect())
        };
        link.publish(1);
        link.say(2, batch("press-line", 2..=31));
        link.say(3, reading("press-line", 32));
        link.say(4, reading("other", 1));
        // Decided on when it was known: it goes.
        link.say_knowing(2, 5, batch("press-line", 2..=3));
        link.say_knowing(2, 6, reading("press-line", 4));
        let mut answers = Vec::new();
        while answers.len() < 5 {
            answers.push(match link.event().await {
                LinkEvent::Puback { id, code: 0 } => (id.0, true),
                LinkEvent::TooLarge { id, limit: 2_000, .. } => (id.0, false),
                event => panic!("{event:?}"),
            });
        }
        answers.sort_unstable();
        assert_eq!(answers, [(1, true), (2, false), (4, true), (5, true), (6, true)]);
        link.disconnect().await;
        let seen: Vec<_> = broker.publishes().iter().map(SeenPublish::json).collect();
        assert_eq!(seen.len(), 4, "what was decided on too early was not sent");
        assert_eq!(seen[2]["readings"][1]["seq"], 3);
    }
}

#[tokio::test]
async fn no_packet_exceeds_the_brokers_maximum_packet_size() {
    const MAX: u32 = 2_000;
    let script = Script { max_packet_size: Some(MAX), ..Script::default() };
    let broker = ScriptedBroker::start(script).await;
    let mut link = Link::up(broker.port(), Protocol::V5).await;
    // Lengths around the limit: the first ones fit, the last ones do not.
    let mut sent = 0;
    for length in (1_300..1_700).step_by(2) {
        link.say(length, text(1, "x".repeat(length as usize)));
        match link.event().await {
            LinkEvent::Puback { code: 0, .. } => sent += 1,
            LinkEvent::TooLarge { size, limit, .. } => assert!(size > limit && limit < 2_000),
            event => panic!("{event:?}"),
        }
    }
    let largest = broker.publishes().iter().map(|p| p.packet_bytes).max().unwrap();
    assert!((1..200).contains(&sent), "{sent} of 200 sent");
    assert!((1_990..=2_000).contains(&largest), "{largest}");
    link.disconnect().await;
}

#[tokio::test]
async fn a_broker_without_retained_messages_gets_none() {
    let script = Script { retain_available: Some(0), ..Script::default() };
    let broker = ScriptedBroker::start(script).await;
    let mut link = Link::up(broker.port(), Protocol::V5).await;
    link.say(1, frontier());
    link.expect_pubacks([1]).await;
    assert!(!broker.publishes()[0].retain);
}

#[tokio::test]
async fn a_broker_that_acknowledges_nothing_is_refused() {
    let broker = ScriptedBroker::start(Script { max_qos: Some(0), ..Script::default() }).await;
    let reason = Link::refused(settings(broker.port(), Protocol::V5), DownCause::Refused).await;
    assert!(reason.contains("QoS 0 only"), "{reason}");
}

#[tokio::test]
async fn a_keep_alive_that_the_broker_turns_off_is_no_storm_of_pings() {
    let script = Script { server_keep_alive: Some(0), ..Script::default() };
    let broker = ScriptedBroker::start(script).await;
    let mut link = Link::up(broker.port(), Protocol::V5).await;
    for number in 1..=200 {
        link.publish(number);
        link.expect_pubacks([number]).await;
    }
    assert!(broker.log().pings <= 1, "{} pings", broker.log().pings);
    link.disconnect().await;
}
