//! Signals.

use super::{NONE, Values, constants};

pub const SIGNAL_FD: Values = Values {
    flags: constants!(SFD_CLOEXEC SFD_NONBLOCK),
    ..NONE
};

pub const MASK_HOW: Values = Values {
    mask: u32::MAX,
    values: constants!(SIG_BLOCK SIG_UNBLOCK SIG_SETMASK),
    zero: "SIG_BLOCK",
    ..NONE
};
