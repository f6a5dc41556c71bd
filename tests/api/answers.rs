//! Good answers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::description::{DESCRIPTION, faults, operation, operations};
use super::support::gateway::{Answer, Door, Gateway};

/// On every answer.
fn is_careful(answer: &Answer) {
    let has = |name, value: &str| assert_eq!(answer.header(name), Some(value), "{answer:?}");
    has("cache-control", "no-store");
    has("x-content-type-options", "nosniff");
    has("x-frame-options", "DENY");
    has("referrer-policy", "no-referrer");
    has("cross-origin-resource-policy", "same-origin");
    assert!(answer.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert!(!answer.head.to_ascii_lowercase().contains("access-control-"), "{answer:?}");
}

const JSON: &str = "Content-Type: application/json\r\n";

/// A good request of every operation: its target, its headers and its body.
const REQUESTS: [(&str, &str, &str, &str); 20] = [
    ("page", "/", "", ""),
    ("pageFile", "/page/page.js", "", ""),
    ("health", "/healthz", "", ""),
    ("ready", "/readyz", "", ""),
    ("metrics", "/metrics", "Accept: application/openmetrics-text\r\n", ""),
    ("metrics", "/metrics", "", ""),
    ("status", "/api/v1/status", "", ""),
    ("lateness", "/api/v1/lateness", "", ""),
    ("windows", "/api/v1/windows?window=pressure-10s", "", ""),
    ("windows", "/api/v1/windows?window=pressure-10s&history=1", "", ""),
    ("description", "/api/v1/openapi.json", "", ""),
    ("quarantine", "/api/v1/quarantine?source=posted&limit=5", "", ""),
    ("post", "/api/v1/readings?source=posted&format=influx", "", "pump,id=7 kpa=4.5\n"),
    ("vouch", "/api/v1/clock/vouch", JSON, "{\"error_ns\":2000000000}"),
    ("quarantineItem", "/api/v1/quarantine/1", "", ""),
    ("release", "/api/v1/quarantine/release", JSON, "{\"ids\":[\"1\",\"77\"]}"),
    ("discard", "/api/v1/quarantine/discard", JSON, "{\"ids\":[\"1\"]}"),
    ("journalStats", "/api/v1/journal/stats", "", ""),
    ("journalPage", "/api/v1/journal/page?from=0", "", ""),
    ("journalVerify", "/api/v1/journal/verify?segment=1", "", ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_as_it_is_described() {
    let gateway = Gateway::start("").await;
    gateway.tell_story();
    let mut asked = BTreeSet::from(["stream"]);
    for (id, target, headers, body) in REQUESTS {
        let operation = operation(id);
        asked.insert(id);
        let ask = |door| match operation.method {
            "get" => gateway.ask(door, "GET", target, headers),
            _ => gateway.post(door, target, headers, body),
        };
        let answer = ask(Door::Control);
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        operation.describes(&answer);
        is_careful(&answer);
        let at_the_address = ask(Door::Address);
        is_careful(&at_the_address);
        if operation.is_for_owner {
            assert!([404, 405].contains(&at_the_address.status), "{target}: {at_the_address:?}");
        } else {
            assert_eq!(at_the_address.status, 200, "{target}: {at_the_address:?}");
            operation.describes(&at_the_address);
        }
    }
    let all: BTreeSet<&str> = operations().iter().map(|operation| operation.id()).collect();
    assert_eq!(asked, all);
    assert_eq!(gateway.get("/api/v1/openapi.json").json(), *DESCRIPTION);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_story_is_told_in_the_forms_described() {
    let gateway = Gateway::start("").await;
    gateway.tell_story();
    let status = gateway.get("/api/v1/status").json();
    assert_eq!(status["journal"]["readings"], 0);
    assert_eq!(status["sources"][0]["name"], "posted");
    assert_eq!(status["sources"][0]["accepted"], 45);
    assert_eq!(status["sources"][0]["health"]["state"], "up");
    assert_eq!(status["ordered"].as_array().unwrap().len(), 1);
    let results = gateway.get("/api/v1/windows").json();
    assert_eq!(results.as_array().unwrap().len(), 1, "one series has results: {results}");

    // The entries of the journal have the forms of what goes up.
    let page = gateway.ask(Door::Control, "GET", "/api/v1/journal/page", "").body;
    let mut lines = page.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let form = |name| serde_json::json!({ "$ref": format!("#/components/schemas/{name}") });
    let head = lines.next().unwrap();
    assert_eq!(faults(&form("PageHead"), &head), Vec::<String>::new(), "{head}");
    let mut counts = (0, 0, 0);
    for line in lines {
        let name = if line.get("coverage").is_some() {
            counts.1 += 1;
            "WindowResult"
        } else if line.get("window").is_some() {
            counts.2 += 1;
            "LateReading"
        } else if line.get("value").is_some() {
            counts.0 += 1;
            "Reading"
        } else {
            continue;
        };
        assert_eq!(faults(&form(name), &line), Vec::<String>::new(), "{line}");
    }
    assert_eq!((counts.0, counts.2), (45, 1));
    assert!(counts.1 >= 4, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_the_forms_described() {
    let gateway = Gateway::start("").await;
    let operation = operation("stream");
    let answer = std::thread::scope(|scope| {
        let (listens, heard) = std::sync::mpsc::channel();
        let gateway = &gateway;
        let follower = scope.spawn(move || {
            gateway.follow("/api/v1/stream", |seen| {
                // The status comes at once; what follows it is told to this client too.
                if seen.contains("event: status\n") {
                    let _ = listens.send(());
                }
                let all = ["event: late\n", "event: status\n", "event: window\n"];
                all.iter().all(|event| seen.contains(event)) && seen.ends_with("\n\n")
            })
        });
        heard.recv().unwrap();
        gateway.tell_story();
        follower.join().unwrap()
    });
    operation.describes(&answer);
    is_careful(&answer);
    for event in answer.body.split("\n\n").filter(|event| event.contains("data: ")) {
        let field = |name| event.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let data: Value = serde_json::from_str(field("data: ")).unwrap();
        let form = operation.event(field("event: ")).unwrap();
        assert_eq!(faults(form, &data), Vec::<String>::new(), "{event}");
    }
}
