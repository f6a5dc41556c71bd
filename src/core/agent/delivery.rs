//! Readings out: links, publishes, acknowledgements.

use super::uplink::Drain;
use super::*;
use crate::core::forward::{Fate, Taken, Verdict};

impl Agent {
    pub(super) fn link_reported(
        &mut self,
        now: &Now,
        id: UplinkId,
        event: LinkEvent,
        effects: &mut Vec<Effect>,
    ) {
        let at = usize::from(id.0);
        if at >= self.uplinks.len() {
            return;
        }
        match event {
            LinkEvent::Up(terms) => self.link_came_up(now, at, &terms, effects),
            LinkEvent::Down { reason, cause, draw } => {
                self.link_went_down(now, at, (reason, cause, draw), effects);
            }
            LinkEvent::Puback { id, code } => {
                let uplink = &mut self.uplinks[at];
                uplink.connection.saw_puback();
                let verdict = uplink.forward.puback(id, code, now.mono);
                self.judged(now, at, verdict, &format_args!("reason code 0x{code:02X}"), effects);
            }
            LinkEvent::TooLarge { id, size, limit } => {
                let verdict = self.uplinks[at].forward.too_large(id);
                let why =
                    format_args!("its payload of {size} bytes is over the limit of {limit} bytes");
                self.judged(now, at, verdict, &why, effects);
            }
        }
    }

    fn link_came_up(&mut self, now: &Now, at: usize, terms: &LinkTerms, effects: &mut Vec<Effect>) {
        let uplink = &mut self.uplinks[at];
        if !uplink.connection.came_up(now.mono) {
            return;
        }
        let down_for = uplink.connection.down_for();
        let has_asked = std::mem::replace(&mut uplink.has_asked, true);
        uplink.forward.link_up(self.durable, terms.receive_max, terms.payload_max);
        let backlog = self.books.stored_at(at);
        if backlog > 0 {
            uplink.drain = Some(Drain { since: now.mono, through: self.durable, sent: 0 });
        }
        let session_present = terms.session_present;
        uplink.notice(LinkNotice::Up { down_for, backlog, session_present }, effects);
        self.timing.link_came_up(now.uptime());
        if !has_asked {
            self.asked(now, &terms.frontiers, effects);
        }
        let body = PublishBody::Status(self.link_status(now, true));
        self.uplinks[at].say(body, now.mono, effects);
    }

    fn link_went_down(
        &mut self,
        now: &Now,
        at: usize,
        (reason, cause, draw): (String, DownCause, u64),
        effects: &mut Vec<Effect>,
    ) {
        let uplink = &mut self.uplinks[at];
        let lost = uplink.connection.went_down(now.mono, cause, &reason, draw);
        let is_blamed = matches!(cause, DownCause::Network | DownCause::PacketTooLarge);
        uplink.forward.link_down(is_blamed);
        uplink.drain = None;
        let Some(lost) = lost else { return };
        let backlog = self.books.stored_at(at);
        let notice = if lost.was_up {
            LinkNotice::Down { reason, cause, backlog }
        } else {
            let (attempts, retry_in) = (lost.attempts, lost.retry_in);
            LinkNotice::ConnectFailed { attempts, reason, cause, retry_in, backlog }
        };
        uplink.notice(notice, effects);
    }

    fn judged(
        &mut self,
        now: &Now,
        at: usize,
        verdict: Verdict,
        why: &std::fmt::Arguments<'_>,
        effects: &mut Vec<Effect>,
    ) {
        match verdict {
            Verdict::Unknown | Verdict::Control | Verdict::Again => {}
            Verdict::Delivered { entries, took, released } => {
                self.delivered(now, at, &entries, effects);
                let uplink = &self.uplinks[at];
                let entries = entries.len() as u64;
                uplink.notice(LinkNotice::Acknowledged { entries, took }, effects);
                if let Some(source) = released {
                    uplink.notice(LinkNotice::SourceReleased { source }, effects);
                }
            }
            Verdict::Held { retry_in: None, .. } => {}
            Verdict::Held { source, code, retry_in: Some(retry_in) } => {
                let notice = LinkNotice::SourceHeld { source, code, retry_in };
                self.uplinks[at].notice(notice, effects);
            }
            Verdict::SetAside { offset, entry } => {
                self.set_aside(now, (at, offset, &entry), &why.to_string(), effects);
            }
        }
    }

    fn delivered(
        &mut self,
        now: &Now,
        at: usize,
        entries: &[(Offset, Entry)],
        effects: &mut Vec<Effect>,
    ) {
        self.uplinks[at].ack_rate.add(now.mono, entries.len() as u64);
        for run in entries.chunk_by(|(_, one), (_, next)| is_followed_by(one, next)) {
            self.settle(now, at, run);
        }
        let uplink = &mut self.uplinks[at];
        let Some(drain) = &mut uplink.drain else { return };
        drain.sent += entries.iter().filter(|(_, entry)| entry.reading().is_some()).count() as u64;
        if uplink.forward.done().frontier() >= drain.through.0 {
            let (sent, took) = (drain.sent, now.mono.since(drain.since));
            uplink.drain = None;
            uplink.notice(LinkNotice::BacklogDrained { sent, took }, effects);
        }
    }

    /// Notes that an uplink is done with a run of entries, whose numbers follow each
    /// other if they have any. The numbers are acknowledged once all uplinks are done.
    fn settle(&mut self, now: &Now, at: usize, run: &[(Offset, Entry)]) {
        self.unsaved_since.get_or_insert(now.mono);
        let is_only = self.uplinks.len() == 1;
        let ends = [run.first(), run.last()].map(|end| end.and_then(|(_, entry)| entry.numbered()));
        if let [Some(first), Some(last)] = ends {
            let (name, numbers) = ((first.source, first.epoch), (first.seq, last.seq));
            self.books.acknowledge_at(at, name, numbers);
            if is_only {
                self.books.acknowledge(name, numbers);
            }
        }
        for (offset, entry) in run {
            if let Entry::Gap(gap) = entry {
                // What the frontier says may rest on it.
                self.books.account(&gap.source).changes += 1;
                if self.is_told(*offset, gap) {
                    self.gaps.remove(offset);
                }
            }
            if is_only {
                self.is_through(*offset, entry);
            } else if self.is_done_everywhere(*offset) {
                if let Some(numbered) = entry.numbered() {
                    let (name, seq) = ((numbered.source, numbered.epoch), numbered.seq);
                    self.books.acknowledge(name, (seq, seq));
                }
                self.is_through(*offset, entry);
            }
        }
    }

    /// Drops what was remembered of an entry until every uplink was done with it.
    pub(super) fn is_through(&mut self, offset: Offset, entry: &Entry) {
        match entry {
            Entry::Reading(_) | Entry::Clock(_) | Entry::Window(_) | Entry::Late(_) => {}
            Entry::Retimed(_) | Entry::Idle(_) => {}
            Entry::Gap(_) => {
                self.gaps.remove(&offset);
            }
            Entry::Correction(_) => self.timing.corrected(offset),
        }
    }

    pub(super) fn publish(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        // Nothing may leave under names that may still have to change.
        if !self.vouching.is_vouched() {
            return;
        }
        let may_send = !self.windows.is_replaying() && self.uplinks.iter().any(Uplink::may_publish);
        if may_send {
            self.timing.unblock();
        }
        for at in 0..self.uplinks.len() {
            if self.uplinks[at].may_publish() {
                self.publish_frontiers(now, at, effects);
                self.publish_entries(now, at, effects);
                while let Some(fetch) = self.uplinks[at].forward.fetch(self.durable) {
                    effects.push(Effect::Fetch(fetch));
                }
            }
        }
        if may_send {
            self.plan_seal(now);
        }
    }

    fn publish_entries(&mut self, now: &Now, at: usize, effects: &mut Vec<Effect>) {
        // Readings that get a better time on their way out are given to the windows, which
        // are not ready for them before the replay is over.
        if self.windows.is_replaying() {
            return;
        }
        loop {
            let (timing, windows, books) = (&mut self.timing, &self.windows, &self.books);
            let is_so = |entry: &Entry| match entry {
                Entry::Gap(gap) => books.is_so_at(at, gap),
                _ => true,
            };
            let fate = |offset, entry: &Entry| {
                if Self::stays_here(windows, entry) || !is_so(entry) {
                    Fate::Stay
                } else if timing.may_go(offset, entry) {
                    Fate::Send
                } else {
                    Fate::Wait
                }
            };
            match self.uplinks[at].forward.take(now.mono, fate) {
                None => return,
                Some(Taken::Goes(id, lane, entries)) => {
                    let body = self.body(now, at, entries);
                    let last_refused = self.uplinks[at].forward.last_refused();
                    let publish = Publish { id, lane, last_refused, body };
                    self.uplinks[at].command(LinkCommand::Publish(publish), effects);
                }
                Some(Taken::Stays(offset, entry)) => self.settle(now, at, &[(offset, *entry)]),
                Some(Taken::Kills(offset, entry)) => {
                    let why = "the connection ended whenever it was the only one on its way";
                    self.set_aside(now, (at, offset, &entry), why, effects);
                }
            }
        }
    }

    /// The content of a publish, its readings with their final times.
    fn body(&mut self, now: &Now, at: usize, mut entries: Vec<(Offset, Entry)>) -> PublishBody {
        for (offset, entry) in &mut entries {
            if let Entry::Reading(record) = entry
                && self.timing.time(*offset, record)
            {
                let from = self.uplinks[at].forward.in_order_from(*offset);
                self.give_retimed(now, from, *offset, record);
            }
        }
        let is_batch = self.uplinks[at].settings.forward.batching.is_on()
            && entries.first().is_some_and(|(_, entry)| entry.reading().is_some());
        if is_batch {
            let records = entries.into_iter().filter_map(|(_, entry)| match entry {
                Entry::Reading(record) => Some(record),
                _ => None,
            });
            return PublishBody::Batch(records.collect());
        }
        // A batch holds readings only, so this is one entry.
        entries.pop().map_or(PublishBody::Batch(Vec::new()), |(_, entry)| PublishBody::Entry(entry))
    }
}

/// Whether `next` has the number after that of `one`, in the same source and epoch.
fn is_followed_by(one: &Entry, next: &Entry) -> bool {
    match (one.numbered(), next.numbered()) {
        (Some(one), Some(next)) => {
            let is_of_one = (one.source, one.epoch) == (next.source, next.epoch);
            is_of_one && one.seq.next() == next.seq
        }
        _ => false,
    }
}
