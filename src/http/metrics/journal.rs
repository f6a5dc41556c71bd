//! What is measured of the journal and of the process that keeps it.

use prometheus_client::registry::Registry;

use super::{Counters, Gauges, Labels, add, set, store};
use crate::core::seam::FullCause;
use crate::http::status::{Report, full_word};

/// What is measured of the journal and of the process.
#[derive(Debug)]
pub(super) struct JournalMetrics {
    written: Counters,
    disk_written: Counters,
    bytes: Gauges,
    readings: Gauges,
    results: Gauges,
    oldest_age: Gauges,
    capacity: Gauges,
    depth: Gauges,
    room: Gauges,
    committing: Gauges,
    full: Gauges,
    memory: Gauges,
    config_refused: Gauges,
    uptime: Gauges,
    build: Gauges,
}

impl JournalMetrics {
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            written: add(
                r,
                "journal_written_bytes",
                "Bytes handed to the journal's engine; the disk sees more",
            ),
            disk_written: add(
                r,
                "disk_written_bytes",
                "Bytes the process has written to disk, by the kernel; absent where it is silent",
            ),
            bytes: add(r, "journal_bytes", "Bytes the data directory takes"),
            readings: add(
                r,
                "journal_readings",
                "Readings, and results of windows, not yet acknowledged",
            ),
            results: add(r, "journal_results", "Of these, results of windows"),
            oldest_age: add(r, "journal_oldest_age_seconds", "Age of the oldest of them"),
            capacity: add(r, "journal_capacity_bytes", "Bytes it may take as things are"),
            depth: add(r, "journal_depth_seconds", "How long they took to come in"),
            room: add(r, "journal_room_seconds", "How long the room left would last"),
            committing: add(r, "journal_committing", "1 while commits succeed, 0 while they fail"),
            full: add(r, "journal_full", "1 for the limit that is reached"),
            memory: add(
                r,
                "resident_memory_bytes",
                "Memory the process has, by the kernel; absent where it is silent",
            ),
            config_refused: add(
                r,
                "config_refused",
                "1 while the newest configuration was not taken over, and an older one is in force",
            ),
            uptime: add(r, "uptime_seconds", "Since the agent started"),
            build: add(r, "build_info", "1, with what runs and where"),
        }
    }

    pub(super) fn take_over(&self, report: &Report) {
        let none = Labels::new();
        let journal = &report.journal;
        store(&self.written, &none, journal.written_bytes);
        if let Some(written) = journal.disk_written_bytes {
            store(&self.disk_written, &none, written);
        }
        set(&self.bytes, &none, Some(journal.bytes as f64));
        set(&self.readings, &none, Some(journal.readings as f64));
        set(&self.results, &none, Some(journal.results as f64));
        let no_age = (journal.readings == 0).then_some(0.0);
        set(&self.oldest_age, &none, journal.oldest_age_s.or(no_age));
        set(&self.capacity, &none, Some(journal.capacity_bytes as f64));
        set(&self.depth, &none, journal.depth_s);
        set(&self.room, &none, journal.room_s);
        set(&self.committing, &none, Some(f64::from(u8::from(journal.is_committing))));
        for limit in [FullCause::Quota, FullCause::Reserve, FullCause::Store].map(full_word) {
            let is_reached = journal.full.as_deref() == Some(limit);
            let label = vec![("limit", limit.to_owned())];
            set(&self.full, &label, Some(f64::from(u8::from(is_reached))));
        }
        set(&self.memory, &none, report.memory_bytes.map(|bytes| bytes as f64));
        let reload = report.config.as_ref().and_then(|config| config.last_reload.as_ref());
        let is_refused = reload.is_some_and(|reload| !reload.ok);
        set(&self.config_refused, &none, Some(f64::from(u8::from(is_refused))));
        set(&self.uptime, &none, Some(report.uptime_s));
        let label = vec![("version", report.version.clone()), ("gateway", report.gateway.clone())];
        set(&self.build, &label, Some(1.0));
    }
}
