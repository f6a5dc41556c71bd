//! Builds the agent from its configuration and wires it.
//!
//! ```text
//! settings ─► journal ─► core ─► links, clock ─► driver ─► watchdogs ─► HTTP ─► sources
//! ```
//!
//! The journal is not touched before the settings are known to be good. The sources come
//! last: what they hand in finds everything in place.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::Running;
use crate::config::Config;
use crate::core::agent::Agent;
use crate::core::id::UplinkId;
use crate::core::limits::EVENT_QUEUE_MAX;
use crate::core::seam::{Effect, Input, LinkEvent, Recovered, StoreEvent};
use crate::host::sampler::{self, SamplerSettings};
use crate::host::{self, HostClock};
use crate::http::api::{Api, Request};
use crate::http::config::ConfigBoard;
use crate::http::metrics::Metrics;
use crate::http::status::About;
use crate::http::stream::Results;
use crate::link::{self, LinkHandle};
use crate::shell::Report;
use crate::shell::channels;
use crate::shell::driver::{Driver, Outbox};
use crate::shell::ingest::Doors;
use crate::shell::listen::{self, Routes};
use crate::shell::lock::Lock;
use crate::shell::notices::Notices;
use crate::shell::reload::Reloadable;
use crate::shell::roster::{Positions, Roster};
use crate::shell::site::Site;
use crate::shell::startup::{LastRun, StartupError};
use crate::shell::telemetry::Telemetry;
use crate::shell::watchdog::{self, Watched};
use crate::shell::wiring;
use crate::source;
use crate::source::health::HealthBoard;
use crate::store::worker::Worker;
use crate::store::{self, OpenError};

/// Starts the agent, in this process, on this runtime.
///
/// # Errors
/// What keeps it from starting. Neither broken data nor an absent broker does.
pub async fn start(config: Config, notices: Notices) -> Result<Running, StartupError> {
    let link_settings = wiring::link_settings(&config)?;
    let token = wiring::token(&config)?;
    host::clocks::self_test().map_err(StartupError::Clock)?;
    let clock = Arc::new(HostClock::new());

    let lock = claim(&config, &clock)?;
    let (store_events, store_inbox) = mpsc::channel(EVENT_QUEUE_MAX);
    let (store, recovered) = open_store(&config, lock, store_events).await?;
    let sampling = wiring::sampler(&config);
    let core = Core::wake(&config, recovered, &clock, &sampling);
    let positions = core.agent.positions();

    let (senders, inbox) = channels::open(store_inbox);
    let links = spawn_links(link_settings, &senders.link);
    let sampler = sampler::spawn(sampling, senders.clock);

    let (boards, reports_out) = Boards::new(&config, &store, core.first);
    let desk = wiring::desk(&config, store.questions(), senders.releases, &clock);
    let parsers = desk.sources.clone();
    let outbox = boards.outbox(&config, notices, store, &links, reports_out);
    let hands = (inbox, outbox);
    let driver = Driver::new(core.agent, core.effects, Arc::clone(&clock), core.about, hands);
    let driver = tokio::spawn(driver.run());
    let stuck_after = config.journal.stuck_after;
    let (store_watch, watchdog) = boards.watch(stuck_after);

    let doors = Doors::default();
    let api = boards.api(senders.requests.clone());
    let routes = Routes { api, desk, doors: doors.clone() };
    let address = wiring::http_address(&config);
    let listening = listen::start(address, token, wiring::data_dir(&config), routes).await;

    let mut roster = Roster::new(senders.sources, Arc::clone(&clock), doors, boards.health);
    start_sources(&mut roster, &config, &positions);
    let (board, changes) = (boards.config, senders.changes);
    let reloadable = Reloadable { config, board, roster, changes, parsers, clock };
    Ok(Running {
        reports: boards.reports,
        http: listening.address,
        requests: senders.requests,
        reloadable,
        driver_stop: senders.stop,
        driver,
        links,
        listening,
        watchdog,
        store_watch,
        stuck_after,
        sampler,
    })
}

/// Makes the data directory this process's own.
fn claim(config: &Config, clock: &HostClock) -> Result<Lock, StartupError> {
    let path = wiring::data_dir(config);
    store::create_data_dir(path)
        .map_err(|error| StartupError::DataDir { path: path.to_owned(), error })?;
    Lock::take(path, clock.now().wall).map_err(StartupError::Lock)
}

/// The store keeps the `claim` for as long as it has the journal open, whatever becomes
/// of the others.
async fn open_store(
    config: &Config,
    claim: Lock,
    events: mpsc::Sender<StoreEvent>,
) -> Result<(Worker, Recovered), StartupError> {
    let options = wiring::store_options(config);
    let pass_on = Box::new(move |event| {
        let _claim = &claim;
        // The driver is gone only when the process ends.
        let _ = events.blocking_send(event);
    });
    // Recovery reads the disk: not on this runtime's threads.
    let opened = tokio::task::spawn_blocking(move || store::worker::spawn(options, pass_on)).await;
    opened.unwrap_or(Err(OpenError::Thread)).map_err(StartupError::Store)
}

/// The core as it is before the driver has it.
struct Core {
    agent: Agent,
    /// Of its making, to be carried out.
    effects: Vec<Effect>,
    about: About,
    first: Report,
}

impl Core {
    /// The core goes on from what was `recovered`, and knows what the machine says of its
    /// clock.
    fn wake(
        config: &Config,
        recovered: Recovered,
        clock: &HostClock,
        sampling: &SamplerSettings,
    ) -> Self {
        let last_run = LastRun::of(&recovered);
        let about = wiring::about(config, clock);
        let settings = config.agent_settings();
        let mut effects = Vec::new();
        let now = clock.now();
        let nonce = host::draw() as u32;
        let boot_facts = wiring::boot_facts();
        let mut agent = Agent::new(settings, recovered, boot_facts, nonce, &now, &mut effects);
        // Before any reading: else the first ones would be stamped as unsynchronized although
        // the clock is right.
        let facts = Input::Clock(sampler::first(sampling));
        agent.handle(&now, facts, &mut effects);
        let first = Report::new(&about, &agent.status(&now), &now);
        last_run.say(first.journal.readings);
        Self { agent, effects, about, first }
    }
}

/// The link task of each uplink.
fn spawn_links(
    settings: Vec<link::Settings>,
    events: &mpsc::Sender<(UplinkId, LinkEvent)>,
) -> Vec<LinkHandle> {
    let numbered = (0..).map(UplinkId).zip(settings);
    numbered.map(|(id, one)| link::spawn(id, one, events.clone(), host::draw)).collect()
}

/// What the driver writes on, for others to look at.
struct Boards {
    metrics: Arc<Metrics>,
    results: Results,
    health: HealthBoard,
    config: ConfigBoard,
    reports: watch::Receiver<Arc<Report>>,
    turns: Arc<AtomicU64>,
    /// That of the store thread.
    heartbeat: Arc<AtomicU64>,
}

impl Boards {
    /// Boards with the `first` report, and where the driver puts those that follow.
    fn new(config: &Config, store: &Worker, first: Report) -> (Self, watch::Sender<Arc<Report>>) {
        let (reports_out, reports) = watch::channel(Arc::new(first));
        let boards = Self {
            metrics: Arc::new(Metrics::new(wiring::uplink_names(config))),
            results: Results::new(&config.gateway.id),
            health: HealthBoard::default(),
            config: ConfigBoard::default(),
            reports,
            turns: Arc::new(AtomicU64::new(0)),
            heartbeat: store.heartbeat(),
        };
        (boards, reports_out)
    }

    /// What the driver acts through; starts the outputs on site.
    fn outbox(
        &self,
        config: &Config,
        notices: Notices,
        store: Worker,
        links: &[LinkHandle],
        reports: watch::Sender<Arc<Report>>,
    ) -> Outbox {
        Outbox {
            store,
            links: links.iter().map(|link| link.commands.clone()).collect(),
            notices,
            telemetry: Telemetry::new(Arc::clone(&self.metrics), wiring::uplink_names(config)),
            site: Site::start(config, self.results.clone()),
            health: self.health.clone(),
            config: self.config.clone(),
            reports,
            turns: Arc::clone(&self.turns),
        }
    }

    /// Starts both watchdogs: the first ends when the store has not answered for
    /// `stuck_after`, the second feeds systemd's.
    fn watch(&self, stuck_after: Duration) -> (JoinHandle<()>, JoinHandle<()>) {
        let (turns, heartbeat) = (Arc::clone(&self.turns), Arc::clone(&self.heartbeat));
        let store_hangs = watchdog::store_hangs(turns, heartbeat, stuck_after);
        let store_hangs = tokio::spawn(store_hangs);
        let watched = Watched {
            turns: Arc::clone(&self.turns),
            heartbeat: Arc::clone(&self.heartbeat),
            reports: self.reports.clone(),
        };
        (store_hangs, tokio::spawn(watchdog::run(watched)))
    }

    fn api(&self, requests: mpsc::Sender<Request>) -> Api {
        Api { requests, metrics: Arc::clone(&self.metrics), results: self.results.clone() }
    }
}

/// Starts all sources, each from its position.
fn start_sources(roster: &mut Roster, config: &Config, positions: &Positions) {
    for source in &config.sources {
        // What cannot be had now, the source says and waits for.
        let bound = source::bind(source).unwrap_or_default();
        roster.start(source, bound, positions);
    }
    roster.open_doors();
}
