//! A block and how it fares: a device may answer for some of its registers only.
//!
//! Many devices refuse what they do not have with an exception; many others say
//! nothing, or hang up. A block without an answer from a device that does answer for
//! others is left alone for a while, so that waiting for it does not eat the time of
//! the rest, and is then asked for in halves: perhaps only one of its registers is
//! to blame.

use super::plan::{Block, plan};
use crate::config::modbus::{Modbus, Register};
use crate::core::time::Uptime;

/// So often without an answer, and a block is asked for in halves: one answer that
/// got lost on a noisy line proves nothing.
const HALVED_AFTER: u32 = 3;

/// A block, and how it was answered last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The block.
    pub(super) block: Block,
    /// Questions without an answer, one after the other.
    silences: u32,
    /// Not asked before.
    rests_until: Uptime,
}

impl Part {
    /// A block of which nothing is known.
    pub(super) fn new(block: Block) -> Self {
        Self { block, silences: 0, rests_until: Uptime::default() }
    }

    /// All blocks of a device of which nothing is known.
    pub(super) fn all(modbus: &Modbus) -> Vec<Self> {
        plan(modbus).into_iter().map(Self::new).collect()
    }

    /// Questions without an answer, one after the other.
    pub(super) const fn silences(&self) -> u32 {
        self.silences
    }

    /// Whether it may be asked for.
    pub(super) fn is_due(&self, now: Uptime) -> bool {
        self.rests_until <= now
    }

    /// When it is asked for again; `None` of a block that is answered.
    pub(super) fn retry_at(&self) -> Option<Uptime> {
        (self.silences > 0).then_some(self.rests_until)
    }

    /// It was answered, were it with a refusal.
    pub(super) fn note_answer(&mut self) {
        (self.silences, self.rests_until) = (0, Uptime::default());
    }

    /// It was not.
    pub(super) fn note_silence(&mut self, rests_until: Uptime) {
        self.silences = self.silences.saturating_add(1);
        self.rests_until = rests_until;
    }

    /// In halves where it was not answered for too long and has more than one place.
    pub(super) fn halves_of_silent(&self, registers: &[Register]) -> Option<[Self; 2]> {
        if self.silences < HALVED_AFTER {
            return None;
        }
        let halves = self.block.halves(registers)?;
        Some(halves.map(|block| Self { block, ..self.clone() }))
    }
}

/// Puts those first that are likely to be answered: the first answer shows that the
/// device is there. Of a device that is not, another is asked for each time.
pub(super) fn sort(parts: &mut [Part]) {
    parts.sort_by_key(|part| (part.silences, part.block.table, part.block.address));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::modbus::{RegisterKind, Table};

    fn registers() -> Vec<Register> {
        [0, 4, 9].map(|at| Register::plain(Table::Holding, at, RegisterKind::U16)).to_vec()
    }

    fn part(address: u16, count: u16, members: &[usize]) -> Part {
        Part::new(Block { table: Table::Holding, address, count, members: members.to_vec() })
    }

    fn second(s: u64) -> Uptime {
        Uptime::from_ns(s * 1_000_000_000)
    }

    #[test]
    fn a_silent_block_rests_and_is_asked_for_in_halves_the_third_time() {
        let mut whole = part(0, 10, &[0, 1, 2]);
        assert_eq!((whole.is_due(second(0)), whole.retry_at()), (true, None));
        for times in 1..=2 {
            whole.note_silence(second(7));
            assert_eq!((whole.silences(), whole.retry_at()), (times, Some(second(7))));
            assert_eq!(whole.halves_of_silent(&registers()), None);
        }
        assert_eq!([6, 7].map(|s| whole.is_due(second(s))), [false, true]);
        whole.note_silence(second(9));
        let halves = whole.halves_of_silent(&registers()).unwrap();
        let places = halves.each_ref().map(|half| (half.block.address, half.block.count));
        assert_eq!(places, [(0, 1), (4, 6)]);
        // What is known of the whole goes for both, until one is answered.
        let [mut first, second_half] = halves;
        assert_eq!(second_half.retry_at(), Some(second(9)));
        assert_eq!(first.halves_of_silent(&registers()), None, "one place has no halves");
        first.note_answer();
        assert_eq!((first.is_due(second(0)), first.retry_at()), (true, None));
    }

    #[test]
    fn those_that_were_answered_come_first_then_by_address() {
        let mut parts = [part(0, 1, &[0]), part(9, 1, &[2]), part(4, 1, &[1])];
        parts[0].note_silence(second(1));
        sort(&mut parts);
        assert_eq!(parts.each_ref().map(|part| part.block.address), [4, 9, 0]);
        parts[0].note_silence(second(1));
        parts[0].note_silence(second(1));
        sort(&mut parts);
        assert_eq!(parts.each_ref().map(|part| part.block.address), [9, 0, 4]);
    }
}
