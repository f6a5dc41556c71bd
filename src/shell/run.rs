//! Builds the agent from its configuration, wires it, watches over it, and
//! stops it in phases.
//!
//! A stop: sources stop and hand over what they hold; the core commits it and
//! waits for PUBACKs; the broker gets a last status; the store is closed. Each phase has
//! a deadline. A crash at any point costs nothing but repeats, so a phase that takes too
//! long is cut off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Report;
use super::channels;
use super::driver::{Driver, DriverEnd, Outbox};
use super::ingest::Doors;
use super::listen::{self, Listening, Routes};
use super::lock::Lock;
use super::notices::Notices;
use super::reload::{Origin, Reloadable};
use super::roster::Roster;
use super::site::Site;
use super::startup::{LastRun, StartupError};
use super::telemetry::Telemetry;
use super::watchdog::{self, Watched};
use super::wiring;
use crate::config::Config;
use crate::core::agent::Agent;
use crate::core::id::UplinkId;
use crate::core::limits::EVENT_QUEUE_MAX;
use crate::core::seam::{Input, Recovered, StoreEvent};
use crate::host::sampler::{self, Sampler};
use crate::host::signal::{Request, Signals};
use crate::host::{self, HostClock};
use crate::http::api::{self, Api};
use crate::http::config::ConfigBoard;
use crate::http::metrics::Metrics;
use crate::http::stream::Results;
use crate::link::{self, LinkHandle};
use crate::output;
use crate::source;
use crate::source::health::HealthBoard;
use crate::store::worker::Worker;
use crate::store::{self, OpenError};

/// Longest wait at a stop for a start that is nearly done.
const START_WITHIN: Duration = Duration::from_millis(500);
/// Longest wait at a stop for the sources to hand over what they hold.
const SOURCES_WITHIN: Duration = Duration::from_secs(2);
/// Longest wait at a stop for the last commit, its PUBACKs and the last status message.
const SETTLE_WITHIN: Duration = Duration::from_secs(3);
/// Longest wait at a stop for the disconnect from the broker.
const GOODBYE_WITHIN: Duration = Duration::from_millis(1_500);
/// Longest wait for a new report of the driver, before its last one is used.
const FRESH_WITHIN: Duration = Duration::from_millis(500);
/// Longest wait at a stop for the store to close.
const CLOSE_WITHIN: Duration = Duration::from_millis(1_500);

/// What the help of `run` says of SIGTERM: the phases of a stop, one after the other;
/// brokers and outputs are one.
const STOP_WITHIN: Duration = Duration::from_secs(8);
const _: () = {
    let (broker, output) = (GOODBYE_WITHIN.as_millis(), output::STOP_WITHIN.as_millis());
    let leaving = if broker > output { broker } else { output };
    let others = SOURCES_WITHIN.as_millis() + SETTLE_WITHIN.as_millis() + CLOSE_WITHIN.as_millis();
    assert!(leaving + others <= STOP_WITHIN.as_millis());
};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Whether everything accepted is on disk.
    pub is_durable: bool,
    /// Readings that wait for the next start.
    pub backlog: u64,
    /// The failure of the store that ended the run, if one did.
    pub failure: Option<StoreFailure>,
}

/// Why an agent cannot go on with its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// Its thread ended by itself: a bug, reported by the panic hook.
    Gone,
    /// Its thread has not answered for this long: the disk hangs. Only a new process
    /// can open the journal again.
    Hangs(Duration),
}

/// A running agent.
#[derive(Debug)]
pub struct Running {
    /// The newest report; at most a second old while the agent turns.
    pub reports: watch::Receiver<Arc<Report>>,
    /// Where HTTP answers; `None` when the address could not be had.
    pub http: Option<SocketAddr>,
    /// Asks the driver.
    pub requests: mpsc::Sender<api::Request>,
    reloadable: Reloadable,
    driver_stop: watch::Sender<bool>,
    driver: JoinHandle<DriverEnd>,
    links: Vec<LinkHandle>,
    listening: Listening,
    watchdog: JoinHandle<()>,
    /// Ends when the store hangs.
    store_watch: JoinHandle<()>,
    stuck_after: Duration,
    sampler: Sampler,
}

/// Runs the agent until a signal ends it, also while it starts. A second one ends it at
/// once. SIGHUP reads the configuration again; one that came before all is set up does
/// so then. The status has the `notices` of the log.
///
/// # Errors
/// What keeps it from starting.
pub async fn run(
    config: Config,
    notices: Notices,
    origin: Origin,
    mut signals: Signals,
) -> Result<RunEnd, StartupError> {
    // A task of its own: what blocks there on a slow disk must not keep signals waiting.
    let mut starting = tokio::spawn(start(config, notices));
    let mut running = tokio::select! {
        started = &mut starting => started.unwrap_or(Err(StartupError::Broke))?,
        () = signals.stop() => return give_up(starting, &mut signals).await,
    };
    say_ready(&running, &origin);
    let obeying = obey(&mut signals, &mut running.reloadable, &origin);
    tokio::select! {
        () = obeying => {}
        // The driver ends by itself only when the store thread is gone.
        end = &mut running.driver => return Ok(broken(end.ok())),
        _ = &mut running.store_watch => return Ok(running.hung()),
    }
    host::systemd::stopping();
    tracing::info!("stopping");
    let (requests, reports) = (running.requests.clone(), running.reports.clone());
    let in_a_hurry = async {
        second_stop(&mut signals).await;
        hurried(&*fresh(&requests, &reports).await)
    };
    tokio::select! {
        end = running.stop() => Ok(end),
        end = in_a_hurry => Ok(end),
    }
}

fn say_ready(running: &Running, origin: &Origin) {
    let Reloadable { board, clock, .. } = &running.reloadable;
    board.loaded(&origin.file, clock.now().wall);
    host::systemd::ready();
    let version = env!("CARGO_PKG_VERSION");
    match running.http {
        Some(address) => {
            tracing::info!(version, page = %format_args!("http://{address}/"), "ready");
        }
        None => tracing::info!(version, "ready"),
    }
}

/// Does what signals ask for, until they ask for the end.
async fn obey(signals: &mut Signals, reloadable: &mut Reloadable, origin: &Origin) {
    while signals.next().await == Request::Reload {
        tokio::select! {
            () = reloadable.reload(origin) => {}
            () = signals.stop() => return,
        }
    }
}

/// Ends while the start is not done. One that is done within a moment stops in order;
/// one that goes on is left as a crash would leave it, and as safely: nothing was
/// accepted, and the journal stays claimed as long as it is open.
async fn give_up(
    starting: JoinHandle<Result<Running, StartupError>>,
    signals: &mut Signals,
) -> Result<RunEnd, StartupError> {
    host::systemd::stopping();
    tracing::info!("stopping: the start is not done yet");
    let nothing_yet = RunEnd { is_durable: true, backlog: 0, failure: None };
    let in_order = async {
        match timeout(START_WITHIN, starting).await {
            Ok(started) => Ok(started.unwrap_or(Err(StartupError::Broke))?.stop().await),
            Err(_) => {
                tracing::info!("stopped in the middle of the start: the next one begins anew");
                Ok(nothing_yet)
            }
        }
    };
    tokio::select! {
        end = in_order => end,
        () = second_stop(signals) => Ok(nothing_yet),
    }
}

/// A report of this moment: the newest published one may be a second old and not count
/// readings that have become durable since. If the driver has ended, its last report.
async fn fresh(
    requests: &mpsc::Sender<api::Request>,
    reports: &watch::Receiver<Arc<Report>>,
) -> Arc<Report> {
    let (answer, report) = oneshot::channel();
    let asked = async {
        requests.send(api::Request::Report(answer)).await.ok()?;
        report.await.ok()
    };
    let report = timeout(FRESH_WITHIN, asked).await.ok().flatten();
    report.unwrap_or_else(|| Arc::clone(&reports.borrow()))
}

async fn second_stop(signals: &mut Signals) {
    while signals.next().await != Request::Stop {}
    tracing::warn!("asked twice: stopping at once");
}

fn broken(end: Option<DriverEnd>) -> RunEnd {
    let (uncommitted, backlog) = end.map_or((0, 0), |end| (end.uncommitted, end.backlog));
    RunEnd { is_durable: uncommitted == 0, backlog, failure: Some(StoreFailure::Gone) }
}

/// The end of a run that is not waited for, as a report shows it.
fn hurried(report: &Report) -> RunEnd {
    let journal = &report.journal;
    let is_durable = journal.uncommitted == 0;
    RunEnd { is_durable, backlog: journal.readings, failure: None }
}

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
    let last_run = LastRun::of(&recovered);
    let about = wiring::about(&config, &clock);
    let names = wiring::uplink_names(&config);
    let metrics = Arc::new(Metrics::new(names.clone()));
    let mut effects = Vec::new();
    let now = clock.now();
    let nonce = host::draw() as u32;
    let sampling = wiring::sampler(&config);
    let boot_facts = wiring::boot_facts();
    let mut agent =
        Agent::new(config.agent_settings(), recovered, boot_facts, nonce, &now, &mut effects);
    // Before any reading: else the first ones would be stamped as unsynchronized although
    // the clock is right.
    let facts = Input::Clock(sampler::first(&sampling));
    agent.handle(&now, facts, &mut effects);
    let first = Report::new(&about, &agent.status(&now), &now);
    last_run.say(first.journal.readings);
    let positions = agent.positions();
    let (senders, inbox) = channels::open(store_inbox);
    let links: Vec<LinkHandle> = (0..)
        .map(UplinkId)
        .zip(link_settings)
        .map(|(id, settings)| link::spawn(id, settings, senders.link.clone(), host::draw))
        .collect();
    let (reports_out, reports) = watch::channel(Arc::new(first));
    let sampler = sampler::spawn(sampling, senders.clock);
    let turns = Arc::new(AtomicU64::new(0));
    let heartbeat = store.heartbeat();

    let results = Results::new(&config.gateway.id);
    let desk = wiring::desk(&config, store.questions(), senders.releases, &clock);
    let parsers = desk.sources.clone();
    let health = HealthBoard::default();
    let board = ConfigBoard::default();
    let outbox = Outbox {
        store,
        links: links.iter().map(|link| link.commands.clone()).collect(),
        notices,
        telemetry: Telemetry::new(Arc::clone(&metrics), names),
        site: Site::start(&config, results.clone()),
        health: health.clone(),
        config: board.clone(),
        reports: reports_out,
        turns: Arc::clone(&turns),
    };
    let driver = Driver::new(agent, effects, Arc::clone(&clock), about, (inbox, outbox));
    let driver = tokio::spawn(driver.run());
    let stuck_after = config.journal.stuck_after;
    let store_watch =
        watchdog::store_hangs(Arc::clone(&turns), Arc::clone(&heartbeat), stuck_after);
    let store_watch = tokio::spawn(store_watch);
    let watched = Watched { turns, heartbeat, reports: reports.clone() };
    let watchdog = tokio::spawn(watchdog::run(watched));
    let api = Api { requests: senders.requests.clone(), metrics, results };
    let doors = Doors::default();
    let routes = Routes { api, desk, doors: doors.clone() };
    let address = wiring::http_address(&config);
    let listening = listen::start(address, token, wiring::data_dir(&config), routes).await;

    let mut roster = Roster::new(senders.sources, Arc::clone(&clock), doors, health);
    for source in &config.sources {
        // What cannot be had now, the source says and waits for.
        let bound = source::bind(source).unwrap_or_default();
        roster.start(source, bound, &positions);
    }
    roster.open_doors();
    let reloadable = Reloadable { config, board, roster, changes: senders.changes, parsers, clock };
    Ok(Running {
        reports,
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

impl Running {
    /// Where sources listen, by name; those left out wait for their address, or do not
    /// listen on TCP.
    pub fn sources(&self) -> Vec<(String, SocketAddr)> {
        self.reloadable.roster.addresses()
    }

    /// The end of a run whose store hangs: nothing more can be made durable.
    fn hung(&self) -> RunEnd {
        let failure = Some(StoreFailure::Hangs(self.stuck_after));
        RunEnd { failure, ..hurried(&self.reports.borrow()) }
    }

    /// Stops in phases; within eight seconds whatever hangs.
    pub async fn stop(mut self) -> RunEnd {
        self.reloadable.roster.stop(|_| true, SOURCES_WITHIN).await;
        self.driver_stop.send_replace(true);
        let end = match timeout(SETTLE_WITHIN, &mut self.driver).await {
            Ok(end) => end.ok(),
            Err(_) => {
                self.driver.abort();
                None
            }
        };
        let report = Arc::clone(&self.reports.borrow());
        self.listening.stop();
        self.watchdog.abort();
        self.store_watch.abort();
        self.sampler.task.abort();
        let goodbyes = self.links.into_iter().map(|link| timeout(GOODBYE_WITHIN, link.stop()));
        let goodbyes = async {
            if futures_util::future::join_all(goodbyes).await.iter().any(Result::is_err) {
                tracing::debug!("a broker does not say goodbye");
            }
        };
        let Some(end) = end else {
            goodbyes.await;
            tracing::warn!(
                "the agent did not settle in time: what waits goes out at the next start"
            );
            return hurried(&report);
        };
        tokio::join!(goodbyes, end.site.stop());
        let (uncommitted, backlog) = (end.uncommitted, end.backlog);
        let close = tokio::task::spawn_blocking(|| end.store.close_and_join());
        if timeout(CLOSE_WITHIN, close).await.is_err() {
            tracing::warn!("the store does not close: the next start recovers it");
        }
        tracing::info!("stopped: {}", last_words(uncommitted, backlog));
        RunEnd { is_durable: uncommitted == 0, backlog, failure: None }
    }
}

/// What an orderly stop leaves behind, for people.
fn last_words(uncommitted: u64, backlog: u64) -> String {
    let synced = match uncommitted {
        0 => "all synced".to_owned(),
        1 => "1 reading is not synced".to_owned(),
        many => format!("{many} readings are not synced"),
    };
    match backlog {
        0 => format!("{synced}, nothing waits for the broker"),
        1 => format!("{synced}, 1 waits for the broker"),
        many => format!("{synced}, {many} wait for the broker"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_facts() {
        assert_eq!(last_words(0, 5), "all synced, 5 wait for the broker");
        assert_eq!(last_words(0, 1), "all synced, 1 waits for the broker");
        assert_eq!(last_words(0, 0), "all synced, nothing waits for the broker");
        assert_eq!(last_words(1, 0), "1 reading is not synced, nothing waits for the broker");
        assert_eq!(last_words(7, 9), "7 readings are not synced, 9 wait for the broker");
    }
}
