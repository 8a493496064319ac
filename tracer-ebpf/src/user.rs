//! Where the running thread is in user space.

use core::marker::PhantomData;

use aya_ebpf::bindings::BPF_F_USER_STACK;
use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_get_stack, bpf_task_pt_regs};

use tracer_common::kernel::globals::NO_OFFSET;

use crate::context::Tracepoint;
use crate::offsets::{
    COMPAT_OLD_MASK_AT, COMPAT_RT_SIGRETURN, COMPAT_SIGNAL_MASK_AT, HAS_TASK_PT_REGS,
    REGS_ARGUMENT_0, REGS_ARGUMENT_1, REGS_ARGUMENT_2, REGS_ARGUMENT_3, REGS_ARGUMENT_4,
    REGS_ARGUMENT_5, REGS_CALL, REGS_COMPAT_0, REGS_COMPAT_1, REGS_COMPAT_2, REGS_COMPAT_3,
    REGS_COMPAT_4, REGS_COMPAT_5, REGS_FRAME, REGS_IP, REGS_STACK, SIGNAL_MASK_AT,
};
use crate::task::field;

/// Returns where the running thread goes on in user space: behind its system call, or where it was
/// interrupted. 0 when it has no user space.
#[inline(always)]
pub fn address<C: Tracepoint>(ctx: &C) -> u64 {
    if HAS_TASK_PT_REGS.load() == 0 {
        return first_frame(ctx);
    }
    // SAFETY: the helper takes no argument.
    let task = unsafe { bpf_get_current_task_btf() };
    // SAFETY: the helper takes the running task.
    let registers = unsafe { bpf_task_pt_regs(task) } as *const u8;
    // SAFETY: the helper returns a `struct pt_regs *`, and the field is a long of it.
    unsafe { field::<C, _>(registers, REGS_IP.load()) }
}

/// Tells whether the running thread may be in an exec: where it cannot be asked, it may. The codes
/// are those of `execve` and `execveat` on any machine; none of them renames a thread elsewhere.
#[inline(always)]
pub fn may_be_in_exec<C: Tracepoint>(ctx: &C) -> bool {
    /// Bit of a call of the x32 kind.
    const X32: u32 = 1 << 30;
    call(ctx).is_none_or(|call| {
        matches!(
            call & !X32,
            11 | 59 | 221 | 281 | 322 | 358 | 387 | 520 | 545
        )
    })
}

/// Returns the system call number of the call that the running thread is in, where it can be asked.
#[inline(always)]
pub fn call<C: Tracepoint>(_: &C) -> Option<u32> {
    if HAS_TASK_PT_REGS.load() == 0 || REGS_CALL.load() == NO_OFFSET {
        return None;
    }
    // SAFETY: the helper takes no argument.
    let task = unsafe { bpf_get_current_task_btf() };
    // SAFETY: the helper takes the running task.
    let registers = unsafe { bpf_task_pt_regs(task) } as *const u8;
    // SAFETY: the helper returns a `struct pt_regs *`, and the field an int of it, or the lower
    // half of a long.
    Some(unsafe { field::<C, _>(registers, REGS_CALL.load()) })
}

/// Finds the first frame of its stack: the same, and takes longer.
#[inline(always)]
fn first_frame<C: Tracepoint>(ctx: &C) -> u64 {
    let mut frame = 0_u64;
    let flags = u64::from(BPF_F_USER_STACK);
    // SAFETY: the helper writes at most the 8 bytes of `frame`.
    let written = unsafe { bpf_get_stack(ctx.as_ptr(), (&raw mut frame).cast(), 8, flags) };
    if written == 8 { frame } else { 0 }
}

/// The registers of the program, as a system call or a fault left them.
pub struct Registers<C> {
    base: *const u8,
    context: PhantomData<C>,
}

impl<C: Tracepoint> Registers<C> {
    /// Returns the registers that are the tracepoint's `N`th argument.
    ///
    /// # Safety
    ///
    /// The `N`th argument is a `struct pt_regs *`.
    #[inline(always)]
    pub unsafe fn argument<const N: usize>(context: &C) -> Self {
        Self {
            base: context.address::<N>(),
            context: PhantomData,
        }
    }

    /// Returns the registers at this address.
    ///
    /// # Safety
    ///
    /// There is a `struct pt_regs`.
    #[inline(always)]
    pub unsafe fn at(base: *const u8) -> Self {
        Self {
            base,
            context: PhantomData,
        }
    }

    /// Returns where they are.
    #[inline(always)]
    pub fn base(&self) -> *const u8 {
        self.base
    }

    /// Returns where the program goes on.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.long(REGS_IP.load())
    }

    /// Returns the frame pointer, where the program has one; 0 where it is not known.
    #[inline(always)]
    pub fn frame(&self) -> u64 {
        self.long(REGS_FRAME.load())
    }

    /// Returns where the signals lie that are blocked once the signal handler has ended which a
    /// thread is about to leave.
    #[inline(always)]
    pub fn signal_mask(&self, nr: u32, is_compat: bool) -> u64 {
        let at = if !is_compat {
            SIGNAL_MASK_AT.load()
        } else if nr == COMPAT_RT_SIGRETURN.load() {
            COMPAT_SIGNAL_MASK_AT.load()
        } else {
            COMPAT_OLD_MASK_AT.load()
        };
        self.long(REGS_STACK.load()).wrapping_add(u64::from(at))
    }

    /// Returns the number of the system call; -1 for none.
    #[inline(always)]
    pub fn call(&self) -> u32 {
        // SAFETY: `base` is a `struct pt_regs *` (see `argument`), and the field an int of it, or
        // the lower half of a long.
        unsafe { field::<C, _>(self.base, REGS_CALL.load()) }
    }

    /// Returns the arguments of the system call, as registers of this machine hold them or, where
    /// `is_compat`, as those of a 32-bit program do.
    #[inline(always)]
    pub fn arguments(&self, is_compat: bool) -> [u64; 6] {
        if is_compat {
            return [
                self.long(REGS_COMPAT_0.load()),
                self.long(REGS_COMPAT_1.load()),
                self.long(REGS_COMPAT_2.load()),
                self.long(REGS_COMPAT_3.load()),
                self.long(REGS_COMPAT_4.load()),
                self.long(REGS_COMPAT_5.load()),
            ];
        }
        [
            self.long(REGS_ARGUMENT_0.load()),
            self.long(REGS_ARGUMENT_1.load()),
            self.long(REGS_ARGUMENT_2.load()),
            self.long(REGS_ARGUMENT_3.load()),
            self.long(REGS_ARGUMENT_4.load()),
            self.long(REGS_ARGUMENT_5.load()),
        ]
    }

    #[inline(always)]
    fn long(&self, offset: u32) -> u64 {
        // SAFETY: `base` is a `struct pt_regs *` (see `argument`), and the field a long of it.
        unsafe { field::<C, _>(self.base, offset) }
    }
}
