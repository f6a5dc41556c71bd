//! Sources that come, change and go while the agent runs.
//!
//! What belongs to a source's name stays: its books and with them its numbering, its
//! position, its totals, its memory of repeats, what it has in the journal. One that comes back
//! goes on. Windows do not wait for a source that has left, nor for a new one before its
//! first reading. Both are in the journal or follow from it, so that a replay comes to
//! the same results.

use super::*;

impl Agent {
    /// Takes over the sources of a new configuration. Those that leave have handed in
    /// everything before.
    pub(super) fn change_sources(
        &mut self,
        now: &Now,
        sources: BTreeMap<SourceId, SourceSettings>,
    ) {
        for source in sources.keys() {
            self.books.account(source);
        }
        // A later source of the same name may be another device with another clock.
        self.source_clocks.retain(|source, _| sources.contains_key(source));
        self.windows.change_sources(&sources, now.mono);
        self.repeats.change_rules(&sources, self.pending.next(), now.mono);
        self.values.change_sources(&sources);
        self.settings.sources = sources;
    }
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
