//! Data of waits for locks.

use core::mem::offset_of;

use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_LOCK_WAIT`: comes right before the switch away of the thread.
    pub struct LockWaitData {
        /// The futex that it waits for.
        #[shown(Address)]
        pub address: u64,
        /// The operation of `futex()`, with its flags. Of `futex_wait()` it is `FUTEX_WAIT_BITSET`.
        #[shown(U32)]
        pub operation: u32,
        /// The value that the word was to have.
        #[shown(U32)]
        pub value: u32,
        /// 1: the wait ends by itself after a time.
        #[shown(Flag)]
        pub timed: u32,
        /// Parts of the memory that could be read: a bit for each sixteen bytes. None where that
        /// was too late.
        pub parts: u32,
        /// The thread in its own pid namespace, by whose numbers locks name their owners; 0 where
        /// that is not known.
        pub own_tid: u32,
        /// Zero.
        pub reserved: u32,
        /// Memory of the program, from sixteen bytes before the word on. The other parts are zero.
        /// The layouts of C libraries say which type of lock it is, and which thread has it.
        #[shown(LockType as "lock", LockOwner as "owner")]
        pub memory: [u64; 6],
    }
}

/// Memory around a futex.
pub mod lock_memory {
    /// Bytes before the word.
    pub const BEFORE: u64 = 16;
    /// Bytes of a part, which is read as a whole or not.
    pub const PART: usize = 16;
    /// Parts.
    pub const PARTS: usize = 3;
}

event_types! {
    LOCK_WAIT = 31 {
        about: "a thread begins to wait for a lock, or for another futex (--locks)",
        family: "lock",
        data: LockWaitData,
        recorded_at: [sched_switch_locks],
        is: [frequent, when_named],
    }
}

const _: () = {
    assert!(offset_of!(LockWaitData, memory) == 32);
    assert!(size_of::<LockWaitData>() == 32 + lock_memory::PART * lock_memory::PARTS);
};
