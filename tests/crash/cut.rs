//! A commit that the power cut off: some of it reached the disk, the rest did not.

use std::ops::Range;

use super::*;

/// A folder's copy in which only the first `kept` bytes of what came after `before`
/// reached the log of its newest segment.
fn cut(before: &Path, after: &Path, log: &str, kept: usize) -> tempfile::TempDir {
    let dir = in_memory();
    copy_folder(after, dir.path());
    let (old, new) = (fs::read(before.join(log)).unwrap(), fs::read(after.join(log)).unwrap());
    let mut bytes = new[..kept.min(new.len())].to_vec();
    bytes.extend(old.get(kept..).unwrap_or_default());
    // The file had grown before its new end was written.
    bytes.resize(new.len().max(old.len()), 0);
    fs::write(dir.path().join(log), bytes).unwrap();
    // The note is not synced: it is as it was, or it is empty.
    fs::write(dir.path().join(log.replace("/db", ".note")), b"").unwrap();
    dir
}

/// A folder's copy in which a stretch of what came after `before` never reached the log of
/// its newest segment, though what lies behind it did.
fn holed(before: &Path, after: &Path, log: &str, hole: Range<usize>) -> tempfile::TempDir {
    let dir = in_memory();
    copy_folder(after, dir.path());
    let (old, mut bytes) =
        (fs::read(before.join(log)).unwrap(), fs::read(after.join(log)).unwrap());
    for at in hole {
        bytes[at] = old.get(at).copied().unwrap_or(0);
    }
    fs::write(dir.path().join(log), bytes).unwrap();
    fs::write(dir.path().join(log.replace("/db", ".note")), b"").unwrap();
    dir
}

/// Where the new bytes of a log begin, and where they end.
fn grown(before: &Path, after: &Path, log: &str) -> (usize, usize) {
    let (old, new) = (fs::read(before.join(log)).unwrap(), fs::read(after.join(log)).unwrap());
    let differs = |at: &usize| old.get(*at) != Some(&new[*at]);
    let last = (0..new.len()).rev().find(|at| new[*at] != 0).unwrap();
    ((0..new.len()).find(differs).unwrap(), last + 1)
}

#[test]
fn a_commit_that_was_cut_off_never_happened() {
    cut_off_after(40);
}

#[test]
fn nor_did_one_that_was_cut_off_behind_places_for_its_frames() {
    // Six frames: the store expects as many, and has their keys already.
    cut_off_after(1_500);
}

/// Cuts off the second of two commits at many places; the first is of that many readings.
fn cut_off_after(first: u64) {
    let dir = in_memory();
    let log = "journal/000001/db";
    let (before, after) = (in_memory(), in_memory());
    let mut writer = Writer::open(dir.path(), 21);
    writer.commit(first);
    copy_folder(dir.path(), before.path());
    let (meta, next) = (writer.meta.clone(), writer.next);
    // So many series that some cuts fall among their names.
    writer.commit_of(1_500, 700);
    copy_folder(dir.path(), after.path());
    let (meta_after, next_after) = (writer.meta.clone(), writer.next);

    let (begin, end) = grown(before.path(), after.path(), log);
    let steps = 40;
    let mut whole = 0;
    for step in 0..=steps {
        let kept = begin + (end - begin) * step / steps;
        let cut = cut(before.path(), after.path(), log, kept);
        let (mut store, recovered) = open(cut.path());
        let what = format!("cut at {kept} of {begin}..{end}");
        assert_eq!((&recovered.damaged, &recovered.broken_numbering), (&vec![], &None), "{what}");
        let is_whole = recovered.next == next_after;
        whole += u32::from(is_whole);
        let (meta, next) = if is_whole { (&meta_after, next_after) } else { (&meta, next) };
        assert_eq!((recovered.next, recovered.meta.as_ref()), (next, Some(meta)), "{what}");
        let (seen, damaged) = read_all(&mut store, recovered.next);
        assert_eq!((seen.len() as u64, damaged), (next.0, vec![]), "{what}");
        // The same names, given to other readings, and not one of the old ones among them.
        let mut writer = Writer::of(store, recovered, 1_000 + step as u64);
        writer.commit_of(900, 300);
        let (meta, next) = (writer.meta.clone(), writer.next);
        drop(writer);
        let (mut store, recovered) = open(cut.path());
        assert_eq!((recovered.next, recovered.meta), (next, Some(meta)), "{what}");
        let (seen, damaged) = read_all(&mut store, next);
        assert_eq!((seen.len() as u64, damaged), (next.0, vec![]), "{what}");
    }
    assert!((1..steps as u32).contains(&whole), "{whole} of {steps} cuts left it whole");
}

#[test]
fn a_commit_of_which_a_block_in_the_middle_is_missing_never_happened() {
    // One block, several, and into the next of sled's pieces of 512 KiB. What is longer is
    // synced on the way.
    let sizes = [(1_500, 5), (1_500, 300), (1_500, 6_000), (14_000, 8_000)];
    for (first, count) in sizes {
        let dir = in_memory();
        let log = "journal/000001/db";
        let (before, after) = (in_memory(), in_memory());
        let (store, recovered) = open_with(dir.path(), 1 << 30);
        let mut writer = Writer::of(store, recovered, count);
        writer.commit_of(first, 300);
        copy_folder(dir.path(), before.path());
        let (meta, next) = (writer.meta.clone(), writer.next);
        writer.commit(count);
        copy_folder(dir.path(), after.path());
        let (meta_after, next_after) = (writer.meta.clone(), writer.next);
        let (begin, end) = grown(before.path(), after.path(), log);
        let mut whole = 0;
        let steps = 24;
        for step in 0..steps {
            let sector = (begin + (end - begin) * step / steps) / 512 * 512;
            let hole = sector.max(begin)..(sector + 512).min(end);
            let what = format!("{count} readings, without {hole:?} of {begin}..{end}");
            let holed = holed(before.path(), after.path(), log, hole);
            let (mut store, recovered) = open_with(holed.path(), 1 << 30);
            let is_whole = recovered.next == next_after;
            whole += u32::from(is_whole);
            let (meta, next) = if is_whole { (&meta_after, next_after) } else { (&meta, next) };
            let has_meta = recovered.meta.as_ref() == Some(meta);
            assert_eq!((recovered.next, has_meta), (next, true), "{what}");
            let (seen, damaged) = read_all(&mut store, recovered.next);
            assert_eq!((seen.len() as u64, damaged), (next.0, vec![]), "{what}");
        }
        assert!(whole < steps as u32 / 4, "{whole} of {steps} of {count} readings");
    }
}
