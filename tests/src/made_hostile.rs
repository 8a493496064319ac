//! A log of threads that work for each other. Their names and data would be markup in a web page.

use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    COMM_BYTES, SwitchInData, SwitchOutData, SyscallEnterData, SyscallExitData, WakeupData,
    waits_in,
};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};
use tracer_log::{FinalStatus, LogWriter};
use zerocopy::IntoBytes as _;

use crate::made::{self, START_NS};

/// A thread: its process, itself, and its name.
type Named = (i32, i32, &'static [u8]);

const ASKER: Named = (100, 100, b"</script>");
const WORKER: Named = (100, 101, b"<script>");
/// Other threads: their names reverse the direction of text, close quotes, and end lines.
const OTHERS: [Named; 3] = [
    (100, 102, "\u{202e}txt.exe".as_bytes()),
    (200, 200, b"\"'><img src=x>"),
    (200, 201, b"a\nb\x1b[2J"),
];

/// Name of a user event, which would be markup.
pub const EVENT: &str = "<img src=x onerror=alert(1)>";

/// Data of [`EVENT`].
pub const DATA: &str = "</script><script>alert(2)</script>\"'&amp;";

/// Requests, of about half a millisecond each.
pub const REQUESTS: u64 = 200;

/// Depth of the nested spans that one request in fifty has.
pub const DEEP: u64 = 20;

/// Writes the log.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path) -> anyhow::Result<()> {
    write_called(path, |of| of.2)
}

/// Names of the threads: as [`write()`] writes them, and as [`write_harmless`] does.
pub const NAMES: [(&[u8], &[u8]); 5] = [
    (ASKER.2, b"asker"),
    (WORKER.2, b"worker"),
    (OTHERS[0].2, b"other"),
    (OTHERS[1].2, b"second"),
    (OTHERS[2].2, b"third"),
];

/// Writes the log with plain names of threads, which no reader takes for markup.
///
/// # Errors
///
/// It cannot be written.
pub fn write_harmless(path: &Path) -> anyhow::Result<()> {
    write_called(path, |of| {
        let known = NAMES.iter().find(|(name, _)| *name == of.2);
        known.map_or(of.2, |(_, harmless)| harmless)
    })
}

fn write_called(path: &Path, name: fn(Named) -> &'static [u8]) -> anyhow::Result<()> {
    let mut log = Made {
        name,
        writer: made::log(path, "<b>hostile</b>")?,
        types: EventTypes::default(),
        now: 0,
        came: 0,
    };
    for request in 0..REQUESTS {
        log.request(request)?;
    }
    let (types, mut writer) = (log.types, log.writer);
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

struct Made {
    name: fn(Named) -> &'static [u8],
    writer: LogWriter,
    types: EventTypes,
    now: u64,
    /// Time at which the thread that has the CPU got it.
    came: u64,
}

impl Made {
    /// Adds a request: the asker wakes the worker, waits for it, and is woken by it.
    fn request(&mut self, request: u64) -> anyhow::Result<()> {
        // Makes the times uneven: they are no multiples of anything.
        let some = |most: u64| (request * 7_919 + 13) % most;
        self.after(1_000 + some(997), ASKER, "request begin", &[])?;
        let depth = if request % 50 == 7 { DEEP } else { 0 };
        for level in 0..depth {
            self.after(101, ASKER, &format!("level{level} begin"), b"")?;
        }
        for level in (0..depth).rev() {
            self.after(103, ASKER, &format!("level{level} end"), b"")?;
        }
        self.wake(5_000 + some(313), WORKER, ASKER)?;
        let nr = i32::try_from(libc::SYS_futex)?;
        let call = SyscallEnterData {
            number: nr,
            compat: 0,
            args: [0x7ffd_0010, 0x80, 0, 0, 0, 0],
        };
        self.add(900, EventTypeId::SYSCALL_ENTER, ASKER, call.as_bytes())?;
        self.switch(1_100, ASKER, WORKER)?;
        self.after(20_000 + some(10_007), WORKER, EVENT, DATA.as_bytes())?;
        self.wake(300_000 + some(99_991), ASKER, WORKER)?;
        let other = OTHERS[usize::try_from(request % 3)?];
        self.wake(700, other, WORKER)?;
        self.switch(2_000, WORKER, other)?;
        self.switch(9_000 + some(501), other, ASKER)?;
        let call = SyscallExitData {
            number: nr,
            compat: 0,
            ret: 0,
        };
        self.add(800, EventTypeId::SYSCALL_EXIT, ASKER, call.as_bytes())?;
        self.after(50_000 + some(20_011), ASKER, "request end", &[])
    }

    /// Adds a switch: one thread leaves the CPU to another, and is blocked.
    fn switch(&mut self, ns: u64, from: Named, to: Named) -> anyhow::Result<()> {
        let left = SwitchOutData {
            next_pid: from_signed(to.0),
            next_tid: from_signed(to.1),
            next_comm: self.comm(to),
            state: 1,
            preempted: 0,
            waits_in: waits_in::SYSCALL,
            syscall: u16::try_from(libc::SYS_futex)?,
            ran_ns: self.now + ns - self.came,
        };
        self.add(ns, EventTypeId::SWITCH_OUT, from, left.as_bytes())?;
        self.came = self.now;
        let came = SwitchInData {
            prev_pid: from_signed(from.0),
            prev_tid: from_signed(from.1),
            prev_comm: self.comm(from),
            others: 0,
            reserved: 0,
        };
        self.add(0, EventTypeId::SWITCH_IN, to, came.as_bytes())
    }

    fn wake(&mut self, ns: u64, woken: Named, by: Named) -> anyhow::Result<()> {
        let wakeup = WakeupData {
            target_cpu: 0,
            new_thread: 0,
            waker_pid: from_signed(by.0),
            waker_tid: from_signed(by.1),
            waker_comm: self.comm(by),
            waker_context: 1,
            reserved: 0,
        };
        self.add(ns, EventTypeId::WAKEUP, woken, wakeup.as_bytes())
    }

    /// Adds a user event, this long after the one before.
    fn after(&mut self, ns: u64, of: Named, name: &str, data: &[u8]) -> anyhow::Result<()> {
        let id = self.types.define_user(name.as_bytes(), None);
        self.add(ns, id, of, data)
    }

    /// Adds an event, this long after the one before.
    fn add(
        &mut self,
        ns: u64,
        event_type: EventTypeId,
        of: Named,
        data: &[u8],
    ) -> anyhow::Result<()> {
        self.now += ns;
        let header = EventHeader {
            time: MonotonicNs(START_NS + self.now),
            event_type,
            pid: of.0,
            tid: of.1,
            cpu: Some(0),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        Ok(self
            .writer
            .append(&header, data, (self.name)(of), &self.types)?)
    }

    fn comm(&self, of: Named) -> [u8; COMM_BYTES] {
        let mut comm = [0; COMM_BYTES];
        for (to, from) in comm.iter_mut().zip((self.name)(of)) {
            *to = *from;
        }
        comm
    }
}

fn from_signed(id: i32) -> u32 {
    u32::try_from(id).unwrap_or_default()
}
