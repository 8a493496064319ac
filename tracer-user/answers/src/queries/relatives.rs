//! System calls that do what another one does, or a function of the C library: which of them a
//! program makes is the choice of its machine and of its library.

use tracer_syscalls::names::{Table, syscall_number};

/// Names that people know, each with the call that may be made instead.
const RELATIVES: [(&str, &str); 47] = [
    ("_exit", "exit_group"),
    ("accept", "accept4"),
    ("access", "faccessat"),
    ("access", "faccessat2"),
    ("chmod", "fchmodat"),
    ("chown", "fchownat"),
    ("creat", "openat"),
    ("dup2", "dup3"),
    ("epoll_create", "epoll_create1"),
    ("epoll_wait", "epoll_pwait"),
    ("epoll_wait", "epoll_pwait2"),
    ("eventfd", "eventfd2"),
    ("exit", "exit_group"),
    ("fork", "clone"),
    ("fstat", "newfstatat"),
    ("fstatat", "newfstatat"),
    ("getdents", "getdents64"),
    ("getrlimit", "prlimit64"),
    ("inotify_init", "inotify_init1"),
    ("link", "linkat"),
    ("lstat", "newfstatat"),
    ("mkdir", "mkdirat"),
    ("nanosleep", "clock_nanosleep"),
    ("open", "openat"),
    ("pipe", "pipe2"),
    ("poll", "ppoll"),
    ("pread", "pread64"),
    ("pthread_cond_wait", "futex"),
    ("pthread_create", "clone3"),
    ("pthread_mutex_lock", "futex"),
    ("pwrite", "pwrite64"),
    ("readdir", "getdents64"),
    ("readlink", "readlinkat"),
    ("recv", "recvfrom"),
    ("rename", "renameat2"),
    ("rmdir", "unlinkat"),
    ("select", "pselect6"),
    ("sem_wait", "futex"),
    ("send", "sendto"),
    ("setrlimit", "prlimit64"),
    ("sleep", "clock_nanosleep"),
    ("stat", "newfstatat"),
    ("symlink", "symlinkat"),
    ("unlink", "unlinkat"),
    ("usleep", "clock_nanosleep"),
    ("vfork", "clone"),
    ("wait", "wait4"),
];

/// Returns the calls of this machine that may be made where `name` is meant, itself not among them.
pub fn relatives(name: &str) -> Vec<&'static str> {
    let others = RELATIVES.iter().filter_map(|(one, other)| {
        let is_one = *one == name;
        let is_other = *other == name;
        is_one.then_some(*other).or(is_other.then_some(*one))
    });
    let mut calls: Vec<&str> = others
        .filter(|call| syscall_number(Table::Native, call).is_some())
        .collect();
    // What is beyond one other: `open` and `creat` are both `openat` somewhere.
    calls.dedup();
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_call_of_this_machine() {
        for (name, other) in RELATIVES {
            assert!(
                syscall_number(Table::Native, other).is_some(),
                "{name}: {other}"
            );
            assert!(relatives(name).contains(&other), "{name}");
        }
        assert!(relatives("read").is_empty());
    }
}
