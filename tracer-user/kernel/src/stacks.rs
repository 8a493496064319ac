//! Stacks come as records of their own, right before the records of their events. Here each becomes
//! an event right before the event that it belongs to, with the same time. Where a stack has
//! addresses in code that the stream does not know yet, the mappings of the process come first.

use std::collections::HashMap;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    COPIED_BYTES, MOST_FRAMES, PROBE_RECORDS, RecordHeader, STACK_RECORD, StackData, StackRecord,
    TRACEPOINT_RECORDS, UNWIND_RECORD, UnwindRecord, stack_ends, stacks,
};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::Batch;
use zerocopy::{FromBytes, IntoBytes};

use super::known_code::KnownCode;
use super::mapped::MappingReport;
use super::moves::MoveHooks;
use super::python::{self, PythonStacks, WaitingFrames};
use tracer_binary::python::Codes;
use tracer_binary::stacks::{NEXT_USER_EVENT, RecordedStack, StackOptions, push_mapping_since};
use tracer_binary::unwind::{Copied, ProcessTime, REGISTERS_BYTES, Unwinder, UnwoundStack};

/// Most stacks that wait for their events. An event follows at once, unless it was lost.
const MOST_WAITING: usize = 4096;

/// Tells whether a record is that of a stack.
pub fn is_stack(untrusted: &[u8]) -> bool {
    RecordHeader::ref_from_prefix(untrusted)
        .is_ok_and(|(header, _)| matches!(header.event_type, STACK_RECORD | UNWIND_RECORD))
        || python::is_part(untrusted)
}

/// Stacks on their way to their events.
#[derive(Debug)]
pub struct WaitingStacks {
    /// Data of the stacks' events, by the event that each belongs to.
    waiting: HashMap<Of, Vec<u8>>,
    /// The code that processes have mapped.
    code: KnownCode,
    /// Lower bound of the times of events that are still to come.
    since: MonotonicNs,
    /// Unwinder for stacks whose part of the program is found here.
    unwinder: Unwinder,
    /// Limit on the addresses of the program.
    most_frames: usize,
    /// Whether the events of probes have stacks.
    are_of_probes: bool,
    /// Whether other processes find the functions.
    are_for_others: bool,
    /// Reports of mappings for these other processes.
    reports: Vec<(u64, MappingReport)>,
    /// Python frames that wait for their stacks.
    frames: WaitingFrames,
    /// Interpreters by which these get their place, where other processes do not find the
    /// functions.
    python: Option<PythonStacks>,
}

/// Event that a stack belongs to. Both records are in the ring of one CPU. If the thread has moved
/// to another CPU, another ring has older or later records of it, and is read before or after this
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Of {
    tid: i32,
    /// Type of the event's record.
    record_type: u32,
    cpu: Option<u32>,
}

impl Of {
    /// Returns the event with this header, whose record has this type.
    fn event(header: &EventHeader, record_type: u32) -> Self {
        Self {
            tid: header.tid,
            record_type,
            cpu: header.cpu,
        }
    }
}

impl WaitingStacks {
    /// Begins to take stacks with these options. `hooks` are the functions at which moves of code
    /// are reported. `for_others`: other processes find the functions.
    pub fn begin(
        options: &StackOptions,
        hooks: MoveHooks<'_>,
        for_others: bool,
        python: Option<PythonStacks>,
    ) -> Self {
        Self {
            waiting: HashMap::new(),
            code: KnownCode::begin(hooks),
            since: MonotonicNs(0),
            unwinder: Unwinder::default(),
            most_frames: usize::try_from(options.user_frames).unwrap_or(MOST_FRAMES),
            are_of_probes: options.types & stacks::PROBES != 0,
            are_for_others: for_others,
            reports: Vec::new(),
            frames: WaitingFrames::default(),
            python,
        }
    }

    /// Takes the reports of mappings for the processes that find the functions.
    pub fn take_reports(&mut self) -> Vec<(u64, MappingReport)> {
        std::mem::take(&mut self.reports)
    }

    /// Learns what processes have mapped by now. The events that are taken after this are not older
    /// than `since`.
    pub fn look(&mut self, since: MonotonicNs) {
        self.since = since;
        self.code.tidy();
        if self.are_for_others {
            self.reports.append(&mut self.code.take_reports());
        } else {
            self.code.learn();
        }
    }

    /// Takes the record of a stack; `None` where our programs do not write such a record. A stack
    /// without an event is pushed at once. So is the stack of a waker, since its event may have
    /// come from another ring.
    pub fn take(&mut self, untrusted: &[u8], batch: &mut Batch<'_>) -> Option<()> {
        if Codes::is_code(untrusted) {
            return match &mut self.python {
                Some(python) => python.codes.take(untrusted),
                None => python::push_code(untrusted, batch),
            };
        }
        if python::is_part(untrusted) {
            return self.frames.take(untrusted);
        }
        let (header, event_type, mut data) = match Raw::parse(untrusted) {
            Some(raw) if self.are_for_others => raw.as_copied()?,
            Some(raw) => self.unwound(&raw)?,
            None => decode(untrusted)?,
        };
        let frames = self.frames.remove(&header, event_type);
        if let Some(python) = &mut self.python {
            let of = moment(&header);
            python.add(of, frames, &mut data, || self.code.mapped(of));
            if python::is_empty(&RecordedStack::parse(&data)?.head) {
                return Some(());
            }
        } else if let Some(frames) = frames {
            frames.push_to(&mut data);
        }
        let is_wakers = RecordedStack::parse(&data).is_some_and(|taken| taken.head.woken_tid != 0);
        if event_type == 0 || is_wakers {
            self.push(header, data, EventTypeId(event_type), batch);
            return Some(());
        }
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.clear();
        }
        self.waiting.insert(Of::event(&header, event_type), data);
        Some(())
    }

    /// Forgets the stacks that wait, since records were lost: their events may be among those
    /// records.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.frames.forget();
    }

    /// Pushes the stack of the event that is pushed next, if it has one. `record_type` is the type
    /// of the event's record; `header` has its type in the stream.
    pub fn push_before(&mut self, record_type: u32, header: &EventHeader, batch: &mut Batch<'_>) {
        if self.waiting.is_empty() {
            return;
        }
        let is_wanted = self.are_of_probes || !is_probe(record_type);
        if let Some(data) = self.waiting.remove(&Of::event(header, record_type))
            && is_wanted
        {
            self.push(*header, data, header.event_type, batch);
        }
    }

    /// Pushes the stack of the user event that the thread emits next at this address: `header` is
    /// that of the record of the trace point.
    pub fn push_of_user_event(
        &mut self,
        header: &EventHeader,
        address: u64,
        batch: &mut Batch<'_>,
    ) {
        let of = Of::event(header, header.event_type.0);
        let waiting = self.waiting.remove(&of);
        let Some(taken) = waiting.as_deref().and_then(RecordedStack::parse) else {
            return;
        };
        let data = from_trace_point(&taken, header.program_address, address, self.most_frames);
        self.push(*header, data, NEXT_USER_EVENT, batch);
    }

    fn push(
        &mut self,
        header: EventHeader,
        mut data: Vec<u8>,
        event_type: EventTypeId,
        batch: &mut Batch<'_>,
    ) {
        if let Some(to) = data.first_chunk_mut() {
            *to = event_type.0.to_ne_bytes();
        }
        let of_type = |event_type| EventHeader {
            event_type,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
            ..header
        };
        if let Some(taken) = RecordedStack::parse(&data).filter(|_| !self.are_for_others) {
            // Mappings that are later than the stack are in the stream behind it.
            for (time, mapping) in self.code.take_unsaid(moment(&header), &taken) {
                let times = (time, time.max(self.since.0.min(header.time.0)));
                let header = EventHeader {
                    time: MonotonicNs(times.1),
                    ..of_type(EventTypeId::MAPPING)
                };
                batch.push_with(header, |out| push_mapping_since(out, &mapping, times));
            }
        }
        if let (Some(python), Some(taken)) = (&mut self.python, RecordedStack::parse(&data)) {
            // A stack that is read later may be older.
            let time = MonotonicNs(self.since.0.min(header.time.0));
            python.push_names(&header, &taken, time, batch);
        }
        batch.push(of_type(EventTypeId::STACK), &data);
    }

    /// Decodes a record as [`decode`] does, and finds the program's part of the stack.
    fn unwound(&mut self, raw: &Raw<'_>) -> Option<(EventHeader, u32, Vec<u8>)> {
        let (header, parts) = raw.parts()?;
        let mut found = UnwoundStack::default();
        if let Some(copied) = &parts.copied {
            let unwinder = (&mut self.unwinder, self.most_frames);
            let of = ProcessTime {
                at: header.time.0.saturating_sub(parts.off_cpu_ns),
                ..moment(&header)
            };
            found = self.code.unwind(of, copied, unwinder);
        }
        let data = parts.data(found.addresses.as_bytes(), found.ends)?;
        Some((header, parts.event_type, data))
    }
}

/// Returns the process of an event at its time.
pub(super) fn moment(header: &EventHeader) -> ProcessTime {
    ProcessTime {
        pid: header.pid,
        at: header.time.0,
    }
}

/// Tells whether a record of this type is that of a probe.
fn is_probe(record_type: u32) -> bool {
    (u32::from(PROBE_RECORDS)..u32::from(TRACEPOINT_RECORDS)).contains(&record_type)
}

/// Returns the data of the stack of a trace point at `address`, with no type in it yet. The stack
/// was taken at the instruction at `probed`: that is the trace point itself, or lies in the
/// function that was called there. So the stack begins at the trace point; it has no addresses of
/// the kernel.
fn from_trace_point(
    taken: &RecordedStack<'_>,
    probed: u64,
    address: u64,
    most_frames: usize,
) -> Vec<u8> {
    let callers = taken.user().skip_while(|of| *of == probed);
    let callers = callers.skip_while(|of| *of == address);
    let user: Vec<u64> = std::iter::once(address)
        .chain(callers)
        .take(most_frames.max(1))
        .collect();
    let head = StackData {
        event_type: 0,
        kernel_frames: 0,
        // 127 at most.
        user_frames: u16::try_from(user.len()).unwrap_or(0),
        ..taken.head
    };
    [head.as_bytes(), user.as_bytes()].concat()
}

/// Decodes the record of a stack. Returns a header, the type of the record of the event that it
/// belongs to, and the data of the stack's event, with no type in it yet.
fn decode(untrusted: &[u8]) -> Option<(EventHeader, u32, Vec<u8>)> {
    use tracer_common::kernel::USUAL_FRAMES;
    const NONE: usize = size_of::<StackRecord<0>>();
    const USUAL: usize = size_of::<StackRecord<USUAL_FRAMES>>();
    match untrusted.len() {
        NONE => decode_as::<0>(untrusted),
        USUAL => decode_as::<USUAL_FRAMES>(untrusted),
        _ => decode_as::<MOST_FRAMES>(untrusted),
    }
}

fn decode_as<const N: usize>(untrusted: &[u8]) -> Option<(EventHeader, u32, Vec<u8>)> {
    let record = StackRecord::<N>::ref_from_bytes(untrusted).ok()?;
    let parts = Parts {
        event_type: record.event_type,
        kernel: record.kernel.get(..count(record.kernel_bytes))?,
        off_cpu_ns: record.off_cpu_ns,
        sampled_ns: record.sampled_ns,
        woken_tid: record.woken_tid,
        copied: None,
    };
    let user = record.user.get(..count(record.user_bytes))?;
    let data = parts.data(user.as_bytes(), stack_ends::UNKNOWN)?;
    Some((event_header(&record.header)?, record.event_type, data))
}

/// Returns the number of addresses in this many bytes. A negative number is an error: there are no
/// addresses. For example, a thread of the kernel has none of a program.
fn count(bytes: i32) -> usize {
    usize::try_from(bytes).unwrap_or(0) / size_of::<u64>()
}

fn event_header(of: &RecordHeader) -> Option<EventHeader> {
    Some(EventHeader {
        time: MonotonicNs(of.time_ns),
        event_type: EventTypeId::STACK,
        pid: i32::try_from(of.pid).ok()?,
        tid: i32::try_from(of.tid).ok()?,
        cpu: Some(u32::from(of.cpu)),
        thread_id: 0,
        program_address: 0,
        truncation: Truncation::None,
    })
}

/// Parts of the record of a stack, except for the program's part.
struct Parts<'a> {
    event_type: u32,
    kernel: &'a [u64],
    off_cpu_ns: u64,
    sampled_ns: u64,
    woken_tid: u32,
    /// Registers and memory from which the program's part is found.
    copied: Option<Copied<'a>>,
}

impl Parts<'_> {
    /// Returns the data of the stack's event, with no type in it yet.
    fn data(&self, user: &[u8], ends: u32) -> Option<Vec<u8>> {
        let count = user.len() / size_of::<u64>();
        Some([&*self.begin(count, ends)?, user].concat())
    }

    /// Returns the beginning of that data, behind which `user_frames` addresses of the program
    /// follow.
    fn begin(&self, user_frames: usize, ends: u32) -> Option<Vec<u8>> {
        let head = StackData {
            event_type: 0,
            kernel_frames: u16::try_from(self.kernel.len()).ok()?,
            user_frames: u16::try_from(user_frames).ok()?,
            off_cpu_ns: self.off_cpu_ns,
            sampled_ns: self.sampled_ns,
            woken_tid: self.woken_tid,
            ends,
        };
        Some([head.as_bytes(), self.kernel.as_bytes()].concat())
    }
}

/// Record of a stack whose program's part is yet to be found, of any size.
struct Raw<'a>(&'a [u8]);

impl<'a> Raw<'a> {
    /// Wraps the record; `None` where it is of another kind.
    fn parse(untrusted: &'a [u8]) -> Option<Self> {
        let (header, _) = RecordHeader::ref_from_prefix(untrusted).ok()?;
        (header.event_type == UNWIND_RECORD).then_some(Self(untrusted))
    }

    /// Decodes the record as [`decode`] does, for another process that finds the program's part.
    /// The registers and the memory follow the data.
    fn as_copied(&self) -> Option<(EventHeader, u32, Vec<u8>)> {
        let (header, parts) = self.parts()?;
        let Some(copied) = parts.copied else {
            let nothing = parts.data(&[], stack_ends::UNKNOWN)?;
            return Some((header, parts.event_type, nothing));
        };
        let mut data = parts.begin(0, stack_ends::COPIED)?;
        // Behind the registers that this machine has, the record has bytes of an earlier record.
        let mut registers = *copied.registers;
        let used = usize::try_from(REGISTERS_BYTES).unwrap_or(0);
        let unused = registers.as_mut_bytes().iter_mut().skip(used);
        unused.for_each(|byte| *byte = 0);
        data.extend_from_slice(registers.as_bytes());
        data.extend_from_slice(copied.memory);
        Some((header, parts.event_type, data))
    }

    fn parts(&self) -> Option<(EventHeader, Parts<'a>)> {
        const SMALL: usize = COPIED_BYTES[0];
        const MIDDLE: usize = COPIED_BYTES[1];
        const LARGE: usize = COPIED_BYTES[2];
        if self.0.len() == size_of::<UnwindRecord<SMALL>>() {
            self.parts_as::<SMALL>()
        } else if self.0.len() == size_of::<UnwindRecord<MIDDLE>>() {
            self.parts_as::<MIDDLE>()
        } else {
            self.parts_as::<LARGE>()
        }
    }

    fn parts_as<const N: usize>(&self) -> Option<(EventHeader, Parts<'a>)> {
        let record = UnwindRecord::<N>::ref_from_bytes(self.0).ok()?;
        let copied = match usize::try_from(record.memory_bytes) {
            Ok(bytes) => Some(Copied {
                registers: &record.registers,
                memory: record.memory.get(..bytes)?,
            }),
            // An error: nothing was copied.
            Err(_) => None,
        };
        let parts = Parts {
            event_type: record.event_type,
            kernel: record.kernel.get(..count(record.kernel_bytes))?,
            off_cpu_ns: record.off_cpu_ns,
            sampled_ns: record.sampled_ns,
            woken_tid: record.woken_tid,
            copied,
        };
        Some((event_header(&record.header)?, parts))
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::kernel::USUAL_FRAMES;
    use tracer_engine::EventTypes;
    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn the_stack_of_a_user_event_begins_at_its_trace_point() {
        const PROBED: u64 = 0x7f00;
        const POINT: u64 = 0x4010;
        let of = |user: &[u64], address: u64, most: usize| {
            let head = StackData {
                kernel_frames: 1,
                user_frames: u16::try_from(user.len()).unwrap(),
                ..StackData::new_zeroed()
            };
            let kernel: u64 = 0xffff_8000;
            let data = [head.as_bytes(), kernel.as_bytes(), user.as_bytes()].concat();
            let taken = RecordedStack::parse(&data).unwrap();
            let found = from_trace_point(&taken, PROBED, address, most);
            let found = RecordedStack::parse(&found).unwrap();
            assert_eq!(found.kernel().count(), 0);
            found.user().collect::<Vec<_>>()
        };
        // By frame pointers: the called function has no frame of its own.
        assert_eq!(of(&[PROBED, 0x5000], POINT, 127), [POINT, 0x5000]);
        // By unwind tables.
        assert_eq!(of(&[PROBED, POINT, 0x5000], POINT, 127), [POINT, 0x5000]);
        // Where the trace point itself is probed.
        assert_eq!(of(&[PROBED, 0x5000], PROBED, 127), [PROBED, 0x5000]);
        // A stack without addresses, and one with more than are wanted.
        assert_eq!(of(&[], POINT, 127), [POINT]);
        assert_eq!(of(&[PROBED, 0x5000, 0x6000], POINT, 2), [POINT, 0x5000]);
    }

    #[test]
    fn a_thread_that_has_moved_has_each_stack_at_its_own_event() {
        const PROBE: u32 = PROBE_RECORDS as u32;
        let options = StackOptions {
            types: stacks::PROBES,
            ..StackOptions::default()
        };
        let mut waiting = WaitingStacks::begin(&options, MoveHooks::default(), false, None);
        let (mut types, mut events, mut data, mut losses) =
            (EventTypes::default(), Vec::new(), Vec::new(), Vec::new());
        let mut batch = Batch::new(&mut types, &mut events, &mut data, &mut losses);
        let take = |waiting: &mut WaitingStacks, batch: &mut Batch<'_>, cpu: u16, frames: i32| {
            let mut header = RecordHeader::new_zeroed();
            (header.pid, header.tid, header.cpu) = (7, 8, cpu);
            header.event_type = STACK_RECORD;
            let bytes = frames * 8;
            let head = [header.as_bytes(), PROBE.as_bytes(), bytes.as_bytes()];
            let mut record = head.concat();
            record.resize(size_of::<StackRecord<USUAL_FRAMES>>(), 0);
            waiting.take(&record, batch).unwrap();
        };
        let event = |cpu| EventHeader {
            time: MonotonicNs(1),
            event_type: EventTypeId(1030),
            pid: 7,
            tid: 8,
            cpu: Some(cpu),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        // The ring of the first CPU was read up to the stack, then that of the second one, where
        // the thread was before.
        take(&mut waiting, &mut batch, 0, 2);
        take(&mut waiting, &mut batch, 1, 1);
        for cpu in [1, 0, 0] {
            waiting.push_before(PROBE, &event(cpu), &mut batch);
        }
        take(&mut waiting, &mut batch, 0, 3);
        waiting.forget();
        waiting.push_before(PROBE, &event(0), &mut batch);
        let pushed = events.iter().map(|event| {
            let frames = RecordedStack::parse(event.data(&data))
                .unwrap()
                .kernel()
                .count();
            (event.header.cpu, frames)
        });
        assert_eq!(pushed.collect::<Vec<_>>(), [(Some(1), 1), (Some(0), 2)]);
    }

    #[test]
    fn what_was_copied_is_read_within_its_record() {
        const BYTES: usize = COPIED_BYTES[0];
        let mut record = vec![0; size_of::<UnwindRecord<BYTES>>()];
        record[32..34].copy_from_slice(&UNWIND_RECORD.to_ne_bytes());
        let copied = |record: &[u8]| {
            let (_, parts) = Raw::parse(record)?.parts()?;
            Some(parts.copied.map(|copied| copied.memory.len()))
        };
        for (bytes, expected) in [
            (0, Some(Some(0))),
            (-1, Some(None)),
            (2048, Some(Some(2048))),
            (2049, None),
            (i32::MAX, None),
        ] {
            record[48..52].copy_from_slice(&i32::to_ne_bytes(bytes));
            assert_eq!(copied(&record), expected, "{bytes}");
        }
        for length in 0..record.len() {
            assert!(copied(&record[..length]).is_none());
        }
    }

    #[test]
    fn a_record_of_any_length_and_counts_is_refused_or_read_within_it() {
        let mut record = vec![0; size_of::<StackRecord<USUAL_FRAMES>>()];
        record[40..44].copy_from_slice(&9_u32.to_ne_bytes());
        record[44..48].copy_from_slice(&16_i32.to_ne_bytes());
        record[48..52].copy_from_slice(&(-14_i32).to_ne_bytes());
        record[72] = 5;
        let (_, event_type, data) = decode(&record).unwrap();
        let taken = RecordedStack::parse(&data).unwrap();
        assert_eq!(event_type, 9);
        assert_eq!(taken.kernel().collect::<Vec<_>>(), [5, 0]);
        assert_eq!(taken.user().count(), 0);
        record[44..48].copy_from_slice(&i32::MAX.to_ne_bytes());
        assert!(decode(&record).is_none());
        for length in 0..record.len() {
            assert!(decode(&record[..length]).is_none());
        }
        // A record without addresses.
        let none = size_of::<StackRecord<0>>();
        record[44..52].fill(0);
        let (_, _, data) = decode(&record[..none]).unwrap();
        assert_eq!(RecordedStack::parse(&data).unwrap().user().count(), 0);
        record[44] = 8;
        assert!(decode(&record[..none]).is_none());
        let _ = RecordHeader::new_zeroed();
    }
}
