//! What a source says about itself: counts, whether it reaches what it reads
//! from, and when it tries again. Every source has one [`Health`]; the status
//! shows it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::core::id::SourceId;
use crate::core::time::Uptime;

/// How a source fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthState {
    /// It has not reached anything yet, and nothing has failed.
    #[default]
    Starting,
    /// All is well.
    Up,
    /// Part of what it reads is out of reach; the rest comes.
    Degraded,
    /// It reads nothing, and tries again by itself.
    Down,
    /// It has ended: at its stop, or at the end of its input.
    Stopped,
}

impl HealthState {
    /// The word in the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            HealthState::Starting => "starting",
            HealthState::Up => "up",
            HealthState::Degraded => "degraded",
            HealthState::Down => "down",
            HealthState::Stopped => "stopped",
        }
    }
}

/// How a source fares at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthView {
    /// The state.
    pub state: HealthState,
    /// What is to be known of it, for people; of [`HealthState::Up`] the newest
    /// error, if there was one since the source came up.
    pub detail: Option<String>,
    /// Errors since the start.
    pub errors: u64,
    /// When it tries again, where that is planned.
    pub retry_at: Option<Uptime>,
    /// Polls left out since the start because the one before them was not done.
    pub missed_polls: u64,
}

#[derive(Debug, Default)]
struct Told {
    state: HealthState,
    detail: Option<String>,
    last_error: Option<String>,
    retry_at: Option<Uptime>,
}

/// What a source says about itself.
#[derive(Debug, Default)]
pub struct Health {
    connections: AtomicUsize,
    lines: AtomicU64,
    refused: AtomicU64,
    errors: AtomicU64,
    missed_polls: AtomicU64,
    told: Mutex<Told>,
}

impl Health {
    /// Open connections; 1 for a source that has no connections and runs.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Lines taken since the start, blank and refused ones included; readings
    /// where a source has no lines.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Lines refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The newest error of the source itself, for people.
    pub fn last_error(&self) -> Option<String> {
        self.with(|told| told.last_error.clone())
    }

    /// How it fares now.
    pub fn view(&self) -> HealthView {
        let errors = self.errors.load(Ordering::Relaxed);
        let missed_polls = self.missed_polls.load(Ordering::Relaxed);
        self.with(|told| HealthView {
            state: told.state,
            detail: told.detail.clone(),
            errors,
            retry_at: told.retry_at,
            missed_polls,
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Told) -> T) -> T {
        look(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All is well from here on.
    pub(super) fn up(&self) {
        self.with(|told| {
            (told.state, told.detail, told.retry_at) = (HealthState::Up, None, None);
        });
    }

    /// Part of it is out of reach; `detail` says what and why. Not an error of its
    /// own: those are counted by [`Health::note_error`] as they happen.
    pub(super) fn degraded(&self, detail: String, retry_at: Option<Uptime>) {
        self.tell(HealthState::Degraded, detail, retry_at);
    }

    /// Nothing of it is in reach; `detail` says why. Counts no error, as
    /// [`Health::degraded`].
    pub(super) fn down(&self, detail: String, retry_at: Option<Uptime>) {
        self.tell(HealthState::Down, detail, retry_at);
    }

    fn tell(&self, state: HealthState, detail: String, retry_at: Option<Uptime>) {
        self.with(|told| {
            (told.state, told.detail, told.retry_at) = (state, Some(detail), retry_at)
        });
    }

    /// It has ended.
    fn stopped(&self) {
        self.with(|told| (told.state, told.retry_at) = (HealthState::Stopped, None));
    }

    /// Counts an error, whatever becomes of the state.
    pub(super) fn note_error(&self, error: String) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.with(|told| {
            if told.state == HealthState::Up {
                told.detail = Some(error.clone());
            }
            told.last_error = Some(error);
        });
    }

    pub(super) fn note_missed(&self, polls: u64) {
        self.missed_polls.fetch_add(polls, Ordering::Relaxed);
    }

    pub(super) fn note_lines(&self, lines: u64, refused: u64) {
        self.lines.fetch_add(lines, Ordering::Relaxed);
        self.refused.fetch_add(refused, Ordering::Relaxed);
    }

    /// Counts one connection until the guard is dropped.
    pub(super) fn connect(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(Arc::clone(self))
    }

    /// Says that the source has ended when the guard is dropped.
    pub(super) fn until_dropped(self: &Arc<Self>) -> Running {
        Running(Arc::clone(self))
    }
}

pub(super) struct Connected(Arc<Health>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct Running(Arc<Health>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stopped();
    }
}

/// The health of every source that runs, by name: filled as they start, read by
/// whoever writes the status.
#[derive(Clone, Debug, Default)]
pub struct HealthBoard(Arc<Mutex<Vec<Place>>>);

type Place = (SourceId, Arc<Health>);

impl HealthBoard {
    /// Adds a source.
    pub fn add(&self, name: SourceId, health: Arc<Health>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, health));
    }

    /// Takes a source away.
    pub fn remove(&self, name: &SourceId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| known != name);
    }

    /// How each fares now.
    pub fn views(&self) -> Vec<(SourceId, HealthView)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, health)| (name.clone(), health.view())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_goes_down_says_why_and_when_it_tries_again() {
        let health = Health::default();
        assert_eq!(health.view(), HealthView::default());
        health.note_error("connect: refused".to_owned());
        health.down("connect: refused".to_owned(), Some(Uptime::from_ns(7)));
        let down = HealthView {
            state: HealthState::Down,
            detail: Some("connect: refused".to_owned()),
            errors: 1,
            retry_at: Some(Uptime::from_ns(7)),
            missed_polls: 0,
        };
        assert_eq!(health.view(), down);
        health.up();
        let up = HealthView { state: HealthState::Up, errors: 1, ..HealthView::default() };
        assert_eq!(health.view(), up);
        assert_eq!(health.last_error().as_deref(), Some("connect: refused"));
    }

    #[test]
    fn an_error_of_a_source_that_stays_up_is_its_detail() {
        let health = Arc::new(Health::default());
        health.up();
        health.note_error("accept: no files left".to_owned());
        let view = health.view();
        assert_eq!((view.state, view.errors), (HealthState::Up, 1));
        assert_eq!(view.detail.as_deref(), Some("accept: no files left"));
        health.degraded("1 of 2 files is gone".to_owned(), None);
        health.note_error("read: gone".to_owned());
        assert_eq!(health.view().detail.as_deref(), Some("1 of 2 files is gone"));
        drop(health.until_dropped());
        assert_eq!(health.view().state, HealthState::Stopped);
    }
}
