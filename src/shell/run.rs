//! Runs the agent: starts it, watches over it, and stops it in phases.
//!
//! A stop: sources stop and hand over what they hold; the core commits it and
//! waits for PUBACKs; the broker gets a last status; the store is closed. Each phase has
//! a deadline. A crash at any point costs nothing but repeats, so a phase that takes too
//! long is cut off.

mod start;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Report;
use super::driver::DriverEnd;
use super::listen::Listening;
use super::notices::Notices;
use super::reload::{Origin, Reloadable};
use super::startup::StartupError;
use crate::config::Config;
use crate::host;
use crate::host::sampler::Sampler;
use crate::host::signal::{Request, Signals};
use crate::http::api;
use crate::link::LinkHandle;
use crate::output;

pub use self::start::start;

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

/// The runtime that the agent is made for, with one worker thread.
///
/// What the agent does is a chain from the readers over the driver to the uplinks; the
/// journal, files and blocking calls have threads of their own. A second worker would be
/// woken by the kernel for each PUBACK that comes in while the first one sends: a third more
/// work for the processor, and no reading sooner.
///
/// # Errors
/// The kernel has no thread or descriptor to give.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
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
