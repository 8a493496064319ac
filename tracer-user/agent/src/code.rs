//! Code that processes have mapped, for those that find the functions of their stacks.
//!
//! The kernel reports it of every process, whether it may be looked into or not. So it is given
//! only right before a stack of the process, which was recorded while it could be: its user may
//! read what it has mapped then (`/proc/PID/maps`). What it had mapped before an exec is forgotten
//! as that begins.

use std::collections::{HashMap, VecDeque};

use tracer_binary::probes::lives_on;
use tracer_binary::stacks::{Mapping, TimedMappings};
use tracer_kernel::{MappingReport, MoveStep};

/// Mappings of a process that are kept; its user looks up the others.
const MOST_OF_PROCESS: usize = 1024;

/// Mappings of all processes that are kept.
const MOST: usize = 65_536;

/// Processes of which any are kept.
const MOST_PROCESSES: usize = 16_384;

/// Time for which those of an ended process are kept: its last stacks may still come.
const KEPT_FOR_NS: u64 = 1_000_000_000;

/// Code that all processes of the subscriptions have mapped.
#[derive(Debug, Default)]
pub struct MappedCode {
    processes: HashMap<i32, Mapped>,
    /// Number of mappings.
    count: usize,
    /// Number of programs so far: each has one of its own.
    programs: u64,
    ended: Vec<(u64, i32)>,
}

/// Code that a process has mapped since its last exec.
#[derive(Clone, Debug)]
struct Mapped {
    program: u64,
    /// Time before which nothing counts.
    since: u64,
    /// Whether what was known of the process before counts no more: it runs another program, or
    /// reports are missing.
    begins_anew: bool,
    /// Mappings with their times, in order of these.
    mappings: Vec<(u64, Mapping)>,
}

/// Part of a process's code that a subscription was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    /// 0 where it was given nothing so far.
    program: u64,
    count: usize,
    /// Time since which it was given what it has.
    from: u64,
}

impl Said {
    /// Nothing that counts, as some of what was given is missing.
    pub const DOUBTED: Self = Self {
        program: u64::MAX,
        count: 0,
        from: 0,
    };

    /// Notes that a mapping which was given at a time has not arrived.
    pub fn misses_one(&mut self, at: u64) {
        if at >= self.from {
            *self = Self::DOUBTED;
        }
    }
}

/// Reports that are later than the last watermark.
#[derive(Debug, Default)]
pub struct WaitingReports(VecDeque<(u64, u64, MappingReport)>);

impl WaitingReports {
    /// Adds reports, each with its time.
    pub fn add(&mut self, reports: Vec<(u64, MappingReport)>) {
        // A loss counts from when something may be missing, and not from when it is found.
        self.0.extend(reports.into_iter().map(|(time, report)| {
            let from = match report {
                MappingReport::Lost(since) => since.min(time),
                _ => time,
            };
            (from, time, report)
        }));
        self.0.make_contiguous().sort_by_key(|(from, ..)| *from);
    }

    /// Takes the next report that counts up to a time, with its own.
    pub fn next(&mut self, until: u64) -> Option<(u64, MappingReport)> {
        let next = self.0.pop_front_if(|(from, ..)| *from <= until);
        next.map(|(_, time, report)| (time, report))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl MappedCode {
    /// Keeps what a process maps from this time on, at which it comes to be traced.
    pub fn watch(&mut self, pid: i32, time: u64) {
        self.forget(pid);
        self.insert(pid, time, false, Vec::new());
    }

    /// Takes a report.
    pub fn take(&mut self, time: u64, report: MappingReport) {
        let is_of_the_past = |pid| {
            let known = self.processes.get(&pid);
            known.is_some_and(|known| time < known.since)
        };
        match report {
            // Of one that had the pid before, or of what came before it was traced.
            MappingReport::Forked(pid, _) | MappingReport::Ended(pid) if is_of_the_past(pid) => {}
            MappingReport::Mapped(pid, mapping) => self.map(time, pid, mapping),
            MappingReport::Forked(child, parent) if child != parent => {
                self.forget(child);
                if let Some(parent) = self.processes.get(&parent)
                    && self.count + parent.mappings.len() <= MOST
                {
                    let (since, begins_anew) = (parent.since, parent.begins_anew);
                    let mappings = parent.mappings.clone();
                    self.insert(child, since, begins_anew, mappings);
                }
            }
            MappingReport::Moves(pid, _, of, step) => {
                // Where it is now its user looks up.
                let unknown: Vec<_> = match step {
                    MoveStep::Begins => of.unknown_before().collect(),
                    MoveStep::Ended(result) => of.unknown_after(result).into_iter().collect(),
                };
                for unknown in unknown {
                    self.map(time, pid, unknown);
                }
            }
            MappingReport::Ended(pid) => {
                if self.processes.contains_key(&pid) {
                    self.ended.push((time, pid));
                }
            }
            MappingReport::Began(pid) if !is_of_the_past(pid) => self.begin(pid, time),
            // Of each it is not known what it has mapped since.
            MappingReport::Lost(_) => self.begin_all(time),
            MappingReport::Forked(..) | MappingReport::Began(_) => {}
        }
    }

    /// Forgets what a process had mapped before this time, at which it begins an exec.
    pub fn begin(&mut self, pid: i32, time: u64) {
        if self.processes.contains_key(&pid) {
            self.forget(pid);
            self.insert(pid, time, true, Vec::new());
        }
    }

    /// Forgets what all processes had mapped before this time: that one has begun an exec may have
    /// been lost.
    pub fn begin_all(&mut self, time: u64) {
        let pids: Vec<i32> = self.processes.keys().copied().collect();
        for pid in pids {
            self.begin(pid, time);
        }
    }

    /// Forgets processes that ended some time before this one.
    pub fn tidy(&mut self, now: u64) {
        let is_over = |(at, _): &mut (u64, i32)| *at + KEPT_FOR_NS < now;
        let over: Vec<_> = self.ended.extract_if(.., is_over).collect();
        for (_, pid) in over {
            // Its first thread is not always the last one.
            if lives_on(pid) {
                self.ended.push((now, pid));
            } else {
                self.forget(pid);
            }
        }
    }

    /// Returns the mappings of a process until a time that were not `said` yet, and notes them.
    /// Where what was said before is not there any more, or something may be missing, that comes
    /// first.
    pub fn unsaid(&self, pid: i32, until: u64, said: &mut Said) -> Vec<Mapping> {
        let known = self.processes.get(&pid);
        let Some(mapped) = known.filter(|mapped| until >= mapped.since) else {
            // Whatever it maps by then may not be known here.
            *said = Said::DOUBTED;
            return vec![Mapping::nothing()];
        };
        let mut new = Vec::new();
        if said.program != mapped.program {
            if said.program != 0 || mapped.begins_anew {
                new.push(Mapping::nothing());
            }
            *said = Said {
                program: mapped.program,
                count: 0,
                from: until,
            };
        }
        let unsaid = mapped.mappings.get(said.count..).unwrap_or_default();
        let count = unsaid.partition_point(|(time, _)| *time <= until);
        let unsaid = unsaid.iter().take(count);
        new.extend(unsaid.map(|(_, mapping)| mapping.clone()));
        said.count += count;
        new
    }

    fn map(&mut self, time: u64, pid: i32, mapping: Mapping) {
        let known = self.processes.get(&pid);
        if known.is_none_or(|mapped| time < mapped.since) {
            return;
        }
        if known.is_some_and(|mapped| mapped.mappings.len() >= MOST_OF_PROCESS) {
            self.leave_out_gone(pid);
        }
        let is_space = self.count < MOST;
        if let Some(mapped) = self.processes.get_mut(&pid).filter(|_| is_space) {
            mapped.mappings.push((time, mapping));
            self.count += 1;
        } else {
            // One that is missing may have covered another one.
            self.begin_all(time);
        }
    }

    /// Leaves out the mappings of a process that later ones cover, or all where too many are there:
    /// all that is left is said again.
    fn leave_out_gone(&mut self, pid: i32) {
        let Some(mapped) = self.processes.get_mut(&pid) else {
            return;
        };
        let before = mapped.mappings.len();
        let mut space = TimedMappings::<()>::default();
        for (time, mapping) in &mapped.mappings {
            space.map(*time, mapping);
        }
        let now = space.now();
        let now = now.map(|one| (one.since, Mapping::clone(&one.mapping)));
        mapped.mappings = now.collect();
        if mapped.mappings.len() > MOST_OF_PROCESS / 2 {
            mapped.mappings.clear();
            mapped.begins_anew = true;
        }
        mapped.mappings.sort_by_key(|(time, _)| *time);
        self.programs += 1;
        mapped.program = self.programs;
        self.count = (self.count + mapped.mappings.len()).saturating_sub(before);
    }

    fn insert(&mut self, pid: i32, since: u64, begins_anew: bool, mappings: Vec<(u64, Mapping)>) {
        if self.processes.len() >= MOST_PROCESSES {
            return;
        }
        self.programs += 1;
        self.count += mappings.len();
        let mapped = Mapped {
            program: self.programs,
            since,
            begins_anew,
            mappings,
        };
        self.processes.insert(pid, mapped);
    }

    fn forget(&mut self, pid: i32) {
        if let Some(mapped) = self.processes.remove(&pid) {
            self.count -= mapped.mappings.len();
        }
        self.ended.retain(|(_, ended)| *ended != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64) -> Mapping {
        Mapping {
            start,
            end: start + 0x1000,
            file_offset: 0,
            build_id: Vec::new(),
            path: b"/bin/true".as_slice().into(),
            inode: 0,
        }
    }

    fn starts(code: &MappedCode, pid: i32, said: &mut Said) -> Vec<u64> {
        let new = code.unsaid(pid, u64::MAX, said).into_iter();
        new.map(|mapping| mapping.start).collect()
    }

    fn starts_at(code: &MappedCode, until: u64, said: &mut Said) -> Vec<u64> {
        let new = code.unsaid(7, until, said).into_iter();
        new.map(|mapping| mapping.start).collect()
    }

    #[test]
    fn each_mapping_is_said_once_and_none_of_the_program_before() {
        let mut code = MappedCode::default();
        let take = |code: &mut MappedCode, time, report| code.take(time, report);
        code.watch(7, 1);
        take(&mut code, 0, MappingReport::Forked(7, 6));
        take(&mut code, 0, MappingReport::Mapped(7, mapping(0x2000)));
        take(&mut code, 1, MappingReport::Mapped(7, mapping(0x1000)));
        take(&mut code, 1, MappingReport::Mapped(9, mapping(0x1000)));
        let (mut one, mut other) = (Said::default(), Said::default());
        assert_eq!(starts(&code, 7, &mut one), [0x1000]);
        assert!(starts(&code, 7, &mut one).is_empty());
        take(&mut code, 2, MappingReport::Mapped(7, mapping(0x3000)));
        take(&mut code, 3, MappingReport::Forked(8, 7));
        // Not before it was made, and of others nothing.
        assert!(code.unsaid(7, 1, &mut one).is_empty());
        assert_eq!(starts(&code, 9, &mut Said::default()), [0]);
        assert_eq!(starts(&code, 7, &mut one), [0x3000]);
        assert_eq!(starts(&code, 7, &mut other), [0x1000, 0x3000]);
        // A program that may not be looked into, then one that may be.
        code.begin(7, 10);
        take(&mut code, 11, MappingReport::Mapped(7, mapping(0x5000)));
        code.begin(7, 20);
        // Reported late.
        take(&mut code, 12, MappingReport::Mapped(7, mapping(0x7000)));
        take(&mut code, 21, MappingReport::Mapped(7, mapping(0x9000)));
        // What was said of the program before is not there any more.
        assert_eq!(starts(&code, 7, &mut one), [0, 0x9000]);
        assert_eq!(starts(&code, 8, &mut Said::default()), [0x1000, 0x3000]);
        take(&mut code, 30, MappingReport::Ended(8));
        code.tidy(30 + KEPT_FOR_NS);
        assert_eq!(starts(&code, 8, &mut Said::default()).len(), 2);
        code.tidy(31 + KEPT_FOR_NS);
        assert_eq!(starts(&code, 8, &mut Said::default()), [0]);
        assert_eq!(code.count, 1);
    }

    #[test]
    fn a_loss_counts_from_when_something_may_be_missing() {
        let mut code = MappedCode::default();
        code.watch(7, 1);
        let mapped = |start| MappingReport::Mapped(7, mapping(start));
        let mut waiting = WaitingReports::default();
        let learn = |code: &mut MappedCode, waiting: &mut WaitingReports, until| {
            while let Some((time, report)) = waiting.next(until) {
                code.take(time, report);
            }
        };
        let mut said = Said::default();
        let mut at = |code: &MappedCode, until| starts_at(code, until, &mut said);
        waiting.add(vec![(10, mapped(0x1000)), (20, mapped(0x2000))]);
        waiting.add(vec![
            (30, MappingReport::Lost(15)),
            (35, mapped(0x3000)),
            (36, MappingReport::Forked(8, 7)),
        ]);
        learn(&mut code, &mut waiting, 14);
        assert_eq!(at(&code, 14), [0x1000]);
        // From 15 to 30 nothing is known, nor may a look before that count.
        learn(&mut code, &mut waiting, 17);
        assert_eq!(at(&code, 17), [0]);
        learn(&mut code, &mut waiting, 25);
        assert_eq!(at(&code, 25), [0]);
        learn(&mut code, &mut waiting, 40);
        assert_eq!(at(&code, 40), [0, 0x3000]);
        assert!(at(&code, 41).is_empty());
        // Of the child, others know what they knew of the parent.
        assert_eq!(starts(&code, 8, &mut Said::default()), [0, 0x3000]);
    }

    #[test]
    fn what_has_not_arrived_is_said_again_once() {
        let mut code = MappedCode::default();
        code.watch(7, 1);
        for (time, start) in [(10, 0x1000), (20, 0x2000)] {
            code.take(time, MappingReport::Mapped(7, mapping(start)));
        }
        let mut said = Said::default();
        assert_eq!(code.unsaid(7, 15, &mut said).len(), 1);
        assert_eq!(code.unsaid(7, 25, &mut said).len(), 1);
        said.misses_one(15);
        assert_eq!(starts_at(&code, 30, &mut said), [0, 0x1000, 0x2000]);
        // Of what was said before that, too.
        said.misses_one(25);
        assert!(starts_at(&code, 31, &mut said).is_empty());
        said.misses_one(30);
        assert_eq!(starts_at(&code, 32, &mut said), [0, 0x1000, 0x2000]);
    }

    #[test]
    fn no_process_has_more_than_so_many() {
        let mut code = MappedCode::default();
        code.watch(7, 1);
        let count = |code: &MappedCode| code.processes[&7].mappings.len();
        for start in 0..2 * MOST as u64 {
            code.take(1, MappingReport::Mapped(7, mapping(0x1000 * start)));
            assert!(count(&code) <= MOST_OF_PROCESS);
        }
        // Those that are gone give way to the others, and all are said again.
        code.watch(7, 1);
        let mut said = Said::default();
        for nth in 0..=MOST_OF_PROCESS as u64 {
            let path = format!("/{nth}");
            let mapping = Mapping {
                path: path.as_bytes().into(),
                ..mapping(0x1000 * (nth % 3))
            };
            code.take(1, MappingReport::Mapped(7, mapping));
            starts(&code, 7, &mut said);
        }
        assert_eq!(count(&code), 4);
        for pid in 8..80_000 {
            code.take(1, MappingReport::Forked(pid, 7));
        }
        assert!(code.count <= MOST && code.processes.len() <= MOST_PROCESSES);
        let in_all: usize = code.processes.values().map(|one| one.mappings.len()).sum();
        assert_eq!(code.count, in_all);
    }
}
