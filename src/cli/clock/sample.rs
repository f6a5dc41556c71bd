//! The machine's clock, looked at once and without an agent. There is no memory:
//! no events, no learnt rate, no earlier boots.

use std::net::SocketAddr;
use std::path::Path;

use super::Boot;
use crate::core::clock::chrony::ChronyReport;
use crate::core::clock::ptp::PtpReport;
use crate::core::clock::{BootFacts, ClockFacts, ClockModel, ClockSettings, Reference};
use crate::core::id::Offset;
use crate::core::seam::{ClockLedger, Now};
use crate::core::status::ClockStatus;
use crate::core::time::IngestTime;
use crate::exit::Failure;
use crate::host::sampler::Asked;
use crate::host::{HostClock, boot, chrony, kernel_clock, ptp, timesyncd};
use crate::http::clock::Clock;

/// Where the file system begins.
const ROOT: &str = "/";

/// One look at everything that the machine says about its clocks. What cannot
/// be had is left out, as the agent does. Takes as long as chronyd and ptp4l
/// take to answer, two seconds at most.
///
/// # Errors
/// The system has no room for the few resources that asking takes.
fn sample_once(
    reference: Reference,
    chrony_address: SocketAddr,
) -> Result<(BootFacts, ClockFacts, Now), Failure> {
    let heard = Asked::by(reference);
    let root = Path::new(ROOT);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("the runtime cannot start", &error))?;
    let (chrony, ptp) = runtime.block_on(async {
        let chrony = async { if heard.chrony { ask_chrony(chrony_address).await } else { None } };
        let ptp = async { if heard.ptp { ask_ptp(root).await } else { None } };
        tokio::join!(chrony, ptp)
    });
    let facts = ClockFacts {
        has_daemon: chrony.is_some() || ptp.is_some() || timesyncd::is_present(root),
        chrony,
        ptp,
        timesyncd_at: timesyncd::synchronized_at(root).filter(|_| heard.timesyncd),
        // Last: the fastest to grow old.
        kernel: kernel_clock::sample().ok().filter(|_| heard.kernel),
    };
    Ok((boot::boot_facts(root), facts, HostClock::new().now()))
}

async fn ask_chrony(address: SocketAddr) -> Option<(ChronyReport, IngestTime)> {
    let report = chrony::track(address).await.ok()?;
    Some((report, kernel_clock::wall()))
}

async fn ask_ptp(root: &Path) -> Option<PtpReport> {
    ptp::ask(&ptp::socket(root)?).await.ok()
}

/// When it was looked at, and what was found.
///
/// # Errors
/// See [`sample_once`].
pub(super) fn clock(
    settings: ClockSettings,
    chrony_address: SocketAddr,
) -> Result<(String, Clock), Failure> {
    let (boot, facts, now) = sample_once(settings.reference, chrony_address)?;
    Ok((now.wall.to_string(), judged(settings, boot, facts, &now)))
}

/// What a model without a past makes of one sample.
pub(super) fn judged(
    settings: ClockSettings,
    boot: BootFacts,
    facts: ClockFacts,
    now: &Now,
) -> Clock {
    let mut model = ClockModel::new(settings, boot, &ClockLedger::default(), Offset(0), now);
    model.sample(facts.clone(), now);
    Clock::new(&ClockStatus {
        reading: model.reading(now),
        uptime: now.uptime(),
        kernel: facts.kernel.map(|kernel| kernel.judge()),
        facts,
        synchronized_for: None,
        rate_ppb: None,
        // That the model has just begun is no event of the clock.
        events: Vec::new(),
        steps: (0, 0),
        open: 0,
        held_for: None,
        retimed: (0, 0),
        uncorrected: 0,
    })
}

/// What set the clock at boot: the same whether an agent runs or not.
pub(super) fn boot() -> Boot {
    let facts = boot::boot_facts(Path::new(ROOT));
    Boot {
        set_by_rtc: facts.is_set_by_rtc,
        rtc: facts.rtc.map(|at| at.to_string()),
        saved: facts.saved.map(|at| at.to_string()),
    }
}
