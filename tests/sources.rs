//! The sources against scripted peers.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::config::{Config, Source};
use tidegate::core::limits::LISTEN_CONNECTIONS_MAX;
use tidegate::core::reading::{Arrival, Reading, Value};
use tidegate::core::seam::Outcome;
use tidegate::core::time::{IngestTime, Span, Uptime};
use tidegate::source::health::HealthState;
use tidegate::source::parse::Parser;
use tidegate::source::parse::json::JsonParser;
use tidegate::source::simulate::Plc;
use tidegate::source::{SourceHandle, SourceMessage, spawn, spawn_reader};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// No fact that these tests wait for takes so long.
async fn soon<T>(fact: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), fact).await.expect("deadline")
}

/// Comes back when it is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn source(keys: &str) -> Source {
    let text = format!(
        "[gateway]\nid = 'g'\ndata_dir = '/d'\n[clock]\nhold_unsynchronized = '0s'\n[[uplink]]\nurl = 'mqtt://b'\n\
         [[source]]\nname = 's'\n{keys}\n"
    );
    Config::parse(&text, Path::new("t.toml")).unwrap().sources.remove(0)
}

fn listen(address: &str, more: &str) -> Source {
    source(&format!(
        "type = 'listen'\naddress = '{address}'\nacknowledge = true\nentity = 'e'\n{more}\n\
         [source.map]\nvalues = ''"
    ))
}

/// A running source and the driver's end of it.
struct Rig {
    handle: SourceHandle,
    messages: mpsc::Receiver<SourceMessage>,
    stop: watch::Sender<bool>,
}

fn clock() -> tidegate::source::ArrivalClock {
    Arc::new(|| Arrival {
        ingest: IngestTime::from_unix_ns(1_000),
        uptime: Uptime::from_ns(5),
        half_round_trip: Span::ZERO,
    })
}

fn start(source: &Source) -> Rig {
    let (out, messages) = mpsc::channel(32);
    let (stop, stopped) = watch::channel(false);
    Rig { handle: spawn(source, out, clock(), stopped).unwrap(), messages, stop }
}

impl Rig {
    async fn connect(&self) -> TcpStream {
        soon(TcpStream::connect(self.handle.local_addr.unwrap())).await.unwrap()
    }

    /// Takes messages until they hold so many readings and refusals.
    async fn take(&mut self, inputs: usize) -> Vec<SourceMessage> {
        let (mut taken, mut count) = (Vec::new(), 0);
        while count < inputs {
            let message: SourceMessage = soon(self.messages.recv()).await.unwrap();
            count += message.batch.readings.len() + message.batch.refused.len();
            taken.push(message);
        }
        assert_eq!(count, inputs);
        taken
    }

    async fn stop(self) {
        self.stop.send(true).unwrap();
        soon(self.handle.join).await.unwrap();
    }
}

fn settle(messages: Vec<SourceMessage>, outcome: Outcome) {
    for message in messages {
        message.receipt.unwrap().send(outcome).unwrap();
    }
}

/// Reads answers until one says `last`; none may count backwards.
async fn answers_until(peer: &mut (impl AsyncRead + Unpin), last: &str) {
    let mut lines = BufReader::new(peer).lines();
    let mut acked = 0;
    loop {
        let line = soon(lines.next_line()).await.unwrap().expect("closed before the answer");
        if line == last {
            return;
        }
        let digits = line.strip_prefix("{\"acked\":").and_then(|rest| rest.strip_suffix('}'));
        let next: u64 = digits.unwrap_or_else(|| panic!("odd answer {line}")).parse().unwrap();
        assert!(next >= acked, "{next} after {acked}");
        acked = next;
    }
}

/// Four lines there and their acknowledgement back.
async fn talk(rig: &mut Rig, peer: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    soon(peer.write_all(b"{\"n\":1}\n\nbroken\n{\"n\":2}\n")).await.unwrap();
    let messages = rig.take(3).await;
    let inputs: usize = messages.iter().map(|message| message.batch.refused.len()).sum();
    assert_eq!(inputs, 1);
    settle(messages, Outcome::Durable);
    answers_until(peer, "{\"acked\":4}").await;
}

#[tokio::test]
async fn lines_over_tcp_are_acknowledged_blank_and_refused_ones_included() {
    let mut rig = start(&listen("127.0.0.1:0", ""));
    let mut peer = rig.connect().await;
    talk(&mut rig, &mut peer).await;
    assert_eq!(rig.handle.health.lines(), 4);
    assert_eq!(rig.handle.health.refused(), 1);
    assert_eq!(rig.handle.health.connections(), 1);
    rig.stop().await;
    assert_eq!(soon(peer.read(&mut [0; 8])).await.unwrap(), 0);
}

#[tokio::test]
async fn a_stale_unix_socket_is_replaced_and_removed_at_the_stop() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("in.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let source = listen(&format!("unix:{}", path.display()), "");
    let mut rig = start(&source);
    let mut peer = soon(UnixStream::connect(&path)).await.unwrap();
    talk(&mut rig, &mut peer).await;
    // While it is in use, nobody takes it away.
    let (out, _messages) = mpsc::channel(1);
    let error = spawn(&source, out, clock(), watch::channel(false).1).unwrap_err();
    let shown = path.display();
    let expected =
        format!("source s: cannot listen on unix:{shown}: another process listens there");
    assert_eq!(error.to_string(), expected);
    rig.stop().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn nothing_is_acknowledged_before_it_is_durable_and_then_in_order() {
    let mut rig = start(&listen("127.0.0.1:0", ""));
    let mut peer = rig.connect().await;
    soon(peer.write_all(b"{\"n\":1}\n")).await.unwrap();
    let first = rig.take(1).await;
    soon(peer.write_all(b"{\"n\":2}\n")).await.unwrap();
    let second = rig.take(1).await;
    settle(second, Outcome::Durable);
    // The second is durable, the first is not: there is nothing to say yet, and
    // another connection that is served meanwhile shows that time has passed.
    let mut other = rig.connect().await;
    talk(&mut rig, &mut other).await;
    let error = peer.try_read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    settle(first, Outcome::Durable);
    answers_until(&mut peer, "{\"acked\":2}").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_full_buffer_is_said_with_what_was_acknowledged_and_closes() {
    let mut rig = start(&listen("127.0.0.1:0", ""));
    let mut peer = rig.connect().await;
    soon(peer.write_all(b"{\"n\":1}\n")).await.unwrap();
    settle(rig.take(1).await, Outcome::Durable);
    answers_until(&mut peer, "{\"acked\":1}").await;
    soon(peer.write_all(b"{\"n\":2}\n")).await.unwrap();
    settle(rig.take(1).await, Outcome::Full);
    let mut rest = String::new();
    soon(peer.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "{\"error\":\"full\",\"acked\":1}\n");
    // Another connection starts from nothing.
    let mut again = rig.connect().await;
    soon(again.write_all(b"{\"n\":2}\n")).await.unwrap();
    settle(rig.take(1).await, Outcome::Durable);
    answers_until(&mut again, "{\"acked\":1}").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_driver_that_drops_a_receipt_closes_the_connection_without_an_answer() {
    let mut rig = start(&listen("127.0.0.1:0", ""));
    let mut peer = rig.connect().await;
    soon(peer.write_all(b"{\"n\":1}\n")).await.unwrap();
    drop(rig.take(1).await);
    let mut rest = String::new();
    soon(peer.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "");
    rig.stop().await;
}

#[tokio::test]
async fn a_silent_peer_and_a_deaf_peer_do_not_stall_another() {
    let mut rig = start(&listen("127.0.0.1:0", "queue_max = 4"));
    let mut silent = rig.connect().await;
    soon(silent.write_all(b"{\"half\":")).await.unwrap();
    let mut deaf = rig.connect().await;
    soon(deaf.write_all("{\"n\":0}\n".repeat(100).as_bytes())).await.unwrap();
    // Its bound of four lines is used up; the receipts are kept back.
    let kept = rig.take(4).await;
    let mut peer = rig.connect().await;
    talk(&mut rig, &mut peer).await;
    drop(kept);
    rig.stop().await;
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let mut rig = start(&listen("127.0.0.1:0", ""));
    let mut open = Vec::new();
    for _ in 0..LISTEN_CONNECTIONS_MAX {
        open.push(rig.connect().await);
    }
    let mut last = rig.connect().await;
    let mut said = String::new();
    soon(last.read_to_string(&mut said)).await.unwrap();
    assert_eq!(said, "{\"error\":\"too_many_connections\",\"acked\":0}\n");
    let expected = format!("more than {LISTEN_CONNECTIONS_MAX} connections");
    assert_eq!(rig.handle.health.last_error(), Some(expected));
    let view = rig.handle.health.view();
    let told = "all 64 connections are taken: more are refused until one ends";
    assert_eq!((view.state, view.detail.as_deref()), (HealthState::Degraded, Some(told)));
    drop(open.pop());
    let is_up = || rig.handle.health.view().state == HealthState::Up;
    soon(until(is_up)).await;
    talk(&mut rig, &mut open[0]).await;
    rig.stop().await;
}

/// Whether the kernel runs a keep-alive timer for the connection from `local` to
/// `remote`, as /proc/net/tcp tells it.
fn is_watched(local: u16, remote: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ends = (format!(":{local:04X}"), format!(":{remote:04X}"));
    let connection =
        |fields: &Vec<&str>| fields[1].ends_with(&ends.0) && fields[2].ends_with(&ends.1);
    let mut all = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    all.find(connection).is_some_and(|fields| fields[5].starts_with("02:"))
}

#[tokio::test]
async fn the_kernel_asks_after_a_silent_sender() {
    let rig = start(&listen("127.0.0.1:0", ""));
    let peer = rig.connect().await;
    let port = rig.handle.local_addr.unwrap().port();
    soon(until(|| is_watched(port, peer.local_addr().unwrap().port()))).await;
    rig.stop().await;
}

#[tokio::test]
async fn nothing_of_http_is_taken_for_lines() {
    let mut rig = start(&listen("127.0.0.1:0", ""));
    let long = format!("POST /{} HTTP/1.1\r\n\r\n{{\"n\":1}}\n", "a".repeat(2 << 20));
    let body = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\n{\"n\":1}\n";
    for request in [body, &long] {
        let mut peer = rig.connect().await;
        // It may be closed before it has sent all of it.
        let _ = soon(peer.write_all(request.as_bytes())).await;
        let mut said = String::new();
        let _ = soon(peer.read_to_string(&mut said)).await;
        if request == body {
            let expected = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n\
                            Content-Length: 62\r\nConnection: close\r\n\r\n\
                            {\"error\":\"this is HTTP: use a source of type http\",\"acked\":0}\n";
            assert_eq!(said, expected);
        }
    }
    let told = "a peer spoke HTTP and was turned away: that needs a source of type http";
    assert_eq!(rig.handle.health.view().detail.as_deref(), Some(told));
    assert_eq!((rig.handle.health.lines(), rig.handle.health.view().errors), (0, 2));
    let mut peer = rig.connect().await;
    talk(&mut rig, &mut peer).await;
    rig.stop().await;
}

#[tokio::test]
async fn the_stop_takes_no_more_lines_and_answers_for_those_that_are_out() {
    let mut rig = start(&listen("127.0.0.1:0", ""));
    let mut peer = rig.connect().await;
    soon(peer.write_all(b"{\"n\":1}\n{\"n\":2")).await.unwrap();
    let out = rig.take(1).await;
    rig.stop.send(true).unwrap();
    assert!(!rig.handle.join.is_finished());
    settle(out, Outcome::Durable);
    let mut rest = String::new();
    soon(peer.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "{\"acked\":1}\n");
    soon(rig.handle.join).await.unwrap();
    assert!(soon(rig.messages.recv()).await.is_none());
}

#[tokio::test]
async fn a_peer_that_closes_its_sending_side_still_gets_its_answers() {
    let mut rig = start(&listen("127.0.0.1:0", ""));
    let mut peer = rig.connect().await;
    // The last line has no end.
    soon(peer.write_all(b"{\"n\":1}\n{\"n\":2}")).await.unwrap();
    soon(peer.shutdown()).await.unwrap();
    settle(rig.take(2).await, Outcome::Durable);
    answers_until(&mut peer, "{\"acked\":2}").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_line_of_many_readings_is_never_torn_over_two_batches() {
    let keys = "type = 'stdin'\nentity = 'e'\n[source.map]\nvalues = ''";
    let line = |count: usize| {
        let members: Vec<String> = (0..count).map(|i| format!("\"p{i}\":{i}")).collect();
        format!("{{{}}}\n", members.join(","))
    };
    let stream = [line(300), line(300), line(512), line(513), line(1)].concat();
    let (out, mut messages) = mpsc::channel(32);
    let (_stop, stopped) = watch::channel(false);
    let reader = std::io::Cursor::new(stream);
    let handle = spawn_reader(&source(keys), reader, out, clock(), stopped);
    let mut sizes = Vec::new();
    while let Some(message) = soon(messages.recv()).await {
        sizes.push((message.batch.readings.len(), message.batch.refused.len()));
    }
    assert_eq!(sizes, [(300, 0), (300, 0), (512, 0), (1, 1)]);
    soon(handle.join).await.unwrap();
    assert_eq!(handle.health.lines(), 5);
    assert_eq!(handle.health.connections(), 0);
}

#[tokio::test]
async fn a_stopped_reader_ends_although_its_stream_goes_on() {
    let (mut writer, reader) = tokio::io::duplex(64);
    let (out, messages) = mpsc::channel(32);
    let (stop, stopped) = watch::channel(false);
    let handle =
        spawn_reader(&source("type = 'stdin'\nentity = 'e'"), reader, out, clock(), stopped);
    let mut rig = Rig { handle, messages, stop };
    soon(writer.write_all(b"{\"property\":\"p\",\"value\":1}\n")).await.unwrap();
    let taken = rig.take(1).await;
    assert!(taken[0].receipt.is_none());
    rig.stop().await;
}

#[tokio::test]
async fn a_simulated_plc_sends_its_count_and_ends() {
    let mut rig = start(&source("type = 'simulate'\nrate = 100000\ncount = 1000\nrepeat = 0.5"));
    let messages = rig.take(1000).await;
    assert!(soon(rig.messages.recv()).await.is_none());
    soon(rig.handle.join).await.unwrap();
    let readings: Vec<Reading> =
        messages.into_iter().flat_map(|message| message.batch.readings).collect();
    let mut distinct: Vec<&str> =
        readings.iter().map(|reading| reading.id.as_deref().unwrap()).collect();
    distinct.dedup();
    assert!((600..800).contains(&distinct.len()), "{} are distinct", distinct.len());
    let expected: Vec<String> = (1..=distinct.len()).map(|i| i.to_string()).collect();
    assert_eq!(distinct, expected);
    for pair in readings.windows(2).filter(|pair| pair[0].id == pair[1].id) {
        assert_eq!(pair[0], pair[1]);
    }
}

#[test]
fn the_same_seed_gives_the_same_samples() {
    let samples = |seed| {
        let mut plc = Plc::new(seed, 2, Span::from_secs(3), 0.1);
        (0..500).map(|_| plc.next()).collect::<Vec<_>>()
    };
    assert_eq!(samples(7), samples(7));
    assert_ne!(samples(7), samples(8));
    let ages = samples(7).into_iter().map(|sample| sample.age);
    assert!(ages.clone().all(|age| age >= Span::ZERO && age <= Span::from_secs(3)));
    assert!(ages.clone().any(|age| age > Span::from_secs(2)));
    let repeats = samples(7).iter().filter(|sample| sample.is_repeat).count();
    assert!((20..80).contains(&repeats), "{repeats} repeats");
}

#[test]
fn a_plc_reports_every_property_of_every_machine_in_turn() {
    let mut plc = Plc::new(1, 2, Span::ZERO, 0.0);
    let names: Vec<String> = (0..9)
        .map(|_| plc.next())
        .map(|sample| format!("{}/{}", sample.series.entity, sample.series.property))
        .collect();
    let expected = [
        "plc-1/pressure_kpa",
        "plc-1/temp_c",
        "plc-1/parts",
        "plc-1/running",
        "plc-2/pressure_kpa",
        "plc-2/temp_c",
        "plc-2/parts",
        "plc-2/running",
        "plc-1/pressure_kpa",
    ];
    assert_eq!(names, expected);
}

fn parser() -> JsonParser {
    JsonParser::new(&source("type = 'stdin'\nentity = 'e'\n[source.map]\nvalues = ''"))
}

fn value_of(line: &str) -> Option<Value> {
    let mut readings = Vec::new();
    parser().parse(line, &mut readings).ok()?;
    assert_eq!(readings.len(), 1);
    readings.pop().map(|reading| reading.value)
}

/// What a source of an example says of a line that the example quotes.
fn example(file: &str, source: &str, line: &str) -> Vec<Reading> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(&format!("# {line}")), "{file} quotes another line");
    let config = Config::parse(&text, &path).unwrap();
    let source = config.sources.iter().find(|one| one.name == source).unwrap();
    let mut readings = Vec::new();
    Parser::new(source, source.format).parse(line, &mut readings).unwrap();
    readings
}

#[test]
fn the_examples_understand_the_lines_that_they_quote() {
    let shown = |readings: Vec<Reading>| -> Vec<String> {
        let shown = |reading: Reading| {
            let unit = reading.series.unit.as_deref().unwrap_or_default().to_owned();
            let (series, value) = (&reading.series, &reading.value);
            format!("{} {} {value:?} {unit} {:?}", series.entity, series.property, reading.quality)
        };
        readings.into_iter().map(shown).collect()
    };
    let line = "cpu,host=press-pc,cpu=cpu0 usage_user=12.5";
    for source in ["telegraf", "telegraf-http"] {
        let readings = example("telegraf.toml", source, line);
        assert_eq!(shown(readings), ["press-pc/cpu usage_user F64(12.5)  Good"]);
    }
    let line = r#"{"station":"weir-2","at":"2026-11-30 01:02:03","level_m":1.52,"flow":0.31,"state":"OK"}"#;
    let readings = example("logger.toml", "weirs", line);
    let time = readings[0].device_time.unwrap();
    assert_eq!((time.at.unix_ns(), time.utc_offset_s), (1_796_000_523_000_000_000, None));
    assert_eq!(
        shown(readings),
        ["weir-2 level_m F64(1.52) m Good", "weir-2 flow_m3s F64(0.31) m3/s Good"]
    );
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(line in "\\PC*|[\\[\\]{}\":,0-9eE.\\\\u-]*") {
        let mut readings = Vec::new();
        let result = parser().parse(&line, &mut readings);
        prop_assert_eq!(result.is_ok(), !readings.is_empty());
    }

    #[test]
    fn any_bytes_pass_a_source(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64
            + u64::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
        runtime.block_on(async {
            let (out, mut messages) = mpsc::channel(1024);
            let (_stop, stopped) = watch::channel(false);
            let reader = std::io::Cursor::new(bytes);
            let source = source("type = 'stdin'\nmax_line = '64B'");
            let handle = spawn_reader(&source, reader, out, clock(), stopped);
            while messages.recv().await.is_some() {}
            handle.join.await.unwrap();
            assert_eq!(handle.health.lines(), lines);
        });
    }

    #[test]
    fn every_signed_integer_keeps_its_digits(number: i64) {
        prop_assert_eq!(value_of(&format!("{{\"n\":{number}}}")), Some(Value::I64(number)));
    }

    #[test]
    fn every_unsigned_integer_keeps_its_digits(number: u64) {
        let expected = i64::try_from(number).map_or(Value::U64(number), Value::I64);
        prop_assert_eq!(value_of(&format!("{{\"n\":{number}}}")), Some(expected));
    }

    #[test]
    fn every_finite_number_keeps_its_value(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
        prop_assert_eq!(value_of(&format!("{{\"n\":{number:?}}}")), Some(Value::F64(number)));
    }
}
