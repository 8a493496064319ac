//! How many arguments the machine's system calls take.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::syscall_names::{self, Table};

/// Most arguments of a call: so many registers are for them.
pub const MOST: usize = 6;

/// How many of the registers for arguments count for the system call `number`; all of them where it
/// is not known.
#[must_use]
pub fn count(table: Table, number: i32) -> usize {
    static COUNTS: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        let counted = BY_COUNT.iter().enumerate();
        counted
            .flat_map(|(count, names)| {
                names
                    .split_ascii_whitespace()
                    .map(move |name| (name, count))
            })
            .collect()
    });
    // Calls of 32-bit programs take some arguments in halves.
    let name = (table == Table::Native).then(|| syscall_names::name(table, number));
    let count = name.flatten().and_then(|name| COUNTS.get(name));
    count.copied().unwrap_or(MOST)
}

/// The calls that take no argument, those that take one, and so on.
const BY_COUNT: [&str; MOST + 1] = [
    "fork getegid geteuid getgid getpgrp getpid getppid gettid getuid inotify_init munlockall pause \
     restart_syscall rt_sigreturn sched_yield setsid sync uprobe uretprobe vfork vhangup",
    "acct adjtimex alarm brk chdir chroot close dup epoll_create epoll_create1 eventfd exit exit_group \
     fchdir fdatasync fsync getpgid getsid inotify_init1 io_destroy iopl memfd_secret mlockall mq_unlink \
     personality pipe pkey_free rmdir sched_get_priority_max sched_get_priority_min sched_getscheduler \
     set_tid_address setfsgid setfsuid setgid setuid shmdt swapoff syncfs sysinfo time timer_delete \
     timer_getoverrun times umask uname unlink unshare userfaultfd",
    "access arch_prctl capget capset chmod clock_adjtime clock_getres clock_gettime clock_settime clone3 \
     creat dup2 eventfd2 fanotify_init fchmod flock fremovexattr fsopen fstat fstatfs ftruncate getcwd \
     getgroups getitimer getpriority getrlimit getrusage gettimeofday inotify_rm_watch io_setup \
     io_uring_setup ioprio_get kill landlock_restrict_self link listen lremovexattr lstat memfd_create \
     mkdir mlock mq_notify msgget munlock munmap nanosleep pidfd_open pipe2 pivot_root pkey_alloc \
     process_mrelease removexattr rename rt_sigpending rt_sigsuspend sched_getparam sched_rr_get_interval \
     sched_setparam set_robust_list setdomainname setgroups sethostname setns setpgid setregid setreuid \
     setrlimit settimeofday shutdown sigaltstack stat statfs swapon symlink timer_gettime timerfd_create \
     timerfd_gettime tkill truncate umount2 ustat utime utimes",
    "accept bind bpf chown close_range connect dup3 execve faccessat fchmodat fchown fcntl flistxattr \
     fsmount fspick futimesat get_robust_list getcpu getdents getdents64 getpeername getrandom getresgid \
     getresuid getsockname inotify_add_watch io_cancel io_submit ioctl ioperm ioprio_set \
     landlock_create_ruleset lchown listxattr llistxattr lseek lsm_list_modules madvise membarrier \
     mincore mkdirat mknod mlock2 modify_ldt mprotect mq_getsetattr mseal msgctl msync open \
     open_by_handle_at open_tree pidfd_getfd poll read readahead readlink readv recvmsg rt_sigqueueinfo \
     sched_getaffinity sched_setaffinity sched_setattr sched_setscheduler seccomp semget semop sendmsg \
     set_mempolicy setitimer setpriority setresgid setresuid shmat shmctl shmget signalfd socket \
     symlinkat sysfs syslog tgkill timer_create unlinkat write writev",
    "accept4 cachestat clock_nanosleep epoll_ctl epoll_wait faccessat2 fadvise64 fallocate fchmodat2 \
     fgetxattr futex_requeue futex_wake getxattr io_uring_register landlock_add_rule lgetxattr listmount \
     lsm_get_self_attr lsm_set_self_attr migrate_pages mknodat mq_open msgsnd newfstatat openat openat2 \
     pidfd_send_signal pkey_mprotect pread64 prlimit64 ptrace pwrite64 quotactl quotactl_fd readlinkat \
     reboot removexattrat renameat request_key rseq rt_sigaction rt_sigprocmask rt_sigtimedwait \
     rt_tgsigqueueinfo sched_getattr semctl semtimedop sendfile sendmmsg set_mempolicy_home_node \
     signalfd4 socketpair statmount sync_file_range tee timer_settime timerfd_settime utimensat vmsplice \
     wait4",
    "add_key clone execveat fanotify_mark fchownat file_getattr file_setattr fsconfig fsetxattr \
     futex_waitv get_mempolicy getsockopt io_getevents kcmp keyctl linkat listxattrat lsetxattr mount \
     mount_setattr move_mount mq_timedreceive mq_timedsend mremap msgrcv name_to_handle_at open_tree_attr \
     perf_event_open ppoll prctl preadv process_madvise pwritev recvmmsg remap_file_pages renameat2 \
     select setsockopt setxattr statx waitid",
    "copy_file_range epoll_pwait epoll_pwait2 futex futex_wait getxattrat io_pgetevents io_uring_enter \
     mbind mmap move_pages preadv2 process_vm_readv process_vm_writev pselect6 pwritev2 recvfrom sendto \
     setxattrat splice",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_not_known_may_have_them_all() {
        assert_eq!(count(Table::Native, -1), MOST);
        assert_eq!(count(Table::Compat, 5), MOST);
    }

    /// The kernel's own word, in the fields of its tracepoints.
    #[test]
    #[ignore = "reads tracefs"]
    fn every_call_has_as_many_as_the_kernel_says() {
        const EVENTS: &str = "/sys/kernel/tracing/events/syscalls";
        let mut compared = 0;
        for name in syscall_names::names() {
            // The tracepoint has the name of the kernel's function.
            let function = match name {
                "stat" | "fstat" | "lstat" | "uname" => &format!("new{name}"),
                "sendfile" => "sendfile64",
                "umount2" => "umount",
                _ => name,
            };
            let Ok(format) = fs::read_to_string(format!("{EVENTS}/sys_enter_{function}/format"))
            else {
                continue;
            };
            // After the number, which stands at offset 8, each argument has a word.
            let is_argument = |line: &&str| {
                let offset = line
                    .split_once("offset:")
                    .and_then(|(_, rest)| rest.split(';').next());
                offset
                    .and_then(|offset| offset.parse().ok())
                    .is_some_and(|offset: u32| offset >= 16)
            };
            let number = syscall_names::number(Table::Native, name).unwrap();
            let counted = count(Table::Native, number.cast_signed());
            assert_eq!(
                counted,
                format.lines().filter(is_argument).count(),
                "{name}"
            );
            compared += 1;
        }
        assert!(
            compared > 250,
            "only {compared} calls have tracepoints: is tracefs mounted?"
        );
    }
}
