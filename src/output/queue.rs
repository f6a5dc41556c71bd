//! What waits for one output: bounded, the oldest goes first, and it is counted.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Item;

#[derive(Debug)]
pub(super) struct Queue {
    inside: Mutex<Inside>,
    changed: Notify,
    limit: usize,
}

#[derive(Debug, Default)]
struct Inside {
    items: VecDeque<Item>,
    dropped: u64,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(limit: usize) -> Self {
        Self { inside: Mutex::default(), changed: Notify::new(), limit }
    }

    pub(super) fn push(&self, item: Item) {
        let mut inside = self.inside();
        if inside.items.len() >= self.limit {
            inside.items.pop_front();
            inside.dropped += 1;
        }
        inside.items.push_back(item);
        drop(inside);
        self.changed.notify_one();
    }

    /// Waits for items and takes up to `most`, oldest first. `None` once the
    /// queue is closed and empty. Nothing is lost when the future is dropped.
    pub(super) async fn take(&self, most: usize) -> Option<Vec<Item>> {
        loop {
            {
                let mut inside = self.inside();
                if !inside.items.is_empty() {
                    let count = inside.items.len().min(most);
                    return Some(inside.items.drain(..count).collect());
                }
                if inside.is_closed {
                    // Kept for whoever asks again.
                    self.changed.notify_one();
                    return None;
                }
            }
            // One permit is kept for a push between the look and the wait.
            self.changed.notified().await;
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.inside().is_closed = true;
        self.changed.notify_one();
    }

    /// Whether nothing more will come.
    pub(super) fn is_closed(&self) -> bool {
        self.inside().is_closed
    }

    pub(super) fn dropped(&self) -> u64 {
        self.inside().dropped
    }

    /// Counts items that were taken and dropped elsewhere.
    pub(super) fn count_dropped(&self, items: u64) {
        self.inside().dropped += items;
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
