//! Offsets of the fields that the eBPF programs read, and the arguments of tracepoints.

use tracer_common::kernel::globals::{
    NO_CALL, NO_OFFSET, SWITCH_STATE_LAST, SWITCH_STATE_SECOND, SWITCH_WITHOUT_STATE,
};

use super::machine;
use super::reader::{Btf, ParameterKind};
use tracer_syscalls::names::{Table, syscall_number};

/// The value of one read-only global of the eBPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its name in the object.
    pub name: &'static str,
    /// Its value on this kernel.
    pub value: u32,
}

/// Field that programs read.
#[derive(Clone, Copy)]
struct Field {
    global: &'static str,
    of: &'static str,
    /// Ways to the field, that of the newest kernel first: kernels have renamed and moved fields,
    /// and each kind of machine has its own registers.
    ways: &'static [Way],
    need: Need,
}

/// Way to a field.
#[derive(Clone, Copy)]
struct Way {
    /// Path: the member, a member of that, and so on.
    path: &'static [&'static str],
    /// Bytes from the beginning of the last member, where that is an array.
    plus: u32,
}

/// Consequence of a missing field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Required field: without it, nothing can be traced.
    Required,
    /// Wanted field: without it, something is recorded as 0.
    Wanted,
    /// Field of some machines: not every machine has it.
    OfSomeMachines,
}

const fn way(path: &'static [&'static str]) -> Way {
    Way { path, plus: 0 }
}

/// Returns the way to register `index` of a machine that has its registers in an array.
const fn register(array: &'static [&'static str], index: u32) -> Way {
    Way {
        path: array,
        plus: index * 8,
    }
}

const fn required(global: &'static str, of: &'static str, ways: &'static [Way]) -> Field {
    Field {
        global,
        of,
        ways,
        need: Need::Required,
    }
}

const fn wanted(global: &'static str, of: &'static str, ways: &'static [Way]) -> Field {
    Field {
        need: Need::Wanted,
        ..required(global, of, ways)
    }
}

const fn need_on_some(global: &'static str, of: &'static str, ways: &'static [Way]) -> Field {
    Field {
        need: Need::OfSomeMachines,
        ..required(global, of, ways)
    }
}

const FIELDS: &[Field] = &[
    required("TASK_PID", "task_struct", &[way(&["pid"])]),
    required("TASK_TGID", "task_struct", &[way(&["tgid"])]),
    required("TASK_COMM", "task_struct", &[way(&["comm"])]),
    // Renamed in 5.14.
    wanted(
        "TASK_STATE",
        "task_struct",
        &[way(&["__state"]), way(&["state"])],
    ),
    wanted("TASK_ON_CPU", "task_struct", &[way(&["on_cpu"])]),
    wanted("TASK_EXIT_CODE", "task_struct", &[way(&["exit_code"])]),
    required("TASK_SIGNAL", "task_struct", &[way(&["signal"])]),
    // x86-64, Arm 64.
    need_on_some(
        "TASK_THREAD_POINTER",
        "task_struct",
        &[
            way(&["thread", "fsbase"]),
            way(&["thread", "uw", "tp_value"]),
        ],
    ),
    // Moved in 5.16.
    wanted(
        "TASK_CPU",
        "task_struct",
        &[way(&["thread_info", "cpu"]), way(&["cpu"])],
    ),
    // With CONFIG_UPROBES.
    need_on_some("TASK_UTASK", "task_struct", &[way(&["utask"])]),
    need_on_some("UTASK_DEPTH", "uprobe_task", &[way(&["depth"])]),
    wanted("TASK_FLAGS", "task_struct", &[way(&["flags"])]),
    // With CONFIG_FAIR_GROUP_SCHED: the way to the run queue of the task's CPU.
    need_on_some("TASK_FAIR_QUEUE", "task_struct", &[way(&["se", "cfs_rq"])]),
    need_on_some("FAIR_QUEUE_RUN_QUEUE", "cfs_rq", &[way(&["rq"])]),
    wanted("RUN_QUEUE_SWITCHES", "rq", &[way(&["nr_switches"])]),
    // With CONFIG_CFS_BANDWIDTH. The programs read the first where there is one (since 6.18), else
    // the second.
    need_on_some("TASK_THROTTLED", "task_struct", &[way(&["throttled"])]),
    need_on_some(
        "FAIR_QUEUE_THROTTLED",
        "cfs_rq",
        &[way(&["throttle_count"])],
    ),
    // The priority says which of two threads is more urgent.
    wanted("TASK_PRIORITY", "task_struct", &[way(&["prio"])]),
    // With CONFIG_RT_GROUP_SCHED.
    need_on_some(
        "TASK_REAL_TIME_QUEUE",
        "task_struct",
        &[way(&["rt", "rt_rq"])],
    ),
    need_on_some(
        "REAL_TIME_QUEUE_THROTTLED",
        "rt_rq",
        &[way(&["rt_throttled"])],
    ),
    // These lead to the control group that has used up its CPU time.
    need_on_some("FAIR_QUEUE_GROUP", "cfs_rq", &[way(&["tg"])]),
    need_on_some("GROUP_CGROUP", "task_group", &[way(&["css", "cgroup"])]),
    need_on_some(
        "TASK_PARENT_ENTITY",
        "task_struct",
        &[way(&["se", "parent"])],
    ),
    need_on_some("ENTITY_PARENT", "sched_entity", &[way(&["parent"])]),
    need_on_some("ENTITY_QUEUE", "sched_entity", &[way(&["cfs_rq"])]),
    wanted("TASK_STACK", "task_struct", &[way(&["stack"])]),
    // The first is on machines that have no variable for it, the second on real-time kernels.
    need_on_some(
        "TASK_PREEMPT_COUNT",
        "task_struct",
        &[way(&["thread_info", "preempt_count"])],
    ),
    need_on_some(
        "TASK_SOFTIRQ_COUNT",
        "task_struct",
        &[way(&["softirq_disable_cnt"])],
    ),
    wanted(
        "TASK_FAULTS_OFF",
        "task_struct",
        &[way(&["pagefault_disabled"])],
    ),
    wanted("TASK_LEADER", "task_struct", &[way(&["group_leader"])]),
    wanted("TASK_THREAD_PID", "task_struct", &[way(&["thread_pid"])]),
    // x86-64, Arm 64.
    need_on_some(
        "TASK_STATUS",
        "task_struct",
        &[
            way(&["thread_info", "status"]),
            way(&["thread_info", "flags"]),
        ],
    ),
    wanted("TASK_CGROUPS", "task_struct", &[way(&["cgroups"])]),
    wanted("CGROUPS_DEFAULT", "css_set", &[way(&["dfl_cgrp"])]),
    wanted("CGROUP_LEVEL", "cgroup", &[way(&["level"])]),
    // A kernel has one of these: since 6.1 the first.
    need_on_some("CGROUP_ANCESTORS", "cgroup", &[way(&["ancestors"])]),
    need_on_some("CGROUP_ANCESTOR_IDS", "cgroup", &[way(&["ancestor_ids"])]),
    wanted("CGROUP_NODE", "cgroup", &[way(&["kn"])]),
    wanted("NODE_ID", "kernfs_node", &[way(&["id"])]),
    wanted("NODE_NAME", "kernfs_node", &[way(&["name"])]),
    // Renamed in 6.15.
    wanted(
        "NODE_PARENT",
        "kernfs_node",
        &[way(&["__parent"]), way(&["parent"])],
    ),
    wanted("PID_LEVEL", "pid", &[way(&["level"])]),
    wanted("PID_UPIDS", "pid", &[way(&["numbers"])]),
    wanted("UPID_NAMESPACE", "upid", &[way(&["ns"])]),
    wanted("NAMESPACE_INODE", "pid_namespace", &[way(&["ns", "inum"])]),
    required("SIGNAL_LIVE", "signal_struct", &[way(&["live"])]),
    // The credentials by which other processes judge the task: file systems change `cred` for the
    // time of a call.
    wanted("TASK_CRED", "task_struct", &[way(&["real_cred"])]),
    wanted("CRED_UID", "cred", &[way(&["uid"])]),
    wanted("CRED_EUID", "cred", &[way(&["euid"])]),
    wanted("CRED_SUID", "cred", &[way(&["suid"])]),
    wanted("CRED_GID", "cred", &[way(&["gid"])]),
    wanted("CRED_EGID", "cred", &[way(&["egid"])]),
    wanted("CRED_SGID", "cred", &[way(&["sgid"])]),
    wanted("CRED_PERMITTED", "cred", &[way(&["cap_permitted"])]),
    wanted("CRED_USER_NS", "cred", &[way(&["user_ns"])]),
    wanted("USER_NS_LEVEL", "user_namespace", &[way(&["level"])]),
    wanted("USER_NS_PARENT", "user_namespace", &[way(&["parent"])]),
    wanted("USER_NS_OWNER", "user_namespace", &[way(&["owner"])]),
    wanted("USER_NS_ID", "user_namespace", &[way(&["ns", "inum"])]),
    wanted("TASK_MM", "task_struct", &[way(&["mm"])]),
    wanted("MM_FLAGS", "mm_struct", &[way(&["flags"])]),
    wanted("MM_USER_NS", "mm_struct", &[way(&["user_ns"])]),
    wanted("MM_ARG_START", "mm_struct", &[way(&["arg_start"])]),
    wanted("MM_ARG_END", "mm_struct", &[way(&["arg_end"])]),
    wanted("BINPRM_FILENAME", "linux_binprm", &[way(&["filename"])]),
    // Here and below: x86-64, Arm 64, RISC-V 64.
    wanted(
        "REGS_IP",
        "pt_regs",
        &[way(&["ip"]), way(&["pc"]), way(&["epc"])],
    ),
    wanted("REGS_STACK", "pt_regs", &[way(&["sp"])]),
    wanted(
        "REGS_FRAME",
        "pt_regs",
        &[way(&["bp"]), register(&["regs"], 29)],
    ),
    wanted(
        "REGS_CALL",
        "pt_regs",
        &[way(&["orig_ax"]), way(&["syscallno"]), way(&["a7"])],
    ),
    wanted(
        "REGS_ARGUMENT_0",
        "pt_regs",
        &[way(&["di"]), way(&["orig_x0"]), way(&["orig_a0"])],
    ),
    wanted(
        "REGS_ARGUMENT_1",
        "pt_regs",
        &[way(&["si"]), register(&["regs"], 1), way(&["a1"])],
    ),
    wanted(
        "REGS_ARGUMENT_2",
        "pt_regs",
        &[way(&["dx"]), register(&["regs"], 2), way(&["a2"])],
    ),
    wanted(
        "REGS_ARGUMENT_3",
        "pt_regs",
        &[way(&["r10"]), register(&["regs"], 3), way(&["a3"])],
    ),
    wanted(
        "REGS_ARGUMENT_4",
        "pt_regs",
        &[way(&["r8"]), register(&["regs"], 4), way(&["a4"])],
    ),
    wanted(
        "REGS_ARGUMENT_5",
        "pt_regs",
        &[way(&["r9"]), register(&["regs"], 5), way(&["a5"])],
    ),
    need_on_some(
        "REGS_COMPAT_0",
        "pt_regs",
        &[way(&["bx"]), way(&["orig_x0"])],
    ),
    need_on_some(
        "REGS_COMPAT_1",
        "pt_regs",
        &[way(&["cx"]), register(&["regs"], 1)],
    ),
    need_on_some(
        "REGS_COMPAT_2",
        "pt_regs",
        &[way(&["dx"]), register(&["regs"], 2)],
    ),
    need_on_some(
        "REGS_COMPAT_3",
        "pt_regs",
        &[way(&["si"]), register(&["regs"], 3)],
    ),
    need_on_some(
        "REGS_COMPAT_4",
        "pt_regs",
        &[way(&["di"]), register(&["regs"], 4)],
    ),
    need_on_some(
        "REGS_COMPAT_5",
        "pt_regs",
        &[way(&["bp"]), register(&["regs"], 5)],
    ),
    wanted("SIGINFO_CODE", "kernel_siginfo", &[way(&["si_code"])]),
    wanted("SIGINFO_FIELDS", "kernel_siginfo", &[way(&["_sifields"])]),
    wanted(
        "SIGACTION_HANDLER",
        "k_sigaction",
        &[way(&["sa", "sa_handler"])],
    ),
    wanted(
        "SIGACTION_FLAGS",
        "k_sigaction",
        &[way(&["sa", "sa_flags"])],
    ),
    wanted("IRQACTION_NAME", "irqaction", &[way(&["name"])]),
    wanted("REQUEST_QUEUE", "request", &[way(&["q"])]),
    wanted("REQUEST_FLAGS", "request", &[way(&["cmd_flags"])]),
    wanted("REQUEST_BYTES", "request", &[way(&["__data_len"])]),
    wanted("REQUEST_SECTOR", "request", &[way(&["__sector"])]),
    wanted("REQUEST_BIO", "request", &[way(&["bio"])]),
    // Since 5.14.
    wanted("QUEUE_DISK", "request_queue", &[way(&["disk"])]),
    wanted("DISK_MAJOR", "gendisk", &[way(&["major"])]),
    wanted("DISK_MINOR", "gendisk", &[way(&["first_minor"])]),
    // These are read to describe descriptors.
    wanted("TASK_FILES", "task_struct", &[way(&["files"])]),
    wanted("FILES_TABLE", "files_struct", &[way(&["fdt"])]),
    wanted("TABLE_SIZE", "fdtable", &[way(&["max_fds"])]),
    wanted("TABLE_FILES", "fdtable", &[way(&["fd"])]),
    wanted("FILE_MOUNT", "file", &[way(&["f_path", "mnt"])]),
    wanted("FILE_DENTRY", "file", &[way(&["f_path", "dentry"])]),
    wanted("FILE_INODE", "file", &[way(&["f_inode"])]),
    wanted("FILE_PRIVATE", "file", &[way(&["private_data"])]),
    wanted("TASK_FS", "task_struct", &[way(&["fs"])]),
    wanted("FS_FOLDER_MOUNT", "fs_struct", &[way(&["pwd", "mnt"])]),
    wanted("FS_FOLDER_DENTRY", "fs_struct", &[way(&["pwd", "dentry"])]),
    wanted("DENTRY_SEQUENCE", "dentry", &[way(&["d_seq"])]),
    wanted("DENTRY_HASHED", "dentry", &[way(&["d_hash", "pprev"])]),
    wanted("DENTRY_PARENT", "dentry", &[way(&["d_parent"])]),
    wanted("DENTRY_NAME", "dentry", &[way(&["d_name", "name"])]),
    wanted("DENTRY_OPERATIONS", "dentry", &[way(&["d_op"])]),
    wanted("OPERATIONS_NAME", "dentry_operations", &[way(&["d_dname"])]),
    wanted("INODE_NUMBER", "inode", &[way(&["i_ino"])]),
    wanted("INODE_SUPER", "inode", &[way(&["i_sb"])]),
    wanted("INODE_PRIVATE", "inode", &[way(&["i_private"])]),
    wanted("SUPER_MAGIC", "super_block", &[way(&["s_magic"])]),
    wanted("MOUNT_ROOT", "vfsmount", &[way(&["mnt_root"])]),
    wanted("MOUNT_MOUNT", "mount", &[way(&["mnt"])]),
    wanted("MOUNT_PARENT", "mount", &[way(&["mnt_parent"])]),
    wanted("MOUNT_POINT", "mount", &[way(&["mnt_mountpoint"])]),
    need_on_some("NS_OPERATIONS", "ns_common", &[way(&["ops"])]),
    need_on_some("NS_NAME", "proc_ns_operations", &[way(&["name"])]),
    wanted("SOCKET_SOCK", "socket", &[way(&["sk"])]),
    wanted("SOCKET_INODE", "socket_alloc", &[way(&["vfs_inode"])]),
    wanted(
        "SOCK_FAMILY",
        "sock",
        &[way(&["__sk_common", "skc_family"])],
    ),
    // Before 5.6 this is a bit field.
    need_on_some("SOCK_PROTOCOL", "sock", &[way(&["sk_protocol"])]),
    wanted("SOCK_SOCKET", "sock", &[way(&["sk_socket"])]),
    wanted(
        "SOCK_LOCAL_PORT",
        "sock",
        &[way(&["__sk_common", "skc_num"])],
    ),
    wanted(
        "SOCK_REMOTE_PORT",
        "sock",
        &[way(&["__sk_common", "skc_dport"])],
    ),
    wanted(
        "SOCK_LOCAL",
        "sock",
        &[way(&["__sk_common", "skc_rcv_saddr"])],
    ),
    wanted("SOCK_REMOTE", "sock", &[way(&["__sk_common", "skc_daddr"])]),
    // With CONFIG_IPV6.
    need_on_some(
        "SOCK_LOCAL_6",
        "sock",
        &[way(&["__sk_common", "skc_v6_rcv_saddr"])],
    ),
    need_on_some(
        "SOCK_REMOTE_6",
        "sock",
        &[way(&["__sk_common", "skc_v6_daddr"])],
    ),
    wanted("PACKET_DEVICE", "sk_buff", &[way(&["dev"])]),
    // These may be in modules.
    need_on_some("UNIX_PEER", "unix_sock", &[way(&["peer"])]),
    need_on_some("UNIX_ADDRESS", "unix_sock", &[way(&["addr"])]),
    need_on_some("UNIX_ADDRESS_BYTES", "unix_address", &[way(&["len"])]),
    need_on_some("UNIX_ADDRESS_NAME", "unix_address", &[way(&["name"])]),
    need_on_some("NETLINK_PORT", "netlink_sock", &[way(&["portid"])]),
];

/// Bits of an address to which a function returns. On arm64, signed addresses have their signature
/// above them.
const CODE_ADDRESS_BITS: u32 = if cfg!(target_arch = "aarch64") {
    48
} else {
    64
};

/// Offsets of the mask of blocked signals in the state that the kernel restores when a signal
/// handler ends: `ucontext::uc_sigmask` in the frame that is on the stack then. The last two are
/// those of i386, which has two kinds of frames.
const SIGNAL_MASKS: [(&str, u32); 3] = [
    (
        "SIGNAL_MASK_AT",
        if cfg!(target_arch = "x86_64") {
            296
        } else {
            // The `siginfo_t` before the `ucontext`, and the members of that before the mask.
            128 + 40
        },
    ),
    ("COMPAT_SIGNAL_MASK_AT", 248),
    ("COMPAT_OLD_MASK_AT", 80),
];

/// Field that this kernel's BTF lacks, and without which nothing can be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("struct {of} has no member {field}")]
pub struct FieldMissing {
    /// The struct.
    pub of: &'static str,
    /// The member.
    pub field: &'static str,
}

/// Returns the globals of the eBPF object for the kernel whose BTF this is.
///
/// # Errors
///
/// A required field is missing. Any other missing field is set to [`NO_OFFSET`], and what depends
/// on it is recorded as zero.
pub fn globals(btf: &Btf<'_>) -> Result<Vec<Global>, FieldMissing> {
    let mut globals = FIELDS
        .iter()
        .map(|field| {
            let found = offset(btf, field);
            if found.is_none() && field.need == Need::Required {
                return Err(FieldMissing {
                    of: field.of,
                    field: first_name(field),
                });
            }
            Ok(Global {
                name: field.global,
                value: found.unwrap_or(NO_OFFSET),
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let io_wait = btf.bit_field("task_struct", "in_iowait");
    globals.push(Global {
        name: "TASK_IO_WAIT",
        value: io_wait.map_or(NO_OFFSET, |bits| bits / 32 * 4),
    });
    globals.push(Global {
        name: "IO_WAIT_BIT",
        value: io_wait.map_or(0, |bits| bits % 32),
    });
    let throttled = btf.bit_field("sched_dl_entity", "dl_throttled");
    let deadline = btf.member_offset("task_struct", &["dl"]).zip(throttled);
    globals.push(Global {
        name: "TASK_DEADLINE_BITS",
        value: deadline.map_or(NO_OFFSET, |(entity, bits)| entity + bits / 32 * 4),
    });
    globals.push(Global {
        name: "DEADLINE_THROTTLED_BIT",
        value: deadline.map_or(0, |(_, bits)| bits % 32),
    });
    let (limited_at, limited_mask) = limited_bits(btf);
    globals.push(Global {
        name: "FAIR_QUEUE_LIMITED_BITS",
        value: limited_at,
    });
    globals.push(Global {
        name: "FAIR_QUEUE_LIMITED_MASK",
        value: limited_mask,
    });
    globals.push(Global {
        name: "SWITCH_ARGUMENTS",
        value: switch_arguments(btf.tracepoint_arguments("sched_switch").as_deref()),
    });
    globals.push(Global {
        name: "VICTIM_IS_TASK",
        value: u32::from(
            btf.tracepoint_arguments("mark_victim")
                .is_some_and(|arguments| arguments.first() == Some(&ParameterKind::Pointer)),
        ),
    });
    globals.push(Global {
        name: "HAS_TASK_PT_REGS",
        value: u32::from(btf.has_helper("bpf_task_pt_regs")),
    });
    globals.push(Global {
        name: "INTERRUPT_BITS",
        value: interrupt_bits(btf),
    });
    globals.push(Global {
        name: "CODE_ADDRESS_BITS",
        value: CODE_ADDRESS_BITS,
    });
    globals.push(Global {
        name: "EXIT_SAYS_LAST",
        value: u32::from(
            btf.tracepoint_arguments("sched_process_exit")
                .is_some_and(|arguments| arguments.len() >= 2),
        ),
    });
    globals.push(Global {
        name: "SEES_STARTS",
        value: u32::from(btf.tracepoint_arguments("block_io_start").is_some()),
    });
    globals.push(Global {
        name: "GETRQ_HAS_QUEUE",
        value: u32::from(
            btf.tracepoint_arguments("block_getrq")
                .is_some_and(|arguments| arguments.len() > 1),
        ),
    });
    for (name, value) in SIGNAL_MASKS {
        globals.push(Global { name, value });
    }
    globals.push(Global {
        name: "COMPAT_STATUS",
        value: machine::COMPAT_STATUS,
    });
    globals.push(Global {
        name: "THREAD_ID_BELOW",
        value: machine::thread_id_below(),
    });
    for (name, table, call) in [
        ("EXECVE", Table::Native, "execve"),
        ("COMPAT_EXECVE", Table::Compat, "execve"),
        ("FUTEX", Table::Native, "futex"),
        ("FUTEX_WAIT", Table::Native, "futex_wait"),
        ("SIGRETURN", Table::Native, "rt_sigreturn"),
        ("COMPAT_SIGRETURN", Table::Compat, "sigreturn"),
        ("COMPAT_RT_SIGRETURN", Table::Compat, "rt_sigreturn"),
        ("SOCKETCALL", Table::Compat, "socketcall"),
    ] {
        let value = syscall_number(table, call).unwrap_or(NO_CALL);
        globals.push(Global { name, value });
    }
    Ok(globals)
}

/// Returns the offset of the 32 bits that say whether the queue of a group is throttled, and the
/// mask of those that count: all of them (an int), or since 6.18 a single one.
fn limited_bits(btf: &Btf<'_>) -> (u32, u32) {
    if let Some(bits) = btf.bit_field("cfs_rq", "throttled") {
        return (bits / 32 * 4, 1 << (bits % 32));
    }
    let whole = btf.member_offset("cfs_rq", &["throttled"]);
    whole.map_or((NO_OFFSET, 0), |at| (at, u32::MAX))
}

/// Returns the bits of the kernel's preempt count that say that an interrupt other than a soft one
/// is being served, including one that cannot be masked. Kernels that also count how often
/// interrupts were disabled (seen in 7.3) have that count in the bits that other kernels have for
/// interrupts.
fn interrupt_bits(btf: &Btf<'_>) -> u32 {
    if btf.variable("local_interrupt_disable_state").is_some() {
        0x7f00_0000
    } else {
        0x00ff_0000
    }
}

/// Returns the fields that this kernel does not have, as `struct.member`.
#[must_use]
pub fn missing(btf: &Btf<'_>) -> Vec<String> {
    FIELDS
        .iter()
        .filter(|field| field.need != Need::OfSomeMachines && offset(btf, field).is_none())
        .map(|field| format!("{}.{}", field.of, first_name(field)))
        .collect()
}

/// Returns the member that a global is the offset of, as `struct.member`; `None` where it is no
/// offset.
#[must_use]
pub fn member(global: &str) -> Option<String> {
    let mut fields = FIELDS.iter();
    let field = fields.find(|field| field.global == global)?;
    Some(format!("{}.{}", field.of, first_name(field)))
}

fn offset(btf: &Btf<'_>, field: &Field) -> Option<u32> {
    field.ways.iter().find_map(|way| {
        let offset = btf.member_offset(field.of, way.path)?;
        offset.checked_add(way.plus)
    })
}

fn first_name(field: &Field) -> &'static str {
    let way = field.ways.first();
    way.and_then(|way| way.path.last())
        .copied()
        .unwrap_or_default()
}

/// Returns the form of the arguments of `sched_switch`. Prototypes carry no names, but the three
/// forms differ in the order of tasks (pointers) and integers.
fn switch_arguments(arguments: Option<&[ParameterKind]>) -> u32 {
    use ParameterKind::{Integer, Pointer};
    match arguments {
        Some([Integer, Pointer, Pointer, Integer, ..]) => SWITCH_STATE_LAST,
        Some([Integer, Integer, Pointer, Pointer, ..]) => SWITCH_STATE_SECOND,
        _ => SWITCH_WITHOUT_STATE,
    }
}

#[cfg(test)]
mod tests {
    use super::ParameterKind::{Integer, Pointer};
    use super::*;

    #[test]
    fn the_three_prototypes_of_sched_switch_are_distinguished() {
        let old = [Integer, Pointer, Pointer];
        let early_5_18 = [Integer, Integer, Pointer, Pointer];
        let new = [Integer, Pointer, Pointer, Integer];

        assert_eq!(switch_arguments(Some(&old)), SWITCH_WITHOUT_STATE);
        assert_eq!(switch_arguments(Some(&early_5_18)), SWITCH_STATE_SECOND);
        assert_eq!(switch_arguments(Some(&new)), SWITCH_STATE_LAST);
        assert_eq!(switch_arguments(None), SWITCH_WITHOUT_STATE);
    }

    #[test]
    fn the_running_kernel_has_what_is_required() {
        // Every kernel that can be developed on has BTF; where it is missing there is nothing
        // to compare with.
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return;
        };
        let btf = Btf::parse(&bytes).unwrap();

        assert_eq!(
            globals(&btf).map(|globals| globals.len()),
            Ok(FIELDS.len() + 27)
        );
    }
}
