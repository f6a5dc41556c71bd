//! The routers behind a socket, and a driver of three lines.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::super::metrics::tests::report;
use super::*;

/// Serves `router` for one request; the driver takes down what is vouched.
async fn exchange(router: fn(Api) -> Router, request: &str) -> (String, Vec<Vouch>) {
    let (requests, mut inbox) = mpsc::channel(1);
    let driver = tokio::spawn(async move {
        let mut vouched = Vec::new();
        while let Some(request) = inbox.recv().await {
            let answer = match request {
                Request::Report(answer) => answer,
                Request::Vouch(vouch, answer) => {
                    vouched.push(vouch);
                    answer
                }
            };
            let _ = answer.send(Arc::new(report()));
        }
        vouched
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let (metrics, results) = (Arc::new(Metrics::new(vec!["main".to_owned()])), Results::new("gw"));
    let app = router(Api { requests, metrics, results });
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    server.abort();
    let _ = server.await;
    (answer, driver.await.unwrap())
}

fn vouch_request(body: &str) -> String {
    format!(
        "POST /api/v1/clock/vouch HTTP/1.0\r\nHost: t\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn status_line(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default()
}

#[tokio::test]
async fn an_operators_word_goes_to_the_driver_through_the_control_socket() {
    let request = vouch_request(r#"{"error_ns":2000000000}"#);
    let (answer, vouched) = exchange(control_router, &request).await;
    assert_eq!(status_line(&answer), "HTTP/1.0 200 OK");
    assert_eq!(vouched, [Vouch { error_ns: 2_000_000_000 }]);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(serde_json::from_str::<Report>(body).unwrap(), report());
}

#[tokio::test]
async fn nobody_vouches_from_elsewhere() {
    let request = vouch_request(r#"{"error_ns":2000000000}"#);
    let (answer, vouched) = exchange(router, &request).await;
    assert_eq!(status_line(&answer), "HTTP/1.0 404 Not Found");
    assert_eq!(vouched, []);
}

#[tokio::test]
async fn a_word_that_says_nothing_is_refused() {
    for body in
        [r#"{"error_ns":0}"#, r#"{"error_ns":3600000000001}"#, r#"{"error_ns":-1}"#, "{}", "2s"]
    {
        let (answer, vouched) = exchange(control_router, &vouch_request(body)).await;
        assert!(status_line(&answer).starts_with("HTTP/1.0 4"), "{body}: {answer}");
        assert_eq!(vouched, [], "{body}");
    }
    let (answer, _) = exchange(control_router, &vouch_request(r#"{"error_ns":0}"#)).await;
    assert!(answer.ends_with("\r\n\r\nerror_ns: 0 is out of range; use 1 to 3600000000000\n"));
}

#[tokio::test]
async fn the_control_socket_tells_what_the_other_address_tells() {
    let request = "GET /api/v1/status HTTP/1.0\r\nHost: t\r\n\r\n";
    let (open, _) = exchange(router, request).await;
    let (control, _) = exchange(control_router, request).await;
    let body = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(status_line(&open), "HTTP/1.0 200 OK");
    assert_eq!(body(&open), body(&control));
}

#[tokio::test]
async fn lateness_has_a_route_of_its_own() {
    let request = "GET /api/v1/lateness HTTP/1.0\r\nHost: t\r\n\r\n";
    let (answer, _) = exchange(router, request).await;
    assert_eq!(status_line(&answer), "HTTP/1.0 200 OK");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let expected = LatenessReport::new(&report());
    assert_eq!(serde_json::from_str::<LatenessReport>(body).unwrap(), expected);
}
