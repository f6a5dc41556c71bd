//! The forwarder by its public door: lanes, shares, batches, what kills
//! connections.

use super::*;
use crate::core::limits::INVALID_TRIES_MAX;
use crate::readings::record;

fn at(millis: u64) -> MonoTime {
    MonoTime::from_ns(millis * 1_000_000)
}

fn reading(source: &str, seq: u64) -> Entry {
    Entry::Reading(record(source, seq))
}

/// A forwarder, and the journal it reads.
struct Rig {
    forward: Forward,
    journal: Vec<Entry>,
}

impl Rig {
    fn new(settings: ForwardSettings) -> Self {
        let forward = Forward::new(UplinkId(0), settings, RangeSet::new(0, []));
        Self { forward, journal: Vec::new() }
    }

    fn up(&mut self) {
        self.forward.link_up(self.durable(), u16::MAX, None);
    }

    fn durable(&self) -> Offset {
        Offset(self.journal.len() as u64)
    }

    /// Commits readings of these sources, numbered on.
    fn commit(&mut self, sources: &[&str]) {
        let first = self.durable();
        for source in sources {
            let seq = 1 + self.journal.iter().filter(|e| e.source().as_str() == *source).count();
            self.journal.push(reading(source, seq as u64));
        }
        self.forward.offer(first, &self.journal[first.0 as usize..]);
    }

    fn commit_many(&mut self, source: &str, count: usize) {
        self.commit(&vec![source; count]);
    }

    /// Answers every fetch that is due.
    fn read(&mut self) {
        while let Some(fetch) = self.forward.fetch(self.durable()) {
            let Purpose::Forward(_, lane) = fetch.purpose else { panic!("{fetch:?}") };
            let numbered = self.journal.iter().cloned().enumerate();
            let numbered = numbered.map(|(at, entry)| (Offset(at as u64), entry));
            let entries: Vec<_> =
                numbered.skip(fetch.from.0 as usize).take(fetch.entries_max).collect();
            let next = fetch.from.plus(entries.len() as u64);
            let (purpose, from) = (fetch.purpose, fetch.from);
            let mut fetched = Fetched { purpose, from, entries, next, damaged: Vec::new() };
            assert!(self.forward.fetched(lane, &mut fetched));
        }
    }

    /// What goes out now: its id, whether it is live, its offsets.
    fn take(&mut self, now: MonoTime) -> Vec<(PublishId, bool, Vec<u64>)> {
        let mut all = Vec::new();
        loop {
            self.read();
            match self.forward.take(now, |_, _| Fate::Send) {
                None => return all,
                Some(Taken::Goes(id, lane, entries)) => {
                    let offsets = entries.iter().map(|(offset, _)| offset.0).collect();
                    all.push((id, lane == Lane::Live, offsets));
                }
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    fn offsets(&mut self, now: MonoTime) -> Vec<Vec<u64>> {
        self.take(now).into_iter().map(|(_, _, offsets)| offsets).collect()
    }

    fn ack(&mut self, id: PublishId, now: MonoTime) {
        let verdict = self.forward.puback(id, 0, now);
        assert!(matches!(verdict, Verdict::Delivered { .. }), "{verdict:?}");
    }
}

fn lanes(inflight_max: usize, per_second: Option<u64>) -> ForwardSettings {
    let share = ShareSettings { share: 0.5, per_second };
    ForwardSettings { inflight_max, backfill_min: 2, share, ..ForwardSettings::DEFAULT }
}

fn batches(readings_max: usize) -> ForwardSettings {
    let batching = Batching { readings_max, bytes_max: 10_000, reading_bytes: 100 };
    ForwardSettings { batching, ..ForwardSettings::DEFAULT }
}

#[test]
fn a_small_backlog_goes_first_and_in_order() {
    let mut rig = Rig::new(ForwardSettings { backfill_min: 3, ..lanes(10, None) });
    rig.commit_many("a", 3);
    rig.up();
    rig.commit_many("a", 2);
    let taken = rig.take(at(0));
    let order: Vec<_> = taken.iter().map(|(_, live, offsets)| (*live, offsets[0])).collect();
    assert_eq!(order, [(false, 0), (false, 1), (false, 2), (true, 3), (true, 4)]);
}

#[test]
fn live_readings_pass_a_large_backlog_which_takes_its_share() {
    let mut rig = Rig::new(lanes(10, None));
    rig.commit_many("a", 100);
    rig.up();
    rig.commit_many("a", 2);
    let taken = rig.take(at(0));
    let order: Vec<_> = taken.iter().map(|(_, live, offsets)| (*live, offsets[0])).collect();
    let backfill = (0..5).map(|at| (false, at));
    assert_eq!(order, [(true, 100), (true, 101)].into_iter().chain(backfill).collect::<Vec<_>>());
    // A second without live data: the backlog takes what there is.
    let more = rig.take(at(1_000));
    assert_eq!(more.iter().map(|(_, _, o)| o[0]).collect::<Vec<_>>(), [5, 6, 7]);
}

#[test]
fn live_readings_that_fill_the_way_leave_a_tenth_of_it() {
    let mut rig = Rig::new(lanes(10, None));
    rig.commit_many("a", 100);
    rig.up();
    rig.commit_many("a", 50);
    let taken = rig.take(at(0));
    let live = taken.iter().filter(|(_, live, _)| *live).count();
    assert_eq!((live, taken.len()), (9, 10));
}

#[test]
fn the_rate_of_the_backlog_is_bounded() {
    let mut rig = Rig::new(lanes(100, Some(100)));
    rig.commit_many("a", 100);
    rig.up();
    // A tenth of a second's worth at once, then ten milliseconds each.
    assert_eq!(rig.take(at(0)).len(), 11);
    assert_eq!(rig.forward.next_deadline(), Some(at(10)));
    assert_eq!(rig.take(at(9)).len(), 0);
    assert_eq!(rig.take(at(10)).len(), 1);
    assert_eq!(rig.take(at(100)).len(), 9);
    rig.commit_many("a", 1);
    assert_eq!(rig.take(at(100)).len(), 1, "live readings are not bounded");
}

#[test]
fn a_drained_backlog_is_no_lane_any_more() {
    let mut rig = Rig::new(lanes(10, None));
    rig.commit_many("a", 5);
    rig.up();
    assert_eq!((rig.forward.backfill(), rig.forward.is_caught_up(Offset(5))), (5, false));
    for (id, _, _) in rig.take(at(0)) {
        rig.ack(id, at(1));
    }
    assert_eq!(rig.take(at(1)).len(), 0);
    assert_eq!((rig.forward.backfill(), rig.forward.is_caught_up(Offset(5))), (0, true));
    assert_eq!(rig.forward.done().frontier(), 5);
}

#[test]
fn readings_of_one_source_go_together_and_keep_their_order() {
    let mut rig = Rig::new(batches(3));
    rig.up();
    rig.commit(&["a", "b", "a", "b", "a", "a", "b"]);
    assert_eq!(rig.offsets(at(0)), [vec![0, 2, 4], vec![1, 3, 6], vec![5]]);
}

#[test]
fn a_reading_that_goes_alone_looks_for_no_company() {
    let mut cursor = Cursor::new(Offset(0), None);
    cursor.offer(Offset(0), &[reading("a", 1), reading("b", 1), reading("a", 2)]);
    let run = cursor.run(&Batching::SINGLE, 1, |offset, _| panic!("{offset:?} is looked at"));
    assert_eq!(run.len(), 1);
}

#[test]
fn a_batch_ends_at_its_bytes_and_a_large_reading_goes_alone() {
    let batching = Batching { readings_max: 10, bytes_max: 220, reading_bytes: 100 };
    let mut rig = Rig::new(ForwardSettings { batching, ..ForwardSettings::DEFAULT });
    rig.up();
    rig.commit_many("a", 3);
    // 104 bytes each by the estimate.
    assert_eq!(rig.offsets(at(0)), [vec![0, 1], vec![2]]);
}

#[test]
fn a_batch_is_built_to_the_brokers_limit_and_grows_again_with_the_next_broker() {
    let batching = Batching { readings_max: 10, bytes_max: 420, reading_bytes: 100 };
    let mut rig = Rig::new(ForwardSettings { batching, ..ForwardSettings::DEFAULT });
    rig.commit_many("a", 4);
    for (payload_max, expected) in [
        (Some(220), vec![vec![0, 1], vec![2, 3]]),
        (Some(0), vec![vec![0], vec![1], vec![2], vec![3]]),
        (Some(100_000), vec![vec![0, 1, 2, 3]]),
        (None, vec![vec![0, 1, 2, 3]]),
    ] {
        rig.forward.link_up(rig.durable(), u16::MAX, payload_max);
        assert_eq!(rig.offsets(at(0)), expected, "{payload_max:?}");
        rig.forward.link_down(false);
    }
}

#[test]
fn a_batch_has_no_hole_for_its_ends_name_it() {
    let mut rig = Rig::new(batches(2));
    rig.commit_many("a", 6);
    rig.up();
    let taken = rig.take(at(0));
    // The first and the last are to go again, in smaller parts or not; the one
    // between them is on its way.
    let ids = [taken[0].0, taken[2].0];
    rig.forward.puback(ids[0], 0x99, at(1));
    rig.forward.too_large(ids[1]);
    assert_eq!(rig.offsets(at(1)), [[0], [1], [4], [5]]);
    let mut rig = Rig::new(batches(4));
    rig.commit_many("a", 2);
    rig.up();
    rig.take(at(0));
    rig.commit_many("a", 2);
    let second = rig.take(at(0))[0].0;
    rig.commit_many("a", 2);
    let third = rig.take(at(0))[0].0;
    rig.ack(second, at(1));
    rig.forward.link_down(false);
    rig.up();
    assert_eq!(rig.offsets(at(2)), [[0, 1], [4, 5]], "2 and 3 are done with");
    assert!(matches!(rig.forward.puback(third, 0, at(2)), Verdict::Unknown));
}

#[test]
fn a_batch_that_is_not_full_waits_so_long_and_no_longer() {
    let linger = Span::from_millis(50);
    let mut rig = Rig::new(ForwardSettings { linger, ..batches(3) });
    rig.up();
    rig.commit_many("a", 2);
    assert_eq!(rig.offsets(at(0)), Vec::<Vec<u64>>::new());
    assert_eq!(rig.forward.next_deadline(), Some(at(50)));
    assert_eq!(rig.offsets(at(50)), [[0, 1]]);
    rig.commit_many("a", 4);
    assert_eq!(rig.offsets(at(60)), [[2, 3, 4]], "a full one does not wait");
}

#[test]
fn of_a_batch_called_invalid_each_is_tried_alone() {
    let mut rig = Rig::new(batches(3));
    rig.up();
    rig.commit_many("a", 3);
    let (id, _, offsets) = rig.take(at(0)).remove(0);
    assert_eq!(offsets, [0, 1, 2]);
    assert!(matches!(rig.forward.puback(id, 0x99, at(1)), Verdict::Again));
    let alone = rig.take(at(1));
    assert_eq!(alone.iter().map(|(_, _, o)| o.clone()).collect::<Vec<_>>(), [[0], [1], [2]]);
    let verdict = rig.forward.puback(alone[1].0, 0x99, at(2));
    assert!(matches!(verdict, Verdict::SetAside { offset: Offset(1), .. }), "{verdict:?}");
    rig.ack(alone[0].0, at(2));
    rig.ack(alone[2].0, at(2));
    assert_eq!(rig.forward.done().frontier(), 3);
}

#[test]
fn a_batch_too_large_to_be_sent_is_halved_and_grows_again() {
    let mut rig = Rig::new(batches(8));
    rig.up();
    rig.commit_many("a", 8);
    let (id, _, offsets) = rig.take(at(0)).remove(0);
    assert_eq!(offsets.len(), 8);
    assert!(matches!(rig.forward.too_large(id), Verdict::Again));
    let halves = rig.take(at(0));
    assert_eq!(halves.iter().map(|(_, _, o)| o.len()).collect::<Vec<_>>(), [4, 4]);
    rig.ack(halves[0].0, at(1));
    rig.commit_many("a", 8);
    assert_eq!(rig.take(at(1))[0].2.len(), 8);
}

#[test]
fn what_follows_a_batch_that_is_too_large_does_not_pass_it() {
    let mut rig = Rig::new(batches(4));
    rig.up();
    rig.commit_many("a", 12);
    rig.commit_many("b", 4);
    let flying = rig.take(at(0));
    let offsets: Vec<_> = flying.iter().map(|(_, _, offsets)| offsets[0]).collect();
    assert_eq!(offsets, [0, 4, 8, 12]);
    // The first of the three has left; the third was decided on before it was known
    // that the second cannot.
    let refused = flying[1].0;
    assert!(matches!(rig.forward.too_large(refused), Verdict::Again));
    assert_eq!(rig.forward.last_refused(), refused);
    let again = [[4, 5], [6, 7], [8, 9], [10, 11]];
    assert_eq!(rig.offsets(at(0)), again);
    // The one that was never sent is no longer known, the other source's is.
    assert!(matches!(rig.forward.puback(flying[2].0, 0, at(1)), Verdict::Unknown));
    rig.ack(flying[0].0, at(1));
    rig.ack(flying[3].0, at(1));
}

#[test]
fn what_kills_every_connection_is_set_aside_and_its_neighbours_arrive() {
    let mut rig = Rig::new(ForwardSettings::DEFAULT);
    rig.commit_many("a", 3);
    // Twice it is lost together with the others.
    for _ in 0..2 {
        rig.up();
        let control = rig.forward.send_control(at(0));
        assert!(matches!(rig.forward.puback(control, 0, at(0)), Verdict::Control));
        assert_eq!(rig.offsets(at(0)), [[0], [1], [2]]);
        rig.forward.link_down(true);
    }
    // Then each goes alone, and the second one is it.
    for _ in 0..2 {
        rig.up();
        let control = rig.forward.send_control(at(0));
        assert_eq!(rig.offsets(at(0)), Vec::<Vec<u64>>::new(), "not before the link is proved");
        assert!(matches!(rig.forward.puback(control, 0, at(0)), Verdict::Control));
        let mut taken = rig.take(at(0));
        if taken[0].2 == [0] {
            rig.ack(taken[0].0, at(1));
            taken = rig.take(at(1));
        }
        assert_eq!((taken.len(), &taken[0].2), (1, &vec![1]));
        rig.forward.link_down(true);
    }
    rig.up();
    rig.read();
    let killer = rig.forward.take(at(2), |_, _| Fate::Send);
    assert!(matches!(killer, Some(Taken::Kills(Offset(1), _))), "{killer:?}");
    let control = rig.forward.send_control(at(2));
    assert!(matches!(rig.forward.puback(control, 0, at(2)), Verdict::Control));
    assert_eq!(rig.offsets(at(2)), [[2]]);
}

#[test]
fn a_broker_that_never_acknowledges_makes_nothing_suspect_of_killing() {
    let mut rig = Rig::new(ForwardSettings::DEFAULT);
    rig.commit_many("a", 1);
    for round in 0..10 {
        rig.up();
        rig.forward.send_control(at(0));
        let went = rig.take(at(0)).len();
        assert_eq!(went, usize::from(round < 2), "round {round}");
        rig.forward.link_down(true);
    }
}

#[test]
fn no_deadline_stays_behind_where_what_waited_is_held() {
    let linger = Span::from_millis(50);
    let mut rig = Rig::new(ForwardSettings { linger, ..batches(3) });
    rig.up();
    rig.commit(&["a"]);
    let (id, _, _) = {
        assert_eq!(rig.take(at(0)).len(), 0);
        rig.take(at(50)).remove(0)
    };
    rig.commit(&["a"]);
    assert_eq!((rig.take(at(60)).len(), rig.forward.next_deadline()), (0, Some(at(110))));
    let held = rig.forward.puback(id, 0x87, at(70));
    assert!(matches!(held, Verdict::Held { .. }), "{held:?}");
    assert_eq!(rig.take(at(120)).len(), 0);
    assert_eq!(rig.forward.next_deadline(), Some(at(5_070)), "that of the held source alone");
}

#[test]
fn large_batches_in_flight_are_bounded_by_their_readings() {
    let batching = Batching { readings_max: 2_000, bytes_max: 1 << 20, reading_bytes: 100 };
    let mut rig = Rig::new(ForwardSettings { batching, ..ForwardSettings::DEFAULT });
    rig.commit_many("a", 30_000);
    rig.up();
    let readings = |taken: &[(PublishId, bool, Vec<u64>)]| -> usize {
        taken.iter().map(|(_, _, offsets)| offsets.len()).sum()
    };
    let is_at_bound = |count| (INFLIGHT_ENTRIES_MAX..INFLIGHT_ENTRIES_MAX + 2_000).contains(&count);
    let taken = rig.take(at(0));
    assert!(is_at_bound(readings(&taken)), "{}", readings(&taken));
    rig.ack(taken[0].0, at(1));
    let more = rig.take(at(1));
    assert!(is_at_bound(readings(&taken[1..]) + readings(&more)));
}

/// The rest of its source was passed over while it was tried.
#[test]
fn behind_one_that_is_set_aside_a_held_source_goes_on_with_the_next() {
    let mut rig = Rig::new(lanes(10, None));
    rig.up();
    rig.commit_many("a", 4);
    for (id, _, _) in rig.take(at(0)) {
        rig.forward.puback(id, 0x87, at(1));
    }
    rig.forward.retry_held(at(10_000));
    for _ in 0..INVALID_TRIES_MAX {
        let tried = rig.take(at(10_000));
        assert_eq!(tried[0].2, [0]);
        rig.forward.puback(tried[0].0, 0x99, at(10_001));
    }
    let next = rig.take(at(10_002));
    assert_eq!((next.len(), &next[0].2[..]), (1, &[1][..]));
    rig.ack(next[0].0, at(10_003));
    assert_eq!(rig.offsets(at(10_004)), [[2], [3]]);
}
