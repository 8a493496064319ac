//! The first look at traced threads when a trace begins, which becomes the first event of each.
//!
//! An eBPF program looks at each task (a BPF iterator). Where the kernel does not take that
//! program, this process looks in `/proc`. The findings have the form of the programs' records, but
//! go through no ring: the reader of the rings takes them from [`LookRecords`].

mod by_proc;
pub(super) mod by_program;
mod user_stack;

use std::sync::{Arc, Mutex, PoisonError};

use aya::{Btf, Ebpf};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{REGISTERS, wanted};
use tracer_engine::event::EventHeader;

use super::btf::offsets::Global;
use super::decode::decode;
use super::switches::SWITCHES;
use by_program::Looked;
use tracer_binary::stacks::StackOptions;
use user_stack::LookStacks;

/// Records on their way from the look to the source.
#[derive(Clone, Debug, Default)]
pub struct LookRecords(Arc<Mutex<Vec<Vec<u8>>>>);

impl LookRecords {
    /// Takes the records since the last call.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, records: Vec<Vec<u8>>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(records);
    }
}

/// Looks at threads.
#[derive(Debug)]
pub struct Looker {
    /// Presence of the program.
    has_program: bool,
    /// Stacks that the program writes.
    writes_stacks: bool,
    /// Recording of the threads' switches from the look on.
    is_followed: bool,
    /// Stacks of threads, where they are recorded too.
    stacks: Option<LookStacks>,
    found: LookRecords,
}

/// Offsets of a program's registers among those that the kernel saves, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    address: usize,
    stack: usize,
    frame: usize,
}

impl Places {
    /// Reads the offsets from the kernel's types.
    fn from_globals(globals: &[Global]) -> Option<Self> {
        let word = |name| {
            let global = globals.iter().find(|global| global.name == name)?;
            let offset = Some(global.value).filter(|value| *value != NO_OFFSET)?;
            usize::try_from(offset / 8)
                .ok()
                .filter(|word| *word < REGISTERS)
        };
        Some(Self {
            address: word("REGS_IP")?,
            stack: word("REGS_STACK")?,
            frame: word("REGS_FRAME")?,
        })
    }
}

/// Looks at the threads of process `pid` in `/proc`, and hands over the event of each: for a
/// process that has no eBPF programs of its own. `is_followed`: the switches of the threads are
/// recorded from then on.
pub fn look_in_proc(pid: i32, is_followed: bool, mut each: impl FnMut(EventHeader, &[u8])) {
    for looked in by_proc::look(pid, is_followed) {
        // The record was made just now, and is whole.
        let _ = decode(&looked.event, &mut each);
    }
}

impl Looker {
    /// Loads the eBPF program, where the kernel takes it: this needs the kernel's own types
    /// (`btf`), and the helper that says where a task's registers are. `recorded` are the types
    /// that are recorded, as bits.
    pub fn load(
        ebpf: &mut Ebpf,
        btf: Option<&Btf>,
        globals: &[Global],
        (recorded, options): (u64, &StackOptions),
    ) -> Self {
        let gives_registers =
            |global: &Global| global.name == "HAS_TASK_PT_REGS" && global.value != 0;
        let loaded = btf
            .filter(|_| globals.iter().any(gives_registers))
            .map(|btf| by_program::load(ebpf, btf));
        if let Some(Err(error)) = &loaded {
            tracing::debug!(
                error = error as &dyn std::error::Error,
                "threads are looked at in /proc"
            );
        }
        let writes_stacks = options.recorded_types() & wanted::bit(EventTypeId::THREAD_STATE) != 0;
        Self {
            has_program: matches!(loaded, Some(Ok(()))),
            writes_stacks,
            is_followed: recorded & SWITCHES == SWITCHES,
            stacks: (writes_stacks && options.are_wanted())
                .then(|| LookStacks::new(*options, Places::from_globals(globals))),
            found: LookRecords::default(),
        }
    }

    /// Returns the looks that the source has yet to take.
    pub fn found(&self) -> LookRecords {
        self.found.clone()
    }

    /// Looks at the threads of all traced processes. Where no eBPF program can do so, looks at
    /// those of the processes `pids` in `/proc`.
    pub fn look(&self, ebpf: &mut Ebpf, pids: &[i32]) {
        let looked = if self.has_program {
            by_program::look(ebpf, self.writes_stacks).map_err(|error| {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "threads are looked at in /proc"
                );
            })
        } else {
            Err(())
        };
        self.note(looked.unwrap_or_else(|()| self.in_proc(pids)));
    }

    /// Looks at the threads of the processes `pids` alone, while others are traced already.
    pub fn look_at_newcomers(&self, pids: &[i32]) {
        self.note(self.in_proc(pids));
    }

    fn in_proc(&self, pids: &[i32]) -> Vec<Looked> {
        let each = pids.iter();
        each.flat_map(|pid| by_proc::look(*pid, self.is_followed))
            .collect()
    }

    fn note(&self, looked: Vec<Looked>) {
        tracing::debug!(threads = looked.len(), "looked at");
        let records = match &self.stacks {
            Some(stacks) => stacks.records(looked),
            None => looked.into_iter().map(|one| one.event).collect(),
        };
        self.found.add(records);
    }
}
