//! What is posted: the routes and a source of type `http` between a client and a
//! driver of the test's own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use tidegate::config::{Config, Source};
use tidegate::core::limits::PUSH_REQUESTS_MAX;
use tidegate::core::reading::Arrival;
use tidegate::core::seam::Outcome;
use tidegate::core::time::{IngestTime, Span, Uptime};
use tidegate::http::metrics::Metrics;
use tidegate::http::token::Token;
use tidegate::shell::ingest::{self, Doors};
use tidegate::source::{SourceHandle, SourceMessage, spawn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// No fact that these tests wait for takes so long.
async fn soon<T>(fact: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), fact).await.unwrap()
}

fn source(name: &str, keys: &str) -> Source {
    let text = format!(
        "[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n\
         [[source]]\nname = '{name}'\ntype = 'http'\n{keys}\n"
    );
    Config::parse(&text, Path::new("t.toml")).unwrap().sources.remove(0)
}

struct Rig {
    folder: tempfile::TempDir,
    doors: Doors,
    handles: Vec<SourceHandle>,
    messages: mpsc::Receiver<SourceMessage>,
    stop: watch::Sender<bool>,
}

impl Rig {
    fn new(sources: &[Source]) -> Self {
        Self::guarded(sources, |router| router)
    }

    fn guarded(sources: &[Source], guard: impl FnOnce(Router) -> Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (out, messages) = mpsc::channel(32);
        let (stop, stopped) = watch::channel(false);
        let arrival = Arrival {
            ingest: IngestTime::from_unix_ns(7),
            uptime: Uptime::from_ns(8),
            half_round_trip: Span::ZERO,
        };
        let start = |source: &Source| {
            let clock: tidegate::source::ArrivalClock = Arc::new(move || arrival);
            spawn(source, out.clone(), clock, stopped.clone()).unwrap()
        };
        let handles: Vec<SourceHandle> = sources.iter().map(start).collect();
        let doors = Doors::default();
        let pushes = handles.iter().filter_map(|handle| {
            Some((handle.name.to_string(), Arc::clone(handle.push.as_ref()?)))
        });
        doors.open(pushes);
        let listener = tokio::net::UnixListener::bind(folder.path().join("s")).unwrap();
        let app = guard(ingest::router(doors.clone()));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { folder, doors, handles, messages, stop }
    }

    /// A request of which nothing is answered yet.
    async fn send(&self, head: &str, body: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(self.folder.path().join("s")).await.unwrap();
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.unwrap();
        // A refused body may be left unread.
        let _ = stream.write_all(body).await;
        stream
    }

    async fn begin(&self, query: &str, headers: &str, body: &[u8]) -> UnixStream {
        let length = body.len();
        let head = format!(
            "POST /api/v1/readings{query} HTTP/1.0\r\nHost: t\r\nContent-Length: {length}{headers}"
        );
        self.send(&head, body).await
    }

    async fn post(&self, query: &str, headers: &str, body: &[u8]) -> (u16, Value, String) {
        answer(self.begin(query, headers, body).await).await
    }

    /// Answers one batch.
    async fn settle(&mut self, outcome: Outcome) -> SourceMessage {
        let mut message = soon(self.messages.recv()).await.unwrap();
        message.receipt.take().unwrap().send(outcome).unwrap();
        message
    }
}

/// Status, body and head of an answer.
async fn answer(mut stream: UnixStream) -> (u16, Value, String) {
    let mut text = String::new();
    soon(stream.read_to_string(&mut text)).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default(), head.to_ascii_lowercase())
}

const GOOD: &[u8] = b"{\"entity\":\"e\",\"property\":\"p\",\"value\":1}\n";

fn error(status: u16, text: &str) -> (u16, Value) {
    (status, json!({"accepted":0,"lines":0,"refused":0,"faults":[],"error":text}))
}

async fn refused(rig: &Rig, (query, headers): (&str, &str), body: &[u8], expected: (u16, Value)) {
    let (status, said, _) = rig.post(query, headers, body).await;
    assert_eq!((status, said), expected);
}

#[tokio::test]
async fn the_answer_comes_after_the_commit_and_not_before() {
    let mut rig = Rig::new(&[source("push", "")]);
    let stream = rig.begin("?source=push&format=json", "", &GOOD.repeat(2)).await;
    let mut message = soon(rig.messages.recv()).await.unwrap();
    assert_eq!(message.batch.readings.len(), 2);
    let nothing = stream.try_read(&mut [0; 8]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    message.receipt.take().unwrap().send(Outcome::Durable).unwrap();
    let (status, said, head) = answer(stream).await;
    assert_eq!((status, said), (200, json!({"accepted":2,"lines":2,"refused":0,"faults":[]})));
    assert!(head.contains("content-type: application/json"), "{head}");
}

#[tokio::test]
async fn bad_lines_are_named_and_the_good_ones_taken() {
    let mut rig = Rig::new(&[source("push", "format = 'influx'\nentity = '{measurement}'")]);
    let stream = rig.begin("", "", b"m v=1 5\nm v=\n\nm v=\"a\nb\"\nm w=2i\nx").await;
    let batch = rig.settle(Outcome::Durable).await.batch;
    assert_eq!((batch.readings.len(), batch.refused.len()), (3, 2));
    let (status, said, _) = answer(stream).await;
    let faults = json!([
        {"line":2,"reason":"the field \"v\" has no value"},
        {"line":7,"reason":"the line ends before its fields"},
    ]);
    assert_eq!(status, 400);
    assert_eq!(said, json!({"accepted":3,"lines":7,"refused":2,"faults":faults}));
    // The other format by the query; the template is not one of its entities.
    let stream = rig.begin("?format=json", "", b"{\"property\":\"p\",\"value\":1}").await;
    rig.settle(Outcome::Durable).await;
    assert_eq!(answer(stream).await.1["faults"][0]["reason"], "the line names no entity");
}

#[tokio::test]
async fn a_long_body_is_settled_in_order_up_to_the_first_batch_that_finds_no_room() {
    let mut rig = Rig::new(&[source("push", "")]);
    let body = [b"broken\n".repeat(200), GOOD.repeat(1_400)].concat();
    let stream = rig.begin("", "", &body).await;
    rig.settle(Outcome::Durable).await;
    rig.settle(Outcome::Full).await;
    rig.settle(Outcome::Durable).await;
    rig.settle(Outcome::Durable).await;
    let (status, said, head) = answer(stream).await;
    assert_eq!((status, &said["lines"], &said["accepted"]), (429, &json!(512), &json!(312)));
    assert_eq!(said["error"], "the buffer is full");
    assert_eq!(said["faults"].as_array().unwrap().len(), 100);
    assert_eq!(said["refused"], 200);
    assert!(head.contains("retry-after: 5"), "{head}");
}

#[tokio::test]
async fn an_agent_that_stops_says_that_it_does_not_know() {
    let mut rig = Rig::new(&[source("push", "")]);
    let stream = rig.begin("", "", GOOD).await;
    drop(soon(rig.messages.recv()).await.unwrap());
    let (status, said, head) = answer(stream).await;
    assert_eq!((status, &said["lines"]), (503, &json!(0)));
    assert!(head.contains("retry-after: "), "{head}");
    rig.stop.send(true).unwrap();
    let handle = rig.handles.remove(0);
    soon(handle.join).await.unwrap();
    refused(&rig, ("", ""), GOOD, error(503, "the source is stopping")).await;
}

#[tokio::test]
async fn requests_beyond_the_bound_come_again() {
    let mut rig = Rig::new(&[source("push", "")]);
    let (mut waiting, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..PUSH_REQUESTS_MAX {
        waiting.push(rig.begin("", "", GOOD).await);
        // It has its slot.
        kept.push(soon(rig.messages.recv()).await.unwrap());
    }
    refused(&rig, ("", ""), GOOD, error(429, "too many requests at once")).await;
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused_by_name() {
    let rig = Rig::new(&[source("a", "max_body = '1KiB'"), source("b", "")]);
    let long = GOOD.repeat(30);
    let too_long = "the body has more than 1024 bytes (max_body): send it in parts";
    refused(&rig, ("?source=a", ""), &long, error(413, too_long)).await;
    let mut chunked = format!("{:x}\r\n", long.len()).into_bytes();
    chunked.extend_from_slice(&long);
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    let head = "POST /api/v1/readings?source=a HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\
                Transfer-Encoding: chunked";
    let (status, said, _) = answer(rig.send(head, &chunked).await).await;
    assert_eq!((status, said), error(413, too_long));
    let cases = [
        ("", "", 400, "say which source: ?source=NAME, one of [\"a\", \"b\"]"),
        ("?source=c", "", 404, "source: there is no \"c\" of type http; known: [\"a\", \"b\"]"),
        ("?source=a&format=xml", "", 400, "format: \"xml\" is not known; use json or influx"),
        ("?fmt=json", "", 400, "fmt=json: unknown; known here: source, format"),
        (
            "?source=a",
            "\r\nContent-Encoding: gzip",
            415,
            "content-encoding \"gzip\" is not taken; send the body as it is",
        ),
        (
            "?source=a",
            "\r\nContent-Type: text/html; charset=utf-8",
            415,
            "content-type \"text/html; charset=utf-8\" is not taken; use text/plain, or none",
        ),
    ];
    for (query, headers, status, text) in cases {
        refused(&rig, (query, headers), GOOD, error(status, text)).await;
    }
    rig.doors.open([]);
    refused(&rig, ("", ""), GOOD, error(404, "no source of type http is configured")).await;
}

#[tokio::test]
async fn without_the_token_nothing_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "0123456789abcdef\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, mode).unwrap();
    let token = Token::read(&path).unwrap();
    let mut rig = Rig::guarded(&[source("push", "")], |router| {
        token.guard(router, Arc::new(Metrics::new(Vec::new())))
    });
    for headers in ["", "\r\nAuthorization: Bearer 0123456789abcdeX", "\r\nAuthorization: Basic x"]
    {
        let (status, _, head) = rig.post("", headers, GOOD).await;
        assert_eq!(status, 401);
        assert!(head.contains("www-authenticate: bearer"), "{head}");
    }
    let stream = rig.begin("", "\r\nAuthorization: bearer 0123456789abcdef", GOOD).await;
    rig.settle(Outcome::Durable).await;
    assert_eq!(answer(stream).await.0, 200);
}
