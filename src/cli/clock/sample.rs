//! The machine's clock, looked at once and without an agent. There is no memory:
//! no events, no learnt rate, no earlier boots.

use super::Boot;
use crate::core::clock::{BootFacts, ClockFacts, ClockModel, ClockSettings};
use crate::core::id::Offset;
use crate::core::seam::{ClockLedger, Now};
use crate::core::status::ClockStatus;
use crate::host::{self, HostClock, kernel_clock};
use crate::http::clock::Clock;

/// One look at everything that the machine says about its clocks. What cannot
/// be had is left out, as the agent would do.
fn sample_once() -> (BootFacts, ClockFacts, Now) {
    let facts = ClockFacts { kernel: kernel_clock::sample().ok(), ..ClockFacts::default() };
    (boot_facts(), facts, HostClock::new().now())
}

fn boot_facts() -> BootFacts {
    BootFacts { boot: host::boot::boot_id().unwrap_or_default(), ..BootFacts::default() }
}

/// When it was looked at, and what was found.
pub(super) fn clock(settings: ClockSettings) -> (String, Clock) {
    let (boot, facts, now) = sample_once();
    (now.wall.to_string(), judged(settings, boot, facts, &now))
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
    let facts = boot_facts();
    Boot {
        set_by_rtc: facts.is_set_by_rtc,
        rtc: facts.rtc.map(|at| at.to_string()),
        saved: facts.saved.map(|at| at.to_string()),
    }
}
