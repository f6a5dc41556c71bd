//! One uplink: its connection, its forwarder, and what was published on it besides
//! readings. Each uplink has its own acknowledged frontier; the journal is trimmed up to
//! the lowest of them.

use std::sync::Arc;

use super::*;
use crate::core::settings::UplinkSettings;

/// A backlog being drained after the link came up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) since: MonoTime,
    pub(super) through: Offset,
    pub(super) sent: u64,
}

/// The stages of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Waits for the PUBACKs of what is in flight.
    Settling,
    /// The last message on the status topic is in flight.
    LastWord,
    /// The connection is being closed.
    Closing,
}

/// One uplink.
#[derive(Clone, Debug)]
pub(super) struct Uplink {
    pub(super) id: UplinkId,
    pub(super) settings: UplinkSettings,
    pub(super) forward: Forward,
    pub(super) connection: Connection,
    pub(super) drain: Option<Drain>,
    pub(super) ack_rate: Rate,
    /// When each source's delivery frontier was last published, and after which change of
    /// its account.
    pub(super) said: BTreeMap<SourceId, (MonoTime, u64)>,
    /// Whether its broker has been asked, since this start, for the frontiers that it
    /// retains.
    pub(super) has_asked: bool,
    stop: Option<Stop>,
}

impl Uplink {
    fn new(id: UplinkId, settings: UplinkSettings, done: RangeSet, now: &Now) -> Self {
        let forward = Forward::new(id, settings.forward, done);
        let connection = Connection::new(settings.backoff, now.mono);
        Self {
            id,
            settings,
            forward,
            connection,
            drain: None,
            ack_rate: Rate::default(),
            said: BTreeMap::new(),
            has_asked: false,
            stop: None,
        }
    }

    /// The uplinks of the configuration, each going on where it was. A new one begins with
    /// the entries that some other has not finished; if it is the only one, it thereby
    /// goes on where the one before it was, whatever that was called.
    pub(super) fn open(settings: &Settings, meta: &Meta, now: &Now) -> Vec<Self> {
        let common = done_set(meta.frontier.max(meta.start), &meta.done);
        let own = |one: &UplinkSettings| {
            let kept = meta.uplinks.get(&one.name)?;
            Some(done_set(kept.frontier.max(meta.start), &kept.done))
        };
        let ids = (0..).map(UplinkId);
        let each = ids.zip(&settings.uplinks);
        each.map(|(id, one)| {
            let done = own(one).unwrap_or_else(|| common.clone());
            Self::new(id, one.clone(), done, now)
        })
        .collect()
    }

    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.settings.name)
    }

    pub(super) fn command(&self, command: LinkCommand, effects: &mut Vec<Effect>) {
        effects.push(Effect::Link(self.id, command));
    }

    pub(super) fn notice(&self, notice: LinkNotice, effects: &mut Vec<Effect>) {
        effects.push(Effect::Notice(Notice::Link(self.id, notice)));
    }

    /// Publishes a frontier or status, retained.
    pub(super) fn say(&mut self, body: PublishBody, now: MonoTime, effects: &mut Vec<Effect>) {
        let id = self.forward.send_control(now);
        let publish =
            Publish { id, lane: Lane::Live, last_refused: self.forward.last_refused(), body };
        self.command(LinkCommand::Publish(publish), effects);
    }

    /// Connects when an attempt is due, lets held sources try again, gives up a
    /// connection whose oldest publish waits too long.
    pub(super) fn drive(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if self.stop.is_none() && self.connection.try_connect(now.mono) {
            self.command(LinkCommand::Connect { asks_frontiers: !self.has_asked }, effects);
        }
        if !self.connection.is_up() {
            return;
        }
        self.forward.retry_held(now.mono);
        let oldest = self.forward.oldest_sent().map(|sent| now.mono.since(sent));
        if let Some(oldest) = oldest.filter(|oldest| *oldest >= self.settings.ack_timeout) {
            self.connection.close(now.mono);
            self.notice(LinkNotice::AckTimeout { oldest }, effects);
            self.command(LinkCommand::Disconnect, effects);
        }
    }

    /// When [`Uplink::drive`] or the forwarder has something to do.
    pub(super) fn next_deadline(&self) -> Option<MonoTime> {
        let is_up = self.connection.is_up();
        let ack = self.forward.oldest_sent().filter(|_| is_up);
        let ack = ack.map(|sent| sent + self.settings.ack_timeout);
        let connect = self.connection.next_deadline().filter(|_| self.stop.is_none());
        let forward = self.forward.next_deadline().filter(|_| is_up && self.stop.is_none());
        [ack, connect, forward].into_iter().flatten().min()
    }

    /// Whether entries may go out.
    pub(super) fn may_publish(&self) -> bool {
        self.connection.is_up() && self.stop.is_none()
    }

    /// Begins a stop: no more entries go out.
    pub(super) fn begin_stop(&mut self) {
        self.stop.get_or_insert(Stop::Settling);
    }

    /// Whether it is stopping, has nothing in flight and has not sent its last status.
    pub(super) fn is_settling(&self) -> bool {
        let is_idle = self.connection.is_up() && self.forward.inflight() == 0;
        self.stop == Some(Stop::Settling) && is_idle
    }

    /// Whether nothing more will happen.
    pub(super) fn is_stopped(&self) -> bool {
        self.connection.is_stopped()
    }

    /// Goes on with a stop. `last_word` is the last message for the status topic; it is
    /// given once everything accepted is durable.
    pub(super) fn go_on_stopping(
        &mut self,
        last_word: Option<PublishBody>,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) {
        let is_idle = self.forward.inflight() == 0;
        match (self.stop, last_word) {
            (None | Some(Stop::Closing), _) => {}
            (Some(Stop::Settling), _) if !self.connection.is_up() => self.close(now, effects),
            (Some(Stop::Settling), Some(word)) if is_idle => {
                self.stop = Some(Stop::LastWord);
                self.say(word, now.mono, effects);
            }
            (Some(Stop::Settling), _) => {}
            (Some(Stop::LastWord), _) => {
                if is_idle || !self.connection.is_up() {
                    self.close(now, effects);
                }
            }
        }
    }

    fn close(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if self.connection.close(now.mono) {
            self.command(LinkCommand::Disconnect, effects);
        }
        self.connection.stop();
        self.stop = Some(Stop::Closing);
    }
}

pub(super) fn done_set(frontier: Offset, done: &[(Offset, Offset)]) -> RangeSet {
    RangeSet::new(frontier.0, done.iter().map(|(first, end)| (first.0, end.0)))
}

impl Agent {
    /// Whether every uplink is done with the entry.
    pub(super) fn is_done_everywhere(&self, offset: Offset) -> bool {
        self.uplinks.iter().all(|uplink| uplink.forward.done().contains(offset.0))
    }

    /// Everything below is done with at every uplink.
    pub(super) fn frontier_offset(&self) -> Offset {
        let frontiers = self.uplinks.iter().map(|uplink| uplink.forward.done().frontier());
        Offset(frontiers.min().unwrap_or_default())
    }

    /// What every uplink is done with.
    pub(super) fn done_everywhere(&self) -> RangeSet {
        let mut sets = self.uplinks.iter().map(|uplink| uplink.forward.done());
        let first = sets.next().cloned().unwrap_or_else(|| RangeSet::new(0, []));
        sets.fold(first, |all, one| all.intersection(one))
    }

    /// `[first, end)` is done with, at every uplink.
    pub(super) fn finish_everywhere(&mut self, first: Offset, end: Offset) {
        self.uplinks.iter_mut().for_each(|uplink| uplink.forward.finish(first, end));
    }

    /// Sends nothing below `offset` any more, at any uplink; true once nothing of it is in
    /// flight.
    pub(super) fn give_up_below(&mut self, offset: Offset) -> bool {
        let is_free = |uplink: &mut Uplink| uplink.forward.give_up_below(offset);
        self.uplinks.iter_mut().fold(true, |all, uplink| is_free(uplink) & all)
    }

    /// Takes back an entry that a newer one replaces. False when it is in flight at some
    /// uplink: then it stays.
    pub(super) fn withdraw(&mut self, offset: Offset) -> bool {
        let is_here = self.uplinks.iter().all(|uplink| !uplink.forward.is_flying(offset));
        if is_here {
            self.finish_everywhere(offset, offset.plus(1));
        }
        is_here
    }

    pub(super) fn is_any_up(&self) -> bool {
        self.uplinks.iter().any(|uplink| uplink.connection.is_up())
    }
}
