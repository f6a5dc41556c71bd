//! A clock that lies must not empty the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::core::id::{Epoch, Offset, SegmentId, Seq, SourceId};
use crate::core::seam::SourceRange;
use crate::core::time::IngestTime;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// 2026-11-30T00:00:00Z.
const TODAY: i64 = 1_795_996_800;

fn at(seconds: i64) -> EventTime {
    EventTime::from_unix_ns(seconds * 1_000_000_000)
}

fn now(wall_s: i64, mono_s: u64) -> Now {
    Now {
        wall: IngestTime::from_unix_ns(wall_s * 1_000_000_000),
        mono: MonoTime::from_ns(mono_s * 1_000_000_000),
        ..Now::default()
    }
}

/// Sealed segments of one source, by the newest event time of each.
fn segments(latest: &[i64]) -> Vec<SegmentInfo> {
    let segment = |(id, latest): (u32, &i64)| SegmentInfo {
        id: SegmentId(id),
        first: Offset(u64::from(id) * 10),
        next: Offset(u64::from(id) * 10 + 10),
        bytes: 1,
        ahead_bytes: 0,
        is_sealed: true,
        contents: Arc::new(BTreeMap::from([(
            (SourceId::new("plc"), Epoch::default()),
            SourceRange { first: Seq(1), last: Seq(9), earliest: at(0), latest: at(*latest) },
        )])),
    };
    (1..).zip(latest).map(segment).collect()
}

fn week() -> Expiry {
    Expiry::new(Some(Span::from_secs(7 * DAY)), at(TODAY - 400 * DAY))
}

fn too_old(expiry: &mut Expiry, now: &Now, state: ClockState, segments: &[SegmentInfo]) -> usize {
    let Some(limit) = expiry.limit(now, state, segments) else { return 0 };
    segments.iter().filter(|segment| expiry.is_expired(segment, limit)).count()
}

#[test]
fn readings_older_than_max_age_are_too_old() {
    let segments = segments(&[TODAY - 9 * DAY, TODAY - 8 * DAY, TODAY - 6 * DAY, TODAY]);
    let at_start = now(TODAY, 50);
    assert_eq!(too_old(&mut week(), &at_start, ClockState::Synchronized, &segments), 2);
    let mut never = Expiry::new(None, at(0));
    assert_eq!(too_old(&mut never, &at_start, ClockState::Synchronized, &segments), 0);
}

#[test]
fn they_become_so_while_the_agent_runs() {
    let segments = segments(&[TODAY - 6 * DAY, TODAY]);
    let mut expiry = week();
    let state = ClockState::Synchronized;
    assert_eq!(too_old(&mut expiry, &now(TODAY, 0), state, &segments), 0);
    let later = |days: i64| now(TODAY + days * DAY, (days * DAY) as u64);
    assert_eq!(too_old(&mut expiry, &later(1), state, &segments), 0, "not older: as old");
    assert_eq!(too_old(&mut expiry, &later(2), state, &segments), 1);
    assert_eq!(too_old(&mut expiry, &later(8), state, &segments), 2);
}

#[test]
fn a_clock_that_nobody_vouches_for_ages_nothing() {
    let segments = segments(&[TODAY - 90 * DAY, TODAY]);
    for state in [ClockState::Unsynchronized, ClockState::Stepped, ClockState::Holdover] {
        let mut expiry = week();
        assert_eq!(too_old(&mut expiry, &now(TODAY, 0), state, &segments), 0, "{state:?}");
        // Nor does it leave its word behind for the time when it is trusted.
        let again = too_old(&mut expiry, &now(TODAY, 9), ClockState::Synchronized, &segments);
        assert_eq!(again, 0, "the older lies before a leap");
    }
}

#[test]
fn a_clock_that_jumps_a_year_ahead_ages_nothing_even_when_it_is_vouched_for() {
    let segments = segments(&[TODAY - 6 * DAY, TODAY - DAY, TODAY]);
    let mut expiry = week();
    let state = ClockState::Synchronized;
    assert_eq!(too_old(&mut expiry, &now(TODAY, 0), state, &segments), 0);
    let a_year_on = now(TODAY + 365 * DAY, 60);
    assert_eq!(too_old(&mut expiry, &a_year_on, ClockState::Stepped, &segments), 0);
    assert_eq!(too_old(&mut expiry, &a_year_on, state, &segments), 0);
    // Not after a restart under the same clock either,
    assert_eq!(too_old(&mut week(), &a_year_on, state, &segments), 0);
    // nor with readings that it has stamped.
    let mut more = segments.clone();
    more.extend(self::segments(&[TODAY + 365 * DAY, TODAY + 366 * DAY]));
    assert_eq!(too_old(&mut week(), &now(TODAY + 366 * DAY, 0), state, &more), 0);
}

#[test]
fn a_clock_that_goes_back_takes_age_back() {
    let segments = segments(&[TODAY - 8 * DAY, TODAY - 2 * DAY]);
    let mut expiry = week();
    let state = ClockState::Synchronized;
    assert_eq!(too_old(&mut expiry, &now(TODAY - 2 * DAY, 0), state, &segments), 0);
    assert_eq!(too_old(&mut expiry, &now(TODAY, 3 * DAY as u64), state, &segments), 1);
    assert_eq!(too_old(&mut expiry, &now(TODAY - 30 * DAY, 3 * DAY as u64), state, &segments), 0);
}

#[test]
fn one_stamp_from_the_future_keeps_its_segment_and_no_other() {
    let segments = segments(&[TODAY - 8 * DAY, TODAY + 900 * DAY, TODAY - 3 * DAY, TODAY]);
    assert_eq!(too_old(&mut week(), &now(TODAY, 0), ClockState::Synchronized, &segments), 1);
}

#[test]
fn a_segment_without_readings_has_no_age() {
    let mut segments = segments(&[TODAY - 8 * DAY]);
    segments[0].contents = Arc::default();
    assert_eq!(too_old(&mut week(), &now(TODAY, 0), ClockState::Synchronized, &segments), 0);
}

#[test]
fn a_boot_in_1970_is_not_fifty_years_old() {
    let segments = segments(&[TODAY - 8 * DAY, 20, TODAY - 2 * DAY, TODAY]);
    assert_eq!(too_old(&mut week(), &now(TODAY, 0), ClockState::Synchronized, &segments), 1);
    let only = self::segments(&[20]);
    assert_eq!(too_old(&mut week(), &now(TODAY, 0), ClockState::Synchronized, &only), 0);
}
