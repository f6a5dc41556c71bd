//! The agent's settings in a scenario.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate::core::agent::{Settings, SourceSettings};
use tidegate::core::clock::ClockSettings;
use tidegate::core::dedupe::{By, Rule};
use tidegate::core::forward::{Batching, ForwardSettings, ShareSettings};
use tidegate::core::id::SourceId;
use tidegate::core::order::OrderSpec;
use tidegate::core::settings::UplinkSettings;
use tidegate::core::time::Span;
use tidegate::core::values::ValueRules;
use tidegate::core::window::{Aggregate, Kind, LatePolicy, WindowSpec};

use crate::source::{REPEATING, Source};
use crate::world::{INFLIGHT_MAX, Scenario};

const SOURCES: [&str; 3] = ["press", "oven", "pump"];

pub fn settings(scenario: &Scenario, sources: &[Source]) -> Settings {
    Settings {
        commit_interval: Span::from_millis(200),
        commit_bytes: 8 * 1024,
        quota_bytes: scenario.quota_bytes,
        reserve_bytes: 0,
        when_full: scenario.when_full,
        max_age: scenario.max_age_s.map(Span::from_secs),
        uplinks: ["main", "second"][..scenario.uplinks]
            .iter()
            .map(|name| UplinkSettings {
                forward: forward(scenario),
                ack_timeout: Span::from_secs(5),
                backoff: (Span::from_millis(100), Span::from_secs(4)),
                frontier_interval: Span::from_secs(1),
                ..UplinkSettings::named(name)
            })
            .collect(),
        clock: ClockSettings {
            hold_unsynchronized: Span::from_secs(5),
            restamp_settle: Span::from_secs(2),
            ..ClockSettings::DEFAULT
        },
        windows: windows(),
        orders: vec![Arc::new(OrderSpec {
            name: "on site".into(),
            sources: SOURCES.map(|name| (SourceId::new(name), Span::from_secs(3))).into(),
            idle_after: Span::from_secs(5),
        })],
        checkpoint_interval: Span::from_secs(30),
        sources: configured(sources),
    }
}

/// What the file says of sources at the moment.
pub fn configured(sources: &[Source]) -> BTreeMap<SourceId, SourceSettings> {
    let configured = sources.iter().filter(|source| source.is_configured);
    configured.map(|source| source_settings(source.id.as_str())).collect()
}

fn source_settings(name: &str) -> (SourceId, SourceSettings) {
    let rule = Rule { by: By::Id, horizon: Span::from_secs(3_600), entries_max: 1_000 };
    let dedupe = (name == REPEATING).then_some(rule);
    let accumulate = vec!["n".to_owned()];
    let rules = ValueRules { accumulate, ..ValueRules::default() };
    let values = (name == REPEATING).then(|| Arc::new(rules));
    (SourceId::new(name), SourceSettings { dedupe, values, ..SourceSettings::DEFAULT })
}

/// Backlogs here are small: from five entries on they are a lane of their own.
fn forward(scenario: &Scenario) -> ForwardSettings {
    let readings_max = scenario.readings_max;
    let batching = Batching { readings_max, bytes_max: 4_000, reading_bytes: 100 };
    let per_second = scenario.seed.is_multiple_of(7).then_some(200);
    ForwardSettings {
        inflight_max: INFLIGHT_MAX,
        is_live_first: !scenario.seed.is_multiple_of(3),
        backfill_min: 5,
        share: ShareSettings { share: 0.5, per_second },
        batching: if readings_max == 1 { Batching::SINGLE } else { batching },
        linger: Span::from_millis(if scenario.seed.is_multiple_of(4) { 50 } else { 0 }),
    }
}

/// Devices here are heard up to five seconds late.
fn windows() -> Vec<Arc<WindowSpec>> {
    let spec = |name: &str, kind, late_policy| WindowSpec {
        name: name.into(),
        version: 1,
        sources: Vec::new(),
        entity: "*".to_owned(),
        property: "*".to_owned(),
        kind,
        bound: Span::from_secs(3),
        idle_after: Span::from_secs(5),
        allowed_lateness: Span::from_secs(1),
        late_policy,
        aggregates: vec![Aggregate::Count, Aggregate::Sum],
        expected_interval: None,
        idle_flush: None,
        final_marker: true,
        include_bad: false,
        upstream: true,
    };
    let second = Span::from_secs(1);
    let tumbling = Kind::Tumbling { size: second, offset: Span::ZERO };
    let sessions = Kind::Session { gap: second };
    vec![
        Arc::new(spec("seconds", tumbling, LatePolicy::SideOutput)),
        Arc::new(spec("sessions", sessions, LatePolicy::SideOutput)),
    ]
}
