//! Events of the same time: where a clock moves in long steps, causes still come before effects.
//!
//! Events of one time stay in the order in which they came, except for these rules:
//!
//! - a thread's own events stay in the order in which it recorded them, and those of a CPU in the
//!   kernel's order;
//! - a fork comes before everything of the new thread;
//! - a wake-up comes before the thread gets a CPU;
//! - what a thread records itself comes before its next system call, and after the one from which
//!   it returns, or after it gets the CPU.
//!
//! The rules concern events from different sources or CPUs: within one of them the order is known.
//! Where the rules contradict each other, since a thread did more at one time than is possible, the
//! event that came first goes first.
//!
//! Two user events of different threads need no rule. An emission lasts until the clock has moved,
//! so that an event which is the effect of another has a later time.

use std::collections::{HashMap, VecDeque};
use std::mem::offset_of;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ForkData;

use crate::source::Pending;

/// Most events of one time that are put in order. The cost grows with the square of their number.
const LONGEST_RUN: usize = 256;

/// Puts events that are sorted by time in order within each time.
pub(super) fn settle(events: &mut [Pending], data: &[u8]) {
    for run in events.chunk_by_mut(|a, b| a.header.time == b.header.time) {
        if (2..=LONGEST_RUN).contains(&run.len())
            && run.iter().any(|event| has_rule(event.header.event_type))
        {
            settle_run(run, data);
        }
    }
}

/// Tells whether a rule begins with an event of this type.
fn has_rule(event_type: EventTypeId) -> bool {
    matches!(
        event_type,
        EventTypeId::FORK
            | EventTypeId::WAKEUP
            | EventTypeId::SYSCALL_ENTER
            | EventTypeId::SYSCALL_EXIT
            | EventTypeId::SWITCH_IN
            | EventTypeId::SWITCH_OUT
    )
}

/// A row of events whose order is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Row {
    /// Events of the kernel, on a CPU.
    Cpu(Option<u32>),
    /// Events that a thread records itself.
    Thread(i32),
}

/// The part of an event in the rules of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    /// The kernel makes a thread, of this identifier.
    Fork(i32),
    /// The thread becomes ready to run.
    WakeUp,
    /// The thread gets the CPU.
    Comes,
    /// The thread returns from a system call.
    Returns,
    /// Something else that the kernel says of a thread.
    OfKernel,
    /// The thread records the event itself.
    OfThread,
}

struct Step {
    /// The stack of the event, which stays right before it.
    stack: Option<Pending>,
    event: Pending,
    row: Row,
    act: Act,
}

impl Step {
    fn new(stack: Option<Pending>, event: Pending, data: &[u8]) -> Self {
        let header = &event.header;
        let act = match header.event_type {
            EventTypeId::FORK => {
                let child = event.data(data).get(offset_of!(ForkData, child_tid)..);
                let child = child.and_then(|rest| rest.first_chunk());
                let child = child.map(|tid| u32::from_ne_bytes(*tid));
                let child = child.and_then(|tid| i32::try_from(tid).ok());
                child.map_or(Act::OfKernel, Act::Fork)
            }
            EventTypeId::WAKEUP => Act::WakeUp,
            EventTypeId::SWITCH_IN => Act::Comes,
            EventTypeId::SYSCALL_EXIT => Act::Returns,
            event_type if event_type.is_user() => Act::OfThread,
            _ => Act::OfKernel,
        };
        let row = if act == Act::OfThread {
            Row::Thread(header.tid)
        } else {
            Row::Cpu(header.cpu)
        };
        Self {
            stack,
            event,
            row,
            act,
        }
    }

    fn tid(&self) -> i32 {
        self.event.header.tid
    }
}

/// Events of a run that have still to come, as the rules ask for them.
#[derive(Default)]
struct ToCome {
    /// Forks, by the new thread and the CPU.
    forks: HashMap<i32, HashMap<Row, usize>>,
    /// Wake-ups, by the thread that is woken and the CPU.
    wake_ups: HashMap<i32, HashMap<Row, usize>>,
    threads: HashMap<i32, OfThread>,
}

/// Events of one thread.
#[derive(Default)]
struct OfThread {
    /// Events of its own.
    own: usize,
    /// Events of the kernel about the thread.
    of_kernel: usize,
    /// Whether the first of these has still to come, and is that the thread gets the CPU or
    /// returns.
    begins_in_kernel: bool,
}

impl ToCome {
    fn note(&mut self, step: &Step) {
        let thread = self.threads.entry(step.tid()).or_default();
        match step.act {
            Act::OfThread => thread.own += 1,
            Act::WakeUp => {
                let rows = self.wake_ups.entry(step.tid()).or_default();
                *rows.entry(step.row).or_default() += 1;
            }
            act @ (Act::Fork(_) | Act::Comes | Act::Returns | Act::OfKernel) => {
                let returns = matches!(act, Act::Returns | Act::Comes);
                thread.begins_in_kernel |= thread.of_kernel == 0 && returns;
                thread.of_kernel += 1;
            }
        }
        if let Act::Fork(child) = step.act {
            let rows = self.forks.entry(child).or_default();
            *rows.entry(step.row).or_default() += 1;
        }
    }

    /// Tells whether an event that is still to come goes before this one.
    fn holds_back(&self, step: &Step) -> bool {
        let elsewhere = |rows: Option<&HashMap<Row, usize>>| {
            rows.is_some_and(|rows| rows.keys().any(|row| *row != step.row))
        };
        if elsewhere(self.forks.get(&step.tid())) {
            return true;
        }
        let thread = self.threads.get(&step.tid());
        let begins_in_kernel = thread.is_some_and(|thread| thread.begins_in_kernel);
        match step.act {
            Act::OfThread => begins_in_kernel,
            Act::WakeUp => false,
            Act::Comes if elsewhere(self.wake_ups.get(&step.tid())) => true,
            Act::Fork(_) | Act::Comes | Act::Returns | Act::OfKernel => {
                !begins_in_kernel && thread.is_some_and(|thread| thread.own > 0)
            }
        }
    }

    /// Forgets an event that is where it belongs.
    fn forget(&mut self, step: &Step) {
        let thread = self.threads.entry(step.tid()).or_default();
        match step.act {
            Act::OfThread => thread.own = thread.own.saturating_sub(1),
            Act::WakeUp => take_one(&mut self.wake_ups, step.tid(), step.row),
            Act::Fork(_) | Act::Comes | Act::Returns | Act::OfKernel => {
                thread.begins_in_kernel = false;
            }
        }
        if let Act::Fork(child) = step.act {
            take_one(&mut self.forks, child, step.row);
        }
    }
}

fn take_one(counts: &mut HashMap<i32, HashMap<Row, usize>>, tid: i32, row: Row) {
    let Some(rows) = counts.get_mut(&tid) else {
        return;
    };
    match rows.get_mut(&row) {
        Some(count) if *count > 1 => *count -= 1,
        _ => {
            rows.remove(&row);
        }
    }
    if rows.is_empty() {
        counts.remove(&tid);
    }
}

/// Events that wait for others, in order within each row.
#[derive(Default)]
struct HeldBack {
    /// Rows in the order in which the first event of each came.
    rows: Vec<(Row, VecDeque<Step>)>,
}

impl HeldBack {
    fn row(&mut self, row: Row) -> Option<&mut VecDeque<Step>> {
        let mut rows = self.rows.iter_mut();
        rows.find(|(held, _)| *held == row).map(|(_, steps)| steps)
    }

    fn push(&mut self, step: Step) {
        match self.row(step.row) {
            Some(steps) => steps.push_back(step),
            None => self.rows.push((step.row, VecDeque::from([step]))),
        }
    }

    /// Takes out the next event that waits for no other any more.
    fn pop_free(&mut self, to_come: &ToCome) -> Option<Step> {
        for (_, steps) in &mut self.rows {
            if steps.front().is_some_and(|step| !to_come.holds_back(step)) {
                return steps.pop_front();
            }
        }
        None
    }

    /// Takes out the event that came first, where all wait for each other.
    fn pop_any(&mut self) -> Option<Step> {
        let (_, steps) = self.rows.first_mut()?;
        steps.pop_front()
    }

    fn forget_empty(&mut self) {
        self.rows.retain(|(_, steps)| !steps.is_empty());
    }
}

fn steps_of(run: &[Pending], data: &[u8]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(run.len());
    let mut stack = None;
    for event in run {
        let before = stack.take();
        if event.header.event_type == EventTypeId::STACK {
            steps.extend(before.map(|before| Step::new(None, before, data)));
            stack = Some(*event);
        } else {
            steps.push(Step::new(before, *event, data));
        }
    }
    steps.extend(stack.map(|stack| Step::new(None, stack, data)));
    steps
}

fn put(step: Step, in_order: &mut Vec<Pending>) {
    in_order.extend(step.stack);
    in_order.push(step.event);
}

fn settle_run(run: &mut [Pending], data: &[u8]) {
    let mut to_come = ToCome::default();
    let steps = steps_of(run, data);
    for step in &steps {
        to_come.note(step);
    }
    let mut in_order = Vec::with_capacity(run.len());
    let mut held = HeldBack::default();
    for step in steps {
        if held.row(step.row).is_some() || to_come.holds_back(&step) {
            held.push(step);
            continue;
        }
        to_come.forget(&step);
        put(step, &mut in_order);
        release(&mut held, &mut to_come, &mut in_order);
    }
    while let Some(step) = held.pop_any() {
        to_come.forget(&step);
        put(step, &mut in_order);
        release(&mut held, &mut to_come, &mut in_order);
    }
    for (event, settled) in run.iter_mut().zip(in_order) {
        *event = settled;
    }
}

/// Puts the held events that wait for no other any more into order.
fn release(held: &mut HeldBack, to_come: &mut ToCome, in_order: &mut Vec<Pending>) {
    while let Some(step) = held.pop_free(to_come) {
        to_come.forget(&step);
        put(step, in_order);
    }
    held.forget_empty();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tracer_common::event_type::EventTypeId as Type;

    use super::*;
    use crate::event::MonotonicNs;
    use crate::source::Batch;
    use crate::{EventTypes, Origin};

    const USER: Type = Type::UNNAMED_USEREVENT;

    /// An event that happens at one time: type, thread, CPU, and of a fork the new thread.
    type Said = (Type, i32, u32, u32);

    /// Returns the events in order, each by its index in `said`.
    fn settled(said: &[Said]) -> Vec<usize> {
        let (mut types, mut losses) = (EventTypes::default(), Vec::new());
        let (mut events, mut data) = (Vec::new(), Vec::new());
        let mut batch = Batch::new(&mut types, &mut events, &mut data, &mut losses);
        for (index, &(event_type, tid, cpu, child)) in said.iter().enumerate() {
            let mut header = Origin::NONE.header(event_type, MonotonicNs(7));
            (header.tid, header.cpu) = (tid, Some(cpu));
            header.program_address = index.try_into().unwrap();
            batch.push(header, &[[0; 4], child.to_ne_bytes()].concat());
        }
        settle(&mut events, &data);
        let indices = events.iter().map(|event| event.header.program_address);
        indices.map(|index| index.try_into().unwrap()).collect()
    }

    fn entry(tid: i32, cpu: u32) -> Said {
        (Type::SYSCALL_ENTER, tid, cpu, 0)
    }

    fn exit(tid: i32, cpu: u32) -> Said {
        (Type::SYSCALL_EXIT, tid, cpu, 0)
    }

    fn user(tid: i32) -> Said {
        (USER, tid, 0, 0)
    }

    #[test]
    fn a_fork_comes_before_all_of_the_child() {
        let said = [
            user(8),
            (Type::SWITCH_IN, 8, 0, 0),
            (Type::FAULT_USER, 8, 0, 0),
            entry(5, 1),
            (Type::FORK, 5, 1, 8),
            exit(5, 1),
        ];
        // The thread gets the CPU before it emits, and the fork comes before both.
        assert_eq!(settled(&said), [3, 4, 1, 0, 2, 5]);
    }

    #[test]
    fn a_wake_up_comes_before_the_thread_gets_the_cpu() {
        let said = [
            (Type::SWITCH_OUT, 3, 0, 0),
            (Type::SWITCH_IN, 8, 0, 0),
            entry(5, 1),
            (Type::WAKEUP, 8, 1, 0),
        ];
        assert_eq!(settled(&said), [0, 2, 3, 1]);
    }

    #[test]
    fn what_a_thread_emits_comes_between_its_calls() {
        assert_eq!(settled(&[entry(5, 0), user(5)]), [1, 0]);
        assert_eq!(settled(&[user(5), exit(5, 0)]), [1, 0]);
        let said = [user(5), user(5), exit(5, 0), entry(5, 0), exit(5, 0)];
        assert_eq!(settled(&said), [2, 0, 1, 3, 4]);
        let inside = [entry(5, 0), (Type::FAULT_USER, 5, 0, 0), exit(5, 0)];
        assert_eq!(settled(&inside), [0, 1, 2]);
    }

    #[test]
    fn a_stack_stays_with_its_event() {
        let said = [
            (Type::STACK, 5, 0, 0),
            entry(5, 0),
            (Type::STACK, 6, 1, 0),
            exit(6, 1),
            user(6),
            user(5),
        ];
        assert_eq!(settled(&said), [2, 3, 4, 5, 0, 1]);
    }

    #[test]
    fn a_time_that_does_not_pass_changes_nothing() {
        let mut said = vec![user(5); LONGEST_RUN - 1];
        said.push(exit(5, 0));
        assert_eq!(settled(&said).first(), Some(&(LONGEST_RUN - 1)));
        said.push(entry(5, 0));
        assert!(settled(&said).is_sorted());
    }

    #[test]
    fn what_contradicts_itself_comes_as_it_came() {
        // Each of the two is woken by the other before it ran.
        let said = [
            (Type::SWITCH_IN, 5, 0, 0),
            (Type::WAKEUP, 6, 0, 0),
            (Type::SWITCH_IN, 6, 1, 0),
            (Type::WAKEUP, 5, 1, 0),
        ];
        assert_eq!(settled(&said), [0, 1, 2, 3]);
    }

    fn any_event() -> impl Strategy<Value = Said> {
        let types = prop::sample::select(vec![
            USER,
            Type::FORK,
            Type::WAKEUP,
            Type::SYSCALL_ENTER,
            Type::SYSCALL_EXIT,
            Type::SWITCH_IN,
            Type::SWITCH_OUT,
            Type::STACK,
            Type::EXIT,
        ]);
        (types, 1..5_i32, 0..3_u32, 1..5_u32)
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_what_is_known_of_the_order_stays(
            said in prop::collection::vec(any_event(), 0..40)
        ) {
            let order = settled(&said);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..said.len()).collect::<Vec<_>>());
            let mut last = HashMap::new();
            for index in order {
                let (event_type, tid, cpu, _) = said[index];
                if event_type == Type::STACK {
                    // A stack goes where its event goes.
                    continue;
                }
                let row = if event_type.is_user() { (true, tid) } else { (false, cpu as i32) };
                let before = last.insert(row, index);
                prop_assert!(before.is_none_or(|before| before < index));
            }
        }
    }
}
