//! Findings of a first pass over a log about entries that wait for their exits.

use std::collections::HashSet;

use anyhow::ensure;
use foldhash::fast::RandomState;
use tracer_engine::event::MonotonicNs;

/// Most entries that are noted: 16 bytes each, and some for finding them.
const MOST: usize = 16 << 20;

/// Chosen entries, by time and thread, up to the last event that was looked at.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    chosen: HashSet<(u64, i32), RandomState>,
    until: MonotonicNs,
    has_too_many: bool,
}

impl Settled {
    /// Notes an entry that is chosen.
    pub(super) fn choose(&mut self, at: MonotonicNs, tid: i32) {
        if self.chosen.len() < MOST {
            self.chosen.insert((at.0, tid));
        } else {
            self.has_too_many = true;
        }
    }

    /// Notes that an event was looked at.
    pub(super) fn look_at(&mut self, at: MonotonicNs) {
        self.until = self.until.max(at);
    }

    /// Tells whether an entry is chosen.
    pub(super) fn is_chosen(&self, at: MonotonicNs, tid: i32) -> bool {
        self.chosen.contains(&(at.0, tid))
    }

    /// Returns the time of the last event that was looked at: what a log got since then is not
    /// known.
    #[must_use]
    pub fn until(&self) -> MonotonicNs {
        self.until
    }

    /// Returns the findings, if everything could be noted.
    ///
    /// # Errors
    ///
    /// There was too much.
    pub fn whole(self) -> anyhow::Result<Self> {
        ensure!(
            !self.has_too_many,
            "more than {MOST} system calls are as --filter and --failed ask for; choose a part of \
             the log by --from and --until, or fewer calls by --syscalls"
        );
        Ok(self)
    }
}
