//! The journal alone: mixed readings in commits of 4,096, written and synced, then
//! read back. One line per figure; `cargo bench --bench store [-- READINGS [A_COMMIT]]`.
#![expect(clippy::print_stdout, reason = "its output is the table")]
#![expect(clippy::unwrap_used, reason = "a failing benchmark may stop")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::sync::Arc;
use std::time::Instant;

use tidegate::core::id::{CommitId, Epoch, Offset, Seq, SourceId, UplinkId};
use tidegate::core::limits::SEGMENT_BYTES_DEFAULT;
use tidegate::core::reading::{Entry, Record, Series, Stamp, Value};
use tidegate::core::seam::{Commit, Fetch, Lane, Meta, Purpose, SourceMeta};
use tidegate::core::time::{IngestTime, MaxError, Uptime};
use tidegate::store::{Options, Store};

#[path = "../tests/support/readings.rs"]
mod readings;

const COMMIT: u64 = 4_096;
const SERIES: u64 = 100;
/// What a reading takes one after the other without columns: names, times,
/// value (measured for the journal's design).
const RAW_BYTES: u64 = 80;

/// Mixed: most values with one or two decimals, some counters, states, and
/// full-precision numbers; 100 series polled every 100 ms with jitter.
fn reading(n: u64, source: &SourceId, series: &[Arc<Series>], epoch: Epoch) -> Entry {
    let place = n % SERIES;
    let noise = (n ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let at = 1_796_000_523_000_000_000 + (n / SERIES * 100 + noise % 3) as i64 * 1_000_000;
    let ingest = 1_796_000_523_000_000_000 + (n / SERIES) as i64 * 100_000_000 + 2_345_678;
    let value = match place % 10 {
        0 => Value::Bool(noise.is_multiple_of(50)),
        1 | 2 => Value::I64((n / SERIES) as i64 + place as i64 * 1_000),
        3 => Value::F64((noise as f64).sqrt()),
        4 => Value::Text(if noise.is_multiple_of(40) { "STOP".into() } else { "RUN".into() }),
        _ => Value::F64((noise % 20_000) as f64 / 100.0),
    };
    Entry::Reading(Record {
        source: source.clone(),
        epoch,
        series: Arc::clone(&series[place as usize]),
        value,
        stamp: Stamp {
            ingest_time: IngestTime::from_unix_ns(ingest),
            uptime: Uptime::from_ns((ingest - 1_796_000_000_000_000_000) as u64),
            max_error: Some(MaxError::from_ns(11_000_000 + n / SERIES * 50_000)),
            ..readings::stamp(at)
        },
        ..readings::record("", n + 1)
    })
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let count: u64 = numbers.next().unwrap_or(1_000_000);
    let a_commit: u64 = numbers.next().unwrap_or(COMMIT);
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        data_dir: dir.path().to_path_buf(),
        segment_bytes: SEGMENT_BYTES_DEFAULT,
        quota_bytes: 1 << 30,
        probe_free: |_| u64::MAX,
    };
    let (mut store, _) = Store::open(&options).unwrap();
    let source = SourceId::new("plc");
    let epoch = Epoch { number: 1, nonce: 1 };
    let named = |n: u64| Series {
        entity: format!("pump-{}", n / 4).into(),
        property: format!("property_{}", n % 4).into(),
        unit: Some("kPa".into()),
    };
    let series: Vec<Arc<Series>> = (0..SERIES).map(|n| Arc::new(named(n))).collect();
    let mut writing = std::time::Duration::ZERO;
    let mut slowest = std::time::Duration::ZERO;
    let mut at = 0;
    while at < count {
        let end = (at + a_commit).min(count);
        let books = SourceMeta { tail: Seq(end), accepted: end, ..SourceMeta::default() };
        let commit = Commit {
            id: CommitId(1 + at / a_commit),
            first: Offset(at),
            entries: Arc::new((at..end).map(|n| reading(n, &source, &series, epoch)).collect()),
            refusals: Vec::new(),
            meta: Meta { epoch, sources: [(source.clone(), books)].into(), ..Meta::default() },
        };
        let start = Instant::now();
        store.commit(&commit).unwrap();
        let took = start.elapsed();
        writing += took;
        slowest = slowest.max(took);
        at = end;
    }
    let disk = store.disk();
    println!("readings            {count}, {a_commit} a commit");
    println!("written and synced  {:.0} readings/s", count as f64 / writing.as_secs_f64());
    println!("slowest commit      {:.1} ms", slowest.as_secs_f64() * 1e3);
    println!("on disk             {:.1} bytes/reading", disk.used_bytes as f64 / count as f64);
    println!("frames and meta     {:.1} bytes/reading", disk.written_bytes as f64 / count as f64);
    println!("raw                 {RAW_BYTES} bytes/reading");
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    if let Some(bytes) = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")) {
        let bytes: f64 = bytes.parse().unwrap();
        println!("written to disk     {:.1} bytes/reading", bytes / count as f64);
    }
    let start = Instant::now();
    let (mut from, mut read) = (Offset(0), 0);
    while from.0 < count {
        let fetch = Fetch {
            purpose: Purpose::Forward(UplinkId(0), Lane::Live),
            from,
            entries_max: 1_024,
            bytes_max: 1 << 20,
        };
        let fetched = store.fetch(&fetch);
        read += fetched.entries.len();
        from = fetched.next;
    }
    println!("read back           {:.0} readings/s", read as f64 / start.elapsed().as_secs_f64());
    store.close();
    let start = Instant::now();
    let (_store, recovered) = Store::open(&options).unwrap();
    println!("opened again in     {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    assert_eq!((read as u64, recovered.next.0), (count, count));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) {
        println!("peak resident       {}", peak.trim());
    }
}
