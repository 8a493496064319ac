//! Names of system calls and of the errors they return.

use std::sync::atomic::{AtomicBool, Ordering};

use syscalls::Errno;

use crate::table;

/// Table that a system call number is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// Table of the machine.
    Native,
    /// Table for 32-bit programs.
    Compat,
}

/// Whether the events that this process shows are of a machine of another kind, whose calls have
/// other names.
static IS_OF_OTHERS: AtomicBool = AtomicBool::new(false);

/// Sets the kind of machine that the events are of, by its name in `uname`: where it is not this
/// one, no call has a name or named arguments from now on. Returns whether that is new.
pub fn take_as_of(machine: &[u8]) -> bool {
    let is_ours = machine.is_empty() || FAMILY.iter().any(|name| machine.starts_with(name));
    !is_ours && !IS_OF_OTHERS.swap(true, Ordering::Relaxed)
}

/// Tells whether the tables are those of the events.
#[must_use]
pub fn are_of_events() -> bool {
    !IS_OF_OTHERS.load(Ordering::Relaxed)
}

/// Beginnings of the names of machines that share tables with this one: a process may have asked to
/// be shown the one of 32 bits.
const FAMILY: &[&[u8]] = if cfg!(target_arch = "x86_64") {
    &[b"x86_64", b"i386", b"i486", b"i586", b"i686"]
} else if cfg!(target_arch = "aarch64") {
    &[b"aarch64", b"arm"]
} else {
    &[std::env::consts::ARCH.as_bytes()]
};

/// Returns the name of system call `nr`, or `None` where no such call is known.
#[must_use]
pub fn name(table: Table, nr: i32) -> Option<&'static str> {
    table::info(table, nr).map(|info| info.name)
}

/// Returns the system call number of `name` in a table.
#[must_use]
pub fn syscall_number(table: Table, name: &str) -> Option<u32> {
    table::number(table, name)
}

/// Returns every name of the machine's table, in the order of its system call numbers.
pub fn names() -> impl Iterator<Item = &'static str> {
    names_of(Table::Native)
}

/// Returns every name of both tables; those that are in both come twice.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    names().chain(names_of(Table::Compat))
}

fn names_of(table: Table) -> impl Iterator<Item = &'static str> {
    table::by_number(table)
        .iter()
        .flatten()
        .map(|info| info.name)
}

/// Returns the name of an error number, such as `ENOENT`.
#[must_use]
pub fn error_name(errno: i32) -> Option<&'static str> {
    Errno::new(errno).name()
}

/// Last error number that the kernel can return as a negative result.
pub(crate) const LAST_ERROR: i64 = 4095;

/// Returns the name of the error that a system call returned, if it did.
pub fn error_of(result: i64) -> Option<&'static str> {
    if !(-LAST_ERROR..0).contains(&result) {
        return None;
    }
    error_name(i32::try_from(-result).ok()?)
}

#[cfg(test)]
mod tests {
    use tracer_common::kernel::socket_calls;

    use super::*;

    #[test]
    fn a_call_is_found_by_name_and_by_nr() {
        let openat = syscall_number(Table::Native, "openat").unwrap();

        assert_eq!(i64::from(openat), libc::SYS_openat);
        assert_eq!(
            name(Table::Native, i32::try_from(libc::SYS_openat).unwrap()),
            Some("openat")
        );
        let nr = syscall_number(Table::Native, "newfstatat").unwrap();
        assert_eq!(i64::from(nr), libc::SYS_newfstatat);
        assert_eq!(syscall_number(Table::Native, "opneat"), None);
        assert_eq!(name(Table::Native, -1), None);
        assert_eq!(name(Table::Native, 100_000), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn programs_of_32_bits_have_a_table_of_their_own() {
        assert_eq!(syscall_number(Table::Compat, "openat"), Some(295));
        assert_eq!(name(Table::Compat, 5), Some("open"));
        assert_eq!(syscall_number(Table::Compat, "time"), Some(13));
        assert_eq!(syscall_number(Table::Compat, "break"), Some(17));
        assert_eq!(name(Table::Compat, 17), Some("break"));
        for (asked, inner) in (1..).zip([
            "socket",
            "bind",
            "connect",
            "listen",
            "accept",
            "getsockname",
            "getpeername",
            "socketpair",
            "send",
            "recv",
            "sendto",
            "recvfrom",
            "shutdown",
            "setsockopt",
            "getsockopt",
            "sendmsg",
            "recvmsg",
            "accept4",
            "recvmmsg",
            "sendmmsg",
        ]) {
            let call: u32 = socket_calls::CALLS[asked];
            let nr = call & socket_calls::CODE;
            assert_eq!(name(Table::Compat, nr.cast_signed()), Some(inner));
            assert_eq!(syscall_number(Table::Compat, inner), Some(nr));
        }
    }

    #[test]
    fn an_error_has_a_name() {
        assert_eq!(error_name(libc::ENOENT), Some("ENOENT"));
        assert_eq!(error_name(4000), None);
    }
}
