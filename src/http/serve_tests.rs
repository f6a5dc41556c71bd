//! Clients that take their time, in memory: time passes when nobody does anything.

use axum::body::Body;
use axum::routing::get;
use futures_util::stream::repeat_with;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::*;

const REQUEST: &[u8] = b"GET /short HTTP/1.1\r\nHost: t\r\n\r\n";

/// Hands out connections in memory.
struct Door(mpsc::Receiver<DuplexStream>);

impl Listener for Door {
    type Io = DuplexStream;
    type Addr = ();

    async fn accept(&mut self) -> (DuplexStream, ()) {
        match self.0.recv().await {
            Some(io) => (io, ()),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone)]
struct Street(mpsc::Sender<DuplexStream>);

impl Street {
    fn new() -> Self {
        let (out, connections) = mpsc::channel(1_000);
        let endless = || repeat_with(|| Ok::<_, Infallible>(vec![b'x'; 4_096]));
        let app = Router::new()
            .route("/short", get(async || "short"))
            .route("/endless", get(async move || Body::from_stream(endless())));
        tokio::spawn(serve(Door(connections), app));
        Self(out)
    }

    async fn connect(&self) -> DuplexStream {
        let (ours, theirs) = duplex(64 * 1024);
        self.0.send(theirs).await.unwrap();
        ours
    }
}

async fn all(mut stream: DuplexStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// The first answer on a connection that stays open.
async fn first(stream: &mut DuplexStream) -> String {
    let mut text = String::new();
    while !text.ends_with("short") {
        text.push(char::from(stream.read_u8().await.unwrap()));
    }
    text
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_drop_by_drop_is_not_waited_for() {
    let mut stream = Street::new().connect().await;
    let begun = tokio::time::Instant::now();
    // A drop a second: each of them would move a timer of idleness.
    let mut drops = b"GET /short HTTP/1.1\r\nHost: t\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaa".iter();
    while let Some(drop) = drops.next().filter(|_| begun.elapsed() < 3 * HEAD_WITHIN) {
        sleep(Duration::from_secs(1)).await;
        if stream.write_all(&[*drop]).await.is_err() {
            break;
        }
    }
    assert!(begun.elapsed() < HEAD_WITHIN + Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_gives_its_place_back() {
    let mut stream = Street::new().connect().await;
    stream.write_all(REQUEST).await.unwrap();
    assert!(first(&mut stream).await.starts_with("HTTP/1.1 200"));
    let answered = tokio::time::Instant::now();
    assert_eq!(all(stream).await, "");
    assert_eq!(answered.elapsed().as_secs(), HEAD_WITHIN.as_secs());
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_let_go() {
    let street = Street::new();
    let mut stream = street.connect().await;
    let begun = tokio::time::Instant::now();
    stream.write_all(b"GET /endless HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
    sleep(READ_WITHIN + Duration::from_secs(1)).await;
    // What was on its way is there; then comes the end of what has no end.
    assert!(all(stream).await.len() <= 64 * 1024);
    assert_eq!(begun.elapsed().as_secs(), READ_WITHIN.as_secs() + 1);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_a_client_waits_for_a_place() {
    let street = Street::new();
    let mut followers = Vec::new();
    for _ in 0..HTTP_CONNECTIONS_MAX {
        let mut stream = street.connect().await;
        stream.write_all(REQUEST).await.unwrap();
        first(&mut stream).await;
        followers.push(stream);
    }
    let mut late = street.connect().await;
    late.write_all(REQUEST).await.unwrap();
    let begun = tokio::time::Instant::now();
    assert!(first(&mut late).await.starts_with("HTTP/1.1 200"));
    // The others were idle for so long.
    assert_eq!(begun.elapsed().as_secs(), HEAD_WITHIN.as_secs());
    drop(followers);
}

#[tokio::test(start_paused = true)]
async fn a_head_has_a_size() {
    let street = Street::new();
    let many = "X: y\r\n".repeat(HEADERS_MAX + 1);
    let long = format!("X: {}\r\n", "y".repeat(HEAD_BYTES_MAX));
    for headers in [many, long] {
        let mut stream = street.connect().await;
        let request = format!("GET /short HTTP/1.1\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = all(stream).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_connections_end_with_the_server() {
    let (out, connections) = mpsc::channel(1);
    let server = tokio::spawn(serve(Door(connections), Router::new()));
    let mut stream = Street(out).connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    tokio::task::yield_now().await;
    let begun = tokio::time::Instant::now();
    server.abort();
    assert_eq!(all(stream).await, "");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
