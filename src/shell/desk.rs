//! The desk: HTTP routes that ask the store (statistics, pages of the journal, checks) and
//! those of the quarantine, from where inputs can be handed in again.
//!
//! Only the list of the quarantine is for everybody on this machine. Routes that show
//! readings or change something are for the owner of the control socket.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::quarantine::{self, Chosen, Done};
use super::text;
use crate::config::Source;
use crate::core::id::{Offset, SourceId};
use crate::core::limits::REFUSALS_KEPT_MAX;
use crate::core::reading::{DeviceTime, Flags, Reading};
use crate::core::seam::{Outcome, Release, Released};
use crate::core::time::IngestTime;
use crate::source::ArrivalClock;
use crate::source::parse::{Fault, Parser};
use crate::store::quarantine::{Content, Filter, Refused};
use crate::store::{StoreError, worker};

/// Ids accepted in one request; a client with more asks again.
pub const CHOSEN_MAX: usize = 64;

/// Entries listed when the query gives no limit.
const LIST_DEFAULT: usize = 1_000;

/// An input that was released from the quarantine, on its way to the driver.
#[derive(Debug)]
pub struct Returned {
    /// The input; its `receipt` is filled in by the driver.
    pub release: Release,
    /// Answered once it is durable, or refused.
    pub receipt: oneshot::Sender<Outcome>,
}

/// The configured sources, as they are now.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<RwLock<BTreeMap<String, Source>>>);

impl Sources {
    /// Replaces all sources.
    pub fn set(&self, sources: &[Source]) {
        let all = sources.iter().map(|source| (source.name.clone(), source.clone())).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    fn find(&self, name: &str) -> Option<Source> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// What the routes need.
#[derive(Clone)]
pub struct Desk {
    /// The store.
    pub store: worker::Questions,
    /// The way of released inputs to the driver.
    pub releases: mpsc::Sender<Returned>,
    /// The configured sources, whose parsers are used again.
    pub sources: Sources,
    /// The clock that stamps arrivals.
    pub arrivals: ArrivalClock,
    /// The gateway's id.
    pub gateway: Arc<str>,
    /// The data directory.
    pub data_dir: Arc<PathBuf>,
}

/// The routes for everybody on this machine; they only read.
pub fn router(desk: Desk) -> Router {
    telling().with_state(desk)
}

/// Those of the control socket.
pub fn control_router(desk: Desk) -> Router {
    telling()
        .route("/api/v1/quarantine/{id}", get(show))
        .route("/api/v1/quarantine/release", post(release))
        .route("/api/v1/quarantine/discard", post(discard))
        .route("/api/v1/journal/stats", get(stats))
        .route("/api/v1/journal/page", get(page))
        .route("/api/v1/journal/verify", get(verify))
        .with_state(desk)
}

fn telling() -> Router<Desk> {
    Router::new().route("/api/v1/quarantine", get(list))
}

/// Why there is no answer.
struct Trouble(StatusCode, String);

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        (self.0, format!("{}\n", self.1)).into_response()
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

/// An input that was handed in again.
enum HandedIn {
    /// Its outcome is known.
    Done(Done),
    /// It waits for its commit.
    Waits { number: u64, readings: u64, outcome: oneshot::Receiver<Outcome> },
}

fn stopping() -> Trouble {
    Trouble(StatusCode::SERVICE_UNAVAILABLE, "the agent is stopping".into())
}

impl Desk {
    /// Asks the store, away from the runtime's threads.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut crate::store::Store) -> T + Send + 'static,
    ) -> Result<T, Trouble> {
        let store = self.store.clone();
        let answer = tokio::task::spawn_blocking(move || store.ask(question)).await;
        let gone = || Trouble(StatusCode::SERVICE_UNAVAILABLE, worker::WorkerGone.to_string());
        answer.ok().and_then(Result::ok).ok_or_else(gone)
    }

    /// Hands an input in again.
    async fn hand_in(&self, id: &str) -> Result<HandedIn, Trouble> {
        if let Some(done) = quarantine::unreleasable(id, &self.data_dir) {
            return Ok(HandedIn::Done(done));
        }
        let Ok(number) = id.parse::<u64>() else {
            return Ok(HandedIn::Done(quarantine::no_id(id)));
        };
        let kept = self.ask(move |store| store.refusals().show(number)).await??;
        let Some((refused, content)) = kept else {
            return Ok(HandedIn::Done(quarantine::absent(id)));
        };
        let released = match self.read(&refused, content) {
            Ok(released) => released,
            Err(fault) => {
                let (kind, place) = (fault.kind, quarantine::place(&refused.reason));
                let reason = format!("{place}{}", fault.what);
                self.ask(move |store| store.refusals().restate(number, kind, &reason)).await??;
                return Ok(HandedIn::Done(Done::new(id, "refused", 0, fault.what)));
            }
        };
        let readings = match &released {
            Released::Readings(readings) => readings.len() as u64,
            Released::Record(_) => 1,
        };
        let release = Release {
            source: SourceId::new(&refused.source),
            came: IngestTime::from_unix_ns(refused.at_unix_ns),
            arrival: (self.arrivals)(),
            released,
            receipt: None,
        };
        let (receipt, outcome) = oneshot::channel();
        self.releases.send(Returned { release, receipt }).await.map_err(|_| stopping())?;
        Ok(HandedIn::Waits { number, readings, outcome })
    }

    /// Waits for the outcome of an input that was handed in.
    async fn settle(&self, handed_in: HandedIn) -> Result<Done, Trouble> {
        let (number, readings, outcome) = match handed_in {
            HandedIn::Done(done) => return Ok(done),
            HandedIn::Waits { number, readings, outcome } => (number, readings, outcome),
        };
        let id = number.to_string();
        match outcome.await.map_err(|_| stopping())? {
            Outcome::Durable => {
                // Only when it is durable as a reading: before, a crash would lose it.
                self.ask(move |store| store.refusals().discard(number)).await??;
                Ok(Done::new(&id, "accepted", readings, ""))
            }
            Outcome::Full => Ok(Done::new(&id, "full", 0, "the buffer is full")),
        }
    }

    /// Turns a kept input back into readings, with the source's present parser.
    fn read(&self, refused: &Refused, content: Content) -> Result<Released, Fault> {
        let bytes = match content {
            Content::Reading(record) if record.seq.0 > 0 => return Ok(Released::Record(record)),
            Content::Reading(record) => return Ok(Released::Readings(vec![unstamped(*record)])),
            Content::Bytes(bytes) => bytes,
        };
        if (bytes.len() as u64) < refused.length {
            let what = format!("only {} of its {} bytes are kept", bytes.len(), refused.length);
            return Err(Fault { kind: "too_long", what });
        }
        let Some(source) = self.sources.find(&refused.source) else {
            let what = format!("no source {} is configured any more", refused.source);
            return Err(Fault { kind: "no_source", what });
        };
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Fault { kind: "not_utf8", what: "the line is not UTF-8".to_owned() })?;
        let mut readings = Vec::new();
        Parser::new(&source, source.format).parse(text, &mut readings)?;
        Ok(Released::Readings(readings))
    }
}

/// A reading that was refused for its time and so never journaled, as it came from its
/// source.
fn unstamped(record: crate::core::reading::Record) -> Reading {
    let stamp = record.stamp;
    Reading {
        series: record.series,
        value: record.value,
        quality: record.quality,
        quality_detail: record.quality_detail,
        device_time: Some(DeviceTime {
            at: stamp.event_time,
            utc_offset_s: stamp.utc_offset_s,
            flags: stamp.flags,
        }),
        id: record.id,
        flags: Flags::NONE,
    }
}

/// The values of a query, one for each of `keys`, in their order. Names of sources
/// and kinds need no escapes.
fn wanted<const N: usize>(
    query: Option<String>,
    keys: [&str; N],
) -> Result<[Option<String>; N], Trouble> {
    let mut found = [const { None }; N];
    let query = query.unwrap_or_default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(at) = keys.iter().position(|known| *known == key) else {
            let known = keys.join(", ");
            let what = format!("{key}: unknown; known here: {known}");
            return Err(Trouble(StatusCode::BAD_REQUEST, what));
        };
        found[at] = Some(value.to_owned());
    }
    Ok(found)
}

/// A number of a query.
fn number<T: std::str::FromStr>(key: &str, text: Option<String>) -> Result<Option<T>, Trouble> {
    let Some(text) = text else { return Ok(None) };
    let what = format!("{key}: {text:?} is not a number that fits");
    text.parse().map(Some).map_err(|_| Trouble(StatusCode::BAD_REQUEST, what))
}

async fn list(State(desk): State<Desk>, RawQuery(query): RawQuery) -> Result<Response, Trouble> {
    let [source, kind, limit] = wanted(query, ["source", "kind", "limit"])?;
    let limit = number("limit", limit)?.unwrap_or(LIST_DEFAULT).min(REFUSALS_KEPT_MAX);
    let filter = Filter { source, kind };
    let (data_dir, gateway) = (Arc::clone(&desk.data_dir), Arc::clone(&desk.gateway));
    let listing = desk
        .ask(move |store| quarantine::list(store.refusals(), &data_dir, &gateway, &filter, limit))
        .await??;
    Ok(Json(listing).into_response())
}

async fn show(State(desk): State<Desk>, Path(id): Path<u64>) -> Result<Response, Trouble> {
    let gateway = Arc::clone(&desk.gateway);
    let whole = desk.ask(move |store| quarantine::show(store.refusals(), &gateway, id)).await??;
    let absent = || Trouble(StatusCode::NOT_FOUND, quarantine::absent(&id.to_string()).detail);
    Ok(Json(whole.ok_or_else(absent)?).into_response())
}

fn checked(chosen: Chosen) -> Result<Vec<String>, Trouble> {
    if chosen.ids.len() > CHOSEN_MAX {
        let what = format!("ids: {} at once; at most {CHOSEN_MAX}", chosen.ids.len());
        return Err(Trouble(StatusCode::BAD_REQUEST, what));
    }
    let ids: BTreeSet<&str> = chosen.ids.iter().map(|id| id.trim_start_matches('0')).collect();
    if ids.len() < chosen.ids.len() {
        let what = "ids: one of them comes twice".to_owned();
        return Err(Trouble(StatusCode::BAD_REQUEST, what));
    }
    Ok(chosen.ids)
}

async fn release(
    State(desk): State<Desk>,
    Json(chosen): Json<Chosen>,
) -> Result<Response, Trouble> {
    let ids = checked(chosen)?;
    // All are handed in first, in their order, so that they share a commit. Each is settled
    // whatever becomes of the others: one that was journaled must not stay in quarantine,
    // or it could be released twice.
    let mut handed_in = Vec::new();
    for id in &ids {
        handed_in.push(desk.hand_in(id).await);
    }
    let mut done = Vec::new();
    for one in handed_in {
        done.push(match one {
            Ok(one) => desk.settle(one).await,
            Err(trouble) => Err(trouble),
        });
    }
    let done: Vec<Done> = done.into_iter().collect::<Result<_, _>>()?;
    Ok(Json(done).into_response())
}

async fn discard(
    State(desk): State<Desk>,
    Json(chosen): Json<Chosen>,
) -> Result<Response, Trouble> {
    let mut done = Vec::new();
    for id in checked(chosen)? {
        let data_dir = Arc::clone(&desk.data_dir);
        let one = desk.ask(move |store| quarantine::discard(store.refusals(), &data_dir, &id));
        done.push(one.await??);
    }
    Ok(Json(done).into_response())
}

async fn stats(State(desk): State<Desk>) -> Result<Response, Trouble> {
    let stats = desk.ask(|store| store.stats()).await?;
    Ok(Json(stats).into_response())
}

/// The first line of a page; the entries follow, one a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageHead {
    /// Where the next page begins.
    pub next: u64,
    /// Where the journal ends.
    pub end: u64,
    /// What could not be read on the way.
    pub damage: Option<String>,
}

async fn page(State(desk): State<Desk>, RawQuery(query): RawQuery) -> Result<Response, Trouble> {
    let [from] = wanted(query, ["from"])?;
    let from = Offset(number("from", from)?.unwrap_or(0));
    let page = desk.ask(move |store| store.look(from)).await??;
    let head = PageHead { next: page.next.0, end: page.end.0, damage: page.damage };
    let head = serde_json::to_vec(&head)
        .map_err(|error| Trouble(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let mut body = head;
    body.push(b'\n');
    for (_, entry) in &page.entries {
        text::line(&desk.gateway, entry, &mut body);
    }
    Ok(body.into_response())
}

async fn verify(State(desk): State<Desk>, RawQuery(query): RawQuery) -> Result<Response, Trouble> {
    let [segment] = wanted(query, ["segment"])?;
    let segment: u32 = number("segment", segment)?.unwrap_or(0);
    let begun = desk.ask(move |store| store.begin_check(segment)).await?;
    let mut checking = match begun {
        Ok(Some(checking)) => checking,
        Ok(None) => {
            let what = format!("segment {segment:06} is gone: all of it was done with");
            return Err(Trouble(StatusCode::NOT_FOUND, what));
        }
        Err(error @ StoreError::Busy(_)) => return Err(error.into()),
        Err(error) => {
            let damage = vec![error.to_string()];
            let report =
                crate::store::inspect::SegmentReport { id: segment, frames: 0, entries: 0, damage };
            return Ok(Json(report).into_response());
        }
    };
    // Some frames at a time, so that commits can be made in between.
    loop {
        let (on, result) = desk
            .ask(move |store| {
                let result = store.check_on(&mut checking);
                (checking, result)
            })
            .await?;
        result?;
        if let Some(report) = on.report() {
            return Ok(Json(report).into_response());
        }
        checking = on;
    }
}
