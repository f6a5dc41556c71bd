//! A disk that somebody else fills: what is stored can still be given up, whatever
//! else the commit brings, however large it is, and after a restart.

use super::support::mount::Tmpfs;
use super::*;
use tidegate::store::quarantine;

const SEGMENT_BYTES: u64 = 1024 * 1024;

fn options(dir: &Path) -> Options {
    Options {
        data_dir: dir.to_path_buf(),
        segment_bytes: SEGMENT_BYTES,
        quota_bytes: 1 << 30,
        probe_free: tidegate::host::disk::free_bytes,
    }
}

fn open_small(dir: &Path) -> Writer {
    let (store, recovered) = Store::open(&options(dir)).unwrap();
    Writer::of(store, recovered, 31)
}

/// A journal of several segments on a file system of its own.
fn several(dir: &Path, test: &str) -> Option<(Writer, Tmpfs)> {
    let disk = Tmpfs::mount(dir, 32, test)?;
    let mut writer = open_small(dir);
    while writer.store.segments().len() < 3 {
        writer.commit(4_000);
    }
    Some((writer, disk))
}

/// Gives up the oldest segment, as an eviction does; whether there is room then.
fn gives_up_the_oldest(writer: &mut Writer) {
    let oldest = writer.store.segments()[0].clone();
    let before = writer.store.disk().free_bytes;
    writer.meta.start = oldest.next;
    writer.commit(3);
    let after = writer.store.remove(oldest.id);
    assert!(after.free_bytes >= before + SEGMENT_BYTES / 2, "{before} {after:?}");
}

fn refusal(n: usize) -> Refusal {
    Refusal {
        source: SourceId::new("plc"),
        at: IngestTime::from_unix_ns(n as i64),
        kind: "syntax",
        reason: "expected a value".to_owned(),
        length: 4,
        content: b"oops".to_vec(),
        reading: None,
    }
}

#[test]
fn a_refused_line_holds_up_no_eviction() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut writer, disk)) = several(dir.path(), "a refused line") else { return };
    writer.refusals = vec![refusal(1)];
    writer.commit(5);
    let filler = disk.fill();
    writer.refusals = vec![refusal(2), refusal(3)];
    writer.commit(20);
    let (count, why) = writer.store.take_refusals_dropped().unwrap();
    assert_eq!(count, 2);
    assert!(
        why.starts_with("only ") && why.ends_with(" bytes are free on the file system"),
        "{why}"
    );
    writer.refusals.clear();
    gives_up_the_oldest(&mut writer);
    assert_eq!(writer.store.take_refusals_dropped(), None);
    drop(filler);
    writer.refusals = vec![refusal(4)];
    writer.commit(20);
    let totals = writer.store.refusals().totals().unwrap();
    assert_eq!((totals.next - totals.oldest, totals.dropped), (2, 2));
    writer.store.close();
    let totals = quarantine::open(dir.path()).totals().unwrap();
    assert_eq!((totals.next - totals.oldest, totals.dropped), (2, 2));
}

#[test]
fn the_largest_commit_that_was_on_its_way_comes_through() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut writer, disk)) = several(dir.path(), "a large commit") else { return };
    let _filler = disk.fill();
    writer.commit(8_192);
    gives_up_the_oldest(&mut writer);
}

#[test]
fn a_journal_that_was_closed_opens_on_a_full_disk_and_gives_up_its_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let Some((writer, disk)) = several(dir.path(), "a restart") else { return };
    writer.store.close();
    let _filler = disk.fill();
    let mut writer = open_small(dir.path());
    gives_up_the_oldest(&mut writer);
}

#[test]
fn where_nothing_can_be_begun_the_segment_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut writer, disk)) = several(dir.path(), "no new segment") else { return };
    // Filled and drained by somebody else all the time: never enough for a new one.
    let filler = disk.fill();
    let count = writer.store.segments().len();
    let (begun, next) = (writer.store.segments()[count - 1].id, writer.next);
    for _ in 0..5 {
        writer.commit(500);
    }
    assert_eq!(writer.store.segments()[count - 1].id, begun);
    drop(filler);
    let (seen, damaged) = read_all(&mut writer.store, writer.next);
    assert_eq!((seen.len() as u64, damaged), (next.0 + 2_500, vec![]));
}

#[test]
fn a_quarantine_that_cannot_be_written_costs_only_what_it_should_have_kept() {
    let dir = tempfile::tempdir().unwrap();
    // A file where its folder should be.
    fs::write(dir.path().join("state"), b"").unwrap();
    let mut writer = open_small(dir.path());
    writer.refusals = vec![refusal(1)];
    writer.commit(7);
    let (count, why) = writer.store.take_refusals_dropped().unwrap();
    assert_eq!(count, 1);
    assert!(why.contains(&dir.path().join("state").display().to_string()), "{why}");
    assert_eq!(read_all(&mut writer.store, writer.next).0.len(), 7);
    assert_eq!(writer.store.refusals().totals().unwrap().dropped, 1);
}
