//! The files of the page, and how they are served.

use std::collections::BTreeSet;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// The whole answer to a request for `path`.
async fn answer(path: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = protect(router::<()>());
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    server.abort();
    answer
}

#[tokio::test]
async fn every_file_is_served_with_its_type_and_with_care() {
    for asset in ASSETS {
        let answer = answer(asset.path).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200 OK"), "{head}");
        assert!(head.contains(&format!("content-type: {}\r\n", asset.content_type)), "{head}");
        for line in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
             connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "x-frame-options: DENY",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.lines().any(|found| found == line), "{line}\n{head}");
        }
        assert_eq!(body, asset.text);
    }
}

#[tokio::test]
async fn what_is_not_there_is_treated_with_care_too() {
    let answer = answer("/page/none.js").await;
    assert!(answer.starts_with("HTTP/1.0 404"), "{answer}");
    assert!(answer.contains("x-content-type-options: nosniff\r\n"), "{answer}");
}

/// What is between `before` and the next quote, wherever it is.
fn quoted<'t>(text: &'t str, before: &str) -> impl Iterator<Item = &'t str> {
    text.split(before).skip(1).filter_map(|rest| rest.split('"').next())
}

#[test]
fn everything_that_a_file_needs_is_in_the_binary() {
    let mut needed = BTreeSet::from(["/"]);
    for asset in ASSETS {
        for before in ["src=\"", "href=\"/", "from \""] {
            for path in quoted(asset.text, before) {
                let path = if before.ends_with('/') { format!("/{path}") } else { path.to_owned() };
                assert!(is_asset(&path), "{}: {path}", asset.path);
                needed.extend(ASSETS.iter().map(|asset| asset.path).filter(|one| *one == path));
            }
        }
    }
    assert_eq!(needed, ASSETS.iter().map(|asset| asset.path).collect());
}

#[test]
fn nothing_is_inline_comes_from_elsewhere_or_reads_text_as_html() {
    for asset in ASSETS {
        let text = asset.text.replace("http://www.w3.org/2000/svg", "");
        for banned in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "new Function",
            "style=",
            " onclick",
            " onload",
            " onerror",
            "<script>",
            "<style",
            "javascript:",
            "http://",
            "https://",
            "localStorage",
            "document.cookie",
            "@import",
        ] {
            assert!(!text.contains(banned), "{}: {banned}", asset.path);
        }
    }
}

#[test]
fn data_is_no_file_of_the_page() {
    assert!(is_asset("/") && is_asset("/page/page.js"));
    for path in ["", "/page", "/page/", "/api/v1/status", "/metrics", "//", "/page/../metrics"] {
        assert!(!is_asset(path), "{path}");
    }
}
