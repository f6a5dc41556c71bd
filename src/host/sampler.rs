//! Gathers what the machine says about its clocks, as a task of its own.
//!
//! The kernel is asked each second, at once when somebody sets the wall clock,
//! and when asked for. The daemons are asked in the background, every 16 s and
//! right after a change: a slow one never delays the kernel's word. Their newest
//! answers are carried until they are too old to mean anything.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use super::carried::Carried;
use super::chrony::ChronyError;
use super::ptp::PtpError;
use super::step_watch::StepWatch;
use super::{chrony, kernel_clock, ptp, timesyncd};
use crate::core::clock::Reference;
use crate::core::clock::chrony::ChronyReport;
use crate::core::clock::facts::ClockFacts;
use crate::core::clock::kernel::KernelClock;
use crate::core::clock::ptp::PtpReport;
use crate::core::time::IngestTime;

/// Between two samples of the kernel.
const INTERVAL: Duration = Duration::from_secs(1);

/// Who is asked, by whose word is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// `adjtimex`.
    pub kernel: bool,
    /// chronyd.
    pub chrony: bool,
    /// ptp4l.
    pub ptp: bool,
    /// systemd-timesyncd's file.
    pub timesyncd: bool,
}

impl Asked {
    /// Nobody is asked for `none`: the clock then counts as unsynchronized.
    pub const fn by(reference: Reference) -> Self {
        let is_auto = matches!(reference, Reference::Auto);
        Self {
            kernel: !matches!(reference, Reference::None),
            chrony: is_auto || matches!(reference, Reference::Chrony),
            ptp: is_auto || matches!(reference, Reference::Ptp4l),
            timesyncd: is_auto || matches!(reference, Reference::Kernel),
        }
    }
}

/// What the sampler looks at.
#[derive(Clone, Debug)]
pub struct SamplerSettings {
    /// Whom to ask.
    pub reference: Reference,
    /// chronyd's command port; [`chrony::DEFAULT_ADDRESS`] as a rule.
    pub chrony_address: SocketAddr,
    /// Where the file system begins: `/`, or a test's folder.
    pub root: PathBuf,
}

/// The running sampler. It ends when the receiver of its facts is gone, and
/// with the runtime.
#[derive(Debug)]
pub struct Sampler {
    /// The task.
    pub task: JoinHandle<()>,
    wanted: Arc<Notify>,
}

impl Sampler {
    /// Asks the kernel and the daemons again now, not at the next interval. Only
    /// tests call it: they cannot wait for an interval.
    pub fn sample_now(&self) {
        self.wanted.notify_one();
    }
}

/// Starts sampling into `out`; the first facts come at once, without the
/// daemons' answers. Needs a tokio runtime with I/O and time.
///
/// A sample is only taken when `out` has room for it, so a slow receiver gets
/// fewer facts but no old ones beyond what the channel holds.
pub fn spawn(settings: SamplerSettings, out: mpsc::Sender<ClockFacts>) -> Sampler {
    let wanted = Arc::new(Notify::new());
    let sampling = Sampling {
        settings,
        chrony: Carried::default(),
        ptp: Carried::default(),
        answers: JoinSet::new(),
        has_chrony: false,
        said_unreadable: false,
    };
    Sampler { task: tokio::spawn(sampling.run(out, Arc::clone(&wanted))), wanted }
}

/// What can be had without waiting for a daemon: for the first stamp.
pub fn first(settings: &SamplerSettings) -> ClockFacts {
    let asked = Asked::by(settings.reference);
    let root = &settings.root;
    ClockFacts {
        timesyncd_at: timesyncd::synchronized_at(root).filter(|_| asked.timesyncd),
        has_daemon: timesyncd::is_present(root) || ptp::socket(root).is_some(),
        chrony: None,
        ptp: None,
        kernel: kernel_clock::sample().ok().filter(|_| asked.kernel),
    }
}

/// What a daemon said, or why it said nothing.
enum Answer {
    Chrony(Result<(ChronyReport, IngestTime), ChronyError>),
    Ptp(Result<PtpReport, PtpError>),
}

struct Sampling {
    settings: SamplerSettings,
    chrony: Carried<(ChronyReport, IngestTime)>,
    ptp: Carried<PtpReport>,
    /// The questions under way, at most one to each daemon.
    answers: JoinSet<Answer>,
    has_chrony: bool,
    said_unreadable: bool,
}

impl Sampling {
    async fn run(mut self, out: mpsc::Sender<ClockFacts>, wanted: Arc<Notify>) {
        let mut watch = StepWatch::new().inspect_err(blind).ok();
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = changed(&mut watch) => self.ask_again(),
                () = wanted.notified() => self.ask_again(),
                Some(answer) = self.answers.join_next() => {
                    // A question that panicked counts as not answered.
                    self.take(answer.ok());
                }
                () = out.closed() => return,
            }
            self.ask();
            let Ok(room) = out.reserve().await else { return };
            room.send(self.sample());
        }
    }

    /// The daemons' answers from before a change of the clock are carried on,
    /// but not for long.
    fn ask_again(&mut self) {
        self.chrony.ask_soon();
        self.ptp.ask_soon();
    }

    /// Asks those whose turn it is.
    fn ask(&mut self) {
        let now = kernel_clock::mono();
        let asked = Asked::by(self.settings.reference);
        if asked.chrony && self.chrony.ask(now) {
            let address = self.settings.chrony_address;
            self.answers.spawn(async move {
                let report = chrony::track(address).await;
                Answer::Chrony(report.map(|report| (report, kernel_clock::wall())))
            });
        }
        if !asked.ptp {
            return;
        }
        match ptp::socket(&self.settings.root) {
            None => self.ptp.forget(),
            Some(socket) if self.ptp.ask(now) => {
                self.answers.spawn(async move { Answer::Ptp(ptp::ask(&socket).await) });
            }
            Some(_) => {}
        }
    }

    fn take(&mut self, answer: Option<Answer>) {
        let now = kernel_clock::mono();
        match answer {
            Some(Answer::Chrony(Ok(report))) => {
                self.has_chrony = true;
                self.chrony.answered(report, now);
            }
            Some(Answer::Chrony(Err(error))) => {
                let is_expected = self.settings.reference == Reference::Chrony || self.has_chrony;
                if self.chrony.failed() {
                    lost("chronyd", &error, is_expected);
                }
            }
            Some(Answer::Ptp(Ok(report))) => self.ptp.answered(report, now),
            // Its socket is there, so it should answer.
            Some(Answer::Ptp(Err(error))) => {
                if self.ptp.failed() {
                    lost("ptp4l", &error, true);
                }
            }
            None => {
                self.chrony.failed();
                self.ptp.failed();
            }
        }
    }

    fn sample(&mut self) -> ClockFacts {
        let now = kernel_clock::mono();
        let asked = Asked::by(self.settings.reference);
        let root = &self.settings.root;
        ClockFacts {
            timesyncd_at: timesyncd::synchronized_at(root).filter(|_| asked.timesyncd),
            has_daemon: self.has_chrony
                || timesyncd::is_present(root)
                || ptp::socket(root).is_some(),
            chrony: self.chrony.current(now).cloned(),
            ptp: self.ptp.current(now).copied(),
            kernel: if asked.kernel { self.kernel() } else { None },
        }
    }

    fn kernel(&mut self) -> Option<KernelClock> {
        match kernel_clock::sample() {
            Ok(kernel) => Some(kernel),
            Err(error) => {
                if !self.said_unreadable {
                    self.said_unreadable = true;
                    tracing::warn!(%error, "adjtimex cannot be read: the kernel vouches for nothing");
                }
                None
            }
        }
    }
}

/// Waits for a change of the wall clock; for ever, where it cannot be watched.
async fn changed(watch: &mut Option<StepWatch>) {
    if let Some(watching) = watch {
        match watching.changed().await {
            Ok(()) => return,
            Err(error) => blind(&error),
        }
        *watch = None;
    }
    std::future::pending().await
}

fn blind(error: &std::io::Error) {
    tracing::warn!(%error, "a change of the wall clock cannot be watched: it is seen a second late");
}

fn lost(daemon: &str, error: &dyn fmt::Display, is_expected: bool) {
    if is_expected {
        tracing::warn!(daemon, %error, "the time daemon does not answer: the kernel's word counts");
    } else {
        tracing::debug!(daemon, %error, "no such time daemon answers");
    }
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
