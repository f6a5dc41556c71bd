//! Panes of session windows.
//!
//! Sessions that touch, exactly one gap apart, become one; lateness is judged after
//! merging. A session whose bounds change is another window, which begins with revision
//! 1; one that it swallowed is retracted if a result of it was output.

use std::collections::BTreeMap;

use super::keys::Timer;
use super::tell::{Occasion, Teller, Wording};
use super::{Output, Timers};
use crate::core::window::pane::{Content, Session, Taken, Told};
use crate::core::window::result::ResultStatus;

/// The sessions of one series, by their starts.
#[derive(Debug)]
pub(super) struct Sessions<'a> {
    pub(super) sessions: &'a mut BTreeMap<i64, Session>,
    pub(super) gap: i64,
}

impl Sessions<'_> {
    /// Whether there is a session that a reading of that time would join.
    pub(super) fn has_neighbour(&self, at: i64) -> bool {
        let mut before = self.sessions.range(..=at + self.gap);
        before.next_back().is_some_and(|(_, session)| session.end >= at)
    }

    /// Takes a reading that is not too late: one that joins a session, or whose
    /// own is still open.
    pub(super) fn take(
        &mut self,
        teller: &Teller<'_>,
        taken: &Taken,
        out: &mut Vec<Output>,
    ) -> Timers {
        let (at, own_end) = (taken.at, taken.at + self.gap);
        let mut touched =
            self.sessions.range_mut(..=own_end).rev().take_while(|(_, session)| session.end >= at);
        let found = touched.next().filter(|_| touched.next().is_none());
        if let Some((start, session)) = found
            && *start <= at
            && (session.told.revision == 0 || own_end <= session.end)
        {
            // No result that was output changes its bounds: the usual case.
            let end = session.end.max(own_end);
            let has_grown = end > session.end;
            session.end = end;
            session.content.add(taken);
            let start = *start;
            return self.settle(teller, start, has_grown, out);
        }
        let start = self.join(teller, taken, out);
        self.settle(teller, start, true, out)
    }

    /// Puts the reading and all sessions that it touches into a new one.
    fn join(&mut self, teller: &Teller<'_>, taken: &Taken, out: &mut Vec<Output>) -> i64 {
        let (mut start, mut end) = (taken.at, taken.at + self.gap);
        let touched = self.sessions.range(..=end).rev();
        let touched = touched.take_while(|(_, session)| session.end >= taken.at);
        let starts: Vec<i64> = touched.map(|(start, _)| *start).collect();
        let mut content: Option<Content> = None;
        for old_start in starts.into_iter().rev() {
            let Some(session) = self.sessions.remove(&old_start) else { continue };
            if session.told.revision > 0 {
                let wording = Wording {
                    revision: session.told.revision + 1,
                    status: ResultStatus::Retracted,
                    occasion: Occasion::Usual,
                };
                teller.tell((old_start, session.end), &session.content, wording, out);
            }
            start = start.min(old_start);
            end = end.max(session.end);
            match &mut content {
                Some(content) => content.merge(&session.content),
                None => content = Some(session.content),
            }
        }
        let mut content = content.unwrap_or_else(|| Content::new(&teller.plan.spec.aggregates));
        content.add(taken);
        self.sessions.insert(start, Session { end, told: Told::default(), content });
        start
    }

    /// Fires a changed session that the watermark has passed.
    fn settle(
        &mut self,
        teller: &Teller<'_>,
        start: i64,
        has_moved: bool,
        out: &mut Vec<Output>,
    ) -> Timers {
        let Some(session) = self.sessions.get_mut(&start) else { return Timers::default() };
        let end = session.end;
        let is_complete = teller.is_complete(end);
        if is_complete {
            fire(teller, start, session, (teller.status(), Occasion::Usual), out);
        }
        let end = has_moved.then_some(end);
        Timers { fire: end.filter(|_| !is_complete), drop: end }
    }

    /// The watermark has reached a session's end, the end of its lateness, or
    /// both. There may be none of that end any more: it has grown.
    pub(super) fn due(
        &mut self,
        teller: &Teller<'_>,
        end: i64,
        timer: Timer,
        out: &mut Vec<Output>,
    ) -> Timers {
        if timer.fires
            && let Some((start, session)) = self.ending_at(end)
        {
            fire(teller, start, session, (teller.status(), Occasion::Usual), out);
        }
        if timer.drops && teller.is_gone(end) {
            if teller.has_final_record() {
                self.repeat(teller, end, Occasion::Usual, out);
            }
            self.drop(teller, end, out);
        }
        let next = self.next_end(end);
        Timers { fire: next.filter(|_| timer.fires), drop: next.filter(|_| timer.drops) }
    }

    fn next_end(&self, end: i64) -> Option<i64> {
        let around = self.sessions.range(..end).next_back().map(|(_, session)| session.end);
        let after = || self.sessions.range(end..).next().map(|(_, session)| session.end);
        around.filter(|around| *around > end).or_else(after)
    }

    /// Fires readings that no result has yet, before the watermark has come there.
    pub(super) fn flush(&mut self, teller: &Teller<'_>, end: i64, out: &mut Vec<Output>) {
        let is_complete = teller.is_complete(end);
        let Some((start, session)) = self.ending_at(end).filter(|_| !is_complete) else { return };
        if session.told.received != session.content.tally.received {
            fire(teller, start, session, (ResultStatus::Provisional, Occasion::Flush), out);
        }
    }

    /// Fires and drops a session for which nothing more can come.
    pub(super) fn close(&mut self, teller: &Teller<'_>, end: i64, out: &mut Vec<Output>) {
        if teller.is_complete(end) {
            if teller.has_final_record() {
                self.repeat(teller, end, Occasion::ClockStep, out);
            }
        } else if let Some((start, session)) = self.ending_at(end) {
            let wording = (teller.closing_status(), Occasion::ClockStep);
            fire(teller, start, session, wording, out);
        }
        self.drop(teller, end, out);
    }

    fn ending_at(&mut self, end: i64) -> Option<(i64, &mut Session)> {
        let (start, session) = self.sessions.range_mut(..end).next_back()?;
        (session.end == end).then_some((*start, session))
    }

    /// Outputs the last revision again, now as final.
    fn repeat(&mut self, teller: &Teller<'_>, end: i64, occasion: Occasion, out: &mut Vec<Output>) {
        let Some((start, session)) = self.ending_at(end) else { return };
        let (revision, status) = (session.told.revision, ResultStatus::Final);
        teller.tell((start, end), &session.content, Wording { revision, status, occasion }, out);
    }

    fn drop(&mut self, teller: &Teller<'_>, end: i64, out: &mut Vec<Output>) {
        if let Some(start) = self.ending_at(end).map(|(start, _)| start) {
            teller.cleared(start, end, out);
            self.sessions.remove(&start);
        }
    }
}

fn fire(
    teller: &Teller<'_>,
    start: i64,
    session: &mut Session,
    (status, occasion): (ResultStatus, Occasion),
    out: &mut Vec<Output>,
) {
    session.told.revision += 1;
    session.told.received = session.content.tally.received;
    let wording = Wording { revision: session.told.revision, status, occasion };
    teller.tell((start, session.end), &session.content, wording, out);
}
