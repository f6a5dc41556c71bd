//! The newest answer of somebody who is asked now and then: when to ask again,
//! and how long the answer counts.

use crate::core::time::{MonoTime, Span};

/// Between two questions.
const INTERVAL: Span = Span::from_secs(16);
/// An older answer is dropped.
const AGE_MAX: Span = Span::from_secs(40);
/// So many questions in a row without an answer drop the last one.
const FAILURES_MAX: u32 = 2;

/// An answer that is carried, and the state of asking.
#[derive(Debug)]
pub(super) struct Carried<T> {
    /// With the time it came.
    answer: Option<(T, MonoTime)>,
    /// Questions in a row without an answer.
    failures: u32,
    is_asked: bool,
    /// When the last question went out; `None`: the next is due at once.
    asked_at: Option<MonoTime>,
}

impl<T> Default for Carried<T> {
    fn default() -> Self {
        Self { answer: None, failures: 0, is_asked: false, asked_at: None }
    }
}

impl<T> Carried<T> {
    /// Whether to ask at `now`; if so, the question counts as asked until
    /// [`Carried::answered`] or [`Carried::failed`].
    pub(super) fn ask(&mut self, now: MonoTime) -> bool {
        let is_due = self.asked_at.is_none_or(|asked| now.since(asked) >= INTERVAL);
        if self.is_asked || !is_due {
            return false;
        }
        self.is_asked = true;
        self.asked_at = Some(now);
        true
    }

    /// The next question is due now, or as soon as the one under way is over.
    pub(super) fn ask_soon(&mut self) {
        self.asked_at = None;
    }

    /// The answer came.
    pub(super) fn answered(&mut self, answer: T, now: MonoTime) {
        self.answer = Some((answer, now));
        self.failures = 0;
        self.is_asked = false;
    }

    /// No answer came. True when that is once too often and was not before:
    /// worth a line in the log.
    pub(super) fn failed(&mut self) -> bool {
        self.is_asked = false;
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX {
            self.answer = None;
        }
        self.failures == FAILURES_MAX
    }

    /// There is nobody to ask any more.
    pub(super) fn forget(&mut self) {
        self.answer = None;
    }

    /// The newest answer that still counts at `now`.
    pub(super) fn current(&self, now: MonoTime) -> Option<&T> {
        let (answer, came) = self.answer.as_ref()?;
        (now.since(*came) <= AGE_MAX).then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> MonoTime {
        MonoTime::from_ns(seconds * 1_000_000_000)
    }

    #[test]
    fn questions_go_out_every_16_s_and_one_at_a_time() {
        let mut carried = Carried::default();
        assert!(carried.ask(at(100)));
        assert!(!carried.ask(at(100)));
        assert!(!carried.ask(at(200)), "one is under way");
        carried.answered('a', at(101));
        assert!(!carried.ask(at(115)));
        assert!(carried.ask(at(116)));
    }

    #[test]
    fn after_a_change_the_next_question_waits_for_nothing_but_the_last() {
        let mut carried = Carried::default();
        assert!(carried.ask(at(100)));
        carried.ask_soon();
        assert!(!carried.ask(at(100)));
        carried.answered('a', at(100));
        assert!(carried.ask(at(100)));
    }

    #[test]
    fn an_answer_is_carried_over_one_failure_and_40_s() {
        let mut carried = Carried::default();
        carried.answered('a', at(100));
        assert!(!carried.failed());
        assert_eq!(carried.current(at(140)), Some(&'a'));
        assert_eq!(carried.current(at(141)), None);
        assert!(carried.failed(), "said once");
        assert_eq!(carried.current(at(110)), None);
        assert!(!carried.failed(), "and not again");
        carried.answered('b', at(150));
        assert!(!carried.failed());
        assert_eq!(carried.current(at(151)), Some(&'b'));
        carried.forget();
        assert_eq!(carried.current(at(151)), None);
    }
}
