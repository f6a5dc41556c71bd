//! How far event time has come, over several sources.
//!
//! A source's watermark is its greatest event time less the bound less one
//! millisecond: `[start, end)` is complete at `end − 1 ms`. Sources combine as
//! the partitions of one source do in Apache Flink 2.1.1
//! (`WatermarkOutputMultiplexer`): the minimum over those that are not idle,
//! never going back. If all are idle it stays: silence proves nothing. A source that comes
//! back behind the combined watermark holds it until it has passed it.
//!
//! There is no far-future or far-past number that means something else: before
//! the first event there is [`Watermark::NotYet`].

use serde::{Deserialize, Serialize};

use crate::core::time::{EventTime, Span};

const NS_PER_MS: i64 = 1_000_000;

/// Event time in whole milliseconds since 1970-01-01T00:00:00Z: what window
/// boundaries and watermarks are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(pub i64);

impl Millis {
    /// The millisecond that `at` lies in; floor, before 1970 too.
    pub const fn floor(at: EventTime) -> Self {
        Self(at.unix_ns().div_euclid(NS_PER_MS))
    }

    /// Its first instant; saturates at the ends of [`EventTime`].
    pub const fn event_time(self) -> EventTime {
        EventTime::from_unix_ns(self.0.saturating_mul(NS_PER_MS))
    }
}

/// Whole milliseconds of a span, rounded down; the longest span is without end.
pub(super) const fn span_ms(span: Span) -> i64 {
    if span.ns() == i64::MAX { i64::MAX } else { span.ns().div_euclid(NS_PER_MS) }
}

/// How far event time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watermark {
    /// Nothing is known yet.
    NotYet,
    /// No further event at or before this is expected.
    At(Millis),
    /// Silent: not waited for.
    Idle,
}

/// The generator of one source: greatest event time − bound − 1 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounded {
    bound_ms: i64,
    greatest: Option<Millis>,
}

impl Bounded {
    /// Before the first event. `bound` counts in whole milliseconds.
    pub const fn new(bound: Span) -> Self {
        Self { bound_ms: span_ms(bound), greatest: None }
    }

    /// From now on with another bound.
    pub fn set_bound(&mut self, bound: Span) {
        self.bound_ms = span_ms(bound);
    }

    /// An event of that time was seen.
    pub fn observe(&mut self, at: Millis) {
        self.greatest = self.greatest.max(Some(at));
    }

    /// The watermark that follows; `None` before the first event, and for an event so early
    /// that the watermark would be out of range.
    pub fn watermark(&self) -> Option<Millis> {
        let at = self.greatest?.0.checked_sub(self.bound_ms)?.checked_sub(1)?;
        (at > i64::MIN).then_some(Millis(at))
    }
}

/// One of the inputs of a [`Multiplexer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InputId(pub u32);

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Partial {
    at: Option<Millis>,
    is_idle: bool,
}

/// What an update of the combination sends on; the status goes before the
/// watermark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emitted {
    /// Whether it became idle (`true`) or active again (`false`).
    pub idle: Option<bool>,
    /// The combined watermark, where it rose.
    pub raised: Option<Millis>,
}

/// The combination over several inputs.
///
/// `set` and `mark_idle` take effect at once (Flink's immediate output); the
/// deferred forms wait for [`update`](Self::update).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Multiplexer {
    /// By number; `None` where one was removed.
    inputs: Vec<Option<Partial>>,
    combined: Option<Millis>,
    /// Whether every input was idle at the last update.
    all_idle: bool,
    /// The idle status that was sent on last.
    told_idle: bool,
    /// Whether something was set since the last update.
    is_stale: bool,
}

impl Multiplexer {
    /// Adds an input. It holds the combination back until its first watermark or until it is
    /// marked idle.
    pub fn add(&mut self, input: InputId) {
        let index = input.0 as usize;
        if self.inputs.len() <= index {
            self.inputs.resize(index + 1, None);
        }
        self.inputs[index] = Some(Partial::default());
        self.is_stale = true;
    }

    /// Removes an input. If it held the combination back, the next update shows that.
    pub fn remove(&mut self, input: InputId) {
        if let Some(slot) = self.inputs.get_mut(input.0 as usize) {
            *slot = None;
        }
        self.is_stale = true;
    }

    /// The input's generator is at `at`, perhaps less than before. The input is not idle any
    /// more.
    pub fn set(&mut self, input: InputId, at: Option<Millis>) -> Emitted {
        let Some(partial) = self.partial(input) else { return Emitted::default() };
        let before = *partial;
        partial.is_idle = false;
        partial.at = before.at.max(at);
        if at <= before.at.max(self.combined) {
            self.is_stale |= before.is_idle;
            return Emitted::default();
        }
        // This input was ahead of the combination, so another one holds it: with many
        // sources the usual case, which need not look at all of them.
        if !self.is_stale && !before.is_idle && before.at > self.combined {
            self.all_idle = false;
            return Emitted::default();
        }
        self.update()
    }

    /// As [`set`](Self::set), but counts only with the next update. The engine has no
    /// use for it: it is here to be compared with Flink's multiplexer, which can do it.
    pub fn set_deferred(&mut self, input: InputId, at: Option<Millis>) {
        if let Some(partial) = self.partial(input) {
            partial.is_idle = false;
            partial.at = partial.at.max(at);
            self.is_stale = true;
        }
    }

    /// The input is silent (or not any more): the others do not wait for it.
    pub fn mark_idle(&mut self, input: InputId, is_idle: bool) -> Emitted {
        self.mark_idle_deferred(input, is_idle);
        self.update()
    }

    /// As [`mark_idle`](Self::mark_idle), but counts only with the next update.
    /// For several that fall silent at one instant: one by one, the first would let the
    /// combination jump to the others.
    pub fn mark_idle_deferred(&mut self, input: InputId, is_idle: bool) {
        if let Some(partial) = self.partial(input) {
            partial.is_idle = is_idle;
            self.is_stale = true;
        }
    }

    /// Looks at all inputs.
    pub fn update(&mut self) -> Emitted {
        self.is_stale = false;
        let mut emitted = Emitted::default();
        if self.inputs.iter().flatten().next().is_some() {
            let mut active = self.inputs.iter().flatten().filter(|partial| !partial.is_idle);
            let first = active.next().map(|partial| partial.at);
            self.all_idle = first.is_none();
            let least = first.and_then(|at| active.map(|partial| partial.at).fold(at, Ord::min));
            if least > self.combined {
                self.combined = least;
                emitted.raised = least;
            }
        }
        let is_idle = self.all_idle && emitted.raised.is_none();
        if is_idle != self.told_idle && (is_idle || emitted.raised.is_some()) {
            self.told_idle = is_idle;
            emitted.idle = Some(is_idle);
        }
        emitted
    }

    /// The combined watermark so far.
    pub fn combined(&self) -> Option<Millis> {
        self.combined
    }

    /// One input's state.
    pub fn state(&self, input: InputId) -> Watermark {
        match self.inputs.get(input.0 as usize) {
            Some(Some(Partial { is_idle: true, .. })) => Watermark::Idle,
            Some(Some(Partial { at: Some(at), .. })) => Watermark::At(*at),
            _ => Watermark::NotYet,
        }
    }

    /// Whether the input is waited for or was.
    pub fn is_idle(&self, input: InputId) -> bool {
        self.state(input) == Watermark::Idle
    }

    /// Whether every input was idle at the last update.
    pub fn all_idle(&self) -> bool {
        self.all_idle
    }

    /// The idle status that consumers of the combination have got: idle until the combined
    /// watermark rises.
    pub fn told_idle(&self) -> bool {
        self.told_idle
    }

    fn partial(&mut self, input: InputId) -> Option<&mut Partial> {
        self.inputs.get_mut(input.0 as usize)?.as_mut()
    }
}
