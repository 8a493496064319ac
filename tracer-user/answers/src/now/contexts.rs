//! Traces and spans of OpenTelemetry that threads work for.

use tracer_binary::process_memory;
use tracer_binary::stacks::{BuildIds, Mapping};
use tracer_binary::thread_context::{RECORD_BYTES, ThreadContext, context_place};
use tracer_binary::thread_local::{DESCRIPTION_BYTES, VariablePlace, thread_pointer};

/// Contexts of the threads of a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessContexts {
    pid: i32,
    place: VariablePlace,
}

impl ProcessContexts {
    /// Finds where a process, which has these mappings, publishes the contexts of its threads;
    /// `None` where it does not, or where that is unknown.
    pub fn find(pid: i32, mappings: &[Mapping], build_ids: &mut BuildIds) -> Option<Self> {
        let (place, _route) = context_place(pid, mappings, build_ids)?;
        Some(Self { pid, place })
    }

    /// Reads the context of a thread, which does not run and has its list of locks here.
    pub fn read(&self, locks: u64) -> Option<ThreadContext> {
        let words = process_memory::words(self.pid);
        let thread = thread_pointer(locks, description(self.pid, locks))?;
        let record = words(self.place.address(thread, &words)?)?;
        let mut bytes = [0; RECORD_BYTES];
        let read = process_memory::read(self.pid, record, &mut bytes);
        ThreadContext::parse(&bytes).filter(|_| record != 0 && read == bytes.len())
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
