//! Three words of thread-local memory, and what the thread pointer leads to.
//!
//! On x86-64 and arm64 they are reached by the *initial-exec* model: one load, no call, and no
//! allocation on a thread's first use. So a signal handler can reach them even when the library was
//! loaded by `dlopen()`.

use std::sync::atomic::AtomicIsize;
use std::sync::atomic::Ordering::Relaxed;

/// Offset of `struct rseq` from the thread pointer, as the C library says; 0 when it does not.
static RSEQ_OFFSET: AtomicIsize = AtomicIsize::new(0);

/// Finds out where threads have their `struct rseq`. Called when the library is loaded.
#[inline]
pub(super) fn prepare() {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return;
    }
    // SAFETY: both names are strings ended by a null; the default scope needs no handle.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    // SAFETY: as above.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
    if offset.is_null() || size.is_null() {
        return;
    }
    // SAFETY: the C library documents it as `const unsigned int`; 0 when rseq is not registered.
    let size = unsafe { size.cast::<u32>().read() };
    if size > 0 {
        // SAFETY: the C library documents it as `const ptrdiff_t`.
        RSEQ_OFFSET.store(unsafe { offset.cast::<isize>().read() }, Relaxed);
    }
}

/// Returns the `struct rseq` that the C library has registered for this thread; null where it has
/// not.
pub(super) fn registered_rseq() -> *mut u8 {
    let offset = RSEQ_OFFSET.load(Relaxed);
    // The CPU is its second word: -1 where the kernel does not know the structure. (-2 is the C
    // library's word where it could not register any, and then `__rseq_size` is 0.)
    if offset == 0 || cpu_plus_one(offset) == 0 {
        return std::ptr::null_mut();
    }
    let address = thread_pointer().wrapping_add_signed(i64::try_from(offset).unwrap_or(0));
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

/// Returns the kernel's word of the CPU, plus one: 0 where the kernel has not registered the
/// thread, and on the 65,536th CPU.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
fn plus_one(cpu: u32) -> u16 {
    let [low, high, ..] = cpu.wrapping_add(1).to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// Returns the CPU that this thread runs on plus one, or 0 where it is not known.
#[inline(always)]
pub(super) fn current_cpu_plus_one() -> u16 {
    cpu_plus_one(RSEQ_OFFSET.load(Relaxed))
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use libc::c_void;
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.linux_trace_thread, \"awT\", @nobits",
        ".globl linux_trace_thread",
        ".hidden linux_trace_thread",
        ".type linux_trace_thread, @object",
        ".size linux_trace_thread, 32",
        ".balign 16",
        "linux_trace_thread:",
        ".zero 32",
        ".popsection",
    );

    #[inline(always)]
    pub fn get() -> *mut c_void {
        let state: *mut c_void;
        // SAFETY: reads this thread's own copy of a variable defined above.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + linux_trace_thread@GOTTPOFF]",
                "mov {at}, qword ptr fs:[{at}]",
                at = out(reg) state,
                options(nostack, preserves_flags, readonly),
            );
        }
        state
    }

    pub fn set(state: *mut c_void) {
        // SAFETY: writes this thread's own copy of a variable defined above.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + linux_trace_thread@GOTTPOFF]",
                "mov qword ptr fs:[{at}], {state}",
                at = out(reg) _,
                state = in(reg) state,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Sets the state, if it is null. This is one instruction: a handler runs before or after it.
    pub fn set_if_null(state: *mut c_void) -> bool {
        let found: *mut c_void;
        // SAFETY: compares and writes this thread's own copy of a variable defined above.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + linux_trace_thread@GOTTPOFF]",
                "cmpxchg qword ptr fs:[{at}], {state}",
                at = out(reg) _,
                state = in(reg) state,
                inout("rax") std::ptr::null_mut::<c_void>() => found,
                options(nostack),
            );
        }
        found.is_null()
    }

    pub fn is_ending() -> bool {
        let word: u64;
        // SAFETY: reads this thread's own copy of a variable defined above.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + linux_trace_thread@GOTTPOFF]",
                "mov {at}, qword ptr fs:[{at} + 8]",
                at = out(reg) word,
                options(nostack, preserves_flags, readonly),
            );
        }
        word != 0
    }

    pub fn set_ending() {
        // SAFETY: writes this thread's own copy of a variable defined above.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + linux_trace_thread@GOTTPOFF]",
                "mov qword ptr fs:[{at} + 8], 1",
                at = out(reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Returns the kernel's identifier of the thread, once it was [set](set_tid); 0 before.
    #[inline(always)]
    pub fn tid() -> u32 {
        let word: u64;
        // SAFETY: reads this thread's own copy of a variable defined above.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + linux_trace_thread@GOTTPOFF]",
                "mov {at}, qword ptr fs:[{at} + 16]",
                at = out(reg) word,
                options(nostack, preserves_flags, readonly),
            );
        }
        u32::try_from(word).unwrap_or(0)
    }

    pub fn set_tid(tid: u32) {
        // SAFETY: writes this thread's own copy of a variable defined above.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + linux_trace_thread@GOTTPOFF]",
                "mov qword ptr fs:[{at} + 16], {tid}",
                at = out(reg) _,
                tid = in(reg) u64::from(tid),
                options(nostack, preserves_flags),
            );
        }
    }

    /// Returns the thread's `pthread_t`: in both C libraries of this architecture it is the thread
    /// pointer.
    pub fn thread_id() -> u64 {
        let pointer: u64;
        // SAFETY: the first word of the thread control block is its own address, by the ABI.
        unsafe {
            asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
        }
        pointer
    }

    pub use thread_id as thread_pointer;

    /// Returns the CPU plus one, from the kernel's `struct rseq`; 0 where that is not available.
    #[inline(always)]
    pub fn cpu_plus_one(rseq_offset: isize) -> u16 {
        if rseq_offset == 0 {
            return 0;
        }
        let cpu: u32;
        // SAFETY: the offset came from the C library, which has registered the structure for every
        // thread; `cpu_id` is its second word.
        unsafe {
            asm!(
                "mov {cpu:e}, dword ptr fs:[{offset} + 4]",
                cpu = out(reg) cpu,
                offset = in(reg) rseq_offset,
                options(nostack, preserves_flags, readonly),
            );
        }
        super::plus_one(cpu)
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use libc::c_void;
    use std::arch::{asm, global_asm};
    use std::ptr;
    use std::sync::atomic::AtomicPtr;
    use std::sync::atomic::Ordering::Relaxed;

    global_asm!(
        ".pushsection .tbss.linux_trace_thread, \"awT\", @nobits",
        ".globl linux_trace_thread",
        ".hidden linux_trace_thread",
        ".type linux_trace_thread, @object",
        ".size linux_trace_thread, 32",
        ".balign 16",
        "linux_trace_thread:",
        ".zero 32",
        ".popsection",
    );

    /// Returns this thread's own words. They are atomic since a handler may come in between: each
    /// access is done either before the handler or after it.
    #[inline(always)]
    fn words() -> &'static [AtomicPtr<c_void>; 3] {
        let at: *const [AtomicPtr<c_void>; 3];
        // SAFETY: computes an address from what the linker has written down and from the thread
        // pointer.
        unsafe {
            asm!(
                "adrp {at}, :gottprel:linux_trace_thread",
                "ldr {at}, [{at}, :gottprel_lo12:linux_trace_thread]",
                "mrs {thread}, tpidr_el0",
                "add {at}, {at}, {thread}",
                at = out(reg) at,
                thread = out(reg) _,
                options(nostack, preserves_flags, readonly),
            );
        }
        // SAFETY: the variable is defined above, and this thread's copy of it lives as long as the
        // thread, which is the only one that gets the reference.
        unsafe { &*at }
    }

    #[inline(always)]
    pub fn get() -> *mut c_void {
        let [state, ..] = words();
        state.load(Relaxed)
    }

    pub fn set(state: *mut c_void) {
        let [word, ..] = words();
        word.store(state, Relaxed);
    }

    /// Sets the state, if it is null.
    pub fn set_if_null(state: *mut c_void) -> bool {
        let [word, ..] = words();
        let null = ptr::null_mut();
        word.compare_exchange(null, state, Relaxed, Relaxed).is_ok()
    }

    pub fn is_ending() -> bool {
        let [_, ending, _] = words();
        !ending.load(Relaxed).is_null()
    }

    pub fn set_ending() {
        let [_, ending, _] = words();
        ending.store(ptr::without_provenance_mut(1), Relaxed);
    }

    /// Returns the kernel's identifier of the thread, once it was [set](set_tid); 0 before.
    #[inline(always)]
    pub fn tid() -> u32 {
        let [_, _, tid] = words();
        u32::try_from(tid.load(Relaxed).addr()).unwrap_or(0)
    }

    pub fn set_tid(tid: u32) {
        let [_, _, word] = words();
        let tid = usize::try_from(tid).unwrap_or(0);
        word.store(ptr::without_provenance_mut(tid), Relaxed);
    }

    /// Returns the thread's `pthread_t`: the address of a structure below the thread pointer, whose
    /// size only the C library knows.
    pub fn thread_id() -> u64 {
        // SAFETY: takes nothing and cannot fail.
        unsafe { libc::pthread_self() }
    }

    #[inline(always)]
    pub fn thread_pointer() -> u64 {
        let pointer: u64;
        // SAFETY: reads a register.
        unsafe {
            asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
        }
        pointer
    }

    /// Returns the CPU plus one, from the kernel's `struct rseq`; 0 where that is not available.
    #[inline(always)]
    pub fn cpu_plus_one(rseq_offset: isize) -> u16 {
        if rseq_offset == 0 {
            return 0;
        }
        let cpu: u32;
        // SAFETY: the offset came from the C library, which has registered the structure for every
        // thread; `cpu_id` is its second word.
        unsafe {
            asm!(
                "mrs {at}, tpidr_el0",
                "add {at}, {at}, {offset}",
                "ldr {cpu:w}, [{at}, #4]",
                at = out(reg) _,
                cpu = out(reg) cpu,
                offset = in(reg) rseq_offset,
                options(nostack, preserves_flags, readonly),
            );
        }
        super::plus_one(cpu)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    use libc::c_void;
    use std::cell::Cell;

    thread_local! {
        static STATE: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
        static IS_ENDING: Cell<bool> = const { Cell::new(false) };
        static TID: Cell<u32> = const { Cell::new(0) };
    }

    pub fn tid() -> u32 {
        TID.with(Cell::get)
    }

    pub fn set_tid(tid: u32) {
        TID.with(|cell| cell.set(tid));
    }

    pub fn get() -> *mut c_void {
        STATE.with(Cell::get)
    }

    pub fn set(state: *mut c_void) {
        STATE.with(|cell| cell.set(state));
    }

    /// Sets the state, if it is null.
    pub fn set_if_null(state: *mut c_void) -> bool {
        let is_null = get().is_null();
        if is_null {
            set(state);
        }
        is_null
    }

    pub fn is_ending() -> bool {
        IS_ENDING.with(Cell::get)
    }

    pub fn set_ending() {
        IS_ENDING.with(|cell| cell.set(true));
    }

    pub fn thread_id() -> u64 {
        // SAFETY: takes nothing and cannot fail.
        unsafe { libc::pthread_self() as u64 }
    }

    pub use thread_id as thread_pointer;

    pub fn cpu_plus_one(_rseq_offset: isize) -> u16 {
        0
    }
}

use arch::{cpu_plus_one, thread_pointer};
pub(crate) use arch::{get, is_ending, set, set_ending, set_if_null, set_tid, thread_id, tid};
