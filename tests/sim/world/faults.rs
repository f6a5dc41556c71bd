//! What goes wrong in the world, and what its operator does meanwhile.

use super::{Happening, World};
use crate::settings::configured;
use tidegate::core::seam::Input;

impl World {
    /// It stops first, and waits for its receipts. While it is away a crash may
    /// happen like at any other time.
    pub(super) fn source_leaves(&mut self, source: usize) {
        self.sources[source].stops();
        if !self.sources[source].waiting.is_empty() {
            return self.after_all(100_000, Happening::Leaves(source));
        }
        self.sources[source].is_configured = false;
        let delay_us = self.rng.between(100_000, 20_000_000);
        self.after_all(delay_us, Happening::Returns(source));
        self.turn(Some(Input::Sources(configured(&self.sources))));
    }

    pub(super) fn source_returns(&mut self, source: usize) {
        self.sources[source].starts();
        self.returned += 1;
        self.turn(Some(Input::Sources(configured(&self.sources))));
        if self.has_faults {
            let delay_us = self.rng.between(1_000_000, 20_000_000);
            let who = self.rng.between(0, self.sources.len() as u64 - 1) as usize;
            self.after_all(delay_us, Happening::Leaves(who));
        }
    }

    /// What happens to clocks: steps by hand, sleep, the server comes and goes.
    pub(super) fn clock_fault(&mut self) {
        if !self.has_faults {
            return;
        }
        match self.rng.between(0, 9) {
            0..5 => self.machine.has_server = self.rng.chance(50),
            5 => {
                let until_us = self.now_us + self.rng.between(1_000_000, 30_000_000);
                self.machine.now(self.now_us);
                self.machine.slept(until_us);
                self.now_us = until_us;
            }
            _ => {
                let steps = [-7_200_000_000_000, 86_400_000_000_000, -3_250_000_000, 50_000_000];
                let by_ns = steps[self.rng.between(0, 3) as usize];
                self.machine.set(self.now_us, by_ns);
            }
        }
        self.schedule_clock_fault();
        self.turn(None);
    }

    pub(super) fn schedule_clock_fault(&mut self) {
        if self.has_faults {
            let delay_us = self.rng.between(1_000_000, 25_000_000);
            self.after(delay_us, Happening::ClockFault);
        }
    }

    pub(super) fn schedule_fault(&mut self) {
        if !self.has_faults {
            return;
        }
        let delay_us = self.rng.between(500_000, 12_000_000);
        let fault = match self.rng.between(0, 9) {
            0..3 => Happening::Crash,
            3 => Happening::Reboot,
            4..6 if self.scenario.has_rot => Happening::Rot,
            _ => Happening::Cut,
        };
        self.after(delay_us, fault);
    }

    /// The older copy is put back while the agent is not running. What it had
    /// receipted since is gone with the disk; that is no fault of it.
    pub(super) fn restore(&mut self) {
        let Some(backup) = self.backup.take() else { return };
        let Some(meta) = backup.flushed_meta() else { return };
        // The broker's word is as old as the last frontier that was said.
        if !self.brokers.iter().all(|broker| broker.will_notice(meta)) {
            self.backup = Some(backup);
            return self.after_all(100_000, Happening::Restore);
        }
        for source in &mut self.sources {
            let id = source.id.clone();
            source.durable.retain(|n| backup.flushed.contains(&(id.clone(), *n)));
        }
        self.disk = backup;
        self.crash();
    }
}
