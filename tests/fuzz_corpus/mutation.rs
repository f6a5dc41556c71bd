//! Inputs that are nearly right, from a seed: the same on every run.

/// Bytes at which decoders change their mind.
const TELLING: [u8; 16] =
    [0, 1, 0x7F, 0x80, 0xFF, b'"', b'\\', b'{', b'}', b'[', b',', b'=', b' ', b'\n', b'~', b'%'];
const LONGEST: usize = 4 * 1024;

pub(crate) struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    draws: u64,
}

impl<'a> Mutator<'a> {
    pub(crate) fn new(name: &str, seeds: &'a [Vec<u8>]) -> Self {
        let draws = name.bytes().fold(7, |seed: u64, byte| seed * 31 % 1_000_003 + u64::from(byte));
        Self { seeds, draws }
    }

    /// SplitMix64, below `bound`; 0 for a bound of 0.
    fn draw(&mut self, bound: usize) -> usize {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.draws;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }

    /// One of the seeds, changed in one to four ways.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let seeds = self.seeds;
        let mut input = seeds[self.draw(seeds.len())].clone();
        for _ in 0..=self.draw(4) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.draw(input.len());
        let length = 1 + self.draw(8);
        let end = input.len().min(at + length);
        match self.draw(8) {
            0 if !input.is_empty() => input[at] ^= 1 << self.draw(8),
            1 if !input.is_empty() => input[at] = TELLING[self.draw(TELLING.len())],
            2 => input.truncate(at),
            3 => drop(input.drain(at..end)),
            4 => {
                let bytes: Vec<u8> = (0..length).map(|_| self.draw(256) as u8).collect();
                drop(input.splice(at..at, bytes));
            }
            5 => {
                let again = input[at..end].repeat(1 + self.draw(40));
                drop(input.splice(at..at, again));
            }
            6 => {
                let seeds = self.seeds;
                let other = &seeds[self.draw(seeds.len())];
                let from = self.draw(other.len());
                let to = other.len().min(from + 1 + self.draw(32));
                drop(input.splice(at..end, other[from..to].iter().copied()));
            }
            _ => {
                let byte = TELLING[self.draw(TELLING.len())];
                input.insert(at, byte);
            }
        }
    }
}
