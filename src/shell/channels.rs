//! The channels to the driver.

use tokio::sync::{mpsc, watch};

use super::desk::Returned;
use super::driver::Inbox;
use super::roster::Change;
use crate::core::clock::ClockFacts;
use crate::core::id::UplinkId;
use crate::core::limits::{EVENT_QUEUE_MAX, SOURCE_QUEUE_MAX};
use crate::core::seam::{LinkEvent, StoreEvent};
use crate::http::api::Request;
use crate::source::SourceMessage;

/// Samples of the clock that wait for the driver; one would do.
const CLOCK_QUEUE: usize = 4;
/// Requests, and likewise readings out of the quarantine, that wait for the driver.
const REQUEST_QUEUE: usize = 16;

/// The sending ends of what the driver hears, besides that of the store.
#[derive(Debug)]
pub(super) struct Senders {
    /// For all sources.
    pub(super) sources: mpsc::Sender<SourceMessage>,
    /// For the link tasks.
    pub(super) link: mpsc::Sender<(UplinkId, LinkEvent)>,
    /// For what the machine says about its clocks.
    pub(super) clock: mpsc::Sender<ClockFacts>,
    /// For whoever wants a report of this moment, or vouches for the clock.
    pub(super) requests: mpsc::Sender<Request>,
    /// For what is handed in again out of the quarantine.
    pub(super) releases: mpsc::Sender<Returned>,
    /// For other sources from now on.
    pub(super) changes: mpsc::Sender<Change>,
    /// To be turned true once the sources have stopped.
    pub(super) stop: watch::Sender<bool>,
}

/// Both ends of all channels to the driver; `store` is there already.
pub(super) fn open(store: mpsc::Receiver<StoreEvent>) -> (Senders, Inbox) {
    let (sources, sources_inbox) = mpsc::channel(SOURCE_QUEUE_MAX);
    let (link, link_inbox) = mpsc::channel(EVENT_QUEUE_MAX);
    let (clock, clock_inbox) = mpsc::channel(CLOCK_QUEUE);
    let (requests, requests_inbox) = mpsc::channel(REQUEST_QUEUE);
    let (releases, releases_inbox) = mpsc::channel(REQUEST_QUEUE);
    let (changes, changes_inbox) = mpsc::channel(1);
    let (stop, stop_seen) = watch::channel(false);
    let inbox = Inbox {
        sources: sources_inbox,
        store,
        link: link_inbox,
        clock: clock_inbox,
        requests: requests_inbox,
        releases: releases_inbox,
        changes: changes_inbox,
        stop: stop_seen,
    };
    (Senders { sources, link, clock, requests, releases, changes, stop }, inbox)
}
