//! How a program gets at its arguments and at kernel memory: the one difference between a BTF
//! tracepoint and a raw one.

use core::arch::asm;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::{
    bpf_get_current_task, bpf_get_current_task_btf, bpf_task_pt_regs,
};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext};

use tracer_common::kernel::{COMM_BYTES, cpu_variable};

use crate::offsets::WORD_TYPE;

/// A thread name as two words: as bytes it would be moved byte by byte.
pub type CommWords = [u64; COMM_BYTES / 8];

/// The context of a program at a tracepoint: both kinds hold the arguments as 64-bit words.
pub trait Tracepoint: EbpfContext {
    /// Whether the program reads kernel memory as its own, as kernels have it since 5.11.
    const IS_DIRECT: bool;

    /// Returns the `N`th argument of the tracepoint, from 0.
    #[inline(always)]
    fn argument<const N: usize>(&self) -> u64 {
        let value;
        // Written out because the verifier refuses an access to the context at a computed
        // offset, and the compiler would compute one where two branches read two arguments.
        // SAFETY: a tracepoint that has an `N`th argument has it there; the verifier refuses the
        // program for one that has not.
        unsafe {
            asm!(
                "{value} = *(u64 *)({context} + {offset})",
                value = lateout(reg) value,
                context = in(reg) self.as_ptr(),
                offset = const N * 8,
                options(pure, readonly, nostack),
            );
        };
        value
    }

    /// Returns the `N`th argument of the tracepoint, from 0, as a truth value.
    #[inline(always)]
    fn flag<const N: usize>(&self) -> bool {
        // Only the lower byte of the word is the kernel's `bool`.
        self.argument::<N>() & 0xff != 0
    }

    /// Returns the `N`th argument of the tracepoint, from 0, as an address in the kernel.
    #[inline(always)]
    fn address<const N: usize>(&self) -> *const u8 {
        self.argument::<N>() as *const u8
    }

    /// Returns the running task, as an address that [`read`](Self::read) takes.
    fn current() -> *const u8;

    /// Returns the registers of the program of `running`, which is [`current`](Self::current): as
    /// they were when it came into the kernel. For kernels that have the helper `bpf_task_pt_regs`.
    fn registers(running: *const u8) -> *const u8;

    /// Returns an address that [`read`](Self::read) takes for a word or a half of one, wherever it
    /// is in the kernel. Only where [`WORD_TYPE`] is known.
    fn readable(address: *const u8) -> *const u8;

    /// Reads a value in the kernel; all zero when it cannot be read.
    ///
    /// # Safety
    ///
    /// `at` is an argument of the tracepoint, or was read from there, plus the offset of a field
    /// of type `T` in the struct it points to.
    unsafe fn read<T: Copy + Default>(at: *const T) -> T;

    /// Reads a thread name in the kernel; all zero when it cannot be read.
    ///
    /// # Safety
    ///
    /// As for [`read`](Self::read), for a field that is an array of 16 characters.
    unsafe fn read_comm(at: *const u8) -> CommWords;
}

impl Tracepoint for BtfTracePointContext {
    const IS_DIRECT: bool = true;

    #[inline(always)]
    fn current() -> *const u8 {
        // Since 5.11. Where it is not there, the program is not taken, and the raw one is.
        // SAFETY: the helper takes no argument.
        unsafe { bpf_get_current_task_btf() }.cast()
    }

    #[inline(always)]
    fn registers(running: *const u8) -> *const u8 {
        // SAFETY: the helper takes the running task.
        (unsafe { bpf_task_pt_regs(running.cast_mut().cast()) }) as *const u8
    }

    #[inline(always)]
    fn readable(address: *const u8) -> *const u8 {
        let readable: *const u8;
        // Written out so that it is one instruction, which the agent finds and makes a call. What
        // that may change is said here. SAFETY: the function only says of what type the address is.
        unsafe {
            asm!(
                "r0 = {function} ll",
                function = const cpu_variable::READABLE,
                lateout("r0") readable,
                inout("r1") address => _,
                inout("r2") u64::from(WORD_TYPE.load()) => _,
                lateout("r3") _,
                lateout("r4") _,
                lateout("r5") _,
                options(nostack),
            );
        };
        readable
    }

    #[inline(always)]
    unsafe fn read<T: Copy + Default>(at: *const T) -> T {
        // SAFETY: the verifier has checked that a field of this size is there, and the kernel
        // turns a fault on such a load into a zero. Volatile, so that the width stays as written.
        unsafe { at.read_volatile() }
    }

    #[inline(always)]
    unsafe fn read_comm(at: *const u8) -> CommWords {
        let (first, second);
        // Written out because the compiler would load an array of characters one by one, as
        // nothing is known of its alignment.
        // SAFETY: the verifier has checked that the array is there.
        unsafe {
            asm!(
                "{first} = *(u64 *)({at} + 0)",
                "{second} = *(u64 *)({at} + 8)",
                first = out(reg) first,
                second = lateout(reg) second,
                at = in(reg) at,
                options(readonly, nostack),
            );
        };
        [first, second]
    }
}

impl Tracepoint for RawTracePointContext {
    const IS_DIRECT: bool = false;

    #[inline(always)]
    fn current() -> *const u8 {
        // SAFETY: the helper takes no argument.
        (unsafe { bpf_get_current_task() }) as *const u8
    }

    #[inline(always)]
    fn registers(_: *const u8) -> *const u8 {
        // The other helper's task is a mere integer to the verifier.
        // SAFETY: the helper takes no argument.
        let running = unsafe { bpf_get_current_task_btf() };
        // SAFETY: the helper takes the running task.
        (unsafe { bpf_task_pt_regs(running) }) as *const u8
    }

    #[inline(always)]
    fn readable(address: *const u8) -> *const u8 {
        address
    }

    #[inline(always)]
    unsafe fn read<T: Copy + Default>(at: *const T) -> T {
        // SAFETY: the helper checks the address itself.
        unsafe { bpf_probe_read_kernel(at) }.unwrap_or_default()
    }

    #[inline(always)]
    unsafe fn read_comm(at: *const u8) -> CommWords {
        // SAFETY: the helper checks the address itself.
        unsafe { bpf_probe_read_kernel(at.cast::<CommWords>()) }.unwrap_or_default()
    }
}

/// The two programs of a tracepoint, made from the same code: one for it as BTF tracepoint, one
/// for it as raw tracepoint. The attribute's program calls the function as it is written here: a
/// large one would stay a function of its own, and be called even where nothing is recorded.
macro_rules! at_tracepoint {
    ($tracepoint:tt: $btf:ident, $raw:ident => $run:expr) => {
        #[doc = concat!("At the BTF tracepoint `", $tracepoint, "`.")]
        #[aya_ebpf::macros::btf_tracepoint(function = $tracepoint)]
        #[inline(always)]
        pub fn $btf(ctx: aya_ebpf::programs::BtfTracePointContext) -> i32 {
            $run(&ctx);
            0
        }

        #[doc = concat!("At the raw tracepoint `", $tracepoint, "`.")]
        #[aya_ebpf::macros::raw_tracepoint(tracepoint = $tracepoint)]
        #[inline(always)]
        pub fn $raw(ctx: aya_ebpf::programs::RawTracePointContext) -> i32 {
            $run(&ctx);
            0
        }
    };
}
pub(crate) use at_tracepoint;
