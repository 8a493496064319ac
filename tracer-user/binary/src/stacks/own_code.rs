//! Code that a process has made itself, as the process tells of it in whatever way.

use std::sync::Arc;

use super::Mapping;
use super::generated::NameSince;
use super::jit_dump::JitDump;
use super::perf_map::PerfMap;

/// Functions that a process has made itself.
#[derive(Debug, Default)]
pub struct OwnCode {
    list: PerfMap,
    /// Names with times, which count before those of the list.
    dump: JitDump,
}

impl OwnCode {
    /// Opens the file with times of which process `pid` has mapped this mark at a time.
    pub fn mark(&mut self, pid: i32, at: u64, mark: &Mapping) {
        self.dump.open(pid, at, mark);
    }

    /// Reads what process `pid` has told since the last look, unless that was just now; at once
    /// where it is `due`. It has had code of its own since a time.
    pub fn look(&mut self, pid: i32, since: u64, is_due: bool) {
        self.list.look(pid, since, is_due);
        self.dump.look(is_due);
    }

    /// Reads what was told since then, where that is more, for an address that has no name. Returns
    /// whether it is.
    pub fn look_again(&mut self, pid: i32, since: u64) -> bool {
        let is_more = self.list.has_grown() || self.dump.has_grown();
        if is_more {
            self.look(pid, since, true);
        }
        is_more
    }

    /// Returns the function that had an address at a time, and the offset in it, where the process
    /// has had code of its own there since a time.
    pub fn find(&self, address: u64, at: u64, since: u64) -> Option<(Arc<str>, u64)> {
        let found = self.dump.code.find(address, at, since);
        found.or_else(|| self.list.code.find(address, at, since))
    }

    /// Returns the names that an address has had, in order of time, where the process has had code
    /// of its own there since a time.
    pub fn names(&self, address: u64, since: u64) -> Vec<NameSince> {
        let names = self.dump.code.names(address, since);
        if names.iter().any(|(_, name)| name.is_some()) {
            return names;
        }
        self.list.code.names(address, since)
    }

    /// Returns the number of bytes of the list that were read.
    pub fn bytes(&self) -> u64 {
        self.list.bytes()
    }

    /// Returns the number of functions that were told of so far.
    pub fn added(&self) -> u64 {
        self.list.code.added() + self.dump.code.added()
    }
}
