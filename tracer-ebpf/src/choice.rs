//! Processes that are chosen by what they are: by name, or by control group.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_log_ebpf::debug;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{
    COMM_BYTES, Choice, NAME_RECORD, Record, RecordHeader, RenameData, traced,
};

use crate::context::Tracepoint;
use crate::maps;
use crate::offsets::{
    CGROUP_ANCESTOR_IDS, CGROUP_ANCESTORS, CGROUP_LEVEL, CGROUP_NODE, CHOOSES, NODE_ID,
};
use crate::pid::Pid;
use crate::record::{Wake, record_if_it_fits};
use crate::subject::Subject;
use crate::task::{Address, Task, field};

/// Groups are looked for so deep, from the outermost.
const DEPTH: u32 = 24;

/// Returns the [`traced`] bits of a process that is chosen for its name, `comm`, or for the control
/// group of `task`; 0 for one that is not, or that the agent has no pid for.
#[inline(always)]
pub fn bits<C: Tracepoint>(task: &Task<C>, comm: [u8; COMM_BYTES]) -> u8 {
    if CHOOSES.load() == 0 || !task.pid().is_visible() {
        return 0;
    }
    let Some(choice) = maps::choice() else {
        return 0;
    };
    if is_named(choice, comm) || choice.cgroup != 0 && is_in_group(task, choice.cgroup) {
        #[expect(clippy::cast_possible_truncation, reason = "bits of a byte")]
        let bits = choice.bits as u8;
        bits
    } else {
        0
    }
}

/// Returns the [`traced`] bits of a process that is chosen because it has come into the agent's pid
/// namespace, as a command does that is started in a container; 0 for any other. Those that are
/// made in it have their parent's.
#[inline(always)]
pub fn bits_of_newcomer(parent: Pid, child: Pid) -> u8 {
    if CHOOSES.load() == 0 || parent.is_visible() || !child.is_visible() {
        return 0;
    }
    match maps::choice() {
        #[expect(clippy::cast_possible_truncation, reason = "bits of a byte")]
        Some(choice) if choice.newcomers != 0 => choice.bits as u8,
        _ => 0,
    }
}

/// Tells whether `comm` is a chosen name. What follows the null does not count: before 6.1 it is
/// left from an earlier name.
#[inline(always)]
fn is_named(choice: &Choice, comm: [u8; COMM_BYTES]) -> bool {
    if choice.end == 0 || comm[0] == 0 {
        return false;
    }
    // Bit n: the bytes so far may be those of the first n positions.
    let mut reached = 1;
    for byte in comm {
        if byte == 0 {
            break;
        }
        // By a table, and not by comparing: each comparison is a branch, and the verifier follows
        // all.
        let fits = choice.fits[usize::from(byte)];
        reached = (reached & fits) << 1 | reached & choice.stars;
    }
    reached & choice.end != 0
}

/// Notes that a process was moved to another control group: it is traced from now on, or no longer.
/// Nothing where processes are not chosen by their groups.
#[inline(always)]
pub fn moved<C: Tracepoint>(ctx: &C, task: &Task<C>) {
    if CHOOSES.load() == 0 || maps::choice().is_none_or(|choice| choice.cgroup == 0) {
        return;
    }
    // Of which hierarchy the group is does not matter: it is looked up in the task.
    let bits = bits(task, [0; COMM_BYTES]);
    let pid = task.pid();
    let state = maps::traced(pid);
    let is_traced = state & traced::TRACED != 0;
    if is_traced != (bits != 0) {
        maps::set_traced(pid, state & traced::DYING | bits);
        if !is_traced {
            say_name(task);
        }
        debug!(ctx, "process {} was moved: traced {}", pid.0, bits);
    }
}

/// Records what a thread is called that is traced from now on: its program may be gone before the
/// agent can ask. Where there is no space, its events have no name.
#[inline(always)]
pub fn say_name<C: Tracepoint>(task: &Task<C>) {
    record_if_it_fits(task, EventTypeId::RENAME, Wake::InTime, |record, header| {
        record.write(Record {
            header: RecordHeader {
                event_type: NAME_RECORD,
                ..header
            },
            data: RenameData { comm: task.comm() },
        });
    });
}

/// Tells whether the task is in the group with identifier `id`, or in one within it.
#[inline(always)]
fn is_in_group<C: Tracepoint>(task: &Task<C>, id: u64) -> bool {
    let group = task.control_group();
    // SAFETY: it is a `struct cgroup *`, and `level` an int of it.
    let level: u32 = unsafe { field::<C, _>(group.0, CGROUP_LEVEL.load()) };
    for depth in 0..DEPTH {
        if depth > level {
            break;
        }
        if ancestor(group, depth) == id {
            return true;
        }
    }
    false
}

/// Returns the number of the group in which `group` is at this depth.
#[inline(always)]
fn ancestor(group: Address, depth: u32) -> u64 {
    let step = depth as usize * 8;
    if CGROUP_ANCESTORS.load() == NO_OFFSET {
        return read(group, CGROUP_ANCESTOR_IDS.load(), step);
    }
    // The helper and not a load, because the verifier allows no computed offset.
    let ancestor = Address(read(group, CGROUP_ANCESTORS.load(), step) as *const u8);
    let node = Address(read(ancestor, CGROUP_NODE.load(), 0) as *const u8);
    read(node, NODE_ID.load(), 0)
}

/// Reads the 64 bits `step` bytes into the field at `offset`.
#[inline(always)]
fn read(base: Address, offset: u32, step: usize) -> u64 {
    if offset == NO_OFFSET {
        return 0;
    }
    let at = base.0.wrapping_add(offset as usize + step);
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(at.cast::<u64>()) }.unwrap_or(0)
}
