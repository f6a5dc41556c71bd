//! The question for the delivery frontiers that the broker retains: asked
//! before the first publish, and never the reason why a link stays down.

use tidegate::core::id::{Epoch, Seq, SourceId};
use tidegate::core::seam::{DownCause, LinkCommand, LinkEvent, RetainedFrontier};

use crate::harness::{BOTH, CONNECT, Link, settings};
use crate::support::broker::ScriptedBroker;
use crate::support::script::{Script, Subscriptions};

const ASKING: LinkCommand = LinkCommand::Connect { asks_frontiers: true };

fn said(source: &str, through_seq: u64) -> (String, Vec<u8>) {
    let payload = format!(
        "{{\"v\":1,\"gateway\":\"gw-07\",\"source\":\"{source}\",\"epoch\":\"3-0f3a6c21\",\
         \"through_seq\":{through_seq},\"pending\":0,\"at\":\"2026-11-30T12:00:00.000000000Z\"}}"
    );
    (format!("tidegate/gw-07/frontier/{source}"), payload.into_bytes())
}

fn heard(source: &str, through_seq: u64) -> RetainedFrontier {
    RetainedFrontier {
        source: SourceId::new(source),
        epoch: Epoch { number: 3, nonce: 0x0f3a_6c21 },
        through_seq: Seq(through_seq),
    }
}

impl Link {
    async fn frontiers(&mut self) -> Vec<RetainedFrontier> {
        match self.event().await {
            LinkEvent::Up(terms) => terms.frontiers,
            event => panic!("not up but {event:?}"),
        }
    }
}

/// What comes up with a broker of this kind, and what the broker has seen once a
/// publish was acknowledged.
async fn asked(
    protocol: tidegate::mqtt::Protocol,
    script: Script,
) -> (Vec<RetainedFrontier>, ScriptedBroker) {
    let broker = ScriptedBroker::start(script).await;
    let mut link = Link::spawn(settings(broker.port(), protocol));
    link.command(ASKING);
    let frontiers = link.frontiers().await;
    link.publish(1);
    link.expect_pubacks([1]).await;
    link.disconnect().await;
    (frontiers, broker)
}

#[tokio::test]
async fn what_is_retained_is_told_before_the_first_publish() {
    for protocol in BOTH {
        let retained = vec![said("a", 700), said("b", 0)];
        let script = Script { retained, ..Script::default() };
        let (frontiers, broker) = asked(protocol, script).await;
        assert_eq!(frontiers, [heard("a", 700), heard("b", 0)]);
        assert_eq!((broker.log().subscribes, broker.log().unsubscribes), (1, 1));
    }
}

#[tokio::test]
async fn rubbish_and_what_is_of_others_is_passed_over() {
    let (_, of_a) = said("a", 700);
    let other = String::from_utf8(of_a.clone()).unwrap().replace("gw-07", "gw-08");
    let broken = |text: &str| ("tidegate/gw-07/frontier/a".to_owned(), text.as_bytes().to_vec());
    for protocol in BOTH {
        let retained = vec![
            broken(""),
            broken("not JSON"),
            broken("{\"gateway\":\"gw-07\",\"source\":\"a\",\"epoch\":\"x\",\"through_seq\":1}"),
            broken("{\"gateway\":\"gw-07\",\"source\":\"a\",\"epoch\":\"1-0\",\"through_seq\":-1}"),
            broken(&other),
            ("tidegate/gw-07/frontier/b".to_owned(), of_a.clone()),
            ("somewhere/else".to_owned(), of_a.clone()),
            ("tidegate/gw-07/frontier/\u{fffd}".to_owned(), vec![0xff; 3_000]),
            said("c", 5),
        ];
        let (frontiers, _) = asked(protocol, Script { retained, ..Script::default() }).await;
        assert_eq!(frontiers, [heard("c", 5)]);
    }
}

#[tokio::test]
async fn a_broker_that_refuses_or_never_answers_is_up_all_the_same() {
    for protocol in BOTH {
        for subscriptions in [Subscriptions::Refused, Subscriptions::Ignored] {
            let retained = vec![said("a", 700)];
            let script = Script { subscriptions, retained, ..Script::default() };
            let (frontiers, broker) = asked(protocol, script).await;
            assert_eq!((frontiers, broker.log().connects.len()), (Vec::new(), 1));
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_too_late_changes_nothing_and_ends_the_subscription() {
    for protocol in BOTH {
        // After the first publish: the link has stopped waiting then.
        let subscriptions = Subscriptions::TakenLate;
        let script = Script { subscriptions, retained: vec![said("a", 700)], ..Script::default() };
        let broker = ScriptedBroker::start(script).await;
        let mut link = Link::spawn(settings(broker.port(), protocol));
        link.command(ASKING);
        assert_eq!(link.frontiers().await, []);
        for number in 1..=3 {
            link.publish(number);
            link.expect_pubacks([number]).await;
        }
        broker.wait_for(|log| log.unsubscribes == 1, crate::harness::PATIENCE).await;
        link.disconnect().await;
    }
}

#[tokio::test]
async fn a_broker_that_dies_of_the_question_is_not_asked_for_ever() {
    for protocol in BOTH {
        let script = Script { subscriptions: Subscriptions::Fatal, ..Script::default() };
        let broker = ScriptedBroker::start(script).await;
        let mut link = Link::spawn(settings(broker.port(), protocol));
        for _ in 0..3 {
            link.command(ASKING);
            link.expect_down(DownCause::Network).await;
        }
        link.command(ASKING);
        assert_eq!(link.frontiers().await, []);
        link.publish(1);
        link.expect_pubacks([1]).await;
        assert_eq!(broker.log().subscribes, 3);
    }
}

#[tokio::test]
async fn without_the_question_nothing_is_subscribed_to() {
    let broker = ScriptedBroker::start(Script::default()).await;
    let mut link = Link::spawn(settings(broker.port(), tidegate::mqtt::Protocol::V5));
    link.command(CONNECT);
    assert_eq!(link.frontiers().await, []);
    assert_eq!(broker.log().subscribes, 0);
}
