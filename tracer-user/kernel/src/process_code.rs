//! The code of one process, by time, as far as it is known.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracer_binary::stacks::{MOST_MAPPINGS, Mapping};
use tracer_binary::unwind::Space;

use super::moves::{Move, MoveStep};

/// Mappings of a process that wait to be events: more than are there at a time. Beyond that, those
/// that are gone are left out.
const MOST_UNSAID: usize = 2 * MOST_MAPPINGS;

/// Parts of what a call moves that are known where it is then.
const MOST_PARTS: usize = 256;

/// Threads of a process that move code at a time. What others move is unknown after that.
const MOST_MOVING: usize = 64;

/// Addresses of a process that something was moved from or to, each with its time. Of others it is
/// known that nothing was moved there since the oldest of these.
const MOST_TOUCHED: usize = 256;

/// State of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    /// The code that it has mapped.
    pub(super) space: Space,
    /// Mappings that are no events yet, with their times.
    pub(super) unsaid: Vec<(u64, Mapping)>,
    /// Time since which all that it maps is reported.
    pub(super) since: u64,
    pub(super) looked: Option<Look>,
    /// Mappings that the last look has found, where what was reported by then is not known yet.
    found: Option<Vec<Mapping>>,
    /// Code that threads are moving: what was there as each began.
    moving: HashMap<i32, Vec<Mapping>>,
    /// Addresses that something was moved from or to, and when last; [`u64::MAX`] while a call
    /// moves it.
    pub(super) touched: Vec<(u64, Range<u64>)>,
    /// Time up to which anything may have been moved from or to any address.
    pub(super) touched_before: u64,
}

/// A look at a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) at: Instant,
    /// Times at which it began and ended.
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) took: Duration,
    /// Page faults of the process before and after.
    pub(super) faults: [Option<u64>; 2],
}

impl Process {
    pub(super) fn new(since: u64) -> Self {
        Self {
            since,
            ..Self::default()
        }
    }

    /// Notes a report of a mapping.
    pub(super) fn learn(&mut self, time: u64, mapping: Mapping) {
        self.fill_found(time);
        if mapping == Mapping::nothing() {
            // What was mapped before may not have been reported: not even since a look.
            let is_later = self.looked.is_some_and(|looked| looked.began > time);
            self.found = self.found.take().filter(|_| is_later);
            self.since = self.since.max(time);
        }
        self.map(time, mapping);
    }

    /// Notes what a look has found before what was mapped by then is reported: with a later report
    /// or stack, all of that is.
    pub(super) fn find_later(&mut self, look: Look, there: Vec<Mapping>) {
        self.looked = Some(look);
        self.found = Some(there);
    }

    /// Tells whether a look has found mappings that do not count yet.
    pub(super) fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// Notes what the last look has found, where all is reported up to a later time than that: what
    /// was mapped after the look covers it then.
    pub(super) fn fill_found(&mut self, at: u64) {
        let ended = self.looked.map_or(0, |looked| looked.ended);
        for mapping in self.found.take_if(|_| ended <= at).into_iter().flatten() {
            self.fill(ended, &mapping);
        }
    }

    /// Notes a mapping, which is to be an event.
    pub(super) fn map(&mut self, time: u64, mapping: Mapping) {
        if self.space.map(time, &mapping) {
            self.say(time, mapping);
        }
    }

    /// Notes a mapping that was found where nothing was known, and is there since a time, or since
    /// something was moved there.
    pub(super) fn fill(&mut self, since: u64, mapping: &Mapping) {
        let since = since.max(self.touched_at(mapping));
        for (since, hole) in self.space.fill(since, mapping) {
            self.say(since, hole);
        }
    }

    /// Has all that is there said anew.
    pub(super) fn say_anew(&mut self) {
        self.unsaid = self.said_anew();
    }

    fn say(&mut self, time: u64, mapping: Mapping) {
        if self.unsaid.len() >= MOST_UNSAID {
            return self.say_anew();
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
    pub(super) fn forget(&mut self, time: u64) {
        // What was there before belongs to stacks that may still come.
        self.unsaid.retain(|(at, _)| *at < time);
        self.space.forget(time);
        self.moving.clear();
        self.unsaid.push((time, Mapping::nothing()));
    }

    /// Returns the number of mappings that it has in memory.
    pub(super) fn size(&self) -> usize {
        self.space.len() + self.unsaid.len()
    }

    /// Forgets all that is there and was, also what is no event yet: it takes too much memory.
    pub(super) fn give_up(&mut self, time: u64) {
        let unsaid = self.unsaid.iter().map(|(at, _)| *at);
        let since = unsaid.fold(time, u64::min);
        self.unsaid = vec![(since, Mapping::nothing())];
        self.space.forget_all(time);
        self.moving.clear();
        self.found = None;
        self.since = self.since.max(time);
    }

    /// Returns what a child that it makes at this time has until it runs another program.
    pub(super) fn inherited(&self, time: u64) -> Self {
        let mut inherited = Self::new(time);
        // Another process may have had the pid.
        inherited.unsaid.push((time, Mapping::nothing()));
        for one in self.space.now() {
            inherited.map(time, Mapping::clone(&one.mapping));
        }
        inherited
    }

    /// Notes that a thread moves code: until it has, that is unknown, since another one may run it.
    pub(super) fn moves(&mut self, time: u64, tid: i32, of: &Move, step: MoveStep) {
        let (start, end) = (of.moved().start, of.moved().end);
        self.touch(time, of, step);
        let MoveStep::Ended(result) = step else {
            let parts = self.space.parts(start, end);
            self.moving.remove(&tid);
            let are_few = (1..=MOST_PARTS).contains(&parts.len());
            if are_few && self.moving.len() < MOST_MOVING {
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
    pub(super) fn leave_out_touched(&self, began: u64, there: &mut Vec<Mapping>) {
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
    pub(super) fn doubt(&mut self, pid: i32) {
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
    pub(super) fn look_again(&mut self, pid: i32, look: &Look, there: &[Mapping]) {
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn name(process: &Process, address: u64, at: u64) -> Option<String> {
        let found = process.space.find(address, at)?;
        Some(String::from_utf8_lossy(&found.mapping.path).into_owned())
    }

    fn look(began: u64, ended: u64) -> Look {
        Look {
            at: Instant::now(),
            began,
            ended,
            took: Duration::ZERO,
            faults: [None; 2],
        }
    }

    #[test]
    fn what_a_late_look_finds_is_there_once_all_up_to_it_is_reported() {
        let mut process = Process::new(1);
        let there = [
            mapping(0x1000, "/b"),
            mapping(0x5000, "/x"),
            mapping(0x7000, "/y"),
        ];
        process.find_later(look(20, 21), there.to_vec());
        // A stack that was taken before, where `/a` was then.
        process.fill_found(10);
        assert_eq!(name(&process, 0x1000, 10), None);
        // With the next stack of that time comes what was mapped until then, and more is reported
        // with the first one after the look: `/c` is mapped, and then something is moved away.
        process.learn(19, mapping(0x1000, "/b"));
        process.fill_found(19);
        assert_eq!(name(&process, 0x5000, 19), None);
        process.learn(30, mapping(0x5000, "/c"));
        process.learn(30, Mapping::nothing_at(0x7000, 0x8000));
        process.fill_found(30);
        let names = [0x1000, 0x5000, 0x7000].map(|address| name(&process, address, 30));
        assert_eq!(names, [Some("/b".to_owned()), Some("/c".to_owned()), None]);
        assert!(process.unsaid.iter().all(|(time, _)| *time >= 19));

        // Reports may be missing since the look.
        process.find_later(look(40, 41), there.to_vec());
        process.learn(50, Mapping::nothing());
        process.fill_found(60);
        assert_eq!(name(&process, 0x7000, 60), None);
        process.find_later(look(60, 61), there.to_vec());
        process.learn(55, Mapping::nothing());
        process.fill_found(70);
        assert_eq!(name(&process, 0x7000, 70).as_deref(), Some("/y"));
    }

    pub fn mapping(start: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end: start + 0x1000,
            path: path.as_bytes().into(),
            ..Mapping::default()
        }
    }

    #[test]
    fn where_nothing_is_reported_code_is_known_between_quiet_looks_alone() {
        let mut process = Process::new(1);
        let look = |time, faults| Look {
            faults: [Some(faults); 2],
            ..look(time, time)
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
        // Too many parts to be followed, which are soon unknown.
        for nth in 0..=MOST_PARTS as u64 {
            process.map(45, mapping(100 * PAGE + 0x1000 * nth, &format!("/{nth}")));
        }
        let all = Move::new([100 * PAGE, 20 * PAGE, 20 * PAGE, 1, 0]);
        process.moves(46, 1, &all, MoveStep::Begins);
        process.moves(47, 1, &all, MoveStep::Ended((-14_i64).cast_unsigned()));
        assert!(process.space.parts(100 * PAGE, 120 * PAGE).is_empty());
        for nth in 0..1000 {
            process.moves(50, nth, &fails, MoveStep::Begins);
        }
        assert!(process.moving.len() <= MOST_MOVING && process.touched.len() <= MOST_TOUCHED);
    }

    #[test]
    fn so_much_waits_to_be_said_and_no_more() {
        let mut process = Process::new(1);
        for nth in 0..3 * MOST_UNSAID as u64 {
            process.map(nth, mapping(0x1000, &format!("/{nth}")));
            assert!(process.unsaid.len() <= MOST_UNSAID);
        }
        let last = process.unsaid.last().unwrap().1.path.clone();
        assert_eq!(*last, *format!("/{}", 3 * MOST_UNSAID - 1).as_bytes());
        let mut there = Process::new(1);
        for nth in 0..2 * MOST_UNSAID as u64 {
            there.map(nth + 5, mapping(0x2000 * nth, "/x"));
        }
        assert!(there.size() <= MOST_MAPPINGS + MOST_UNSAID);
        // Of what was no event by then, nothing is known either.
        there.give_up(1_000_000);
        assert_eq!(there.unsaid, [(5, Mapping::nothing())]);
        assert!(name(&there, 0x2000, 2_000_000).is_none() && there.since == 1_000_000);
    }
}
