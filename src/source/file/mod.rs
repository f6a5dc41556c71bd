//! Files that are followed, through every kind of rotation.
//!
//! A batch carries where the source is after it, and that becomes durable in the
//! commit of its readings: a crash repeats no line and skips none. A batch is
//! taken only where the one before it ended; when one is turned away, all that
//! follow are, and the source goes back to what is durable.
//!
//! Rotation: a file that was renamed is read to its end, also if that happened
//! while nobody looked, as long as it stays in its folder. A file that was cut, or
//! written anew, is read from its beginning. What only was in a file between two
//! looks cannot be known.

mod follow;
mod place;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use self::follow::{Follower, Step};
use super::{Door, SourceMessage};
use crate::config::{FileSource, Source};
use crate::core::reading::Arrival;
use crate::core::seam::{Advance, Batch, Outcome};
use crate::core::time::Uptime;

/// Batches that wait for their receipts.
const OUTSTANDING_MAX: usize = 32;
/// How long to wait before what was turned away is handed in again.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// Follows files until the source is stopped. `position` is where it goes on,
/// empty where it begins.
pub(super) async fn run(settings: FileSource, source: Source, position: Arc<[u8]>, door: Door) {
    let follower = Follower::new(&source, &settings, &position);
    let handed_in = Arc::clone(&position);
    let mut following = Following {
        follower: Some(follower),
        durable: position,
        handed_in,
        outstanding: VecDeque::new(),
        troubles: Vec::new(),
        looked_at: Uptime::default(),
        settings,
        source,
        door,
    };
    let _connected = following.door.health.connect();
    following.run().await;
}

struct Following {
    /// Elsewhere while it waits for the disk.
    follower: Option<Follower>,
    /// Everything up to here is durable.
    durable: Arc<[u8]>,
    /// Everything up to here is handed in.
    handed_in: Arc<[u8]>,
    outstanding: VecDeque<(oneshot::Receiver<Outcome>, Arc<[u8]>)>,
    troubles: Vec<String>,
    /// When the last look ended.
    looked_at: Uptime,
    settings: FileSource,
    source: Source,
    door: Door,
}

/// What the source does next.
enum Next {
    Step,
    Look,
    /// Nobody takes batches any more.
    End,
}

impl Following {
    async fn run(&mut self) {
        let mut next = Next::Look;
        loop {
            if *self.door.stop.borrow() {
                break;
            }
            next = match next {
                Next::Look => self.look().await,
                Next::Step => match self.step().await {
                    // Where there is always something to read there may be new files.
                    Next::Step if self.is_look_due() => Next::Look,
                    next => next,
                },
                Next::End => return,
            };
        }
        // What is out becomes durable with the last commit, or is read again.
        while self.settle_one().await.is_some() {}
    }

    /// Does something with the disk, away from the runtime's threads.
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Follower) -> T + Send + 'static,
    ) -> Option<T> {
        let mut follower = self.follower.take()?;
        let task = tokio::task::spawn_blocking(move || {
            let result = work(&mut follower);
            (follower, result)
        });
        // It fails only where the work panicked, or the runtime ends.
        let (follower, result) = task.await.ok()?;
        self.follower = Some(follower);
        Some(result)
    }

    async fn look(&mut self) -> Next {
        let now = (self.door.clock)().uptime;
        if self.with(move |follower| follower.look(now)).await.is_none() {
            return Next::End;
        }
        self.looked_at = (self.door.clock)().uptime;
        self.tell_of_files();
        Next::Step
    }

    fn is_look_due(&self) -> bool {
        let since = (self.door.clock)().uptime.since_ns(self.looked_at);
        u128::from(since) >= self.settings.poll.as_nanos()
    }

    fn tell_of_files(&mut self) {
        let troubles = self.follower.as_ref().map(Follower::troubles);
        self.tell(troubles.unwrap_or_default());
    }

    /// Says what is wrong when that changes.
    fn tell(&mut self, troubles: Vec<String>) {
        if troubles.is_empty() {
            self.door.health.up();
        } else if troubles != self.troubles {
            self.door.health.note_error(troubles.join("; "));
            let said = troubles.join("; ");
            match self.follower.as_ref().is_some_and(Follower::is_reading) {
                true => self.door.health.degraded(said, None),
                false => self.door.health.down(said, None),
            }
        }
        self.troubles = troubles;
    }

    async fn step(&mut self) -> Next {
        let arrival = (self.door.clock)();
        let Some(step) = self.with(move |follower| follower.step(arrival)).await else {
            return Next::End;
        };
        match step {
            Step::Lines(gathered) => {
                self.door.health.note_lines(gathered.lines, gathered.batch.refused.len() as u64);
                // Blank lines move the place with the next batch.
                let batch = gathered.batch;
                if batch.readings.is_empty() && batch.refused.is_empty() {
                    return Next::Step;
                }
                self.hand_in(batch).await
            }
            Step::Nothing => {
                self.tell_of_files();
                self.rest(arrival).await
            }
        }
    }

    /// Nothing is new: where the source is becomes durable, and time passes.
    async fn rest(&mut self, arrival: Arrival) -> Next {
        let Some(follower) = &self.follower else { return Next::End };
        if follower.position() != self.handed_in {
            let source = self.door.name.clone();
            let (readings, refused) = (Vec::new(), Vec::new());
            let batch = Batch { source, arrival, readings, refused, advance: None, receipt: None };
            return self.hand_in(batch).await;
        }
        let waits = !self.outstanding.is_empty();
        let mut door = self.door.clone();
        let poll = self.settings.poll;
        tokio::select! {
            () = door.stopped() => Next::Look,
            settled = self.settle_one(), if waits => match settled {
                Some(true) => Next::Step,
                Some(false) => self.go_back().await,
                None => Next::End,
            },
            () = tokio::time::sleep(poll) => Next::Look,
        }
    }

    async fn hand_in(&mut self, mut batch: Batch) -> Next {
        let Some(follower) = &self.follower else { return Next::End };
        let to = follower.position();
        let from = std::mem::replace(&mut self.handed_in, Arc::clone(&to));
        batch.advance = Some(Advance { from, to: Arc::clone(&to) });
        let (answer, receipt) = oneshot::channel();
        let message = SourceMessage { batch, receipt: Some(answer) };
        let mut door = self.door.clone();
        tokio::select! {
            biased;
            sent = self.door.out.send(message) => match sent {
                Ok(()) => self.outstanding.push_back((receipt, to)),
                Err(_) => return Next::End,
            },
            () = door.stopped() => return Next::Look,
        }
        while self.outstanding.len() > OUTSTANDING_MAX {
            match self.settle_one().await {
                Some(true) => {}
                Some(false) => return self.go_back().await,
                None => return Next::End,
            }
        }
        Next::Step
    }

    /// Waits for the oldest receipt: whether its batch is durable. `None` when there
    /// is none, or nobody gives any.
    async fn settle_one(&mut self) -> Option<bool> {
        let (receipt, _) = self.outstanding.front_mut()?;
        let outcome = receipt.await.ok();
        let (_, to) = self.outstanding.pop_front()?;
        if outcome? == Outcome::Full {
            return Some(false);
        }
        self.durable = to;
        Some(true)
    }

    /// A batch was turned away, and so will be all that follow: begins again where
    /// the durable ones end.
    async fn go_back(&mut self) -> Next {
        while let Some(is_durable) = self.settle_one().await {
            debug_assert!(!is_durable, "only what goes on from the last one is taken");
        }
        self.follower = Some(Follower::new(&self.source, &self.settings, &self.durable));
        self.handed_in = Arc::clone(&self.durable);
        self.tell(vec!["the buffer is full: what is new in the files waits".to_owned()]);
        let mut door = self.door.clone();
        tokio::select! {
            () = door.stopped() => {}
            () = tokio::time::sleep(FULL_PAUSE) => {}
        }
        Next::Look
    }
}
