//! A page from elsewhere, in a browser on this machine.

use super::description::operation;
use super::support::gateway::{Door, Gateway};

const LINE: &str = "{\"entity\":\"pump-7\",\"property\":\"p\",\"value\":1}\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_page_from_elsewhere_neither_reads_nor_writes() {
    let gateway = Gateway::start("").await;
    let host = format!("Host: 127.0.0.1:{}\r\n", gateway.port());
    let own = format!("{host}Origin: http://127.0.0.1:{}\r\n", gateway.port());
    // What a browser sends for a form, for text, for a sandboxed frame, and for a
    // page of another program on this machine.
    let foreign = [
        "Origin: https://evil.example\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        "Origin: https://evil.example\r\nContent-Type: text/plain\r\n",
        "Origin: null\r\nContent-Type: text/plain\r\n",
        "Origin: http://127.0.0.1:3000\r\nContent-Type: text/plain\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
        "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\n",
    ];
    for headers in foreign {
        let headers = format!("{host}{headers}");
        let answer = gateway.post(Door::Address, "/api/v1/readings", &headers, LINE);
        assert_eq!(answer.status, 403, "{headers}: {answer:?}");
        operation("post").describes(&answer);
    }
    let embedded = format!("{host}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n");
    for target in ["/api/v1/stream", "/api/v1/status", "/metrics"] {
        let answer = gateway.ask(Door::Address, "GET", target, &embedded);
        assert_eq!(answer.status, 403, "{target}");
    }
    let asked_first = format!(
        "{host}Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\
         Access-Control-Request-Headers: authorization\r\n"
    );
    let answer = gateway.ask(Door::Address, "OPTIONS", "/api/v1/readings", &asked_first);
    assert_eq!(answer.status, 403);
    assert!(!answer.head.to_ascii_lowercase().contains("access-control"), "{answer:?}");
    assert_eq!(gateway.status()["sources"][0]["accepted"], 0);

    // Its own page, a link to it, and programs.
    for headers in [&own, &host, ""] {
        let answer = gateway.post(Door::Address, "/api/v1/readings", headers, LINE);
        assert_eq!(answer.status, 200, "{headers}: {answer:?}");
    }
    let link = format!("{host}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n");
    assert_eq!(gateway.ask(Door::Address, "GET", "/", &link).status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_made_to_point_here_is_not_answered() {
    let gateway = Gateway::start("").await;
    for host in ["evil.example", "evil.example:9180", "localhost.evil.example", "127.0.0.1.nip.io"]
    {
        for target in ["/", "/healthz", "/api/v1/status", "/metrics"] {
            let header = format!("Host: {host}\r\n");
            let answer = gateway.ask(Door::Address, "GET", target, &header);
            assert_eq!(answer.status, 421, "{host} {target}: {answer:?}");
        }
        // To the browser it is the page's own origin.
        let header = format!("Host: {host}\r\nOrigin: http://{host}\r\n");
        let answer = gateway.post(Door::Address, "/api/v1/readings", &header, LINE);
        assert_eq!(answer.status, 421);
        operation("post").describes(&answer);
    }
    for host in ["127.0.0.1:9180", "localhost:9180", "[::1]:9180"] {
        let header = format!("Host: {host}\r\n");
        assert_eq!(gateway.ask(Door::Address, "GET", "/healthz", &header).status, 200, "{host}");
    }
    assert_eq!(gateway.status()["sources"][0]["accepted"], 0);
}
