//! The routes. The same ones answer on the listening address and on the control
//! socket; what changes something answers on the socket alone, which only the
//! owner of the data directory can open.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::lateness::LatenessReport;
use super::metrics::Metrics;
use super::page;
use super::status::Report;
use super::stream::{self, Results};
use crate::core::clock::Vouch;

/// How long the driver may take for an answer; it turns once a second even
/// when nothing happens, so that more means it hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Where the driver's answer goes.
pub type Answer = oneshot::Sender<Arc<Report>>;

/// What the driver is asked for. Each is answered with a report.
#[derive(Debug)]
pub enum Request {
    /// A report of this moment.
    Report(Answer),
    /// To take an operator's word on the clock; the report is of the moment
    /// after.
    Vouch(Vouch, Answer),
}

/// The body of `POST /api/v1/clock/vouch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VouchBody {
    /// Bound on the error of the wall clock, in nanoseconds: 1 to
    /// [`VOUCH_ERROR_MAX_NS`].
    pub error_ns: u64,
}

/// An hour: what is known no better needs no operator.
pub const VOUCH_ERROR_MAX_NS: u64 = 3_600_000_000_000;

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Api {
    /// To the driver.
    pub requests: mpsc::Sender<Request>,
    /// The agent's metrics.
    pub metrics: Arc<Metrics>,
    /// Results of windows.
    pub results: Results,
}

/// The routes for everybody on this machine: they only tell.
pub fn router(api: Api) -> Router {
    telling().with_state(api)
}

/// The routes of the control socket: all of [`router`], and those that change
/// something.
pub fn control_router(api: Api) -> Router {
    telling().route("/api/v1/clock/vouch", post(vouch)).with_state(api)
}

fn telling() -> Router<Api> {
    page::router()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .route("/api/v1/status", get(status))
        .route("/api/v1/lateness", get(lateness))
        .route("/api/v1/windows", get(stream::windows))
        .route("/api/v1/stream", get(stream::stream))
        .route("/api/v1/openapi.json", get(description))
}

impl Api {
    /// The driver's own word, fresh: that it comes at all shows that the
    /// process turns.
    pub(super) async fn report(&self) -> Result<Arc<Report>, Response> {
        self.ask(Request::Report).await
    }

    async fn ask(&self, request: impl FnOnce(Answer) -> Request) -> Result<Arc<Report>, Response> {
        let ask = async {
            let (answer, report) = oneshot::channel();
            self.requests.send(request(answer)).await.ok()?;
            report.await.ok()
        };
        let silent = || (StatusCode::SERVICE_UNAVAILABLE, "the agent does not answer\n");
        timeout(ANSWER_WITHIN, ask).await.ok().flatten().ok_or_else(|| silent().into_response())
    }
}

async fn healthz(State(api): State<Api>) -> Result<&'static str, Response> {
    api.report().await.map(|_| "ok\n")
}

async fn readyz(State(api): State<Api>) -> Result<Response, Response> {
    let report = api.report().await?;
    Ok(if report.journal.is_committing {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "commits fail\n").into_response()
    })
}

async fn metrics_text(State(api): State<Api>, headers: HeaderMap) -> Result<Response, Response> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let report = api.report().await?;
    let accept = accept.unwrap_or_default();
    let (content_type, text) = api.metrics.text_for(accept, &report, &api.results.counts());
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}

/// What all these routes take and answer.
const DESCRIPTION: &str = include_str!("../../docs/openapi.json");

async fn description() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION).into_response()
}

/// The answer where no route is: below `/api/` for programs.
pub async fn nothing_here(uri: Uri) -> Response {
    let path = uri.path();
    if !path.starts_with("/api/") {
        return (StatusCode::NOT_FOUND, "nothing is here; the page is at /\n").into_response();
    }
    let detail = format!("there is no {path} here; /api/v1/openapi.json has all that there is");
    let said = serde_json::json!({ "error": "not_found", "detail": detail });
    (StatusCode::NOT_FOUND, axum::Json(said)).into_response()
}

async fn status(State(api): State<Api>) -> Result<Response, Response> {
    let report = api.report().await?;
    Ok(axum::Json(&*report).into_response())
}

async fn lateness(State(api): State<Api>) -> Result<Response, Response> {
    let report = api.report().await?;
    Ok(axum::Json(LatenessReport::new(&report)).into_response())
}

async fn vouch(
    State(api): State<Api>,
    axum::Json(VouchBody { error_ns }): axum::Json<VouchBody>,
) -> Result<Response, Response> {
    if !(1..=VOUCH_ERROR_MAX_NS).contains(&error_ns) {
        let said = format!("error_ns: {error_ns} is out of range; use 1 to {VOUCH_ERROR_MAX_NS}\n");
        return Err((StatusCode::BAD_REQUEST, said).into_response());
    }
    let report = api.ask(|answer| Request::Vouch(Vouch { error_ns }, answer)).await?;
    Ok(axum::Json(&*report).into_response())
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
