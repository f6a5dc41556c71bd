//! Logs the health of sources: when trouble begins and when it is over, however often the
//! source tries in between.

use tracing::{info, warn};

use super::Telemetry;
use crate::core::id::SourceId;
use crate::core::length::length_text;
use crate::core::time::MonoTime;
use crate::source::health::{HealthState, HealthView};

/// The trouble of a source that cannot read something that it should.
#[derive(Debug)]
pub(super) struct Trouble {
    state: HealthState,
    since: MonoTime,
}

impl Telemetry {
    /// Takes the present health of all sources. Sources that are not listed are forgotten.
    pub fn health(&mut self, views: &[(SourceId, HealthView)], now: MonoTime) {
        self.troubled.retain(|name, _| views.iter().any(|(known, _)| known == name));
        for (name, view) in views {
            match view.state {
                HealthState::Down | HealthState::Degraded => self.troubled(name, view, now),
                HealthState::Up => self.healthy(name, now),
                // It was stopped, or has come to its end: no trouble.
                HealthState::Starting | HealthState::Stopped => {
                    self.troubled.remove(name);
                }
            }
        }
    }

    fn troubled(&mut self, name: &SourceId, view: &HealthView, now: MonoTime) {
        let known = self.troubled.get(name);
        if known.is_some_and(|trouble| trouble.state == view.state) {
            return;
        }
        // From bad to worse is still one trouble.
        let since = known.map_or(now, |trouble| trouble.since);
        self.troubled.insert(name.clone(), Trouble { state: view.state, since });
        let state = view.state.as_str();
        if let Some(unsaid) = self.throttle.admit(&format!("source {name} is {state}"), now) {
            let (source, reason) = (name, view.detail.as_deref().unwrap_or("unknown"));
            if view.state == HealthState::Down {
                warn!(%source, reason, unsaid, "a source is down");
            } else {
                warn!(%source, reason, unsaid, "a source is in part out of reach");
            }
        }
    }

    fn healthy(&mut self, name: &SourceId, now: MonoTime) {
        let Some(trouble) = self.troubled.remove(name) else { return };
        if let Some(unsaid) = self.throttle.admit(&format!("source {name} is up again"), now) {
            let down_for = length_text(now.since(trouble.since));
            info!(source = %name, down_for, unsaid, "a source is up again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::http::metrics::Metrics;
    use crate::shell::log_line::heard;

    fn at(seconds: u64) -> MonoTime {
        MonoTime::from_ns(seconds * 1_000_000_000)
    }

    #[test]
    fn trouble_of_a_source_is_said_when_it_begins_and_when_it_is_over() {
        let mut telemetry = Telemetry::new(Arc::new(Metrics::new(Vec::new())), Vec::new());
        let press = SourceId::new("press");
        let mut said = |state, detail: &str, second| {
            let detail = Some(detail.to_owned());
            let view = HealthView { state, detail, ..HealthView::default() };
            let views = [(press.clone(), view)];
            let lines = heard::during(|| telemetry.health(&views, at(second)));
            lines.iter().map(|line| line.to_text()).collect::<Vec<_>>().join("|")
        };
        use HealthState::{Degraded, Down, Starting, Stopped, Up};
        assert_eq!(said(Starting, "", 0), "");
        assert_eq!(said(Up, "", 1), "");
        let down = r#"a source is down: source=press reason="no answer""#;
        assert_eq!(said(Down, "no answer", 10), down);
        assert_eq!(said(Down, "refused", 11), "", "one trouble, however it looks");
        let part = r#"a source is in part out of reach: source=press reason="unit 3: no answer""#;
        assert_eq!(said(Degraded, "unit 3: no answer", 20), part);
        assert_eq!(said(Up, "", 100), "a source is up again: source=press down_for=\"1m 30s\"");
        for second in 101..130 {
            let state = if second % 2 == 0 { Up } else { Down };
            let line = if second == 101 { down } else { "" };
            assert_eq!(said(state, "no answer", second), line, "flapping");
        }
        let up = "a source is up again: source=press down_for=41s unsaid=14";
        assert_eq!(said(Up, "", 170), up);
        assert_eq!(said(Down, "no answer", 171), format!("{down} unsaid=14"));
        assert_eq!(said(Stopped, "", 172), "");
        assert_eq!(said(Up, "", 173), "");
    }
}
