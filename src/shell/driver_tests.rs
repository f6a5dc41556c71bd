//! The loop with the real core and the real store, and a broker of ten lines.

use std::collections::BTreeMap;
use std::path::Path;

use tokio::time::timeout;

use super::*;
use crate::core::agent::{Settings, SourceSettings, WhenFull};
use crate::core::clock::{BootFacts, ClockSettings, Vouch};
use crate::core::id::{PublishId, SourceId, UplinkId};
use crate::core::limits::{
    PENDING_BYTES_MAX, PENDING_ENTRIES_MAX, SEGMENT_BYTES_DEFAULT, SOURCE_BATCH_MAX,
};
use crate::core::reading::{Entry, Flags, Quality, Reading, Series, Value};
use crate::core::seam::{Advance, Batch, DownCause, LinkTerms, PublishBody};
use crate::core::settings::UplinkSettings;
use crate::host::disk;
use crate::http::metrics::Metrics;
use crate::http::stream::Results;
use crate::store;

/// Generous: only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(30);

struct Rig<D = tokio::task::JoinHandle<DriverEnd>> {
    messages: mpsc::Sender<SourceMessage>,
    commands: mpsc::Receiver<LinkCommand>,
    link_events: mpsc::Sender<(UplinkId, LinkEvent)>,
    requests: mpsc::Sender<Request>,
    changes: mpsc::Sender<Change>,
    stop: watch::Sender<bool>,
    clock: Arc<HostClock>,
    driver: D,
}

fn settings() -> Settings {
    Settings {
        commit_interval: Span::from_millis(5),
        commit_bytes: 256 * 1024,
        quota_bytes: 1 << 30,
        reserve_bytes: 0,
        when_full: WhenFull::DropOldest,
        max_age: None,
        uplinks: vec![UplinkSettings {
            backoff: (Span::from_millis(10), Span::from_secs(1)),
            frontier_interval: Span::from_secs(60),
            ..UplinkSettings::named("main")
        }],
        windows: Vec::new(),
        orders: Vec::new(),
        checkpoint_interval: Span::from_secs(30),
        clock: ClockSettings { hold_unsynchronized: Span::from_secs(0), ..ClockSettings::DEFAULT },
        sources: BTreeMap::from([(SourceId::new("press"), SourceSettings::DEFAULT)]),
    }
}

fn rig(data_dir: &Path) -> Rig {
    turning(at_rest(data_dir, settings()))
}

fn turning(rig: Rig<Driver>) -> Rig {
    let Rig { messages, commands, link_events, requests, changes, stop, clock, driver } = rig;
    let driver = tokio::spawn(driver.run());
    Rig { messages, commands, link_events, requests, changes, stop, clock, driver }
}

/// The same with a loop that does not turn by itself.
fn at_rest(data_dir: &Path, settings: Settings) -> Rig<Driver> {
    let (store_events, store_inbox) = mpsc::channel(16);
    let options = store::Options {
        data_dir: data_dir.to_owned(),
        segment_bytes: SEGMENT_BYTES_DEFAULT,
        quota_bytes: 1 << 30,
        probe_free: disk::free_bytes,
    };
    let pass_on = Box::new(move |event| {
        let _ = store_events.blocking_send(event);
    });
    let (store, recovered) = store::worker::spawn(options, pass_on).unwrap();
    let clock = Arc::new(HostClock::new());
    let now = clock.now();
    let about = About {
        gateway: "gw-07".to_owned(),
        started: (now.mono, now.wall),
        quota_bytes: 1 << 30,
        reserve_bytes: 0,
    };
    let mut effects = Vec::new();
    let agent = Agent::new(settings, recovered, BootFacts::default(), 7, &now, &mut effects);
    let first = Report::new(&about, &agent.status(&now), &now);
    let (messages, sources) = mpsc::channel(16);
    let (link_events, link) = mpsc::channel(1024);
    let (requests, request_inbox) = mpsc::channel(16);
    let (changes, change_inbox) = mpsc::channel(1);
    let (stop, stop_seen) = watch::channel(false);
    let (link_out, commands) = mpsc::channel(1024);
    let inbox = Inbox {
        sources,
        store: store_inbox,
        link,
        clock: mpsc::channel(1).1,
        requests: request_inbox,
        releases: mpsc::channel(1).1,
        changes: change_inbox,
        stop: stop_seen,
    };
    let outbox = Outbox {
        store,
        links: vec![link_out],
        site: Site::quiet("gw-07", Results::new("gw-07")),
        telemetry: Telemetry::new(Arc::new(Metrics::new(Vec::new())), Vec::new()),
        notices: Notices::default(),
        health: HealthBoard::default(),
        config: ConfigBoard::default(),
        reports: watch::channel(Arc::new(first)).0,
        turns: Arc::default(),
    };
    let driver = Driver::new(agent, effects, Arc::clone(&clock), about, (inbox, outbox));
    Rig { messages, commands, link_events, requests, changes, stop, clock, driver }
}

fn batch(clock: &HostClock, readings: usize) -> Batch {
    let series =
        Arc::new(Series { entity: "pump-7".into(), property: "pressure".into(), unit: None });
    let reading = Reading {
        series,
        value: Value::F64(412.5),
        quality: Quality::Good,
        quality_detail: None,
        device_time: None,
        id: None,
        flags: Flags::NONE,
    };
    Batch {
        source: SourceId::new("press"),
        arrival: clock.arrival(),
        readings: vec![reading; readings],
        refused: Vec::new(),
        advance: None,
        receipt: None,
    }
}

impl Rig {
    /// Hands a batch in and waits for its receipt.
    async fn deliver(&self, readings: usize) -> Outcome {
        let (receipt, outcome) = oneshot::channel();
        let batch = batch(&self.clock, readings);
        self.messages.send(SourceMessage { batch, receipt: Some(receipt) }).await.unwrap();
        timeout(DEADLINE, outcome).await.unwrap().unwrap()
    }

    async fn report(&self) -> Arc<Report> {
        let (answer, report) = oneshot::channel();
        self.requests.send(Request::Report(answer)).await.unwrap();
        timeout(DEADLINE, report).await.unwrap().unwrap()
    }

    async fn vouch(&self, error_ns: u64) -> Arc<Report> {
        let (answer, report) = oneshot::channel();
        self.requests.send(Request::Vouch(Vouch { error_ns }, answer)).await.unwrap();
        timeout(DEADLINE, report).await.unwrap().unwrap()
    }

    async fn command(&mut self) -> LinkCommand {
        timeout(DEADLINE, self.commands.recv()).await.unwrap().unwrap()
    }

    /// Stops the loop and closes its store.
    async fn end(self) -> DriverEnd {
        self.stop.send_replace(true);
        timeout(DEADLINE, self.driver).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn a_turn_takes_so_many_batches_and_leaves_room_for_them_in_a_storm_of_pubacks() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = at_rest(dir.path(), settings());
    let taken = |driver: &Driver| {
        driver.inputs.iter().filter(|input| matches!(input, Input::Readings(_))).count()
    };
    for _ in 0..TURN_BATCHES_MAX + 3 {
        let message = SourceMessage { batch: batch(&rig.clock, 1), receipt: None };
        rig.messages.try_send(message).unwrap();
    }
    for _ in 0..2 * TURN_INPUTS_MAX {
        let event = LinkEvent::Puback { id: PublishId(1), code: 0 };
        rig.link_events.try_send((UplinkId(0), event)).unwrap();
    }
    rig.driver.gather();
    assert_eq!((taken(&rig.driver), rig.driver.inputs.len()), (TURN_BATCHES_MAX, TURN_INPUTS_MAX));
    rig.driver.inputs.clear();
    rig.driver.gather();
    assert_eq!(taken(&rig.driver), 3);
    rig.driver.outbox.store.close_and_join();
}

/// A batch of one reading of a source that goes on from its place.
fn step(clock: &HostClock, source: &str, from: &[u8], to: &[u8]) -> Batch {
    let advance = Advance { from: from.into(), to: to.into() };
    Batch { source: SourceId::new(source), advance: Some(advance), ..batch(clock, 1) }
}

/// While nothing is accepted, as with a full buffer, what a source has handed in waits
/// in the queue when that source starts anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_starts_anew_while_nothing_is_accepted_goes_on_from_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = at_rest(dir.path(), settings());
    while rig.driver.agent.accepts_readings() {
        let full = batch(&rig.clock, SOURCE_BATCH_MAX);
        rig.driver.inputs.push(Input::Readings(full));
        rig.driver.turn();
    }
    let hand_in = |batch: Batch| {
        let (receipt, outcome) = oneshot::channel();
        rig.messages.try_send(SourceMessage { batch, receipt: Some(receipt) }).unwrap();
        outcome
    };
    // Of one that has stopped, and does not hear of it any more.
    drop(hand_in(step(&rig.clock, "log", b"", b"2")));
    drop(hand_in(step(&rig.clock, "log", b"2", b"4")));
    drop(hand_in(batch(&rig.clock, 1)));
    // Of one that runs on.
    let other = hand_in(step(&rig.clock, "other", b"", b"7"));
    let names = ["press", "log", "other"];
    let sources = names.map(|name| (SourceId::new(name), SourceSettings::DEFAULT)).into();
    let (positions, told) = oneshot::channel();
    rig.driver.change = Some(Change { sources, positions });
    rig.driver.gather();
    rig.driver.turn();
    assert_eq!(told.await.unwrap(), Positions::new(), "nothing of them is taken yet");

    let rig = turning(rig);
    let (receipt, outcome) = oneshot::channel();
    let batch = step(&rig.clock, "log", b"", b"3");
    rig.messages.send(SourceMessage { batch, receipt: Some(receipt) }).await.unwrap();
    assert_eq!(timeout(DEADLINE, outcome).await.unwrap(), Ok(Outcome::Durable));
    assert_eq!(timeout(DEADLINE, other).await.unwrap(), Ok(Outcome::Durable));
    let (positions, told) = oneshot::channel();
    let sources = names.map(|name| (SourceId::new(name), SourceSettings::DEFAULT)).into();
    rig.changes.send(Change { sources, positions }).await.unwrap();
    let told = timeout(DEADLINE, told).await.unwrap().unwrap();
    let at = |name: &str| &*told[&SourceId::new(name)];
    assert_eq!((at("log"), at("other")), (&b"3"[..], &b"7"[..]));
    let report = rig.report().await;
    let accepted = names.map(|name| {
        report.sources.iter().find(|one| one.name == name).map_or(0, |one| one.accepted)
    });
    assert_eq!(accepted[1..], [1, 1]);
    assert_eq!(accepted[0] % SOURCE_BATCH_MAX as u64, 1, "what does not come again is taken");
    rig.end().await.store.close_and_join();
}

#[tokio::test(flavor = "multi_thread")]
async fn when_nothing_more_may_wait_the_commit_does_not_either() {
    let dir = tempfile::tempdir().unwrap();
    let (commit_interval, commit_bytes) = (Span::from_secs(60), PENDING_BYTES_MAX);
    let rig =
        turning(at_rest(dir.path(), Settings { commit_interval, commit_bytes, ..settings() }));
    // The first commit may come for what else a start has to say.
    for _ in 0..2 {
        for _ in 0..PENDING_ENTRIES_MAX / SOURCE_BATCH_MAX - 1 {
            let batch = batch(&rig.clock, SOURCE_BATCH_MAX);
            rig.messages.send(SourceMessage { batch, receipt: None }).await.unwrap();
        }
        assert_eq!(rig.deliver(SOURCE_BATCH_MAX).await, Outcome::Durable);
    }
    let end = rig.end().await;
    end.store.close_and_join();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_means_durable_and_a_stop_leaves_nothing_uncommitted() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = rig(dir.path());
    assert_eq!(rig.command().await, LinkCommand::Connect { asks_frontiers: true });
    let (reason, cause) = ("refused".to_owned(), DownCause::Refused);
    let down = LinkEvent::Down { reason, cause, draw: u64::MAX };
    rig.link_events.send((UplinkId(0), down)).await.unwrap();
    assert_eq!(rig.deliver(3).await, Outcome::Durable);
    let report = rig.report().await;
    assert_eq!((report.sources[0].accepted, report.sources[0].stored), (3, 3));
    // Without a receipt, and left in the queue when the stop comes.
    let batch = batch(&rig.clock, 2);
    rig.messages.send(SourceMessage { batch, receipt: None }).await.unwrap();
    let end = rig.end().await;
    assert_eq!((end.is_settled, end.uncommitted, end.backlog), (true, 0, 5));
    end.store.close_and_join();
    let stats = store::inspect::stats(dir.path()).unwrap();
    // Five readings, and the event of the boot.
    assert_eq!(stats.entries, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_broker_everything_is_acknowledged_and_it_hears_a_last_word() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = rig(dir.path());
    assert_eq!(rig.command().await, LinkCommand::Connect { asks_frontiers: true });
    let up = LinkEvent::Up(LinkTerms {
        receive_max: 100,
        payload_max: None,
        session_present: false,
        frontiers: Vec::new(),
    });
    rig.link_events.send((UplinkId(0), up)).await.unwrap();
    let mut commands = std::mem::replace(&mut rig.commands, mpsc::channel(1).1);
    let events = rig.link_events.clone();
    let broker = tokio::spawn(async move {
        let (mut readings, mut is_online) = (0, None);
        while let Some(command) = commands.recv().await {
            let LinkCommand::Publish(publish) = command else { break };
            match publish.body {
                PublishBody::Entry(Entry::Reading(_)) => readings += 1,
                PublishBody::Entry(_) | PublishBody::Batch(_) => {}
                PublishBody::Status(status) => is_online = Some(status.is_online),
                PublishBody::Frontier(_) => {}
            }
            let puback = LinkEvent::Puback { id: publish.id, code: 0 };
            events.send((UplinkId(0), puback)).await.unwrap();
        }
        (readings, is_online)
    });
    for _ in 0..10 {
        assert_eq!(rig.deliver(50).await, Outcome::Durable);
    }
    let caught_up = async {
        while rig.report().await.sources[0].acknowledged < 500 {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, caught_up).await.unwrap();
    let end = rig.end().await;
    assert_eq!((end.is_settled, end.uncommitted, end.backlog), (true, 0, 0));
    end.store.close_and_join();
    assert_eq!(timeout(DEADLINE, broker).await.unwrap().unwrap(), (500, Some(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_after_an_operators_word_has_it_taken_in() {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig(dir.path());
    assert_eq!(rig.report().await.clock.source, "unknown");
    let clock = rig.vouch(2_000_000_000).await.clock.clone();
    assert_eq!((clock.source.as_str(), clock.state.as_str()), ("manual", "holdover"));
    assert!((2_000_000..2_100_000).contains(&clock.max_error_us.unwrap()), "{clock:?}");
    assert_eq!(clock.events.last().unwrap().kind, "vouched");
    rig.end().await.store.close_and_join();
}
