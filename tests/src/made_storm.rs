//! A log with more threads than a page has space for: more than a thousand processes that run one
//! after the other, most of which share a few names, and one process with many threads.

use std::mem::offset_of;
use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    COMM_BYTES, ExecData, ExitData, ForkData, SwitchInData, SwitchOutData,
};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};
use tracer_log::{FinalStatus, LogWriter};
use zerocopy::{FromZeros as _, IntoBytes as _};

use crate::made::{self, START_NS};

/// Names, and how many processes have each of them.
pub const NAMES: [(&str, usize); 2] = [("sed", 1_000), ("cat", 500)];

/// Number of processes that each have a name of their own: `tool0` and so on.
pub const TOOLS: usize = 200;

/// Name of the process with many threads, and how many threads called `worker` it has.
pub const SERVER: (&str, usize) = ("server", 120);

const PARENT: i32 = 100;
const FIRST: i32 = 1_000;

/// Writes the log.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path) -> anyhow::Result<()> {
    let mut log = Made {
        writer: made::log(path, "storm")?,
        now: 0,
        pid: FIRST,
    };
    for (name, count) in NAMES {
        for _ in 0..count {
            log.live(name, None)?;
        }
    }
    for tool in 0..TOOLS {
        log.live(&format!("tool{tool}"), None)?;
    }
    let server = log.live(SERVER.0, None)?;
    for _ in 0..SERVER.1 {
        log.live("worker", Some(server))?;
    }
    let (types, mut writer) = (EventTypes::default(), log.writer);
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

/// Writes a log of `count` processes, one after the other. Each of them is forked, has a CPU for a
/// while, runs a program and ends.
///
/// # Errors
///
/// It cannot be written.
pub fn write_short(path: &Path, count: usize) -> anyhow::Result<()> {
    let mut log = Made {
        writer: made::log(path, "short")?,
        now: 0,
        pid: FIRST,
    };
    let mut exec = ExecData::new_zeroed().as_bytes().to_vec();
    exec.truncate(offset_of!(ExecData, file));
    exec.extend_from_slice(b"/bin/true\0\0true\0--short\0");
    let ended = ExitData {
        status: 0,
        signal: 0,
    };
    for _ in 0..count {
        let pid = log.live("sh", None)?;
        log.add(EventTypeId::EXEC, (pid, pid, "true"), &exec)?;
        log.add(EventTypeId::EXIT, (pid, pid, "true"), ended.as_bytes())?;
    }
    let (types, mut writer) = (EventTypes::default(), log.writer);
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

struct Made {
    writer: LogWriter,
    now: u64,
    /// The id of the next thread.
    pid: i32,
}

impl Made {
    /// Adds a thread to `process`, or a new process: the thread is made, runs under its name and is
    /// blocked. Returns its id.
    fn live(&mut self, name: &str, process: Option<i32>) -> anyhow::Result<i32> {
        let tid = self.pid;
        self.pid += 1;
        let pid = process.unwrap_or(tid);
        let made = ForkData {
            child_pid: pid.cast_unsigned(),
            child_tid: tid.cast_unsigned(),
            child_comm: comm("sh"),
            child_ns_pid: pid.cast_unsigned(),
            child_ns_tid: tid.cast_unsigned(),
        };
        let kind = process.map_or(EventTypeId::FORK, |_| EventTypeId::THREAD_CREATE);
        self.add(kind, (PARENT, PARENT, "sh"), made.as_bytes())?;
        let came = SwitchInData {
            prev_pid: 0,
            prev_tid: 0,
            prev_comm: [0; 16],
            others: 0,
            reserved: 0,
        };
        self.add(EventTypeId::SWITCH_IN, (pid, tid, name), came.as_bytes())?;
        let left = SwitchOutData {
            next_pid: 0,
            next_tid: 0,
            next_comm: [0; 16],
            state: 1,
            preempted: 0,
            waits_in: 0,
            syscall: 0,
            ran_ns: 50_000,
        };
        self.add(EventTypeId::SWITCH_OUT, (pid, tid, name), left.as_bytes())?;
        Ok(tid)
    }

    fn add(&mut self, id: EventTypeId, of: (i32, i32, &str), data: &[u8]) -> anyhow::Result<()> {
        self.now += 50_000;
        let header = EventHeader {
            time: MonotonicNs(START_NS + self.now),
            event_type: id,
            pid: of.0,
            tid: of.1,
            cpu: Some(0),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let types = EventTypes::default();
        let name = of.2.as_bytes();
        Ok(self.writer.append(&header, data, name, &types)?)
    }
}

fn comm(name: &str) -> [u8; COMM_BYTES] {
    let mut comm = [0; COMM_BYTES];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}
