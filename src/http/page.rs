//! The page at `/`: everything the API says, for somebody who stands before the
//! machine with a phone and no internet.
//!
//! Its files are in the binary, and none of them holds data: the script asks the API for it, as any other client would. So the page itself needs
//! no token; the script asks for one where the API does, and never puts it into an
//! address.
//!
//! What comes from outside (names, units, values, reasons) gets into the page as
//! text and nothing else; the headers below would keep anything else from running.

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

/// A file of the page.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

const ASSETS: &[Asset] = &[
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        text: include_str!("page/index.html"),
    },
    Asset {
        path: "/page/page.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("page/page.css"),
    },
    Asset {
        path: "/page/icon.svg",
        content_type: "image/svg+xml",
        text: include_str!("page/icon.svg"),
    },
    Asset { path: "/page/page.js", content_type: SCRIPT, text: include_str!("page/page.js") },
    Asset { path: "/page/answers.js", content_type: SCRIPT, text: include_str!("page/answers.js") },
    Asset { path: "/page/lists.js", content_type: SCRIPT, text: include_str!("page/lists.js") },
    Asset { path: "/page/chart.js", content_type: SCRIPT, text: include_str!("page/chart.js") },
    Asset { path: "/page/recent.js", content_type: SCRIPT, text: include_str!("page/recent.js") },
    Asset { path: "/page/stream.js", content_type: SCRIPT, text: include_str!("page/stream.js") },
    Asset { path: "/page/dom.js", content_type: SCRIPT, text: include_str!("page/dom.js") },
    Asset { path: "/page/words.js", content_type: SCRIPT, text: include_str!("page/words.js") },
];

/// Only what this very server serves runs, styles and is asked; nothing is sent
/// anywhere by a form, and nobody frames the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// On every answer. Data of this moment is nothing to keep, and a page of the
/// version before would not understand it.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The routes of the page.
pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        let content_type = [(header::CONTENT_TYPE, asset.content_type)];
        router.route(asset.path, get(async move || (content_type, asset.text).into_response()))
    })
}

/// Whether what is at `path` is a file of the page, which holds no data.
pub(super) fn is_asset(path: &str) -> bool {
    ASSETS.iter().any(|asset| asset.path == path)
}

/// The same routes; whatever a browser gets from them, it treats with care.
pub fn protect(router: Router) -> Router {
    router.layer(map_response(async |mut response: Response| {
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }))
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
