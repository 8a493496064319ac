//! The list of locks that a thread has, which the kernel keeps for when it dies.

use tracer_binary::process_memory;

use super::asking::ask;
use super::threads::ThreadId;

/// Locks of a list that are looked at: as many as the kernel looks at.
const MOST: usize = 2048;

/// Words of its head: the first entry, the offset of a lock from its entry, and the entry that is
/// about to be added.
const HEAD_WORDS: usize = 3;

/// Bit of an entry for a lock with priority inheritance.
const FLAG: u64 = 1;

/// Tells whether a thread has a lock at one of these addresses in its list.
pub fn has(thread: ThreadId, addresses: &[u64]) -> bool {
    let addresses = addresses.to_vec();
    let found = ask(thread.pid, move || {
        let read = |address| {
            let mut word = [0; 8];
            let read = process_memory::read(thread.tid, address, &mut word);
            (read == word.len()).then(|| u64::from_ne_bytes(word))
        };
        let mut locks = locks(head(thread.tid)?, read)?.into_iter();
        Some(locks.any(|lock| addresses.contains(&lock)))
    });
    found.ok().flatten().unwrap_or(false)
}

/// Returns where the list of a thread begins.
pub fn head(tid: i32) -> Option<u64> {
    let (mut head, mut length) = (0_u64, 0_usize);
    // SAFETY: both are valid for writes of what the call writes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            tid,
            &raw mut head,
            &raw mut length,
        )
    };
    (result == 0 && length == HEAD_WORDS * 8 && head != 0).then_some(head)
}

/// Returns the addresses of the locks in a list.
fn locks(head: u64, read: impl Fn(u64) -> Option<u64>) -> Option<Vec<u64>> {
    let offset = read(head.checked_add(8)?)?;
    let mut locks = Vec::new();
    let mut entry = read(head)? & !FLAG;
    while entry != head && locks.len() < MOST {
        locks.push(entry.wrapping_add(offset));
        entry = read(entry)? & !FLAG;
    }
    Some(locks)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_list_ends_where_it_began_or_after_as_many_as_are_looked_at() {
        let offset = 0_u64.wrapping_sub(32);
        let memory = HashMap::from([
            (0x100, 0x220),
            (0x108, offset),
            (0x220, 0x321),
            (0x320, 0x100),
        ]);
        let read = |address| memory.get(&address).copied();
        assert_eq!(locks(0x100, read), Some(vec![0x200, 0x300]));
        let circle = HashMap::from([(0x100, 0x220), (0x108, offset), (0x220, 0x220)]);
        let read = |address| circle.get(&address).copied();
        assert_eq!(locks(0x100, read).unwrap().len(), MOST);
        assert_eq!(locks(0x500, read), None);
    }

    #[test]
    fn this_thread_has_no_lock_at_nothing() {
        // SAFETY: takes nothing and cannot fail.
        let tid = unsafe { libc::gettid() };
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(head(tid).is_some());
        assert!(!has(ThreadId { pid, tid }, &[8]));
    }
}
