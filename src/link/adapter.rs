//! The task: one connection after the other, as the core asks.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::message::Message;
use super::rumqtt::{self, Client, Connection, Step, Terms};
use super::{Events, Settings};
use crate::core::id::{PublishId, SourceId};
use crate::core::seam::{
    DownCause, Lane, LinkCommand, LinkEvent, LinkTerms, Publish, PublishBody, RetainedFrontier,
};
use crate::mqtt::{Broker, Failure, Identity};
use crate::wire::{json, topic};

/// Commands taken at one wake.
const COMMANDS_MAX: usize = 256;
/// For a broker to say which delivery frontiers it retains.
const FRONTIERS_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of a packet besides the readings of a batch: topic, properties, and the
/// frame of the payload, at their usual longest. A longer one is found out when
/// it is sent, and the batch halved.
const BESIDES_READINGS: u64 = 512;
/// Connections in a row that may end over that question: a broker that closes
/// the socket on a SUBSCRIBE it does not allow must not keep the uplink down.
const ASKED_IN_VAIN_MAX: u32 = 3;
/// A connection that the other side ends earlier was cut short. So many in a row
/// are said to be: some brokers close the older one of two clients with one id
/// without a word.
const CUT_SHORT_WITHIN: Duration = Duration::from_secs(60);
const CUT_SHORT_MAX: u32 = 3;
/// For what is queued, DISCONNECT, and the broker to close.
const GOODBYE: Duration = Duration::from_secs(1);

/// Runs until the driver is gone.
pub(super) async fn run(
    settings: Settings,
    mut commands: mpsc::Receiver<LinkCommand>,
    events: Events,
    draw: fn() -> u64,
) {
    let (mut asked_in_vain, mut cuts) = (0, 0);
    let mut identity = Identity::default();
    while let Some(command) = commands.recv().await {
        // A publish that comes here was meant for the connection before, and a
        // disconnect has had its answer: the `Down` that crossed it.
        let LinkCommand::Connect { asks_frontiers } = command else { continue };
        let asks_frontiers = asks_frontiers && asked_in_vain < ASKED_IN_VAIN_MAX;
        let way = Way { settings: &settings, events: &events, asks_frontiers };
        let Ended { failure, died_asking, is_cut_short } =
            connection(way, &mut identity, &mut commands).await;
        let Failure { mut reason, cause } = failure;
        cuts = if is_cut_short { cuts + 1 } else { 0 };
        if cuts >= CUT_SHORT_MAX {
            let client_id = &settings.broker.client_id;
            reason += &format!(
                "; the last {cuts} connections ended so soon after the broker took them: does another \
                 client use the client id {client_id:?}?"
            );
        }
        if asks_frontiers {
            asked_in_vain = if died_asking { asked_in_vain + 1 } else { 0 };
        }
        if died_asking && asked_in_vain == ASKED_IN_VAIN_MAX {
            tracing::warn!(
                reason,
                "the broker ends the connection when it is asked which delivery frontiers it \
                 retains; from now on it is not asked, and a disk put back to an older copy goes \
                 unnoticed: allow this client to subscribe to its own frontier topics"
            );
        }
        if events.send(LinkEvent::Down { reason, cause, draw: draw() }).await.is_err() {
            return;
        }
    }
}

/// One connection from beginning to end.
async fn connection(
    way: Way<'_>,
    identity: &mut Identity,
    commands: &mut mpsc::Receiver<LinkCommand>,
) -> Ended {
    let secrets = match way.settings.broker.read(identity).await {
        Ok(secrets) => secrets,
        Err(failure) => return Ended { failure, died_asking: false, is_cut_short: false },
    };
    let (client, mut connection) = rumqtt::open(way.settings, secrets);
    let mut session = Session::new(way, client);
    let failure = match session.drive(&mut connection, commands).await {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    // PUBACKs that came just before the end count: what they name is delivered.
    for step in connection.leftovers() {
        if session.take(step).await.is_err() {
            break;
        }
    }
    let died_asking = session.is_asking() && failure.cause == DownCause::Network;
    let failure = identity.explain(session.obituary(failure));
    let is_young = session.up_at.is_some_and(|up_at| up_at.elapsed() < CUT_SHORT_WITHIN);
    let is_cut_short = is_young && failure.cause == DownCause::Network;
    Ended { failure, died_asking, is_cut_short }
}

/// How a connection ended.
struct Ended {
    failure: Failure,
    /// The network or the broker ended it between the question for frontiers and
    /// its answer.
    died_asking: bool,
    /// It was up, and not for long.
    is_cut_short: bool,
}

/// What a connection is made with.
#[derive(Clone, Copy)]
struct Way<'a> {
    settings: &'a Settings,
    events: &'a Events,
    asks_frontiers: bool,
}

/// The retained frontiers, as far as the broker has told them.
#[derive(Default)]
struct Asking {
    frontiers: Vec<RetainedFrontier>,
}

/// What is known while a connection lasts, and forgotten with it.
struct Session<'a> {
    settings: &'a Settings,
    client: Client,
    events: &'a Events,
    /// The retained frontiers are still to be read.
    asking: Option<Asking>,
    /// The broker's terms, once it has accepted us.
    terms: Option<Terms>,
    /// When it was told that the connection is up.
    up_at: Option<Instant>,
    /// Handed to rumqttc and not yet sent, in order.
    queued: VecDeque<PublishId>,
    /// Sent, by packet identifier.
    in_flight: HashMap<u16, PublishId>,
    /// The packet identifier that the front of `queued` waits for.
    collided: Option<u16>,
    /// Batches that were too large, by their source and lane: what follows waits.
    refused: HashMap<(SourceId, Lane), PublishId>,
    /// PUBACKs of packet identifiers that were not in flight.
    unknown_pubacks: u64,
    is_leaving: bool,
}

impl<'a> Session<'a> {
    fn new(way: Way<'a>, client: Client) -> Self {
        Self {
            settings: way.settings,
            client,
            events: way.events,
            asking: way.asks_frontiers.then(Asking::default),
            terms: None,
            up_at: None,
            queued: VecDeque::new(),
            in_flight: HashMap::new(),
            collided: None,
            refused: HashMap::new(),
            unknown_pubacks: 0,
            is_leaving: false,
        }
    }

    /// Feeds commands in and takes steps until the connection fails, or a
    /// goodbye is said or overdue. Commands come first: there are never more
    /// than the in-flight bound, so they cannot keep the network waiting, while
    /// a stream of PUBACKs could keep them waiting.
    async fn drive(
        &mut self,
        connection: &mut Connection,
        commands: &mut mpsc::Receiver<LinkCommand>,
    ) -> Result<std::convert::Infallible, Failure> {
        let mut inbox = Vec::with_capacity(COMMANDS_MAX);
        let mut deadline = pin!(tokio::time::sleep(Duration::MAX));
        let mut patience = pin!(tokio::time::sleep(Duration::MAX));
        loop {
            // Kept while commands are taken: a step must not be dropped half done.
            let mut step = pin!(connection.step());
            let step = loop {
                tokio::select! {
                    biased;
                    taken = commands.recv_many(&mut inbox, COMMANDS_MAX), if !self.is_leaving => {
                        if taken == 0 {
                            self.leave()?;
                        }
                        for command in inbox.drain(..) {
                            self.obey(command).await?;
                        }
                        if self.is_leaving {
                            deadline.set(tokio::time::sleep(GOODBYE));
                        }
                    }
                    () = &mut deadline, if self.is_leaving => return Err(Failure::asked()),
                    () = &mut patience, if self.is_asking() => {
                        tracing::debug!("the broker does not say which frontiers it retains");
                        self.is_up().await?;
                    }
                    step = &mut step => break step?,
                }
            };
            if matches!(step, Step::Connected(_)) {
                patience.set(tokio::time::sleep(FRONTIERS_WITHIN));
            }
            self.take(step).await?;
        }
    }

    async fn obey(&mut self, command: LinkCommand) -> Result<(), Failure> {
        match command {
            LinkCommand::Publish(publish) => self.publish(publish).await,
            LinkCommand::Disconnect => self.leave(),
            LinkCommand::Connect { .. } => {
                tracing::debug!("asked to connect while a connection lasts");
                Ok(())
            }
        }
    }

    async fn publish(&mut self, publish: Publish) -> Result<(), Failure> {
        let Some(terms) = self.terms else { return Ok(()) };
        if self.is_leaving {
            return Ok(());
        }
        let id = publish.id;
        let stream = source_of(&publish.body).cloned().map(|source| (source, publish.lane));
        let refused = stream.as_ref().and_then(|stream| self.refused.get(stream));
        if refused.is_some_and(|refused| publish.last_refused < *refused) {
            // The core takes it for unsent as soon as it hears of the batch before.
            return Ok(());
        }
        let mut message = Message::new(self.settings, publish.lane, &publish.body);
        message.is_retained &= terms.takes_retained;
        let size = message.payload.len() as u64;
        let limit = self.payload_limit(terms, &message);
        if size > limit {
            if let (Some(stream), PublishBody::Batch(records)) = (stream, &publish.body)
                && records.len() > 1
            {
                self.refused.insert(stream, id);
            }
            return self.tell(LinkEvent::TooLarge { id, size, limit }).await;
        }
        if !self.client.publish(message) {
            return Err(Failure::network("more publishes than the in-flight bound allows"));
        }
        self.queued.push_back(id);
        Ok(())
    }

    /// The smaller of our own limit and what the broker's Maximum Packet Size
    /// leaves for the payload.
    fn payload_limit(&self, terms: Terms, message: &Message) -> u64 {
        let of_broker = terms.packet_max.map_or(u64::MAX, |packet_max| {
            u64::from(packet_max).saturating_sub(self.client.overhead(message))
        });
        self.settings.max_payload.min(of_broker)
    }

    /// Says goodbye; at once, when there is nobody to say it to.
    fn leave(&mut self) -> Result<(), Failure> {
        self.is_leaving = true;
        if self.terms.is_some() && self.client.goodbye() { Ok(()) } else { Err(Failure::asked()) }
    }

    async fn take(&mut self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Connected(terms) => self.connected(terms).await,
            Step::Sent(packet_id) => {
                self.collided = None;
                if let Some(id) = self.queued.pop_front() {
                    self.in_flight.insert(packet_id, id);
                }
                Ok(())
            }
            Step::Collided(packet_id) => {
                self.collided = Some(packet_id);
                Ok(())
            }
            Step::Puback { packet_id, code } => self.puback(packet_id, code).await,
            Step::Subscribed { is_taken: true } => {
                // Its answer comes after all that is retained. Too late or not: our
                // own words need not come back to us.
                self.client.unsubscribe(topic::frontier_filter(&self.settings.gateway));
                Ok(())
            }
            Step::Subscribed { .. } | Step::Unsubscribed if self.is_asking() => self.is_up().await,
            Step::Message { topic, payload } => {
                self.hear(&topic, &payload);
                Ok(())
            }
            Step::Subscribed { .. } | Step::Unsubscribed | Step::Other => Ok(()),
        }
    }

    fn is_asking(&self) -> bool {
        self.asking.is_some() && self.terms.is_some()
    }

    fn hear(&mut self, topic: &str, payload: &[u8]) {
        let gateway = &self.settings.gateway;
        let Some(asking) = &mut self.asking else { return };
        match json::retained_frontier(gateway, payload) {
            Some(frontier) if topic == topic::frontier(gateway, frontier.source.as_str()) => {
                asking.frontiers.push(frontier);
            }
            _ => tracing::warn!(topic, "what is retained there is no frontier of this gateway"),
        }
    }

    /// Tells that the connection is up, with what was asked before.
    async fn is_up(&mut self) -> Result<(), Failure> {
        let Some(terms) = self.terms else { return Ok(()) };
        self.up_at = Some(Instant::now());
        let Terms { receive_max, session_present, packet_max, .. } = terms;
        let payload_max =
            packet_max.map(|packet_max| u64::from(packet_max).saturating_sub(BESIDES_READINGS));
        let frontiers = self.asking.take().unwrap_or_default().frontiers;
        let terms = LinkTerms { receive_max, payload_max, session_present, frontiers };
        self.tell(LinkEvent::Up(terms)).await
    }

    async fn connected(&mut self, terms: Terms) -> Result<(), Failure> {
        if !terms.takes_qos_1 {
            return Err(Failure::refused(
                "the broker takes QoS 0 only and would acknowledge nothing",
            ));
        }
        self.terms = Some(terms);
        let filter = topic::frontier_filter(&self.settings.gateway);
        if self.asking.is_some() && terms.takes_retained && self.client.subscribe(filter) {
            return Ok(());
        }
        self.is_up().await
    }

    async fn puback(&mut self, packet_id: u16, code: u8) -> Result<(), Failure> {
        let Some(id) = self.in_flight.remove(&packet_id) else {
            self.unknown_pubacks += 1;
            return Ok(());
        };
        self.tell(LinkEvent::Puback { id, code }).await?;
        if self.collided == Some(packet_id) && code >= 0x80 {
            // rumqttc frees what waits for this identifier on success only, and
            // would wait for ever.
            return Err(Failure::network("a refused packet id came round; starting afresh"));
        }
        Ok(())
    }

    async fn tell(&mut self, event: LinkEvent) -> Result<(), Failure> {
        self.events.send(event).await
    }

    /// The last word on this connection.
    fn obituary(&self, failure: Failure) -> Failure {
        if self.unknown_pubacks > 0 {
            let count = self.unknown_pubacks;
            tracing::warn!(count, "PUBACKs for packet ids that were not in flight, ignored");
        }
        if self.is_leaving {
            return Failure::asked();
        }
        if self.terms.is_some() || failure.cause == DownCause::Asked {
            return failure;
        }
        let Broker { host, port, .. } = &self.settings.broker;
        Failure { reason: format!("{host}:{port}: {}", failure.reason), ..failure }
    }
}

/// The source whose order a publish keeps; none for what is said anew.
fn source_of(body: &PublishBody) -> Option<&SourceId> {
    match body {
        PublishBody::Entry(entry) => Some(entry.source()),
        PublishBody::Batch(records) => records.first().map(|record| &record.source),
        PublishBody::Frontier(_) | PublishBody::Status(_) => None,
    }
}
