//! What happens when: the PLC runs, the cable is cut and mended, the backlog
//! drains, and the books are compared.

use std::path::Path;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::super::digits::grouped;
use super::broker;
use super::cable::Cable;
use super::subscriber::Subscriber;
use super::view::{Snapshot, View};
use super::{Plan, config};
use crate::cli::audit::proof::{self, Produced, Proof};
use crate::core::id::is_window;
use crate::core::time::MonoTime;
use crate::exit::{Exit, Failure};
use crate::host::kernel_clock::mono;
use crate::host::signal::{Request, Signals};
use crate::http::status::Report;
use crate::shell::notices::Notices;
use crate::shell::run::{self, Running};

/// Between two looks at the agent, which reports four times a second.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Seconds between two reports of the agent.
const REPORT_EVERY_S: f64 = 0.25;
/// After the PLC has finished: what has not arrived by then counts as missing.
const DRAIN_WITHIN_S: f64 = 60.0;
/// Live readings wait for their group commit, some half a second: as many
/// seconds' worth of them are no backlog.
const LIVE_S: f64 = 1.0;

/// How far the play is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The uplink has not been up yet.
    Starting,
    /// Before the outage.
    Whole,
    /// During the outage.
    Cut,
    /// After it, the agent has not noticed yet.
    Mended,
    /// It sends what has waited.
    Draining,
    /// Only live readings are left to send.
    Drained,
}

/// The play, and what is remembered of it for the end.
#[derive(Debug)]
pub(super) struct Script {
    plan: Plan,
    view: View,
    stage: Stage,
    started: MonoTime,
    depth_peak: u64,
    mended_at_s: f64,
    reconnected_at_s: f64,
    /// For the table: what happened, in sentences.
    facts: Vec<String>,
}

impl Script {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan,
            view: View::new(),
            stage: Stage::Starting,
            started: mono(),
            depth_peak: 0,
            mended_at_s: 0.0,
            reconnected_at_s: 0.0,
            facts: Vec::new(),
        }
    }

    /// Plays it, with the agent's data in `data_dir`.
    ///
    /// # Errors
    /// Something else than the proof failed, or a signal ended it early.
    pub(super) async fn play(
        mut self,
        data_dir: &Path,
        notices: Notices,
    ) -> Result<Proof, Failure> {
        let mut signals =
            Signals::new().map_err(|error| Failure::io("signals cannot be handled", &error))?;
        self.introduce()?;
        let broker = broker::start().await?;
        let subscriber = Subscriber::start(broker).await?;
        let cable = Cable::lay(broker)
            .await
            .map_err(|error| Failure::io("no port for the cable", &error))?;
        let config = config(&self.plan, data_dir, cable.address.port())?;
        self.started = mono();
        let running =
            run::start(config, notices).await.map_err(|error| Failure::new(Exit::Io, error))?;
        if let Some(address) = running.http {
            self.view.say(&format!("  Look at it while it runs: http://{address}/\n"))?;
        }
        let mut reports = running.reports.clone();
        let outcome = tokio::select! {
            outcome = self.direct(&running, &cable, &subscriber) => outcome,
            () = interrupted(&mut signals) => {
                Err(Failure::new(Exit::CheckFailed, "interrupted: nothing is proved"))
            }
        };
        running.stop().await;
        outcome?;
        let report = reports.borrow_and_update().clone();
        self.conclude(&report, &cable, &subscriber)
    }

    fn introduce(&mut self) -> Result<(), Failure> {
        let Plan { run_for, outage, rate, .. } = self.plan;
        let outage = match outage.is_zero() {
            true => "the uplink stays whole".to_owned(),
            false => format!(
                "the uplink is cut for {} in the middle",
                humantime::format_duration(outage)
            ),
        };
        let run_for = humantime::format_duration(run_for);
        let how = format!("  {rate} readings/s for {run_for}; {outage}. Ctrl-C ends it.\n");
        let how = self.view.dim(&how);
        let what = "Tidegate demo: simulated PLC -> gateway -> uplink -> broker -> subscriber";
        self.view.say(&format!("{what}\n{how}"))
    }

    /// Until everything has arrived, or should have.
    async fn direct(
        &mut self,
        running: &Running,
        cable: &Cable,
        subscriber: &Subscriber,
    ) -> Result<(), Failure> {
        let mut reports = running.reports.clone();
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let deadline_s = self.plan.run_for.as_secs_f64() + DRAIN_WITHIN_S;
        loop {
            looks.tick().await;
            if reports.has_changed().is_err() {
                return Err(Failure::new(Exit::Bug, "the agent ended by itself"));
            }
            if subscriber.has_ended() {
                return Err(Failure::new(Exit::Io, "the subscriber lost the broker"));
            }
            let report = reports.borrow_and_update().clone();
            let arrived = subscriber.received().distinct();
            self.depth_peak = self.depth_peak.max(report.journal.readings_alone());
            while self.advance(&report, cable)? {}
            let now = self.snapshot(&report, arrived);
            self.view.progress(&now)?;
            if self.is_over(&report, arrived) {
                let all = grouped(arrived);
                return self.phase(&format!("all {all} readings are at the subscriber"));
            }
            if self.elapsed_s() > deadline_s {
                return self.phase("time is up: what has not arrived counts as missing");
            }
        }
    }

    /// The next stage, if its time has come.
    fn advance(&mut self, report: &Report, cable: &Cable) -> Result<bool, Failure> {
        let elapsed_s = self.elapsed_s();
        let is_up = report.uplink.state == "up";
        let has_outage = !self.plan.outage.is_zero();
        let next = match self.stage {
            Stage::Starting if is_up => {
                self.phase("the uplink is up: readings flow")?;
                Stage::Whole
            }
            Stage::Starting | Stage::Whole if has_outage && elapsed_s >= self.plan.cut_at_s() => {
                cable.cut();
                self.phase("the uplink is CUT: readings go to the journal")?;
                Stage::Cut
            }
            Stage::Cut if elapsed_s >= self.plan.mend_at_s() => {
                cable.mend();
                self.mended_at_s = elapsed_s;
                let depth = grouped(report.journal.readings_alone());
                self.phase(&format!("the cable is mended: {depth} readings wait"))?;
                Stage::Mended
            }
            Stage::Mended if is_up => {
                self.reconnected_at_s = elapsed_s;
                self.phase("the uplink is up again: the backlog drains beside live readings")?;
                Stage::Draining
            }
            Stage::Draining if !self.has_backlog(report) => {
                self.phase("the backlog is drained")?;
                self.note_outage(elapsed_s);
                Stage::Drained
            }
            _ => return Ok(false),
        };
        self.stage = next;
        Ok(true)
    }

    fn note_outage(&mut self, drained_at_s: f64) {
        let outage = humantime::format_duration(self.plan.outage);
        let peak = grouped(self.depth_peak);
        let reconnect_s = self.reconnected_at_s - self.mended_at_s;
        // Reports come four times a second: shorter than that cannot be told.
        let drain = match drained_at_s - self.reconnected_at_s {
            ..REPORT_EVERY_S => format!("less than {REPORT_EVERY_S} s"),
            drain_s => format!("{drain_s:.1} s"),
        };
        self.facts.push(format!(
            "outage {outage}, {peak} readings waiting at most; \
             back after {reconnect_s:.1} s, drained in {drain}"
        ));
    }

    /// The PLC has finished, and all it said has arrived.
    fn is_over(&self, report: &Report, arrived: u64) -> bool {
        let has_played = match self.stage {
            Stage::Whole => self.plan.outage.is_zero(),
            stage => stage == Stage::Drained,
        };
        let accepted = accepted(report);
        has_played
            && accepted >= self.plan.count
            && report.journal.readings == 0
            && report.journal.uncommitted == 0
            && arrived >= accepted
    }

    fn has_backlog(&self, report: &Report) -> bool {
        report.journal.readings as f64 > self.plan.rate * LIVE_S
    }

    fn snapshot(&self, report: &Report, arrived: u64) -> Snapshot {
        let uplink = &report.uplink;
        let uplink = match uplink.retry_in_s {
            Some(wait_s) if uplink.state == "down" => format!("down, next try in {wait_s:.1} s"),
            _ => uplink.state.clone(),
        };
        Snapshot {
            elapsed_s: self.elapsed_s(),
            run_for_s: self.plan.run_for.as_secs_f64(),
            uplink,
            depth: report.journal.readings_alone(),
            depth_peak: self.depth_peak,
            journal_bytes: report.journal.bytes,
            oldest_s: report.journal.oldest_age_s,
            accepted: accepted(report),
            accepted_per_s: report.accepted_per_s,
            acknowledged_per_s: report.uplink.acknowledged_per_s,
            // The report is a quarter of a second old, and the subscriber is not.
            arrived: arrived.min(accepted(report)),
        }
    }

    fn conclude(
        mut self,
        report: &Report,
        cable: &Cable,
        subscriber: &Subscriber,
    ) -> Result<Proof, Failure> {
        let produced: Vec<Produced> = report
            .sources
            .iter()
            .map(|source| Produced {
                source: source.name.clone(),
                epoch: report.epoch.clone(),
                accepted: source.accepted,
            })
            .collect();
        let proof = proof::judge(self.plan.count, &produced, &subscriber.received());
        let connections = cable.connections();
        self.facts.push(format!("{connections} connections to the broker in all"));
        for window in &report.windows {
            let (name, fired, revised) =
                (&window.name, grouped(window.fired), grouped(window.revised));
            let (finals, late) = (grouped(window.finals), grouped(window.too_late));
            self.facts.push(format!(
                "window {name}: {fired} fired, {revised} revisions by late readings, {finals} final; \
                 {late} readings were too late for it and are in the late output (they were delivered as \
                 readings all the same)"
            ));
        }
        self.view.verdict(&proof, &self.facts)?;
        Ok(proof)
    }

    fn phase(&mut self, what: &str) -> Result<(), Failure> {
        let elapsed_s = self.elapsed_s();
        self.view.phase(elapsed_s, what)
    }

    fn elapsed_s(&self) -> f64 {
        mono().since(self.started).as_secs_f64()
    }
}

async fn interrupted(signals: &mut Signals) {
    while signals.next().await != Request::Stop {}
}

fn accepted(report: &Report) -> u64 {
    let readings = report.sources.iter().filter(|source| !is_window(&source.name));
    readings.map(|source| source.accepted).sum()
}
