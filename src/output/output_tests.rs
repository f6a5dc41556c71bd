//! Outputs as consumers see them: a file, sockets, a broker of a few lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::reading::Series;
use crate::core::time::{EventTime, IngestTime, TimebaseId};
use crate::core::window::{Coverage, ResultStatus};
use crate::mqtt::Login;

/// A result of the window `w` that ends after so many seconds.
pub(super) fn result(entity: &str, seq: u64, end_s: i64) -> WindowResult {
    WindowResult {
        source: SourceId::new("window:w"),
        epoch: Epoch { number: 1, nonce: 7 },
        seq: Seq(seq),
        window: "w".into(),
        version: 1,
        series: Arc::new(Series { entity: entity.into(), property: "p".into(), unit: None }),
        start: EventTime::from_unix_ns((end_s - 10) * 1_000_000_000),
        end: EventTime::from_unix_ns(end_s * 1_000_000_000),
        timebase: TimebaseId(0),
        revision: 1,
        status: ResultStatus::Final,
        count: 1,
        values: vec![],
        watermark: None,
        coverage: Coverage::default(),
        at: IngestTime::from_unix_ns(0),
    }
}

pub(super) fn item_of(result: WindowResult) -> Item {
    Item::new(&"gw".into(), Content::Result(Arc::new(result)))
}

fn item(seq: u64) -> Item {
    item_of(result("e", seq, 10))
}

fn settings(kind: OutputKind) -> OutputSettings {
    OutputSettings { gateway: "gw".into(), kind, windows: Vec::new(), order: None }
}

fn seqs(lines: &[u8]) -> Vec<u64> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let value = |line| serde_json::from_slice::<serde_json::Value>(line).unwrap();
    lines.map(|line| value(line)["seq"].as_u64().unwrap()).collect()
}

async fn until(handle: &OutputHandle, is_so: impl Fn(&OutputFacts) -> bool) -> OutputFacts {
    let wait = async {
        loop {
            let facts = handle.facts();
            if is_so(&facts) {
                return facts;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), wait).await.unwrap()
}

#[tokio::test]
async fn a_file_gets_a_line_for_each_result_of_its_windows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    let kind = OutputKind::Jsonl { path: path.clone() };
    let handle = spawn(OutputSettings { windows: vec!["w".into()], ..settings(kind) });
    (1..=600).for_each(|seq| handle.offer(&item(seq)));
    let other = WindowResult { window: "other".into(), ..result("e", 9, 10) };
    handle.offer(&item_of(other));
    handle.stop().await;
    assert_eq!(seqs(&std::fs::read(path).unwrap()), (1..=600).collect::<Vec<_>>());
}

#[tokio::test]
async fn while_the_disk_refuses_the_oldest_are_dropped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("later");
    let handle = spawn(settings(OutputKind::Jsonl { path: folder.join("r.jsonl") }));
    handle.offer(&item(1));
    let facts = until(&handle, |facts| facts.failures > 0).await;
    assert!(facts.failing.unwrap().contains("r.jsonl: No such file"));
    let last = QUEUE_MAX as u64 + 11;
    (2..=last).for_each(|seq| handle.offer(&item(seq)));
    std::fs::create_dir(&folder).unwrap();
    let facts = until(&handle, |facts| facts.written == QUEUE_MAX as u64 + 1).await;
    assert_eq!((facts.dropped, facts.failing), (10, None));
    let written = seqs(&std::fs::read(folder.join("r.jsonl")).unwrap());
    assert_eq!(written[..3], [1, 12, 13]);
    assert_eq!((written.len(), written.last()), (QUEUE_MAX + 1, Some(&last)));
}

fn lines(stream: impl std::io::Read, count: usize) -> Vec<u64> {
    let lines = BufReader::new(stream).lines().take(count);
    seqs(lines.map(|line| line.unwrap() + "\n").collect::<String>().as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_gets_what_comes_after_it_connected() {
    let address = SocketAddress::Tcp("127.0.0.1:0".parse().unwrap());
    let handle = spawn(settings(OutputKind::Socket { address }));
    let address = handle.local_addr().await.unwrap();
    let first = TcpStream::connect(address).unwrap();
    until(&handle, |facts| facts.clients == 1).await;
    handle.offer(&item(1));
    until(&handle, |facts| facts.written == 1).await;
    let second = TcpStream::connect(address).unwrap();
    until(&handle, |facts| facts.clients == 2).await;
    handle.offer(&item(2));
    let read = tokio::task::spawn_blocking(move || (lines(first, 2), lines(second, 1)));
    assert_eq!(read.await.unwrap(), (vec![1, 2], vec![2]));
    // Both streams are closed now.
    until(&handle, |facts| facts.clients == 0).await;
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_cut_off_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.sock");
    // Left behind by a dead process.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let address = SocketAddress::Unix(path.clone());
    let handle = spawn(settings(OutputKind::Socket { address }));
    let connect = || {
        let path = path.clone();
        async move {
            loop {
                match std::os::unix::net::UnixStream::connect(&path) {
                    Ok(stream) => return stream,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        }
    };
    let (mut slow, good) = (connect().await, connect().await);
    until(&handle, |facts| facts.clients == 2).await;
    let reader = tokio::task::spawn_blocking(move || {
        let (mut all, mut good) = (Vec::new(), good);
        good.read_to_end(&mut all).unwrap();
        seqs(&all)
    });
    let mut seq = 0;
    while handle.facts().slow_clients == 0 {
        seq += 1;
        handle.offer(&item(seq));
        // At the pace of the good client: nothing is dropped before it.
        until(&handle, |facts| facts.written == seq).await;
        if seq.is_multiple_of(64) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    handle.stop().await;
    assert_eq!(reader.await.unwrap(), (1..=seq).collect::<Vec<_>>());
    let mut some = Vec::new();
    slow.read_to_end(&mut some).unwrap();
    assert!(some.iter().filter(|byte| **byte == b'\n').count() < seq as usize);
    assert!(!path.exists());
}

/// One MQTT 3.1.1 packet: its first byte and its body.
fn packet(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut byte = [0];
    stream.read_exact(&mut byte).ok()?;
    let kind = byte[0];
    let (mut length, mut shift) = (0, 0);
    loop {
        stream.read_exact(&mut byte).ok()?;
        length |= usize::from(byte[0] & 0x7f) << shift;
        shift += 7;
        if byte[0] & 0x80 == 0 {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((kind, body))
}

/// Accepts one connection and acknowledges publishes until a DISCONNECT or until
/// it has `most`, which it leaves unacknowledged: first byte, topic, payload.
fn serve(listener: &TcpListener, most: usize) -> Vec<(u8, String, Vec<u8>)> {
    serve_but(listener, most, "")
}

/// As [`serve`], of a broker that ends the connection over one topic.
fn serve_but(listener: &TcpListener, most: usize, topic_not: &str) -> Vec<(u8, String, Vec<u8>)> {
    let (mut stream, _) = listener.accept().unwrap();
    let mut got = Vec::new();
    while let Some((kind, body)) = packet(&mut stream) {
        match kind >> 4 {
            1 => stream.write_all(&[0x20, 2, 0, 0]).unwrap(),
            3 => {
                let length = usize::from(u16::from_be_bytes([body[0], body[1]]));
                let topic = String::from_utf8(body[2..2 + length].to_vec()).unwrap();
                if topic == topic_not {
                    // Closed with bytes unread it would be reset, and what was
                    // acknowledged before might not arrive.
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                    let _ = stream.read_to_end(&mut Vec::new());
                    break;
                }
                got.push((kind, topic, body[4 + length..].to_vec()));
                if got.len() == most {
                    break;
                }
                stream.write_all(&[0x40, 2, body[2 + length], body[3 + length]]).unwrap();
            }
            14 => break,
            _ => {}
        }
    }
    got
}

fn on_site(listener: &TcpListener) -> OutputSettings {
    settings(OutputKind::Mqtt(Broker {
        host: "127.0.0.1".into(),
        port: listener.local_addr().unwrap().port(),
        client_id: "on-site".into(),
        path: None,
        login: Login::default(),
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_the_broker_hangs_up_over_is_given_up_and_the_rest_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let handle = spawn(on_site(&listener));
    for (seq, entity) in [(1, "a"), (2, "bad"), (3, "c")] {
        handle.offer(&item_of(result(entity, seq, 10)));
    }
    let broker = tokio::task::spawn_blocking(move || {
        let bad = "tidegate/gw/windows/w/bad/p";
        let refusing = (0..3).flat_map(|_| serve_but(&listener, usize::MAX, bad));
        let taken: Vec<_> = refusing.collect();
        (taken, serve_but(&listener, usize::MAX, bad))
    });
    let facts = until(&handle, |facts| facts.written == 2 && facts.failing.is_none()).await;
    assert_eq!((facts.dropped, facts.failures), (1, 3));
    handle.stop().await;
    let (before, after) = broker.await.unwrap();
    let topics = |got: &[(u8, String, Vec<u8>)]| -> Vec<String> {
        got.iter().map(|(_, topic, _)| topic.rsplit('/').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!((topics(&before), topics(&after)), (vec!["a".to_owned()], vec!["c".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_takes_connections_and_ends_them_is_no_good_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let handle = spawn(on_site(&listener));
    let broker = tokio::task::spawn_blocking(move || {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            packet(&mut stream).unwrap();
            stream.write_all(&[0x20, 2, 0, 0]).unwrap();
        }
        serve(&listener, usize::MAX)
    });
    until(&handle, |facts| facts.failures == 3).await;
    assert!(handle.facts().failing.is_some());
    handle.offer(&item_of(result("a", 1, 10)));
    until(&handle, |facts| facts.written == 1 && facts.failing.is_none()).await;
    handle.stop().await;
    assert_eq!(broker.await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_on_site_keeps_the_newest_result_of_each_series() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let on_site = on_site(&listener);
    let broker = tokio::task::spawn_blocking(move || {
        let lost = serve(&listener, 1);
        (lost, serve(&listener, usize::MAX))
    });
    let handle = spawn(on_site);
    handle.offer(&item_of(result("a", 1, 10)));
    // The first connection is cut with the publish unacknowledged.
    until(&handle, |facts| facts.failures > 0).await;
    handle.offer(&item_of(result("b", 2, 20)));
    until(&handle, |facts| facts.written == 2 && facts.failing.is_none()).await;
    handle.offer(&item_of(result("b", 3, 10)));
    until(&handle, |facts| facts.written == 3).await;
    handle.stop().await;
    let (lost, got) = broker.await.unwrap();
    assert_eq!(lost.len(), 1);
    let said: Vec<(u8, &str, Vec<u64>)> =
        got.iter().map(|(kind, topic, payload)| (kind & 7, &topic[..], seqs(payload))).collect();
    let (a, b) = ("tidegate/gw/windows/w/a/p", "tidegate/gw/windows/w/b/p");
    // QoS 1, retained; the revision of an older window is not.
    assert_eq!(said, [(3, a, vec![1]), (3, b, vec![2]), (2, b, vec![3])]);
}
