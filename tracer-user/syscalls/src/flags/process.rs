//! Processes, their resources and rights, options of `prctl`, and signals.

use super::{Constant, NONE, Values, constants};

pub const CLONE: Values = Values {
    mask: 0xff,
    flags: constants!(
        CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PIDFD CLONE_PTRACE CLONE_VFORK
        CLONE_PARENT CLONE_THREAD CLONE_NEWNS CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID
        CLONE_CHILD_CLEARTID CLONE_DETACHED CLONE_UNTRACED CLONE_CHILD_SETTID CLONE_NEWCGROUP
        CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID CLONE_NEWNET CLONE_IO
    ),
    is_value_last: true,
    is_signal: true,
    ..NONE
};

pub const NAMESPACES: Values = Values {
    flags: CLONE.flags,
    ..NONE
};

pub const RESOURCE: Values = Values {
    mask: u32::MAX,
    values: constants!(
        RLIMIT_CPU RLIMIT_FSIZE RLIMIT_DATA RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS RLIMIT_NPROC
        RLIMIT_NOFILE RLIMIT_MEMLOCK RLIMIT_AS RLIMIT_LOCKS RLIMIT_SIGPENDING RLIMIT_MSGQUEUE
        RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME
    ),
    zero: "RLIMIT_CPU",
    ..NONE
};

pub const USAGE: Values = Values {
    mask: u32::MAX,
    values: constants!(RUSAGE_SELF RUSAGE_CHILDREN RUSAGE_THREAD),
    zero: "RUSAGE_SELF",
    ..NONE
};

pub const WAIT: Values = Values {
    flags: constants!(WNOHANG WSTOPPED WEXITED WCONTINUED WNOWAIT __WNOTHREAD __WALL __WCLONE),
    ..NONE
};

pub const POLICY: Values = Values {
    mask: 0xff,
    values: constants!(SCHED_OTHER SCHED_FIFO SCHED_RR SCHED_BATCH SCHED_IDLE SCHED_DEADLINE),
    zero: "SCHED_OTHER",
    ..NONE
};

pub const ID_TYPE: Values = Values {
    mask: u32::MAX,
    values: constants!(P_ALL P_PID P_PGID P_PIDFD),
    zero: "P_ALL",
    ..NONE
};

pub const PRIORITY_OF: Values = Values {
    mask: u32::MAX,
    values: constants!(PRIO_PROCESS PRIO_PGRP PRIO_USER),
    zero: "PRIO_PROCESS",
    ..NONE
};

pub const RULESET: Values = Values {
    flags: &[("LANDLOCK_CREATE_RULESET_VERSION", 1)],
    ..NONE
};

pub const SECCOMP: Values = Values {
    mask: u32::MAX,
    values: &[
        ("SECCOMP_SET_MODE_STRICT", 0),
        ("SECCOMP_SET_MODE_FILTER", 1),
        ("SECCOMP_GET_ACTION_AVAIL", 2),
        ("SECCOMP_GET_NOTIF_SIZES", 3),
    ],
    zero: "SECCOMP_SET_MODE_STRICT",
    ..NONE
};

pub const SECCOMP_FLAGS: Values = Values {
    flags: &[
        ("SECCOMP_FILTER_FLAG_TSYNC", 1),
        ("SECCOMP_FILTER_FLAG_LOG", 2),
        ("SECCOMP_FILTER_FLAG_SPEC_ALLOW", 4),
        ("SECCOMP_FILTER_FLAG_NEW_LISTENER", 8),
        ("SECCOMP_FILTER_FLAG_TSYNC_ESRCH", 0x10),
        ("SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", 0x20),
    ],
    ..NONE
};

/// Flags of `clone3`, by their names in `clone`.
pub const CLONE_FLAGS: &[(&str, u64)] = &{
    let mut flags = [("", 0_u64); CLONE.flags.len()];
    let mut nth = 0;
    while nth < flags.len() {
        #[expect(clippy::indexing_slicing, reason = "the compiler makes it")]
        {
            flags[nth] = (CLONE.flags[nth].0, CLONE.flags[nth].1 as u64);
        }
        nth += 1;
    }
    flags
};

/// Capabilities, by their bits in the sets.
pub const CAPABILITIES: &[&str] = &[
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

pub const ARCH_OPTIONS: &[Constant] = &[
    ("ARCH_SET_GS", 0x1001),
    ("ARCH_SET_FS", 0x1002),
    ("ARCH_GET_FS", 0x1003),
    ("ARCH_GET_GS", 0x1004),
];

pub const SIGNAL_FD: Values = Values {
    flags: constants!(SFD_CLOEXEC SFD_NONBLOCK),
    ..NONE
};

pub const MASK_HOW: Values = Values {
    mask: u32::MAX,
    values: constants!(SIG_BLOCK SIG_UNBLOCK SIG_SETMASK),
    zero: "SIG_BLOCK",
    ..NONE
};

pub const PROCESS_CONTROL: Values = Values {
    mask: u32::MAX,
    values: constants!(
        PR_SET_PDEATHSIG PR_GET_PDEATHSIG PR_GET_DUMPABLE PR_SET_DUMPABLE PR_SET_KEEPCAPS
        PR_SET_NAME PR_GET_NAME PR_GET_SECCOMP PR_SET_SECCOMP PR_CAPBSET_READ PR_CAPBSET_DROP
        PR_SET_TIMERSLACK PR_GET_TIMERSLACK PR_SET_MM PR_SET_CHILD_SUBREAPER PR_SET_NO_NEW_PRIVS
        PR_GET_NO_NEW_PRIVS PR_SET_PTRACER PR_CAP_AMBIENT PR_SET_VMA PR_GET_SECUREBITS
        PR_SET_SECUREBITS PR_GET_TIMING PR_SET_TIMING PR_GET_KEEPCAPS PR_GET_CHILD_SUBREAPER
        PR_SET_THP_DISABLE PR_GET_THP_DISABLE PR_GET_TSC PR_SET_TSC PR_GET_TID_ADDRESS
        PR_TASK_PERF_EVENTS_DISABLE PR_TASK_PERF_EVENTS_ENABLE PR_MCE_KILL PR_MCE_KILL_GET
        PR_MPX_ENABLE_MANAGEMENT PR_MPX_DISABLE_MANAGEMENT PR_SET_FP_MODE PR_GET_FP_MODE
        PR_GET_UNALIGN PR_SET_UNALIGN PR_GET_FPEMU PR_SET_FPEMU PR_GET_FPEXC PR_SET_FPEXC
        PR_GET_ENDIAN PR_SET_ENDIAN PR_SCHED_CORE PR_SET_MDWE PR_GET_MDWE PR_SET_MEMORY_MERGE
        PR_GET_MEMORY_MERGE
    ),
    ..NONE
};

/// When a process is killed of whose memory the hardware says that it is damaged.
pub const POISONED: &[Constant] =
    constants!(PR_MCE_KILL_LATE PR_MCE_KILL_EARLY PR_MCE_KILL_DEFAULT);

pub const AMBIENT: &[Constant] = constants!(
    PR_CAP_AMBIENT_IS_SET PR_CAP_AMBIENT_RAISE PR_CAP_AMBIENT_LOWER PR_CAP_AMBIENT_CLEAR_ALL
);
