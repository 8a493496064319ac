//! A `task_struct`, read field by field.

use core::marker::PhantomData;

use tracer_common::kernel::COMM_BYTES;
use tracer_common::kernel::globals::NO_OFFSET;

use crate::context::Tracepoint;
use crate::offsets::{
    SIGNAL_LIVE, TASK_COMM, TASK_CPU, TASK_EXIT_CODE, TASK_FSBASE, TASK_PID, TASK_SIGNAL,
    TASK_STATE, TASK_TGID,
};

/// Reads the field of type `T` that lies `offset` bytes into the struct at `base`; all zero when
/// the kernel has no such field.
///
/// # Safety
///
/// `base` is an argument of the tracepoint or was read from there, and `offset` is [`NO_OFFSET`]
/// or that of a field of type `T` in the struct `base` points to.
#[inline(always)]
pub unsafe fn field<C: Tracepoint, T: Copy + Default>(base: *const u8, offset: u32) -> T {
    if offset == NO_OFFSET {
        return T::default();
    }
    // SAFETY: as promised by the caller.
    unsafe { C::read(base.wrapping_add(offset as usize).cast()) }
}

/// A task that the tracepoint with context `C` was given.
pub struct Task<C> {
    base: *const u8,
    context: PhantomData<C>,
}

impl<C: Tracepoint> Task<C> {
    /// The task that is the tracepoint's `N`th argument.
    ///
    /// # Safety
    ///
    /// The `N`th argument is a `struct task_struct *`.
    #[inline(always)]
    pub unsafe fn argument<const N: usize>(context: &C) -> Self {
        Self {
            base: context.address::<N>(),
            context: PhantomData,
        }
    }

    /// The thread, in the initial pid namespace.
    #[inline(always)]
    pub fn tid(&self) -> u32 {
        // SAFETY: `base` is a task (see `argument`), and `pid` an int of it.
        unsafe { field::<C, _>(self.base, TASK_PID.load()) }
    }

    /// The process, in the initial pid namespace.
    #[inline(always)]
    pub fn pid(&self) -> u32 {
        // SAFETY: `base` is a task (see `argument`), and `tgid` an int of it.
        unsafe { field::<C, _>(self.base, TASK_TGID.load()) }
    }

    /// The thread's name.
    #[inline(always)]
    pub fn comm(&self) -> [u8; COMM_BYTES] {
        let at = self.base.wrapping_add(TASK_COMM.load() as usize);
        // SAFETY: `base` is a task (see `argument`), and `comm` an array of 16 characters in it,
        // which every kernel has.
        let words = unsafe { C::read_comm(at) };
        zerocopy::transmute!(words)
    }

    /// The kernel's state bits.
    #[inline(always)]
    pub fn state(&self) -> u32 {
        // SAFETY: `base` is a task (see `argument`); the state is an int, and before 5.14 a long
        // whose lower half comes first and holds every bit.
        unsafe { field::<C, _>(self.base, TASK_STATE.load()) }
    }

    /// The exit code as `wait` encodes it.
    #[inline(always)]
    pub fn exit_code(&self) -> u32 {
        // SAFETY: `base` is a task (see `argument`), and `exit_code` an int of it.
        unsafe { field::<C, _>(self.base, TASK_EXIT_CODE.load()) }
    }

    /// The thread's `pthread_t`; 0 where the kernel does not keep it.
    #[inline(always)]
    pub fn thread_id(&self) -> u64 {
        // SAFETY: `base` is a task (see `argument`), and `thread.fsbase` a long of it.
        unsafe { field::<C, _>(self.base, TASK_FSBASE.load()) }
    }

    /// The CPU on whose run queue it is.
    #[inline(always)]
    pub fn cpu(&self) -> u32 {
        // SAFETY: `base` is a task (see `argument`), and `cpu` an int of it.
        unsafe { field::<C, _>(self.base, TASK_CPU.load()) }
    }

    /// Threads of its process that have not begun to exit.
    #[inline(always)]
    pub fn live_threads(&self) -> u32 {
        let offset = TASK_SIGNAL.load();
        if offset == NO_OFFSET {
            return 0;
        }
        let at = self.base.wrapping_add(offset as usize).cast::<Address>();
        // SAFETY: `base` is a task (see `argument`), and `signal` a pointer in it.
        let signal = unsafe { C::read(at) };
        // SAFETY: `signal` is a `struct signal_struct *`, and `live` an int of it.
        unsafe { field::<C, _>(signal.0, SIGNAL_LIVE.load()) }
    }
}

/// An address in the kernel that was read there, null by default.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Address(pub *const u8);

impl Default for Address {
    fn default() -> Self {
        Self(core::ptr::null())
    }
}
