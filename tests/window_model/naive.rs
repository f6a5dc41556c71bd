//! Windows without an engine: every accepted reading is kept, and at the end each
//! window is computed from scratch.

use super::*;

/// Series, timebase, start and end, in ms.
pub(crate) type Name = (String, u32, i64, i64);
/// Readings aggregated, readings that came, values.
pub(crate) type Word = (u64, u64, Vec<(Aggregate, Option<Number>)>);

fn ms(at: EventTime) -> i64 {
    Millis::floor(at).0
}

/// The highest revision of every window, retracted ones left out.
///
/// # Panics
///
/// When revisions do not count 1, 2, 3 …, or something follows a final record.
pub(crate) fn last_words(told: &[Output]) -> BTreeMap<Name, Word> {
    let mut last: BTreeMap<Name, Firing> = BTreeMap::new();
    for output in told {
        let Output::Fired(firing) = output else { continue };
        let name =
            (firing.series.entity.to_string(), firing.timebase.0, ms(firing.start), ms(firing.end));
        let before = last.get(&name);
        assert!(before.is_none_or(|before| before.status == ResultStatus::Provisional), "{name:?}");
        let revision = before.map_or(0, |before| before.revision);
        let repeats = before.is_some() && firing.status == ResultStatus::Final;
        assert!(
            firing.revision == revision + 1 || (repeats && firing.revision == revision),
            "{name:?}: {} after {revision}",
            firing.revision
        );
        last.insert(name, firing.clone());
    }
    last.retain(|_, firing| firing.status != ResultStatus::Retracted);
    let word = |firing: Firing| (firing.count, firing.coverage.received, firing.values);
    last.into_iter().map(|(name, firing)| (name, word(firing))).collect()
}

/// Keeps what an operator accepted.
pub(crate) struct Naive {
    spec: Arc<WindowSpec>,
    lateness: i64,
    /// With the watermark that it met: windows that it had dropped are not its.
    accepted: Vec<(Input, Option<i64>)>,
    /// By timebase, over all sources.
    greatest: BTreeMap<u32, i64>,
}

impl Naive {
    pub(crate) fn new(spec: &Arc<WindowSpec>) -> Self {
        let lateness = match spec.late_policy {
            LatePolicy::Adjust { .. } => 0,
            _ => spec.allowed_lateness.ns() / 1_000_000,
        };
        Self { spec: Arc::clone(spec), lateness, accepted: Vec::new(), greatest: BTreeMap::new() }
    }

    /// An event, the watermark before it and what the operator made of it.
    pub(crate) fn take(&mut self, event: &Event, watermark: Option<Millis>, out: &[Output]) {
        let Event::Reading(input) = event else { return };
        let mut input = input.clone();
        let is_closed = watermark.is_none() && out.iter().any(|o| matches!(o, Output::Late(_)));
        if !is_closed {
            self.adjust(&mut input);
            if input.moves_watermark {
                let at = ms(input.sample.at);
                let greatest = self.greatest.entry(input.timebase.0).or_insert(at);
                *greatest = at.max(*greatest);
            }
        }
        if !out.iter().any(|output| matches!(output, Output::Late(_) | Output::Between)) {
            self.accepted.push((input, watermark.map(|at| at.0)));
        }
    }

    fn is_dropped(&self, end: i64, watermark: Option<i64>) -> bool {
        watermark.is_some_and(|watermark| end - 1 + self.lateness <= watermark)
    }

    /// What policy `adjust` does to a time.
    fn adjust(&self, input: &mut Input) {
        let LatePolicy::Adjust { late_arrival, out_of_order } = self.spec.late_policy else {
            return;
        };
        let arrival = ms(input.ingest.as_event_time()) - late_arrival.ns() / 1_000_000;
        let greatest = self.greatest.get(&input.timebase.0);
        let stream = greatest.map_or(i64::MIN, |at| at - out_of_order.ns() / 1_000_000);
        let limit = arrival.max(stream);
        if ms(input.sample.at) < limit {
            input.sample.at = Millis(limit).event_time();
        }
    }

    /// Every window from scratch.
    pub(crate) fn windows(&self) -> BTreeMap<Name, Word> {
        let mut members: BTreeMap<Name, Vec<&Input>> = BTreeMap::new();
        if let Kind::Session { gap } = self.spec.kind {
            self.sessions(gap.ns() / 1_000_000, &mut members);
        } else {
            for (input, watermark) in &self.accepted {
                let all = windows(&self.spec.kind, input.sample.at).into_iter();
                let all = all.map(|(start, end)| (ms(start), ms(end)));
                for (start, end) in all.filter(|(_, end)| !self.is_dropped(*end, *watermark)) {
                    let entity = input.series.entity.to_string();
                    let name = (entity, input.timebase.0, start, end);
                    members.entry(name).or_default().push(input);
                }
            }
        }
        members.into_iter().map(|(name, inputs)| (name, self.word(&inputs))).collect()
    }

    fn sessions<'a>(&'a self, gap: i64, members: &mut BTreeMap<Name, Vec<&'a Input>>) {
        let mut all: Vec<(Name, Vec<&Input>)> = Vec::new();
        for (input, watermark) in &self.accepted {
            let at = ms(input.sample.at);
            let (entity, timebase) = (input.series.entity.to_string(), input.timebase.0);
            let joins = |((other, number, start, end), _): &(Name, Vec<&Input>)| {
                (other, *number) == (&entity, timebase)
                    && (*start <= at + gap && at <= *end)
                    && !self.is_dropped(*end, *watermark)
            };
            let (joined, mut rest): (Vec<_>, Vec<_>) = all.drain(..).partition(joins);
            let (mut start, mut end, mut inputs) = (at, at + gap, vec![input]);
            for ((_, _, other_start, other_end), others) in joined {
                start = start.min(other_start);
                end = end.max(other_end);
                inputs.extend(others);
            }
            rest.push(((entity, timebase, start, end), inputs));
            all = rest;
        }
        members.extend(all);
    }

    fn word(&self, inputs: &[&Input]) -> Word {
        let mut accumulator = Accumulator::new(&AGGREGATES);
        for input in inputs.iter().filter(|input| input.quality != Quality::Bad) {
            accumulator.add(&input.sample);
        }
        let values = accumulator.values(&AGGREGATES, None);
        (accumulator.count(), inputs.len() as u64, values)
    }
}
