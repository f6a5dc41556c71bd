//! What must hold after every step, and what must hold at rest.

use std::collections::{BTreeMap, BTreeSet};

use tidegate::core::clock::{ClockState, correct, seal};
use tidegate::core::id::{Epoch, Offset, Seq, SourceId};
use tidegate::core::reading::{Entry, GapReason, GapRecord, Origin, Record, Value};

use tidegate::core::seam::Shown as OnSite;
use tidegate::core::status::Status;
use tidegate::core::window::{ResultStatus, WindowResult};

use crate::broker::{Received, names};
use crate::clock::EPOCH_NS;
use crate::source::{REPEATING, number};
use crate::world::{INFLIGHT_MAX, World};

pub fn after_step(world: &World) {
    for inflight in world.agent.inflight() {
        assert!(inflight <= INFLIGHT_MAX, "in flight: {inflight}");
    }
    for (source, books) in &world.agent.source_books() {
        let sum = books.acknowledged + books.stored + books.evicted + books.lost;
        assert_eq!(books.accepted, sum, "the books of {source} do not balance: {books:?}");
    }
}

pub fn is_durable_before_publish(world: &World, entry: &Entry) {
    let Entry::Reading(record) = entry else {
        assert!(world.disk.is_flushed(entry), "published before it was flushed: {entry:?}");
        return;
    };
    let stored = world.disk.find(|offset, entry| {
        let renamed = world.disk.renamed(entry);
        let stored = renamed.reading()?;
        let is_it = (&stored.source, stored.epoch, stored.seq)
            == (&record.source, record.epoch, record.seq);
        is_it.then(|| (offset, stored.clone()))
    });
    let Some((offset, stored)) = stored else {
        panic!("published before it was flushed: {entry:?}");
    };
    if record.stamp.origin != Origin::Device && record.stamp.max_error.is_none() {
        let ledger = world.disk.flushed_meta().map(|meta| &meta.clock);
        let is_noted = ledger.is_some_and(|ledger| correct::is_noted(&ledger.sent, record));
        assert!(is_noted, "left without a bound before that was noted: {entry:?}");
    }
    if seal::is_open(&stored.stamp) {
        let sealed = world.disk.flushed_meta().map_or(Offset(0), |meta| meta.sealed);
        assert!(offset < sealed, "published before its time was final: {entry:?}");
        assert_eq!(Record { stamp: record.stamp, ..stored }, *record);
    } else {
        assert_eq!(stored, *record);
    }
}

pub fn is_durable_before_shown(world: &World, shown: &OnSite) {
    let is_there = match shown {
        OnSite::Result(result) => world.disk.is_flushed(&Entry::Window((**result).clone())),
        // It may have been held for longer than the uplink needed it.
        OnSite::Ordered(reading) => world.disk.was_flushed(&reading.record),
        OnSite::Late(late) => world.disk.is_flushed(&Entry::Late((**late).clone())),
    };
    assert!(is_there, "shown on site before it was flushed: {shown:?}");
}

/// Whatever the wall clock did: what is given up for its age alone is that old in
/// truth. Devices are heard up to five seconds late.
pub fn is_old_enough(world: &World, gap: &GapRecord) {
    const SLACK_NS: i64 = 6_000_000_000;
    let is_for_age = gap.reason == GapReason::Evicted && world.scenario.quota_bytes > 1_000_000;
    let (Some(max_age_s), true) = (world.scenario.max_age_s, is_for_age) else { return };
    let now_ns = EPOCH_NS + world.now_us as i64 * 1_000;
    let seqs = gap.first_seq..=gap.last_seq.unwrap_or(gap.first_seq);
    world.disk.find(|_, entry| -> Option<()> {
        let record = entry.reading().filter(|record| {
            (&record.source, record.epoch) == (&gap.source, gap.epoch) && seqs.contains(&record.seq)
        })?;
        let key = (record.stamp.boot.0, record.stamp.uptime.ns());
        let age_ns = now_ns - world.machine.arrivals[&key];
        assert!(age_ns + SLACK_NS >= max_age_s * 1_000_000_000, "{age_ns} ns old: {record:#?}");
        None
    });
}

pub fn is_durable_before_receipt(world: &World, source: usize, numbers: &[i64]) {
    for n in numbers {
        let id = &world.sources[source].id;
        assert!(world.is_number_flushed(source, *n), "{id}: {n} receipted before it was flushed");
    }
}

/// Nothing left to do: everything is with the broker or in a gap record, once.
pub fn at_rest(world: &World) {
    let status = world.agent.status(&world.now());
    assert_eq!((status.backlog, status.unsent), (0, 0), "a backlog is left: {status:#?}");
    assert_eq!(status.uncommitted, 0);
    for broker in &world.brokers {
        if world.scenario.is_restored {
            has_what_the_copy_had(world, &broker.received);
            continue;
        }
        has_everything(world, &status, &broker.received);
        frontiers_hold(&broker.received);
        refusals_are_so(&broker.received);
        times_hold(world, &broker.received);
        windows_hold(&broker.received);
    }
}

/// Of a disk that went back to an older copy of itself, all that the copy held
/// and all that came after arrives. That no name stands for two readings, the
/// broker looks after.
fn has_what_the_copy_had(world: &World, received: &Received) {
    let evicted: u64 = world.agent.source_books().values().map(|b| b.evicted + b.lost).sum();
    let refused = received.gaps.iter().filter(|gap| gap.reason == GapReason::RefusedByBroker);
    let refused: u64 =
        refused.map(|gap| gap.last_seq.map_or(1, |last| last.0 + 1 - gap.first_seq.0)).sum();
    for source in &world.sources {
        assert!(source.is_finished(), "{} still waits for receipts", source.id);
        let of_source = received.readings.values().filter(|record| record.source == source.id);
        let arrived: BTreeSet<i64> = of_source.filter_map(number).collect();
        let absent = source.durable.iter().filter(|n| !arrived.contains(n));
        let absent: BTreeSet<i64> = absent.copied().collect();
        assert!(
            absent.len() as u64 <= evicted + refused,
            "{}: {absent:?} do not arrive",
            source.id
        );
    }
}

fn has_everything(world: &World, status: &Status, received: &Received) {
    let missing = missing_numbers(received);
    let mut values: BTreeMap<&SourceId, BTreeSet<i64>> = BTreeMap::new();
    for record in received.readings.values() {
        let Some(n) = number(record) else { panic!("not a number: {record:?}") };
        values.entry(&record.source).or_default().insert(n);
    }
    for source in &world.sources {
        assert!(source.is_finished(), "{} still waits for receipts", source.id);
        let books = status.sources[&source.id];
        assert_eq!((books.stored, books.accepted > 0), (0, true));
        let gone = missing.get(&source.id).copied().unwrap_or(0);
        let arrived = values.get(&source.id).map_or(0, BTreeSet::len) as u64;
        let receipted: BTreeSet<i64> = source.durable.iter().copied().collect();
        let has_arrived = |n: &i64| values.get(&source.id).is_some_and(|all| all.contains(n));
        let absent = receipted.iter().filter(|n| !has_arrived(n)).count() as u64;
        assert!(absent <= gone, "{}: {absent} absent, {gone} in gap records", source.id);
        assert!(arrived + gone >= receipted.len() as u64);
        let one_refuses = world.brokers.len() > 1 && world.scenario.refuses != [None; 2];
        if !one_refuses {
            assert_eq!(books.evicted + books.lost, gone, "{}: gap records and books", source.id);
        }
        assert!(books.evicted + books.lost <= gone, "{}: {books:?}, {gone}", source.id);
    }
    repeats_are_dropped(world, received);
    totals_are_whole(received);
}

/// Whatever was lost on the way, the newest total has all increments. Where a part
/// of the journal was lost, repeats of that part may have been added again.
fn totals_are_whole(received: &Received) {
    if !received.gaps.is_empty() {
        return;
    }
    let of_source = received.readings.values().filter(|r| r.source.as_str() == REPEATING);
    let last = of_source.clone().max_by_key(|record| (record.epoch, record.seq));
    let sum: i64 = of_source.filter_map(number).sum();
    assert_eq!(last.map(|record| record.value.clone()), Some(Value::I64(sum)));
}

/// Of the source whose repeats are dropped every reading came once. Where a part
/// of the journal was lost, or the agent was started while the source was not
/// configured, repeats of before may have passed.
fn repeats_are_dropped(world: &World, received: &Received) {
    let was_forgotten = world.sources.iter().any(|source| source.was_forgotten);
    if was_forgotten || !received.gaps.is_empty() {
        return;
    }
    let of_source = received.readings.values().filter(|r| r.source.as_str() == REPEATING);
    let mut seen = BTreeMap::new();
    for record in of_source {
        let first = seen.insert(&record.id, record.seq);
        assert_eq!(first, None, "came under two numbers: {record:?}");
    }
}

/// Delivered numbers and gap records together cover 1..=n without overlap;
/// returns how many numbers of each source are in gap records.
fn missing_numbers(received: &Received) -> BTreeMap<SourceId, u64> {
    let mut named: BTreeMap<(SourceId, Epoch), BTreeMap<Seq, bool>> = BTreeMap::new();
    for (source, epoch, seq) in received.readings.keys().chain(received.results.keys()) {
        named.entry((source.clone(), *epoch)).or_default().insert(*seq, true);
    }
    let mut counts = BTreeMap::new();
    for gap in &received.gaps {
        let seqs = named.entry((gap.source.clone(), gap.epoch)).or_default();
        let last = gap.last_seq.unwrap_or(gap.first_seq);
        for seq in gap.first_seq.0..=last.0 {
            // A gap record that grew names the same numbers again; a reading
            // written off after the broker took it and before its PUBACK came
            // is in both, and that cannot be known here.
            if seqs.insert(Seq(seq), false) != Some(false) {
                *counts.entry(gap.source.clone()).or_insert(0) += 1;
            }
        }
    }
    for ((source, epoch), seqs) in &named {
        let expected: Vec<Seq> = (1..=seqs.len() as u64).map(Seq).collect();
        let actual: Vec<Seq> = seqs.keys().copied().collect();
        assert_eq!(actual, expected, "holes in {source} of epoch {epoch}");
    }
    counts
}

/// A gap record of a refusal goes to the broker that did not take the reading, and no
/// frontier claims a reading before either of them is there.
fn refusals_are_so(received: &Received) {
    let is_refusal = |gap: &&GapRecord| gap.reason == GapReason::RefusedByBroker;
    let spared: Vec<&GapRecord> = received.gaps.iter().filter(|gap| !is_refusal(gap)).collect();
    for (source, epoch, seq) in &received.claimed {
        let is_it = |gap: &&&GapRecord| (&gap.source, gap.epoch) == (source, *epoch);
        let is_spared = spared.iter().filter(is_it).any(|gap| names(gap, *seq));
        assert!(is_spared, "claimed before it was there: {source} {epoch} {seq}");
    }
    for gap in received.gaps.iter().filter(is_refusal) {
        for seq in gap.first_seq.0..=gap.last_seq.unwrap_or(gap.first_seq).0 {
            let key = (gap.source.clone(), gap.epoch, Seq(seq));
            // Sent again, it may have been taken before and refused then, or have been
            // the last on connections that broke.
            let is_here = received.readings.contains_key(&key) && received.sent[&key] == 1;
            assert!(!is_here, "said to be refused and here: {key:?}");
        }
    }
}

/// No frontier was ever beyond a reading that arrived only after it.
fn frontiers_hold(received: &Received) {
    for frontier in &received.frontiers {
        let key = (frontier.source.clone(), frontier.epoch);
        let through = frontier.through_seq;
        let results = received.results.keys().filter(|(s, e, _)| (s, e) == (&key.0, &key.1));
        let known = (received.order.get(&key).map_or(0, Vec::len) + results.count()) as u64;
        let gaps: u64 = received.gaps.iter().filter(|gap| gap.source == key.0).count() as u64;
        assert!(through.0 <= known || gaps > 0, "{frontier:?} is beyond what arrived");
    }
}

/// What the seeds together have shown, so that no rule holds for want of cases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    pub restamped: u64,
    pub bounded: u64,
    pub corrected: u64,
    pub holdover: u64,
    /// Repeats dropped in the last life of runs that lost nothing.
    pub repeats: u64,
    /// Readings given up for their age alone.
    pub expired: u64,
    /// Numberings that followed an older copy of the disk.
    pub renumbered: u64,
    /// Sources that came back after they had left the configuration.
    pub returned: u64,
    /// Readings that one broker refused and another took.
    pub refused: u64,
}

impl Shown {
    pub fn with(self, other: Shown) -> Shown {
        Shown {
            restamped: self.restamped + other.restamped,
            bounded: self.bounded + other.bounded,
            corrected: self.corrected + other.corrected,
            holdover: self.holdover + other.holdover,
            repeats: self.repeats + other.repeats,
            renumbered: self.renumbered + other.renumbered,
            expired: self.expired + other.expired,
            returned: self.returned + other.returned,
            refused: self.refused + other.refused,
        }
    }
}

/// For every reading with an error bound, event time is within it of the truth;
/// those that left without one have a correction for which the same holds.
fn times_hold(world: &World, received: &Received) {
    for record in received.readings.values() {
        let stamp = &record.stamp;
        if stamp.origin == Origin::Device {
            // Devices are right here, or fifteen minutes ahead and found out.
            continue;
        }
        let truth_ns = world.machine.arrivals[&(stamp.boot.0, stamp.uptime.ns())];
        let Some(bound) = stamp.max_error else {
            is_corrected(received, record, truth_ns);
            continue;
        };
        let off_ns = stamp.event_time.unix_ns().abs_diff(truth_ns);
        assert!(off_ns <= bound.ns(), "{off_ns} ns off: {record:#?}");
    }
}

fn is_corrected(received: &Received, record: &Record, truth_ns: i64) {
    let stamp = &record.stamp;
    assert!(!stamp.state.is_trusted(), "trusted without a bound: {record:#?}");
    let newest = received.corrections.iter().rev().find(|correction| {
        correction.source == record.source
            && correction.epoch == record.epoch
            && (correction.first_seq..=correction.last_seq).contains(&record.seq)
            && (correction.boot, correction.timebase) == (stamp.boot, stamp.timebase)
    });
    let Some(correction) = newest else {
        panic!(
            "left without a bound and has no correction: {record:?}\n{:#?}",
            received.corrections
        );
    };
    let corrected = stamp.event_time + correction.shift;
    let off_ns = corrected.unix_ns().abs_diff(truth_ns);
    assert!(off_ns <= correction.max_error.ns(), "{off_ns} ns off by {correction:#?}: {record:#?}");
}

/// What one run has shown of times.
pub fn shown(world: &World) -> Shown {
    let received = &world.brokers[0].received;
    let readings = || received.readings.values();
    let count =
        |is: &dyn Fn(&Record) -> bool| readings().filter(|record| is(record)).count() as u64;
    let books = world.agent.source_books();
    let is_whole = received.gaps.is_empty();
    Shown {
        restamped: count(&|record| record.stamp.origin == Origin::Restamped),
        bounded: count(&|record| record.stamp.origin == Origin::Bounded),
        corrected: received.corrections.len() as u64,
        holdover: count(&|record| record.stamp.state == ClockState::Holdover),
        repeats: books[&SourceId::new(REPEATING)].duplicates * u64::from(is_whole),
        renumbered: u64::from(
            received.order.keys().any(|(_, epoch)| epoch.number > 1) && world.scenario.is_restored,
        ),
        returned: world.returned,
        refused: refused_by_one(world),
        expired: match world.scenario.max_age_s {
            Some(_) if world.scenario.quota_bytes > 1_000_000 => {
                world.agent.source_books().values().map(|books| books.evicted).sum()
            }
            _ => 0,
        },
    }
}

fn refused_by_one(world: &World) -> u64 {
    let [one, other] = &world.brokers[..] else { return 0 };
    let keys = |received: &Received| received.readings.keys().cloned().collect::<BTreeSet<_>>();
    let (one, other) = (keys(&one.received), keys(&other.received));
    one.symmetric_difference(&other).count() as u64
}

/// Of every window and series the revisions count 1, 2, 3 …, and nothing follows
/// a final one but its own marker. Where a part of the journal was lost, a crash
/// takes the windows back to a state that has not seen it: then some may be said
/// again.
fn windows_hold(received: &Received) {
    let is_whole = received.gaps.is_empty();
    let mut panes: BTreeMap<_, Vec<&WindowResult>> = BTreeMap::new();
    for result in received.results.values() {
        let bounds = (result.start, result.end, result.timebase.0);
        let key = (result.window.clone(), result.series.clone(), bounds, result.epoch);
        panes.entry(key).or_default().push(result);
    }
    for (key, results) in &panes {
        let mut last: Option<&WindowResult> = None;
        for result in results {
            let is_marker = last.is_some_and(|last| {
                result.status == ResultStatus::Final && result.revision == last.revision
            });
            let next = last.map_or(1, |last| last.revision + 1);
            if is_whole && !is_marker {
                assert_eq!(result.revision, next, "{key:?}: {results:#?}");
            }
            let is_over = last.is_some_and(|last| last.status == ResultStatus::Final);
            assert!(!is_whole || !is_over, "after the end: {key:?}: {results:#?}");
            last = Some(result);
        }
    }
}
