//! Finds the interpreters of processes, and tells the eBPF programs of them: by the kernel's
//! reports before an interpreter runs its first function, or where a search looks into a process.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracer_binary::bounded_proc;
use tracer_binary::python::{Interpreter, PythonFile};
use tracer_binary::stacks::{BuildIds, MappedBy, Mapping, binary, read_mappings};
use tracer_common::kernel::PythonProcess;
use zerocopy::IntoBytes as _;

use super::{FileKey, Known, NOT_TOLD, ToldInterpreter, file_key, lock};
use crate::mapped::{MappingReport, MappingRings};
use crate::watching::Stopped;

/// Most files that are known at a time. Beyond that, all are forgotten.
const MOST_FILES: usize = 1024;

/// Bytes of `maps` that are looked through for an interpreter.
const MOST_MAPS_BYTES: u64 = 4 << 20;

/// Interval of looks in `/proc` where the kernel does not report what is mapped.
const LOOK_AGAIN_MS: i32 = 100;

/// Time for which an interpreter is known after its process has ended: stacks may still come.
const KNOWN_AFTER_END: Duration = Duration::from_secs(10);

/// Function that tells the programs which interpreter a process has, or that it has none. It
/// returns whether they know it now.
pub(super) trait Tell: FnMut(i32, Option<PythonProcess>) -> bool {}

impl<T: FnMut(i32, Option<PythonProcess>) -> bool> Tell for T {}

/// Watch over interpreters, of which it tells the programs.
pub(super) struct Watch<T> {
    tell: T,
    known: Known,
    /// Interpreters of processes that have ended, or run another program.
    ended: Vec<(Instant, i32, ToldInterpreter)>,
    /// Files by path and build identifier; `None` for one without an interpreter.
    files: HashMap<FileKey, Option<Arc<PythonFile>>>,
    build_ids: BuildIds,
    numbers: Numbers,
}

/// Numbers of interpreters.
enum Numbers {
    /// One after the other: the last one.
    Counted(u32),
    /// By what the interpreter is, so that several watches give the interpreter of a process the
    /// same number.
    Hashed,
}

impl Numbers {
    /// Returns the number of an interpreter that has none yet. Not 0.
    fn next(&mut self, interpreter: &Interpreter) -> u32 {
        match self {
            Self::Counted(last) => {
                *last = last.checked_add(1).unwrap_or(1);
                *last
            }
            Self::Hashed => {
                let PythonProcess {
                    runtime,
                    code_type,
                    text_type,
                    minor,
                    layout,
                    // It may become known later.
                    interned: _,
                    number: _,
                } = interpreter.process;
                let mut hasher = DefaultHasher::new();
                (runtime, code_type, text_type, minor, layout.as_bytes()).hash(&mut hasher);
                let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
                u32::from_le_bytes([a, b, c, d]).max(1)
            }
        }
    }
}

impl<T: Tell> Watch<T> {
    /// Returns a watch over all processes.
    pub fn of_all(known: Known, tell: T) -> Self {
        Self::new(known, tell, Numbers::Counted(0))
    }

    /// Returns a watch over some processes, beside others that tell the same programs.
    pub fn of_some(known: Known, tell: T) -> Self {
        Self::new(known, tell, Numbers::Hashed)
    }

    fn new(known: Known, tell: T, numbers: Numbers) -> Self {
        Self {
            tell,
            known,
            ended: Vec::new(),
            files: HashMap::new(),
            build_ids: BuildIds::new(),
            numbers,
        }
    }

    /// Takes reports until the other end of `stopped` is closed.
    pub fn go_on(&mut self, mut rings: Option<MappingRings>, stopped: &Stopped) {
        loop {
            let timeout = if rings.is_none() { LOOK_AGAIN_MS } else { -1 };
            if stopped.waits(rings.as_ref(), timeout) {
                return;
            }
            match &mut rings {
                None => self.look_at_all(),
                Some(rings) => {
                    for (time, report) in rings.take() {
                        self.report(time, report);
                    }
                }
            }
        }
    }

    fn report(&mut self, time: u64, report: MappingReport) {
        match report {
            MappingReport::Mapped(pid, mapping) => drop(self.look_at(pid, time, &mapping)),
            MappingReport::Forked(child, parent) if child != parent => {
                let of_parent = lock(&self.known).interpreters.get(&parent).cloned();
                match of_parent {
                    // The programs have noted the interpreter of the child themselves.
                    Some(known) => {
                        // An interpreter that is known of the child's pid is that of an earlier
                        // process.
                        lock(&self.known).interpreters.remove(&child);
                        self.tell(child, time.min(known.told), known.interpreter);
                    }
                    None => self.forget(child),
                }
            }
            MappingReport::Forked(..) | MappingReport::Moves(..) => {}
            MappingReport::Began(pid) => self.forget(pid),
            MappingReport::Ended(pid) => {
                if !tracer_binary::probes::lives_on(pid) {
                    self.forget(pid);
                }
            }
            MappingReport::Lost(_) => self.look_at_all(),
        }
    }

    /// Looks at every process.
    pub fn look_at_all(&mut self) {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // The programs that were looked at: whether each has an interpreter in its own file.
        let mut programs: HashMap<(u64, u64), bool> = HashMap::new();
        for pid in pids.collect::<Vec<i32>>() {
            let Some(seen) = look_for_one(pid) else {
                continue;
            };
            let may_have = |program| programs.get(&program).copied().unwrap_or(true);
            if !seen.is_named && !seen.program.is_some_and(may_have) {
                continue;
            }
            let now = tracer_area::monotonic_now().0;
            self.look_at_process(pid, now);
            if let Some(program) = seen.program.filter(|_| !seen.is_named) {
                let has = lock(&self.known).interpreters.contains_key(&pid);
                programs.insert(program, has);
            }
        }
    }

    /// Looks at the files of a process, which may have had its interpreter since that time. Returns
    /// whether the programs know its interpreter now.
    pub fn look_at_process(&mut self, pid: i32, since: u64) -> bool {
        let mappings = read_mappings(pid, &mut self.build_ids);
        let looks = mappings.iter().map(|one| self.look_at(pid, since, one));
        looks.fold(false, |is_told, one| is_told | one)
    }

    /// Looks at a file that a process has mapped at that time. Returns whether the programs know
    /// now that the file has the interpreter of the process.
    fn look_at(&mut self, pid: i32, time: u64, mapping: &Mapping) -> bool {
        if !PythonFile::may_be(&mapping.path) {
            return false;
        }
        let key = file_key(mapping);
        let known = self.files.get(&key).filter(|_| !key.1.is_empty());
        if matches!(known, Some(None)) {
            return false;
        }
        let owner = MappedBy {
            pid,
            at: Some(time),
        };
        let Some(binary) = binary(owner, mapping, &mut self.build_ids) else {
            return false;
        };
        if let Some(known) = known {
            let interpreter = known.as_ref().and_then(|it| it.mapped(&binary, mapping));
            return interpreter.is_some_and(|found| self.tell_found(pid, time, found));
        }
        let mut file = PythonFile::read(&binary);
        let mut is_told = false;
        if let Some(file) = &mut file
            && let Some(interpreter) = file.mapped(&binary, mapping)
        {
            is_told = self.tell_found(pid, time, interpreter);
            // The process runs meanwhile: the programs are told before the other parts of the file
            // are read.
            file.add_parts(&binary);
            if let Some(interpreter) = file.mapped(&binary, mapping) {
                is_told = self.tell_found(pid, time, interpreter);
            }
        }
        if self.files.len() >= MOST_FILES {
            self.files.clear();
            lock(&self.known).without.clear();
        }
        if file.is_none() {
            lock(&self.known).without.insert(key.clone());
        }
        self.files.insert(key, file.map(Arc::new));
        is_told
    }

    /// Tells the programs of an interpreter that was found in a process. The interpreter gets a
    /// number of its own, or keeps the one that it has. Returns whether the programs know it now.
    fn tell_found(&mut self, pid: i32, mapped: u64, mut interpreter: Interpreter) -> bool {
        let known = lock(&self.known).interpreters.get(&pid).cloned();
        let is_known = known.is_some_and(|known| {
            interpreter.process.number = known.interpreter.process.number;
            let mut ended = self.ended.iter();
            let has_ended = ended.any(|(_, of, ended)| *of == pid && ended.told == known.told);
            // It may be known by now where the interned texts are.
            let there = PythonProcess {
                interned: known.interpreter.process.interned,
                ..interpreter.process
            };
            there == known.interpreter.process && !has_ended
        });
        if !is_known {
            interpreter.process.number = self.numbers.next(&interpreter);
        }
        let number = interpreter.process.number;
        let interpreter = Arc::new(interpreter);
        // This is noted before any frames are found by the interpreter.
        let mut judged = lock(&self.known);
        judged.numbered.insert(number, Arc::clone(&interpreter));
        drop(judged);
        self.tell(pid, mapped, interpreter)
    }

    fn tell(&mut self, pid: i32, mapped: u64, interpreter: Arc<Interpreter>) -> bool {
        if !(self.tell)(pid, Some(interpreter.process)) {
            return false;
        }
        self.note_told(pid, (mapped, tracer_area::monotonic_now().0), interpreter);
        true
    }

    /// Notes that the programs know the interpreter of a process since the second of these times.
    fn note_told(&mut self, pid: i32, (mapped, told): (u64, u64), interpreter: Arc<Interpreter>) {
        let number = interpreter.process.number;
        let mut judged = lock(&self.known);
        let before = match judged.interpreters.get_mut(&pid) {
            Some(known)
                if known.interpreter.process.number == number
                    && (mapped..NOT_TOLD).contains(&known.told) =>
            {
                known.interpreter = interpreter;
                None
            }
            _ => {
                let told = ToldInterpreter {
                    interpreter,
                    mapped,
                    told,
                };
                judged.interpreters.insert(pid, told)
            }
        };
        drop(judged);
        let ended = before.map(|before| (Instant::now(), pid, before));
        self.ended.extend(ended);
    }

    /// Notes the interpreter of a child whose parent had it at that time, where the programs knew
    /// it by then: they have noted it of the child themselves. Returns whether they did.
    pub fn inherits(&mut self, child: i32, parent: i32, time: u64) -> bool {
        let of_parent = lock(&self.known).interpreters.get(&parent).cloned();
        lock(&self.known).interpreters.remove(&child);
        let known = of_parent.filter(|known| known.told <= time);
        let Some(known) = known else { return false };
        self.note_told(child, (time, time), known.interpreter);
        true
    }

    /// Tells whether an interpreter of a process is known.
    fn knows(&self, pid: i32) -> bool {
        lock(&self.known).interpreters.contains_key(&pid)
    }

    /// Forgets the interpreter of a process that has ended, or runs another program.
    pub fn forget(&mut self, pid: i32) {
        if self.knows(pid) {
            (self.tell)(pid, None);
        }
        self.has_ended(pid);
    }

    /// Forgets the interpreter of a process, which the programs have forgotten themselves.
    pub fn has_ended(&mut self, pid: i32) {
        let known = lock(&self.known).interpreters.get(&pid).cloned();
        if let Some(known) = known {
            self.ended.push((Instant::now(), pid, known));
        }
        let is_over = |(at, ..): &(Instant, i32, _)| at.elapsed() > KNOWN_AFTER_END;
        let over = self.ended.iter().take_while(|ended| is_over(ended)).count();
        if over == 0 {
            return;
        }
        let mut known = lock(&self.known);
        for (_, pid, ended) in self.ended.drain(..over) {
            let now = known.interpreters.get(&pid);
            if now.is_some_and(|now| now.told == ended.told) {
                known.interpreters.remove(&pid);
            }
        }
        // Only the interpreters stay that a process has, or had until lately.
        known.numbered.retain(|_, of| Arc::strong_count(of) > 1);
    }
}

/// Findings of a look at a process that may have an interpreter.
struct Seen {
    /// A file of it is named as interpreters are.
    is_named: bool,
    /// Device and inode of its program.
    program: Option<(u64, u64)>,
}

/// Looks for an interpreter of a process; `None` where it may not be looked at, or has no program.
fn look_for_one(pid: i32) -> Option<Seen> {
    let asked = bounded_proc::ask_process(pid, move || {
        let maps = fs::File::open(format!("/proc/{pid}/maps"))?;
        let mut text = Vec::new();
        maps.take(MOST_MAPS_BYTES).read_to_end(&mut text)?;
        let program = fs::metadata(format!("/proc/{pid}/exe")).ok();
        let program = program.map(|program| (program.dev(), program.ino()));
        std::io::Result::Ok((text, program))
    });
    let (text, program) = asked.ok()?.ok()?;
    let mut lines = text.split(|byte| *byte == b'\n');
    Some(Seen {
        is_named: lines.any(PythonFile::is_named),
        program,
    })
}
