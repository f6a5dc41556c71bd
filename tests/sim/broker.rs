//! The modelled broker and the network to it: refuses, drops before or after
//! receipt, acknowledges late, out of order, twice, with errors or not at all.

use std::collections::{BTreeMap, BTreeSet};

use tidegate::core::clock::Correction;
use tidegate::core::id::{Epoch, PublishId, Seq, SourceId};
use tidegate::core::reading::{Entry, GapRecord, Record};
use tidegate::core::seam::{
    DownCause, Frontier, Lane, LinkEvent, LinkTerms, Meta, Publish, PublishBody, RetainedFrontier,
};

use tidegate::core::window::{LateReading, WindowResult};

use crate::rng::Rng;

pub type Key = (SourceId, Epoch, Seq);

/// What the broker has, as a consumer would see it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    pub readings: BTreeMap<Key, Record>,
    pub order: BTreeMap<(SourceId, Epoch), Vec<Seq>>,
    pub gaps: Vec<GapRecord>,
    pub frontiers: Vec<Frontier>,
    pub corrections: Vec<Correction>,
    pub results: BTreeMap<Key, WindowResult>,
    pub late: Vec<LateReading>,
    pub copies: u64,
    /// How often each was sent, arrived or not.
    pub sent: BTreeMap<Key, u32>,
    /// What a frontier named before it was here, neither itself nor in a gap record.
    pub claimed: BTreeSet<Key>,
}

impl Received {
    fn claims(&mut self, frontier: &Frontier) {
        let Frontier { source, epoch, through_seq, .. } = frontier;
        let key = |seq: u64| (source.clone(), *epoch, Seq(seq));
        let is_here = |key: &Key| {
            let is_it = |gap: &&GapRecord| (&gap.source, gap.epoch) == (&key.0, key.1);
            let gaps = self.gaps.iter().filter(is_it);
            let is_arrived = self.readings.contains_key(key) || self.results.contains_key(key);
            is_arrived || gaps.clone().any(|gap| names(gap, key.2))
        };
        let absent: Vec<Key> = (1..=through_seq.0).map(key).filter(|key| !is_here(key)).collect();
        self.claimed.extend(absent);
    }
}

/// Whether a gap record names a number.
pub fn names(gap: &GapRecord, seq: Seq) -> bool {
    (gap.first_seq..=gap.last_seq.unwrap_or(gap.first_seq)).contains(&seq)
}

#[derive(Clone, Debug, Default)]
pub struct Broker {
    pub received: Received,
    /// Counts connections; what was sent on an older one is lost.
    pub connection: u64,
    pub is_up: bool,
    pub unacknowledged: usize,
    is_silent: bool,
    /// Readings in one payload, at most; found out by trying.
    batch_max: usize,
    /// Batches that were too large: what follows on their lane is not sent until that
    /// is known.
    too_large: BTreeMap<(SourceId, bool), PublishId>,
    /// The gateway's disk is put back to an older copy.
    is_restored: bool,
    /// It never takes readings of some numbers: one of so many, from this one on.
    refuses: Option<(u64, u64)>,
    retained: BTreeMap<SourceId, RetainedFrontier>,
    seen: BTreeSet<Key>,
    newest: BTreeMap<(u64, bool, SourceId, Epoch), Seq>,
}

/// What comes back, each after so many microseconds.
pub type Answers = Vec<(u64, LinkEvent)>;

impl Broker {
    pub fn new(is_restored: bool, refuses: Option<(u64, u64)>) -> Self {
        Self { is_restored, refuses, ..Self::default() }
    }

    fn refuses(&self, body: &PublishBody) -> bool {
        let is_refused = |record: &Record| {
            self.refuses.is_some_and(|(each, from)| record.seq.0 % each == from % each)
        };
        match body {
            PublishBody::Entry(Entry::Reading(record)) => is_refused(record),
            PublishBody::Batch(records) => records.iter().any(is_refused),
            _ => false,
        }
    }

    /// Whether it retains a frontier that is beyond this copy.
    pub fn will_notice(&self, copy: &Meta) -> bool {
        self.retained.values().any(|said| {
            let books = copy.sources.get(&said.source).filter(|_| said.epoch == copy.epoch);
            books.is_some_and(|books| said.through_seq > books.vouched)
        })
    }

    pub fn connect(&mut self, asks_frontiers: bool, rng: &mut Rng, has_faults: bool) -> Answers {
        self.connection += 1;
        self.is_silent = has_faults && rng.chance(10);
        self.unacknowledged = 0;
        self.too_large.clear();
        self.batch_max = if self.connection.is_multiple_of(3) { 2 } else { usize::MAX };
        if has_faults && rng.chance(30) {
            return vec![(rng.between(100, 900_000), down(rng, "refused"))];
        }
        self.is_up = true;
        let receive_max = if rng.chance(30) { 5 } else { u16::MAX };
        vec![(
            rng.between(100, 50_000),
            LinkEvent::Up(LinkTerms {
                receive_max,
                payload_max: self.connection.is_multiple_of(4).then_some(1_000),
                session_present: rng.chance(50),
                frontiers: if asks_frontiers {
                    self.retained.values().cloned().collect()
                } else {
                    Vec::new()
                },
            }),
        )]
    }

    pub fn cut(&mut self, rng: &mut Rng, reason: &str) -> Answers {
        self.is_up = false;
        vec![(rng.between(0, 2_000), down(rng, reason))]
    }

    /// On its way: it may be lost with the connection.
    pub fn is_sent(&mut self, body: &PublishBody) {
        let records: &[Record] = match body {
            PublishBody::Entry(Entry::Reading(record)) => std::slice::from_ref(record),
            PublishBody::Batch(records) => records,
            _ => return,
        };
        for record in records {
            let key = (record.source.clone(), record.epoch, record.seq);
            *self.received.sent.entry(key).or_insert(0) += 1;
        }
    }

    pub fn publish(&mut self, publish: Publish, rng: &mut Rng, has_faults: bool) -> Answers {
        if has_faults && rng.chance(1) {
            return self.cut(rng, "dropped before receipt");
        }
        let (source, readings) = match &publish.body {
            PublishBody::Entry(entry) => (Some(entry.source()), 1),
            PublishBody::Batch(records) => (records.first().map(|one| &one.source), records.len()),
            PublishBody::Frontier(_) | PublishBody::Status(_) => (None, 0),
        };
        if let Some(source) = source {
            let stream = (source.clone(), publish.lane == Lane::Live);
            let refused = self.too_large.get(&stream);
            if refused.is_some_and(|refused| publish.last_refused < *refused) {
                return Vec::new();
            }
            if readings > self.batch_max {
                self.too_large.insert(stream, publish.id);
                let (size, limit) = (readings as u64, self.batch_max as u64);
                let answer = LinkEvent::TooLarge { id: publish.id, size, limit };
                return vec![(1_000, answer)];
            }
        }
        self.see(&publish);
        let code = self.judge(&publish.body, rng, has_faults);
        if code < 0x80 {
            self.receive(publish.body);
        }
        if has_faults && rng.chance(1) {
            return self.cut(rng, "dropped after receipt");
        }
        if self.is_silent && rng.chance(20) {
            return Vec::new();
        }
        self.acknowledge(publish.id, code, rng, has_faults)
    }

    /// Within a lane of a connection, the first sight of each number of a source
    /// is in order.
    fn see(&mut self, publish: &Publish) {
        let records: &[Record] = match &publish.body {
            PublishBody::Entry(Entry::Reading(record)) => std::slice::from_ref(record),
            PublishBody::Batch(records) => records,
            _ => return,
        };
        for record in records {
            let key = (record.source.clone(), record.epoch, record.seq);
            if !self.seen.insert(key) {
                continue;
            }
            let is_live = publish.lane == Lane::Live;
            let lane = (self.connection, is_live, record.source.clone(), record.epoch);
            let newest = self.newest.insert(lane, record.seq);
            assert!(newest < Some(record.seq), "seen out of order after {newest:?}: {record:?}");
        }
    }

    fn acknowledge(&self, id: PublishId, code: u8, rng: &mut Rng, has_faults: bool) -> Answers {
        let puback = LinkEvent::Puback { id, code };
        let mut answers = vec![(rng.between(10, 80_000), puback.clone())];
        if has_faults && rng.chance(2) {
            answers.push((rng.between(10, 200_000), puback));
        }
        if has_faults && rng.chance(1) {
            let stray = LinkEvent::Puback { id: PublishId(id.0 + 7_000_000), code: 0 };
            answers.push((rng.between(10, 200_000), stray));
        }
        answers
    }

    fn judge(&self, body: &PublishBody, rng: &mut Rng, has_faults: bool) -> u8 {
        let (PublishBody::Entry(Entry::Reading(_)) | PublishBody::Batch(_)) = body else {
            return 0;
        };
        if self.refuses(body) {
            return 0x90;
        }
        match rng.between(0, 199) {
            0 if has_faults => 0x97,
            1 if has_faults => 0x87,
            2 if has_faults => 0x99,
            3 => 0x10,
            _ => 0,
        }
    }

    fn receive(&mut self, body: PublishBody) {
        match body {
            PublishBody::Entry(Entry::Reading(record)) => self.receive_reading(record),
            PublishBody::Entry(Entry::Gap(gap)) => self.received.gaps.push(gap),
            PublishBody::Entry(Entry::Correction(correction)) => {
                self.received.corrections.push(correction);
            }
            PublishBody::Entry(Entry::Window(result)) => self.receive_result(result),
            PublishBody::Entry(Entry::Late(late)) => self.received.late.push(late),
            PublishBody::Entry(Entry::Clock(_)) => {}
            PublishBody::Entry(Entry::Retimed(_) | Entry::Idle(_)) => {
                panic!("an internal entry was published")
            }
            PublishBody::Batch(records) => {
                records.into_iter().for_each(|record| self.receive_reading(record));
            }
            PublishBody::Frontier(frontier) => {
                let Frontier { source, epoch, through_seq, .. } = frontier.clone();
                let retained = RetainedFrontier { source: source.clone(), epoch, through_seq };
                self.retained.insert(source, retained);
                self.received.claims(&frontier);
                self.received.frontiers.push(frontier);
            }
            PublishBody::Status(_) => {}
        }
    }

    fn receive_result(&mut self, result: WindowResult) {
        let key = (result.source.clone(), result.epoch, result.seq);
        if let Some(known) = self.received.results.get(&key) {
            assert_eq!(*known, result, "two different results under one name");
            return;
        }
        self.received.results.insert(key, result);
    }

    fn receive_reading(&mut self, record: Record) {
        self.received.copies += 1;
        let key = (record.source.clone(), record.epoch, record.seq);
        if let Some(known) = self.received.readings.get(&key) {
            let mut known = known.clone();
            if self.is_restored {
                // The copy does not know which time was settled on after it was
                // made.
                known.stamp = record.stamp;
            }
            assert_eq!(known, record, "two different readings under one name");
            return;
        }
        self.received.order.entry((key.0.clone(), key.1)).or_default().push(key.2);
        self.received.readings.insert(key, record);
    }
}

fn down(rng: &mut Rng, reason: &str) -> LinkEvent {
    LinkEvent::Down { reason: reason.to_owned(), cause: DownCause::Network, draw: rng.next() }
}
