//! Names of arguments of system calls that are flags, or one of several constants.
//!
//! The constants are those of the C library of the machine for which this is built.

#![expect(
    clippy::cast_sign_loss,
    reason = "the kernel takes 32 bits, of whatever type the C library has them"
)]

use std::borrow::Cow;

use crate::arguments::Call;
use crate::structs::io_command;
use tracer_text::signal_name;

/// A constant and its name.
type Constant = (&'static str, u32);

/// Values that an argument may have.
#[derive(Debug, PartialEq, Eq)]
pub struct Values {
    /// The bits that are one of `values`; the others are flags.
    mask: u32,
    values: &'static [Constant],
    /// Flags that consist of several bits, before those that are one of them.
    flags: &'static [Constant],
    /// Name of having no bit at all.
    zero: &'static str,
    /// Whether the value comes behind the flags.
    is_value_last: bool,
    /// Whether the value is a signal.
    is_signal: bool,
}

impl Values {
    /// Appends the names of these bits: those that are not known as they are.
    pub fn push(&self, out: &mut Vec<u8>, bits: u32) {
        if bits == 0 && !self.zero.is_empty() {
            out.extend_from_slice(self.zero.as_bytes());
            return;
        }
        let start = out.len();
        let separate = |out: &mut Vec<u8>| {
            if out.len() > start {
                out.push(b'|');
            }
        };
        let named = self.named(bits & self.mask);
        if !self.is_value_last
            && let Some(name) = &named
        {
            out.extend_from_slice(name.as_bytes());
        }
        let mut rest = match named {
            Some(_) => bits & !self.mask,
            None => bits,
        };
        for (name, flag) in self.flags {
            if *flag != 0 && rest & flag == *flag {
                rest &= !flag;
                separate(out);
                out.extend_from_slice(name.as_bytes());
            }
        }
        if rest != 0 || (out.len() == start && named.is_none()) {
            separate(out);
            out.extend_from_slice(format!("{rest:#x}").as_bytes());
        }
        if self.is_value_last
            && let Some(name) = &named
        {
            separate(out);
            out.extend_from_slice(name.as_bytes());
        }
    }

    /// Returns the name of the value.
    fn named(&self, value: u32) -> Option<Cow<'static, str>> {
        if self.is_signal {
            return (value != 0).then(|| any_signal(value));
        }
        let known = self.values.iter().find(|(_, known)| *known == value);
        known.map(|(name, _)| (*name).into())
    }
}

/// Returns the name of a signal, as strace has it: of one without a name of its own, by how far it
/// is behind the first of them.
#[must_use]
pub fn any_signal(signal: u32) -> Cow<'static, str> {
    match (signal_name(signal), signal) {
        (Some(name), _) => name.into(),
        (None, 32) => "SIGRTMIN".into(),
        (None, 33..=64) => format!("SIGRT_{}", signal - 32).into(),
        (None, _) => signal.to_string().into(),
    }
}

/// Returns the values that an argument of a call may have, where they are known.
#[must_use]
pub fn values(call: &str, argument: &str) -> Option<&'static Values> {
    let is_it = |(calls, name, _): &&(&str, &str, &Values)| {
        *name == argument && calls.split(' ').any(|known| known == call)
    };
    ARGUMENTS.iter().find(is_it).map(|(_, _, values)| *values)
}

/// The C library's constants, and 0 for those that this machine does not have.
mod machine {
    pub use libc::*;

    #[cfg(not(target_arch = "x86_64"))]
    pub const MAP_32BIT: c_int = 0;
}

/// Constants of the C library by their names.
macro_rules! constants {
    ($($name:ident)*) => {
        &[$((stringify!($name), {
            #[allow(clippy::cast_possible_truncation, reason = "commands are wider, with zeroes")]
            let value = machine::$name as u32;
            value
        })),*]
    };
}

const NONE: Values = Values {
    mask: 0,
    values: &[],
    flags: &[],
    zero: "0",
    is_value_last: false,
    is_signal: false,
};

const OPEN: Values = Values {
    mask: libc::O_ACCMODE as u32,
    values: constants!(O_RDONLY O_WRONLY O_RDWR),
    flags: STATUS_FLAGS.flags,
    zero: "O_RDONLY",
    ..NONE
};
const PIPE: Values = Values {
    flags: constants!(O_NONBLOCK O_DIRECT O_CLOEXEC),
    ..NONE
};
const PROTECTION: Values = Values {
    flags: constants!(PROT_READ PROT_WRITE PROT_EXEC PROT_GROWSDOWN PROT_GROWSUP),
    zero: "PROT_NONE",
    ..NONE
};
const MAPPING: Values = Values {
    mask: libc::MAP_TYPE as u32,
    values: constants!(MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE),
    flags: constants!(
        MAP_FIXED MAP_ANONYMOUS MAP_32BIT MAP_GROWSDOWN MAP_DENYWRITE MAP_EXECUTABLE MAP_LOCKED
        MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK MAP_STACK MAP_HUGETLB MAP_SYNC MAP_FIXED_NOREPLACE
    ),
    ..NONE
};
const REMAPPING: Values = Values {
    flags: constants!(MREMAP_MAYMOVE MREMAP_FIXED MREMAP_DONTUNMAP),
    ..NONE
};
const ADVICE: Values = Values {
    mask: u32::MAX,
    values: constants!(
        MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE MADV_REMOVE
        MADV_DONTFORK MADV_DOFORK MADV_MERGEABLE MADV_UNMERGEABLE MADV_HUGEPAGE MADV_NOHUGEPAGE
        MADV_DONTDUMP MADV_DODUMP MADV_WIPEONFORK MADV_KEEPONFORK MADV_COLD MADV_PAGEOUT
        MADV_POPULATE_READ MADV_POPULATE_WRITE
    ),
    zero: "MADV_NORMAL",
    ..NONE
};
const FILE_ADVICE: Values = Values {
    mask: u32::MAX,
    values: constants!(
        POSIX_FADV_NORMAL POSIX_FADV_RANDOM POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED
        POSIX_FADV_DONTNEED POSIX_FADV_NOREUSE
    ),
    zero: "POSIX_FADV_NORMAL",
    ..NONE
};
const MEMORY_SYNC: Values = Values {
    flags: constants!(MS_ASYNC MS_INVALIDATE MS_SYNC),
    ..NONE
};
const WHENCE: Values = Values {
    mask: u32::MAX,
    values: constants!(SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE),
    zero: "SEEK_SET",
    ..NONE
};
const ACCESS: Values = Values {
    flags: constants!(R_OK W_OK X_OK),
    zero: "F_OK",
    ..NONE
};
const AT: Values = Values {
    flags: constants!(AT_SYMLINK_NOFOLLOW AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH),
    ..NONE
};
const AT_ACCESS: Values = Values {
    flags: constants!(AT_SYMLINK_NOFOLLOW AT_EACCESS AT_EMPTY_PATH),
    ..NONE
};
const AT_UNLINK: Values = Values {
    flags: constants!(AT_REMOVEDIR),
    ..NONE
};
const STATX: Values = Values {
    mask: 0x6000,
    values: &[
        ("AT_STATX_SYNC_AS_STAT", 0),
        ("AT_STATX_FORCE_SYNC", 0x2000),
        ("AT_STATX_DONT_SYNC", 0x4000),
    ],
    flags: AT.flags,
    zero: "AT_STATX_SYNC_AS_STAT",
    ..NONE
};
const STATX_MASK: Values = Values {
    flags: constants!(
        STATX_ALL STATX_BASIC_STATS STATX_TYPE STATX_MODE STATX_NLINK STATX_UID STATX_GID
        STATX_ATIME STATX_MTIME STATX_CTIME STATX_INO STATX_SIZE STATX_BLOCKS STATX_BTIME
        STATX_MNT_ID
    ),
    ..NONE
};
const RENAME: Values = Values {
    flags: constants!(RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT),
    ..NONE
};
const FILE_CONTROL: Values = Values {
    mask: u32::MAX,
    values: constants!(
        F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN
        F_SETLEASE F_GETLEASE F_NOTIFY F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS
        F_GET_SEALS F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW
    ),
    zero: "F_DUPFD",
    ..NONE
};
/// Commands of `fcntl64` in 32-bit programs, which have more for long files.
const FILE_CONTROL_64: Values = Values {
    mask: u32::MAX,
    values: &{
        let mut values = [("", 0); FILE_CONTROL.values.len() + 3];
        let mut nth = 0;
        while nth < FILE_CONTROL.values.len() {
            #[expect(clippy::indexing_slicing, reason = "the compiler makes it")]
            {
                values[nth] = FILE_CONTROL.values[nth];
            }
            nth += 1;
        }
        #[expect(clippy::indexing_slicing, reason = "the compiler makes it")]
        {
            values[nth] = ("F_GETLK64", 12);
            values[nth + 1] = ("F_SETLK64", 13);
            values[nth + 2] = ("F_SETLKW64", 14);
        }
        values
    },
    zero: "F_DUPFD",
    ..NONE
};
const LOCK: Values = Values {
    flags: constants!(LOCK_SH LOCK_EX LOCK_NB LOCK_UN),
    ..NONE
};
const FALLOCATE: Values = Values {
    flags: constants!(
        FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_COLLAPSE_RANGE FALLOC_FL_ZERO_RANGE
        FALLOC_FL_INSERT_RANGE FALLOC_FL_UNSHARE_RANGE
    ),
    ..NONE
};
const FAMILY: Values = Values {
    mask: u32::MAX,
    values: constants!(
        AF_UNSPEC AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_BLUETOOTH AF_ALG AF_VSOCK AF_XDP
    ),
    zero: "AF_UNSPEC",
    ..NONE
};
const SOCKET_TYPE: Values = Values {
    mask: 0xf,
    values: constants!(SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_RDM SOCK_SEQPACKET),
    flags: constants!(SOCK_CLOEXEC SOCK_NONBLOCK),
    ..NONE
};
const SOCKET_FLAGS: Values = Values {
    flags: constants!(SOCK_CLOEXEC SOCK_NONBLOCK),
    ..NONE
};
const MESSAGE: Values = Values {
    flags: constants!(
        MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_CTRUNC MSG_TRUNC MSG_DONTWAIT MSG_EOR MSG_WAITALL
        MSG_CONFIRM MSG_ERRQUEUE MSG_NOSIGNAL MSG_MORE MSG_WAITFORONE MSG_FASTOPEN
        MSG_CMSG_CLOEXEC
    ),
    ..NONE
};
const SHUTDOWN: Values = Values {
    mask: u32::MAX,
    values: constants!(SHUT_RD SHUT_WR SHUT_RDWR),
    zero: "SHUT_RD",
    ..NONE
};
const LEVEL: Values = Values {
    mask: u32::MAX,
    values: constants!(SOL_IP SOL_SOCKET SOL_TCP SOL_UDP SOL_IPV6 SOL_NETLINK SOL_PACKET),
    zero: "SOL_IP",
    ..NONE
};
/// Returns the name of the level of a socket's option.
#[must_use]
pub fn level_name(level: i32) -> Cow<'static, str> {
    named(LEVEL.values, level).unwrap_or_else(|| format!("{level:#x}").into())
}

const CLONE: Values = Values {
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
const NAMESPACES: Values = Values {
    flags: CLONE.flags,
    ..NONE
};
const FUTEX: Values = Values {
    mask: 0xff,
    values: &[
        ("FUTEX_WAIT", 0),
        ("FUTEX_WAKE", 1),
        ("FUTEX_REQUEUE", 3),
        ("FUTEX_CMP_REQUEUE", 4),
        ("FUTEX_WAKE_OP", 5),
        ("FUTEX_LOCK_PI", 6),
        ("FUTEX_UNLOCK_PI", 7),
        ("FUTEX_TRYLOCK_PI", 8),
        ("FUTEX_WAIT_BITSET", 9),
        ("FUTEX_WAKE_BITSET", 10),
        ("FUTEX_WAIT_REQUEUE_PI", 11),
        ("FUTEX_CMP_REQUEUE_PI", 12),
        ("FUTEX_WAIT_PRIVATE", 128),
        ("FUTEX_WAKE_PRIVATE", 129),
        ("FUTEX_REQUEUE_PRIVATE", 131),
        ("FUTEX_CMP_REQUEUE_PRIVATE", 132),
        ("FUTEX_WAKE_OP_PRIVATE", 133),
        ("FUTEX_LOCK_PI_PRIVATE", 134),
        ("FUTEX_UNLOCK_PI_PRIVATE", 135),
        ("FUTEX_TRYLOCK_PI_PRIVATE", 136),
        ("FUTEX_WAIT_BITSET_PRIVATE", 137),
        ("FUTEX_WAKE_BITSET_PRIVATE", 138),
        ("FUTEX_WAIT_REQUEUE_PI_PRIVATE", 139),
        ("FUTEX_CMP_REQUEUE_PI_PRIVATE", 140),
    ],
    flags: constants!(FUTEX_CLOCK_REALTIME),
    zero: "FUTEX_WAIT",
    ..NONE
};
const EPOLL: Values = Values {
    mask: u32::MAX,
    values: constants!(EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD),
    ..NONE
};
const EPOLL_FLAGS: Values = Values {
    flags: constants!(EPOLL_CLOEXEC),
    ..NONE
};
const EVENT_FD: Values = Values {
    flags: constants!(EFD_SEMAPHORE EFD_CLOEXEC EFD_NONBLOCK),
    ..NONE
};
const SIGNAL_FD: Values = Values {
    flags: constants!(SFD_CLOEXEC SFD_NONBLOCK),
    ..NONE
};
const TIMER_FD: Values = Values {
    flags: constants!(TFD_CLOEXEC TFD_NONBLOCK),
    ..NONE
};
const TIMER_SET: Values = Values {
    flags: constants!(TFD_TIMER_ABSTIME TFD_TIMER_CANCEL_ON_SET),
    ..NONE
};
const INOTIFY: Values = Values {
    flags: constants!(IN_CLOEXEC IN_NONBLOCK),
    ..NONE
};
const MEMORY_FILE: Values = Values {
    flags: constants!(MFD_CLOEXEC MFD_ALLOW_SEALING MFD_HUGETLB),
    ..NONE
};
const CLOCK: Values = Values {
    mask: u32::MAX,
    values: constants!(
        CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID
        CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME
        CLOCK_REALTIME_ALARM CLOCK_BOOTTIME_ALARM CLOCK_TAI
    ),
    zero: "CLOCK_REALTIME",
    ..NONE
};
const SLEEP: Values = Values {
    flags: constants!(TIMER_ABSTIME),
    ..NONE
};
const MASK_HOW: Values = Values {
    mask: u32::MAX,
    values: constants!(SIG_BLOCK SIG_UNBLOCK SIG_SETMASK),
    zero: "SIG_BLOCK",
    ..NONE
};
const RESOURCE: Values = Values {
    mask: u32::MAX,
    values: constants!(
        RLIMIT_CPU RLIMIT_FSIZE RLIMIT_DATA RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS RLIMIT_NPROC
        RLIMIT_NOFILE RLIMIT_MEMLOCK RLIMIT_AS RLIMIT_LOCKS RLIMIT_SIGPENDING RLIMIT_MSGQUEUE
        RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME
    ),
    zero: "RLIMIT_CPU",
    ..NONE
};
const USAGE: Values = Values {
    mask: u32::MAX,
    values: constants!(RUSAGE_SELF RUSAGE_CHILDREN RUSAGE_THREAD),
    zero: "RUSAGE_SELF",
    ..NONE
};
const WAIT: Values = Values {
    flags: constants!(WNOHANG WSTOPPED WEXITED WCONTINUED WNOWAIT __WNOTHREAD __WALL __WCLONE),
    ..NONE
};
const RANDOM: Values = Values {
    flags: constants!(GRND_NONBLOCK GRND_RANDOM GRND_INSECURE),
    ..NONE
};
const POLICY: Values = Values {
    mask: 0xff,
    values: constants!(SCHED_OTHER SCHED_FIFO SCHED_RR SCHED_BATCH SCHED_IDLE SCHED_DEADLINE),
    zero: "SCHED_OTHER",
    ..NONE
};
const PROCESS_CONTROL: Values = Values {
    mask: u32::MAX,
    values: constants!(
        PR_SET_PDEATHSIG PR_GET_PDEATHSIG PR_GET_DUMPABLE PR_SET_DUMPABLE PR_SET_KEEPCAPS
        PR_SET_NAME PR_GET_NAME PR_GET_SECCOMP PR_SET_SECCOMP PR_CAPBSET_READ PR_CAPBSET_DROP
        PR_SET_TIMERSLACK PR_GET_TIMERSLACK PR_SET_MM PR_SET_CHILD_SUBREAPER PR_SET_NO_NEW_PRIVS
        PR_GET_NO_NEW_PRIVS PR_SET_PTRACER PR_CAP_AMBIENT PR_SET_VMA PR_GET_SECUREBITS
        PR_SET_SECUREBITS PR_GET_TIMING PR_SET_TIMING PR_GET_KEEPCAPS
    ),
    ..NONE
};
const WATCH: Values = Values {
    flags: constants!(
        IN_ACCESS IN_MODIFY IN_ATTRIB IN_CLOSE_WRITE IN_CLOSE_NOWRITE IN_OPEN IN_MOVED_FROM
        IN_MOVED_TO IN_CREATE IN_DELETE IN_DELETE_SELF IN_MOVE_SELF IN_UNMOUNT IN_Q_OVERFLOW
        IN_IGNORED IN_ONLYDIR IN_DONT_FOLLOW IN_EXCL_UNLINK IN_MASK_CREATE IN_MASK_ADD IN_ISDIR
        IN_ONESHOT
    ),
    ..NONE
};
const KEY_RIGHTS: Values = Values {
    flags: &[("PKEY_DISABLE_ACCESS", 1), ("PKEY_DISABLE_WRITE", 2)],
    ..NONE
};
const ID_TYPE: Values = Values {
    mask: u32::MAX,
    values: constants!(P_ALL P_PID P_PGID P_PIDFD),
    zero: "P_ALL",
    ..NONE
};
const PRIORITY_OF: Values = Values {
    mask: u32::MAX,
    values: constants!(PRIO_PROCESS PRIO_PGRP PRIO_USER),
    zero: "PRIO_PROCESS",
    ..NONE
};
const INTERVAL_TIMER: Values = Values {
    mask: u32::MAX,
    values: constants!(ITIMER_REAL ITIMER_VIRTUAL ITIMER_PROF),
    zero: "ITIMER_REAL",
    ..NONE
};
const SYNC_RANGE: Values = Values {
    flags: constants!(
        SYNC_FILE_RANGE_WAIT_BEFORE SYNC_FILE_RANGE_WRITE SYNC_FILE_RANGE_WAIT_AFTER
    ),
    ..NONE
};
const CLOSE_RANGE: Values = Values {
    flags: &[("CLOSE_RANGE_UNSHARE", 2), ("CLOSE_RANGE_CLOEXEC", 4)],
    ..NONE
};
const SPLICE: Values = Values {
    flags: constants!(SPLICE_F_MOVE SPLICE_F_NONBLOCK SPLICE_F_MORE SPLICE_F_GIFT),
    ..NONE
};
const ATTRIBUTE: Values = Values {
    flags: constants!(XATTR_CREATE XATTR_REPLACE),
    ..NONE
};
const LOCKED: Values = Values {
    flags: constants!(MCL_CURRENT MCL_FUTURE MCL_ONFAULT),
    ..NONE
};
const MOUNT: Values = Values {
    mask: MAGIC_MASK,
    values: &[("MS_MGC_VAL", MAGIC)],
    flags: constants!(
        MS_RDONLY MS_NOSUID MS_NODEV MS_NOEXEC MS_SYNCHRONOUS MS_REMOUNT MS_MANDLOCK MS_DIRSYNC
        MS_NOATIME MS_NODIRATIME MS_BIND MS_MOVE MS_REC MS_SILENT MS_POSIXACL MS_UNBINDABLE
        MS_PRIVATE MS_SLAVE MS_SHARED MS_RELATIME MS_KERNMOUNT MS_I_VERSION MS_STRICTATIME
        MS_LAZYTIME
    ),
    ..NONE
};
/// Magic number of old programs in the upper half of the flags of `mount`.
const MAGIC: u32 = 0xc0ed_0000;
const MAGIC_MASK: u32 = 0xffff_0000;

/// Returns the flags of `mount`, without the value that stands for none.
#[must_use]
pub fn mount_flags(register: u64) -> u64 {
    let mask = u64::from(MAGIC_MASK);
    if register & mask == u64::from(MAGIC) {
        register & !mask
    } else {
        register
    }
}

const SWAP: Values = Values {
    flags: &[
        ("SWAP_FLAG_PREFER", 0x8000),
        ("SWAP_FLAG_DISCARD", 0x10000),
        ("SWAP_FLAG_DISCARD_ONCE", 0x20000),
        ("SWAP_FLAG_DISCARD_PAGES", 0x40000),
    ],
    ..NONE
};
const RULESET: Values = Values {
    flags: &[("LANDLOCK_CREATE_RULESET_VERSION", 1)],
    ..NONE
};
const FILE_NOTICES: Values = Values {
    mask: 0xc,
    values: &[
        ("FAN_CLASS_NOTIF", 0),
        ("FAN_CLASS_CONTENT", 4),
        ("FAN_CLASS_PRE_CONTENT", 8),
    ],
    flags: &[
        ("FAN_CLOEXEC", 1),
        ("FAN_NONBLOCK", 2),
        ("FAN_UNLIMITED_QUEUE", 0x10),
        ("FAN_UNLIMITED_MARKS", 0x20),
        ("FAN_ENABLE_AUDIT", 0x40),
        ("FAN_REPORT_PIDFD", 0x80),
        ("FAN_REPORT_TID", 0x100),
        ("FAN_REPORT_FID", 0x200),
        ("FAN_REPORT_DIR_FID", 0x400),
        ("FAN_REPORT_NAME", 0x800),
        ("FAN_REPORT_TARGET_FID", 0x1000),
    ],
    zero: "FAN_CLASS_NOTIF",
    ..NONE
};
const MEMORY_POLICY: Values = Values {
    mask: 0x1fff,
    values: &[
        ("MPOL_DEFAULT", 0),
        ("MPOL_PREFERRED", 1),
        ("MPOL_BIND", 2),
        ("MPOL_INTERLEAVE", 3),
        ("MPOL_LOCAL", 4),
        ("MPOL_PREFERRED_MANY", 5),
    ],
    flags: &[
        ("MPOL_F_STATIC_NODES", 1 << 15),
        ("MPOL_F_RELATIVE_NODES", 1 << 14),
        ("MPOL_F_NUMA_BALANCING", 1 << 13),
    ],
    zero: "MPOL_DEFAULT",
    ..NONE
};
const SECCOMP: Values = Values {
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
const SECCOMP_FLAGS: Values = Values {
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
const BARRIER: Values = Values {
    mask: u32::MAX,
    values: BARRIERS,
    zero: "MEMBARRIER_CMD_QUERY",
    ..NONE
};
const BARRIERS: &[Constant] = &[
    ("MEMBARRIER_CMD_GLOBAL", 1),
    ("MEMBARRIER_CMD_GLOBAL_EXPEDITED", 1 << 1),
    ("MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED", 1 << 2),
    ("MEMBARRIER_CMD_PRIVATE_EXPEDITED", 1 << 3),
    ("MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED", 1 << 4),
    ("MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE", 1 << 5),
    (
        "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE",
        1 << 6,
    ),
    ("MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ", 1 << 7),
    ("MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ", 1 << 8),
];
const ATTACH: Values = Values {
    flags: constants!(SHM_RDONLY SHM_RND SHM_REMAP SHM_EXEC),
    ..NONE
};
const SHARED_CONTROL: Values = Values {
    mask: u32::MAX,
    values: constants!(IPC_RMID IPC_SET IPC_STAT IPC_INFO),
    zero: "IPC_RMID",
    ..NONE
};
const UMOUNT: Values = Values {
    flags: constants!(MNT_FORCE MNT_DETACH MNT_EXPIRE UMOUNT_NOFOLLOW),
    ..NONE
};

/// Calls, one of their arguments, and the values that it may have.
const ARGUMENTS: &[(&str, &str, &Values)] = &[
    ("open openat open_by_handle_at", "flags", &OPEN),
    ("pipe2 dup3", "flags", &PIPE),
    (
        "mmap mprotect pkey_mprotect remap_file_pages",
        "prot",
        &PROTECTION,
    ),
    ("mmap", "flags", &MAPPING),
    ("mremap", "flags", &REMAPPING),
    ("madvise process_madvise", "behavior", &ADVICE),
    ("fadvise64", "advice", &FILE_ADVICE),
    ("msync", "flags", &MEMORY_SYNC),
    ("lseek", "whence", &WHENCE),
    ("access faccessat faccessat2", "mode", &ACCESS),
    ("faccessat2", "flags", &AT_ACCESS),
    ("newfstatat fchownat", "flag", &AT),
    ("linkat utimensat execveat fchmodat2", "flags", &AT),
    ("unlinkat", "flag", &AT_UNLINK),
    ("statx", "flags", &STATX),
    ("statx", "mask", &STATX_MASK),
    ("renameat2", "flags", &RENAME),
    ("fcntl", "cmd", &FILE_CONTROL),
    ("flock", "cmd", &LOCK),
    ("fallocate", "mode", &FALLOCATE),
    ("socket socketpair", "family", &FAMILY),
    ("socket socketpair", "type", &SOCKET_TYPE),
    ("accept4", "flags", &SOCKET_FLAGS),
    (
        "send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg",
        "flags",
        &MESSAGE,
    ),
    ("shutdown", "how", &SHUTDOWN),
    ("setsockopt getsockopt", "level", &LEVEL),
    ("clone", "clone_flags", &CLONE),
    ("unshare", "unshare_flags", &NAMESPACES),
    ("setns", "flags", &NAMESPACES),
    ("futex", "op", &FUTEX),
    ("epoll_ctl", "op", &EPOLL),
    ("epoll_create1", "flags", &EPOLL_FLAGS),
    ("eventfd2", "flags", &EVENT_FD),
    ("signalfd4", "flags", &SIGNAL_FD),
    ("timerfd_create", "flags", &TIMER_FD),
    ("timerfd_settime", "flags", &TIMER_SET),
    ("timerfd_create", "clockid", &CLOCK),
    ("inotify_init1", "flags", &INOTIFY),
    ("memfd_create", "flags", &MEMORY_FILE),
    (
        "clock_gettime clock_getres clock_settime clock_nanosleep timer_create",
        "which_clock",
        &CLOCK,
    ),
    ("clock_nanosleep", "flags", &SLEEP),
    ("rt_sigprocmask", "how", &MASK_HOW),
    ("prlimit64 getrlimit setrlimit", "resource", &RESOURCE),
    ("getrusage", "who", &USAGE),
    ("wait4 waitid", "options", &WAIT),
    ("getrandom", "flags", &RANDOM),
    ("sched_setscheduler", "policy", &POLICY),
    ("prctl", "option", &PROCESS_CONTROL),
    ("umount2", "flags", &UMOUNT),
    ("seccomp", "op", &SECCOMP),
    ("seccomp", "flags", &SECCOMP_FLAGS),
    ("landlock_create_ruleset", "flags", &RULESET),
    ("fanotify_init", "flags", &FILE_NOTICES),
    ("fanotify_init", "event_f_flags", &OPEN),
    ("set_mempolicy mbind", "mode", &MEMORY_POLICY),
    ("pkey_alloc", "init_val", &KEY_RIGHTS),
    ("inotify_add_watch", "mask", &WATCH),
    ("waitid", "which", &ID_TYPE),
    ("getpriority setpriority", "which", &PRIORITY_OF),
    ("getitimer setitimer", "which", &INTERVAL_TIMER),
    ("sync_file_range", "flags", &SYNC_RANGE),
    ("close_range", "flags", &CLOSE_RANGE),
    ("splice tee vmsplice", "flags", &SPLICE),
    ("setxattr lsetxattr fsetxattr", "flags", &ATTRIBUTE),
    ("mlockall", "flags", &LOCKED),
    ("mount", "flags", &MOUNT),
    ("membarrier", "cmd", &BARRIER),
    ("shmat", "shmflg", &ATTACH),
    ("shmctl", "cmd", &SHARED_CONTROL),
    (
        "sched_get_priority_max sched_get_priority_min",
        "policy",
        &POLICY,
    ),
    ("timer_settime", "flags", &SLEEP),
    ("mmap2", "prot", &PROTECTION),
    ("mmap2", "flags", &MAPPING),
    ("fcntl64", "cmd", &FILE_CONTROL_64),
    ("futex_time64", "op", &FUTEX),
    ("fstatat64", "flag", &AT),
    ("_llseek", "whence", &WHENCE),
    ("fadvise64_64", "advice", &FILE_ADVICE),
    ("utimensat_time64", "flags", &AT),
    ("ugetrlimit", "resource", &RESOURCE),
    ("waitpid", "options", &WAIT),
    (
        "clock_gettime64 clock_getres_time64 clock_settime64 clock_nanosleep_time64",
        "which_clock",
        &CLOCK,
    ),
    ("clock_nanosleep_time64", "flags", &SLEEP),
    ("timerfd_settime64", "flags", &TIMER_SET),
    ("timer_settime64", "flags", &SLEEP),
];

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

/// Returns the name of an argument whose meaning depends on another one; `None` where it is not
/// known.
#[must_use]
pub fn named_constant(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let registers = &call.registers;
    let int = |index: usize| registers.get(index).map(|value| lower_half(*value));
    match (call.name()?, index) {
        ("fcntl" | "fcntl64", 2) => match int(1)? {
            libc::F_SETFD => Some(words(&DESCRIPTOR_FLAGS, *registers.get(2)?)),
            libc::F_SETFL => Some(words(&STATUS_FLAGS, *registers.get(2)?)),
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETPIPE_SZ | libc::F_SETOWN => {
                Some(int(2)?.to_string().into())
            }
            libc::F_ADD_SEALS => Some(words(&SEALS, *registers.get(2)?)),
            _ => None,
        },
        ("setsockopt" | "getsockopt", 2) => {
            let names = match int(1)? {
                libc::SOL_SOCKET => SOCKET_OPTIONS,
                libc::SOL_TCP => TCP_OPTIONS,
                libc::SOL_IP => IP_OPTIONS,
                libc::SOL_IPV6 => IPV6_OPTIONS,
                libc::SOL_NETLINK => NETLINK_OPTIONS,
                _ => return None,
            };
            named(names, int(2)?)
        }
        ("socket" | "socketpair", 2) => match int(0)? {
            libc::AF_INET | libc::AF_INET6 => named(PROTOCOLS, int(2)?),
            libc::AF_NETLINK => named(NETLINK_PROTOCOLS, int(2)?),
            libc::AF_PACKET => {
                let protocol = u16::try_from(int(2)?).ok()?;
                Some(crate::structs::protocol(u16::from_be(protocol)).into())
            }
            _ => None,
        },
        ("swapon", 1) => {
            let bits = int(1)?.cast_unsigned();
            let (named, priority) = (bits & !PRIORITY, bits & PRIORITY);
            Some(match named {
                0 => priority.to_string().into(),
                _ => format!("{}|{priority}", words(&SWAP, named.into())).into(),
            })
        }
        ("futex" | "futex_time64", 5) if matches!(int(1)? & 0x7f, 9 | 10) && int(5)? == -1 => {
            Some("FUTEX_BITSET_MATCH_ANY".into())
        }
        ("futex" | "futex_time64", 3) if matches!(int(1)? & 0x7f, 3..=5) => {
            Some(registers.get(3)?.to_string().into())
        }
        ("socketcall", 0) => named(SOCKET_CALLS, int(0)?),
        ("ioctl", 1) => {
            let command = int(1)?;
            match command.cast_unsigned() {
                FICLONE => return Some("BTRFS_IOC_CLONE or FICLONE".into()),
                MTIOCTOP => return Some("MTIOCTOP".into()),
                _ => {}
            }
            if let Some(known) = io_command(*registers.get(1)?) {
                return Some(known.name.into());
            }
            named(IO_COMMANDS, command).or_else(|| Some(unknown_io_command(command).into()))
        }
        ("ioctl", 2) if TAKES_INT.contains(&int(1)?.cast_unsigned()) => {
            Some(int(2)?.to_string().into())
        }
        ("ioctl", 2) => {
            let command = io_command(*registers.get(1)?)?;
            command.value(*registers.get(2)?).map(Cow::Borrowed)
        }
        ("mknod", 1) | ("mknodat", 2) => {
            let mode = lower_half(*registers.get(index)?).cast_unsigned() & 0xffff;
            Some(crate::structs::file_mode(mode).into())
        }
        ("mknod", 2) | ("mknodat", 3) => {
            let device = u64::from(int(index)?.cast_unsigned());
            Some(crate::structs::device(device).into())
        }
        ("shmget" | "msgget" | "semget", 0) => match int(0)? {
            libc::IPC_PRIVATE => Some("IPC_PRIVATE".into()),
            key => Some(format!("{key:#x}").into()),
        },
        ("shmget", 2) => {
            let bits = int(2)?.cast_unsigned();
            let mut named = crate::structs::flags(
                (bits & !0o777).into(),
                &[
                    ("IPC_CREAT", 0o1000),
                    ("IPC_EXCL", 0o2000),
                    ("SHM_HUGETLB", 0o4000),
                    ("SHM_NORESERVE", 0o10000),
                ],
                "",
            );
            if !named.is_empty() {
                named.push('|');
            }
            Some((named + &permissions(bits & 0o777)).into())
        }
        ("prctl", 1) if names_memory(call) => Some("PR_SET_VMA_ANON_NAME".into()),
        ("prctl", 3) if names_memory(call) => Some(registers.get(3)?.to_string().into()),
        ("prctl", 4) if names_memory(call) && *registers.get(4)? == 0 => Some("NULL".into()),
        ("prctl", 1) => match int(0)? {
            libc::PR_CAPBSET_READ | libc::PR_CAPBSET_DROP => {
                let capability = usize::try_from(int(1)?).ok()?;
                CAPABILITIES.get(capability).map(|name| (*name).into())
            }
            libc::PR_SET_PDEATHSIG => signal_name(int(1)?.cast_unsigned()).map(Cow::Borrowed),
            libc::PR_CAP_AMBIENT => named(AMBIENT, int(1)?),
            libc::PR_SET_DUMPABLE => Some(dumpable(int(1)?)),
            _ => None,
        },
        ("prctl", 2)
            if int(0)? == libc::PR_CAP_AMBIENT && int(1)? < libc::PR_CAP_AMBIENT_CLEAR_ALL =>
        {
            let capability = usize::try_from(int(2)?).ok()?;
            CAPABILITIES.get(capability).map(|name| (*name).into())
        }
        ("arch_prctl", 0) => named(ARCH_OPTIONS, int(0)?),
        ("ioprio_get" | "ioprio_set", 0) => Some(match int(0)? {
            1 => "IOPRIO_WHO_PROCESS".into(),
            2 => "IOPRIO_WHO_PGRP".into(),
            3 => "IOPRIO_WHO_USER".into(),
            other => format!("{other:#x}").into(),
        }),
        ("ioprio_set", 2) => Some(priority_of_io(int(2)?.into()).into()),
        ("mmap", 5) => {
            let offset = *registers.get(5)?;
            (offset != 0).then(|| format!("{offset:#x}").into())
        }
        ("rseq", 1 | 3) => Some(format!("{:#x}", int(index)?).into()),
        _ => None,
    }
}

/// Returns the name of a `dumpable` setting: whose memory is written to a file as a process is
/// killed.
fn dumpable(value: i32) -> Cow<'static, str> {
    match value {
        0 => "SUID_DUMP_DISABLE".into(),
        1 => "SUID_DUMP_USER".into(),
        2 => "SUID_DUMP_ROOT".into(),
        other => other.to_string().into(),
    }
}

/// Renders a priority of requests to devices: its class, and the priority within.
fn priority_of_io(value: i64) -> String {
    const CLASS_AT: u32 = 13;
    let (class, priority) = (value >> CLASS_AT, value & ((1 << CLASS_AT) - 1));
    let class = match class {
        0 => "IOPRIO_CLASS_NONE".to_owned(),
        1 => "IOPRIO_CLASS_RT".to_owned(),
        2 => "IOPRIO_CLASS_BE".to_owned(),
        3 => "IOPRIO_CLASS_IDLE".to_owned(),
        other => format!("{other:#x}"),
    };
    format!("IOPRIO_PRIO_VALUE({class}, {priority})")
}

/// Bits of the flags of `swapon` that are no flags.
const PRIORITY: u32 = 0x7fff;

/// Tells whether it is the call that gives memory a name.
#[must_use]
pub fn names_memory(call: &Call) -> bool {
    let asked = (lower_half(call.registers[0]), call.registers[1]);
    call.name() == Some("prctl") && asked == (libc::PR_SET_VMA, 0)
}

/// Returns the name of a scheduling policy.
#[must_use]
pub fn policy_name(policy: u32) -> Cow<'static, str> {
    let known = POLICY.values.iter().find(|(_, known)| *known == policy);
    known.map_or_else(|| format!("{policy:#x}").into(), |(name, _)| (*name).into())
}

/// Renders the permissions of a file: at least three digits, of which the first is a zero.
#[must_use]
pub fn permissions(bits: u32) -> String {
    let octal = format!("0{bits:o}");
    format!("{octal:0>3}")
}

/// Renders a command of `ioctl` that has no name here, by its bits.
fn unknown_io_command(command: i32) -> String {
    let bits = command.cast_unsigned();
    let direction = match bits >> 30 {
        0 => "_IOC_NONE",
        1 => "_IOC_WRITE",
        2 => "_IOC_READ",
        _ => "_IOC_READ|_IOC_WRITE",
    };
    let part = |value: u32| match value {
        0 => "0".to_owned(),
        value => format!("{value:#x}"),
    };
    let (kind, nr, size) = (bits >> 8 & 0xff, bits & 0xff, bits >> 16 & 0x3fff);
    let (kind, nr, size) = (part(kind), part(nr), part(size));
    format!("_IOC({direction}, {kind}, {nr}, {size})")
}

/// Commands of `ioctl` that take a descriptor.
const TAKES_INT: &[u32] = &[FICLONE];
const FICLONE: u32 = 0x4004_9409;

/// Operation that `tar` asks of a tape.
const MTIOCTOP: u32 = 0x4008_6d01;

/// Renders a returned value that is made of flags: `0x8002 (flags O_RDWR|O_LARGEFILE)`.
#[must_use]
pub fn returned_flags(call: &Call, value: i64) -> Option<String> {
    let bits = u64::try_from(value).ok()?;
    match call.name()? {
        "fcntl" | "fcntl64" => {}
        "sched_getscheduler" => {
            let policy = named(POLICY.values, i32::try_from(value).ok()?)?;
            return Some(format!("{value} ({policy})"));
        }
        "prctl" if lower_half(call.registers[0]) == libc::PR_GET_DUMPABLE => {
            let dumped = dumpable(i32::try_from(value).ok()?);
            return Some(format!("{value} ({dumped})"));
        }
        "ioprio_get" => return Some(format!("{value} ({})", priority_of_io(value))),
        "membarrier" if value > 0 => {
            let names = Values {
                flags: BARRIERS,
                ..NONE
            };
            return Some(format!("{bits:#x} ({})", words(&names, bits)));
        }
        _ => return None,
    }
    let values = match lower_half(call.registers[1]) {
        libc::F_GETFD if bits != 0 => &DESCRIPTOR_FLAGS,
        libc::F_GETFL => &STATUS_FLAGS,
        _ => return None,
    };
    let shown = if bits == 0 {
        "0".to_owned()
    } else {
        format!("{bits:#x}")
    };
    Some(format!("{shown} (flags {})", words(values, bits)))
}

/// Returns the part of a register that the kernel takes for an int.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the upper half is not looked at"
)]
fn lower_half(register: u64) -> i32 {
    register as i32
}

fn words(values: &Values, bits: u64) -> Cow<'static, str> {
    let mut out = Vec::new();
    values.push(&mut out, u32::try_from(bits).unwrap_or(u32::MAX));
    String::from_utf8_lossy(&out).into_owned().into()
}

fn named(names: &'static [Constant], value: i32) -> Option<Cow<'static, str>> {
    let known = names
        .iter()
        .find(|(_, known)| *known == value.cast_unsigned());
    known.map(|(name, _)| (*name).into())
}

const DESCRIPTOR_FLAGS: Values = Values {
    flags: constants!(FD_CLOEXEC),
    ..NONE
};
const STATUS_FLAGS: Values = Values {
    mask: libc::O_ACCMODE as u32,
    values: constants!(O_RDONLY O_WRONLY O_RDWR),
    // The kernel's own value: the C library has 0 where all files may be large.
    flags: &[
        ("O_CREAT", libc::O_CREAT as u32),
        ("O_EXCL", libc::O_EXCL as u32),
        ("O_NOCTTY", libc::O_NOCTTY as u32),
        ("O_TRUNC", libc::O_TRUNC as u32),
        ("O_APPEND", libc::O_APPEND as u32),
        ("O_NONBLOCK", libc::O_NONBLOCK as u32),
        ("O_SYNC", libc::O_SYNC as u32),
        ("O_DSYNC", libc::O_DSYNC as u32),
        ("O_DIRECT", libc::O_DIRECT as u32),
        ("O_LARGEFILE", O_LARGEFILE),
        ("O_NOFOLLOW", libc::O_NOFOLLOW as u32),
        ("O_NOATIME", libc::O_NOATIME as u32),
        ("O_CLOEXEC", libc::O_CLOEXEC as u32),
        ("O_PATH", libc::O_PATH as u32),
        ("O_TMPFILE", libc::O_TMPFILE as u32),
        ("O_DIRECTORY", libc::O_DIRECTORY as u32),
        ("FASYNC", libc::O_ASYNC as u32),
    ],
    zero: "O_RDONLY",
    ..NONE
};
const O_LARGEFILE: u32 = if cfg!(target_arch = "aarch64") {
    0o400_000
} else {
    0o100_000
};
const SEALS: Values = Values {
    flags: constants!(F_SEAL_SEAL F_SEAL_SHRINK F_SEAL_GROW F_SEAL_WRITE F_SEAL_FUTURE_WRITE),
    ..NONE
};
const SOCKET_OPTIONS: &[Constant] = constants!(
    SO_DEBUG SO_REUSEADDR SO_TYPE SO_ERROR SO_DONTROUTE SO_BROADCAST SO_SNDBUF SO_RCVBUF
    SO_KEEPALIVE SO_OOBINLINE SO_NO_CHECK SO_PRIORITY SO_LINGER SO_REUSEPORT SO_PASSCRED
    SO_PEERCRED SO_RCVLOWAT SO_SNDLOWAT SO_BINDTODEVICE SO_ATTACH_FILTER SO_DETACH_FILTER
    SO_PEERNAME SO_ACCEPTCONN SO_PEERSEC SO_SNDBUFFORCE SO_RCVBUFFORCE SO_PASSSEC SO_MARK
    SO_PROTOCOL SO_DOMAIN SO_RXQ_OVFL SO_PEEK_OFF SO_BUSY_POLL SO_INCOMING_CPU SO_ATTACH_BPF
    SO_COOKIE SO_PEERGROUPS SO_ZEROCOPY SO_RCVTIMEO SO_SNDTIMEO SO_TIMESTAMP
);
const TCP_OPTIONS: &[Constant] = constants!(
    TCP_NODELAY TCP_MAXSEG TCP_CORK TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_SYNCNT TCP_LINGER2
    TCP_DEFER_ACCEPT TCP_WINDOW_CLAMP TCP_INFO TCP_QUICKACK TCP_CONGESTION TCP_USER_TIMEOUT
    TCP_FASTOPEN TCP_FASTOPEN_CONNECT TCP_ULP
);
const IP_OPTIONS: &[Constant] = constants!(
    IP_TOS IP_TTL IP_HDRINCL IP_OPTIONS IP_RECVOPTS IP_PKTINFO IP_MTU_DISCOVER IP_RECVERR
    IP_RECVTTL IP_MTU IP_FREEBIND IP_TRANSPARENT IP_MULTICAST_IF IP_MULTICAST_TTL
    IP_MULTICAST_LOOP IP_ADD_MEMBERSHIP IP_DROP_MEMBERSHIP IP_BIND_ADDRESS_NO_PORT
);
const IPV6_OPTIONS: &[Constant] = constants!(
    IPV6_V6ONLY IPV6_UNICAST_HOPS IPV6_MULTICAST_IF IPV6_MULTICAST_HOPS IPV6_MULTICAST_LOOP
    IPV6_RECVPKTINFO IPV6_RECVERR IPV6_MTU_DISCOVER IPV6_TCLASS IPV6_RECVTCLASS
);
const NETLINK_OPTIONS: &[Constant] = constants!(
    NETLINK_ADD_MEMBERSHIP NETLINK_DROP_MEMBERSHIP NETLINK_PKTINFO NETLINK_EXT_ACK
    NETLINK_GET_STRICT_CHK
);
const PROTOCOLS: &[Constant] = constants!(
    IPPROTO_IP IPPROTO_ICMP IPPROTO_TCP IPPROTO_UDP IPPROTO_ICMPV6 IPPROTO_SCTP IPPROTO_RAW
    IPPROTO_MPTCP
);
const NETLINK_PROTOCOLS: &[Constant] = constants!(
    NETLINK_ROUTE NETLINK_SOCK_DIAG NETLINK_XFRM NETLINK_SELINUX NETLINK_AUDIT NETLINK_CONNECTOR
    NETLINK_NETFILTER NETLINK_KOBJECT_UEVENT NETLINK_GENERIC
);
const SOCKET_CALLS: &[Constant] = &[
    ("SYS_SOCKET", 1),
    ("SYS_BIND", 2),
    ("SYS_CONNECT", 3),
    ("SYS_LISTEN", 4),
    ("SYS_ACCEPT", 5),
    ("SYS_GETSOCKNAME", 6),
    ("SYS_GETPEERNAME", 7),
    ("SYS_SOCKETPAIR", 8),
    ("SYS_SEND", 9),
    ("SYS_RECV", 10),
    ("SYS_SENDTO", 11),
    ("SYS_RECVFROM", 12),
    ("SYS_SHUTDOWN", 13),
    ("SYS_SETSOCKOPT", 14),
    ("SYS_GETSOCKOPT", 15),
    ("SYS_SENDMSG", 16),
    ("SYS_RECVMSG", 17),
    ("SYS_ACCEPT4", 18),
    ("SYS_RECVMMSG", 19),
    ("SYS_SENDMMSG", 20),
];
const IO_COMMANDS: &[Constant] = constants!(
    TCSBRK TIOCEXCL TIOCNXCL TIOCSCTTY TIOCMGET TIOCNOTTY FIOCLEX FIONCLEX FICLONERANGE SIOCGIFCONF
);
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
const AMBIENT: &[Constant] = constants!(
    PR_CAP_AMBIENT_IS_SET PR_CAP_AMBIENT_RAISE PR_CAP_AMBIENT_LOWER PR_CAP_AMBIENT_CLEAR_ALL
);
const ARCH_OPTIONS: &[Constant] = &[
    ("ARCH_SET_GS", 0x1001),
    ("ARCH_SET_FS", 0x1002),
    ("ARCH_GET_FS", 0x1003),
    ("ARCH_GET_GS", 0x1004),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(call: &str, argument: &str, bits: u32) -> String {
        let mut out = Vec::new();
        values(call, argument).unwrap().push(&mut out, bits);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bits_are_called_as_strace_calls_them() {
        for (call, argument, bits, expected) in [
            ("openat", "flags", 0, "O_RDONLY"),
            ("openat", "flags", 0o2_000_101, "O_WRONLY|O_CREAT|O_CLOEXEC"),
            ("openat", "flags", 0x4000_0000, "O_RDONLY|0x40000000"),
            ("openat", "flags", 3, "0x3"),
            ("mmap", "prot", 0, "PROT_NONE"),
            ("mmap", "prot", 5, "PROT_READ|PROT_EXEC"),
            ("mmap", "flags", 0x22, "MAP_PRIVATE|MAP_ANONYMOUS"),
            ("access", "mode", 0, "F_OK"),
            ("newfstatat", "flag", 0, "0"),
            ("newfstatat", "flag", 0x1000, "AT_EMPTY_PATH"),
            ("lseek", "whence", 2, "SEEK_END"),
            ("lseek", "whence", 77, "0x4d"),
            ("socket", "type", 0x80001, "SOCK_STREAM|SOCK_CLOEXEC"),
            (
                "clone",
                "clone_flags",
                0x0120_0011,
                "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD",
            ),
            ("futex", "op", 128, "FUTEX_WAIT_PRIVATE"),
            (
                "futex",
                "op",
                393,
                "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME",
            ),
        ] {
            assert_eq!(shown(call, argument, bits), expected, "{call}");
        }
        assert_eq!(values("openat", "mode"), None);
    }

    #[test]
    fn every_argument_is_one_of_its_call() {
        for (calls, argument, _) in ARGUMENTS {
            for call in calls.split(' ') {
                let names = crate::arguments::names_in_any;
                assert!(
                    names(call).any(|name| name == *argument),
                    "{call}: {argument}"
                );
            }
        }
    }
}
