//! Processes that share their memory without being threads of one (`clone` with `CLONE_VM`, and
//! `vfork`): what one of them maps, the others have mapped.
//!
//! The kernel tells profilers of each new process, but not that it shares memory. So a small eBPF
//! program, which runs where a process or thread has been made, reports that into the rings that
//! all other reports go to, right behind the kernel's report of the same thread.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;

use super::assembled::{self, AND, Assembly, COPY, READ, WRITE, register};
use super::call;
use super::mapped::MappingReport;
use super::moves;
use tracer_binary::probes::lives_on;

/// Processes that share memory with others. Beyond that, mappings of one are not known of the
/// others.
const MOST: usize = 16_384;

/// Processes that were made last, and may be reported to share memory.
const MOST_NEW: usize = 256;

/// Bytes of a report, rounded up: some word that means nothing.
const REPORT_BYTES: i16 = 8;
const MOST_REPORT_BYTES: usize = 12;

/// Record of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// A report that needs no other one.
    Report(MappingReport),
    /// A new process.
    Made {
        child: i32,
        parent: i32,
        /// Thread of the parent.
        by: i32,
    },
    /// Thread whose newest process shares its memory.
    Shares(i32),
}

/// Tells whether a report of a program with this data is that of a thread whose newest process
/// shares its memory.
pub(super) fn is_report(data: &[u8]) -> bool {
    data.len() <= MOST_REPORT_BYTES
}

/// Attaches the program, which reports to the events in `map`.
///
/// # Errors
///
/// The kernel does not take it, or does not attach it.
pub(super) fn attach(map: &OwnedFd) -> io::Result<OwnedFd> {
    let program = assembled::load("shares_memory", &assemble(map))?;
    call::attach(&program, Some(c"task_newtask"))
}

/// Returns the program. Its context has the new thread and the flags by which it was made.
fn assemble(map: &OwnedFd) -> Vec<assembled::Instruction> {
    const CONTEXT: u8 = 6;
    const FLAGS: u8 = 7;
    let mut program = Assembly::default();
    program.put(COPY, CONTEXT, register::FIRST, 0);
    program.put_at(READ, FLAGS, CONTEXT, 8, 0);
    program.put(AND, FLAGS, 0, libc::CLONE_VM | libc::CLONE_THREAD);
    program.leave_unless(FLAGS, libc::CLONE_VM);
    program.put_at(WRITE, register::FRAME, FLAGS, -REPORT_BYTES, 0);
    moves::put_report(&mut program, map, CONTEXT, REPORT_BYTES);
    program.finish()
}

/// Processes that share memory.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    /// Number of the memory of each.
    memory: HashMap<i32, u64>,
    last: u64,
    /// Processes that were made last: child, parent, and the thread of this.
    new: VecDeque<(i32, i32, i32)>,
}

impl SharedMemory {
    /// Adds the reports that a record means: a mapping is one of each process that shares the
    /// memory.
    pub fn add(&mut self, (time, written): (u64, Written), to: &mut Vec<(u64, MappingReport)>) {
        let report = match written {
            Written::Shares(by) => return self.share(by),
            Written::Made { child, parent, by } => {
                // An earlier process may have had the pid.
                self.leave(child);
                if self.new.len() >= MOST_NEW {
                    self.new.pop_front();
                }
                self.new.push_back((child, parent, by));
                MappingReport::Forked(child, parent)
            }
            Written::Report(report) => report,
        };
        match &report {
            MappingReport::Began(pid) => self.leave(*pid),
            MappingReport::Ended(pid) if !lives_on(*pid) => self.leave(*pid),
            MappingReport::Mapped(pid, mapping) => {
                let of = |other| (time, MappingReport::Mapped(other, mapping.clone()));
                to.extend(self.others(*pid).map(of));
            }
            MappingReport::Moves(pid, tid, what, step) => {
                let of = |other| (time, MappingReport::Moves(other, *tid, *what, *step));
                to.extend(self.others(*pid).map(of));
            }
            MappingReport::Ended(_) | MappingReport::Forked(..) | MappingReport::Lost(_) => {}
        }
        to.push((time, report));
    }

    /// Notes that the newest process of a thread shares memory with its parent.
    fn share(&mut self, by: i32) {
        let Some(at) = self.new.iter().rposition(|(.., maker)| *maker == by) else {
            return;
        };
        let Some((child, parent, _)) = self.new.remove(at) else {
            return;
        };
        if self.memory.len() >= MOST {
            self.memory.retain(|pid, _| lives_on(*pid));
        }
        if self.memory.len() >= MOST {
            return;
        }
        self.last += 1;
        let memory = *self.memory.entry(parent).or_insert(self.last);
        self.memory.insert(child, memory);
    }

    /// Notes that a process has memory of its own, or none.
    fn leave(&mut self, pid: i32) {
        let Some(memory) = self.memory.remove(&pid) else {
            return;
        };
        let left = self.memory.iter().filter(|(_, of)| **of == memory);
        let left: Vec<i32> = left.take(2).map(|(other, _)| *other).collect();
        if let [alone] = left[..] {
            self.memory.remove(&alone);
        }
    }

    /// Returns the other processes that share the memory of this one.
    fn others(&self, pid: i32) -> impl Iterator<Item = i32> {
        let shared = self.memory.get(&pid).copied();
        // Most share none.
        let all = shared.map(|memory| self.memory.iter().filter(move |(_, of)| **of == memory));
        let all = all.into_iter().flatten().map(|(other, _)| *other);
        all.filter(move |other| *other != pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracer_binary::stacks::Mapping;

    #[test]
    fn what_one_maps_is_mapped_by_all_that_share_its_memory_until_they_leave() {
        let mut shared = SharedMemory::default();
        let mut mapped_by = |written: &[Written], pid| {
            let mut reports = Vec::new();
            for one in written {
                shared.add((1, one.clone()), &mut reports);
            }
            reports.clear();
            let mapping = MappingReport::Mapped(pid, Mapping::nothing());
            shared.add((2, Written::Report(mapping)), &mut reports);
            let of = reports.into_iter().map(|(_, report)| match report {
                MappingReport::Mapped(pid, _) => pid,
                other => panic!("{other:?}"),
            });
            let mut of: Vec<i32> = of.collect();
            of.sort_unstable();
            of
        };
        let made = |child, parent, by| Written::Made { child, parent, by };
        let began = |pid| Written::Report(MappingReport::Began(pid));
        assert_eq!(mapped_by(&[made(20, 10, 10)], 20), [20]);
        // Of two that are made at a time, one shares memory.
        let both = [made(21, 10, 11), made(22, 10, 12), Written::Shares(11)];
        assert_eq!(mapped_by(&both, 10), [10, 21]);
        assert_eq!(mapped_by(&[], 22), [22]);
        // So does its child.
        let child = [made(30, 21, 21), Written::Shares(21)];
        assert_eq!(mapped_by(&child, 30), [10, 21, 30]);
        assert_eq!(mapped_by(&[began(21)], 10), [10, 30]);
        assert_eq!(mapped_by(&[], 21), [21]);
        // Another process of that pid.
        assert_eq!(mapped_by(&[made(30, 5, 5)], 10), [10]);
        assert_eq!(mapped_by(&[Written::Shares(77)], 10), [10]);
    }
}
