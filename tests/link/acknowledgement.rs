//! A publish is done when its own PUBACK has come, and by nothing else.

use std::sync::Arc;

use tidegate::core::seam::{DownCause, LinkCommand, LinkEvent, LinkTerms};
use tidegate::mqtt::Protocol;

use crate::harness::{BOTH, CONNECT, Link, PATIENCE, frontier, gap, puback, reading, status};
use crate::support::broker::ScriptedBroker;
use crate::support::script::{Acks, Script};

fn acks(acks: Acks) -> Script {
    Script { acks, ..Script::default() }
}

#[tokio::test]
async fn a_publish_is_done_by_its_own_puback_only() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(acks(Acks::First(2))).await;
        let mut link = Link::up(broker.port(), protocol).await;
        (1..=4).for_each(|number| link.publish(number));
        link.expect_pubacks([1, 2]).await;
        broker.wait_for(|log| log.publishes.len() == 4, PATIENCE).await;
        link.disconnect().await;
    }
}

#[tokio::test]
async fn what_is_sent_is_what_the_contract_says() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        let mut link = Link::up(broker.port(), protocol).await;
        link.say(1, reading("press/line", 7));
        link.say(2, frontier());
        link.say(3, status(true));
        link.say(4, gap());
        link.expect_pubacks(1..=4).await;
        let [seen, frontier, status, gap] = broker.publishes().try_into().unwrap();
        assert_eq!(seen.topic, "tidegate/gw-07/readings/press%2Fline");
        assert_eq!((seen.qos, seen.retain, seen.dup), (1, false, false));
        assert_eq!(seen.json()["source"], "press/line");
        assert_eq!(seen.json()["seq"], 7);
        assert_eq!(frontier.topic, "tidegate/gw-07/frontier/press-line");
        assert_eq!((frontier.qos, frontier.retain), (1, true));
        assert_eq!(status.topic, "tidegate/gw-07/status");
        assert_eq!((status.qos, status.retain), (1, true));
        assert_eq!(gap.topic, "tidegate/gw-07/gaps/press-line");
        assert_eq!((gap.qos, gap.retain), (1, false));
        assert_eq!(gap.json()["last_seq"], 9);
        if protocol == Protocol::V5 {
            assert_eq!(gap.user_properties[0].1, "gw-07/press-line/1-9f3a6c21/5-9");
            let key = "gw-07/press/line/1-9f3a6c21/7-7";
            let expected = [("tidegate-key", key), ("lane", "live")];
            assert_eq!(seen.user_properties, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
            assert_eq!(seen.content_type.as_deref(), Some("application/json"));
            assert_eq!(status.content_type.as_deref(), Some("application/json"));
        }
    }
}

#[tokio::test]
async fn pubacks_out_of_order_reach_their_own_publish() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(acks(Acks::Reversed(3))).await;
        let mut link = Link::up(broker.port(), protocol).await;
        (1..=3).for_each(|number| link.publish(number));
        link.expect_pubacks([3, 2, 1]).await;
        link.disconnect().await;
    }
}

#[tokio::test]
async fn a_doubled_puback_counts_once_and_the_next_connection_goes_on() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        broker.next_connection(acks(Acks::Doubled));
        let mut link = Link::up(broker.port(), protocol).await;
        link.publish(1);
        link.expect_pubacks([1]).await;
        let reason = link.expect_down(DownCause::Network).await;
        assert!(reason.contains("packet id 1, which is not in flight"), "{reason}");
        link.connect().await;
        link.publish(2);
        link.expect_pubacks([2]).await;
        link.disconnect().await;
    }
}

#[tokio::test]
async fn a_puback_for_an_unknown_packet_id_hides_none_that_came_before_it() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(acks(Acks::AndUnknown(900))).await;
        let mut link = Link::up(broker.port(), protocol).await;
        link.publish(1);
        link.expect_pubacks([1]).await;
        let reason = link.expect_down(DownCause::Network).await;
        assert!(reason.contains("packet id 900"), "{reason}");
    }
}

#[tokio::test]
async fn a_late_puback_of_the_connection_before_acknowledges_nothing() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        broker.next_connection(acks(Acks::None));
        broker.next_connection(Script { stray_puback: Some(1), ..acks(Acks::None) });
        let mut link = Link::up(broker.port(), protocol).await;
        link.publish(1);
        broker.wait_for(|log| log.publishes.len() == 1, PATIENCE).await;
        broker.close_all();
        link.expect_down(DownCause::Network).await;
        link.connect().await;
        link.expect_down(DownCause::Network).await;
        link.connect().await;
        link.publish(1);
        link.expect_pubacks([1]).await;
        link.disconnect().await;
    }
}

#[tokio::test]
async fn every_connection_begins_afresh() {
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        broker.next_connection(Script { close_at: Some(4), ..acks(Acks::First(2)) });
        let mut link = Link::up(broker.port(), protocol).await;
        (1..=2).for_each(|number| link.publish(number));
        link.expect_pubacks([1, 2]).await;
        (3..=6).for_each(|number| link.publish(number));
        link.expect_down(DownCause::Network).await;
        // Meant for the connection that is gone: dropped, the core sends again.
        link.publish(99);
        link.command(LinkCommand::Disconnect);
        // The broker claims to remember the session; that changes nothing.
        broker.next_connection(Script { session_present: true, ..Script::default() });
        link.command(CONNECT);
        let up = LinkEvent::Up(LinkTerms {
            receive_max: u16::MAX,
            payload_max: None,
            session_present: true,
            frontiers: Vec::new(),
        });
        assert_eq!(link.event().await, up);
        (3..=6).for_each(|number| link.publish(number));
        link.expect_pubacks(3..=6).await;
        link.disconnect().await;
        let second: Vec<_> = broker.publishes().into_iter().filter(|p| p.connection == 2).collect();
        let seqs: Vec<_> = second.iter().map(|p| p.json()["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, [3, 4, 5, 6]);
        let pkids: Vec<_> = second.iter().map(|p| p.pkid).collect();
        assert_eq!(pkids, [1, 2, 3, 4]);
        assert!(second.iter().all(|p| !p.dup));
    }
}

#[tokio::test]
async fn reason_codes_of_mqtt_5_are_reported_as_they_came() {
    let codes = [0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99, 0x10, 0x00];
    let by_topic = Arc::new(move |topic: &str| {
        let index: usize = topic.rsplit('/').next().unwrap().parse().unwrap();
        codes[index]
    });
    let broker = ScriptedBroker::start(acks(Acks::ByTopic(by_topic))).await;
    let mut link = Link::up(broker.port(), Protocol::V5).await;
    for (index, code) in codes.into_iter().enumerate() {
        link.say(index as u64, reading(&index.to_string(), 1));
        assert_eq!(link.event().await, puback(index as u64, code));
    }
    link.disconnect().await;
}

#[tokio::test]
async fn thousands_are_acknowledged_once_each_while_packet_ids_come_round() {
    const COUNT: u64 = 6_000;
    const IN_FLIGHT: u64 = 50;
    for protocol in BOTH {
        let broker = ScriptedBroker::start(Script::default()).await;
        let mut link = Link::up(broker.port(), protocol).await;
        (1..=IN_FLIGHT).for_each(|number| link.publish(number));
        for number in 1..=COUNT {
            link.expect_pubacks([number]).await;
            if number + IN_FLIGHT <= COUNT {
                link.publish(number + IN_FLIGHT);
            }
        }
        link.disconnect().await;
        let publishes = broker.publishes();
        assert_eq!(publishes.len() as u64, COUNT);
        let mut seqs = publishes.iter().map(|p| p.json()["seq"].as_u64().unwrap());
        assert!(seqs.by_ref().eq(1..=COUNT));
    }
}

#[tokio::test]
async fn packet_ids_that_collide_keep_their_publish() {
    // With a Receive Maximum of 5 rumqttc numbers 1 to 5; acknowledged from the
    // back, each new publish meets an id that is in use.
    const COUNT: u64 = 50;
    let script = Script { receive_maximum: Some(5), ..acks(Acks::Reversed(5)) };
    let broker = ScriptedBroker::start(script).await;
    let mut link = Link::up(broker.port(), Protocol::V5).await;
    let (mut sent, mut done) = (5, Vec::new());
    (1..=5).for_each(|number| link.publish(number));
    while done.len() < 50 {
        match link.event().await {
            LinkEvent::Puback { id, code: 0 } => done.push(id.0),
            event => panic!("{event:?}"),
        }
        if sent < COUNT {
            sent += 1;
            link.publish(sent);
        }
    }
    done.sort_unstable();
    assert!(done.into_iter().eq(1..=COUNT));
    link.disconnect().await;
}
