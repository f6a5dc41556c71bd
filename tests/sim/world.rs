//! The world around one agent: an event queue ordered by virtual time and
//! insertion, carrying out the same effects that the product carries out.

mod faults;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};

use tidegate::core::agent::{Agent, WhenFull};
use tidegate::core::id::{ReceiptId, UplinkId};
use tidegate::core::reading::Entry;
use tidegate::core::seam::{
    Checkpointed, Commit, DownCause, Effect, Input, LinkCommand, LinkEvent, Notice, Now, Outcome,
    Publish, PublishBody, StoreEvent,
};

use crate::broker::{Answers, Broker};
use crate::checker;
use crate::clock::Machine;
use crate::disk::Disk;
use crate::rng::Rng;
use crate::settings::settings;
use crate::source::Source;

pub const INFLIGHT_MAX: usize = 20;

/// A bug planted into the world, which the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    Nothing,
    /// The store answers before it has flushed: sled's `flush` without the sync.
    AnswersBeforeFlush,
    /// The time server is wrong by more than it says.
    LyingServer,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub when_full: WhenFull,
    pub quota_bytes: u64,
    /// Older readings are given up, if anything is said.
    pub max_age_s: Option<i64>,
    pub has_rot: bool,
    /// The disk is put back to an older copy of it, once.
    pub is_restored: bool,
    pub planted: Planted,
    /// 1 or 2.
    pub uplinks: usize,
    /// Readings that go together; 1: each alone.
    pub readings_max: usize,
    /// Numbers that a broker never takes, by uplink: one of so many, from which on.
    pub refuses: [Option<(u64, u64)>; 2],
}

#[derive(Clone, Debug)]
enum Happening {
    Source(usize),
    Store(StoreEvent),
    Written(Commit),
    Link(UplinkId, u64, LinkEvent),
    Arrives(UplinkId, u64, Publish),
    Deadline,
    Crash,
    Reboot,
    Rot,
    Cut,
    /// A copy of the disk is made, or put back.
    Backup,
    Restore,
    Clock,
    ClockFault,
    /// A source leaves the configuration, or comes back.
    Leaves(usize),
    Returns(usize),
}

pub struct World {
    pub scenario: Scenario,
    pub rng: Rng,
    pub agent: Agent,
    pub disk: Disk,
    /// One behind each uplink.
    pub brokers: Vec<Broker>,
    backup: Option<Disk>,
    pub machine: Machine,
    /// The newest look at its clocks.
    looked: Now,
    pub sources: Vec<Source>,
    pub now_us: u64,
    pub has_faults: bool,
    pub log: DefaultHasher,
    pub steps: u64,
    life: u64,
    queue: BTreeMap<(u64, u64), (u64, Happening)>,
    inserted: u64,
    deadline_us: Option<u64>,
    next_receipt: u64,
    /// How often a source has come back.
    pub returned: u64,
}

impl World {
    pub fn new(scenario: Scenario) -> Self {
        let mut rng = Rng::new(scenario.seed);
        let sources: Vec<Source> = (0..3)
            .map(|i| {
                let limit = rng.between(100, 400) as i64;
                // Where the disk goes back there must be something left to number.
                let limit = if scenario.is_restored { 5 * limit } else { limit };
                Source::new(["press", "oven", "pump"][i], limit)
            })
            .collect();
        let mut disk = Disk::default();
        let mut machine = Machine::new(&mut rng);
        machine.has_server = rng.chance(60);
        if scenario.planted == Planted::LyingServer {
            (machine.has_server, machine.lie_ns) = (true, 300_000_000);
        }
        let now = machine.now(0);
        let mut effects = Vec::new();
        let refuses = scenario.refuses.iter().take(scenario.uplinks);
        let brokers = refuses.map(|refuses| Broker::new(scenario.is_restored, *refuses)).collect();
        let agent = Agent::new(
            settings(&scenario, &sources),
            disk.recover(),
            machine.facts_of_boot(),
            rng.next() as u32,
            &now,
            &mut effects,
        );
        let mut world = Self {
            scenario,
            rng,
            agent,
            disk,
            brokers,
            backup: None,
            machine,
            looked: now,
            sources,
            now_us: 0,
            has_faults: true,
            log: DefaultHasher::new(),
            steps: 0,
            life: 0,
            queue: BTreeMap::new(),
            inserted: 0,
            deadline_us: None,
            next_receipt: 0,
            returned: 0,
        };
        world.carry_out(effects);
        for source in 0..world.sources.len() {
            world.after(1_000 * source as u64, Happening::Source(source));
        }
        world.schedule_fault();
        world.schedule_clock_fault();
        let leaves_us = world.rng.between(1_000_000, 30_000_000);
        let who = world.rng.between(0, 2) as usize;
        world.after_all(leaves_us, Happening::Leaves(who));
        if world.scenario.is_restored {
            let at_us = world.rng.between(500_000, 10_000_000);
            world.after_all(at_us, Happening::Backup);
            world.after_all(at_us + 3_000_000, Happening::Restore);
        }
        world.after(0, Happening::Clock);
        world.turn(None);
        world
    }

    /// Runs until `until_us`, or until nothing is left to happen.
    pub fn run(&mut self, until_us: u64) {
        while let Some(((at, order), _)) = self.queue.first_key_value().map(|(k, v)| (*k, v.0)) {
            if at > until_us {
                break;
            }
            let Some((life, happening)) = self.queue.remove(&(at, order)) else { break };
            self.now_us = self.now_us.max(at);
            self.steps += 1;
            if life == self.life || life == u64::MAX {
                self.happen(happening);
                checker::after_step(self);
            }
        }
        self.now_us = self.now_us.max(until_us);
    }

    pub fn now(&self) -> Now {
        self.looked
    }

    /// The faults are over: everything works from now on.
    pub fn heal(&mut self) {
        self.has_faults = false;
        self.machine.has_server = true;
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Source(source) => self.source_sends(source),
            Happening::Store(event) => self.turn(Some(Input::Store(event))),
            Happening::Written(commit) => self.written(commit),
            Happening::Link(uplink, connection, event) => {
                if connection == self.broker(uplink).connection {
                    self.turn(Some(Input::Link(uplink, event)));
                }
            }
            Happening::Arrives(uplink, connection, publish) => {
                self.arrives(uplink, connection, publish);
            }
            Happening::Deadline => {
                self.deadline_us = None;
                self.turn(None);
            }
            Happening::Crash => self.crash(),
            Happening::Reboot => {
                self.now_us += self.rng.between(0, 20_000_000);
                self.machine.boot(self.now_us, &mut self.rng);
                self.now_us += self.rng.between(100_000, 3_000_000);
                self.crash();
            }
            Happening::Clock => {
                let facts = self.machine.facts(self.now_us);
                let delay_us = self.rng.between(900_000, 1_100_000);
                self.after(delay_us, Happening::Clock);
                self.turn(Some(Input::Clock(facts)));
            }
            Happening::ClockFault => self.clock_fault(),
            Happening::Leaves(source) => self.source_leaves(source),
            Happening::Returns(source) => self.source_returns(source),
            Happening::Backup => {
                // What of it had not reached the disk is settled when it is made: what
                // the broker will notice is judged by what is in it.
                let mut copy = self.disk.clone();
                copy.crash(&mut self.rng);
                self.backup = Some(copy);
            }
            Happening::Restore => self.restore(),
            Happening::Rot => {
                self.disk.rot(&mut self.rng);
                self.schedule_fault();
            }
            Happening::Cut => {
                let uplink = UplinkId(self.rng.between(0, self.brokers.len() as u64 - 1) as u8);
                if self.broker(uplink).is_up {
                    let answers = self.brokers[usize::from(uplink.0)].cut(&mut self.rng, "cut");
                    self.answer(uplink, answers);
                }
                self.schedule_fault();
            }
        }
    }

    fn turn(&mut self, input: Option<Input>) {
        let now = self.machine.now(self.now_us);
        self.looked = now;
        let mut effects = Vec::new();
        if let Some(input) = input {
            self.agent.handle(&now, input, &mut effects);
        }
        self.agent.end_turn(&now, &mut effects);
        self.carry_out(effects);
        let wait_us = |at: tidegate::core::time::MonoTime| {
            u64::try_from(at.since(now.mono).ns()).unwrap_or(0).div_ceil(1_000)
        };
        let deadline_us = self.agent.next_deadline().map(|at| self.now_us + wait_us(at));
        if let Some(at) = deadline_us.filter(|at| self.deadline_us.is_none_or(|known| *at < known))
        {
            let at = at.max(self.now_us + 1);
            self.deadline_us = Some(at);
            self.after(at - self.now_us, Happening::Deadline);
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match &effect {
                Effect::Checkpoint(_, bytes) => bytes.hash(&mut self.log),
                other => format!("{other:?}").hash(&mut self.log),
            }
            match effect {
                Effect::Commit(commit) => self.commit(commit),
                Effect::Fetch(fetch) => {
                    let fetched = StoreEvent::Fetched(self.disk.fetch(&fetch));
                    let delay_us = self.rng.between(50, 5_000);
                    self.after(delay_us, Happening::Store(fetched));
                }
                Effect::Remove(id) => {
                    self.disk.remove(id);
                    let disk = self.disk.facts();
                    self.after(100, Happening::Store(StoreEvent::Removed { id, disk }));
                }
                Effect::Link(uplink, command) => self.command(uplink, command),
                Effect::Receipt(receipt, outcome) => self.receipt(receipt, outcome),
                Effect::Checkpoint(of, bytes) => {
                    let place = match of {
                        Checkpointed::Windows => &mut self.disk.checkpoint,
                        Checkpointed::Dedupe => &mut self.disk.dedupe,
                    };
                    *place = Some(bytes.to_vec());
                    let written = StoreEvent::Checkpointed { of, error: None };
                    self.after(self.scenario.seed % 5 * 1_000, Happening::Store(written));
                }
                Effect::Show(shown) => checker::is_durable_before_shown(self, &shown),
                Effect::Notice(Notice::ReplayDiffers { differences }) => {
                    panic!("{differences} results differ after a replay");
                }
                Effect::Notice(Notice::Gap(gap)) => checker::is_old_enough(self, &gap),
                Effect::Notice(_) => {}
            }
        }
    }

    fn commit(&mut self, commit: Commit) {
        let delay_us = self.rng.between(200, 30_000);
        if self.has_faults && self.rng.chance(3) {
            let failed = StoreEvent::CommitFailed { id: commit.id, reason: "disk".to_owned() };
            self.disk.fail();
            return self.after(delay_us, Happening::Store(failed));
        }
        self.disk.apply(&commit);
        if self.scenario.planted == Planted::AnswersBeforeFlush {
            let event = self.committed(&commit);
            self.after(1, Happening::Store(event));
        }
        self.after(delay_us, Happening::Written(commit));
    }

    fn written(&mut self, commit: Commit) {
        self.disk.flush();
        let event = self.committed(&commit);
        self.turn(Some(Input::Store(event)));
    }

    fn committed(&self, commit: &Commit) -> StoreEvent {
        StoreEvent::Committed {
            id: commit.id,
            segments: self.disk.infos(),
            disk: self.disk.facts(),
        }
    }

    fn broker(&self, uplink: UplinkId) -> &Broker {
        &self.brokers[usize::from(uplink.0)]
    }

    fn command(&mut self, uplink: UplinkId, command: LinkCommand) {
        let broker = &mut self.brokers[usize::from(uplink.0)];
        match command {
            LinkCommand::Connect { asks_frontiers } => {
                let answers = broker.connect(asks_frontiers, &mut self.rng, self.has_faults);
                self.answer(uplink, answers);
            }
            LinkCommand::Disconnect => {
                broker.is_up = false;
                let (reason, draw) = ("asked".to_owned(), self.rng.next());
                let down = LinkEvent::Down { reason, cause: DownCause::Asked, draw };
                self.answer(uplink, vec![(10, down)]);
            }
            LinkCommand::Publish(publish) => self.publish(uplink, publish),
        }
    }

    fn publish(&mut self, uplink: UplinkId, publish: Publish) {
        match &publish.body {
            PublishBody::Entry(entry) => checker::is_durable_before_publish(self, entry),
            PublishBody::Batch(records) => {
                assert!((1..=self.scenario.readings_max).contains(&records.len()));
                for record in records {
                    let entry = Entry::Reading(record.clone());
                    checker::is_durable_before_publish(self, &entry);
                }
            }
            PublishBody::Frontier(_) | PublishBody::Status(_) => {}
        }
        let delay_us = 20;
        self.brokers[usize::from(uplink.0)].is_sent(&publish.body);
        let connection = self.broker(uplink).connection;
        self.after(delay_us, Happening::Arrives(uplink, connection, publish));
    }

    fn arrives(&mut self, uplink: UplinkId, connection: u64, publish: Publish) {
        let broker = &mut self.brokers[usize::from(uplink.0)];
        if connection != broker.connection || !broker.is_up {
            return;
        }
        let answers = broker.publish(publish, &mut self.rng, self.has_faults);
        self.answer(uplink, answers);
    }

    fn answer(&mut self, uplink: UplinkId, answers: Answers) {
        for (delay_us, event) in answers {
            let connection = self.broker(uplink).connection;
            self.after(delay_us, Happening::Link(uplink, connection, event));
        }
    }

    fn receipt(&mut self, receipt: ReceiptId, outcome: Outcome) {
        for source in 0..self.sources.len() {
            if outcome == Outcome::Durable {
                let numbers = self.sources[source].receipted(receipt);
                checker::is_durable_before_receipt(self, source, &numbers);
            } else {
                self.sources[source].crashed();
            }
        }
    }

    fn source_sends(&mut self, source: usize) {
        let delay_us = self.rng.between(1_000, 400_000);
        self.after(delay_us, Happening::Source(source));
        if !self.agent.accepts_readings() {
            return;
        }
        self.next_receipt += 1;
        let arrival = self.machine.arrival(self.now_us);
        let truth_ns = crate::clock::EPOCH_NS + self.now_us as i64 * 1_000;
        let receipt = ReceiptId(self.next_receipt);
        if let Some(batch) = self.sources[source].batch(&mut self.rng, (arrival, truth_ns), receipt)
        {
            self.turn(Some(Input::Readings(batch)));
        }
    }

    fn crash(&mut self) {
        self.life += 1;
        self.disk.crash(&mut self.rng);
        for broker in &mut self.brokers {
            broker.is_up = false;
            broker.connection += 1;
        }
        let mut effects = Vec::new();
        let (recovered, now) = (self.disk.recover(), self.machine.now(self.now_us));
        self.agent = Agent::new(
            settings(&self.scenario, &self.sources),
            recovered,
            self.machine.facts_of_boot(),
            self.rng.next() as u32,
            &now,
            &mut effects,
        );
        self.deadline_us = None;
        self.carry_out(effects);
        for source in 0..self.sources.len() {
            self.sources[source].crashed();
            self.sources[source].was_forgotten |= !self.sources[source].is_configured;
            self.after(10_000, Happening::Source(source));
        }
        self.schedule_fault();
        self.schedule_clock_fault();
        self.after(self.scenario.seed % 7 * 100_000, Happening::Clock);
        self.turn(None);
    }

    /// Whoever runs then.
    fn after_all(&mut self, delay_us: u64, happening: Happening) {
        self.inserted += 1;
        self.queue.insert((self.now_us + delay_us, self.inserted), (u64::MAX, happening));
    }

    fn after(&mut self, delay_us: u64, happening: Happening) {
        self.inserted += 1;
        self.queue.insert((self.now_us + delay_us, self.inserted), (self.life, happening));
    }

    /// Whether a source's number was ever flushed: what is acknowledged may be gone
    /// when a repeat of it comes.
    pub fn is_number_flushed(&self, source: usize, n: i64) -> bool {
        self.disk.flushed.contains(&(self.sources[source].id.clone(), n))
    }
}
