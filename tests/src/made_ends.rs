//! A log of threads with events after their end: a wake-up that another CPU completes, a process
//! that continues without its main thread, and a tid that is reused. One thread runs another
//! program meanwhile, and has its name then.

use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    EXEC_FILE_BYTES, ExecData, ForkData, SwitchInData, SwitchOutData, WakeupData,
};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};
use tracer_log::{FinalStatus, LogWriter};
use zerocopy::IntoBytes as _;

use crate::made::{self, START_NS};

/// A thread: pid, tid, name.
type Thread = (i32, i32, &'static str);

/// Each thread of the log, in the order of their tids and beginnings.
pub const THREADS: [Thread; 5] = [MAKE, CC1, AGAIN, SERVER, WORKER];

const MAKE: Thread = (20, 20, "make");
const CC1: Thread = (21, 21, "cc1");
const AGAIN: Thread = (21, 21, "again");
const SERVER: Thread = (30, 30, "server");
const WORKER: Thread = (30, 31, "worker");

/// Time of the last event about `cc1`: its parent wakes up, some time after `cc1` has left its CPU.
pub const LAST_OF_CC1_NS: u64 = 5_000;
/// Time of the last event of the process of `server`: its other thread ends.
pub const LAST_OF_SERVER_NS: u64 = 17_000;

const SLEEPING: u32 = 1;
/// `TASK_DEAD` of `<linux/sched.h>`.
const DEAD: u32 = 0x80;

/// Writes the log.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path) -> anyhow::Result<()> {
    let mut log = Made(made::log(path, "ends")?);
    log.waker()?;
    log.main_thread()?;
    log.fork(20_000, MAKE, AGAIN)?;
    log.comes(21_000, 1, AGAIN)?;
    log.leaves(22_000, 1, AGAIN, SLEEPING)?;
    let (types, ledger) = (EventTypes::default(), Ledger::default());
    Ok(log.0.complete(&types, &ledger, FinalStatus::default())?)
}

struct Made(LogWriter);

impl Made {
    fn waker(&mut self) -> anyhow::Result<()> {
        self.fork(1_000, MAKE, (CC1.0, CC1.1, "make"))?;
        self.comes(2_000, 1, (CC1.0, CC1.1, "make"))?;
        let exec = ExecData {
            comm: comm(CC1.2),
            old_tid: CC1.1.cast_unsigned(),
            file: [0; EXEC_FILE_BYTES],
        };
        self.append(3_000, 1, EventTypeId::EXEC, CC1, exec.as_bytes())?;
        self.leaves(4_000, 1, CC1, DEAD)?;
        self.wakes(LAST_OF_CC1_NS, 0, MAKE, CC1)?;
        self.comes(6_000, 0, MAKE)?;
        self.leaves(7_000, 0, MAKE, SLEEPING)
    }

    fn main_thread(&mut self) -> anyhow::Result<()> {
        self.fork(10_000, MAKE, SERVER)?;
        self.comes(10_500, 1, SERVER)?;
        let id = EventTypeId::THREAD_CREATE;
        self.append(11_000, 1, id, SERVER, child(WORKER).as_bytes())?;
        self.leaves(12_500, 1, SERVER, DEAD)?;
        self.comes(13_000, 0, WORKER)?;
        self.leaves(14_000, 0, WORKER, SLEEPING)?;
        self.wakes(15_000, 0, WORKER, MAKE)?;
        self.comes(16_000, 0, WORKER)?;
        self.leaves(LAST_OF_SERVER_NS, 0, WORKER, DEAD)
    }

    fn fork(&mut self, ns: u64, parent: Thread, made: Thread) -> anyhow::Result<()> {
        self.append(ns, 0, EventTypeId::FORK, parent, child(made).as_bytes())
    }

    fn comes(&mut self, ns: u64, cpu: u32, thread: Thread) -> anyhow::Result<()> {
        let data = SwitchInData {
            prev_pid: 0,
            prev_tid: 0,
            prev_comm: comm("swapper"),
            others: 0,
            reserved: 0,
        };
        self.append(ns, cpu, EventTypeId::SWITCH_IN, thread, data.as_bytes())
    }

    fn leaves(&mut self, ns: u64, cpu: u32, thread: Thread, state: u32) -> anyhow::Result<()> {
        let data = SwitchOutData {
            next_pid: 0,
            next_tid: 0,
            next_comm: comm("swapper"),
            state,
            preempted: 0,
            waits_in: 0,
            syscall: 0,
            ran_ns: 0,
        };
        self.append(ns, cpu, EventTypeId::SWITCH_OUT, thread, data.as_bytes())
    }

    fn wakes(&mut self, ns: u64, cpu: u32, woken: Thread, by: Thread) -> anyhow::Result<()> {
        let data = WakeupData {
            target_cpu: cpu,
            new_thread: 0,
            waker_pid: by.0.cast_unsigned(),
            waker_tid: by.1.cast_unsigned(),
            waker_comm: comm(by.2),
            waker_context: 1,
            reserved: 0,
        };
        self.append(ns, cpu, EventTypeId::WAKEUP, woken, data.as_bytes())
    }

    fn append(
        &mut self,
        ns: u64,
        cpu: u32,
        id: EventTypeId,
        (pid, tid, name): Thread,
        data: &[u8],
    ) -> anyhow::Result<()> {
        let header = EventHeader {
            time: MonotonicNs(START_NS + ns),
            event_type: id,
            pid,
            tid,
            cpu: Some(cpu),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let types = EventTypes::default();
        Ok(self.0.append(&header, data, name.as_bytes(), &types)?)
    }
}

fn child((pid, tid, name): Thread) -> ForkData {
    ForkData {
        child_pid: pid.cast_unsigned(),
        child_tid: tid.cast_unsigned(),
        child_comm: comm(name),
        child_ns_pid: 0,
        child_ns_tid: 0,
    }
}

fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}
