//! Descriptors among the arguments of system calls.

use tracer_common::kernel::descriptors::{
    CALLS, PAIR_AT, POLLED_AT, RECEIVES, RETURNS, RETURNS_COPY, SENDS, SETS, WITHOUT_FLAGS,
};

use crate::arguments::{self, Pointed};
use crate::calls::Role;
use crate::names::Table;
use crate::table::{self, Returns};

/// Returns the map `CALL_DESCRIPTORS`: see [`descriptors`](tracer_common::kernel::descriptors).
#[must_use]
pub fn of_calls() -> Vec<u64> {
    let of_table = |table| (0..CALLS.cast_signed()).map(move |nr| of_call(table, nr).into());
    let tables = [Table::Native, Table::Compat].into_iter();
    tables.flat_map(of_table).collect()
}

fn of_call(table: Table, nr: i32) -> u32 {
    let mut bits = 0;
    for index in arguments::descriptors(table, nr) {
        bits |= 1 << index;
    }
    for (index, points_to) in (0_u32..).zip(arguments::pointed_of(table, nr)) {
        let Pointed::Struct(given) = points_to else {
            continue;
        };
        bits |= match given.kind.role {
            Role::Pair => (index + 1) << PAIR_AT,
            Role::PollList => (index + 1) << POLLED_AT,
            Role::FdSet => SETS,
            Role::Message => SENDS,
            Role::ReceivedMessage => RECEIVES,
            _ => 0,
        };
    }
    bits | match table::info(table, nr).map(|info| info.returns) {
        Some(Returns::Fd) => RETURNS,
        Some(Returns::FdCopy) => RETURNS_COPY,
        // With a flag it returns a version.
        Some(Returns::FdWithoutFlags) => RETURNS | WITHOUT_FLAGS,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    fn find_mask(name: &str) -> u32 {
        let nr = names::syscall_number(Table::Native, name).unwrap();
        of_call(Table::Native, nr.cast_signed())
    }

    #[test]
    fn the_table_says_where_descriptors_are() {
        assert_eq!(find_mask("read"), 1);
        assert_eq!(find_mask("openat"), 1 | RETURNS);
        assert_eq!(find_mask("fcntl"), 1 | RETURNS_COPY);
        assert_eq!(find_mask("renameat2"), 0b101);
        assert_eq!(find_mask("mmap"), 1 << 4);
        assert_eq!(find_mask("socketpair"), 4 << PAIR_AT);
        assert_eq!(find_mask("sendmsg"), 1 | SENDS);
        assert_eq!(find_mask("getpid"), 0);
        assert_eq!(of_calls().len(), 2 * CALLS as usize);
    }
}
