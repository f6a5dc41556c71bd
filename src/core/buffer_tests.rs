//! Space: what is said of it, and what must go.

use super::*;

fn buffer(quota_bytes: u64, reserve_bytes: u64, when_full: WhenFull) -> Buffer {
    let bounds = Bounds { quota_bytes, reserve_bytes, when_full };
    Buffer::new(bounds, segments(), DiskFacts::default(), Offset(0))
}

/// A sealed one and the active one.
fn segments() -> Vec<SegmentInfo> {
    let segment = |id: u32, is_sealed| SegmentInfo {
        id: SegmentId(id),
        first: Offset(u64::from(id) * 10),
        next: Offset(u64::from(id) * 10 + 10),
        bytes: 1,
        ahead_bytes: 0,
        is_sealed,
        contents: Default::default(),
    };
    vec![segment(0, true), segment(1, false)]
}

fn disk(used_bytes: u64, free_bytes: u64) -> DiskFacts {
    DiskFacts { used_bytes, free_bytes, written_bytes: 0 }
}

#[test]
fn running_full_is_said_once_and_again_only_after_it_has_emptied() {
    let mut buffer = buffer(1_000, 0, WhenFull::DropOldest);
    let mut said = Vec::new();
    for used in [500, 799, 800, 900, 750, 820, 700, 699, 790, 801] {
        buffer.set_disk(disk(used, 1 << 40));
        said.extend(buffer.judge_fill().map(|is_filling| (used, is_filling)));
    }
    assert_eq!(said, [(800, true), (699, false), (801, true)]);
}

#[test]
fn a_file_system_with_less_than_the_quota_is_the_bound() {
    let mut buffer = buffer(1_000, 100, WhenFull::DropOldest);
    buffer.set_disk(disk(400, 150));
    assert_eq!(buffer.capacity(), 450);
    assert_eq!(buffer.judge_fill(), Some(true));
    buffer.set_disk(disk(400, 2_000));
    assert_eq!(buffer.capacity(), 1_000);
    assert_eq!(buffer.judge_fill(), Some(false));
}

#[test]
fn what_has_expired_goes_whatever_the_space_and_the_active_segment_stays() {
    for when_full in [WhenFull::DropOldest, WhenFull::DropNewest, WhenFull::Block] {
        let mut buffer = buffer(1_000, 0, when_full);
        buffer.set_disk(disk(10, 1 << 40));
        assert_eq!(buffer.to_evict(|_| false), None);
        assert_eq!(buffer.to_evict(|_| true).map(|segment| segment.id), Some(SegmentId(0)));
        assert_eq!(buffer.started_at(Offset(10)), [SegmentId(0)]);
        assert_eq!(buffer.to_evict(|_| true), None);
    }
}

#[test]
fn what_an_entry_takes_is_known_once_a_segment_holds_enough() {
    let segment = |entries: u64, bytes: u64, ahead_bytes: u64| SegmentInfo {
        next: Offset(10 + entries),
        bytes,
        ahead_bytes,
        ..segments().remove(1)
    };
    let mut buffer = buffer(1 << 30, 0, WhenFull::DropOldest);
    // 60 entries, 12 KiB of which are the segment's own, 4 MiB ahead.
    buffer.set_segments(vec![segment(60, 18_000 + (4 << 20), 4 << 20)]);
    assert_eq!(buffer.entry_bytes(), None);
    buffer.set_segments(vec![segment(3_000, 300_000 + (4 << 20), 4 << 20), segment(1, 12_000, 0)]);
    assert_eq!(buffer.entry_bytes(), Some(100.0));
    // Drained, and begun anew: what was measured still holds.
    buffer.set_segments(vec![segment(1, 12_000, 0)]);
    assert_eq!(buffer.entry_bytes(), Some(100.0));
}

#[test]
fn what_is_not_yet_on_the_disk_counts_against_the_quota() {
    let mut buffer = buffer(14_000_000, 0, WhenFull::DropOldest);
    // What an entry takes is not known.
    buffer.set_disk(disk(12_499_999, 1 << 40));
    assert_eq!(buffer.admission(1_000_000), Admission::Open);
    buffer.set_disk(disk(12_500_000, 1 << 40));
    assert_eq!(buffer.admission(0), Admission::Wait);
    // It is 100 bytes.
    buffer.set_segments(vec![SegmentInfo {
        next: Offset(3_010),
        bytes: 300_000,
        ..segments().remove(1)
    }]);
    assert_eq!(buffer.admission(4_999), Admission::Open);
    assert_eq!(buffer.admission(5_000), Admission::Wait);
}
