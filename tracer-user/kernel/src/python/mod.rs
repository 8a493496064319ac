//! Frames of the Python interpreters of processes.
//!
//! The eBPF programs follow the frames of a process once they are told where its interpreter is.
//! A tracer finds that out itself, from the kernel's reports of what processes map. A service opens
//! no file of a process: its client finds it out, and says so. A child has the interpreter of its
//! parent: the programs note that themselves.

mod places;
mod search;
mod watch;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aya::Ebpf;
use tracer_binary::python::{Codes, Frames, Interpreter, PythonFile, merged};
use tracer_binary::stacks::{AddressName, Mapping, RecordedStack, push_symbol};
use tracer_binary::unwind::ProcessTime;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    PYTHON_CODE_EVENT, PYTHON_RECORD, RecordHeader, StackData, stack_ends,
};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::Batch;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::error::LoadError;
use super::watching::{MappingWatcher, Watching};

pub(super) use places::InterpreterPlaces;
pub use search::{FoundInterpreters, search_interpreters};
use watch::Watch;

/// Most frames that wait for their stacks. A stack follows at once, unless it was lost.
const MOST_WAITING: usize = 4096;

/// Time at which programs are told that were replaced by others since.
const NOT_TOLD: u64 = u64::MAX;

/// Interpreter of a process, and since when the programs have been told of it.
#[derive(Clone, Debug)]
struct ToldInterpreter {
    interpreter: Arc<Interpreter>,
    /// Time at which the process has mapped the interpreter, or has become one that has it.
    mapped: u64,
    /// Time since which the programs find its frames; [`NOT_TOLD`]: they do not know it any more.
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

fn lock(known: &Known) -> MutexGuard<'_, Judged> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Path and build identifier of a file.
type FileKey = (Arc<[u8]>, Vec<u8>);

fn file_key(mapping: &Mapping) -> FileKey {
    (Arc::clone(&mapping.path), mapping.build_id.clone())
}

/// Tells whether a record is that of Python frames, or of a function.
pub(super) fn is_part(untrusted: &[u8]) -> bool {
    let header = RecordHeader::ref_from_prefix(untrusted);
    let is_frames = header.is_ok_and(|(header, _)| header.event_type == PYTHON_RECORD);
    is_frames || Codes::is_code(untrusted)
}

/// Python frames on their way to their stacks: by the thread and the type of the record of their
/// event, and the CPU.
#[derive(Debug, Default)]
pub(super) struct WaitingFrames(HashMap<(u32, u32, u16), Frames>);

impl WaitingFrames {
    /// Takes the record of frames; `None` where our programs do not write such a record.
    pub fn take(&mut self, untrusted: &[u8]) -> Option<()> {
        let frames = Frames::parse(untrusted)?;
        if self.0.len() >= MOST_WAITING {
            self.0.clear();
        }
        let of = (frames.header.tid, frames.event_type, frames.header.cpu);
        self.0.insert(of, frames);
        Some(())
    }

    /// Returns the frames of a stack with this header, for an event whose record has this type.
    pub fn remove(&mut self, header: &EventHeader, record_type: u32) -> Option<Frames> {
        let cpu = header.cpu.and_then(|cpu| u16::try_from(cpu).ok());
        let of = (header.tid.cast_unsigned(), record_type, cpu.unwrap_or(0));
        self.0.remove(&of)
    }

    /// Forgets the frames that wait, since records were lost.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// Pushes the record of a function, for another process that finds the functions of stacks; `None`
/// where our programs do not write such a record.
pub(super) fn push_code(untrusted: &[u8], batch: &mut Batch<'_>) -> Option<()> {
    let (header, _) = RecordHeader::ref_from_prefix(untrusted).ok()?;
    let header = EventHeader {
        time: MonotonicNs(header.time_ns),
        event_type: PYTHON_CODE_EVENT,
        pid: i32::try_from(header.pid).ok()?,
        tid: i32::try_from(header.tid).ok()?,
        cpu: Some(u32::from(header.cpu)),
        thread_id: 0,
        program_address: 0,
        truncation: Truncation::None,
    };
    batch.push(header, untrusted);
    Some(())
}

/// Interpreters and functions by which Python frames get their place in stacks.
#[derive(Debug)]
pub(super) struct PythonStacks {
    /// The functions that were recorded.
    pub codes: Codes,
    known: Known,
    /// Watch over what processes map; `None` where a search finds interpreters.
    _watching: Option<Watching>,
}

impl PythonStacks {
    /// Begins to tell the programs of interpreters.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn begin(ebpf: &mut Ebpf) -> Result<Self, LoadError> {
        let mut places = InterpreterPlaces::from_object(ebpf)?;
        let failed = |source| LoadError::MapCall {
            call: "thread",
            name: places::PYTHON,
            source,
        };
        let watcher = MappingWatcher::new().map_err(failed)?;
        let known = Known::default();
        let mut watch = Watch::of_all(Arc::clone(&known), move |pid, process| {
            let told = places.place(pid, process);
            if let Err(error) = &told {
                tracing::debug!(
                    error = error as &dyn std::error::Error,
                    pid,
                    "the interpreter of a process is left out"
                );
            }
            told.is_ok()
        });
        // What is there when the trace begins.
        watch.look_at_all();
        let watching = watcher.start("python", move |rings, stopped| watch.go_on(rings, stopped));
        Ok(Self {
            codes: Codes::default(),
            known,
            _watching: Some(watching.map_err(failed)?),
        })
    }

    /// Adds its Python frames to the data of a stack. Where there are none yet, since the process
    /// has just begun to run an interpreter, the data says so. To find that out, `mapped` returns
    /// the files of the process.
    pub fn add(
        &mut self,
        of: ProcessTime,
        frames: Option<Frames>,
        data: &mut Vec<u8>,
        mapped: impl FnOnce() -> Vec<Arc<Mapping>>,
    ) {
        let Ok((mut head, rest)) = StackData::read_from_prefix(data.as_slice()) else {
            return;
        };
        let is_open = matches!(head.ends, stack_ends::UNKNOWN | stack_ends::BEGINNING);
        let Some(frames) = frames else {
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

    /// Pushes the names of the places of a stack in functions of Python that were not pushed of its
    /// process before, as events of this time. `header` is that of the stack.
    pub fn push_names(
        &mut self,
        header: &EventHeader,
        taken: &RecordedStack<'_>,
        time: MonotonicNs,
        batch: &mut Batch<'_>,
    ) {
        for address in taken.user() {
            let Some((name, line)) = self.codes.take_unsaid(header.pid, address) else {
                continue;
            };
            let named = AddressName {
                pid: header.pid,
                address,
                offset: line,
                name,
                since: 0,
                line: None,
            };
            let header = EventHeader {
                time,
                event_type: EventTypeId::SYMBOL,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
                ..*header
            };
            batch.push_with(header, |out| push_symbol(out, &named));
        }
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

/// Tells whether data of a stack says nothing: where Python frames alone are asked for, of a thread
/// that runs no Python.
pub(super) fn is_empty(head: &StackData) -> bool {
    (head.kernel_frames, head.user_frames, head.ends) == (0, 0, stack_ends::UNKNOWN)
}
