//! Which registers are asked for together.
//!
//! A block is one request, so one instant. Registers close to each other share
//! one: within the limits of the protocol and of the device, and without reading
//! more in vain than `gap_max`. A value is never split over two requests, for its
//! halves would be of two instants.

use crate::config::modbus::{BITS_MAX, Modbus, Register, Table};

/// Bits are packed sixteen to a register.
const BITS_PER_REGISTER: u32 = 16;

/// One request, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The table.
    pub table: Table,
    /// The first register or bit.
    pub address: u16,
    /// How many.
    pub count: u16,
    /// The positions of the wanted ones in the configuration, by address.
    pub members: Vec<usize>,
}

/// The blocks of a device, by table and address.
pub fn plan(modbus: &Modbus) -> Vec<Block> {
    let registers = &modbus.registers;
    let mut order: Vec<usize> = (0..registers.len()).collect();
    order.sort_by_key(|at| (registers[*at].table, span(&registers[*at])));
    let mut blocks: Vec<Block> = Vec::new();
    for at in order {
        let one = &registers[at];
        let (first, end) = span(one);
        let (block_max, gap_max) = bounds(modbus, one.table);
        if let Some(block) = blocks.last_mut().filter(|block| block.table == one.table) {
            let start = u32::from(block.address);
            let block_end = start + u32::from(block.count);
            let count = end.max(block_end) - start;
            if first <= block_end + gap_max && count <= block_max {
                block.count = narrow(count);
                block.members.push(at);
                continue;
            }
        }
        let count = narrow(end - first);
        blocks.push(Block { table: one.table, address: one.address, count, members: vec![at] });
    }
    blocks
}

/// First and end, the end excluded: up to 65536.
fn span(register: &Register) -> (u32, u32) {
    let first = u32::from(register.address);
    (first, first + u32::from(register.kind.width()))
}

/// The longest block and the longest gap, in the units of a table.
fn bounds(modbus: &Modbus, table: Table) -> (u32, u32) {
    let (block, gap) = (u32::from(modbus.block_max), u32::from(modbus.gap_max));
    if table.is_bits() {
        ((block * BITS_PER_REGISTER).min(u32::from(BITS_MAX)), gap * BITS_PER_REGISTER)
    } else {
        (block, gap)
    }
}

fn narrow(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

impl Block {
    /// Two smaller blocks for the same registers, without what lay between them;
    /// `None` where all of them are in the same place. Asked for when a device
    /// refuses the block, to find what of it the device does not have.
    pub fn halves(&self, registers: &[Register]) -> Option<[Block; 2]> {
        let spans = self.members.iter().map(|at| span(&registers[*at]));
        let mut places: Vec<(u32, u32)> = spans.collect();
        places.dedup();
        if places.len() < 2 {
            return None;
        }
        let middle = places[places.len() / 2];
        let at = self.members.partition_point(|at| span(&registers[*at]) < middle);
        let (before, after) = self.members.split_at(at);
        Some([self.of(before, registers), self.of(after, registers)])
    }

    fn of(&self, members: &[usize], registers: &[Register]) -> Block {
        let spans = members.iter().map(|at| span(&registers[*at]));
        let (first, end) =
            spans.fold((u32::MAX, 0), |(first, end), (from, to)| (first.min(from), end.max(to)));
        Block {
            table: self.table,
            address: narrow(first),
            count: narrow(end - first),
            members: members.to_vec(),
        }
    }

    /// The bytes of one of its members in its answer; of a bit, one byte that is 0
    /// or 1. Empty where the answer is too short, which the frame rules out.
    pub fn bytes_of(&self, register: &Register, data: &[u8]) -> Vec<u8> {
        let at = usize::from(register.address - self.address);
        if self.table.is_bits() {
            let byte = data.get(at / 8).copied().unwrap_or(0);
            return vec![byte >> (at % 8) & 1];
        }
        let end = at + usize::from(register.kind.width());
        data.get(2 * at..2 * end).unwrap_or_default().to_vec()
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
