//! Names of arguments of system calls that are flags, or one of several constants.
//!
//! The constants are those of the C library of the machine for which this is built.

#![expect(
    clippy::cast_sign_loss,
    reason = "the kernel takes 32 bits, of whatever type the C library has them"
)]

mod files;
mod futex;
mod memory;
mod mount;
mod network;
mod prctl;
mod process;
mod signals;
mod time;
mod waiting;

use std::borrow::Cow;

use crate::arguments::Call;
use crate::calls::io_command;
pub(crate) use files::*;
pub(crate) use futex::*;
pub(crate) use memory::*;
pub(crate) use mount::*;
pub(crate) use network::*;
pub(crate) use prctl::*;
pub(crate) use process::*;
pub(crate) use signals::*;
pub(crate) use time::*;
use tracer_text::signal_name;
pub(crate) use waiting::*;

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
pub(crate) mod machine {
    pub use libc::*;

    #[cfg(not(target_arch = "x86_64"))]
    pub const MAP_32BIT: c_int = 0;
}

/// Constants of the C library by their names.
macro_rules! constants {
    ($($name:ident)*) => {
        &[$((stringify!($name), {
            #[allow(clippy::cast_possible_truncation, reason = "commands are wider, with zeroes")]
            let value = $crate::flags::machine::$name as u32;
            value
        })),*]
    };
}
use constants;

const NONE: Values = Values {
    mask: 0,
    values: &[],
    flags: &[],
    zero: "0",
    is_value_last: false,
    is_signal: false,
};

/// Returns the name of the level of a socket's option.
#[must_use]
pub fn level_name(level: i32) -> Cow<'static, str> {
    named(LEVEL.values, level).unwrap_or_else(|| format!("{level:#x}").into())
}

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
                Some(crate::calls::protocol(u16::from_be(protocol)).into())
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
            Some(crate::calls::file_mode(mode).into())
        }
        ("mknod", 2) | ("mknodat", 3) => {
            let device = u64::from(int(index)?.cast_unsigned());
            Some(crate::calls::device(device).into())
        }
        ("shmget" | "msgget" | "semget", 0) => match int(0)? {
            libc::IPC_PRIVATE => Some("IPC_PRIVATE".into()),
            key => Some(format!("{key:#x}").into()),
        },
        ("shmget", 2) => {
            let bits = int(2)?.cast_unsigned();
            let mut named = crate::calls::flags(
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
