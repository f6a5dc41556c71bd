//! The routes. The same router answers on the listening address and on the
//! control socket.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::metrics::{self, Metrics};
use super::status::Report;

/// How long the driver may take for an answer; it turns once a second even
/// when nothing happens, so that more means it hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Asks the driver for a report of this moment.
pub type ReportRequest = oneshot::Sender<Arc<Report>>;

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Api {
    /// To the driver.
    pub requests: mpsc::Sender<ReportRequest>,
    /// The agent's metrics.
    pub metrics: Arc<Metrics>,
}

/// All routes.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .route("/api/v1/status", get(status))
        .with_state(api)
}

impl Api {
    /// The driver's own word, fresh: that it comes at all shows that the
    /// process turns.
    async fn report(&self) -> Result<Arc<Report>, Response> {
        let ask = async {
            let (answer, report) = oneshot::channel();
            self.requests.send(answer).await.ok()?;
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

async fn metrics_text(State(api): State<Api>) -> Result<Response, Response> {
    let report = api.report().await?;
    let text = api.metrics.text(&report);
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

async fn status(State(api): State<Api>) -> Result<Response, Response> {
    let report = api.report().await?;
    Ok(axum::Json(&*report).into_response())
}
