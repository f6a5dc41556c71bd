//! The loop: gather inputs, read the clock once, let the core decide, carry out
//! what it asks for.
//!
//! One task owns the agent. It waits for nothing but inputs: the channels to the store and
//! the link have room for everything that the core's bounds allow, and a source that must
//! wait is simply not read from.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::desk::Returned;
use super::notices::Notices;
use super::roster::{Change, Positions};
use super::site::Site;
use super::telemetry::Telemetry;
use super::wiring;
use crate::core::agent::Agent;
use crate::core::clock::ClockFacts;
use crate::core::id::{ReceiptId, UplinkId};
use crate::core::limits::{TURN_BATCHES_MAX, TURN_INPUTS_MAX};
use crate::core::seam::{Effect, Input, LinkCommand, LinkEvent, Now, Outcome, StoreEvent};
use crate::core::time::{MonoTime, Span};
use crate::core::wear::Wear;
use crate::host::{HostClock, disk, memory};
use crate::http::api::{Answer, Request};
use crate::http::config::ConfigBoard;
use crate::http::status::{About, Report};
use crate::source::SourceMessage;
use crate::source::health::HealthBoard;
use crate::store::worker::Worker;

/// A turn comes at least this often, for the watchdog and the status.
const IDLE_TURN: Duration = Duration::from_secs(1);

/// Shortest sleep of a turn: tokio's timer is no finer, so a deadline already past waits
/// this long.
const TIMER_GRAIN: Duration = Duration::from_millis(1);

/// Between two published reports.
const REPORT_INTERVAL: Span = Span::from_millis(250);

/// Between two signs of life asked of the store thread.
const PING_INTERVAL: Span = Span::from_millis(900);

/// The receiving ends of the driver's inputs.
#[derive(Debug)]
pub struct Inbox {
    /// From all sources.
    pub sources: mpsc::Receiver<SourceMessage>,
    /// From the store thread.
    pub store: mpsc::Receiver<StoreEvent>,
    /// From the link tasks.
    pub link: mpsc::Receiver<(UplinkId, LinkEvent)>,
    /// What the machine says about its clocks.
    pub clock: mpsc::Receiver<ClockFacts>,
    /// Requests for a report of this moment, and operators' statements about the clock.
    pub requests: mpsc::Receiver<Request>,
    /// Inputs released from the quarantine.
    pub releases: mpsc::Receiver<Returned>,
    /// Changes of the configured sources.
    pub changes: mpsc::Receiver<Change>,
    /// Turns true once the sources have stopped.
    pub stop: watch::Receiver<bool>,
}

/// Where the driver sends what the core asks for.
#[derive(Debug)]
pub struct Outbox {
    /// The store thread.
    pub store: Worker,
    /// The link tasks, by uplink.
    pub links: Vec<mpsc::Sender<LinkCommand>>,
    /// Logs and metrics.
    pub telemetry: Telemetry,
    /// What the log said last.
    pub notices: Notices,
    /// The outputs on site.
    pub site: Site,
    /// What each source says of itself.
    pub health: HealthBoard,
    /// Which configuration is in force.
    pub config: ConfigBoard,
    /// The newest report.
    pub reports: watch::Sender<Arc<Report>>,
    /// Counts the turns, for the watchdog.
    pub turns: Arc<AtomicU64>,
}

/// The loop and what it owns.
pub struct Driver {
    agent: Agent,
    clock: Arc<HostClock>,
    about: About,
    inbox: Inbox,
    outbox: Outbox,
    receipts: HashMap<ReceiptId, oneshot::Sender<Outcome>>,
    last_receipt: ReceiptId,
    /// Operators to be answered once this turn's inputs are handled.
    vouched: Vec<Answer>,
    /// A change of the sources that the agent has not got yet; answered when it has.
    change: Option<Change>,
    /// Taken out of the queue of the sources when they changed, before it.
    waiting: VecDeque<SourceMessage>,
    changed: Option<oneshot::Sender<Positions>>,
    inputs: Vec<Input>,
    effects: Vec<Effect>,
    wear: Wear,
    reported: MonoTime,
    pinged: MonoTime,
    is_stopping: bool,
}

/// How the loop ended.
#[derive(Debug)]
pub struct DriverEnd {
    /// To be closed.
    pub store: Worker,
    /// To be stopped.
    pub site: Site,
    /// Whether everything accepted is durable and the broker has the last status.
    pub is_settled: bool,
    /// Readings accepted that are not durable.
    pub uncommitted: u64,
    /// Readings that wait for the next start.
    pub backlog: u64,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("is_stopping", &self.is_stopping).finish_non_exhaustive()
    }
}

impl Driver {
    /// A loop around `agent`; `effects` are those of its making.
    pub fn new(
        agent: Agent,
        effects: Vec<Effect>,
        clock: Arc<HostClock>,
        about: About,
        (inbox, outbox): (Inbox, Outbox),
    ) -> Self {
        Self {
            agent,
            clock,
            about,
            inbox,
            outbox,
            receipts: HashMap::new(),
            last_receipt: ReceiptId(0),
            vouched: Vec::new(),
            change: None,
            waiting: VecDeque::new(),
            changed: None,
            inputs: Vec::with_capacity(TURN_INPUTS_MAX),
            effects,
            wear: Wear::default(),
            reported: MonoTime::default(),
            pinged: MonoTime::default(),
            is_stopping: false,
        }
    }

    /// Turns until the agent has settled after a stop, or the store is gone. May be dropped
    /// at any point: only durable readings have been acknowledged.
    pub async fn run(mut self) -> DriverEnd {
        let mut is_store_there = self.turn();
        while is_store_there && !self.agent.is_settled() {
            self.wait().await;
            self.gather();
            is_store_there = self.turn();
        }
        let now = self.clock.now();
        let status = self.agent.status(&now);
        self.publish_report(&now);
        DriverEnd {
            store: self.outbox.store,
            site: self.outbox.site,
            is_settled: self.agent.is_settled(),
            uncommitted: status.uncommitted,
            backlog: status.backlog,
        }
    }

    /// Waits for the first input of a turn, or its deadline.
    async fn wait(&mut self) {
        let sleep = self.sleep();
        let accepts = self.agent.accepts_readings();
        if accepts && !self.waiting.is_empty() {
            return;
        }
        let inbox = &mut self.inbox;
        tokio::select! {
            Some(event) = inbox.store.recv() => self.inputs.push(Input::Store(event)),
            Some((uplink, event)) = inbox.link.recv() => {
                self.inputs.push(Input::Link(uplink, event));
            }
            Some(facts) = inbox.clock.recv() => self.inputs.push(Input::Clock(facts)),
            Some(request) = inbox.requests.recv() => self.answer(request),
            Some(change) = inbox.changes.recv(), if self.change.is_none() => {
                self.change = Some(change);
            }
            Some(message) = inbox.sources.recv(), if accepts => self.take_message(message),
            Some(returned) = inbox.releases.recv(), if accepts => self.take_back(returned),
            Ok(()) = inbox.stop.changed(), if !self.is_stopping => {}
            () = tokio::time::sleep(sleep) => {}
        }
    }

    fn sleep(&self) -> Duration {
        let Some(deadline) = self.agent.next_deadline() else { return IDLE_TURN };
        let now = crate::host::kernel_clock::mono();
        deadline.since(now).to_std().clamp(TIMER_GRAIN, IDLE_TURN)
    }

    /// Takes further inputs that are there already, up to the bounds of a turn.
    fn gather(&mut self) {
        // Room is kept for the sources: a storm of PUBACKs must not keep new
        // readings out.
        while self.inputs.len() < TURN_INPUTS_MAX - TURN_BATCHES_MAX {
            if let Ok(event) = self.inbox.store.try_recv() {
                self.inputs.push(Input::Store(event));
            } else if let Ok((uplink, event)) = self.inbox.link.try_recv() {
                self.inputs.push(Input::Link(uplink, event));
            } else {
                break;
            }
        }
        while let Ok(facts) = self.inbox.clock.try_recv() {
            self.inputs.push(Input::Clock(facts));
        }
        while let Ok(request) = self.inbox.requests.try_recv() {
            self.answer(request);
        }
        let accepts = self.agent.accepts_readings();
        while accepts && self.has_room_for_a_batch() {
            let Some(message) = self.next_message() else { break };
            self.take_message(message);
        }
        while accepts && self.has_room_for_a_batch() {
            let Ok(returned) = self.inbox.releases.try_recv() else { break };
            self.take_back(returned);
        }
        let is_empty = self.inbox.sources.is_empty() && self.waiting.is_empty();
        let is_drained = is_empty || !accepts;
        // Only after everything that leaving sources have handed in.
        if let Some(Change { sources, positions }) = self.change.take_if(|_| is_drained) {
            self.drop_what_comes_again();
            self.inputs.push(Input::Sources(sources));
            self.changed = Some(positions);
        }
        if *self.inbox.stop.borrow() && !self.is_stopping && is_drained {
            self.is_stopping = true;
            self.inputs.push(Input::Stop);
        }
    }

    fn next_message(&mut self) -> Option<SourceMessage> {
        self.waiting.pop_front().or_else(|| self.inbox.sources.try_recv().ok())
    }

    /// While nothing is accepted the queue is not empty when the sources change. A
    /// source that starts anew goes on from the place that it is told now: what its
    /// predecessor handed in from that place on must not be taken behind its back, and
    /// comes again. Whose receipt nobody waits for, the source has gone.
    fn drop_what_comes_again(&mut self) {
        let comes_again = |message: &SourceMessage| {
            let has_gone = message.receipt.as_ref().is_none_or(oneshot::Sender::is_closed);
            message.batch.advance.is_some() && has_gone
        };
        while let Ok(message) = self.inbox.sources.try_recv() {
            self.waiting.push_back(message);
        }
        self.waiting.retain(|message| !comes_again(message));
    }

    /// Whether this turn takes one more batch of a source, or one release.
    fn has_room_for_a_batch(&self) -> bool {
        let brings_entries =
            |input: &&Input| matches!(input, Input::Readings(_) | Input::Release(_));
        self.inputs.len() < TURN_INPUTS_MAX
            && self.inputs.iter().filter(brings_entries).count() < TURN_BATCHES_MAX
    }

    fn take_message(&mut self, message: SourceMessage) {
        let SourceMessage { mut batch, receipt } = message;
        batch.receipt = receipt.map(|receipt| self.owe(receipt));
        self.inputs.push(Input::Readings(batch));
    }

    fn take_back(&mut self, returned: Returned) {
        let Returned { mut release, receipt } = returned;
        release.receipt = Some(self.owe(receipt));
        self.inputs.push(Input::Release(release));
    }

    fn owe(&mut self, receipt: oneshot::Sender<Outcome>) -> ReceiptId {
        self.last_receipt = ReceiptId(self.last_receipt.0 + 1);
        self.receipts.insert(self.last_receipt, receipt);
        self.last_receipt
    }

    /// One turn. False when the store thread is gone.
    fn turn(&mut self) -> bool {
        let now = self.clock.now();
        for input in self.inputs.drain(..) {
            self.agent.handle(&now, input, &mut self.effects);
        }
        self.agent.end_turn(&now, &mut self.effects);
        let mut is_store_there = true;
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            is_store_there &= self.carry_out(effect, &now);
        }
        // The vector is kept to reuse its allocation.
        self.effects = effects;
        self.outbox.telemetry.sweep(now.mono);
        if now.mono.since(self.pinged) >= PING_INTERVAL {
            self.outbox.store.ping();
            self.pinged = now.mono;
        }
        if let Some(positions) = self.changed.take() {
            // Whoever asked may have given up.
            let _ = positions.send(self.agent.positions());
        }
        for answer in std::mem::take(&mut self.vouched) {
            self.report_to(answer, &now);
        }
        if now.mono.since(self.reported) >= REPORT_INTERVAL {
            self.publish_report(&now);
        }
        self.outbox.turns.fetch_add(1, Ordering::Relaxed);
        is_store_there
    }

    /// Carries out one effect. False when the store thread is gone.
    fn carry_out(&mut self, effect: Effect, now: &Now) -> bool {
        match effect {
            Effect::Commit(commit) => return self.outbox.store.commit(commit).is_ok(),
            Effect::Fetch(fetch) => return self.outbox.store.fetch(fetch).is_ok(),
            Effect::Remove(segment) => return self.outbox.store.remove(segment).is_ok(),
            Effect::Checkpoint(of, bytes) => {
                return self.outbox.store.checkpoint(of, bytes).is_ok();
            }
            Effect::Show(shown) => self.outbox.site.show(shown),
            Effect::Link(uplink, command) => self.command(uplink, command),
            Effect::Receipt(id, outcome) => {
                // A source that hung up meanwhile needs no answer.
                if let Some(receipt) = self.receipts.remove(&id) {
                    let _ = receipt.send(outcome);
                }
            }
            Effect::Notice(notice) => self.outbox.telemetry.take(notice, now.mono),
        }
        true
    }

    fn command(&self, uplink: UplinkId, command: LinkCommand) {
        let Some(link) = self.outbox.links.get(usize::from(uplink.0)) else { return };
        // There is room for more than the in-flight bound; if the task is gone
        // the process is about to end.
        if let Err(error) = link.try_send(command) {
            tracing::error!(%error, "the link takes no commands");
        }
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Report(answer) => {
                let now = self.clock.now();
                self.report_to(answer, &now);
            }
            Request::Vouch(vouch, answer) => {
                self.inputs.push(Input::Vouched(vouch));
                self.vouched.push(answer);
            }
        }
    }

    fn report_to(&mut self, answer: Answer, now: &Now) {
        self.publish_report(now);
        // Whoever asked may have given up.
        let _ = answer.send(Arc::clone(&self.outbox.reports.borrow()));
    }

    fn publish_report(&mut self, now: &Now) {
        let views = self.outbox.health.views();
        self.outbox.telemetry.health(&views, now.mono);
        let health = wiring::health(views, now.uptime());
        let report = Report::new(&self.about, &self.agent.status(now), now)
            .with_health(health)
            .with_notices(self.outbox.notices.newest())
            .with_config(self.outbox.config.view())
            .with_memory(memory::resident_bytes());
        let written = disk::written_bytes();
        if let Some(bytes) = written {
            self.wear.saw(now.mono, bytes, report.accepted());
        }
        let report = report.with_disk_written(written, &self.wear);
        self.outbox.reports.send_replace(Arc::new(report));
        self.reported = now.mono;
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
