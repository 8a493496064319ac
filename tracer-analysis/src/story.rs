//! Events made up for tests: a story of threads.

use std::collections::HashMap;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    ForkData, SwitchInData, SwitchOutData, SyscallEnterData, SyscallExitData, WakeupData, waits_in,
    waker_context,
};
use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
use zerocopy::{FromZeros, IntoBytes};

use crate::history::History;
use crate::state::Thread;
use crate::thread_states::ThreadStates;

/// The process of all threads.
pub const PID: i32 = 10;

/// Events of a test, and what they show.
#[derive(Debug)]
pub struct Story {
    pub states: ThreadStates,
    pub history: History,
    /// Since when threads have a CPU, and which.
    running: HashMap<i32, (u64, u32)>,
}

pub fn thread(tid: i32) -> Thread {
    Thread { pid: PID, tid }
}

/// The header of an event on this CPU.
pub fn header(at: u64, event_type: EventTypeId, tid: i32, cpu: u32) -> EventHeader {
    EventHeader {
        time: MonotonicNs(at),
        event_type,
        pid: PID,
        tid,
        thread_id: 0,
        program_address: 0,
        cpu: Some(cpu),
        truncation: Truncation::None,
    }
}

impl Story {
    /// Begins at 0; everything is held.
    pub fn new() -> Self {
        let mut history = History::default();
        history.keep_from(Some(MonotonicNs(0)));
        Self {
            states: ThreadStates::new(MonotonicNs(0)),
            history,
            running: HashMap::new(),
        }
    }

    pub fn event(&mut self, header: EventHeader, data: &[u8]) {
        let history = &mut self.history;
        self.states
            .feed(&Event { header, data }, |found| history.add(&found));
    }

    /// `next` gets the CPU from `tid`, which blocks in system call `call`, or has to give way.
    pub fn switch(&mut self, at: u64, cpu: u32, (tid, call): (i32, Option<u16>), next: i32) {
        if tid != 0 {
            let mut data = SwitchOutData::new_zeroed();
            data.ran_ns = self.running.remove(&tid).map_or(0, |(since, _)| at - since);
            data.next_tid = next.unsigned_abs();
            data.next_pid = if next == 0 { 0 } else { PID.unsigned_abs() };
            match call {
                Some(call) => {
                    data.state = 1;
                    (data.waits_in, data.syscall) = (waits_in::SYSCALL, call);
                }
                None => data.preempted = 1,
            }
            self.event(
                header(at, EventTypeId::SWITCH_OUT, tid, cpu),
                data.as_bytes(),
            );
        }
        if next != 0 {
            self.running.insert(next, (at, cpu));
            let mut data = SwitchInData::new_zeroed();
            data.prev_tid = tid.unsigned_abs();
            data.prev_pid = if tid == 0 { 0 } else { PID.unsigned_abs() };
            self.event(
                header(at, EventTypeId::SWITCH_IN, next, cpu),
                data.as_bytes(),
            );
        }
    }

    /// `tid` has to give way to `next`, of which nothing is said but this.
    pub fn leaves(&mut self, at: u64, cpu: u32, tid: i32, next: i32) {
        let mut data = SwitchOutData::new_zeroed();
        data.ran_ns = self.running.remove(&tid).map_or(0, |(since, _)| at - since);
        (data.next_tid, data.next_pid) = (next.unsigned_abs(), PID.unsigned_abs());
        data.preempted = 1;
        let header = header(at, EventTypeId::SWITCH_OUT, tid, cpu);
        self.event(header, data.as_bytes());
    }

    /// `tid` gets the CPU from `prev`, of which nothing is said but this, and as `others` has it.
    pub fn comes(&mut self, at: u64, cpu: u32, (prev, others): (i32, u32), tid: i32) {
        self.running.insert(tid, (at, cpu));
        let mut data = SwitchInData::new_zeroed();
        (data.prev_tid, data.prev_pid) = (prev.unsigned_abs(), PID.unsigned_abs());
        data.others = others;
        let header = header(at, EventTypeId::SWITCH_IN, tid, cpu);
        self.event(header, data.as_bytes());
    }

    /// `tid` becomes runnable on a CPU, since `waker` has asked; 0: a timer.
    pub fn wake(&mut self, at: u64, tid: i32, cpu: u32, waker: i32) {
        let mut data = WakeupData::new_zeroed();
        data.target_cpu = cpu;
        data.waker_tid = waker.unsigned_abs();
        if waker != 0 {
            data.waker_pid = PID.unsigned_abs();
        }
        data.waker_context = match waker {
            0 => waker_context::HRTIMER,
            _ => waker_context::THREAD,
        };
        self.event(header(at, EventTypeId::WAKEUP, tid, cpu), data.as_bytes());
    }

    /// `tid` enters this system call.
    pub fn enter(&mut self, at: u64, tid: i32, call: u16, argument: u64) {
        let mut data = SyscallEnterData::new_zeroed();
        (data.number, data.args[0]) = (call.into(), argument);
        let cpu = self.running.get(&tid).map_or(0, |(_, cpu)| *cpu);
        self.event(
            header(at, EventTypeId::SYSCALL_ENTER, tid, cpu),
            data.as_bytes(),
        );
    }

    /// `tid` leaves this system call.
    pub fn leave(&mut self, at: u64, tid: i32, call: u16) {
        let mut data = SyscallExitData::new_zeroed();
        data.number = call.into();
        let cpu = self.running.get(&tid).map_or(0, |(_, cpu)| *cpu);
        self.event(
            header(at, EventTypeId::SYSCALL_EXIT, tid, cpu),
            data.as_bytes(),
        );
    }

    /// `by` makes the thread `tid`.
    pub fn make(&mut self, at: u64, by: i32, tid: i32) {
        let mut data = ForkData::new_zeroed();
        (data.child_pid, data.child_tid) = (PID.unsigned_abs(), tid.unsigned_abs());
        let cpu = self.running.get(&by).map_or(0, |(_, cpu)| *cpu);
        self.event(
            header(at, EventTypeId::THREAD_CREATE, by, cpu),
            data.as_bytes(),
        );
    }
}
