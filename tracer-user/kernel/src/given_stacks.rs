//! Stacks from a service: this process finds their functions, with its own rights.
//!
//! The service opens no files of its clients. For each stack it gives the addresses or, where
//! unwind data is needed to find the functions, the registers and the memory of the thread. It also
//! gives the mappings that the kernel has reported to it. This process looks up in `/proc` the
//! mappings that the kernel did not report to the service.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{REGISTERS, StackData, stack_ends};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::Batch;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::known_code::KnownCode;
use super::mapped::MappingReport;
use super::stacks::moment;
use tracer_binary::stacks::{Mapping, RecordedStack, StackOptions, push_mapping_since};
use tracer_binary::unwind::{Copied, ProcessTime, Unwinder, UnwoundStack};

/// Knowledge of the processes whose stacks a service gives.
#[derive(Debug)]
pub struct GivenStacks {
    code: KnownCode,
    unwinder: Unwinder,
    /// Limit on the addresses of the program.
    most_frames: usize,
}

impl GivenStacks {
    /// Begins to take stacks with these options.
    #[must_use]
    pub fn begin(options: &StackOptions) -> Self {
        Self {
            code: KnownCode::given(),
            unwinder: Unwinder::default(),
            most_frames: usize::try_from(options.user_frames).unwrap_or(0),
        }
    }

    /// Pushes an event from the service. A mapping waits: it is pushed right before the next stack
    /// of its process that has functions of the program.
    pub fn push(&mut self, header: &EventHeader, data: &[u8], batch: &mut Batch<'_>) {
        if header.pid > 0 {
            self.code.meet(header.pid);
        }
        match header.event_type {
            EventTypeId::MAPPING => {
                // For a child, the service repeats the mappings that the child has inherited: those
                // that are known of the parent change nothing.
                if let Some(mapping) = Mapping::parse(data) {
                    let report = MappingReport::Mapped(header.pid, mapping);
                    self.code.report(header.time.0, report);
                }
                return;
            }
            EventTypeId::STACK => return self.push_stack(header, data, batch),
            EventTypeId::FORK => {
                if let Some(child) = data.first_chunk() {
                    let child = i32::from_ne_bytes(*child);
                    let report = MappingReport::Forked(child, header.pid);
                    self.code.report(header.time.0, report);
                }
            }
            EventTypeId::EXIT => {
                let report = MappingReport::Ended(header.pid);
                self.code.report(header.time.0, report);
                self.code.tidy();
            }
            _ => {}
        }
        batch.push(*header, data);
    }

    fn push_stack(&mut self, header: &EventHeader, untrusted: &[u8], batch: &mut Batch<'_>) {
        let Some(taken) = RecordedStack::parse(untrusted) else {
            return;
        };
        let found = (taken.head.ends == stack_ends::COPIED)
            .then(|| self.unwound(taken_at(header, &taken), &taken, untrusted));
        let data = found.as_deref().unwrap_or(untrusted);
        let Some(taken) = RecordedStack::parse(data) else {
            return;
        };
        for (time, mapping) in self.code.take_unsaid(moment(header), &taken) {
            let times = (time, time.max(header.time.0));
            let header = EventHeader {
                time: MonotonicNs(times.1),
                event_type: EventTypeId::MAPPING,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
                ..*header
            };
            batch.push_with(header, |out| push_mapping_since(out, &mapping, times));
        }
        batch.push(*header, data);
    }

    /// Finds the functions of a stack from the registers and the memory that were copied. Returns
    /// the data of the stack, as an event of a stream has it.
    fn unwound(&mut self, of: ProcessTime, taken: &RecordedStack<'_>, untrusted: &[u8]) -> Vec<u8> {
        let kernel: Vec<u64> = taken.kernel().collect();
        let copied = untrusted.get(size_of::<StackData>() + kernel.as_bytes().len()..);
        let copied = copied.unwrap_or_default();
        let mut found = UnwoundStack::default();
        if let Ok((registers, memory)) = <[u64; REGISTERS]>::read_from_prefix(copied) {
            let copied = Copied {
                registers: &registers,
                memory,
            };
            let unwinder = (&mut self.unwinder, self.most_frames);
            found = self.code.unwind(of, &copied, unwinder);
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
}

/// Returns the process of a stack, at the time at which it was taken.
fn taken_at(header: &EventHeader, taken: &RecordedStack<'_>) -> ProcessTime {
    let (_, at) = taken.taken_between(header.time.0);
    ProcessTime {
        at,
        ..moment(header)
    }
}
