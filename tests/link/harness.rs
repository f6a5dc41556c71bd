//! A link under test, and readings to send over it.

use std::sync::Arc;
use std::time::Duration;

use crate::readings;
use tidegate::core::clock::ClockState;
use tidegate::core::id::{Epoch, PublishId, Seq, SourceId, UplinkId};
use tidegate::core::limits;
use tidegate::core::reading::{Entry, GapReason, GapRecord, Record, Series, Stamp, Value};
use tidegate::core::seam::{
    DownCause, Frontier, Lane, LinkCommand, LinkEvent, LinkStatus, Publish, PublishBody,
};
use tidegate::core::time::IngestTime;
use tidegate::link::{self, BatchFormat, LinkHandle, Settings};
use tidegate::mqtt::{Broker, Login, Protocol};
use tidegate::wire::topic::Template;
use tokio::sync::mpsc;

/// Connects without asking for anything.
pub(crate) const CONNECT: LinkCommand = LinkCommand::Connect { asks_frontiers: false };
pub(crate) const BOTH: [Protocol; 2] = [Protocol::V5, Protocol::V311];
pub(crate) const EPOCH: Epoch = Epoch { number: 1, nonce: 0x9f3a_6c21 };
/// Far longer than anything here takes; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn settings(port: u16, protocol: Protocol) -> Settings {
    Settings {
        gateway: "gw-07".into(),
        broker: Broker {
            host: "127.0.0.1".into(),
            port,
            path: None,
            client_id: "tidegate-gw-07".into(),
            login: Login::default(),
        },
        protocol,
        keep_alive: Duration::from_secs(30),
        inflight_max: 100,
        max_payload: limits::MAX_PAYLOAD_DEFAULT,
        topic: Template::parse("tidegate/{gateway}/readings/{source}").unwrap(),
        backfill_topic: None,
        batch_format: BatchFormat::Json,
    }
}

pub(crate) struct Link {
    pub(crate) handle: LinkHandle,
    pub(crate) events: mpsc::Receiver<(UplinkId, LinkEvent)>,
}

impl Link {
    pub(crate) fn spawn(settings: Settings) -> Link {
        let (sender, events) = mpsc::channel(1_024);
        Link { handle: link::spawn(UplinkId(0), settings, sender, || 42), events }
    }

    /// A link that is up.
    pub(crate) async fn up(port: u16, protocol: Protocol) -> Link {
        let mut link = Link::spawn(settings(port, protocol));
        link.connect().await;
        link
    }

    pub(crate) fn command(&self, command: LinkCommand) {
        self.handle.commands.try_send(command).unwrap();
    }

    pub(crate) async fn event(&mut self) -> LinkEvent {
        tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("no event").unwrap().1
    }

    pub(crate) async fn connect(&mut self) {
        self.command(CONNECT);
        let event = self.event().await;
        assert!(matches!(event, LinkEvent::Up { .. }), "{event:?}");
    }

    /// Publishes a reading whose id and seq are both `number`.
    pub(crate) fn publish(&self, number: u64) {
        self.say(number, reading("press-line", number));
    }

    pub(crate) fn say(&self, id: u64, body: PublishBody) {
        self.say_knowing(0, id, body);
    }

    /// The same, decided on when it was known that the batch `last_refused` is too large.
    pub(crate) fn say_knowing(&self, last_refused: u64, id: u64, body: PublishBody) {
        let (id, last_refused) = (PublishId(id), PublishId(last_refused));
        let publish = Publish { id, lane: Lane::Live, last_refused, body };
        self.command(LinkCommand::Publish(publish));
    }

    pub(crate) async fn expect_pubacks(&mut self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            assert_eq!(self.event().await, puback(id, 0));
        }
    }

    pub(crate) async fn expect_down(&mut self, expected: DownCause) -> String {
        match self.event().await {
            LinkEvent::Down { reason, cause, draw } => {
                assert_eq!((cause, draw), (expected, 42), "{reason}");
                reason
            }
            event => panic!("not down but {event:?}"),
        }
    }

    /// Ends the connection; proves that nothing else was reported before.
    pub(crate) async fn disconnect(&mut self) {
        self.command(LinkCommand::Disconnect);
        self.expect_down(DownCause::Asked).await;
    }

    /// The reason of an attempt that must fail.
    pub(crate) async fn refused(settings: Settings, cause: DownCause) -> String {
        let mut link = Link::spawn(settings);
        link.command(CONNECT);
        link.expect_down(cause).await
    }
}

pub(crate) fn puback(id: u64, code: u8) -> LinkEvent {
    LinkEvent::Puback { id: PublishId(id), code }
}

pub(crate) fn reading(source: &str, seq: u64) -> PublishBody {
    PublishBody::Entry(Entry::Reading(record(source, seq)))
}

pub(crate) fn text(seq: u64, text: String) -> PublishBody {
    let value = Value::Text(text.into());
    PublishBody::Entry(Entry::Reading(Record { value, ..record("press-line", seq) }))
}

pub(crate) fn record(source: &str, seq: u64) -> Record {
    let series = Series { entity: "pump-7".into(), property: "pressure_kpa".into(), unit: None };
    Record {
        epoch: EPOCH,
        series: Arc::new(series),
        value: Value::F64(412.5),
        stamp: Stamp {
            ingest_time: IngestTime::from_unix_ns(1_796_000_523_130_000_000),
            ..readings::stamp(1_796_000_523_123_000_000)
        },
        ..readings::record(source, seq)
    }
}

pub(crate) fn gap() -> PublishBody {
    PublishBody::Entry(Entry::Gap(GapRecord {
        source: SourceId::new("press-line"),
        epoch: EPOCH,
        first_seq: Seq(5),
        last_seq: Some(Seq(9)),
        reason: GapReason::Evicted,
        first_event_time: None,
        last_event_time: None,
        at: IngestTime::from_unix_ns(0),
    }))
}

pub(crate) fn frontier() -> PublishBody {
    PublishBody::Frontier(Frontier {
        source: SourceId::new("press-line"),
        epoch: EPOCH,
        through_seq: Seq(1),
        complete_before: None,
        pending: 0,
        at: IngestTime::from_unix_ns(0),
    })
}

pub(crate) fn status(is_online: bool) -> PublishBody {
    PublishBody::Status(LinkStatus {
        is_online,
        epoch: EPOCH,
        pending: 0,
        clock: ClockState::Synchronized,
        at: IngestTime::from_unix_ns(0),
    })
}
