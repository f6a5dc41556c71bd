//! Sources that come, change and go while the agent runs.
//!
//! What belongs to a source's name stays: its books and with them its numbering, its
//! position, its totals, its memory of repeats, what it has in the journal. One that comes back
//! goes on. Windows do not wait for a source that has left, nor for one that is new
//! before its first reading: either is said in the journal or follows from it, so
//! that a replay comes to the same results.

use super::*;

impl Agent {
    /// These are the sources from here on. Of those that leave, everything that
    /// was handed in has been taken before.
    pub(super) fn change_sources(
        &mut self,
        now: &Now,
        sources: BTreeMap<SourceId, SourceSettings>,
    ) {
        for source in sources.keys() {
            self.books.account(source);
        }
        // Whatever bears its name later need not be the same device.
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
