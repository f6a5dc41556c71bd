//! Results of windows for whoever looks: `/api/v1/windows` has the newest of each
//! series, with `?history=1` those before it too; `/api/v1/stream` tells every change as
//! server-sent events.
//!
//! | event | data |
//! | --- | --- |
//! | `window` | a result, as the uplink sends it |
//! | `late` | a reading that came too late for a window, likewise |
//! | `status` | what `/api/v1/status` says, at once and then every second: a client that hears nothing for a few is cut off |
//! | `lagged` | `{"missed":N}`: this client did not read, and so many events were left out |

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::api::Api;
use super::history::{self, History};
use super::windows::ResultCounts;
use crate::core::window::{LateReading, Latest, WindowResult};
use crate::wire::json;

/// Series whose newest result is kept.
const SERIES_MAX: usize = 4_096;
/// Events that wait for a client that does not read; beyond, it is told how many
/// it missed.
const EVENTS_MAX: usize = 1_024;
/// Clients of the stream.
pub(super) const CLIENTS_MAX: usize = 32;
/// Between two `status` events: the page calls itself stale after five seconds
/// without one.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// Longest silence of the stream: then a comment goes out, so that proxies keep the
/// connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What the driver hands committed results to. Cheap to clone; costs next to
/// nothing while nobody looks.
#[derive(Clone, Debug)]
pub struct Results {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    gateway: Arc<str>,
    latest: Mutex<Latest<Arc<WindowResult>>>,
    history: Mutex<History>,
    counts: Mutex<BTreeMap<String, ResultCounts>>,
    events: broadcast::Sender<Told>,
    places: Arc<Semaphore>,
}

#[derive(Clone, Debug)]
enum Told {
    Window(Arc<WindowResult>),
    Late(Arc<LateReading>),
}

impl Results {
    /// Results of this gateway; none yet.
    pub fn new(gateway: &str) -> Self {
        Self::with_room(gateway, EVENTS_MAX)
    }

    fn with_room(gateway: &str, events: usize) -> Self {
        let shared = Shared {
            gateway: gateway.into(),
            latest: Mutex::new(Latest::new(SERIES_MAX)),
            history: Mutex::new(History::new(history::PER_SERIES_MAX, history::BYTES_MAX)),
            counts: Mutex::new(BTreeMap::new()),
            events: broadcast::channel(events).0,
            places: Arc::new(Semaphore::new(CLIENTS_MAX)),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Takes a committed result in. Never blocks for long.
    pub fn push(&self, result: Arc<WindowResult>) {
        self.count(&result.window, |counts| counts.count(&result));
        self.latest().note(&result, Arc::clone(&result));
        self.history().note(&result);
        // An error says that nobody listens.
        let _ = self.shared.events.send(Told::Window(result));
    }

    /// Takes a committed late reading in.
    pub fn late(&self, late: Arc<LateReading>) {
        self.count(&late.window, |counts| counts.too_late += 1);
        let _ = self.shared.events.send(Told::Late(late));
    }

    /// What each window has said, by name; those that said nothing are left out.
    pub fn counts(&self) -> BTreeMap<String, ResultCounts> {
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, window: &str, count: impl FnOnce(&mut ResultCounts)) {
        let mut counts = self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(window) {
            Some(of_window) => count(of_window),
            None => count(counts.entry(window.to_owned()).or_default()),
        }
    }

    fn latest(&self) -> std::sync::MutexGuard<'_, Latest<Arc<WindowResult>>> {
        self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.shared.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest of each series, the last changed first.
    fn newest(&self, asked: &Asked) -> Vec<Arc<WindowResult>> {
        let latest = self.latest();
        let all = latest.newest_first().map(|(_, result)| result);
        all.filter(|result| asked.takes(result)).cloned().collect()
    }

    /// All that is kept, series by series, the oldest of each first.
    fn remembered(&self, asked: &Asked) -> Vec<Arc<WindowResult>> {
        self.history().all().filter(|result| asked.takes(result)).cloned().collect()
    }

    /// A JSON array.
    fn array(&self, asked: &Asked) -> Vec<u8> {
        // Written when nobody waits for a lock any more.
        let chosen = if asked.history { self.remembered(asked) } else { self.newest(asked) };
        let mut out = vec![b'['];
        for (i, result) in chosen.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            json::window_result(&self.shared.gateway, result, &mut out);
        }
        out.push(b']');
        out
    }

    fn event(&self, told: &Told) -> Event {
        let mut data = Vec::with_capacity(768);
        let name = match told {
            Told::Window(result) => {
                json::window_result(&self.shared.gateway, result, &mut data);
                "window"
            }
            Told::Late(late) => {
                json::late_reading(&self.shared.gateway, late, &mut data);
                "late"
            }
        };
        // JSON of ours has no line break and is UTF-8.
        Event::default().event(name).data(String::from_utf8_lossy(&data))
    }
}

/// Which results a client wants.
#[derive(Debug, Default)]
struct Asked {
    /// Of this window alone.
    window: Option<String>,
    /// Not only the newest of each series.
    history: bool,
}

impl Asked {
    /// Reads a query; `None` if it asks for what there is not.
    fn read(query: &str) -> Option<Self> {
        let mut asked = Self::default();
        for part in query.split('&').filter(|_| !query.is_empty()) {
            match part.split_once('=')? {
                ("window", name) if asked.window.is_none() => asked.window = Some(decoded(name)),
                ("history", "1") if !asked.history => asked.history = true,
                _ => return None,
            }
        }
        Some(asked)
    }

    fn takes(&self, result: &WindowResult) -> bool {
        self.window.as_deref().is_none_or(|window| window == &*result.window)
    }
}

/// `GET /api/v1/windows`, with `?window=NAME` for one of them, with `?history=1` for the
/// results before the newest too.
pub(super) async fn windows(State(api): State<Api>, RawQuery(query): RawQuery) -> Response {
    let Some(asked) = Asked::read(&query.unwrap_or_default()) else {
        let said = "the parameters there are, each once: window=NAME and history=1\n";
        return (StatusCode::BAD_REQUEST, said).into_response();
    };
    let body = api.results.array(&asked);
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Undoes the `%XX` of a query; what is none stays as it is.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let hex = pair.filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One client of the stream.
struct Follower {
    api: Api,
    events: broadcast::Receiver<Told>,
    status_due: Interval,
    _place: OwnedSemaphorePermit,
}

/// `GET /api/v1/stream`.
pub(super) async fn stream(State(api): State<Api>) -> Response {
    let Ok(place) = Arc::clone(&api.results.shared.places).try_acquire_owned() else {
        let said = format!("{CLIENTS_MAX} clients follow already\n");
        return (StatusCode::SERVICE_UNAVAILABLE, said).into_response();
    };
    let events = api.results.shared.events.subscribe();
    let mut status_due = interval(STATUS_EVERY);
    status_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let follower = Follower { api, events, status_due, _place: place };
    let events = unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<Event, Infallible>(event), follower))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

impl Follower {
    /// The next event; `None` when the agent stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            tokio::select! {
                told = self.events.recv() => return match told {
                    Ok(told) => Some(self.api.results.event(&told)),
                    Err(RecvError::Lagged(missed)) => {
                        let data = format!(r#"{{"missed":{missed}}}"#);
                        Some(Event::default().event("lagged").data(data))
                    }
                    Err(RecvError::Closed) => None,
                },
                _ = self.status_due.tick() => {
                    // A driver that does not answer now may the next time.
                    let Ok(report) = self.api.report().await else { continue };
                    let Ok(data) = serde_json::to_string(&*report) else { continue };
                    return Some(Event::default().event("status").data(data));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
pub(super) mod tests;
