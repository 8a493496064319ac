//! Events of the kernel, in bundles by CPU.

use std::collections::BTreeMap;

use tracer_common::event_type::{EventTypeId, read_grown};
use tracer_common::kernel::{
    COMM_BYTES, ExecData, ForkData, RenameData, SwitchInData, SwitchOutData, WakeupData,
    waker_context,
};
use zerocopy::FromBytes;

use super::ended::{HeldEnds, ThreadEnd};
use super::packet;
use super::schema::{
    Data, Ftrace, FtraceEvent, FtraceEventBundle, SchedProcessExec, SchedProcessExit,
    SchedProcessFree, SchedSwitch, SchedWaking, TaskNewtask, TaskRename, TracePacket,
};
use super::switches::{ASLEEP, LastSwitches, MOST_CPUS, RUNNABLE, Switch, SwitchedTask};
use super::tracks::text;
use crate::names::LogThread;
use tracer_engine::event::MonotonicNs;
use tracer_event::event_view::EventView;
use tracer_event::fields::until_null;
use tracer_event::task_state::task_state;

/// Number of events of all CPUs after which the bundles are written.
const MOST_PENDING: usize = 2048;

/// Activity of the kernel's scheduler.
#[derive(Debug, Default)]
pub struct Scheduler {
    switches: LastSwitches,
    bundles: Bundles,
    ended: HeldEnds,
    has_lost: bool,
}

/// Events that are not written yet.
#[derive(Debug, Default)]
struct Bundles {
    by_cpu: BTreeMap<u32, Vec<FtraceEvent>>,
    /// Thread that came last to each CPU.
    on_cpu: BTreeMap<u32, SwitchedTask>,
    pending: usize,
}

impl Scheduler {
    /// Notes an event. Returns true for switches and wake-ups, which are shown in no other way.
    pub fn note(&mut self, entry: &EventView<'_>, thread: LogThread) -> bool {
        let Some(cpu) = entry.event.header.cpu else {
            return false;
        };
        self.ended.hear(thread, cpu, entry.at());
        match entry.event.header.event_type {
            EventTypeId::SWITCH_IN => self.come(entry, thread, cpu).is_some(),
            EventTypeId::SWITCH_OUT => self.leave(entry, thread, cpu).is_some(),
            EventTypeId::WAKEUP => self.wake(entry, thread, cpu).is_some(),
            _ => {
                if let Some(event) = life_of(entry, thread) {
                    self.live(cpu, entry.at(), thread.tid, event);
                }
                if let Some(event) = exec_name(entry, thread) {
                    self.live(cpu, entry.at(), thread.tid, event);
                }
                false
            }
        }
    }

    /// Notes that events were lost.
    pub fn lose(&mut self) {
        self.has_lost = true;
    }

    /// Returns the bundles, once there is much in them.
    pub fn full_bundles(&mut self) -> Vec<TracePacket> {
        if self.bundles.pending < MOST_PENDING {
            return Vec::new();
        }
        self.take()
    }

    /// Returns all remaining bundles.
    pub fn end(&mut self) -> Vec<TracePacket> {
        let bundles = &mut self.bundles;
        self.switches.end(|switch| bundles.switch(switch));
        for end in self.ended.release_all() {
            self.bundles.end(end);
        }
        self.take()
    }

    fn take(&mut self) -> Vec<TracePacket> {
        let lost_events = std::mem::take(&mut self.has_lost).then_some(true);
        self.bundles.pending = 0;
        let bundles = std::mem::take(&mut self.bundles.by_cpu);
        bundles
            .into_iter()
            .map(|(cpu, event)| {
                let at = event.first().and_then(|event| event.timestamp);
                let bundle = FtraceEventBundle {
                    cpu: Some(cpu),
                    event,
                    lost_events,
                };
                packet(MonotonicNs(at.unwrap_or(0)), Data::FtraceEvents(bundle))
            })
            .collect()
    }

    fn come(&mut self, entry: &EventView<'_>, thread: LogThread, cpu: u32) -> Option<()> {
        let least = std::mem::offset_of!(SwitchInData, others);
        let data: SwitchInData = read_grown(entry.event.data, least)?;
        let prev = task(data.prev_tid, &data.prev_comm);
        let bundles = &mut self.bundles;
        self.switches
            .come((cpu, entry.at()), own_task(entry, thread), prev, |switch| {
                bundles.switch(switch);
            });
        Some(())
    }

    fn leave(&mut self, entry: &EventView<'_>, thread: LogThread, cpu: u32) -> Option<()> {
        let state_end = std::mem::offset_of!(SwitchOutData, ran_ns);
        let data: SwitchOutData = read_grown(entry.event.data, state_end)?;
        let switch = Switch {
            cpu,
            at: entry.at(),
            prev: own_task(entry, thread),
            prev_state: shown_state(data.state, data.preempted != 0),
            next: task(data.next_tid, &data.next_comm),
        };
        let is_dead = matches!(switch.prev_state, DEAD | ZOMBIE);
        if is_dead && let Some(end) = self.ended.hold(switch.prev.clone(), cpu, entry.at()) {
            self.bundles.end(end);
        }
        let bundles = &mut self.bundles;
        self.switches.leave(switch, |switch| {
            bundles.switch(switch);
        });
        Some(())
    }

    fn wake(&mut self, entry: &EventView<'_>, thread: LogThread, cpu: u32) -> Option<()> {
        let waker_end = std::mem::offset_of!(WakeupData, waker_context);
        let data: WakeupData = read_grown(entry.event.data, waker_end)?;
        let waking = SchedWaking {
            comm: Some(own_task(entry, thread).name()),
            pid: Some(thread.tid),
            success: Some(1),
            target_cpu: i32::try_from(data.target_cpu).ok(),
        };
        // The flags say that it was no thread's work.
        let flags = match data.waker_context {
            waker_context::IRQ | waker_context::HRTIMER => Some(HARD_IRQ),
            waker_context::SOFTIRQ | waker_context::TIMER | waker_context::PACKET => Some(SOFT_IRQ),
            _ => None,
        };
        let waker = LogThread {
            pid: data.waker_pid.cast_signed(),
            tid: data.waker_tid.cast_signed(),
        };
        self.ended.hear(waker, cpu, entry.at());
        let event = Ftrace::SchedWaking(waking);
        self.bundles
            .push_flagged((cpu, entry.at(), waker.tid), flags, event);
        Some(())
    }

    /// Adds an event of a thread's life.
    fn live(&mut self, cpu: u32, at: MonotonicNs, tid: i32, event: Ftrace) {
        if let Ftrace::TaskNewtask(new) = &event
            && let Some(end) = new.pid.and_then(|tid| self.ended.release(tid))
        {
            // The one before ends before this one begins.
            let at = end.at.min(at);
            self.bundles.end(ThreadEnd { cpu, at, ..end });
        }
        self.bundles.push((cpu, at, tid), event);
    }
}

/// Priority of every thread, as a log does not have it: the default priority. Without one all are
/// taken for real-time threads.
const PRIORITY: i32 = 120;

/// `TRACE_FLAG_HARDIRQ` and `TRACE_FLAG_SOFTIRQ` of the kernel.
const HARD_IRQ: u32 = 0x08;
const SOFT_IRQ: u32 = 0x10;

impl Bundles {
    fn push(&mut self, source: (u32, MonotonicNs, i32), event: Ftrace) {
        self.push_flagged(source, None, event);
    }

    fn push_flagged(
        &mut self,
        (cpu, at, tid): (u32, MonotonicNs, i32),
        common_flags: Option<u32>,
        event: Ftrace,
    ) {
        self.pending += 1;
        self.by_cpu.entry(cpu).or_default().push(FtraceEvent {
            timestamp: Some(at.0),
            pid: Some(tid.cast_unsigned()),
            common_flags,
            event: Some(event),
        });
    }

    /// Adds a switch, before which the CPU has to be that of the leaving thread: where the log
    /// lacks how it got there, another switch at the same moment is added. The engine takes
    /// anything else for an error.
    fn switch(&mut self, switch: Switch) {
        let is_held = self.on_cpu.len() < MOST_CPUS || self.on_cpu.contains_key(&switch.cpu);
        if is_held {
            let before = self.on_cpu.insert(switch.cpu, switch.next.clone());
            if let Some(before) = before.filter(|before| before.tid != switch.prev.tid) {
                self.push_switch(Switch {
                    prev: before,
                    prev_state: ASLEEP,
                    next: switch.prev.clone(),
                    ..switch
                });
            }
        }
        self.push_switch(switch);
    }

    fn push_switch(&mut self, switch: Switch) {
        let source = (switch.cpu, switch.at, switch.prev.tid);
        let event = SchedSwitch {
            prev_comm: Some(switch.prev.name()),
            prev_pid: Some(switch.prev.tid),
            prev_prio: Some(PRIORITY),
            prev_state: Some(switch.prev_state),
            next_comm: Some(switch.next.name()),
            next_pid: Some(switch.next.tid),
            next_prio: Some(PRIORITY),
        };
        self.push(source, Ftrace::SchedSwitch(event));
    }

    fn end(&mut self, end: ThreadEnd) {
        let tid = end.task.tid;
        let free = SchedProcessFree {
            comm: Some(end.task.name()),
            pid: Some(tid),
        };
        self.push((end.cpu, end.at, tid), Ftrace::SchedProcessFree(free));
    }
}

/// Returns the kernel's event of a beginning, a new program, an end or a new name.
fn life_of(entry: &EventView<'_>, thread: LogThread) -> Option<Ftrace> {
    /// `CLONE_THREAD` of `<linux/sched.h>`.
    const CLONE_THREAD: u64 = 0x0001_0000;
    let event = &entry.event;
    let data = event.data;
    Some(match event.header.event_type {
        id @ (EventTypeId::FORK | EventTypeId::THREAD_CREATE) => {
            let (fork, _) = ForkData::read_from_prefix(data).ok()?;
            let is_thread = id == EventTypeId::THREAD_CREATE;
            Ftrace::TaskNewtask(TaskNewtask {
                pid: Some(fork.child_tid.cast_signed()),
                comm: Some(text(until_null(&fork.child_comm))),
                clone_flags: Some(if is_thread { CLONE_THREAD } else { 0 }),
            })
        }
        EventTypeId::EXEC => {
            let file = data.get(std::mem::offset_of!(ExecData, file)..)?;
            Ftrace::SchedProcessExec(SchedProcessExec {
                filename: Some(text(until_null(file))),
                pid: Some(thread.tid),
                old_pid: ExecData::old_tid_of(data),
            })
        }
        EventTypeId::EXIT | EventTypeId::THREAD_EXIT => {
            Ftrace::SchedProcessExit(SchedProcessExit {
                comm: Some(own_task(entry, thread).name()),
                pid: Some(thread.tid),
                tgid: Some(thread.pid),
            })
        }
        EventTypeId::RENAME => {
            let (rename, _) = RenameData::read_from_prefix(data).ok()?;
            Ftrace::TaskRename(TaskRename {
                pid: Some(thread.tid),
                newcomm: Some(text(until_null(&rename.comm))),
            })
        }
        _ => return None,
    })
}

/// Returns the event of the name that a thread has from an exec on. The kernel has an event of its
/// own for that, and so does a log that was asked for it; for the engine it is what names the
/// process anew.
fn exec_name(entry: &EventView<'_>, thread: LogThread) -> Option<Ftrace> {
    let event = &entry.event;
    if event.header.event_type != EventTypeId::EXEC {
        return None;
    }
    let comm = event.data.first_chunk::<COMM_BYTES>()?;
    Some(Ftrace::TaskRename(TaskRename {
        pid: Some(thread.tid),
        newcomm: Some(text(until_null(comm))),
    }))
}

const DEAD: i64 = 0x10;
const ZOMBIE: i64 = 0x20;

/// Returns the state of a thread as the kernel's tracepoint shows it since Linux 4.14.
fn shown_state(bits: u32, is_preempted: bool) -> i64 {
    const PREEMPTED: i64 = 0x100;
    if is_preempted {
        return PREEMPTED;
    }
    match task_state(bits, false).0 {
        "S" => 1,
        "D" => 2,
        "T" => 4,
        "t" => 8,
        "X" => DEAD,
        "Z" => ZOMBIE,
        "P" => 0x40,
        "I" => 0x80,
        _ => RUNNABLE,
    }
}

fn task(tid: u32, comm: &[u8]) -> SwitchedTask {
    SwitchedTask {
        tid: tid.cast_signed(),
        comm: until_null(comm).to_vec(),
    }
}

fn own_task(entry: &EventView<'_>, thread: LogThread) -> SwitchedTask {
    SwitchedTask {
        tid: thread.tid,
        comm: entry.comm.unwrap_or_default().to_vec(),
    }
}

impl SwitchedTask {
    fn name(&self) -> String {
        text(&self.comm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_tracepoint() {
        assert_eq!(shown_state(0, true), 0x100);
        assert_eq!(shown_state(0, false), 0);
        assert_eq!(shown_state(1, false), 1);
        assert_eq!(shown_state(0x402, false), 0x80);
        assert_eq!(shown_state(0x80, false), DEAD);
    }
}
