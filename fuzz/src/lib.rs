//! What every decoder of outside bytes is put through. Each target takes any bytes and
//! panics where the decoder breaks its word: to end without a panic, and to understand
//! what it accepted in such a way that, written down again, it reads the same.
//!
//! The targets run in two places: here under libFuzzer, for as long as one likes, and
//! in `tests/fuzz_corpus.rs` on every test run, on the kept corpus and seeded
//! mutations of it, with memory counted.

pub mod frames;
pub mod host;
pub mod lines;
pub mod settings;
pub mod stored;

/// One decoder.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The folder of its corpus.
    pub name: &'static str,
    /// Puts it through its paces.
    pub run: fn(&[u8]),
    /// Bytes of memory it may take at once, for each byte that came, beyond
    /// [`MEMORY_BASE`].
    pub memory_per_byte: usize,
}

/// Bytes of memory that any target may take at once, whatever came.
pub const MEMORY_BASE: usize = 512 * 1024;

/// All of them.
pub const TARGETS: [Target; 15] = [
    target("json_lines", lines::json, 400),
    target("line_protocol", lines::influx, 400),
    target("line_splitter", lines::splitter, 100),
    target("bare_values", lines::bare, 100),
    target("times", lines::times, 100),
    target("json_pointers", settings::pointers, 100),
    target("topics", settings::topics, 400),
    target("config", settings::config, 2_000),
    target("http_query", settings::query, 100),
    target("modbus_tcp", frames::tcp, 100),
    target("modbus_rtu", frames::rtu, 100),
    target("modbus_registers", frames::registers, 100),
    target("postcard_batch", stored::batch, 400),
    target("journal", stored::journal, 2_000),
    target("time_daemons", host::time_daemons, 100),
];

const fn target(name: &'static str, run: fn(&[u8]), memory_per_byte: usize) -> Target {
    Target { name, run, memory_per_byte }
}
