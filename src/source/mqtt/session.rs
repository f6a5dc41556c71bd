//! One connection after the other: messages in, acknowledgements out.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::client::{self, Client, Connection, Step};
use super::filters::Filters;
use super::gather::{Gathered, Gatherer};
use crate::config::{MqttSource, Source};
use crate::core::reading::Arrival;
use crate::core::seam::{Advance, Batch, Outcome};
use crate::mqtt::{Broker, Failure, Identity};
use crate::source::health::Connected;
use crate::source::{Door, SourceMessage};

/// After a stop: for the last commit, its acknowledgements, and DISCONNECT.
const GOODBYE: Duration = Duration::from_secs(5);

/// How a connection ended.
pub(super) enum End {
    /// The source was stopped, or nobody takes readings any more.
    Stopped,
    Failed {
        reason: String,
        /// Whether a message was acknowledged on it.
        was_useful: bool,
    },
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        failed(failure.reason)
    }
}

fn failed(reason: impl Into<String>) -> End {
    End::Failed { reason: reason.into(), was_useful: false }
}

/// A batch whose receipt is expected.
struct Outstanding {
    settles: Vec<u16>,
    /// `None` for messages that held nothing to store.
    receipt: Option<oneshot::Receiver<Outcome>>,
}

/// The session at the broker, over all connections.
pub(super) struct Session {
    settings: MqttSource,
    door: Door,
    receive_max: u16,
    gatherer: Gatherer,
    /// The filters of the configuration.
    wanted: Filters,
    remembered: Remembered,
    identity: Identity,
    /// Whether the broker has had a session of ours since the start.
    was_connected: bool,
    now: Now,
}

/// The filters that the session may have, as the journal knows them.
struct Remembered {
    filters: Filters,
    position: Arc<[u8]>,
    /// What it is going to know, once that is durable.
    next: Option<(Filters, oneshot::Receiver<Outcome>)>,
}

/// What is forgotten with a connection.
#[derive(Default)]
struct Now {
    connected: Option<Connected>,
    outstanding: VecDeque<Outstanding>,
    /// Messages to be acknowledged, yet without their PUBACK.
    unacknowledged: usize,
    /// PUBACKs handed to rumqttc and not sent.
    unsent: usize,
    acknowledged: u64,
    /// When the messages came that are being taken: one read, one arrival.
    arrival: Option<Arrival>,
    /// Filters that the broker has not let go of yet.
    unsubscribing: usize,
    /// It has let go of all: only what is wanted is to be remembered.
    may_forget: bool,
    is_leaving: bool,
    has_said_goodbye: bool,
}

impl Session {
    pub(super) fn new(
        settings: MqttSource,
        source: &Source,
        position: Arc<[u8]>,
        door: Door,
    ) -> Self {
        let wanted = Filters::wanted(&settings);
        Self {
            remembered: Remembered { filters: wanted.known(&position), position, next: None },
            wanted,
            gatherer: Gatherer::new(&settings, source),
            receive_max: u16::try_from(source.queue_max).unwrap_or(u16::MAX),
            settings,
            door,
            identity: Identity::default(),
            was_connected: false,
            now: Now::default(),
        }
    }

    /// One connection from beginning to end.
    pub(super) async fn connection(&mut self, broker: &Broker) -> End {
        self.now = Now::default();
        if let Err(end) = self.remember_wanted().await {
            return end;
        }
        let secrets = match broker.read(&mut self.identity).await {
            Ok(secrets) => secrets,
            Err(failure) => return failure.into(),
        };
        let (client, mut connection) =
            client::open(&self.settings, broker, self.receive_max, secrets);
        let end = match self.drive(&client, &mut connection).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        let Now { acknowledged, connected, .. } = std::mem::take(&mut self.now);
        match end {
            End::Failed { reason, .. } => {
                let at = &self.settings.url;
                let reason = if connected.is_some() { reason } else { format!("{at}: {reason}") };
                End::Failed { reason, was_useful: acknowledged > 0 }
            }
            End::Stopped => End::Stopped,
        }
    }

    /// Takes steps until the connection fails or the source is stopped.
    async fn drive(
        &mut self,
        client: &Client,
        connection: &mut Connection,
    ) -> Result<std::convert::Infallible, End> {
        let (mut door, out) = (self.door.clone(), self.door.out.clone());
        let mut deadline = pin!(tokio::time::sleep(Duration::MAX));
        loop {
            let has_more = connection.has_more();
            // Kept while the rest goes on: a step must not be dropped half done.
            let mut step = pin!(connection.step());
            let step = loop {
                let now = &mut self.now;
                // rumqttc reads while it sends, and more than it sends: what waits must
                // have room also while acknowledgements are due.
                let is_wanted = now.unacknowledged < usize::from(self.receive_max);
                let may_turn = self.gatherer.has_room() && (is_wanted || now.unsent > 0);
                let turns = may_turn || now.is_leaving;
                let is_idle = now.outstanding.is_empty();
                // What waited through a broken connection may come again on this one:
                // the broker says so first.
                let may_hand_over = now.connected.is_some() && !now.is_leaving;
                let has_batch = may_hand_over && !self.gatherer.is_empty();
                let remembers = self.remembered.next.is_some();
                let may_forget = may_hand_over && now.may_forget && !remembers;
                tokio::select! {
                    biased;
                    () = door.stopped(), if !now.is_leaving => {
                        now.is_leaving = true;
                        deadline.set(tokio::time::sleep(GOODBYE));
                        self.leave_if_done(client)?;
                    }
                    outcome = settled(&mut now.outstanding), if !is_idle => {
                        self.settle(client, outcome)?;
                        self.leave_if_done(client)?;
                    }
                    done = self.remembered.settle(), if remembers => {
                        done?;
                        self.leave_if_done(client)?;
                    }
                    permit = out.reserve(), if has_batch || may_forget => {
                        let permit = permit.map_err(|_| End::Stopped)?;
                        if may_forget {
                            self.now.may_forget = false;
                            permit.send(self.remembering(self.wanted.clone()));
                        } else {
                            self.hand_over(permit);
                        }
                    }
                    () = &mut deadline, if now.is_leaving => return Err(End::Stopped),
                    step = &mut step, if turns => break step?,
                }
            };
            if !has_more {
                self.now.arrival = None;
            }
            self.take(client, step)?;
        }
    }

    /// Before the broker hears of a filter it is remembered, so that it can be taken
    /// back whatever happens.
    async fn remember_wanted(&mut self) -> Result<(), End> {
        let (mut door, out) = (self.door.clone(), self.door.out.clone());
        let remember = async {
            if self.remembered.next.is_some() {
                self.remembered.settle().await?;
            }
            let all = self.remembered.filters.and(&self.wanted);
            if all != self.remembered.filters {
                let permit = out.reserve().await.map_err(|_| End::Stopped)?;
                permit.send(self.remembering(all));
                self.remembered.settle().await?;
            }
            Ok(())
        };
        tokio::select! {
            biased;
            () = door.stopped() => Err(End::Stopped),
            done = remember => done,
        }
    }

    /// A batch without readings that makes these the remembered filters.
    fn remembering(&mut self, filters: Filters) -> SourceMessage {
        let (answer, receipt) = oneshot::channel();
        let advance =
            Advance { from: Arc::clone(&self.remembered.position), to: filters.position() };
        self.remembered.next = Some((filters, receipt));
        let batch = Batch {
            source: self.door.name.clone(),
            arrival: (self.door.clock)(),
            readings: Vec::new(),
            refused: Vec::new(),
            advance: Some(advance),
            receipt: None,
        };
        SourceMessage { batch, receipt: Some(answer) }
    }

    fn hand_over(&mut self, permit: tokio::sync::mpsc::Permit<'_, SourceMessage>) {
        let Some(Gathered { batch, settles, .. }) = self.gatherer.next() else { return };
        let is_empty = batch.readings.is_empty() && batch.refused.is_empty();
        let mut receipt = None;
        if !is_empty {
            let (answer, receiver) = oneshot::channel();
            receipt = Some(receiver);
            permit.send(SourceMessage { batch, receipt: Some(answer) });
        }
        self.now.outstanding.push_back(Outstanding { settles, receipt });
    }

    /// The oldest batch is settled: its messages may be acknowledged.
    fn settle(&mut self, client: &Client, outcome: Option<Outcome>) -> Result<(), End> {
        match outcome {
            Some(Outcome::Durable) => {}
            // The broker keeps them, and sends them again to the next connection.
            Some(Outcome::Full) => return Err(failed("the buffer is full")),
            None => return Err(End::Stopped),
        }
        let Some(Outstanding { settles, .. }) = self.now.outstanding.pop_front() else {
            return Ok(());
        };
        for packet_id in settles {
            if !client.acknowledge(packet_id) {
                return Err(failed("more acknowledgements than there is room for"));
            }
            self.now.unsent += 1;
        }
        Ok(())
    }

    /// After a stop, once all that was handed over is settled: goodbye, behind the
    /// last PUBACK.
    fn leave_if_done(&mut self, client: &Client) -> Result<(), End> {
        let now = &mut self.now;
        let is_busy = !now.outstanding.is_empty() || self.remembered.next.is_some();
        if !now.is_leaving || is_busy || now.has_said_goodbye {
            return Ok(());
        }
        now.has_said_goodbye = true;
        let has_peer = now.connected.is_some() && client.goodbye();
        if has_peer { Ok(()) } else { Err(End::Stopped) }
    }

    fn take(&mut self, client: &Client, step: Step) -> Result<(), End> {
        match step {
            Step::Connected { session_present } => {
                self.now.connected = Some(self.door.health.connect());
                self.connected(session_present);
                if !client.subscribe(&self.settings) {
                    return Err(failed("no room for a subscription"));
                }
                for filter in self.remembered.filters.beyond(&self.wanted) {
                    if !client.unsubscribe(filter) {
                        return Err(failed("no room to let go of a filter"));
                    }
                    self.now.unsubscribing += 1;
                }
            }
            Step::Subscribed(answers) => self.subscribed(&answers),
            Step::Unsubscribed(refused) => self.unsubscribed(refused),
            Step::Message(message) if !self.now.is_leaving => {
                let clock = &self.door.clock;
                let arrival = *self.now.arrival.get_or_insert_with(|| clock());
                self.now.unacknowledged += usize::from(message.packet_id.is_some());
                let refused = self.gatherer.take(&message, arrival);
                self.door.health.note_lines(1, refused.min(1));
            }
            Step::Acknowledged => {
                self.now.unsent = self.now.unsent.saturating_sub(1);
                self.now.unacknowledged = self.now.unacknowledged.saturating_sub(1);
                self.now.acknowledged += 1;
            }
            Step::SaidGoodbye => return Err(End::Stopped),
            // A message after the stop is not acknowledged, so the broker keeps it.
            Step::Message(_) | Step::Other => {}
        }
        Ok(())
    }

    fn connected(&mut self, session_present: bool) {
        self.gatherer.reconnected(session_present);
        if self.was_connected && !session_present {
            let lost = "the broker has lost the session: what it kept for us is gone";
            self.door.health.note_error(lost.to_owned());
            tracing::warn!(source = %self.door.name, "{lost}");
        }
        self.was_connected = true;
    }

    /// A filter that the broker does not let go of is asked for again with the next
    /// connection.
    fn unsubscribed(&mut self, refused: Option<String>) {
        if let Some(reason) = refused {
            let what = format!("the broker does not let go of a filter: {reason}");
            tracing::warn!(source = %self.door.name, "{what}");
            return self.door.health.note_error(what);
        }
        if self.now.unsubscribing > 0 {
            self.now.unsubscribing -= 1;
            self.now.may_forget = self.now.unsubscribing == 0;
        }
    }

    /// Whether a filter is taken is said by the broker one by one.
    fn subscribed(&self, answers: &[Option<String>]) {
        let filters = self.settings.topics.iter().map(|topic| &topic.filter);
        let refused: Vec<String> = filters
            .zip(answers)
            .filter_map(|(filter, answer)| Some(format!("{filter} ({})", answer.as_ref()?)))
            .collect();
        if refused.is_empty() {
            return self.door.health.up();
        }
        let what = format!("the broker does not let us read {}", refused.join(", "));
        tracing::warn!(source = %self.door.name, "{what}");
        self.door.health.note_error(what.clone());
        self.door.health.degraded(what, None);
    }
}

impl Remembered {
    /// Waits until the next filters are the remembered ones. Nothing is lost when this
    /// is dropped.
    async fn settle(&mut self) -> Result<(), End> {
        let Some((_, receipt)) = &mut self.next else { return Ok(()) };
        let outcome = receipt.await;
        let Some((filters, _)) = self.next.take() else { return Ok(()) };
        match outcome {
            Ok(Outcome::Durable) => {}
            Ok(Outcome::Full) => return Err(failed("the buffer is full")),
            Err(_) => return Err(End::Stopped),
        }
        self.position = filters.position();
        self.filters = filters;
        Ok(())
    }
}

/// What became of the oldest batch; `None` when the driver is gone. Asked again, it
/// says the same: nothing is lost when this is dropped.
async fn settled(outstanding: &mut VecDeque<Outstanding>) -> Option<Outcome> {
    match outstanding.front_mut().and_then(|oldest| oldest.receipt.as_mut()) {
        Some(receipt) => receipt.await.ok(),
        None => Some(Outcome::Durable),
    }
}
