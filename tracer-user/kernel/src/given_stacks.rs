//! Stacks as a service gives them: the functions are found here, by the rights of this process.
//!
//! The service opens no files of its clients. So it gives addresses, or where functions are found
//! by unwind data the registers and the memory of the thread; and what the kernel has reported of
//! what the process has mapped. What it was not there to hear of is looked up in `/proc`.

use std::collections::HashMap;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{REGISTERS, StackData, stack_ends};
use tracer_engine::event::{EventHeader, Truncation};
use tracer_engine::source::Batch;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::stacks::Process;
use tracer_binary::stacks::{BuildIds, Mapping, RecordedStack, StackOptions, push_mapping};
use tracer_binary::unwind::{Copied, Unwinder, UnwoundStack};

/// Processes whose mappings are known; beyond that, all are forgotten, and looked up again.
const MOST_PROCESSES: usize = 16_384;

/// Knowledge of the processes whose stacks a service gives.
#[derive(Debug)]
pub struct GivenStacks {
    processes: HashMap<i32, Process>,
    build_ids: BuildIds,
    unwinder: Unwinder,
    /// Limit on the addresses of the program.
    most_frames: usize,
}

impl GivenStacks {
    /// Begins to take stacks with these options.
    #[must_use]
    pub fn begin(options: &StackOptions) -> Self {
        Self {
            processes: HashMap::new(),
            build_ids: BuildIds::new(),
            unwinder: Unwinder::default(),
            most_frames: usize::try_from(options.user_frames).unwrap_or(0),
        }
    }

    /// Pushes an event that the service gives; before a stack, what its process has mapped.
    pub fn push(&mut self, header: &EventHeader, data: &[u8], batch: &mut Batch<'_>) {
        match header.event_type {
            EventTypeId::MAPPING => {
                let process = process(&mut self.processes, header.pid);
                // A child has what its parent had, which was told of the parent.
                if let Some(mapping) = Mapping::parse(data)
                    && !process.space.has(&mapping)
                {
                    process.map(header.time.0, mapping);
                }
                return;
            }
            EventTypeId::STACK => return self.push_stack(header, data, batch),
            EventTypeId::FORK => {
                if let Some(child) = data.first_chunk() {
                    self.inherit(header, i32::from_ne_bytes(*child));
                }
            }
            EventTypeId::EXIT => {
                self.processes.remove(&header.pid);
            }
            _ => {}
        }
        batch.push(*header, data);
    }

    fn inherit(&mut self, fork: &EventHeader, child: i32) {
        if let Some(parent) = self.processes.get(&fork.pid).cloned() {
            *process(&mut self.processes, child) = parent.inherited(fork.time.0);
        }
    }

    fn push_stack(&mut self, header: &EventHeader, untrusted: &[u8], batch: &mut Batch<'_>) {
        let Some(taken) = RecordedStack::parse(untrusted) else {
            return;
        };
        let found = (taken.head.ends == stack_ends::COPIED)
            .then(|| self.unwound(header.pid, &taken, untrusted));
        let data = found.as_deref().unwrap_or(untrusted);
        let Some(taken) = RecordedStack::parse(data) else {
            return;
        };
        for (_, mapping) in self.unsaid(header.pid, &taken) {
            let header = EventHeader {
                event_type: EventTypeId::MAPPING,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
                ..*header
            };
            batch.push_with(header, |out| push_mapping(out, &mapping));
        }
        batch.push(*header, data);
    }

    /// Returns the data of a stack whose functions are found by what was copied, as an event of a
    /// stream has it.
    fn unwound(&mut self, pid: i32, taken: &RecordedStack<'_>, untrusted: &[u8]) -> Vec<u8> {
        let kernel: Vec<u64> = taken.kernel().collect();
        let copied = untrusted.get(size_of::<StackData>() + kernel.as_bytes().len()..);
        let copied = copied.unwrap_or_default();
        let mut found = UnwoundStack::default();
        if let Ok((registers, memory)) = <[u64; REGISTERS]>::read_from_prefix(copied) {
            let copied = Copied {
                registers: &registers,
                memory,
            };
            let process = process(&mut self.processes, pid);
            let unwinder = (&mut self.unwinder, self.most_frames);
            found = process.unwind(pid, &copied, unwinder, &mut self.build_ids);
        }
        let head = StackData {
            // 127 at most.
            user_frames: u16::try_from(found.addresses.len()).unwrap_or(0),
            ends: found.ends,
            ..taken.head
        };
        [
            head.as_bytes(),
            kernel.as_bytes(),
            found.addresses.as_bytes(),
        ]
        .concat()
    }

    /// Returns the mappings of a process that are no events yet.
    fn unsaid(&mut self, pid: i32, taken: &RecordedStack<'_>) -> Vec<(u64, Mapping)> {
        if taken.head.user_frames == 0 {
            return Vec::new();
        }
        process(&mut self.processes, pid).take_unsaid(pid, taken, &mut self.build_ids)
    }
}

/// Returns what is known of a process.
fn process(processes: &mut HashMap<i32, Process>, pid: i32) -> &mut Process {
    if processes.len() >= MOST_PROCESSES && !processes.contains_key(&pid) {
        processes.clear();
    }
    processes.entry(pid).or_default()
}
