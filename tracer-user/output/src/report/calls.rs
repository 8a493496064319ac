//! System calls in readable form: a line for each call, once it is done.
//!
//! A call during which no other event is shown has one line. A call during which another event is
//! shown has two: its arguments known at the beginning, *unfinished*, and the rest with its result,
//! *resumed*.

use tracer_analysis::{CallKey, OpenCalls};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SyscallEnterData, SyscallExitData};
use tracer_engine::event::{Event, EventHeader, MonotonicNs, RealtimeNs};
use zerocopy::FromBytes;

use tracer_event::event_view::{EventView, NamespaceIds};
use tracer_event::fields::{call, table};
use tracer_event::kernel_words::{push_filled, push_syscall_name};
use tracer_event::thread_contexts::ThreadContext;
use tracer_syscalls::arguments::{Call, MOST, Returned};
use tracer_syscalls::pointer_data::Texts;
use tracer_syscalls::results::{push_result, push_result_of, push_returned_descriptor};
use tracer_syscalls::shape::{Filling, Shape};
use tracer_text::digits::{push_decimal, push_nine_digits};

/// Time that the line of a call waits for its end while nothing else is shown.
const WAITS_NS: u64 = 100_000_000;

/// Call that has begun.
#[derive(Clone, Debug)]
pub struct Entered {
    /// Header of its event.
    pub header: EventHeader,
    /// Data of its event.
    pub data: Vec<u8>,
    /// Name of its thread.
    pub comm: Option<Vec<u8>>,
    /// Date of its event, where a log has it.
    pub date: RealtimeNs,
    /// Ids of its process and thread in their own pid namespace.
    pub inside: Option<NamespaceIds>,
    /// Trace and span that its thread works for.
    pub context: Option<ThreadContext>,
    /// Lines of its stack, which follow the first line that shows it.
    pub stack: Vec<u8>,
    key: CallKey,
    call: Call,
}

impl Entered {
    /// Returns the call that `line` begins; `None` where its data is truncated.
    fn from_event(line: &EventView<'_>) -> Option<Self> {
        let (entered, _) = SyscallEnterData::read_from_prefix(line.event.data).ok()?;
        Some(Self {
            header: line.event.header,
            data: line.event.data.to_vec(),
            comm: line.comm.map(<[u8]>::to_vec),
            date: line.date,
            inside: line.inside,
            context: line.context,
            stack: stack_lines(line),
            key: CallKey::new(entered.compat != 0, entered.number),
            call: call(&entered),
        })
    }

    /// Returns the known values of its arguments; `end` is what it returned and filled in.
    fn filling<'a>(&'a self, end: Option<(Returned, Texts<'a>)>) -> Filling<'a> {
        Filling {
            call: &self.call,
            before: Texts::behind(size_of::<SyscallEnterData>(), &self.data),
            after: end.map(|(_, texts)| texts),
            returned: end.map(|(returned, _)| returned.value),
        }
    }

    /// Appends the call as far as it is known before it is done; returns the number of arguments
    /// that were appended.
    fn push_beginning(&self, out: &mut Vec<u8>) -> usize {
        push_syscall_name(out, self.call.table, self.call.nr);
        out.push(b'(');
        let shape = Shape::from_call(&self.call);
        let known = shape.known_before(&self.call);
        shape.push(out, 0..known, &self.filling(None));
        if known < shape.count() && known > 0 {
            out.extend_from_slice(b", ");
        }
        known
    }
}

/// Returns the lines of an event's stack.
pub fn stack_lines(line: &EventView<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    if let Some(stack) = &line.stack {
        stack.push_lines(&mut lines);
    }
    lines
}

/// Call whose beginning has been shown.
#[derive(Clone, Debug)]
struct Unfinished {
    entered: Entered,
    /// Number of arguments that have been shown.
    shown: usize,
}

/// Calls that have begun.
#[derive(Debug, Default)]
pub struct BegunCalls {
    /// Call that was entered last, while nothing else has been shown.
    open: Option<Entered>,
    /// Calls whose beginnings have been shown, by their threads.
    unfinished: OpenCalls<Unfinished>,
}

/// Part of a call that a line shows.
#[derive(Clone, Debug)]
pub struct CallPart {
    /// Beginning of the call: its thread, and the time of the line, also where the call is shown
    /// whole.
    pub of: Entered,
    /// Text of the part.
    pub words: Vec<u8>,
}

impl BegunCalls {
    /// Takes a call that begins. A call that never returns is shown at once. Returns an error where
    /// its data is shorter than the type says.
    pub fn enter(&mut self, line: &EventView<'_>) -> Result<Option<CallPart>, Malformed> {
        let entered = Entered::from_event(line).ok_or(Malformed)?;
        self.unfinished.remove(line.event.header.tid);
        if entered.call.never_returns() {
            let mut words = Vec::new();
            entered.push_beginning(&mut words);
            words.extend_from_slice(b") = ?");
            return Ok(Some(CallPart { of: entered, words }));
        }
        self.open = Some(entered);
        Ok(None)
    }

    /// Returns the whole line of the open call, where `line` is its end.
    pub fn end(&mut self, line: &EventView<'_>) -> Option<CallPart> {
        let (left, texts) = left(line)?;
        let entered = self.open.take_if(|open| is_end_of(open, line, left))?;
        let mut entered = entered;
        if entered.stack.is_empty() {
            entered.stack = stack_lines(line);
        }
        let mut words = Vec::new();
        push_syscall_name(&mut words, left.table, left.nr);
        words.push(b'(');
        let shape = Shape::from_call(&entered.call);
        let filling = entered.filling(Some((left, texts)));
        shape.push(&mut words, 0..shape.count(), &filling);
        words.extend_from_slice(b") = ");
        push_result_of(&mut words, left, &filling);
        push_duration(&mut words, entered.header.time, line.event.header.time);
        Some(CallPart { of: entered, words })
    }

    /// Returns the words of the end of a call whose beginning has been shown, or was never seen;
    /// `None` where the data is truncated.
    pub fn resume(&mut self, line: &EventView<'_>) -> Option<Vec<u8>> {
        let (left, texts) = left(line)?;
        if let Some(registers) = texts.registers() {
            return Some(words_of_whole(left, registers, texts));
        }
        let (key, value) = CallKey::from_exit(line.event.data)?;
        let begun = self.unfinished.leave(line.event.header.tid, key, value);
        let begun = begun.filter(|begun| begun.is_ended);
        let begun = begun.map(|begun| begun.facts);
        let mut words = b"<... ".to_vec();
        match &begun {
            Some(Unfinished { entered, .. }) => {
                push_syscall_name(&mut words, entered.call.table, entered.call.nr);
            }
            None => push_syscall_name(&mut words, left.table, left.nr),
        }
        words.extend_from_slice(b" resumed>");
        match &begun {
            Some(Unfinished { entered, shown }) => {
                let shape = Shape::from_call(&entered.call);
                let filling = entered.filling(Some((left, texts)));
                shape.push(&mut words, *shown..shape.count(), &filling);
                words.extend_from_slice(b") = ");
                push_result_of(&mut words, left, &filling);
            }
            None => {
                let registers = [0; MOST];
                let call = Call {
                    table: left.table,
                    nr: left.nr,
                    registers,
                };
                push_filled(&mut words, &call, texts, left.value);
                words.extend_from_slice(b") = ");
                push_result(&mut words, left);
                push_returned_descriptor(&mut words, left, texts);
            }
        }
        let entered = begun.as_ref().map(|begun| &begun.entered);
        if let Some(entered) = entered {
            push_duration(&mut words, entered.header.time, line.event.header.time);
        }
        Some(words)
    }

    /// Returns the beginning of the open call, as another line follows before its end.
    pub fn interrupt(&mut self) -> Option<CallPart> {
        let entered = self.open.take()?;
        let mut words = Vec::new();
        let shown = entered.push_beginning(&mut words);
        words.extend_from_slice(if words.ends_with(b" ") {
            b"<unfinished ...>"
        } else {
            b" <unfinished ...>"
        });
        let begun = Unfinished {
            entered: entered.clone(),
            shown,
        };
        let (tid, key) = (entered.header.tid, entered.key);
        self.unfinished.enter(tid, key, begun);
        Some(CallPart { of: entered, words })
    }

    /// Returns the beginning of the open call, where it has waited for long by `now`.
    pub fn interrupt_old(&mut self, now: MonotonicNs) -> Option<CallPart> {
        let begun = self.open.as_ref()?.header.time;
        if now.0.saturating_sub(begun.0) < WAITS_NS {
            return None;
        }
        self.interrupt()
    }

    /// Follows a thread by an event that is no part of a call. Returns the words for the call that
    /// it was in when it ended, which did not return.
    pub fn follow(&mut self, event: &Event<'_>) -> Option<Vec<u8>> {
        let begun = self.unfinished.follow(event)?;
        let mut words = b"<... ".to_vec();
        let Call { table, nr, .. } = begun.entered.call;
        push_syscall_name(&mut words, table, nr);
        words.extend_from_slice(b" resumed>");
        let shape = Shape::from_call(&begun.entered.call);
        let filling = begun.entered.filling(None);
        shape.push(&mut words, begun.shown..shape.count(), &filling);
        words.extend_from_slice(b") = ?");
        Some(words)
    }

    /// Forgets the calls that have begun, as events are missing.
    pub fn forget(&mut self) {
        self.unfinished.clear();
    }
}

/// Returns the words of a call that was recorded only as it ended. How long it took is not known.
fn words_of_whole(left: Returned, registers: [u64; MOST], texts: Texts<'_>) -> Vec<u8> {
    let call = Call {
        table: left.table,
        nr: left.nr,
        registers,
    };
    let filling = Filling {
        call: &call,
        // What the call may have changed is not known as it was.
        before: Texts::default(),
        after: Some(texts),
        returned: Some(left.value),
    };
    let mut words = Vec::new();
    push_syscall_name(&mut words, left.table, left.nr);
    words.push(b'(');
    let shape = Shape::from_call(&call);
    shape.push(&mut words, 0..shape.count(), &filling);
    words.extend_from_slice(b") = ");
    push_result_of(&mut words, left, &filling);
    words
}

/// Error: the data of an event is shorter than its type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Returns the result of a call, and the arguments that it has filled in.
fn left<'a>(line: &EventView<'a>) -> Option<(Returned, Texts<'a>)> {
    let (call, _) = SyscallExitData::read_from_prefix(line.event.data).ok()?;
    let returned = Returned {
        table: table(call.compat),
        nr: call.number,
        value: signed(call.compat, call.ret),
    };
    let texts = Texts::behind(size_of::<SyscallExitData>(), line.event.data);
    Some((returned, texts))
}

/// Returns the result of a call. Where a signal handler of a 32-bit program ends, an error that is
/// brought back has only its lower half.
fn signed(compat: u32, value: i64) -> i64 {
    const ERRORS: i64 = 4095;
    let half = value - (1 << 32);
    if compat != 0 && (-ERRORS..0).contains(&half) {
        half
    } else {
        value
    }
}

fn is_end_of(entered: &Entered, line: &EventView<'_>, left: Returned) -> bool {
    let (enter, exit) = (&entered.header, &line.event.header);
    (enter.pid, enter.tid) == (exit.pid, exit.tid)
        && (entered.call.table, entered.call.nr) == (left.table, left.nr)
}

/// Appends the duration of the call: ` <0.000012345>`.
fn push_duration(out: &mut Vec<u8>, from: MonotonicNs, to: MonotonicNs) {
    const NS_PER_SECOND: u64 = 1_000_000_000;
    let ns = to.0.saturating_sub(from.0);
    out.extend_from_slice(b" <");
    push_decimal(out, ns / NS_PER_SECOND);
    out.push(b'.');
    push_nine_digits(out, ns % NS_PER_SECOND);
    out.push(b'>');
}

/// Durations of system calls, from their beginning to their end, where both are shown: the calls
/// that have begun, by their threads.
#[derive(Debug, Default)]
pub struct CallTimes(OpenCalls<MonotonicNs>);

impl CallTimes {
    /// Learns from an event. Returns the duration of a call in nanoseconds, where the event is the
    /// end of a call whose beginning was seen.
    pub fn took(&mut self, line: &EventView<'_>) -> Option<u64> {
        let header = &line.event.header;
        match header.event_type {
            EventTypeId::SYSCALL_ENTER => {
                let key = CallKey::from_enter(line.event.data)?;
                self.0.enter(header.tid, key, header.time);
                None
            }
            EventTypeId::SYSCALL_EXIT => {
                let (key, returned) = CallKey::from_exit(line.event.data)?;
                let begun = self.0.leave(header.tid, key, returned)?;
                let ns = header.time.0.saturating_sub(begun.facts.0);
                begun.is_ended.then_some(ns)
            }
            _ => {
                self.0.follow(&line.event);
                None
            }
        }
    }

    /// Forgets the calls that have begun, as events are missing.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
