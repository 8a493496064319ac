//! Options of the kernel source.

use std::path::PathBuf;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::wanted;

use super::choice::ProcessChoice;
use super::counts::Counting;
use super::error::LoadError;
use super::mapping::page_bytes;
use crate::named_tracepoints::Tracepoint;
use tracer_binary::probes::Probes;
use tracer_binary::stacks::StackOptions;
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::descriptors::DescriptorOptions;

/// Options with which the eBPF programs are loaded.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// Bytes of each BPF ring; rounded up to a power of two of pages. Every few CPUs have one ring.
    pub ring_bytes: u32,
    /// Types that are wanted beside those that say which processes exist (fork, thread
    /// creation, exec, exit, rename), which are always recorded. A stream's filter can take
    /// types away while it runs; it cannot add one that is not here.
    pub wanted: Vec<EventTypeId>,
    /// The system calls that are recorded, where those types are wanted.
    pub syscalls: SyscallSet,
    /// Recording of calls only as they end, with what is known of them then: no event says that
    /// they begin.
    pub calls_at_exit: bool,
    /// Possibility to detach the programs at system calls and to attach them again: while they are
    /// detached, calls cost their processes nothing.
    /// [`take_call_rates`](super::KernelTracer::take_call_rates) has the counts by which to do so.
    pub detaches_calls: bool,
    /// Bytes that are read of the memory to which an argument of a system call points, at most
    /// 4096; 0: none.
    pub string_bytes: u32,
    /// Whether only names and other short data are read of that
    /// ([`call_texts::names`](tracer_common::kernel::call_texts::names)). Loading takes a sixth of
    /// a second less then.
    pub only_names: bool,
    /// Recording of descriptors.
    pub descriptors: DescriptorOptions,
    /// Recording of stacks.
    pub stacks: StackOptions,
    /// Stacks for other processes, which find the functions themselves: stacks are given as they
    /// were recorded, and the reports of what processes have mapped are given apart from them
    /// ([`KernelSource::take_mappings`](super::KernelSource::take_mappings)).
    pub stacks_for_others: bool,
    /// Recording of the traces and spans of OpenTelemetry that threads work for.
    pub thread_contexts: bool,
    /// Contexts for other processes, which find out where the contexts are and say so
    /// ([`KernelSource::place_contexts`](super::KernelSource::place_contexts)).
    pub contexts_for_others: bool,
    /// Probes in programs.
    pub probes: Probes,
    /// Tracepoints of the kernel that are recorded by name.
    pub tracepoints: Vec<Tracepoint>,
    /// Choice of what is counted, beside what is recorded.
    pub counting: Option<Counting>,
    /// Processes that are traced without being given by pid.
    pub choice: ProcessChoice,
    /// Inheritance: a child that a chosen process makes is traced too.
    pub inherit: bool,
    /// Wake-up of the reader by each exec: it has to look at the new program at once.
    pub wakes_at_exec: bool,
    /// Possibility to [guard](super::KernelTracer::trace_guarded) processes. With it, loading takes
    /// a fifth of a second more.
    pub guards: bool,
    /// Whether another recording traces the same guarded processes, and counts the withheld events
    /// of their forks, ends and names.
    pub is_beside: bool,
    /// File with the kernel's types, where the user names one.
    pub types: Option<PathBuf>,
    /// Output of the programs' own diagnostics. They go to `tracing`, target `tracer_ebpf`, level
    /// debug.
    pub verbose: bool,
}

impl Default for KernelOptions {
    /// Returns options for processes that are given by pid, and for their children. Rings have 4
    /// MiB. Only the types that are always recorded are wanted; all system calls are recorded once
    /// their types are wanted.
    fn default() -> Self {
        Self {
            ring_bytes: 4 << 20,
            wanted: Vec::new(),
            syscalls: SyscallSet::all(),
            calls_at_exit: false,
            detaches_calls: false,
            string_bytes: 0,
            only_names: false,
            descriptors: DescriptorOptions::None,
            stacks: StackOptions::default(),
            stacks_for_others: false,
            thread_contexts: false,
            contexts_for_others: false,
            probes: Probes::default(),
            tracepoints: Vec::new(),
            counting: None,
            choice: ProcessChoice::Given,
            inherit: true,
            wakes_at_exec: false,
            guards: false,
            is_beside: false,
            types: None,
            verbose: false,
        }
    }
}

impl KernelOptions {
    /// Returns the size of the ring as the kernel takes it.
    pub(super) fn rounded_ring_bytes(&self) -> Result<u32, LoadError> {
        let bad_size = LoadError::RingSize {
            bytes: self.ring_bytes,
        };
        if self.ring_bytes == 0 {
            return Err(bad_size);
        }
        let page = u32::try_from(page_bytes()).unwrap_or(u32::MAX);
        self.ring_bytes
            .max(page)
            .checked_next_power_of_two()
            .ok_or(bad_size)
    }

    /// Returns the number of probes and tracepoints that are named.
    pub(super) fn points(&self) -> usize {
        let probes = self.probes.kinds.len();
        probes.saturating_add(self.tracepoints.len())
    }

    /// Returns the optional types that are wanted, as bits.
    pub(super) fn wanted_bits(&self) -> u64 {
        self.wanted
            .iter()
            .map(|id| wanted::bit(*id))
            .fold(0, |bits, bit| bits | bit)
            & wanted::OPTIONAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(ring_bytes: u32, wanted: &[EventTypeId]) -> KernelOptions {
        KernelOptions {
            ring_bytes,
            wanted: wanted.to_vec(),
            wakes_at_exec: true,
            ..KernelOptions::default()
        }
    }

    #[test]
    fn the_ring_is_rounded_up_to_a_power_of_two_of_pages() {
        let page = u32::try_from(page_bytes()).unwrap();
        let rounded = |bytes| options(bytes, &[]).rounded_ring_bytes().ok();

        assert_eq!(rounded(1), Some(page));
        assert_eq!(rounded(page + 1), Some(2 * page));
        assert_eq!(rounded(3 << 20), Some(4 << 20));
        assert_eq!(rounded(1 << 31), Some(1 << 31));
        assert_eq!(rounded((1 << 31) + 1), None);
        assert_eq!(rounded(0), None);
    }

    #[test]
    fn only_optional_types_become_wanted_bits() {
        let options = options(
            4096,
            &[
                EventTypeId::SWITCH_IN,
                EventTypeId::FORK,
                EventTypeId::UNNAMED_USEREVENT,
            ],
        );

        assert_eq!(options.wanted_bits(), 1 << 37);
    }
}
