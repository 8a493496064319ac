//! The code that processes have mapped, by time, as far as it is known.
//!
//! Where the kernel reports each mapping, all is known since the reports began: what was there
//! before, and is not reported, is looked up in `/proc` and was there all the time. Where it does
//! not, code is known from one look to the next, if it cannot have been another one in between:
//! code that runs for the first time makes a page fault.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracer_area::monotonic_now;
use tracer_binary::probes::lives_on;
use tracer_binary::stacks::{
    BuildIds, MOST_IN_ALL, Mapping, RecordedStack, largest_beyond, read_mappings,
};
use tracer_binary::unwind::{Copied, ProcessTime, Unwinder, UnwoundStack};

use super::mapped::{MappingReport, MappingRings};
use super::moves::MoveHooks;
use super::process_code::{Look, Process};

/// Processes whose mappings are known; beyond that, all are forgotten.
const MOST_PROCESSES: usize = 16_384;

/// Retention after process exit.
const KNOWN_AFTER_END: Duration = Duration::from_secs(2);

/// Interval after which a process with addresses in no mapping that we know is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Part of the time that looks at a process take, where each stack has one: 1 in so many.
const LOOKS_PART: u32 = 10;

/// Where mappings are known from.
#[derive(Debug)]
enum Reports {
    /// The kernel.
    Kernel(MappingRings),
    /// A service, which has reports of the kernel's.
    Service,
    /// Nowhere: all is looked up.
    None,
}

/// How often all mappings were to be said anew in this process.
static SAID_ANEW: AtomicU64 = AtomicU64::new(0);

/// Has the mappings of each process said anew, before its next stack: of those that were said, some
/// may be lost.
pub fn say_mappings_anew() {
    SAID_ANEW.fetch_add(1, Ordering::Relaxed);
}

/// The code of processes.
#[derive(Debug)]
pub(super) struct KnownCode {
    processes: HashMap<i32, Process>,
    build_ids: BuildIds,
    reports: Reports,
    /// Processes that have ended, and whose last stacks may still come.
    ended: Vec<(Instant, i32)>,
    /// Time since which all mappings are reported.
    since: u64,
    /// Whether processes were forgotten of which something was said.
    has_forgotten: bool,
    /// Processes of which nothing is known but that they move something, and when last.
    movers: HashMap<i32, u64>,
    /// Time up to which any other process may have moved something.
    moved_before: u64,
    /// Mappings since these were counted last.
    new: usize,
    /// How often mappings were to be said anew so far.
    said_anew: u64,
}

impl KnownCode {
    /// Begins to take the kernel's reports, also of moves, where programs may be attached for that.
    pub fn begin(hooks: MoveHooks<'_>) -> Self {
        let rings = MappingRings::begin(hooks);
        if let Err(error) = &rings {
            tracing::debug!(
                error = error as &dyn std::error::Error,
                "mappings are not reported, and looked up in /proc"
            );
        }
        Self::new(rings.map_or(Reports::None, Reports::Kernel))
    }

    /// Begins to take those that a service gives.
    pub fn given() -> Self {
        Self::new(Reports::Service)
    }

    fn new(reports: Reports) -> Self {
        Self {
            processes: HashMap::new(),
            build_ids: BuildIds::new(),
            reports,
            ended: Vec::new(),
            since: monotonic_now().0,
            has_forgotten: false,
            movers: HashMap::new(),
            moved_before: 0,
            new: 0,
            said_anew: SAID_ANEW.load(Ordering::Relaxed),
        }
    }

    /// Takes the kernel's reports without learning from them, for others.
    pub fn take_reports(&mut self) -> Vec<(u64, MappingReport)> {
        match &mut self.reports {
            Reports::Kernel(rings) => rings.take(),
            Reports::Service | Reports::None => Vec::new(),
        }
    }

    /// Learns what the kernel has reported by now.
    pub fn learn(&mut self) {
        for (time, report) in self.take_reports() {
            self.report(time, report);
        }
    }

    /// Forgets processes that ended a while ago.
    pub fn tidy(&mut self) {
        let now = Instant::now();
        self.ended.retain_mut(|(at, pid)| {
            if now.duration_since(*at) <= KNOWN_AFTER_END {
                return true;
            }
            // Its first thread is not always the last one.
            if lives_on(*pid) {
                *at = now;
                return true;
            }
            self.processes.remove(pid);
            false
        });
    }

    /// Learns from a report.
    pub fn report(&mut self, time: u64, report: MappingReport) {
        match report {
            MappingReport::Mapped(pid, mapping) => {
                self.process(pid).learn(time, mapping);
                self.count(1, time);
            }
            MappingReport::Forked(child, parent) if child != parent => {
                let inherited = match self.processes.get_mut(&parent) {
                    Some(parent) => {
                        parent.fill_found(time);
                        parent.inherited(time)
                    }
                    None => Process::default().inherited(time),
                };
                self.ended.retain(|(_, pid)| *pid != child);
                let size = inherited.size();
                *self.process(child) = inherited;
                self.count(size, time);
            }
            MappingReport::Forked(..) => {}
            MappingReport::Moves(pid, tid, of, step) => {
                // Most move data, of processes without stacks.
                match self.processes.get_mut(&pid) {
                    Some(process) => process.moves(time, tid, &of, step),
                    None => self.note_mover(pid, time),
                }
            }
            MappingReport::Began(pid) => {
                self.ended.retain(|(_, ended)| *ended != pid);
                let process = self.process(pid);
                process.forget(time);
                process.since = time;
                process.looked = None;
                process.touched.clear();
            }
            MappingReport::Ended(pid) => {
                self.movers.remove(&pid);
                self.ended.push((Instant::now(), pid));
            }
            MappingReport::Lost(since) => {
                self.since = self.since.max(time);
                for process in self.processes.values_mut() {
                    process.forget(since);
                    process.since = process.since.max(time);
                    process.looked = None;
                }
            }
        }
    }

    /// Counts new mappings, and forgets the processes that have most where there are too many.
    fn count(&mut self, new: usize, time: u64) {
        self.new += new;
        if self.new <= MOST_IN_ALL / 4 {
            return;
        }
        self.new = 0;
        let sizes = self.processes.iter();
        let sizes = sizes.map(|(pid, process)| (process.size(), *pid));
        for pid in largest_beyond(sizes, MOST_IN_ALL / 2) {
            let process = self.process(pid);
            tracing::debug!(
                pid,
                mappings = process.size(),
                "too many mappings: the functions of a process are unknown"
            );
            process.give_up(time);
        }
    }

    fn process(&mut self, pid: i32) -> &mut Process {
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            // What was said of them is gone by then, as far as is known.
            self.processes.clear();
            self.has_forgotten = true;
            // What is reported before the next look may be gone by then.
            self.since = monotonic_now().0;
        }
        let since = self.since;
        let has_forgotten = self.has_forgotten;
        let (movers, moved_before) = (&mut self.movers, self.moved_before);
        let process = self.processes.entry(pid);
        process.or_insert_with(|| {
            let mut new = Process::new(since);
            new.touched_before = movers.remove(&pid).unwrap_or(moved_before);
            if has_forgotten {
                new.unsaid.push((since, Mapping::nothing()));
            }
            new
        })
    }

    /// Notes that a process of which nothing is known moves something: what a look finds there was
    /// not there before.
    fn note_mover(&mut self, pid: i32, time: u64) {
        if self.movers.len() >= MOST_PROCESSES && !self.movers.contains_key(&pid) {
            self.movers.clear();
            self.moved_before = time;
        }
        self.movers.insert(pid, time);
    }

    /// Looks up what a process has mapped of which nothing is known yet, before its first stack.
    pub fn meet(&mut self, pid: i32) {
        if !self.processes.contains_key(&pid) {
            let at = monotonic_now().0;
            self.look(ProcessTime { pid, at });
        }
    }

    /// Looks up what a process has mapped, for a stack of this time, unless it was looked at just
    /// now. Returns whether more is known of that time. Where a service gives the reports, those of
    /// what was mapped by now come later: what is found does not count for stacks before that.
    fn look(&mut self, ProcessTime { pid, at }: ProcessTime) -> bool {
        let is_reported = !matches!(self.reports, Reports::None);
        let process = self.process(pid);
        let looked = process.looked;
        if process.has_found() {
            return false;
        }
        let is_recent = looked.is_some_and(|looked| {
            let least = if is_reported {
                LOOK_AGAIN
            } else {
                Duration::ZERO
            };
            let interval = least.max(looked.took * LOOKS_PART);
            looked.at.elapsed() < interval || (!is_reported && looked.began > at)
        });
        if is_recent {
            if !is_reported && looked.is_some_and(|looked| looked.began <= at) {
                self.process(pid).doubt(pid);
            }
            return false;
        }
        let begin = Instant::now();
        let began = monotonic_now().0;
        let faults = || (!is_reported).then(|| faults(pid)).flatten();
        let before = faults();
        let mut there = read_mappings(pid, &mut self.build_ids);
        let faults = [before, faults()];
        // What was mapped meanwhile is reported by now.
        self.learn();
        let ended = monotonic_now().0;
        self.count(there.len(), ended);
        let look = Look {
            at: begin,
            began,
            ended,
            took: begin.elapsed(),
            faults,
        };
        let is_reported_later = matches!(self.reports, Reports::Service);
        let process = self.process(pid);
        process.leave_out_touched(began, &mut there);
        if is_reported && process.since > began {
            // It runs another program, or reports were lost, since it was looked at.
            there.clear();
        }
        if is_reported_later {
            process.find_later(look, there);
            return false;
        }
        if is_reported {
            let since = process.since;
            there
                .iter()
                .for_each(|mapping| process.fill(since, mapping));
        } else {
            process.look_again(pid, &look, &there);
        }
        process.looked = Some(look);
        true
    }

    /// Finds the functions of a stack by what was copied of its thread; looks up what the process
    /// has mapped where one of them is in code that is not known.
    pub fn unwind(
        &mut self,
        of: ProcessTime,
        copied: &Copied<'_>,
        (unwinder, most_frames): (&mut Unwinder, usize),
    ) -> UnwoundStack {
        self.look_first(of);
        let process = self.process(of.pid);
        process.fill_found(of.at);
        let space = &mut process.space;
        let found = unwinder.find(of, space, copied, most_frames);
        if found.is_unmapped && self.look(of) {
            let space = &mut self.process(of.pid).space;
            return unwinder.find(of, space, copied, most_frames);
        }
        found
    }

    /// Returns what a process is known to have mapped at a time.
    pub fn mapped(&self, of: ProcessTime) -> Vec<Arc<Mapping>> {
        let process = self.processes.get(&of.pid).into_iter();
        let now = process.flat_map(|process| process.space.now());
        let then = now.filter(|one| one.since <= of.at);
        then.map(|one| Arc::clone(&one.mapping)).collect()
    }

    /// Has all mappings said anew, where they were to be more often than they were.
    fn say_anew(&mut self, times: u64) {
        if times != self.said_anew {
            self.said_anew = times;
            self.processes.values_mut().for_each(Process::say_anew);
        }
    }

    /// Looks at the process where nothing is reported: what was known may be gone.
    fn look_first(&mut self, of: ProcessTime) {
        if matches!(self.reports, Reports::None) {
            self.look(of);
        }
    }

    /// Returns the mappings that are no events yet, with their times, before a stack that has
    /// addresses of the program; looks them up where one of these is in none that is known.
    pub fn take_unsaid(
        &mut self,
        of: ProcessTime,
        taken: &RecordedStack<'_>,
    ) -> Vec<(u64, Mapping)> {
        if taken.head.user_frames == 0 {
            return Vec::new();
        }
        self.say_anew(SAID_ANEW.load(Ordering::Relaxed));
        self.look_first(of);
        let process = self.process(of.pid);
        process.fill_found(of.at);
        let space = &process.space;
        let (_, at) = taken.taken_between(of.at);
        let is_known = |address| space.find(address, at).is_some();
        if !taken.in_code().all(is_known) {
            self.look(of);
        }
        std::mem::take(&mut self.process(of.pid).unsaid)
    }
}

/// Returns the page faults of a process so far.
fn faults(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    let mut words = behind.split_ascii_whitespace();
    let minor: u64 = words.nth(7)?.parse().ok()?;
    let major: u64 = words.nth(1)?.parse().ok()?;
    minor.checked_add(major)
}

#[cfg(test)]
mod tests {
    use super::super::moves::{Move, MoveStep};
    use super::super::process_code::tests::mapping;
    use super::*;

    fn path(code: &KnownCode, pid: i32, address: u64, at: u64) -> Option<String> {
        let found = code.processes.get(&pid)?.space.find(address, at)?;
        Some(String::from_utf8_lossy(&found.mapping.path).into_owned())
    }

    #[test]
    fn a_process_has_what_it_had_at_that_time() {
        let mut code = KnownCode::given();
        code.since = 1;
        let mapped = |start, name| MappingReport::Mapped(7, mapping(start, name));
        code.report(10, mapped(0x1000, "/a"));
        code.report(20, MappingReport::Forked(8, 7));
        code.report(30, mapped(0x1000, "/b"));
        code.report(40, MappingReport::Began(7));
        code.report(50, mapped(0x5000, "/c"));
        assert_eq!(path(&code, 7, 0x1000, 29).as_deref(), Some("/a"));
        assert_eq!(path(&code, 7, 0x1000, 39).as_deref(), Some("/b"));
        assert_eq!(path(&code, 7, 0x1000, 40), None);
        assert_eq!(path(&code, 8, 0x1000, 60).as_deref(), Some("/a"));
        // What was there before the exec, for stacks that may still come, then nothing, and what
        // came after that.
        let said = &code.processes[&7].unsaid;
        let said: Vec<_> = said.iter().map(|(time, one)| (*time, one.start)).collect();
        assert_eq!(said, [(10, 0x1000), (30, 0x1000), (40, 0), (50, 0x5000)]);
        assert!(code.processes[&8].unsaid[0].1.is_nothing());
        // Something is missing since 55.
        code.report(60, MappingReport::Lost(55));
        assert_eq!(path(&code, 7, 0x5000, 54).as_deref(), Some("/c"));
        assert_eq!(path(&code, 7, 0x5000, 61), None);
        assert_eq!((code.processes[&7].since, code.since), (60, 60));
    }

    /// A process that maps and moves pages of code, and runs them, for readers that come late.
    struct Mover {
        seed: u64,
        time: u64,
        /// Name of the code at each place.
        there: [&'static str; 5],
    }

    impl Mover {
        const PAGE: u64 = 0x1_0000;
        const MAPPED: [&'static str; 3] = ["/a", "/b", ""];

        fn any(&mut self, count: usize) -> usize {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005) + 1;
            usize::try_from(self.seed >> 33).unwrap() % count
        }

        fn at(place: usize) -> u64 {
            Self::PAGE * 2 * (place as u64 + 1)
        }

        /// Maps, moves or removes something, and returns the kernel's reports of it.
        fn step(&mut self) -> Vec<(u64, MappingReport)> {
            let [from, to] = [0; 2].map(|_| self.any(5));
            self.time += 1;
            match self.any(5) {
                0 => {
                    self.there[to] = Self::MAPPED[self.any(3)];
                    vec![(self.time, MappingReport::Mapped(1, self.mapping(to)))]
                }
                // Not reported.
                1 => {
                    self.there[to] = "nothing";
                    vec![]
                }
                kind if from != to && self.there[from] != "nothing" => {
                    let (moved, began) = (self.there[from], self.time);
                    let fails = kind == 2 && self.any(2) == 0;
                    self.time += 1;
                    if !fails {
                        self.there[to] = moved;
                    }
                    // One kind leaves what it moves, too.
                    if !fails && kind != 3 {
                        self.there[from] = "nothing";
                    }
                    let to = Self::at(to);
                    let of = Move::new([Self::at(from), Self::PAGE, Self::PAGE, 3, to]);
                    let result = if fails { (-12_i64).cast_unsigned() } else { to };
                    [
                        (began, MoveStep::Begins),
                        (self.time, MoveStep::Ended(result)),
                    ]
                    .map(|(time, step)| (time, MappingReport::Moves(1, 1, of, step)))
                    .to_vec()
                }
                _ => vec![],
            }
        }

        fn mapping(&self, place: usize) -> Mapping {
            let start = Self::at(place);
            Mapping {
                end: start + Self::PAGE,
                ..mapping(start, self.there[place])
            }
        }

        /// Returns what a look finds.
        fn mapped(&self) -> Vec<Mapping> {
            let places = (0..5).filter(|place| self.there[*place] != "nothing");
            places.map(|place| self.mapping(place)).collect()
        }
    }

    #[test]
    fn whatever_is_moved_no_address_has_the_code_of_another_time() {
        for seed in 0..2000 {
            let mut code = KnownCode::given();
            code.since = 1;
            let mut mover = Mover {
                seed,
                time: 1,
                there: ["nothing"; 5],
            };
            let (mut named, mut run) = (0, 0);
            for _ in 0..20 {
                // What it runs until the reader comes.
                let (mut reports, mut stacks) = (Vec::new(), Vec::new());
                for _ in 0..=mover.any(10) {
                    reports.append(&mut mover.step());
                    mover.time += 1;
                    let ran = mover.mapped();
                    stacks.extend(ran.into_iter().map(|mapping| (mover.time, mapping)));
                }
                for (time, report) in reports {
                    code.report(time, report);
                }
                let mut may_look = true;
                for (time, mapping) in stacks {
                    let mut found = path(&code, 1, mapping.start, time);
                    if found.is_none() && std::mem::take(&mut may_look) {
                        let process = code.process(1);
                        let since = process.since;
                        let mut there = mover.mapped();
                        process.leave_out_touched(mover.time, &mut there);
                        there.iter().for_each(|one| process.fill(since, one));
                        found = path(&code, 1, mapping.start, time);
                    }
                    run += 1;
                    let Some(found) = found else { continue };
                    named += 1;
                    assert_eq!(found.as_bytes(), &*mapping.path, "{seed} at {time}");
                }
            }
            assert!(named * 2 > run, "{seed}: {named} of {run}");
        }
    }
}
