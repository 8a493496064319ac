//! Stacks from a service: this process finds their functions, with its own rights.
//!
//! The service opens no files of its clients. For each stack it gives the addresses or, where
//! unwind data is needed to find the functions, the registers and the memory of the thread. It also
//! gives the mappings that the kernel has reported to it. This process looks up in `/proc` the
//! mappings that the kernel did not report to the service.

use std::borrow::Cow;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{PYTHON_CODE_EVENT, REGISTERS, StackData, stack_ends};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::Batch;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::known_code::KnownCode;
use super::mapped::MappingReport;
use super::python::{self, FoundInterpreters, PythonStacks};
use super::stacks::moment;
use tracer_binary::python::Frames;
use tracer_binary::stacks::{Mapping, RecordedStack, StackOptions, push_mapping_since};
use tracer_binary::unwind::{Copied, ProcessTime, Unwinder, UnwoundStack};

/// Knowledge of the processes whose stacks a service gives.
#[derive(Debug)]
pub struct GivenStacks {
    code: KnownCode,
    unwinder: Unwinder,
    /// Limit on the addresses of the program.
    most_frames: usize,
    /// Interpreters by which Python frames get their place, where these are recorded.
    python: Option<PythonStacks>,
    /// Lower bound of the times of events that are still to come.
    since: MonotonicNs,
}

impl GivenStacks {
    /// Begins to take stacks with these options; `found` are the interpreters of processes, where
    /// Python frames are recorded.
    #[must_use]
    pub fn begin(options: &StackOptions, found: Option<&FoundInterpreters>) -> Self {
        Self {
            python: found.map(FoundInterpreters::stacks),
            since: MonotonicNs(0),
            code: KnownCode::given(),
            unwinder: Unwinder::default(),
            most_frames: usize::try_from(options.user_frames).unwrap_or(0),
        }
    }

    /// Notes that the events that are pushed after this are not older than `since`.
    pub fn look(&mut self, since: MonotonicNs) {
        self.since = since;
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
            PYTHON_CODE_EVENT => {
                if let Some(python) = &mut self.python {
                    // One that cannot be read has no name.
                    let _ = python.codes.take(data);
                }
                return;
            }
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
        let (untrusted, frames) = Frames::split(untrusted);
        let Some(taken) = RecordedStack::parse(&untrusted) else {
            return;
        };
        let found = (taken.head.ends == stack_ends::COPIED)
            .then(|| self.unwound(taken_at(header, &taken), &taken, &untrusted));
        let mut data = found.map_or(untrusted, Cow::Owned);
        if let Some(python) = &mut self.python {
            let of = moment(header);
            python.add(of, frames, data.to_mut(), || self.code.mapped(of));
            let taken = RecordedStack::parse(&data);
            if taken.is_none_or(|taken| python::is_empty(&taken.head)) {
                return;
            }
        }
        let Some(taken) = RecordedStack::parse(&data) else {
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
        if let Some(python) = &mut self.python {
            let time = MonotonicNs(self.since.0.min(header.time.0));
            python.push_names(header, &taken, time, batch);
        }
        batch.push(*header, &data);
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
