//! `tidegate clock` for people. Writing to a string does not fail.

use std::fmt::Write as _;

use super::{View, words};
use crate::http::clock::Clock;

/// So many events are worth a screen.
const EVENTS_SHOWN: usize = 5;

pub(super) fn text(view: &View) -> String {
    let mut out = String::new();
    let clock = &view.clock;
    let mut line = |name: &str, what: &str| {
        let _ = writeln!(out, "{name:<11}{what}");
    };
    line("clock", &words::state(clock));
    line("", &format!("reads {}, timebase {}", view.at, clock.timebase));
    let is_synchronized = clock.state == "synchronized";
    if let Some(s) = clock.synchronized_for_s.filter(|_| is_synchronized) {
        line("", &format!("synchronized for {}", words::length(s)));
    }
    if let Some(ppm) = clock.rate_ppm {
        let way = if ppm < 0.0 { "fast" } else { "slow" };
        line("", &format!("its crystal runs {:.3} ppm {way}", ppm.abs()));
    }
    match &view.no_agent {
        None => line("asked", "the running agent"),
        Some(why) => {
            line("asked", "the machine itself, once, without an agent's memory");
            line("", why);
        }
    }
    let heard = view.heard;
    let mut source = |name: &str, is_heard: bool, said: String| {
        line(name, if is_heard { &said } else { "not asked, by clock.reference" });
    };
    source("kernel", heard.kernel, kernel(clock));
    source("chrony", heard.chrony, chrony(clock, &view.chrony_address));
    source("ptp4l", heard.ptp, ptp(clock));
    source("timesyncd", heard.timesyncd, timesyncd(clock));
    line("rtc", &rtc(view));
    line("saved", view.boot.saved.as_deref().unwrap_or("no time was saved before the shutdown"));
    for said in [words::waiting(clock), corrections(clock)].into_iter().flatten() {
        line("readings", &said);
    }
    if view.agent {
        line("steps", &steps(clock));
    }
    for event in clock.events.iter().rev().take(EVENTS_SHOWN).rev() {
        let moved = words::moved(event).map(|moved| format!(" {moved}")).unwrap_or_default();
        line("", &format!("{} {}{moved}: {} -> {}", event.at, event.kind, event.from, event.to));
    }
    let stamp = serde_json::to_string(&view.time).unwrap_or_default();
    line("stamps", &format!("\"time\":{stamp}"));
    out
}

fn kernel(clock: &Clock) -> String {
    let Some(kernel) = &clock.kernel else { return "no answer (adjtimex)".to_owned() };
    let worth = match kernel.kind.as_str() {
        "saturated" => "has given up on its clock",
        "failed" => "reports a failure of its clock",
        "zeroed_timesyncd" => "is told the age of the last update only, as timesyncd does",
        "zeroed_phc2sys" => "is told the age of the last update only, as phc2sys does",
        _ => "has a bound from its daemon",
    };
    let (max, estimate) = (kernel.max_error_us, kernel.est_error_us);
    let mut said = format!(
        "{worth}; maxerror {max} µs, esterror {estimate} µs, status {}, rate {:+.3} ppm (adjtimex)",
        kernel.status, kernel.rate_ppm
    );
    if kernel.leap != "none" {
        let _ = write!(said, ", leap second: {}", kernel.leap.replace('_', " "));
    }
    said
}

fn chrony(clock: &Clock, address: &str) -> String {
    let Some(chrony) = &clock.chrony else { return format!("no answer at {address}") };
    let Some(age_s) = chrony.age_s else {
        return format!("answers at {address} and has no reference");
    };
    let (age, fresh) = (words::length(age_s), if chrony.fresh { "" } else { ", too old" });
    format!(
        "follows {} at stratum {}: off by {:.1} µs, root delay {:.1} µs, root dispersion {:.1} µs, \
         skew {:.3} ppm, updated {age} ago{fresh} (at {address})",
        chrony.ref_id,
        chrony.stratum,
        chrony.correction_us,
        chrony.root_delay_us,
        chrony.root_dispersion_us,
        chrony.skew_ppm
    )
}

fn ptp(clock: &Clock) -> String {
    let Some(ptp) = &clock.ptp else { return "no answer".to_owned() };
    if !ptp.grandmaster {
        return "answers and has no grandmaster".to_owned();
    }
    let utc = if ptp.utc_known { "" } else { ", which does not know UTC" };
    format!(
        "grandmaster of class {} and accuracy {}{utc}: off by {:.3} µs, path delay {:.3} µs",
        ptp.clock_class, ptp.clock_accuracy, ptp.offset_us, ptp.path_delay_us
    )
}

fn timesyncd(clock: &Clock) -> String {
    let at = clock.timesyncd_at.as_ref();
    // The file is touched at each answer of a server that it accepts.
    at.map_or("no trace of it".to_owned(), |at| format!("heard from a server last at {at}"))
}

fn rtc(view: &View) -> String {
    let set = if view.boot.set_by_rtc { "; it set the clock at boot" } else { "" };
    match &view.boot.rtc {
        Some(at) => format!("says {at}{set}"),
        None => format!("not to be read{set}"),
    }
}

fn corrections(clock: &Clock) -> Option<String> {
    let count = clock.corrections_waiting;
    (count > 0).then(|| {
        let (noun, verb) =
            if count == 1 { ("correction", "waits") } else { ("corrections", "wait") };
        format!("{count} {noun} for readings that left under a bad clock {verb}")
    })
}

fn steps(clock: &Clock) -> String {
    format!("{} forward, {} back since the agent started", clock.steps.forward, clock.steps.back)
}
