//! Finds the Python interpreters of processes, for the eBPF programs that follow their frames.
//!
//! A separate thread takes the kernel's reports of what processes map. It tells the programs at
//! once where an interpreter is, before the interpreter runs its first function. A child has the
//! interpreter of its parent: the programs note that themselves.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::MapData;
use tracer_binary::bounded_proc;
use tracer_binary::python::{Codes, Frames, Interpreter, PythonFile, merged};
use tracer_binary::stacks::{BuildIds, MappedBy, Mapping, binary, read_mappings};
use tracer_binary::unwind::ProcessTime;
use tracer_common::kernel::{PYTHON_RECORD, PythonProcess, RecordHeader, StackData, stack_ends};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::error::LoadError;
use super::mapped::{MappingReport, MappingRings};
use super::watching::{MappingWatcher, Stopped, Watching};

const PYTHON: &str = "PYTHON";

/// Words of what the programs are told of a process.
const WORDS: usize = size_of::<PythonProcess>() / size_of::<u64>();

/// The map from which the programs know of interpreters.
type Processes = aya::maps::HashMap<MapData, u32, [u64; WORDS]>;

/// Most files that are known at a time. Beyond that, all are forgotten.
const MOST_FILES: usize = 1024;

/// Bytes of `maps` that are looked through for an interpreter.
const MOST_MAPS_BYTES: u64 = 4 << 20;

/// Interval of looks in `/proc` where the kernel does not report what is mapped.
const LOOK_AGAIN_MS: i32 = 100;

/// Time for which an interpreter is known after its process has ended: stacks may still come.
const KNOWN_AFTER_END: Duration = Duration::from_secs(10);

/// Most frames that wait for their stacks. A stack follows at once, unless it was lost.
const MOST_WAITING: usize = 4096;

/// Interpreter of a process, and since when the programs have been told of it.
#[derive(Clone, Debug)]
struct ToldInterpreter {
    interpreter: Arc<Interpreter>,
    /// Time at which the process has mapped the interpreter, or has become one that has it.
    mapped: u64,
    /// Time since which the programs find its frames.
    told: u64,
}

/// Knowledge of processes, and of files.
#[derive(Debug, Default)]
struct Judged {
    interpreters: HashMap<i32, ToldInterpreter>,
    /// Interpreters that the programs have been told of, by number. A process may run another one
    /// by the time its frames come, and a child that was just made has the number of its parent's.
    numbered: HashMap<u32, Arc<Interpreter>>,
    /// Files with names like those of interpreters, but without an interpreter.
    without: HashSet<FileKey>,
}

type Known = Arc<Mutex<Judged>>;

/// Python frames on their way to their stacks.
#[derive(Debug)]
pub(super) struct PythonStacks {
    /// The functions that were recorded.
    pub codes: Codes,
    known: Known,
    waiting: HashMap<(u32, u32, u16), Frames>,
    _watching: Watching,
}

fn lock(known: &Known) -> MutexGuard<'_, Judged> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PythonStacks {
    /// Begins to tell the programs of interpreters.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn begin(ebpf: &mut Ebpf) -> Result<Self, LoadError> {
        let missing = || LoadError::PartMissing { name: PYTHON };
        let map = ebpf.take_map(PYTHON).ok_or_else(missing)?;
        let processes = Processes::try_from(map).map_err(|_other_kind| missing())?;
        let failed = |source| LoadError::MapCall {
            call: "thread",
            name: PYTHON,
            source,
        };
        let watcher = MappingWatcher::new().map_err(failed)?;
        let known = Known::default();
        let mut watch = Watch {
            processes,
            known: Arc::clone(&known),
            ended: Vec::new(),
            files: HashMap::new(),
            build_ids: BuildIds::new(),
            last_number: 0,
        };
        // What is there when the trace begins.
        watch.look_at_all();
        let watching = watcher.start("python", move |rings, stopped| watch.go_on(rings, stopped));
        Ok(Self {
            codes: Codes::default(),
            known,
            waiting: HashMap::new(),
            _watching: watching.map_err(failed)?,
        })
    }

    /// Tells whether a record is one of those that are taken here.
    pub fn is_part(untrusted: &[u8]) -> bool {
        let header = RecordHeader::ref_from_prefix(untrusted);
        let is_frames = header.is_ok_and(|(header, _)| header.event_type == PYTHON_RECORD);
        is_frames || Codes::is_code(untrusted)
    }

    /// Takes the record of a function, or of frames; `None` where our programs do not write such a
    /// record.
    pub fn take(&mut self, untrusted: &[u8]) -> Option<()> {
        if Codes::is_code(untrusted) {
            return self.codes.take(untrusted);
        }
        let frames = Frames::parse(untrusted)?;
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.clear();
        }
        let of = (frames.header.tid, frames.event_type, frames.header.cpu);
        self.waiting.insert(of, frames);
        Some(())
    }

    /// Forgets the frames that wait, since records were lost.
    pub fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Adds the Python frames of a stack to its data, where it has some. `record` tells which:
    /// those of this thread and this type of its event's record, from this CPU. Where frames could
    /// not be found yet, since the process has just begun to run an interpreter, the data says so.
    /// To find that out, `mapped` returns the files of the process.
    pub fn add(
        &mut self,
        of: ProcessTime,
        record: (u32, u32, u16),
        data: &mut Vec<u8>,
        mapped: impl FnOnce() -> Vec<Arc<Mapping>>,
    ) {
        let Ok((mut head, rest)) = StackData::read_from_prefix(data.as_slice()) else {
            return;
        };
        let is_open = matches!(head.ends, stack_ends::UNKNOWN | stack_ends::BEGINNING);
        let Some(frames) = self.waiting.remove(&record) else {
            if is_open && self.may_lack_frames(of, mapped) {
                head.ends = stack_ends::INTERPRETER;
                if let Some(to) = data.get_mut(..size_of::<StackData>()) {
                    to.copy_from_slice(head.as_bytes());
                }
            }
            return;
        };
        let pid = of.pid;
        let kernel = usize::from(head.kernel_frames) * size_of::<u64>();
        let Some((kernel, user)) = rest.split_at_checked(kernel) else {
            return;
        };
        let (native, _) = user.as_chunks::<{ size_of::<u64>() }>();
        let native: Vec<u64> = native
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect();
        let numbered = |judged: &Judged| judged.numbered.get(&frames.interpreter).cloned();
        let interpreter = numbered(&lock(&self.known));
        let runs = |address| interpreter.as_ref().is_some_and(|of| of.runs(address));
        let user = merged(&mut self.codes, &frames, pid, &native, runs);
        if is_open && (native.is_empty() || frames.ends != stack_ends::BEGINNING) {
            head.ends = frames.ends;
        }
        head.user_frames = u16::try_from(user.len()).unwrap_or(0);
        *data = [head.as_bytes(), kernel, user.as_bytes()].concat();
    }

    /// Tells whether a process may have run an interpreter at a time at which the programs did not
    /// know of it yet.
    fn may_lack_frames(&self, of: ProcessTime, mapped: impl FnOnce() -> Vec<Arc<Mapping>>) -> bool {
        let judged = lock(&self.known);
        if let Some(known) = judged.interpreters.get(&of.pid) {
            return (known.mapped..known.told).contains(&of.at);
        }
        // The files of the process are being looked at right now, or the programs were told too
        // late.
        let is_open = |mapping: &Arc<Mapping>| {
            PythonFile::is_named(&mapping.path) && !judged.without.contains(&file_key(mapping))
        };
        mapped().iter().any(is_open)
    }
}

fn file_key(mapping: &Mapping) -> FileKey {
    (Arc::clone(&mapping.path), mapping.build_id.clone())
}

/// Path and build identifier of a file.
type FileKey = (Arc<[u8]>, Vec<u8>);

/// Watch over what processes map.
struct Watch {
    processes: Processes,
    known: Known,
    /// Interpreters of processes that have ended, or run another program.
    ended: Vec<(Instant, i32, ToldInterpreter)>,
    /// Files by path and build identifier; `None` for one without an interpreter.
    files: HashMap<FileKey, Option<Arc<PythonFile>>>,
    build_ids: BuildIds,
    /// Number of the interpreter that the programs were told of last.
    last_number: u32,
}

impl Watch {
    /// Takes reports until the other end of `stopped` is closed.
    fn go_on(&mut self, mut rings: Option<MappingRings>, stopped: &Stopped) {
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
            MappingReport::Mapped(pid, mapping) => self.look_at(pid, time, &mapping),
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
    fn look_at_all(&mut self) {
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
            for mapping in read_mappings(pid, &mut self.build_ids) {
                self.look_at(pid, now, &mapping);
            }
            if let Some(program) = seen.program.filter(|_| !seen.is_named) {
                let has = lock(&self.known).interpreters.contains_key(&pid);
                programs.insert(program, has);
            }
        }
    }

    fn look_at(&mut self, pid: i32, time: u64, mapping: &Mapping) {
        if !PythonFile::may_be(&mapping.path) {
            return;
        }
        let key = file_key(mapping);
        let known = self.files.get(&key).filter(|_| !key.1.is_empty());
        if matches!(known, Some(None)) {
            return;
        }
        let owner = MappedBy {
            pid,
            at: Some(time),
        };
        let Some(binary) = binary(owner, mapping, &mut self.build_ids) else {
            return;
        };
        if let Some(known) = known {
            let interpreter = known.as_ref().and_then(|it| it.mapped(&binary, mapping));
            if let Some(interpreter) = interpreter {
                self.tell_found(pid, time, interpreter);
            }
            return;
        }
        let mut file = PythonFile::read(&binary);
        if let Some(file) = &mut file
            && let Some(interpreter) = file.mapped(&binary, mapping)
        {
            self.tell_found(pid, time, interpreter);
            // The process runs meanwhile: the programs are told before the other parts of the file
            // are read.
            file.add_parts(&binary);
            if let Some(interpreter) = file.mapped(&binary, mapping) {
                self.tell_found(pid, time, interpreter);
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
    }

    /// Tells the programs of an interpreter that was found in a process. The interpreter gets a
    /// number of its own, or keeps the one that it has.
    fn tell_found(&mut self, pid: i32, mapped: u64, mut interpreter: Interpreter) {
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
            self.last_number = self.last_number.checked_add(1).unwrap_or(1);
            interpreter.process.number = self.last_number;
        }
        let number = interpreter.process.number;
        let interpreter = Arc::new(interpreter);
        // This is noted before any frames are found by the interpreter.
        let mut judged = lock(&self.known);
        judged.numbered.insert(number, Arc::clone(&interpreter));
        drop(judged);
        self.tell(pid, mapped, interpreter);
    }

    fn tell(&mut self, pid: i32, mapped: u64, interpreter: Arc<Interpreter>) {
        let words = <[u64; WORDS]>::read_from_bytes(interpreter.process.as_bytes());
        if let (Ok(key), Ok(words)) = (u32::try_from(pid), words) {
            if let Err(error) = self.processes.insert(key, words, 0) {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    pid,
                    "the interpreter of a process is left out"
                );
            }
            let told = tracer_area::monotonic_now().0;
            let number = interpreter.process.number;
            let mut judged = lock(&self.known);
            let before = match judged.interpreters.get_mut(&pid) {
                Some(known) if known.interpreter.process.number == number => {
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
    }

    fn forget(&mut self, pid: i32) {
        let known = lock(&self.known).interpreters.get(&pid).cloned();
        if let (Some(known), Ok(key)) = (known, u32::try_from(pid)) {
            let _ = self.processes.remove(&key);
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
