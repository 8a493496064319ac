//! Where in the program threads wait: functions by their stacks, and variables by their addresses.
//!
//! Programs' files are read for that, which another program may serve. So another thread does it,
//! and is waited for only a limited time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tracer_binary::probes::DataSymbol;
use tracer_binary::process_memory;
use tracer_binary::stacks::{
    BuildIds, Frame, MappedBy, Mapping, StackEnd, SymbolNames, binary, push_frame_lines,
    push_frames_json, read_mappings, time_now,
};
use tracer_binary::thread_context::ThreadContext;
use tracer_binary::unwind::{ProcessTime, Space, Unwinder};

use super::contexts::ProcessContexts;
use crate::queries::is_runtime;
use tracer_analysis::layouts::Runtime;

/// Most functions of a stack.
const MOST_FRAMES: usize = 127;

/// Bytes of a stack that are read.
const STACK_BYTES: usize = 32 << 10;

/// Time for one answer. The first one reads the symbols of the program and its libraries.
const ANSWER: Duration = Duration::from_millis(600);

/// Time for the files of all processes together. Of those whose turn comes later nothing is named.
const ALL: Duration = Duration::from_millis(800);

/// Threads of this process that may hang.
const MOST_HANGING: usize = 3;

/// Words where code is left by a register: of a thread that waits, the kernel tells the stack
/// pointer alone.
const MORE_BY_REGISTERS: &str = "code built without -O, and code without a description, is left by \
                                 registers that are not known from outside: `tracer-user attach \
                                 PID --stack user --unwind dwarf` has them";

/// Place of a thread in its program.
#[derive(Clone, Debug, Default)]
pub struct ThreadPlace {
    /// Its functions, the innermost first.
    pub frames: Vec<Frame>,
    /// Reason why they end there; `None` where unknown.
    pub ends: Option<StackEnd>,
}

impl ThreadPlace {
    /// Returns the innermost function of the program that is not of the C runtime, where it has a
    /// name.
    pub fn function(&self) -> Option<&str> {
        let is_known = |frame: &Frame| is_runtime(frame) || is_waiting(name_of(frame));
        let frame = self.frames.iter().find(|frame| !is_known(frame))?;
        Some(name_of(frame)).filter(|name| !name.is_empty())
    }

    /// Returns the functions of the C runtime that it is in, the innermost first.
    pub fn runtime_functions(&self) -> impl Iterator<Item = &str> {
        let is_known = |frame: &&Frame| is_runtime(frame) || is_waiting(name_of(frame));
        let frames = self.frames.iter().take_while(is_known);
        frames.map(name_of).filter(|name| !name.is_empty())
    }

    /// Appends a line for each function.
    pub fn push_lines(&self, out: &mut Vec<u8>) {
        push_frame_lines(out, &self.frames);
        let why = match self.ends {
            Some(StackEnd::Code) => Some(MORE_BY_REGISTERS),
            ends => ends.and_then(StackEnd::in_words),
        };
        if let Some(why) = why {
            out.extend_from_slice(format!("        ... {why}\n").as_bytes());
        }
    }

    /// Renders the functions as a list.
    pub fn json(&self) -> Value {
        let mut list = Vec::new();
        push_frames_json(&mut list, &self.frames);
        serde_json::from_slice(&list).unwrap_or(Value::Null)
    }

    /// Returns the C library whose code is the innermost.
    pub fn runtime(&self) -> Option<Runtime> {
        let frame = self.frames.first()?;
        let path = &frame.mapping.as_ref()?.path;
        let file = path.rsplit(|byte| *byte == b'/').next()?;
        let name = name_of(frame);
        if name == "syscall" {
            // Another library's own lock.
            None
        } else if file.starts_with(b"libc.so.6")
            || file.starts_with(b"libc-2.")
            || file.starts_with(b"libpthread")
        {
            Some(Runtime::Glibc)
        } else if file.starts_with(b"ld-musl")
            || file.starts_with(b"libc.musl")
            || file == b"libc.so"
        {
            Some(Runtime::Musl)
        } else {
            of_static(name)
        }
    }
}

fn name_of(frame: &Frame) -> &str {
    let function = frame.function.as_ref();
    function.map_or("", |(name, _)| name)
}

/// Tells whether a function waits for what its callers ask for: in a program that has the C library
/// inside it is told by its name.
fn is_waiting(name: &str) -> bool {
    const BEGINNINGS: [&str; 7] = [
        "lll_",
        "futex_",
        "pthread_",
        "sem_",
        "new_sem_",
        "timedwait",
        "syscall_cp",
    ];
    let bare = name.trim_start_matches('_');
    BEGINNINGS
        .iter()
        .any(|beginning| bare.starts_with(beginning))
}

/// Returns the C library of a program that has it inside, by the function of that which waits.
fn of_static(name: &str) -> Option<Runtime> {
    const GLIBC: [&str; 6] = [
        "lll_lock_wait",
        "__lll_lock_wait",
        "__futex_abstimed_wait64",
        "__futex_abstimed_wait_common",
        "__futex_lock_pi64",
        "__pthread_mutex_lock_full",
    ];
    const MUSL: [&str; 4] = [
        "__timedwait_cp",
        "__timedwait",
        "__syscall_cp_asm",
        "__cp_end",
    ];
    let is_one = |names: &[&str]| names.iter().any(|one| name.starts_with(one));
    match () {
        () if is_one(&GLIBC) => Some(Runtime::Glibc),
        () if is_one(&MUSL) => Some(Runtime::Musl),
        () => None,
    }
}

/// Path and build identifier of a file.
type FileKey = (Arc<[u8]>, Vec<u8>);

/// Finder of places, with what it has read before.
#[derive(Debug, Default)]
struct Finder {
    names: Option<SymbolNames>,
    unwinder: Unwinder,
    spaces: HashMap<i32, (Space, Vec<Mapping>)>,
    build_ids: BuildIds,
    variables: HashMap<FileKey, Option<Arc<Variables>>>,
    contexts: HashMap<i32, Option<ProcessContexts>>,
}

/// The variables of a file.
#[derive(Debug)]
struct Variables {
    /// Difference between the address of code in the file's own address space, and its offset.
    slope: u64,
    all: Vec<DataSymbol>,
}

impl Finder {
    fn space(&mut self, pid: i32) -> &mut (Space, Vec<Mapping>) {
        let names = self.names.get_or_insert_with(SymbolNames::live);
        let build_ids = &mut self.build_ids;
        self.spaces.entry(pid).or_insert_with(|| {
            let mappings = read_mappings(pid, build_ids);
            let mut space = Space::default();
            let now = time_now();
            for mapping in &mappings {
                space.map(now, mapping);
                names.learn_mapping(pid, now, mapping);
            }
            (space, mappings)
        })
    }

    /// Returns the innermost function alone, without its name: its file tells the C library.
    fn innermost(&mut self, pid: i32, address: u64) -> ThreadPlace {
        let space = self.space(pid);
        let mapping = space.0.find(address, u64::MAX);
        let mapping = mapping.map(|found| Arc::clone(&found.mapping));
        let frame = Frame {
            address,
            is_kernel: false,
            function: None,
            mapping,
            is_inlined: false,
            line: None,
        };
        ThreadPlace {
            frames: vec![frame],
            ends: None,
        }
    }

    fn place(&mut self, pid: i32, (ip, stack): (u64, u64)) -> ThreadPlace {
        let (mut space, mappings) = std::mem::take(self.space(pid));
        let mut memory = vec![0; STACK_BYTES];
        let read = process_memory::read(pid, stack, &mut memory);
        memory.truncate(read);
        let of = ProcessTime { pid, at: u64::MAX };
        let found =
            self.unwinder
                .find_by_stack_pointer(of, &mut space, (ip, stack), &memory, MOST_FRAMES);
        self.spaces.insert(pid, (space, mappings));
        let names = self.names.get_or_insert_with(SymbolNames::live);
        let each = found.addresses.iter().enumerate();
        let frames = each.flat_map(|(index, address)| names.frames_at(pid, *address, index > 0));
        ThreadPlace {
            frames: frames.collect(),
            ends: StackEnd::from_number(found.ends),
        }
    }

    /// Returns the trace and the span that a thread works for, which has its list of locks here.
    fn context(&mut self, pid: i32, locks: u64) -> Option<ThreadContext> {
        let contexts = match self.contexts.get(&pid) {
            Some(known) => *known,
            None => {
                let mappings = self.space(pid).1.clone();
                let found = ProcessContexts::find(pid, &mappings, &mut self.build_ids);
                self.contexts.insert(pid, found);
                found
            }
        };
        contexts?.read(locks)
    }

    /// Returns the variable at an address, with the bytes behind its beginning: `queue+16`.
    fn variable(&mut self, pid: i32, address: u64) -> Option<String> {
        let mappings = self.space(pid).1.clone();
        let mut seen = HashSet::new();
        mappings.iter().find_map(|mapping| {
            if !mapping.path.starts_with(b"/") || !seen.insert(Arc::clone(&mapping.path)) {
                return None;
            }
            let variables = self.variables(pid, mapping)?;
            let in_file = address
                .wrapping_sub(mapping.start)
                .wrapping_add(mapping.file_offset);
            let own = in_file.wrapping_add(variables.slope);
            let behind = variables.all.partition_point(|one| one.address <= own);
            let one = variables.all.get(behind.checked_sub(1)?)?;
            let within = own - one.address;
            (within < one.size).then(|| match within {
                0 => one.name.clone(),
                _ => format!("{}+{within}", one.name),
            })
        })
    }

    fn variables(&mut self, pid: i32, mapping: &Mapping) -> Option<Arc<Variables>> {
        let key = (Arc::clone(&mapping.path), mapping.build_id.clone());
        if let Some(known) = self.variables.get(&key) {
            return known.clone();
        }
        let owner = MappedBy {
            pid,
            at: Some(time_now()),
        };
        let binary = binary(owner, mapping, &mut self.build_ids);
        let found = binary.and_then(|binary| {
            let offset = mapping.file_offset;
            Some(Arc::new(Variables {
                slope: binary.code_address(offset).ok()??.wrapping_sub(offset),
                all: binary.variables().ok()?,
            }))
        });
        self.variables.insert(key, found.clone());
        found
    }
}

type Question = Box<dyn FnOnce(&mut Finder) + Send>;

/// Finder in a thread of its own.
#[derive(Debug, Default)]
pub struct Places {
    finder: Option<Sender<Question>>,
    hanging: usize,
    spent: Duration,
    /// Processes whose functions are named.
    named: HashSet<i32>,
    /// Processes whose files are not read in time.
    given_up: HashSet<i32>,
}

impl Places {
    /// Returns the place of a thread of process `pid` that continues at these registers: address
    /// and stack pointer.
    pub fn place(&mut self, pid: i32, registers: (u64, u64)) -> ThreadPlace {
        let place = if self.is_named(pid) {
            self.ask(pid, move |finder| finder.place(pid, registers))
        } else {
            self.ask(pid, move |finder| finder.innermost(pid, registers.0))
        };
        place.unwrap_or_default()
    }

    /// Returns the trace and the span that a thread of process `pid` works for, which does not run
    /// and has its list of locks here.
    pub fn context(&mut self, pid: i32, locks: u64) -> Option<ThreadContext> {
        if !self.is_named(pid) {
            return None;
        }
        self.ask(pid, move |finder| finder.context(pid, locks))?
    }

    /// Returns the name of the variable at an address.
    pub fn variable(&mut self, pid: i32, address: u64) -> Option<String> {
        if !self.is_named(pid) {
            return None;
        }
        self.ask(pid, move |finder| finder.variable(pid, address))?
    }

    /// Tells whether there is time to name the functions of a process.
    fn is_named(&mut self, pid: i32) -> bool {
        if self.spent < ALL {
            self.named.insert(pid);
        }
        self.named.contains(&pid)
    }

    fn ask<A: Send + 'static>(
        &mut self,
        pid: i32,
        question: impl FnOnce(&mut Finder) -> A + Send + 'static,
    ) -> Option<A> {
        if self.hanging >= MOST_HANGING || self.given_up.contains(&pid) {
            return None;
        }
        if self.finder.is_none() {
            self.finder = start();
        }
        let (answer, answers): (SyncSender<A>, Receiver<A>) = mpsc::sync_channel(1);
        let question: Question = Box::new(move |finder| drop(answer.send(question(finder))));
        self.finder.as_ref()?.send(question).ok()?;
        let start = Instant::now();
        let answer = answers.recv_timeout(ANSWER).ok();
        self.spent += start.elapsed();
        if answer.is_none() {
            self.finder = None;
            self.hanging += 1;
            self.given_up.insert(pid);
        }
        answer
    }
}

fn start() -> Option<Sender<Question>> {
    let (sender, questions) = mpsc::channel::<Question>();
    let finder = thread::Builder::new().name("places".to_owned());
    let started = finder.spawn(move || {
        let mut finder = Finder::default();
        questions
            .into_iter()
            .for_each(|question| question(&mut finder));
    });
    started.ok().map(|_| sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_registers_are_missing_it_is_said_who_has_them() {
        let lines = |ends| {
            let place = ThreadPlace {
                frames: Vec::new(),
                ends,
            };
            let mut out = Vec::new();
            place.push_lines(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert!(lines(Some(StackEnd::Code)).contains("--unwind dwarf"));
        assert!(lines(Some(StackEnd::Memory)).contains("was not copied"));
        assert_eq!(lines(Some(StackEnd::Beginning)), "");
    }
}
