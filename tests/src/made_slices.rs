//! A log of slices, and the form in which a viewer has to show them.

use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    IRQ_NAME_BYTES, IrqEnterData, IrqExitData, SoftirqData, SwitchInData, SwitchOutData,
    SyscallEnterData, SyscallExitData, WakeupData,
};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};
use tracer_log::{FinalStatus, LogWriter};
use zerocopy::IntoBytes as _;

use crate::made::{self, START_NS};

/// A slice: its name, its begin in nanoseconds from the start of the log, its duration, and its
/// depth: the number of slices of its line that it lies within.
pub type Expected = (&'static str, u64, u64, u64);

/// The slices of process 7.
pub const SLICES: [Expected; 8] = [
    ("request", 1_000, 9_000, 0),
    ("openat", 2_000, 1_000, 1),
    ("query", 4_000, 4_000, 1),
    // Which begins with the query, and is shown before it.
    ("parse", 4_000, 1_000, 2),
    ("read", 5_500, 500, 2),
    // One began within the other and ended after it: on a row of its own.
    ("job", 20_000, 5_000, 0),
    ("Load", 22_000, 8_000, 0),
    ("close", 31_000, 1_000, 0),
];

/// The slices of interrupts.
pub const INTERRUPTS: [Expected; 3] = [
    ("TIMER", 40_000, 5_000, 0),
    ("virtio0-input", 41_000, 1_000, 1),
    ("idle", 60_000, 10_000, 0),
];

/// Writes the log.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path) -> anyhow::Result<()> {
    let mut log = Made {
        writer: made::log(path, "slices")?,
        types: EventTypes::default(),
    };
    log.threads()?;
    log.cpus()?;
    let (types, mut writer) = (log.types, log.writer);
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

struct Made {
    writer: LogWriter,
    types: EventTypes,
}

impl Made {
    fn threads(&mut self) -> anyhow::Result<()> {
        self.user(1_000, "enter request")?;
        self.call(
            2_000,
            libc::SYS_openat,
            [0xffff_ff9c, 0x7ffd_0010, 0o101, 0o644, 9, 9],
        )?;
        self.left(3_000, libc::SYS_openat, -2)?;
        self.user(4_000, "query-start")?;
        self.user(4_000, "parse begin")?;
        self.user(5_000, "parse end")?;
        self.call(5_500, libc::SYS_read, [3, 0x7ffd_0010, 100, 9, 9, 9])?;
        self.left(6_000, libc::SYS_read, 5)?;
        self.user(8_000, "query-done")?;
        self.user(10_000, "exit request")?;
        self.user(20_000, "job__start")?;
        self.user(22_000, "Load Begin")?;
        self.user(25_000, "job__done")?;
        self.user(30_000, "Load End")?;
        self.call(31_000, libc::SYS_close, [3, 9, 9, 9, 9, 9])?;
        self.left(32_000, libc::SYS_close, 0)
    }

    fn cpus(&mut self) -> anyhow::Result<()> {
        let mut name = [0; IRQ_NAME_BYTES];
        name[..13].copy_from_slice(b"virtio0-input");
        let timer = SoftirqData {
            vector: 1,
            reserved: 0,
        };
        self.on_cpu(40_000, EventTypeId::SOFTIRQ_ENTER, 0, timer.as_bytes())?;
        let irq = IrqEnterData { irq: 24, name };
        self.on_cpu(41_000, EventTypeId::IRQ_ENTER, 0, irq.as_bytes())?;
        let irq = IrqExitData {
            irq: 24,
            handled: 1,
        };
        self.on_cpu(42_000, EventTypeId::IRQ_EXIT, 0, irq.as_bytes())?;
        self.on_cpu(45_000, EventTypeId::SOFTIRQ_EXIT, 0, timer.as_bytes())?;
        let came = SwitchInData {
            prev_pid: 0,
            prev_tid: 0,
            prev_comm: [0; 16],
            others: 0,
            reserved: 0,
        };
        self.on_cpu(50_000, EventTypeId::SWITCH_IN, 8, came.as_bytes())?;
        let wakeup = WakeupData {
            target_cpu: 1,
            new_thread: 0,
            waker_pid: 7,
            waker_tid: 8,
            waker_comm: *b"worker\0\0\0\0\0\0\0\0\0\0",
            waker_context: 1,
            reserved: 0,
        };
        self.on_cpu(51_000, EventTypeId::WAKEUP, 9, wakeup.as_bytes())?;
        let left = SwitchOutData {
            next_pid: 7,
            next_tid: 9,
            next_comm: *b"woken\0\0\0\0\0\0\0\0\0\0\0",
            state: 0,
            preempted: 1,
            waits_in: 0,
            syscall: 0,
            ran_ns: 0,
        };
        self.on_cpu(52_000, EventTypeId::SWITCH_OUT, 8, left.as_bytes())?;
        let came = SwitchInData {
            prev_pid: 7,
            prev_tid: 8,
            prev_comm: wakeup.waker_comm,
            others: 0,
            reserved: 0,
        };
        self.on_cpu(52_001, EventTypeId::SWITCH_IN, 9, came.as_bytes())?;
        let left = SwitchOutData {
            next_pid: 0,
            next_tid: 0,
            next_comm: [0; 16],
            state: 1,
            preempted: 0,
            waits_in: 0,
            syscall: 0,
            ran_ns: 0,
        };
        self.on_cpu(55_000, EventTypeId::SWITCH_OUT, 9, left.as_bytes())?;
        self.on_cpu(60_000, EventTypeId::IDLE_ENTER, 0, &[1, 0, 0, 0])?;
        self.on_cpu(70_000, EventTypeId::IDLE_EXIT, 0, b"")
    }

    fn user(&mut self, ns: u64, name: &str) -> anyhow::Result<()> {
        let id = self.types.define_user(name.as_bytes(), None);
        self.append(ns, id, 8, b"")
    }

    fn call(&mut self, ns: u64, syscall: libc::c_long, args: [u64; 6]) -> anyhow::Result<()> {
        let call = SyscallEnterData {
            number: nr(syscall)?,
            compat: 0,
            args,
        };
        self.append(ns, EventTypeId::SYSCALL_ENTER, 8, call.as_bytes())
    }

    fn left(&mut self, ns: u64, syscall: libc::c_long, ret: i64) -> anyhow::Result<()> {
        let call = SyscallExitData {
            number: nr(syscall)?,
            compat: 0,
            ret,
        };
        self.append(ns, EventTypeId::SYSCALL_EXIT, 8, call.as_bytes())
    }

    fn on_cpu(&mut self, ns: u64, id: EventTypeId, tid: i32, data: &[u8]) -> anyhow::Result<()> {
        self.append(ns, id, tid, data)
    }

    /// Appends an event. Thread 0 is of no process; all others are of process 7, on CPU 1.
    fn append(&mut self, ns: u64, id: EventTypeId, tid: i32, data: &[u8]) -> anyhow::Result<()> {
        let header = EventHeader {
            time: MonotonicNs(START_NS + ns),
            event_type: id,
            pid: if tid == 0 { 0 } else { 7 },
            tid,
            cpu: Some(1),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let comm: &[u8] = match tid {
            0 => b"",
            9 => b"woken",
            _ => b"worker",
        };
        Ok(self.writer.append(&header, data, comm, &self.types)?)
    }
}

/// The system call number, as events have it.
fn nr(syscall: libc::c_long) -> anyhow::Result<i32> {
    Ok(i32::try_from(syscall)?)
}
