//! Both routes of a running router.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::super::api::{Request, router};
use super::super::metrics::Metrics;
use super::super::metrics::tests::report;
use super::*;
use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::reading::Series;
use crate::core::time::{EventTime, IngestTime, TimebaseId};
use crate::core::window::{Coverage, ResultStatus};

pub(crate) fn result(window: &str, entity: &str, seq: u64) -> Arc<WindowResult> {
    Arc::new(WindowResult {
        source: SourceId::of_window(window),
        epoch: Epoch { number: 1, nonce: 7 },
        seq: Seq(seq),
        window: window.into(),
        version: 1,
        series: Arc::new(Series { entity: entity.into(), property: "p".into(), unit: None }),
        start: EventTime::from_unix_ns(0),
        end: EventTime::from_unix_ns(10_000_000_000),
        timebase: TimebaseId(0),
        revision: 1,
        status: ResultStatus::Final,
        count: 1,
        values: vec![],
        watermark: None,
        coverage: Coverage::default(),
        at: IngestTime::from_unix_ns(0),
    })
}

fn written(result: &WindowResult) -> String {
    let mut out = Vec::new();
    json::window_result("gw", result, &mut out);
    String::from_utf8(out).unwrap()
}

/// A server on a socket of its own, and a driver that has one report.
struct Server {
    folder: tempfile::TempDir,
    tasks: [JoinHandle<()>; 2],
}

impl Server {
    fn start(results: Results) -> Self {
        let (requests, mut inbox) = mpsc::channel(1);
        let driver = tokio::spawn(async move {
            while let Some(Request::Report(answer)) = inbox.recv().await {
                let _ = answer.send(Arc::new(report()));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        let app = router(Api {
            requests,
            metrics: Arc::new(Metrics::new(vec!["main".to_owned()])),
            results,
        });
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { folder, tasks: [driver, server] }
    }

    async fn get(&self, path: &str) -> UnixStream {
        let mut stream = UnixStream::connect(self.folder.path().join("s")).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nHost: t\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn answer(&self, path: &str) -> (String, String) {
        let mut answer = String::new();
        self.get(path).await.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_ascii_lowercase(), body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[tokio::test]
async fn the_newest_result_of_each_series_is_there_newest_first() {
    let results = Results::new("gw");
    let server = Server::start(results.clone());
    assert_eq!(server.answer("/api/v1/windows").await.1, "[]");
    let (a, b, c) = (result("w", "a", 1), result("w", "b", 2), result("x", "a", 1));
    let newer_a = result("w", "a", 3);
    for result in [&a, &b, &c, &newer_a] {
        results.push(Arc::clone(result));
    }
    let all = format!("[{},{},{}]", written(&newer_a), written(&c), written(&b));
    let (head, body) = server.answer("/api/v1/windows").await;
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(body, all);
    assert_eq!(server.answer("/api/v1/windows?window=x").await.1, format!("[{}]", written(&c)));
    assert_eq!(server.answer("/api/v1/windows?window=%78").await.1, format!("[{}]", written(&c)));
    assert_eq!(server.answer("/api/v1/windows?window=none").await.1, "[]");
    for bad in ["windw=x", "window=x&window=x", "history=2", "history", "window=x&"] {
        let (head, body) = server.answer(&format!("/api/v1/windows?{bad}")).await;
        assert!(head.starts_with("http/1.0 400"), "{bad}: {head}");
        assert_eq!(body, "the parameters there are, each once: window=NAME and history=1\n");
    }
}

#[tokio::test]
async fn the_history_is_there_series_by_series_the_oldest_first() {
    let results = Results::new("gw");
    let server = Server::start(results.clone());
    assert_eq!(server.answer("/api/v1/windows?history=1").await.1, "[]");
    let ended = |window: &str, entity: &str, end_s: i64| {
        let end = EventTime::from_unix_ns(end_s * 1_000_000_000);
        Arc::new(WindowResult { end, ..(*result(window, entity, 1)).clone() })
    };
    let all = [ended("w", "a", 20), ended("w", "b", 10), ended("w", "a", 10), ended("x", "a", 10)];
    all.iter().for_each(|result| results.push(Arc::clone(result)));
    let [later_a, b, a, x] = all.each_ref().map(|result| written(result));
    let (head, body) = server.answer("/api/v1/windows?history=1").await;
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(body, format!("[{a},{later_a},{b},{x}]"));
    for query in ["window=x&history=1", "history=1&window=x"] {
        assert_eq!(server.answer(&format!("/api/v1/windows?{query}")).await.1, format!("[{x}]"));
    }
}

/// The next event of a stream: its name and its data.
async fn event(stream: &mut BufReader<UnixStream>) -> (String, String) {
    let (mut name, mut data) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).await.unwrap(), 0, "the stream ended");
        let line = line.trim_end_matches('\n');
        if let Some(text) = line.strip_prefix("event: ") {
            name = text.to_owned();
        } else if let Some(text) = line.strip_prefix("data: ") {
            data = text.to_owned();
        } else if line.is_empty() && !name.is_empty() {
            return (name, data);
        }
    }
}

/// The next event that is no `status`: those come whenever a second is over.
async fn told(stream: &mut BufReader<UnixStream>) -> (String, String) {
    loop {
        let event = event(stream).await;
        if event.0 != "status" {
            return event;
        }
    }
}

/// Follows the stream up to its first `status`: from then on nothing is missed.
async fn follow(server: &Server) -> BufReader<UnixStream> {
    let mut stream = BufReader::new(server.get("/api/v1/stream").await);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
    }
    let (name, data) = event(&mut stream).await;
    assert_eq!((name, data), ("status".into(), serde_json::to_string(&report()).unwrap()));
    stream
}

#[tokio::test]
async fn every_follower_gets_every_result_as_an_event() {
    let results = Results::new("gw");
    let server = Server::start(results.clone());
    let mut streams = [follow(&server).await, follow(&server).await];
    let (a, b) = (result("w", "a", 1), result("w", "b", 2));
    results.push(Arc::clone(&a));
    results.push(Arc::clone(&b));
    for stream in &mut streams {
        assert_eq!(told(stream).await, ("window".into(), written(&a)));
        assert_eq!(told(stream).await, ("window".into(), written(&b)));
    }
}

#[tokio::test]
async fn a_follower_that_does_not_read_learns_how_many_it_missed() {
    // Nothing runs between two pushes: one thread.
    let results = Results::with_room("gw", 4);
    let server = Server::start(results.clone());
    let mut stream = follow(&server).await;
    (1..=10).for_each(|seq| results.push(result("w", "a", seq)));
    assert_eq!(told(&mut stream).await, ("lagged".into(), r#"{"missed":6}"#.into()));
    for seq in 7..=10 {
        assert_eq!(told(&mut stream).await.1, written(&result("w", "a", seq)));
    }
}

#[tokio::test]
async fn one_follower_too_many_is_told_so() {
    let results = Results::new("gw");
    let server = Server::start(results.clone());
    let _all = Arc::clone(&results.shared.places).acquire_many_owned(32).await.unwrap();
    let (head, body) = server.answer("/api/v1/stream").await;
    assert!(head.starts_with("http/1.0 503"), "{head}");
    assert_eq!(body, "32 clients follow already\n");
}

#[test]
fn what_was_said_is_counted_by_window_and_status() {
    let results = Results::new("gw");
    let say = |window: &str, revision: u32, status: ResultStatus| {
        let said = result(window, "a", 1);
        results.push(Arc::new(WindowResult { revision, status, ..(*said).clone() }));
    };
    say("w", 1, ResultStatus::Provisional);
    say("w", 2, ResultStatus::Provisional);
    say("w", 2, ResultStatus::Final);
    say("w", 1, ResultStatus::Provisional);
    say("w", 1, ResultStatus::Final);
    say("runs", 2, ResultStatus::Retracted);
    let w = ResultCounts { provisional: 3, finals: 2, refined: 1, ..ResultCounts::default() };
    let runs = ResultCounts { retracted: 1, ..ResultCounts::default() };
    let expected = BTreeMap::from([("runs".to_owned(), runs), ("w".to_owned(), w)]);
    assert_eq!(results.counts(), expected);
}
