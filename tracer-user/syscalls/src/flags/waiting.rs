//! Waiting for several descriptors, and for futexes.

use super::{NONE, Values, constants};

pub const EPOLL: Values = Values {
    mask: u32::MAX,
    values: constants!(EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD),
    ..NONE
};

pub const EPOLL_FLAGS: Values = Values {
    flags: constants!(EPOLL_CLOEXEC),
    ..NONE
};

pub const EVENT_FD: Values = Values {
    flags: constants!(EFD_SEMAPHORE EFD_CLOEXEC EFD_NONBLOCK),
    ..NONE
};

pub const FUTEX: Values = Values {
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
