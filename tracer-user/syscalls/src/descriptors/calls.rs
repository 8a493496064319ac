//! Descriptors among the arguments of system calls.

use tracer_common::kernel::descriptors::{
    CALLS, PAIR_AT, POLLED_AT, RECEIVES, RETURNS, RETURNS_COPY, SENDS, SETS, WITHOUT_FLAGS,
};

use crate::arguments;
use crate::names::{self, Table};

/// Calls that return a descriptor.
const RETURNING: &[&str] = &[
    "accept",
    "accept4",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "eventfd",
    "eventfd2",
    "fanotify_init",
    "fsmount",
    "fsopen",
    "fspick",
    "inotify_init",
    "inotify_init1",
    "io_uring_setup",
    "memfd_create",
    "memfd_secret",
    "mq_open",
    "open",
    "open_by_handle_at",
    "open_tree",
    "open_tree_attr",
    "openat",
    "openat2",
    "perf_event_open",
    "pidfd_getfd",
    "pidfd_open",
    "signalfd",
    "signalfd4",
    "socket",
    "timerfd_create",
    "userfaultfd",
];

/// Returns the map `CALL_DESCRIPTORS`: see [`descriptors`](tracer_common::kernel::descriptors).
#[must_use]
pub fn of_calls() -> Vec<u64> {
    let of_table = |table| (0..CALLS.cast_signed()).map(move |nr| of_call(table, nr).into());
    let tables = [Table::Native, Table::Compat].into_iter();
    tables.flat_map(of_table).collect()
}

fn of_call(table: Table, nr: i32) -> u32 {
    let Some(name) = names::name(table, nr) else {
        return 0;
    };
    let mut bits = 0;
    for index in arguments::descriptors(table, nr) {
        bits |= 1 << index;
    }
    bits | match name {
        // With a flag it returns a version.
        "landlock_create_ruleset" => RETURNS | WITHOUT_FLAGS,
        _ if RETURNING.contains(&name) => RETURNS,
        "fcntl" | "fcntl64" => RETURNS_COPY,
        "pipe" | "pipe2" => 1 << PAIR_AT,
        "socketpair" => 4 << PAIR_AT,
        "poll" | "ppoll" | "ppoll_time64" => 1 << POLLED_AT,
        "select" | "_newselect" | "pselect6" | "pselect6_time64" => SETS,
        "sendmsg" => SENDS,
        "recvmsg" => RECEIVES,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> u32 {
        let nr = names::syscall_number(Table::Native, name).unwrap();
        of_call(Table::Native, nr.cast_signed())
    }

    #[test]
    fn the_table_says_where_descriptors_are() {
        assert_eq!(of("read"), 1);
        assert_eq!(of("openat"), 1 | RETURNS);
        assert_eq!(of("fcntl"), 1 | RETURNS_COPY);
        assert_eq!(of("renameat2"), 0b101);
        assert_eq!(of("mmap"), 1 << 4);
        assert_eq!(of("socketpair"), 4 << PAIR_AT);
        assert_eq!(of("sendmsg"), 1 | SENDS);
        assert_eq!(of("getpid"), 0);
        assert_eq!(of_calls().len(), 2 * CALLS as usize);
    }

    #[test]
    fn every_name_is_that_of_a_call() {
        for name in RETURNING {
            let is_new = ["memfd_secret", "open_tree_attr"].contains(name);
            let nr = names::syscall_number(Table::Native, name);
            assert!(nr.is_some() || is_new, "{name}");
        }
    }
}
