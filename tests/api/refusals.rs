//! What is wrong is refused, by a status that is described and with words that help.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::description::operation;
use super::support::gateway::{Door, Gateway};

const JSON: &str = "Content-Type: application/json\r\n";
const TOKEN: &str = "0123456789abcdef";

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_request_gets_the_described_refusal() {
    let gateway = Gateway::start("").await;
    let (at, own) = (Door::Address, Door::Control);
    let long = "x".repeat(70_000);
    let ids = format!("{{\"ids\":[\"{}\"]}}", long);
    let many: Vec<String> = (1..=65).map(|id| id.to_string()).collect();
    let many = json!({ "ids": many }).to_string();
    // Door, operation, method, target, headers, body, status.
    let cases: [(Door, &str, &str, &str, &str, &str, u16); 26] = [
        (at, "page", "POST", "/", "", "", 405),
        (at, "health", "DELETE", "/healthz", "", "", 405),
        (at, "status", "PUT", "/api/v1/status", "", "{}", 405),
        (at, "stream", "POST", "/api/v1/stream", "", "", 405),
        (at, "post", "GET", "/api/v1/readings", "", "", 405),
        (at, "pageFile", "GET", "/page/..%2f..%2fetc%2fpasswd", "", "", 404),
        (at, "windows", "GET", "/api/v1/windows?windows=a", "", "", 400),
        (at, "windows", "GET", "/api/v1/windows?window=a&window=b", "", "", 400),
        (at, "windows", "GET", "/api/v1/windows?history=all", "", "", 400),
        (at, "quarantine", "GET", "/api/v1/quarantine?limit=-1", "", "", 400),
        (at, "quarantine", "GET", "/api/v1/quarantine?path=/etc/passwd", "", "", 400),
        (at, "post", "POST", "/api/v1/readings?to=posted", "", "{}\n", 400),
        (at, "post", "POST", "/api/v1/readings", "", "no reading\n", 400),
        (at, "post", "POST", "/api/v1/readings?source=../posted", "", "{}\n", 404),
        (at, "post", "POST", "/api/v1/readings", "", &long, 413),
        (at, "post", "POST", "/api/v1/readings", "Content-Type: text/html\r\n", "{}\n", 415),
        (own, "vouch", "GET", "/api/v1/clock/vouch", "", "", 405),
        (own, "vouch", "POST", "/api/v1/clock/vouch", JSON, "{\"error_ns\":0}", 400),
        (own, "vouch", "POST", "/api/v1/clock/vouch", JSON, "{", 400),
        (own, "vouch", "POST", "/api/v1/clock/vouch", "", "{\"error_ns\":1}", 415),
        (own, "vouch", "POST", "/api/v1/clock/vouch", JSON, "{\"errors\":1}", 422),
        (own, "discard", "POST", "/api/v1/quarantine/discard", JSON, &ids, 413),
        (own, "discard", "POST", "/api/v1/quarantine/discard", JSON, &many, 400),
        (own, "quarantineItem", "GET", "/api/v1/quarantine/..%2f..%2fLOCK", "", "", 400),
        (own, "quarantineItem", "GET", "/api/v1/quarantine/4711", "", "", 404),
        (own, "journalVerify", "GET", "/api/v1/journal/verify?segment=../1", "", "", 400),
    ];
    for (door, id, method, target, headers, body, status) in cases {
        let head = format!("Content-Length: {}\r\n{headers}", body.len());
        let request = format!("{method} {target} HTTP/1.0\r\n{head}\r\n{body}");
        let answer = gateway.exchange(door, &request);
        assert_eq!(answer.status, status, "{method} {target}: {answer:?}");
        operation(id).describes(&answer);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
        assert!(!answer.body.contains("root:"), "{answer:?}");
    }
    let lines = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(100));
    assert_eq!(gateway.exchange(at, &lines).status, 431);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_id_is_a_path() {
    let gateway = Gateway::start("").await;
    let kept = gateway.folder().join("kept");
    std::fs::create_dir_all(gateway.data_dir().join("quarantine")).unwrap();
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("file"), "kept").unwrap();
    let ids = [
        "segment:../../kept",
        "segment:../journal",
        "segment:..",
        "segment:.",
        "segment:",
        "../../kept",
        "1/../../kept",
    ];
    let body = json!({ "ids": ids }).to_string();
    let answer = gateway.post(Door::Control, "/api/v1/quarantine/discard", JSON, &body).json();
    let outcomes: Vec<_> = answer.as_array().unwrap().iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, vec!["absent"; ids.len()]);
    assert_eq!(std::fs::read_to_string(kept.join("file")).unwrap(), "kept");
    assert!(gateway.data_dir().join("journal").is_dir());
    assert_eq!(gateway.get("/readyz").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_token_nothing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let gateway = Gateway::start(&format!("token_file = \"{}\"", path.display())).await;
    let data = ["/metrics", "/api/v1/status", "/api/v1/stream", "/api/v1/windows"];
    let data = data.into_iter().chain(["/api/v1/lateness", "/api/v1/quarantine", "/api/v1/none"]);
    let mut refusals = std::collections::BTreeSet::new();
    let mut refused = 0;
    for target in data {
        let wrong = ["Bearer 0123456789abcdeX", "Bearer 0123456789abcdef0"];
        // More of them in a minute are told to wait.
        let wrong = if refused < 8 { &wrong[..] } else { &[] };
        refused += wrong.len();
        for given in ["", "Basic eA=="].iter().chain(wrong) {
            let header = format!("Authorization: {given}\r\n");
            let answer = gateway.ask(Door::Address, "GET", target, &header);
            assert_eq!(answer.status, 401, "{target} {given}: {answer:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            refusals.insert(answer.body);
        }
    }
    // Whatever was wrong, the words are the same: no hint at how near it was.
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let wrong = "Authorization: Bearer 0123456789abcdeX\r\n";
    let mut last = gateway.ask(Door::Address, "GET", "/api/v1/status", wrong);
    for _ in 0..20 {
        last = gateway.ask(Door::Address, "GET", "/api/v1/status", wrong);
    }
    assert_eq!((last.status, last.header("retry-after")), (429, Some("1")), "{last:?}");
    operation("status").describes(&last);
    operation("status").describes(&gateway.get("/api/v1/status"));
    let posted = gateway.post(Door::Address, "/api/v1/readings", "", "{}\n");
    assert_eq!(posted.status, 401);

    let header = format!("Authorization: Bearer {TOKEN}\r\nHost: gw-07.local:9180\r\n");
    let answer = gateway.ask(Door::Address, "GET", "/api/v1/status", &header);
    assert_eq!(answer.status, 200, "by name too: {answer:?}");
    for open in ["/", "/page/page.js", "/healthz", "/readyz"] {
        assert_eq!(gateway.get(open).status, 200, "{open}");
    }
    assert_eq!(gateway.ask(Door::Control, "GET", "/api/v1/status", "").status, 200);
    // Those that were told to wait count too.
    let metrics = gateway.ask(Door::Control, "GET", "/metrics", "").body;
    let counted = format!("\ntidegate_http_wrong_tokens_total {}\n", refused + 21);
    assert!(metrics.contains(&counted), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_socket_is_the_owners() {
    let gateway = Gateway::start("").await;
    let mode = |name: &str| {
        let path = gateway.data_dir().join(name);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode("control.sock"), 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_idle_connections_leave_room_for_others() {
    let gateway = Gateway::start("").await;
    let mut streams = Vec::new();
    for _ in 0..32 {
        let mut stream = gateway.address();
        std::io::Write::write_all(&mut stream, b"GET /api/v1/stream HTTP/1.0\r\n\r\n").unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.0 200");
        streams.push(stream);
    }
    let answer = gateway.get("/api/v1/stream");
    assert_eq!(answer.status, 503);
    operation("stream").describes(&answer);
    assert_eq!(gateway.get("/api/v1/status").status, 200);
    // More than there are places: the owner gets through all the same, at once.
    let idle: Vec<_> = (0..128).map(|_| gateway.address()).collect();
    assert_eq!(gateway.ask(Door::Control, "GET", "/api/v1/status", "").status, 200);
    drop(idle);
    assert_eq!(gateway.get("/healthz").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_the_way_to_what_there_is_is_shown() {
    let gateway = Gateway::start("").await;
    for door in [Door::Address, Door::Control] {
        let answer = gateway.ask(door, "GET", "/api/v1/statsu", "");
        assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/json")));
        let expected = serde_json::json!({
            "error": "not_found",
            "detail": "there is no /api/v1/statsu here; /api/v1/openapi.json has all that there is",
        });
        assert_eq!(answer.json(), expected);
    }
    assert_eq!(gateway.get("/statsu").body, "nothing is here; the page is at /\n");
}
