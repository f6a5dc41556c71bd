//! The sources that run: started, stopped one by one, and all at the end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::ingest::Doors;
use crate::config::Source;
use crate::core::agent::SourceSettings;
use crate::core::id::SourceId;
use crate::host::HostClock;
use crate::source::health::HealthBoard;
use crate::source::{self, Bound, SourceHandle, SourceMessage};

/// The positions of sources that go on from them.
pub type Positions = BTreeMap<SourceId, Arc<[u8]>>;

/// A change of the configured sources, for the driver.
#[derive(Debug)]
pub struct Change {
    /// All of them, from now on.
    pub sources: BTreeMap<SourceId, SourceSettings>,
    /// Answered when the agent has them.
    pub positions: oneshot::Sender<Positions>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Roster {
    members: BTreeMap<String, Member>,
    messages: mpsc::Sender<SourceMessage>,
    clock: Arc<HostClock>,
    doors: Doors,
    health: HealthBoard,
}

#[derive(Debug)]
struct Member {
    handle: SourceHandle,
    stop: watch::Sender<bool>,
    has_ended: bool,
}

impl Roster {
    /// A roster without running sources.
    pub(super) fn new(
        messages: mpsc::Sender<SourceMessage>,
        clock: Arc<HostClock>,
        doors: Doors,
        health: HealthBoard,
    ) -> Self {
        Self { members: BTreeMap::new(), messages, clock, doors, health }
    }

    /// Starts a source with the listener that was bound for it, from its position.
    pub(super) fn start(&mut self, source: &Source, bound: Bound, positions: &Positions) {
        let clock = Arc::clone(&self.clock);
        let arrivals: source::ArrivalClock = Arc::new(move || clock.arrival());
        let position = positions.get(&SourceId::new(&source.name)).cloned().unwrap_or_default();
        let (stop, stop_seen) = watch::channel(false);
        let out = self.messages.clone();
        let handle = source::spawn_bound(source, bound, position, out, arrivals, stop_seen);
        self.health.add(handle.name.clone(), Arc::clone(&handle.health));
        let member = Member { handle, stop, has_ended: false };
        self.members.insert(source.name.clone(), member);
    }

    /// Routes posted bodies to the sources that run now.
    pub(super) fn open_doors(&self) {
        let pushes = self.members.iter().filter_map(|(name, member)| {
            Some((name.clone(), Arc::clone(member.handle.push.as_ref()?)))
        });
        self.doors.open(pushes);
    }

    /// Where they listen, by name, as far as they had their address when they started.
    pub(super) fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let listening = self.members.iter();
        listening.filter_map(|(name, one)| Some((name.clone(), one.handle.local_addr?))).collect()
    }

    /// Stops those of them that `leaves` names: they hand over what they hold, and
    /// wait for its receipts. One that does not come to an end is left behind. May be
    /// dropped half done, and asked again.
    pub(super) async fn stop(&mut self, leaves: impl Fn(&str) -> bool, within: Duration) {
        let leaving = || |(name, _): &(&String, &mut Member)| leaves(name);
        for (_, member) in self.members.iter_mut().filter(leaving()) {
            member.stop.send_replace(true);
        }
        let all = async {
            for (name, member) in self.members.iter_mut().filter(leaving()) {
                member.ended(name).await;
            }
        };
        // All have had the same time: those still running are left behind.
        let is_late = timeout(within, all).await.is_err();
        for (name, member) in self.members.iter_mut().filter(leaving()).filter(|_| is_late) {
            if !member.has_ended && !member.handle.join.is_finished() {
                tracing::warn!(source = name, "the source does not stop: left behind");
                member.handle.join.abort();
            }
            member.ended(name).await;
        }
        for (_, member) in self.members.iter_mut().filter(leaving()) {
            self.health.remove(&member.handle.name);
        }
        self.members.retain(|name, _| !leaves(name));
    }
}

impl Member {
    async fn ended(&mut self, name: &str) {
        if self.has_ended {
            return;
        }
        let end = (&mut self.handle.join).await;
        self.has_ended = true;
        match end {
            Ok(()) => tracing::debug!(name, "the source has stopped"),
            Err(error) if error.is_cancelled() => {}
            Err(error) => tracing::error!(source = name, %error, "the source broke down"),
        }
    }
}
