//! Browsers at the address: a page from elsewhere, open on this machine, must
//! neither read what the agent says nor hand readings in.
//!
//! The browser keeps it from reading, for no answer allows another origin (CORS).
//! Two ways remain, and are closed here:
//!
//! - *DNS rebinding*: the page's own name is made to point to this machine, so that
//!   to the browser agent and page are one origin. The request then still names the
//!   page's host. Where no token is asked for, only addresses and `localhost` are
//!   answered, which no name can be made to look like.
//! - *Blind requests*: a page may send a form or plain text anywhere, it only does
//!   not see the answer; to hand in readings that is enough. Browsers say where
//!   such a request comes from (`Origin`, `Sec-Fetch-Site`), and a foreign one is
//!   refused. So is one that would only take up room, like a second stream.
//!
//! Other programs say neither, and are not concerned.

use std::net::IpAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

const MISDIRECTED: &str = "without a token this answers only to an address or to localhost, as in \
                           http://127.0.0.1:9180/: other names are for http.token_file\n";
const FOREIGN: &str = "a page from elsewhere may not ask this\n";

/// The same routes, out of reach of pages from elsewhere. `has_token`: whoever asks
/// for data must bear a token, which a page from elsewhere does not know.
pub fn keep_out(router: Router, has_token: bool) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| async move {
        if !has_token && !is_addressed(&request) {
            return (StatusCode::MISDIRECTED_REQUEST, MISDIRECTED).into_response();
        }
        if is_foreign(&request) {
            return (StatusCode::FORBIDDEN, FOREIGN).into_response();
        }
        next.run(request).await
    }))
}

/// Whether every host that the request names is an address, or `localhost`. Old
/// clients name none; every browser does.
fn is_addressed(request: &Request) -> bool {
    let hosts = request.headers().get_all(header::HOST).iter();
    let is_plain = |authority: &Authority| {
        let host = authority.host();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        bare.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
    };
    request.uri().authority().is_none_or(is_plain)
        && hosts
            .map(|value| Authority::try_from(value.as_bytes()))
            .all(|host| host.is_ok_and(|host| is_plain(&host)))
}

/// Whether a browser sends it for a page of another origin.
fn is_foreign(request: &Request) -> bool {
    let headers = request.headers();
    let is = |name: HeaderName, word: &str| text(headers, name) == Some(word);
    // A link to the page is followed, whoever wrote it: nothing comes of it but what
    // its reader then sees.
    let is_link = is(MODE, "navigate") && matches!(*request.method(), Method::GET | Method::HEAD);
    let is_from_elsewhere = is(SITE, "cross-site") || is(SITE, "same-site");
    let origin = headers.get(header::ORIGIN).is_some_and(|_| !is_own_origin(headers));
    origin || (is_from_elsewhere && !is_link)
}

/// The scheme does not count: TLS may end at a proxy before this.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let origin = text(headers, header::ORIGIN).and_then(|origin| origin.split_once("://"));
    let host = text(headers, header::HOST);
    origin.zip(host).is_some_and(|((_, origin), host)| origin.eq_ignore_ascii_case(host))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn a_name_that_somebody_else_may_own_is_not_answered() {
        let host = |host: &str| is_addressed(&request("GET", "/", &[("host", host)]));
        for good in [
            "127.0.0.1:9180",
            "127.0.0.1",
            "[::1]:9180",
            "[::1]",
            "localhost:9180",
            "LOCALHOST",
            "192.168.7.1:80",
        ] {
            assert!(host(good), "{good}");
        }
        for bad in [
            "evil.example:9180",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a@127.0.0.1.example",
            "",
            "a b",
        ] {
            assert!(!host(bad), "{bad}");
        }
        assert!(is_addressed(&request("GET", "/", &[])));
        assert!(!is_addressed(&request("GET", "http://evil.example/", &[("host", "127.0.0.1")])));
        let two = [("host", "127.0.0.1"), ("host", "evil.example")];
        assert!(!is_addressed(&request("GET", "/", &two)));
    }

    #[test]
    fn what_a_page_from_elsewhere_sends_is_told_from_the_rest() {
        let host = ("host", "127.0.0.1:9180");
        let own = ("origin", "http://127.0.0.1:9180");
        let is_own = |method, headers: &[_]| {
            assert!(!is_foreign(&request(method, "/", headers)), "{method} {headers:?}");
        };
        is_own("POST", &[host]);
        is_own("POST", &[host, own, ("sec-fetch-site", "same-origin")]);
        is_own("GET", &[host, ("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")]);
        is_own("GET", &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]);
        let is_other = |method, headers: &[_]| {
            assert!(is_foreign(&request(method, "/", headers)), "{method} {headers:?}");
        };
        is_other("POST", &[host, ("origin", "https://evil.example")]);
        is_other("POST", &[host, ("origin", "null")]);
        is_other("POST", &[host, ("origin", "http://127.0.0.1:3000")]);
        is_other("POST", &[own]);
        let form = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        is_other("POST", &form);
        is_other("GET", &[host, ("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")]);
    }
}
