//! `POST /api/v1/readings`: the HTTP side of sources of type `http`.
//!
//! Answers 200 once the whole body is durable. 400 names the lines that were refused; the
//! others are taken all the same. If only a part of a body was taken (429, 503), the answer
//! says how far: it may be posted again from there.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::config::Format;
use crate::source::push::{End, NoSlot, Push, Taken};

/// How long a body may take to come.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// Seconds after which a full agent may be asked again.
const RETRY_AFTER_S: &str = "5";
/// Content types of bodies of lines. A request without one is taken too.
const CONTENT_TYPES: [&str; 8] = [
    "text/plain",
    "application/json",
    "application/jsonl",
    "application/json-lines",
    "application/x-ndjson",
    "application/ndjson",
    "application/octet-stream",
    // The one that curl sends with `--data-binary` by default.
    "application/x-www-form-urlencoded",
];

/// The `http` sources by name; `None` before the sources have started.
#[derive(Clone, Debug, Default)]
pub struct Doors(Arc<RwLock<Option<Pushes>>>);

type Pushes = BTreeMap<String, Arc<Push>>;

impl Doors {
    /// Replaces all sources.
    pub fn open(&self, sources: impl IntoIterator<Item = (String, Arc<Push>)>) {
        let all = sources.into_iter().collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(all);
    }

    /// The source of that name; without a name, the only one.
    fn find(&self, name: Option<&str>) -> Result<Arc<Push>, Refused> {
        let doors = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let no = |status, what: String| Err(Refused(status, what));
        let Some(doors) = doors.as_ref() else {
            return no(StatusCode::SERVICE_UNAVAILABLE, "the agent is starting".to_owned());
        };
        let known: Vec<&str> = doors.keys().map(String::as_str).collect();
        match name {
            _ if doors.is_empty() => {
                no(StatusCode::NOT_FOUND, "no source of type http is configured".to_owned())
            }
            Some(name) => doors.get(name).cloned().ok_or_else(|| {
                let what = format!("source: there is no {name:?} of type http; known: {known:?}");
                Refused(StatusCode::NOT_FOUND, what)
            }),
            None if doors.len() > 1 => {
                let what = format!("say which source: ?source=NAME, one of {known:?}");
                no(StatusCode::BAD_REQUEST, what)
            }
            None => {
                doors.values().next().cloned().ok_or_else(|| {
                    Refused(StatusCode::NOT_FOUND, "no source of type http".to_owned())
                })
            }
        }
    }
}

/// The route.
pub fn router(doors: Doors) -> Router {
    Router::new().route("/api/v1/readings", post(readings)).with_state(doors)
}

/// Why nothing of a request is taken: the status, and what is wrong, for people.
#[derive(Debug)]
pub struct Refused(pub StatusCode, pub String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused(status, error) = self;
        let answer = Answer { error: Some(error), ..Answer::default() };
        respond(status, answer)
    }
}

/// The body of every answer.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Answer {
    /// Readings taken, and durable.
    accepted: u64,
    /// Lines settled from the first on: durable, blank, or refused.
    lines: u64,
    /// Lines refused; they are kept in the quarantine.
    refused: u64,
    /// The first 100 of them.
    faults: Vec<FaultTold>,
    /// What kept the rest from being taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A line that was refused.
#[derive(Debug, Serialize, Deserialize)]
struct FaultTold {
    /// From 1.
    line: u64,
    /// What is wrong with it.
    reason: String,
}

fn respond(status: StatusCode, answer: Answer) -> Response {
    let mut response = (status, Json(answer)).into_response();
    if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
        let after = header::HeaderValue::from_static(RETRY_AFTER_S);
        response.headers_mut().insert(header::RETRY_AFTER, after);
    }
    response
}

async fn readings(
    State(doors): State<Doors>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    let (source, format) = asked(query.as_deref().unwrap_or_default())?;
    let push = doors.find(source)?;
    check_headers(&headers)?;
    let slot = push.slot().map_err(|none| match none {
        NoSlot::Busy => Refused(StatusCode::TOO_MANY_REQUESTS, "too many requests at once".into()),
        NoSlot::Stopped => {
            Refused(StatusCode::SERVICE_UNAVAILABLE, "the source is stopping".to_owned())
        }
    })?;
    let body =
        timeout(BODY_WITHIN, whole(body, &headers, push.body_max())).await.map_err(|_| {
            let what = format!("the body did not come within {} s", BODY_WITHIN.as_secs());
            Refused(StatusCode::REQUEST_TIMEOUT, what)
        })??;
    let taken = push.take(&slot, &body, format.unwrap_or(push.format())).await;
    let (status, error) = match taken.end {
        End::Whole if taken.refused > 0 => (StatusCode::BAD_REQUEST, None),
        End::Whole => (StatusCode::OK, None),
        End::Full => (StatusCode::TOO_MANY_REQUESTS, Some("the buffer is full")),
        End::Unknown => (
            StatusCode::SERVICE_UNAVAILABLE,
            Some("whether the lines that follow are durable is not known yet"),
        ),
    };
    Ok(respond(status, answer(taken, error)))
}

fn answer(taken: Taken, error: Option<&str>) -> Answer {
    let Taken { end: _, lines, accepted, faults, refused } = taken;
    let faults = faults.into_iter().map(|(line, reason)| FaultTold { line, reason }).collect();
    Answer { accepted, lines, refused, faults, error: error.map(str::to_owned) }
}

/// The source and the format that a query asks for. Names of sources need no escapes.
///
/// # Errors
/// [`Refused`] names the parameter or the word that is not known.
pub fn asked(query: &str) -> Result<(Option<&str>, Option<Format>), Refused> {
    let wrong = |what: String| Refused(StatusCode::BAD_REQUEST, what);
    let (mut source, mut format) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("source", name)) => source = Some(name),
            Some(("format", word)) => {
                let known = || wrong(format!("format: {word:?} is not known; use json or influx"));
                format = Some(Format::from_word(word).ok_or_else(known)?);
            }
            _ => return Err(wrong(format!("{pair}: unknown; known here: source, format"))),
        }
    }
    Ok((source, format))
}

fn check_headers(headers: &HeaderMap) -> Result<(), Refused> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?").trim());
    let coding = text(header::CONTENT_ENCODING).filter(|coding| *coding != "identity");
    if let Some(coding) = coding {
        let what = format!("content-encoding {coding:?} is not taken; send the body as it is");
        return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    let Some(written) = text(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = written.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if CONTENT_TYPES.contains(&kind.as_str()) {
        return Ok(());
    }
    let what = format!("content-type {written:?} is not taken; use text/plain, or none");
    Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, what))
}

/// The body, as far as it is not too long.
async fn whole(body: Body, headers: &HeaderMap, bytes_max: usize) -> Result<Vec<u8>, Refused> {
    let too_long = || {
        let what = format!("the body has more than {bytes_max} bytes (max_body): send it in parts");
        Refused(StatusCode::PAYLOAD_TOO_LARGE, what)
    };
    let said = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    // A body whose stated length is too great is not read at all.
    if said.and_then(|text| text.parse::<u64>().ok()).is_some_and(|said| said > bytes_max as u64) {
        return Err(too_long());
    }
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| {
            Refused(StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}"))
        })?;
        if bytes.len() + piece.len() > bytes_max {
            return Err(too_long());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
