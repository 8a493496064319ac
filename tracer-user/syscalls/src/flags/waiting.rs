//! Waiting for several descriptors.

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
