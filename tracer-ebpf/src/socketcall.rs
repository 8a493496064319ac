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

/// Bits of the number of their bytes.
const MOST_BYTES: u32 = 28;

/// A call as the program means it.
pub struct Called {
    /// The system call number.
    pub nr: u32,
    /// Bytes of its arguments that are in memory; 0: they are in registers.
    bytes: u32,
}

impl Called {
    /// Returns the arguments of the call.
    #[inline(always)]
    pub fn arguments<C: Tracepoint>(&self, registers: &Registers<C>, is_compat: bool) -> [u64; 6] {
        if self.bytes == 0 {
            return registers.arguments(is_compat);
        }
        // Once more: held from the first time, they would take the space of others on the stack.
        let arguments = in_memory(registers, self.bytes).unwrap_or_default();
        let [first, second, third, fourth, fifth, sixth, ..] = arguments;
        [first, second, third, fourth, fifth, sixth].map(u64::from)
    }
}

/// Reads so many bytes of arguments that are where the second argument says.
#[inline(always)]
fn in_memory<C: Tracepoint>(registers: &Registers<C>, bytes: u32) -> Option<[u32; MOST]> {
    let [_, at, ..] = registers.arguments(true);
    let mut arguments = [0; MOST];
    let to = arguments.as_mut_ptr().cast();
    // SAFETY: the helper writes at most 28 bytes of `arguments`, and checks the address.
    let read = unsafe { bpf_probe_read_user(to, bytes & MOST_BYTES, at as *const _) };
    (read >= 0).then_some(arguments)
}

/// Returns the call that the running thread is in, by its system call number: what it asks
/// `socketcall` for is that call, where its arguments can be read.
#[inline(always)]
pub fn called<C: Tracepoint>(nr: u32, registers: &Registers<C>) -> Called {
    let itself = Called { nr, bytes: 0 };
    if nr == NO_CALL || nr != SOCKETCALL.load() || !Task::<C>::current().is_in_compat_call() {
        return itself;
    }
    let [asked, ..] = registers.arguments(true);
    #[expect(clippy::cast_possible_truncation, reason = "a register of 32 bits")]
    let asked = asked as usize;
    let Some(call) = SOCKET_CALLS.get(asked).copied() else {
        return itself;
    };
    let bytes = (call >> ARGUMENTS_AT & 7) * 4;
    if bytes == 0 || in_memory(registers, bytes).is_none() {
        return itself;
    }
    Called {
        nr: call & CODE,
        bytes,
    }
}
