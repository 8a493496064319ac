//! A log with stacks of a program that does not exist: the log itself names their functions.

use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    MAPPING_PATH_BYTES, MappingData, SYMBOL_NAME_BYTES, SampleData, StackData, SymbolData,
    SyscallEnterData, SyscallExitData,
};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{EventTypes, Ledger};
use tracer_log::{FinalStatus, LogWriter};
use zerocopy::IntoBytes as _;

use crate::made::{self, START_NS};

/// Time that each sample counts for, in nanoseconds.
pub const SAMPLED_NS: u64 = 1_000_000;

/// Samples: when each was taken, in nanoseconds from the start of the log, and its stack, the
/// innermost function first.
pub const SAMPLES: [(u64, &[&str]); 3] = [
    (1_000, &["do_work", "inner", "outer"]),
    (2_000, &["do_work", "inner", "outer"]),
    (3_000, &["outer"]),
];

/// The stack with which a system call began, and when.
pub const CALL: (u64, &[&str]) = (4_000, &["do_work", "outer"]);

/// File of the program, which does not exist.
pub const PROGRAM: &str = "/gone/server";
/// Build identifier of [`PROGRAM`].
pub const BUILD_ID: [u8; 20] = [0xb1; 20];

/// The functions, with their addresses, and whether they are the kernel's.
const FUNCTIONS: [(&str, u64, bool); 3] = [
    ("do_work", 0xffff_ffff_8100_0010, true),
    ("inner", 0x40_0100, false),
    ("outer", 0x40_0200, false),
];

/// Writes the log.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path) -> anyhow::Result<()> {
    let mut log = Made {
        writer: made::log(path, "stacks")?,
        types: EventTypes::default(),
    };
    let mut mapping = MappingData {
        start: 0x40_0000,
        end: 0x50_0000,
        file_offset: 0x1000,
        build_id: BUILD_ID,
        build_id_bytes: 20,
        path: [0; MAPPING_PATH_BYTES],
    };
    fill(&mut mapping.path, PROGRAM);
    log.event(500, EventTypeId::MAPPING, 7, mapping.as_bytes())?;
    for (at, functions) in SAMPLES {
        log.stack(at, EventTypeId::SAMPLE, functions)?;
        let sample = SampleData {
            sampled_ns: SAMPLED_NS,
        };
        log.event(at, EventTypeId::SAMPLE, 7, sample.as_bytes())?;
    }
    let (at, functions) = CALL;
    log.stack(at, EventTypeId::SYSCALL_ENTER, functions)?;
    let nr = i32::try_from(libc::SYS_read)?;
    let call = SyscallEnterData {
        number: nr,
        compat: 0,
        args: [0; 6],
    };
    log.event(at, EventTypeId::SYSCALL_ENTER, 7, call.as_bytes())?;
    let left = SyscallExitData {
        number: nr,
        compat: 0,
        ret: 0,
    };
    log.event(at + 500, EventTypeId::SYSCALL_EXIT, 7, left.as_bytes())?;
    for (name, address, is_kernel) in FUNCTIONS {
        let mut symbol = SymbolData {
            address,
            offset: 0x10,
            name: [0; SYMBOL_NAME_BYTES],
        };
        fill(&mut symbol.name, name);
        let pid = if is_kernel { 0 } else { 7 };
        log.event(at + 600, EventTypeId::SYMBOL, pid, symbol.as_bytes())?;
    }
    let Made { mut writer, types } = log;
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

fn fill(to: &mut [u8], text: &str) {
    for (to, from) in to.iter_mut().zip(text.bytes()) {
        *to = from;
    }
}

struct Made {
    writer: LogWriter,
    types: EventTypes,
}

impl Made {
    fn stack(
        &mut self,
        at: u64,
        event_type: EventTypeId,
        functions: &[&str],
    ) -> anyhow::Result<()> {
        let of = |is_kernels: bool| {
            let known = functions.iter().filter_map(move |name| {
                let found = FUNCTIONS.iter().find(|(known, ..)| known == name);
                found.filter(|(.., is_kernel)| *is_kernel == is_kernels)
            });
            known.map(|(_, address, _)| *address).collect::<Vec<u64>>()
        };
        let (kernel, user) = (of(true), of(false));
        let head = StackData {
            event_type: event_type.0,
            kernel_frames: u16::try_from(kernel.len())?,
            user_frames: u16::try_from(user.len())?,
            off_cpu_ns: 0,
            sampled_ns: 0,
            woken_tid: 0,
            ends: 0,
        };
        let data = [head.as_bytes(), kernel.as_bytes(), user.as_bytes()].concat();
        self.event(at, EventTypeId::STACK, 7, &data)
    }

    fn event(
        &mut self,
        at: u64,
        event_type: EventTypeId,
        pid: i32,
        data: &[u8],
    ) -> anyhow::Result<()> {
        let header = EventHeader {
            time: MonotonicNs(START_NS + at),
            event_type,
            pid,
            tid: pid,
            cpu: Some(1),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        Ok(self.writer.append(&header, data, b"server", &self.types)?)
    }
}
