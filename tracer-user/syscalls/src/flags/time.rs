//! Clocks and timers.

use super::{NONE, Values, constants};

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
