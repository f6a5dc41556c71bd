//! What holds for every timeline, seal and correction.

use proptest::prelude::*;
use tidegate::core::clock::seal::{Seal, Timeline};
use tidegate::core::clock::timeline::{Anchor, Anchored, Bounded, FirstStamp};
use tidegate::core::clock::{ClockSource, ClockState, SentStretch, correct};
use tidegate::core::id::{BootId, Offset};
use tidegate::core::reading::{Origin, Record, Stamp};
use tidegate::core::time::{EventTime, IngestTime, MaxError, Uptime};

#[path = "support/readings.rs"]
mod readings;

const UTC_NS: i64 = 1_796_000_000_000_000_000;
const DAY_NS: u64 = 86_400_000_000_000;

/// A crystal whose rate error is below what the timeline allows for.
#[derive(Clone, Copy, Debug)]
struct Crystal {
    error_ppb: i64,
}

impl Crystal {
    fn utc_ns(self, up: Uptime) -> i64 {
        let strayed = i128::from(up.ns()) * i128::from(self.error_ppb) / 1_000_000_000;
        UTC_NS + up.ns() as i64 + strayed as i64
    }
}

fn crystals() -> impl Strategy<Value = Crystal> {
    (-99_000_i64..99_000).prop_map(|error_ppb| Crystal { error_ppb })
}

/// Anchors that tell the truth within their error.
fn anchors(crystal: Crystal) -> impl Strategy<Value = Vec<Anchor>> {
    let one = (0..7 * DAY_NS, 1_000_u64..900_000_000, -1.0_f64..1.0);
    prop::collection::vec(one, 1..12).prop_map(move |ones| {
        let mut anchors: Vec<Anchor> = ones
            .into_iter()
            .map(|(up_ns, error_ns, off)| {
                let up = Uptime::from_ns(up_ns);
                let off_ns = (off * error_ns as f64) as i64;
                Anchor { up, utc_ns: crystal.utc_ns(up) + off_ns, error_ns }
            })
            .collect();
        anchors.sort_by_key(|anchor| anchor.up);
        anchors
    })
}

fn anchored(anchors: Vec<Anchor>) -> Anchored {
    Anchored {
        anchors,
        suspends: Vec::new(),
        rate_ppb: 0,
        rate_error_ppb: 100_000,
        source: ClockSource::Ntp,
    }
}

fn first(up_ns: u64) -> FirstStamp {
    let up = Uptime::from_ns(up_ns);
    FirstStamp { up, wall_ns: up_ns as i64, state: ClockState::Unsynchronized, error_ns: None }
}

fn record(seq: u64, up_ns: u64, wall_less_up_ns: i64) -> Record {
    let at_ns = up_ns as i64 + wall_less_up_ns;
    let stamp = Stamp {
        uptime: Uptime::from_ns(up_ns),
        origin: Origin::Gateway,
        clock: ClockSource::Unknown,
        state: ClockState::Unsynchronized,
        ..readings::stamp(at_ns)
    };
    Record { stamp, ..readings::record("in", seq) }
}

proptest! {
    #[test]
    fn a_restamped_time_is_within_its_error_of_the_truth(
        (crystal, anchors) in crystals().prop_flat_map(|c| (Just(c), anchors(c))),
        up_ns in 0..7 * DAY_NS,
    ) {
        let retimed = anchored(anchors).retime(&first(up_ns));
        let truth_ns = crystal.utc_ns(Uptime::from_ns(up_ns));
        prop_assert!(retimed.is_restamped);
        prop_assert!(retimed.utc_ns.abs_diff(truth_ns) <= retimed.error_ns.unwrap());
    }

    #[test]
    fn time_goes_forward_within_a_boot(
        (_, anchors) in crystals().prop_flat_map(|c| (Just(c), anchors(c))),
        up_ns in 0..7 * DAY_NS,
        later_ns in 1_000_u64..DAY_NS,
    ) {
        let timeline = anchored(anchors);
        let before = timeline.retime(&first(up_ns)).utc_ns;
        let after = timeline.retime(&first(up_ns + later_ns)).utc_ns;
        prop_assert!(before < after, "{before} {after}");
    }

    #[test]
    fn the_error_never_shrinks_with_distance_from_the_anchor(
        anchor_up in 0..7 * DAY_NS,
        error_ns in 1_u64..1_000_000_000,
        near_ns in 0..DAY_NS,
        further_ns in 0..DAY_NS,
    ) {
        let anchor = Anchor { up: Uptime::from_ns(anchor_up), utc_ns: UTC_NS, error_ns };
        let timeline = anchored(vec![anchor]);
        let error_at = |up_ns| timeline.retime(&first(up_ns)).error_ns.unwrap();
        let near = error_at(anchor_up + near_ns);
        prop_assert!(near <= error_at(anchor_up + near_ns + further_ns));
        prop_assert!(near >= error_ns);
    }

    #[test]
    fn another_anchor_never_widens_the_bound(
        (_, anchors) in crystals().prop_flat_map(|c| (Just(c), anchors(c))),
        up_ns in 0..7 * DAY_NS,
    ) {
        let fewer = anchored(anchors[1..].to_vec());
        let more = anchored(anchors.clone());
        let error = |timeline: &Anchored| timeline.retime(&first(up_ns)).error_ns.unwrap();
        if anchors.len() > 1 {
            prop_assert!(error(&more) <= error(&fewer));
        }
    }

    #[test]
    fn a_seal_applied_twice_is_the_seal_applied_once(
        (_, anchors) in crystals().prop_flat_map(|c| (Just(c), anchors(c))),
        up_ns in 0..7 * DAY_NS,
    ) {
        let timelines = vec![(BootId([1; 16]), Timeline::Anchored(anchored(anchors)))];
        let seal = Seal { first: Offset(0), end: Offset(9), timelines };
        let mut once = record(1, up_ns, 0);
        seal.apply(&mut once);
        let mut twice = once.clone();
        seal.apply(&mut twice);
        prop_assert_eq!(&once, &twice);
        let as_read = EventTime::from_unix_ns(up_ns as i64);
        prop_assert_eq!(once.stamp.first_event_time, Some(as_read), "the first stamp is kept");
    }

    #[test]
    fn a_boot_between_known_ones_contains_the_truth(
        crystal in crystals(),
        uptimes in prop::collection::vec(1_000_000_000_u64..DAY_NS, 1..6),
        gaps in prop::collection::vec(0_u64..3_600_000_000_000, 7),
        at in any::<prop::sample::Index>(),
        part in 0.0_f64..1.0,
    ) {
        // Each boot takes its uptime, as its crystal counts it, after a pause.
        let taken = |up_ns: u64| crystal.utc_ns(Uptime::from_ns(up_ns)) - UTC_NS;
        let at = at.index(uptimes.len());
        let mut utc_ns = UTC_NS;
        let mut starts = Vec::new();
        for (up_ns, gap_ns) in uptimes.iter().zip(&gaps) {
            utc_ns += *gap_ns as i64;
            starts.push(utc_ns);
            utc_ns += taken(*up_ns);
        }
        let bounded = Bounded {
            after_ns: UTC_NS,
            uptime_before_ns: uptimes[..at].iter().sum(),
            before_ns: utc_ns + gaps[6] as i64,
            uptime_after_ns: uptimes[at..].iter().sum(),
            rate_error_ppb: 100_000,
            is_wall_plausible: false,
        };
        let up_ns = (uptimes[at] as f64 * part) as u64;
        let truth_ns = starts[at] + taken(up_ns);
        let retimed = bounded.retime(&first(up_ns));
        prop_assert!(retimed.utc_ns.abs_diff(truth_ns) <= retimed.error_ns.unwrap());
    }

    #[test]
    fn a_correction_brings_every_reading_of_its_stretch_within_its_error(
        (crystal, anchors) in crystals().prop_flat_map(|c| (Just(c), anchors(c))),
        start_ns in 0..6 * DAY_NS,
        readings in prop::collection::vec((0_u64..3_600_000_000_000, -2_000_000_i64..2_000_000), 1..20),
    ) {
        let mut sent: Vec<SentStretch> = Vec::new();
        let records: Vec<Record> = readings
            .iter()
            .zip(1..)
            .map(|((after_ns, slew_ns), seq)| record(seq, start_ns + after_ns, *slew_ns))
            .collect();
        for record in &records {
            correct::note(&mut sent, record);
        }
        for record in &records {
            prop_assert!(correct::is_noted(&sent, record), "what was noted is known");
        }
        prop_assert_eq!(sent.len(), 1, "one stretch");
        let timeline = Timeline::Anchored(anchored(anchors));
        let at = IngestTime::from_unix_ns(UTC_NS);
        let correction = sent[0].corrected(&timeline, at).unwrap();
        prop_assert_eq!((correction.first_seq.0, correction.last_seq.0), (1, records.len() as u64));
        for record in &records {
            let corrected = record.stamp.event_time + correction.shift;
            let off_ns = corrected.unix_ns().abs_diff(crystal.utc_ns(record.stamp.uptime));
            prop_assert!(MaxError::from_ns(off_ns) <= correction.max_error, "{off_ns} ns off");
        }
    }
}
