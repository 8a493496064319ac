//! Assignment of events to the slices that they begin or end.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    IrqEnterData, IrqExitData, SoftirqData, SyscallEnterData, SyscallExitData,
};
use tracer_engine::EventTypes;
use zerocopy::FromBytes;

use super::IsWanted;
use super::carried::Carried;
use super::names::LogThread;
use super::slices::{Key, Mark, Slice, Slices, Track};
use tracer_analysis::{Pairs, Side};
use tracer_event::event_view::EventView;
use tracer_event::fields::{table, until_null};
use tracer_event::kernel_words::push_syscall_name;
use tracer_event::value_names::softirq;

/// Role of an event for the slices.
enum Part {
    /// Beginning of a slice, with its name.
    Begin(Track, Key, Vec<u8>),
    /// End of a slice.
    End(Track, Key),
    /// Neither of them.
    Instant,
}

/// Slices of a log.
pub struct Parts {
    /// Pairs of user events that are a beginning and an end, among the known types.
    pairs: Pairs,
    is_wanted: IsWanted,
    slices: Slices<Carried>,
}

impl Parts {
    /// Creates an empty set of slices. Wanted user events may be pairs.
    pub fn new(is_wanted: IsWanted) -> Self {
        Self {
            pairs: Pairs::default(),
            is_wanted,
            slices: Slices::default(),
        }
    }

    /// Looks for pairs among these event types, which are all that are known.
    pub fn learn_types(&mut self, types: &EventTypes) {
        self.pairs = Pairs::among(types, |id, name| (self.is_wanted)(id, name));
    }

    /// Takes an event that begins or ends a slice, with the id of its stack; appends to `out` the
    /// marks to be written then. Returns false for all other events: they are instants, and come
    /// after the marks in `out`.
    pub fn take(
        &mut self,
        entry: &EventView<'_>,
        thread: LogThread,
        stack: Option<u64>,
        out: &mut Vec<Mark<Carried>>,
    ) -> bool {
        match part(entry, thread, &self.pairs) {
            Part::Begin(track, key, name) => {
                let slice = Slice {
                    key,
                    name,
                    at: entry.at(),
                    arguments: Carried::from_event(entry),
                    stack,
                };
                self.slices.begin(track, slice, out)
            }
            Part::End(track, key) => {
                let carried = Carried::from_end(entry);
                self.slices.end(track, key, entry.at(), carried, out)
            }
            Part::Instant => {
                self.before_instant(entry, thread, out);
                false
            }
        }
    }

    /// Appends the marks to be written before an instant of a thread at the time of `entry`.
    pub fn before_instant(
        &mut self,
        entry: &EventView<'_>,
        thread: LogThread,
        out: &mut Vec<Mark<Carried>>,
    ) {
        let track = Track::Thread(thread);
        self.slices.mark_beginnings_at(track, entry.at(), out);
    }

    /// Ends the slices of a thread if the event is its end.
    pub fn after(
        &mut self,
        entry: &EventView<'_>,
        thread: LogThread,
        out: &mut Vec<Mark<Carried>>,
    ) {
        let id = entry.event.header.event_type;
        if matches!(id, EventTypeId::EXIT | EventTypeId::THREAD_EXIT) {
            self.slices.end_all(Track::Thread(thread), entry.at(), out);
        }
    }

    /// Returns the marks of the slices that never ended.
    pub fn finish(&mut self) -> Vec<Mark<Carried>> {
        let mut out = Vec::new();
        std::mem::take(&mut self.slices).finish(&mut out);
        out
    }
}

fn part(entry: &EventView<'_>, thread: LogThread, pairs: &Pairs) -> Part {
    let event = &entry.event;
    if let Some(side) = pairs.side(event.header.event_type) {
        let track = Track::Thread(thread);
        return match side {
            Side::Begin(pair, name) => Part::Begin(track, Key::Pair(*pair), name.to_vec()),
            Side::End(pair) => Part::End(track, Key::Pair(*pair)),
        };
    }
    kernels_part(entry, thread).unwrap_or(Part::Instant)
}

/// Returns the role of an event of the kernel; `None` for one that is no part of a slice, and for
/// data that is truncated.
fn kernels_part(entry: &EventView<'_>, thread: LogThread) -> Option<Part> {
    let event = &entry.event;
    let data = event.data;
    let interrupts = || event.header.cpu.map(Track::Interrupts);
    let idle = || event.header.cpu.map(Track::Idle);
    Some(match event.header.event_type {
        EventTypeId::SYSCALL_ENTER => {
            let call = SyscallEnterData::read_from_prefix(data).ok()?.0;
            let mut name = Vec::new();
            push_syscall_name(&mut name, table(call.compat), call.number);
            Part::Begin(Track::Thread(thread), Key::Call(call.number), name)
        }
        EventTypeId::SYSCALL_EXIT => {
            let call = SyscallExitData::read_from_prefix(data).ok()?.0;
            Part::End(Track::Thread(thread), Key::Call(call.number))
        }
        EventTypeId::IRQ_ENTER => {
            let interrupt = IrqEnterData::read_from_prefix(data).ok()?.0;
            let name = until_null(&interrupt.name).to_vec();
            Part::Begin(interrupts()?, Key::Interrupt(interrupt.irq), name)
        }
        EventTypeId::IRQ_EXIT => {
            let interrupt = IrqExitData::read_from_prefix(data).ok()?.0;
            Part::End(interrupts()?, Key::Interrupt(interrupt.irq))
        }
        EventTypeId::SOFTIRQ_ENTER => {
            let vector = SoftirqData::read_from_prefix(data).ok()?.0.vector;
            let name = softirq(vector).map_or_else(|| vector.to_string(), str::to_owned);
            Part::Begin(interrupts()?, Key::SoftInterrupt(vector), name.into_bytes())
        }
        EventTypeId::SOFTIRQ_EXIT => {
            let vector = SoftirqData::read_from_prefix(data).ok()?.0.vector;
            Part::End(interrupts()?, Key::SoftInterrupt(vector))
        }
        EventTypeId::IDLE_ENTER => Part::Begin(idle()?, Key::Idle, b"idle".to_vec()),
        EventTypeId::IDLE_EXIT => Part::End(idle()?, Key::Idle),
        _ => return None,
    })
}
