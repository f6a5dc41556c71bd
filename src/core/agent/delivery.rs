//! Readings out: the link, publishes, acknowledgements, frontiers.

use super::*;
use crate::core::forward::{Fate, Taken, Verdict};
use crate::core::reading::{Record, Refusal};
use crate::core::seam::Frontier;
use crate::core::time::EventTime;

impl Agent {
    pub(super) fn link_reported(&mut self, now: &Now, event: LinkEvent, effects: &mut Vec<Effect>) {
        match event {
            LinkEvent::Up { receive_max, session_present } => {
                self.link_came_up(now, receive_max, session_present, effects);
            }
            LinkEvent::Down { reason, cause, draw } => {
                self.link_went_down(now, (reason, cause, draw), effects);
            }
            LinkEvent::Puback { id, code } => {
                self.connection.saw_puback();
                let verdict = self.forward.puback(id, code, now.mono);
                self.judged(now, verdict, &format!("reason code 0x{code:02X}"), effects);
            }
            LinkEvent::TooLarge { id, size, limit } => {
                let verdict = self.forward.too_large(id);
                let why = format!("its payload of {size} bytes is over the limit of {limit} bytes");
                self.judged(now, verdict, &why, effects);
            }
        }
    }

    fn link_came_up(
        &mut self,
        now: &Now,
        receive_max: u16,
        session_present: bool,
        effects: &mut Vec<Effect>,
    ) {
        if !self.connection.came_up(now.mono) {
            return;
        }
        let down_for = self.connection.down_for();
        self.timing.link_came_up(now.uptime());
        self.forward.link_up(receive_max);
        let backlog = self.books.stored();
        if backlog > 0 {
            self.drain = Some(Drain { since: now.mono, through: self.durable, sent: 0 });
        }
        effects.push(Effect::Notice(Notice::LinkUp { down_for, backlog, session_present }));
        let id = self.forward.send_control(now.mono);
        let body = PublishBody::Status(self.link_status(now, true));
        effects.push(Effect::Link(LinkCommand::Publish(Publish { id, body })));
    }

    fn link_went_down(
        &mut self,
        now: &Now,
        (reason, cause, draw): (String, DownCause, u64),
        effects: &mut Vec<Effect>,
    ) {
        let lost = self.connection.went_down(now.mono, cause, &reason, draw);
        self.forward.link_down();
        self.drain = None;
        let Some(lost) = lost else { return };
        let backlog = self.books.stored();
        effects.push(Effect::Notice(if lost.was_up {
            Notice::LinkDown { reason, cause, backlog }
        } else {
            let (attempts, retry_in) = (lost.attempts, lost.retry_in);
            Notice::ConnectFailed { attempts, reason, cause, retry_in, backlog }
        }));
    }

    fn judged(&mut self, now: &Now, verdict: Verdict, why: &str, effects: &mut Vec<Effect>) {
        match verdict {
            Verdict::Unknown | Verdict::Control => {}
            Verdict::Again => {}
            Verdict::Delivered { offset, entry, took, released } => {
                self.delivered(now, offset, &entry, effects);
                effects.push(Effect::Notice(Notice::Acknowledged { took }));
                if released {
                    let source = entry.source().clone();
                    effects.push(Effect::Notice(Notice::SourceReleased { source }));
                }
            }
            Verdict::Held { retry_in: None, .. } => {}
            Verdict::Held { source, code, retry_in: Some(retry_in) } => {
                effects.push(Effect::Notice(Notice::SourceHeld { source, code, retry_in }));
            }
            Verdict::SetAside { offset, entry } => match entry {
                Entry::Reading(record) => self.set_aside(now, offset, record, why, effects),
                Entry::Window(result) => {
                    self.is_through(now, offset, &Entry::Window(result.clone()));
                    self.write_off_refused(now, &Entry::Window(result), effects);
                }
                other => self.is_through(now, offset, &other),
            },
        }
    }

    fn delivered(&mut self, now: &Now, offset: Offset, entry: &Entry, effects: &mut Vec<Effect>) {
        self.ack_rate.add(now.mono, 1);
        self.is_through(now, offset, entry);
        self.settle(entry);
        if let Some(drain) = &mut self.drain {
            drain.sent += u64::from(entry.reading().is_some());
            if self.forward.done().frontier() >= drain.through.0 {
                let (sent, took) = (drain.sent, now.mono.since(drain.since));
                self.drain = None;
                effects.push(Effect::Notice(Notice::BacklogDrained { sent, took }));
            }
        }
    }

    /// Its number is done with.
    fn settle(&mut self, entry: &Entry) {
        if let Some(numbered) = entry.numbered() {
            self.books.acknowledge(numbered.source, numbered.epoch, numbered.seq);
        }
    }

    /// The broker has the entry, or never will: it need not be remembered.
    fn is_through(&mut self, now: &Now, offset: Offset, entry: &Entry) {
        self.unsaved_since.get_or_insert(now.mono);
        match entry {
            Entry::Reading(_) | Entry::Clock(_) | Entry::Window(_) | Entry::Late(_) => {}
            Entry::Retimed(_) | Entry::Idle(_) => {}
            Entry::Gap(_) => {
                self.gaps.remove(&offset);
            }
            Entry::Correction(_) => self.timing.corrected(offset),
        }
    }

    fn set_aside(
        &mut self,
        now: &Now,
        offset: Offset,
        mut record: Record,
        why: &str,
        effects: &mut Vec<Effect>,
    ) {
        // As it was sent, its time final.
        self.timing.finish(offset, &mut record);
        let source = record.source.clone();
        let refusal = Refusal {
            source: source.clone(),
            at: record.stamp.ingest_time,
            kind: "refused_by_broker",
            reason: format!(
                "reading {} {} seq {} of epoch {} is not taken by the broker: {why}",
                record.series.entity, record.series.property, record.seq, record.epoch
            ),
            length: record.weight() as u64,
            content: Vec::new(),
            reading: Some(Box::new(record.clone())),
        };
        self.quarantine(now, &source, vec![refusal], effects);
        self.write_off_refused(now, &Entry::Reading(record), effects);
    }

    pub(super) fn drive_link(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if self.stop.is_none() && self.connection.try_connect(now.mono) {
            effects.push(Effect::Link(LinkCommand::Connect));
        }
        if !self.connection.is_up() {
            return;
        }
        self.forward.retry_held(now.mono);
        let oldest = self.forward.oldest_sent().map(|sent| now.mono.since(sent));
        if let Some(oldest) = oldest.filter(|oldest| *oldest >= self.settings.ack_timeout) {
            self.connection.close(now.mono);
            effects.push(Effect::Notice(Notice::AckTimeout { oldest }));
            effects.push(Effect::Link(LinkCommand::Disconnect));
        }
    }

    pub(super) fn publish(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if !self.connection.is_up() || self.stop.is_some() {
            return;
        }
        self.publish_frontiers(now, effects);
        self.publish_entries(now, effects);
        if let Some(fetch) = self.forward.fetch(self.durable) {
            effects.push(Effect::Fetch(fetch));
        }
    }

    fn publish_entries(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        // What gets a better time on its way out is given to the windows, and
        // they are not there yet.
        if self.windows.is_replaying() {
            return;
        }
        self.timing.unblock();
        loop {
            let (timing, windows) = (&mut self.timing, &self.windows);
            let fate = |offset, entry: &Entry| {
                if Self::stays_here(windows, entry) {
                    Fate::Stay
                } else if timing.may_go(offset, entry) {
                    Fate::Send
                } else {
                    Fate::Wait
                }
            };
            let (id, offset, mut entry) = match self.forward.take(now.mono, fate) {
                None => break,
                Some(Taken::Goes(id, offset, entry)) => (id, offset, entry),
                Some(Taken::Stays(offset, entry)) => {
                    self.is_through(now, offset, &entry);
                    self.settle(&entry);
                    continue;
                }
            };
            if let Entry::Reading(record) = &mut entry
                && self.timing.time(offset, record)
            {
                self.give_retimed(now, offset, record);
            }
            let body = PublishBody::Entry(entry);
            effects.push(Effect::Link(LinkCommand::Publish(Publish { id, body })));
        }
        self.plan_seal(now);
    }

    fn publish_frontiers(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if self.frontier_deadline().is_none_or(|due| due > now.mono) {
            return;
        }
        let interval = self.settings.frontier_interval;
        let is_due = |said: Option<MonoTime>| said.is_none_or(|said| said + interval <= now.mono);
        let due: Vec<SourceId> = self
            .books
            .accounts()
            .filter(|(_, account)| account.is_frontier_due && is_due(account.frontier_said))
            .map(|(source, _)| source.clone())
            .collect();
        for source in due {
            if !self.forward.has_slot() {
                return;
            }
            let frontier = self.frontier(now, &source);
            let account = self.books.account(&source);
            account.is_frontier_due = false;
            account.frontier_said = Some(now.mono);
            let id = self.forward.send_control(now.mono);
            let body = PublishBody::Frontier(frontier);
            effects.push(Effect::Link(LinkCommand::Publish(Publish { id, body })));
        }
    }

    pub(super) fn frontier_deadline(&self) -> Option<MonoTime> {
        if !self.connection.is_up() || self.stop.is_some() || !self.forward.has_slot() {
            return None;
        }
        let interval = self.settings.frontier_interval;
        let due = self.books.accounts().filter(|(_, account)| account.is_frontier_due);
        due.map(|(_, account)| {
            account.frontier_said.map_or(MonoTime::from_ns(0), |said| said + interval)
        })
        .min()
    }

    fn frontier(&mut self, now: &Now, source: &SourceId) -> Frontier {
        let epoch = self.books.epoch();
        let bound =
            self.settings.sources.get(source).map_or(SourceSettings::DEFAULT.bound, |s| s.bound);
        let account = self.books.account(source).clone();
        let watermark =
            account.meta.newest_event.map(|newest| newest - bound - Span::from_millis(1));
        let held = self.least_unacknowledged(source, account.stored());
        let complete_before = match (watermark, held) {
            (Some(watermark), Some(least)) => Some(watermark.min(least)),
            (watermark, _) => watermark,
        };
        // Where times are still open, nothing is complete.
        let complete_before = complete_before.filter(|_| !self.has_open_times());
        let gone = account.meta.acknowledged + account.meta.evicted + account.meta.lost;
        Frontier {
            source: source.clone(),
            epoch,
            through_seq: self.books.through(source, epoch),
            complete_before,
            pending: account.meta.accepted.saturating_sub(gone),
            at: now.wall,
        }
    }

    /// The least event time of a source's readings that the broker does not
    /// have: exact while all of them are in memory, else that of the segments
    /// they lie in, which is never later.
    fn least_unacknowledged(&self, source: &SourceId, stored: u64) -> Option<EventTime> {
        let of_source = |entry: &Entry| {
            entry.reading().filter(|record| record.source == *source).map(|r| r.stamp.event_time)
        };
        let uncommitted = self.pending.entries().filter_map(of_source).min();
        if stored == 0 {
            return uncommitted;
        }
        let durable = match self.forward.all_unfinished(self.durable) {
            Some(entries) => entries.filter_map(of_source).min(),
            None => self.least_in_segments(source),
        };
        uncommitted.into_iter().chain(durable).min()
    }

    fn least_in_segments(&self, source: &SourceId) -> Option<EventTime> {
        let frontier = Offset(self.forward.done().frontier());
        let unfinished = self.buffer.segments().iter().filter(|segment| segment.next > frontier);
        let contents = unfinished.flat_map(|segment| segment.contents.iter());
        contents.filter(|((of, _), _)| of == source).map(|(_, range)| range.earliest).min()
    }
}
