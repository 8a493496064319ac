//! The code that processes have mapped, by time, as far as it is known.
//!
//! Where the kernel reports each mapping, all is known since the reports began: what was there
//! before, and is not reported, is looked up in `/proc` and was there all the time. Where it does
//! not, code is known from one look to the next, if it cannot have been another one in between:
//! code that runs for the first time makes a page fault.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracer_area::monotonic_now;
use tracer_binary::probes::lives_on;
use tracer_binary::stacks::{BuildIds, Mapping, RecordedStack, read_mappings};
use tracer_binary::unwind::{Copied, ProcessTime, Space, Unwinder, UnwoundStack};

use super::mapped::{MappingReport, MappingRings};
use super::moves::{Move, MoveHooks, MoveStep};

/// Processes whose mappings are known; beyond that, all are forgotten.
const MOST_PROCESSES: usize = 16_384;

/// Mappings of a process that wait to be events. Beyond that, those that are gone are left out.
const MOST_UNSAID: usize = 16_384;

/// Threads of a process that move code at a time. What others move is unknown after that.
const MOST_MOVING: usize = 64;

/// Addresses of a process that something was moved from or to, each with its time. Of others it is
/// known that nothing was moved there since the oldest of these.
const MOST_TOUCHED: usize = 256;

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
}

/// State of a process.
#[derive(Clone, Debug, Default)]
struct Process {
    /// The code that it has mapped.
    space: Space,
    /// Mappings that are no events yet, with their times.
    unsaid: Vec<(u64, Mapping)>,
    /// Time since which all that it maps is reported.
    since: u64,
    looked: Option<Look>,
    /// Code that threads are moving: what was there as each began.
    moving: HashMap<i32, Vec<Mapping>>,
    /// Addresses that something was moved from or to, and when last; [`u64::MAX`] while a call
    /// moves it.
    touched: Vec<(u64, Range<u64>)>,
    /// Time up to which anything may have been moved from or to any address.
    touched_before: u64,
}

/// A look at a process.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    /// Times at which it began and ended.
    began: u64,
    ended: u64,
    took: Duration,
    /// Page faults of the process before and after.
    faults: [Option<u64>; 2],
}

impl Process {
    fn new(since: u64) -> Self {
        Self {
            since,
            ..Self::default()
        }
    }

    /// Notes a mapping, which is to be an event.
    fn map(&mut self, time: u64, mapping: Mapping) {
        if self.space.map(time, &mapping) {
            self.say(time, mapping);
        }
    }

    /// Notes a mapping that was found where nothing was known, and is there since a time, or since
    /// something was moved there.
    fn fill(&mut self, since: u64, mapping: &Mapping) {
        let since = since.max(self.touched_at(mapping));
        for hole in self.space.fill(since, mapping) {
            self.say(since, hole);
        }
    }

    fn say(&mut self, time: u64, mapping: Mapping) {
        if self.unsaid.len() >= MOST_UNSAID {
            self.unsaid = self.said_anew();
            self.unsaid.truncate(MOST_UNSAID);
            return;
        }
        self.unsaid.push((time, mapping));
    }

    /// Returns what is there, with the time of each, after that all said before is gone.
    fn said_anew(&self) -> Vec<(u64, Mapping)> {
        let now = self.space.now();
        let now = now.map(|one| (one.since, Mapping::clone(&one.mapping)));
        std::iter::once((0, Mapping::nothing()))
            .chain(now)
            .collect()
    }

    /// Forgets what is there: since `time` it is not known.
    fn forget(&mut self, time: u64) {
        // What was there before belongs to stacks that may still come.
        self.unsaid.retain(|(at, _)| *at < time);
        self.space.forget(time);
        self.moving.clear();
        self.unsaid.push((time, Mapping::nothing()));
    }

    /// Returns what a child that it makes at this time has until it runs another program.
    fn inherited(&self, time: u64) -> Self {
        let mut inherited = Self::new(time);
        // Another process may have had the pid.
        inherited.unsaid.push((time, Mapping::nothing()));
        for one in self.space.now() {
            inherited.map(time, Mapping::clone(&one.mapping));
        }
        inherited
    }

    /// Notes that a thread moves code: until it has, that is unknown, since another one may run it.
    fn moves(&mut self, time: u64, tid: i32, of: &Move, step: MoveStep) {
        let (start, end) = (of.moved().start, of.moved().end);
        self.touch(time, of, step);
        let MoveStep::Ended(result) = step else {
            let parts = self.space.parts(start, end);
            self.moving.remove(&tid);
            if !parts.is_empty() && self.moving.len() < MOST_MOVING {
                self.moving.insert(tid, parts);
            }
            for unknown in of.unknown_before() {
                self.map(time, unknown);
            }
            return;
        };
        let parts = self.moving.remove(&tid).unwrap_or_default();
        let unknown = of.unknown_after(result);
        // What another thread has put there since may be what was moved.
        if !self.space.parts(start, end).is_empty() {
            let gone = of.unknown_before().chain(unknown);
            gone.for_each(|unknown| self.map(time, unknown));
            return;
        }
        if let Some(unknown) = unknown {
            self.map(time, unknown);
        }
        for part in parts {
            if let Some(moved) = of.place(&part, result) {
                self.map(time, moved);
            }
        }
    }

    /// Notes where something is moved from or to.
    fn touch(&mut self, time: u64, of: &Move, step: MoveStep) {
        let after = match step {
            MoveStep::Begins => None,
            MoveStep::Ended(result) => of.unknown_after(result),
        };
        // Until the call ends, either may be there.
        let until = match step {
            MoveStep::Begins => u64::MAX,
            MoveStep::Ended(_) => time,
        };
        for one in of.unknown_before().chain(after) {
            let is_within = |range: &Range<u64>| one.start <= range.start && range.end <= one.end;
            self.touched.retain(|(_, range)| !is_within(range));
            self.touched.push((until, one.start..one.end));
        }
        if self.touched.len() > MOST_TOUCHED {
            self.touched.drain(..MOST_TOUCHED / 2);
            self.touched_before = time;
        }
    }

    /// Returns when something may have been moved to or from the addresses of a mapping last.
    fn touched_at(&self, mapping: &Mapping) -> u64 {
        let touched = self.touched.iter();
        let there = touched
            .filter(|(_, range)| range.start < mapping.end && mapping.start < range.end)
            .map(|(time, _)| *time);
        there.fold(self.touched_before, u64::max)
    }

    /// Leaves out of what a look that began at a time has found whatever may have been moved
    /// meanwhile.
    fn leave_out_touched(&self, began: u64, there: &mut Vec<Mapping>) {
        there.retain(|mapping| self.touched_at(mapping) < began);
    }

    /// Notes that mappings which do not stay are gone since a time.
    fn keep_only(&mut self, since: u64, stays: impl Fn(&Mapping) -> bool) {
        let gone = self.space.now().filter(|one| !stays(&one.mapping));
        let gone = gone.map(|one| (one.mapping.start, one.mapping.end));
        for (start, end) in gone.collect::<Vec<_>>() {
            self.map(since, Mapping::nothing_at(start, end));
        }
    }

    /// Notes that it is not looked at for a stack that came after the last look.
    fn doubt(&mut self, pid: i32) {
        let Some(looked) = &mut self.looked else {
            return;
        };
        looked.faults = [None; 2];
        let since = looked.ended;
        let program = program_of(pid);
        self.keep_only(since, |mapping| never_goes(mapping, program.as_deref()));
    }

    /// Notes a look that found these mappings, where nothing is reported: what another look has
    /// found before was there in between, if it is there still and no code can have run for the
    /// first time.
    fn look_again(&mut self, pid: i32, look: &Look, there: &[Mapping]) {
        let before = self.looked.map_or(0, |looked| looked.ended);
        let [_, faults] = look.faults;
        let is_quiet = self.looked.is_some_and(|looked| {
            let [before, _] = looked.faults;
            before.is_some() && before == faults
        });
        let is_there = |known: &Mapping| there.contains(known);
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let program = program.as_deref();
        let gone = self.space.now().filter(|one| {
            let stays = is_quiet || never_goes(&one.mapping, program);
            !(stays && is_there(&one.mapping))
        });
        let gone: Vec<_> = gone
            .map(|one| (one.mapping.start, one.mapping.end))
            .collect();
        for (start, end) in gone {
            self.map(before, Mapping::nothing_at(start, end));
        }
        for mapping in there {
            let is_old = self.looked.is_none() && never_goes(mapping, program);
            self.fill(if is_old { self.since } else { look.ended }, mapping);
        }
    }
}

fn program_of(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Tells whether code is there for as long as its program is.
fn never_goes(mapping: &Mapping, program: Option<&Path>) -> bool {
    let Ok(path) = std::str::from_utf8(&mapping.path) else {
        return false;
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_program = program.is_some_and(|program| program == Path::new(path));
    is_program || path == "[vdso]" || name.starts_with("libc.so.") || name.starts_with("ld-linux")
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
            MappingReport::Mapped(pid, mapping) => self.process(pid).map(time, mapping),
            MappingReport::Forked(child, parent) if child != parent => {
                let inherited = match self.processes.get(&parent) {
                    Some(parent) => parent.inherited(time),
                    None => Process::default().inherited(time),
                };
                self.ended.retain(|(_, pid)| *pid != child);
                *self.process(child) = inherited;
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

    /// Looks up what a process has mapped, for a stack of this time, unless it was looked at just
    /// now. Returns whether it was.
    fn look(&mut self, ProcessTime { pid, at }: ProcessTime) -> bool {
        let is_reported = !matches!(self.reports, Reports::None);
        let looked = self.process(pid).looked;
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
        let look = Look {
            at: begin,
            began,
            ended: monotonic_now().0,
            took: begin.elapsed(),
            faults,
        };
        let is_kernels = matches!(self.reports, Reports::Kernel(_));
        let process = self.process(pid);
        process.leave_out_touched(began, &mut there);
        if is_reported && process.since > began {
            // It runs another program, or reports were lost, since it was looked at.
            there.clear();
        }
        if !is_reported {
            process.look_again(pid, &look, &there);
        } else {
            // The service gives what was mapped since the trace began with the stacks.
            let since = if is_kernels || process.looked.is_none() {
                process.since
            } else {
                look.ended
            };
            there
                .iter()
                .for_each(|mapping| process.fill(since, mapping));
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
        let space = &mut self.process(of.pid).space;
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
        self.look_first(of);
        let space = &self.process(of.pid).space;
        let is_known = |address| space.find(address, of.at).is_some();
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
    use super::*;

    fn mapping(start: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end: start + 0x1000,
            path: path.as_bytes().into(),
            ..Mapping::default()
        }
    }

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

    #[test]
    fn where_nothing_is_reported_code_is_known_between_quiet_looks_alone() {
        let mut process = Process::new(1);
        let look = |time, faults| Look {
            at: Instant::now(),
            began: time,
            ended: time,
            took: Duration::ZERO,
            faults: [Some(faults); 2],
        };
        let mut again = |time, faults, there: &[Mapping]| {
            let look = look(time, faults);
            process.look_again(0, &look, there);
            process.looked = Some(look);
            let at = |address, at| process.space.find(address, at).is_some();
            (at(0x1000, time - 1), at(0x5000, time - 1))
        };
        let both = [mapping(0x1000, "/lib/libc.so.6"), mapping(0x5000, "/x.so")];
        assert_eq!(again(10, 1, &both), (true, false));
        assert_eq!(again(20, 1, &both), (true, true));
        // Another one may have been there meanwhile.
        assert_eq!(again(30, 2, &both), (true, false));
        assert_eq!(again(40, 2, &both), (true, true));
        assert_eq!(again(50, 2, &both[..1]), (true, false));
        assert_eq!(again(60, 2, &both), (true, false));
        assert_eq!(again(70, 2, &both), (true, true));
        process.doubt(0);
        let at = |address, at| process.space.find(address, at).is_some();
        assert!(at(0x1000, 71) && at(0x5000, 69) && !at(0x5000, 71));
    }

    #[test]
    fn code_that_is_moved_is_unknown_until_it_is_there() {
        const PAGE: u64 = 0x1_0000;
        let mut process = Process::new(1);
        let names = |process: &Process, at| {
            let name = |page: u64| {
                let found = process.space.find(page * PAGE, at)?;
                Some(String::from_utf8_lossy(&found.mapping.path).into_owned())
            };
            [2, 4, 6].map(|page| name(page).unwrap_or_default())
        };
        let pages = |from: u64, to: u64, path: &str| Mapping {
            start: from * PAGE,
            end: to * PAGE,
            ..mapping(0, path)
        };
        process.map(5, pages(2, 4, "/a"));
        process.map(5, pages(4, 6, "/b"));
        // Over the other one.
        let over = Move::new([2 * PAGE, 2 * PAGE, 2 * PAGE, 3, 4 * PAGE]);
        process.moves(10, 1, &over, MoveStep::Begins);
        assert_eq!(names(&process, 9), ["/a", "/b", ""]);
        assert_eq!(names(&process, 10), ["", "", ""]);
        process.moves(20, 1, &over, MoveStep::Ended(4 * PAGE));
        assert_eq!(names(&process, 19), ["", "", ""]);
        assert_eq!(names(&process, 20), ["", "/a", ""]);
        // To where the kernel has space, while another thread maps something in its place.
        let away = Move::new([4 * PAGE, 2 * PAGE, 2 * PAGE, 1, 0]);
        process.moves(30, 1, &away, MoveStep::Begins);
        process.map(31, pages(4, 6, "/c"));
        process.moves(32, 1, &away, MoveStep::Ended(6 * PAGE));
        assert_eq!(names(&process, 31), ["", "/c", ""]);
        assert_eq!(names(&process, 32), ["", "", ""]);
        // A call that fails has moved nothing.
        process.map(40, pages(2, 4, "/a"));
        let fails = Move::new([2 * PAGE, 2 * PAGE, 2 * PAGE, 1, 0]);
        process.moves(41, 1, &fails, MoveStep::Begins);
        process.moves(42, 1, &fails, MoveStep::Ended((-12_i64).cast_unsigned()));
        assert_eq!(names(&process, 42), ["/a", "", ""]);
        // A look that has begun before may have seen either.
        let mut there = vec![pages(2, 4, "/a"), pages(8, 9, "/x")];
        process.leave_out_touched(40, &mut there);
        assert_eq!(there, [pages(8, 9, "/x")]);
        for nth in 0..1000 {
            process.moves(50, nth, &fails, MoveStep::Begins);
        }
        assert!(process.moving.len() <= MOST_MOVING && process.touched.len() <= MOST_TOUCHED);
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

    #[test]
    fn so_much_waits_to_be_said_and_no_more() {
        let mut process = Process::new(1);
        for nth in 0..3 * MOST_UNSAID as u64 {
            process.map(nth, mapping(0x1000, &format!("/{nth}")));
            assert!(process.unsaid.len() <= MOST_UNSAID);
        }
        let last = &process.unsaid.last().unwrap().1.path;
        assert_eq!(**last, *format!("/{}", 3 * MOST_UNSAID - 1).as_bytes());
    }
}
