//! Waiting for several descriptors and for futexes; clocks and timers.

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

pub const TIMER_FD: Values = Values {
    flags: constants!(TFD_CLOEXEC TFD_NONBLOCK),
    ..NONE
};

pub const TIMER_SET: Values = Values {
    flags: constants!(TFD_TIMER_ABSTIME TFD_TIMER_CANCEL_ON_SET),
    ..NONE
};

pub const CLOCK: Values = Values {
    mask: u32::MAX,
    values: constants!(
        CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID
        CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME
        CLOCK_REALTIME_ALARM CLOCK_BOOTTIME_ALARM CLOCK_TAI
    ),
    zero: "CLOCK_REALTIME",
    ..NONE
};

pub const SLEEP: Values = Values {
    flags: constants!(TIMER_ABSTIME),
    ..NONE
};

pub const INTERVAL_TIMER: Values = Values {
    mask: u32::MAX,
    values: constants!(ITIMER_REAL ITIMER_VIRTUAL ITIMER_PROF),
    zero: "ITIMER_REAL",
    ..NONE
};
