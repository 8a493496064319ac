//! Calls for sockets that 32-bit programs make by one call, `socketcall`: an integer says which,
//! and its arguments are in memory.

use aya_ebpf::helpers::generated::bpf_probe_read_user;

use tracer_common::kernel::globals::NO_CALL;
use tracer_common::kernel::socket_calls::{ARGUMENTS_AT, CALLS, CODE};

use crate::context::Tracepoint;
use crate::offsets::SOCKETCALL;
use crate::task::Task;
use crate::user::Registers;

static SOCKET_CALLS: [u32; CALLS.len()] = CALLS;

/// Integers that are read at most: of six arguments, and as many as the verifier sees.
const MOST: usize = 8;

/// A call as the program means it.
pub struct Called {
    /// The system call number.
    pub nr: u32,
    /// Its arguments, where they are in no registers.
    in_memory: Option<[u32; MOST]>,
}

impl Called {
    /// Returns the arguments of the call.
    #[inline(always)]
    pub fn arguments<C: Tracepoint>(&self, registers: &Registers<C>, is_compat: bool) -> [u64; 6] {
        let Some([first, second, third, fourth, fifth, sixth, ..]) = self.in_memory else {
            return registers.arguments(is_compat);
        };
        [first, second, third, fourth, fifth, sixth].map(u64::from)
    }
}

/// Returns the call that the running thread is in, by its system call number: what it asks
/// `socketcall` for is that call, where its arguments can be read.
#[inline(always)]
pub fn called<C: Tracepoint>(nr: u32, registers: &Registers<C>) -> Called {
    if nr == NO_CALL || nr != SOCKETCALL.load() || !Task::<C>::current().is_in_compat_call() {
        return Called {
            nr,
            in_memory: None,
        };
    }
    let [asked, at, ..] = registers.arguments(true);
    #[expect(clippy::cast_possible_truncation, reason = "a register of 32 bits")]
    let asked = asked as usize;
    let Some(call) = SOCKET_CALLS.get(asked).copied() else {
        return Called {
            nr,
            in_memory: None,
        };
    };
    let mut arguments = [0; MOST];
    let size = (call >> ARGUMENTS_AT & 7) * 4;
    // SAFETY: the helper writes at most 28 bytes of `arguments`, and checks the address.
    let read = unsafe { bpf_probe_read_user(arguments.as_mut_ptr().cast(), size, at as *const _) };
    if size == 0 || read < 0 {
        return Called {
            nr,
            in_memory: None,
        };
    }
    Called {
        nr: call & CODE,
        in_memory: Some(arguments),
    }
}
