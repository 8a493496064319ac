//! Threads on CPUs: a slice for each time on the CPU, in the CPU's own row. In a thread's row it
//! would cross the slices of its system calls, which continue while the thread sleeps.

use std::collections::{HashMap, HashSet};

use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::{SwitchInData, SwitchOutData, WakeupData};
use tracer_engine::event::MonotonicNs;

use super::objects::Objects;
use crate::names::LogThread;
use tracer_event::event_view::EventView;
use tracer_event::task_state::task_state;
use tracer_text::digits::push_decimal;

/// Limit of remembered CPUs: more than any machine has, and fewer than a damaged file may name.
const MOST_CPUS: usize = 65_536;

/// Limit of remembered threads that were woken.
const MOST_WOKEN: usize = 65_536;

/// Process that the rows of CPUs are shown with: no kernel gives a pid so high.
const CPUS: i32 = 1 << 30;

/// Name of a slice where the time that its thread had the CPU is unknown.
const UNKNOWN: &[u8] = b"unknown";

/// Content of a CPU's row.
#[derive(Clone, Copy, Debug)]
pub enum CpuRow {
    /// Threads on the CPU.
    Threads,
    /// Interrupts of the CPU.
    Interrupts,
    /// Times in which the CPU is idle.
    Idle,
}

/// Thread on a CPU.
#[derive(Debug)]
struct Running {
    thread: LogThread,
    comm: Vec<u8>,
    since: MonotonicNs,
    /// Flow that ends where this begins.
    woken: Option<u64>,
}

impl Running {
    /// Returns its slice where its switch away is missing, and the next switch on its CPU names
    /// `prev`. If `prev` is another thread, it is unknown how long this one ran.
    fn seen_until(self, prev: Option<i32>) -> Self {
        let is_named = prev == Some(self.thread.tid);
        let comm = if is_named {
            self.comm
        } else {
            UNKNOWN.to_vec()
        };
        Self { comm, ..self }
    }
}

/// CPUs.
#[derive(Debug, Default)]
pub struct CpuSlices {
    running: HashMap<u32, Running>,
    /// Time of the first event: the first thread seen to leave a CPU was on it from here.
    start: Option<MonotonicNs>,
    /// CPUs of which something is known.
    seen: HashSet<u32>,
    woken: HashMap<LogThread, u64>,
    flows: u64,
    named: HashSet<i32>,
}

impl CpuSlices {
    /// Notes a switch or a wake-up, and adds the slices and flows that follow from it. Returns true
    /// for a valid switch, which is not shown otherwise.
    pub fn note(
        &mut self,
        entry: &EventView<'_>,
        thread: LogThread,
        objects: &mut Objects,
    ) -> bool {
        self.start.get_or_insert(entry.at());
        let event = &entry.event;
        let Some(cpu) = event.header.cpu else {
            return false;
        };
        match event.header.event_type {
            EventTypeId::SWITCH_IN if self.running.len() < MOST_CPUS => {
                let running = Running {
                    thread,
                    comm: entry.comm.unwrap_or_default().to_vec(),
                    since: entry.at(),
                    woken: self.woken.remove(&thread),
                };
                if let Some(before) = self.running.insert(cpu, running) {
                    let least = std::mem::offset_of!(SwitchInData, others);
                    let prev = read_grown::<SwitchInData>(event.data, least);
                    let prev = prev.map(|data| data.prev_tid.cast_signed());
                    let before = before.seen_until(prev);
                    self.slice(cpu, &before, true, entry.at(), "not recorded", objects);
                }
                true
            }
            EventTypeId::SWITCH_OUT => self.leave(entry, thread, cpu, objects).is_some(),
            EventTypeId::WAKEUP => {
                self.wake(entry, thread, cpu, objects);
                // It is an instant of who is woken, too.
                false
            }
            _ => false,
        }
    }

    fn leave(
        &mut self,
        entry: &EventView<'_>,
        thread: LogThread,
        cpu: u32,
        objects: &mut Objects,
    ) -> Option<()> {
        let state_end = std::mem::offset_of!(SwitchOutData, ran_ns);
        let switch: SwitchOutData = read_grown(entry.event.data, state_end)?;
        let why = task_state(switch.state, switch.preempted != 0).1;
        let before = self.running.remove(&cpu);
        let (running, is_start_known) = match before {
            Some(before) if before.thread == thread => (before, true),
            mut before => {
                // How it got here was not recorded.
                let is_start_known = before.is_some();
                let since = match before.take() {
                    Some(before) => {
                        let before = before.seen_until(None);
                        self.slice(cpu, &before, true, entry.at(), "not recorded", objects);
                        entry.at()
                    }
                    None if self.seen.contains(&cpu) => entry.at(),
                    None => self.start.unwrap_or(entry.at()),
                };
                let running = Running {
                    thread,
                    comm: entry.comm.unwrap_or_default().to_vec(),
                    since,
                    woken: None,
                };
                (running, is_start_known)
            }
        };
        self.slice(cpu, &running, is_start_known, entry.at(), why, objects);
        Some(())
    }

    /// Begins a flow from the waker, where it is on the CPU, to the moment when the woken thread
    /// gets a CPU.
    fn wake(&mut self, entry: &EventView<'_>, thread: LogThread, cpu: u32, objects: &mut Objects) {
        self.woken.remove(&thread);
        let waker_end = std::mem::offset_of!(WakeupData, waker_context);
        let Some(data) = read_grown::<WakeupData>(entry.event.data, waker_end) else {
            return;
        };
        let waker = data.waker_tid.cast_signed();
        let is_there = |running: &Running| waker != 0 && running.thread.tid == waker;
        if self.woken.len() < MOST_WOKEN && self.running.get(&cpu).is_some_and(is_there) {
            self.flows += 1;
            self.woken.insert(thread, self.flows);
            objects.flow(
                "s",
                Self::thread(cpu, CpuRow::Threads),
                entry.at(),
                self.flows,
            );
        }
    }

    /// Adds a slice: a thread was on a CPU until `end`, and left it for the reason `why`.
    fn slice(
        &mut self,
        cpu: u32,
        running: &Running,
        is_start_known: bool,
        end: MonotonicNs,
        why: &str,
        objects: &mut Objects,
    ) {
        if self.seen.len() < MOST_CPUS {
            self.seen.insert(cpu);
        }
        let line = self.named(cpu, CpuRow::Threads, objects);
        let LogThread { pid, tid } = running.thread;
        objects.begin("X", line).text("cat", b"sched");
        objects.text("name", &running.comm);
        objects.time("ts", running.since.0);
        objects.time("dur", end.0.saturating_sub(running.since.0));
        objects
            .raw(",\"args\":{\"pid\":")
            .with(|out| push_decimal(out, pid));
        objects.raw(",\"tid\":").with(|out| push_decimal(out, tid));
        objects.text("end", why.as_bytes());
        if !is_start_known {
            objects.text("start", b"before the first event");
        }
        objects.raw("}").end();
        if let Some(flow) = running.woken {
            objects.flow("f", line, running.since, flow);
        }
    }

    /// Adds the slices of the threads that are still on CPUs.
    pub fn finish(&mut self, at: MonotonicNs, objects: &mut Objects) {
        let mut running: Vec<_> = self.running.drain().collect();
        running.sort_by_key(|(cpu, _)| *cpu);
        for (cpu, running) in running {
            self.slice(cpu, &running, true, at, "after the last event", objects);
        }
    }

    /// Returns the thread that a CPU's row is shown as; adds its name if that was not done before.
    pub fn named(&mut self, cpu: u32, row: CpuRow, objects: &mut Objects) -> LogThread {
        let line = Self::thread(cpu, row);
        if self.named.is_empty() {
            objects.name("process_name", line, b"CPUs");
        }
        if self.named.len() < MOST_CPUS && self.named.insert(line.tid) {
            let name = match row {
                CpuRow::Threads => format!("CPU {cpu}"),
                CpuRow::Interrupts => format!("CPU {cpu} interrupts"),
                CpuRow::Idle => format!("CPU {cpu} idle"),
            };
            objects.name("thread_name", line, name.as_bytes());
        }
        line
    }

    fn thread(cpu: u32, row: CpuRow) -> LogThread {
        let index = match row {
            CpuRow::Threads => 0,
            CpuRow::Interrupts => 1,
            CpuRow::Idle => 2,
        };
        let cpu = i32::try_from(cpu % (1 << 16)).unwrap_or(0);
        LogThread {
            pid: CPUS,
            // A viewer must not take one for the process's first thread.
            tid: CPUS + 1 + 3 * cpu + index,
        }
    }
}
