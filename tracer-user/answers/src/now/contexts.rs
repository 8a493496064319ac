//! Traces and spans of OpenTelemetry that threads work for.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;

use tracer_binary::process_memory;
use tracer_binary::stacks::{BuildIds, MappedBy, Mapping, binary, time_now};
use tracer_binary::thread_context::{
    HEADER_BYTES, ProcessContextHeader, RECORD_BYTES, ThreadContext, VARIABLE, has_thread_contexts,
    published_at,
};
use tracer_binary::thread_local::{DESCRIPTION_BYTES, VariablePlace, thread_pointer};

/// Bytes of `maps` that are read.
const MOST_BYTES: u64 = 32 << 20;

/// Contexts of the threads of a process.
#[derive(Clone, Copy, Debug)]
pub struct ThreadContexts {
    pid: i32,
    place: VariablePlace,
}

impl ThreadContexts {
    /// Finds where a process, which has these mappings, publishes the contexts of its threads;
    /// `None` where it does not, or where that is unknown.
    pub fn find(pid: i32, mappings: &[Mapping], build_ids: &mut BuildIds) -> Option<Self> {
        if !publishes(pid)? {
            return None;
        }
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let mut seen: Vec<&Arc<[u8]>> = Vec::new();
        let mut places = Vec::new();
        for mapping in mappings.iter().filter(|one| one.path.starts_with(b"/")) {
            if seen.contains(&&mapping.path) {
                continue;
            }
            seen.push(&mapping.path);
            let owner = MappedBy {
                pid,
                at: Some(time_now()),
            };
            let Some(binary) = binary(owner, mapping, build_ids) else {
                continue;
            };
            let Ok(Some(variable)) = binary.thread_variable(VARIABLE) else {
                continue;
            };
            let own = binary.code_address(mapping.file_offset).ok()??;
            let bias = mapping.start.wrapping_sub(own);
            let is_program = Path::new(path_of(&mapping.path)) == program;
            places.push(variable.place(is_program, bias, words(pid)));
        }
        // Of several, which of them is written is unknown.
        match places[..] {
            [place] => Some(Self { pid, place: place? }),
            _ => None,
        }
    }

    /// Reads the context of a thread, which does not run and has its list of locks here.
    pub fn read(&self, locks: u64) -> Option<ThreadContext> {
        let words = words(self.pid);
        let thread = thread_pointer(locks, description(self.pid, locks))?;
        let record = words(self.place.address(thread, &words)?)?;
        let mut bytes = [0; RECORD_BYTES];
        let read = process_memory::read(self.pid, record, &mut bytes);
        ThreadContext::parse(&bytes).filter(|_| record != 0 && read == bytes.len())
    }
}

fn path_of(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}

/// Returns a reader of the words of a process.
fn words(pid: i32) -> impl Fn(u64) -> Option<u64> {
    move |address| {
        let mut word = [0; 8];
        let read = process_memory::read(pid, address, &mut word);
        (read == word.len()).then(|| u64::from_ne_bytes(word))
    }
}

/// Returns a reader of the words before the list of a thread's locks, which are read at once.
fn description(pid: i32, locks: u64) -> impl Fn(u64) -> Option<u64> {
    let mut bytes = vec![0; DESCRIPTION_BYTES];
    let from = locks.saturating_sub(DESCRIPTION_BYTES as u64);
    let read = process_memory::read(pid, from, &mut bytes);
    bytes.truncate(read);
    move |address| {
        let at = usize::try_from(address.checked_sub(from)?).ok()?;
        let word = bytes.get(at..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*word))
    }
}

/// Tells whether a process says that its threads have contexts; `None` where that is not told.
fn publishes(pid: i32) -> Option<bool> {
    let maps = File::open(format!("/proc/{pid}/maps")).ok()?;
    let lines = BufReader::new(maps).take(MOST_BYTES).split(b'\n');
    let published = lines.map_while(Result::ok);
    let published: Vec<u64> = published.filter_map(|line| published_at(&line)).collect();
    let mut contexts = published.into_iter();
    Some(contexts.any(|at| payload(pid, at).is_some_and(|bytes| has_thread_contexts(&bytes))))
}

/// Reads what a process has published, where it is of one moment.
fn payload(pid: i32, at: u64) -> Option<Vec<u8>> {
    let header = || {
        let mut header = [0; HEADER_BYTES];
        let read = process_memory::read(pid, at, &mut header);
        ProcessContextHeader::parse(&header).filter(|_| read == header.len())
    };
    let before = header()?;
    let mut bytes = vec![0; before.bytes];
    let read = process_memory::read(pid, before.payload, &mut bytes);
    (read == bytes.len() && header()? == before).then_some(bytes)
}
