//! A `task_struct`, read field by field.

use core::marker::PhantomData;

use aya_ebpf::helpers::bpf_probe_read_kernel;

use tracer_common::kernel::globals::NO_OFFSET;
use tracer_common::kernel::{COMM_BYTES, waits_in};

use crate::context::{CommWords, Tracepoint};
use crate::offsets::{
    CGROUPS_DEFAULT, COMPAT_STATUS, DEADLINE_THROTTLED_BIT, FAIR_QUEUE_RUN_QUEUE,
    FAIR_QUEUE_THROTTLED, IO_WAIT_BIT, NAMESPACE_INODE, PID_LEVEL, PID_UPIDS,
    REAL_TIME_QUEUE_THROTTLED, RUN_QUEUE_SWITCHES, SIGNAL_LIVE, TASK_CGROUPS, TASK_COMM, TASK_CPU,
    TASK_CRED, TASK_DEADLINE_BITS, TASK_EXIT_CODE, TASK_FAIR_QUEUE, TASK_FAULTS_OFF, TASK_FLAGS,
    TASK_IO_WAIT, TASK_LEADER, TASK_MM, TASK_ON_CPU, TASK_PID, TASK_PRIORITY, TASK_REAL_TIME_QUEUE,
    TASK_SIGNAL, TASK_STATE, TASK_STATUS, TASK_TGID, TASK_THREAD_PID, TASK_THREAD_POINTER,
    TASK_THROTTLED, THREAD_ID_BELOW, UPID_NAMESPACE,
};
use crate::pid::Pid;
use crate::sight::read;
use crate::subject::Subject;

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

/// Bytes of `struct upid`: a pid and a pointer.
const UPID_BYTES: usize = 16;

/// Flags of a task.
pub mod flags {
    /// It ends (`PF_EXITING`).
    pub const EXITING: u32 = 0x4;
    /// It is a thread of the kernel (`PF_KTHREAD`).
    pub const KERNEL_THREAD: u32 = 0x0020_0000;
}

/// A task that the tracepoint with context `C` was given.
pub struct Task<C> {
    base: *const u8,
    context: PhantomData<C>,
}

impl<C: Tracepoint> Task<C> {
    /// Returns the task that is the tracepoint's `N`th argument.
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

    /// Returns the task at this address.
    ///
    /// # Safety
    ///
    /// It is a `struct task_struct *` that the program was given.
    #[inline(always)]
    pub unsafe fn at(base: *const u8) -> Self {
        Self {
            base,
            context: PhantomData,
        }
    }

    /// Returns the task that runs.
    #[inline(always)]
    pub fn current() -> Self {
        Self {
            base: C::current(),
            context: PhantomData,
        }
    }

    /// Returns the thread's name.
    #[inline(always)]
    pub fn comm(&self) -> [u8; COMM_BYTES] {
        zerocopy::transmute!(self.name())
    }

    /// Returns the thread's name, as words.
    #[inline(always)]
    pub fn name(&self) -> CommWords {
        let at = self.base.wrapping_add(TASK_COMM.load() as usize);
        // SAFETY: `base` is a task (see `argument`), and `comm` an array of 16 characters in it,
        // which every kernel has.
        unsafe { C::read_comm(at) }
    }

    /// Tells whether it is the thread that serves the soft interrupts of a CPU: by its name.
    #[inline(always)]
    pub fn serves_softirqs(&self) -> bool {
        let at = self.base.wrapping_add(TASK_COMM.load() as usize);
        // SAFETY: as in `comm`, of which this is the first half.
        let first = unsafe { C::read(at.cast::<u64>()) };
        first == u64::from_ne_bytes(*b"ksoftirq")
    }

    /// Returns its address.
    #[inline(always)]
    pub fn address(&self) -> *const u8 {
        self.base
    }

    /// Returns the kernel's state bits.
    #[inline(always)]
    pub fn state(&self) -> u32 {
        // SAFETY: `base` is a task (see `argument`); the state is an int, and before 5.14 a long
        // whose lower half comes first and holds every bit.
        unsafe { field::<C, _>(self.base, TASK_STATE.load()) }
    }

    /// Tells whether a CPU runs it, or has not yet let go of it.
    #[inline(always)]
    pub fn is_on_cpu(&self) -> bool {
        // SAFETY: `base` is a task (see `argument`), and `on_cpu` an int of it.
        let on_cpu: u32 = unsafe { field::<C, _>(self.base, TASK_ON_CPU.load()) };
        on_cpu != 0
    }

    /// Returns the exit code as `wait` encodes it.
    #[inline(always)]
    pub fn exit_code(&self) -> u32 {
        // SAFETY: `base` is a task (see `argument`), and `exit_code` an int of it.
        unsafe { field::<C, _>(self.base, TASK_EXIT_CODE.load()) }
    }

    /// Returns the first thread of its process.
    #[inline(always)]
    pub fn leader(&self) -> Self {
        // SAFETY: `base` is a task (see `argument`), and `group_leader` a pointer in it.
        let leader: Address = unsafe { field::<C, _>(self.base, TASK_LEADER.load()) };
        Self {
            base: leader.0,
            context: PhantomData,
        }
    }

    /// Returns the thread in its own pid namespace; 0 when it cannot be read.
    #[inline(always)]
    pub fn ns_tid(&self) -> u32 {
        let (upids, level) = (PID_UPIDS.load(), PID_LEVEL.load());
        if upids == NO_OFFSET {
            return 0;
        }
        // SAFETY: `base` is a task (see `argument`), and `thread_pid` a pointer in it.
        let pid: Address = unsafe { field::<C, _>(self.base, TASK_THREAD_PID.load()) };
        // SAFETY: it is a `struct pid *`, and `level` an int of it.
        let level: u32 = unsafe { field::<C, _>(pid.0, level) };
        let at = upids as usize + level as usize * UPID_BYTES;
        // A helper, because the verifier allows no computed offset.
        // SAFETY: the helper checks the address.
        unsafe { bpf_probe_read_kernel(pid.0.wrapping_add(at).cast()) }.unwrap_or(0)
    }

    /// Returns the thread in the pid namespace with this inode; 0 when it has no pid there, or has
    /// ended.
    #[inline(always)]
    pub fn id_in(&self, namespace: u32) -> u32 {
        /// As deep as pid namespaces nest (`MAX_PID_NS_LEVEL`).
        const DEEPEST: u32 = 32;
        // SAFETY: `base` is a task (see `argument`), and `thread_pid` a pointer in it.
        let pid: Address = unsafe { field::<C, _>(self.base, TASK_THREAD_PID.load()) };
        // SAFETY: it is a `struct pid *`, and `level` an int of it.
        let level: u32 = unsafe { field::<C, _>(pid.0, PID_LEVEL.load()) };
        for depth in 0..=DEEPEST {
            if depth > level {
                break;
            }
            let at = PID_UPIDS.load() as usize + depth as usize * UPID_BYTES;
            let upid = pid.0.wrapping_add(at);
            let namespace_at = upid.wrapping_add(UPID_NAMESPACE.load() as usize);
            // Helpers here and below, because the verifier allows no computed offset.
            // SAFETY: the helper checks the address.
            let of: Address =
                unsafe { bpf_probe_read_kernel(namespace_at.cast()) }.unwrap_or_default();
            let inode_at = of.0.wrapping_add(NAMESPACE_INODE.load() as usize);
            // SAFETY: the helper checks the address.
            let found: u32 = unsafe { bpf_probe_read_kernel(inode_at.cast()) }.unwrap_or(0);
            if found == namespace {
                // SAFETY: the helper checks the address.
                return unsafe { bpf_probe_read_kernel(upid.cast()) }.unwrap_or(0);
            }
        }
        0
    }

    /// Returns its credentials by which others' access to it is judged.
    #[inline(always)]
    pub fn credentials(&self) -> Address {
        // SAFETY: `base` is a task (see `argument`), and `real_cred` a pointer in it.
        unsafe { field::<C, _>(self.base, TASK_CRED.load()) }
    }

    /// Returns its memory.
    #[inline(always)]
    pub fn memory(&self) -> Address {
        // SAFETY: `base` is a task (see `argument`), and `mm` a pointer in it.
        unsafe { field::<C, _>(self.base, TASK_MM.load()) }
    }

    /// Tells whether it is a thread of the kernel, which has no program.
    #[inline(always)]
    pub fn is_of_kernel(&self) -> bool {
        self.flags() & flags::KERNEL_THREAD != 0
    }

    /// Returns its [`flags`].
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        // SAFETY: `base` is a task (see `argument`), and `flags` an int of it.
        unsafe { field::<C, _>(self.base, TASK_FLAGS.load()) }
    }

    /// Tells whether the kernel reads or writes its memory without serving faults, as a tracer's
    /// programs do: what is not there is then an error of that access, and nothing is counted.
    #[inline(always)]
    pub fn has_faults_off(&self) -> bool {
        // SAFETY: `base` is a task (see `argument`), and `pagefault_disabled` an int of it.
        unsafe { field::<C, u32>(self.base, TASK_FAULTS_OFF.load()) != 0 }
    }

    /// Tells whether it waits for a device.
    #[inline(always)]
    pub fn is_in_io_wait(&self) -> bool {
        // SAFETY: `base` is a task (see `argument`), and the bit in these 32 of it.
        let bits: u32 = unsafe { field::<C, _>(self.base, TASK_IO_WAIT.load()) };
        bits >> (IO_WAIT_BIT.load() & 31) & 1 != 0
    }

    /// Returns why it cannot run although it is runnable, and has to leave its CPU to the next one:
    /// one of [`waits_in`].
    #[inline(always)]
    pub fn gives_way_for(&self, next: &Self) -> u8 {
        if self.is_out_of_group_quota() {
            waits_in::GROUP_QUOTA
        } else if self.is_out_of_budget() {
            waits_in::DEADLINE_BUDGET
        } else {
            self.gives_way_by_priority(next)
        }
    }

    /// As [`gives_way_for`](Self::gives_way_for), by what the kernel takes for more urgent.
    ///
    /// A real-time thread that could run goes before all normal ones: one of these gets its CPU
    /// only by what the kernel has left for them (`kernel.sched_rt_runtime_us`), whether it counts
    /// that for real-time threads, or has a server for the others, as since 6.12.
    #[inline(always)]
    fn gives_way_by_priority(&self, next: &Self) -> u8 {
        /// The first of normal threads; of `SCHED_DEADLINE` it is -1.
        const NORMAL: i32 = 100;
        if TASK_PRIORITY.load() == NO_OFFSET {
            return waits_in::UNKNOWN;
        }
        let (own, others) = (self.priority(), next.priority());
        if others >= own {
            // Of SCHED_DEADLINE it is not the priority that counts.
            let is_real_time = (0..NORMAL).contains(&own);
            let is_idle = next.tid().0 == 0;
            let is_limited = (others >= NORMAL && !is_idle) || self.is_out_of_real_time();
            return if is_real_time && is_limited {
                waits_in::REAL_TIME_LIMIT
            } else {
                waits_in::UNKNOWN
            };
        }
        if others < NORMAL {
            waits_in::HIGHER_PRIORITY
        } else {
            waits_in::UNKNOWN
        }
    }

    /// Returns its priority, the most urgent one first: up to 99 of real-time threads.
    #[inline(always)]
    fn priority(&self) -> i32 {
        // SAFETY: `base` is a task (see `argument`), and `prio` an int of it.
        unsafe { field::<C, _>(self.base, TASK_PRIORITY.load()) }
    }

    /// Tells whether the real-time threads of its control group have used up their time.
    #[inline(always)]
    fn is_out_of_real_time(&self) -> bool {
        if TASK_REAL_TIME_QUEUE.load() == NO_OFFSET || REAL_TIME_QUEUE_THROTTLED.load() == NO_OFFSET
        {
            return false;
        }
        let queue = read(Address(self.base), TASK_REAL_TIME_QUEUE.load()).unwrap_or(0_u64);
        let queue = Address(queue as *const u8);
        read(queue, REAL_TIME_QUEUE_THROTTLED.load()).unwrap_or(0_u32) != 0
    }

    /// Tells whether a control group that it is in has used up its time.
    #[inline(always)]
    pub fn is_out_of_group_quota(&self) -> bool {
        if TASK_THROTTLED.load() != NO_OFFSET {
            // SAFETY: `base` is a task (see `argument`), and `throttled` a bool of it.
            let is_throttled: u8 = unsafe { field::<C, _>(self.base, TASK_THROTTLED.load()) };
            return is_throttled != 0;
        }
        if FAIR_QUEUE_THROTTLED.load() == NO_OFFSET {
            return false;
        }
        // SAFETY: `base` is a task (see `argument`), and `se.cfs_rq` a pointer in it.
        let queue: Address = unsafe { field::<C, _>(self.base, TASK_FAIR_QUEUE.load()) };
        // SAFETY: it is a `struct cfs_rq *`, and `throttle_count` an int of it.
        let count: u32 = unsafe { field::<C, _>(queue.0, FAIR_QUEUE_THROTTLED.load()) };
        count != 0
    }

    /// Tells whether it runs by `SCHED_DEADLINE` and has used up what it may run in its period.
    #[inline(always)]
    fn is_out_of_budget(&self) -> bool {
        // SAFETY: `base` is a task (see `argument`), and the bit in these 32 of it.
        let bits: u32 = unsafe { field::<C, _>(self.base, TASK_DEADLINE_BITS.load()) };
        bits >> (DEADLINE_THROTTLED_BIT.load() & 31) & 1 != 0
    }

    /// Returns how many switches the CPU has made on whose run queue it is; 0 where that is not
    /// known.
    #[inline(always)]
    pub fn switches_of_its_cpu(&self) -> u64 {
        if TASK_FAIR_QUEUE.load() == NO_OFFSET || FAIR_QUEUE_RUN_QUEUE.load() == NO_OFFSET {
            return 0;
        }
        // SAFETY: `base` is a task (see `argument`), and `se.cfs_rq` a pointer in it, whatever
        // scheduler it has.
        let queue: Address = unsafe { field::<C, _>(self.base, TASK_FAIR_QUEUE.load()) };
        // SAFETY: it is a `struct cfs_rq *`, and the run queue a pointer in it.
        let queue: Address = unsafe { field::<C, _>(queue.0, FAIR_QUEUE_RUN_QUEUE.load()) };
        // SAFETY: it is a `struct rq *`, and the count a 64-bit integer in it.
        unsafe { field::<C, _>(queue.0, RUN_QUEUE_SWITCHES.load()) }
    }

    /// Returns its control group of version 2.
    #[inline(always)]
    pub fn control_group(&self) -> Address {
        // SAFETY: `base` is a task (see `argument`), and `cgroups` a pointer in it.
        let groups: Address = unsafe { field::<C, _>(self.base, TASK_CGROUPS.load()) };
        // SAFETY: it is a `struct css_set *`, and the group a pointer in it.
        unsafe { field::<C, _>(groups.0, CGROUPS_DEFAULT.load()) }
    }

    /// Tells whether the thread is in a system call of a 32-bit program.
    #[inline(always)]
    pub fn is_in_compat_call(&self) -> bool {
        // SAFETY: `base` is a task (see `argument`), and `thread_info.status` an int of it, or the
        // lower half of `thread_info.flags` one.
        let status: u32 = unsafe { field::<C, _>(self.base, TASK_STATUS.load()) };
        status & COMPAT_STATUS.load() != 0
    }

    /// Returns the CPU on whose run queue it is.
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

impl<C: Tracepoint> Subject for Task<C> {
    #[inline(always)]
    fn pid(&self) -> Pid {
        // SAFETY: `base` is a task (see `argument`), and `tgid` an int of it.
        Pid(unsafe { field::<C, _>(self.base, TASK_TGID.load()) })
    }

    #[inline(always)]
    fn tid(&self) -> Pid {
        // SAFETY: `base` is a task (see `argument`), and `pid` an int of it.
        Pid(unsafe { field::<C, _>(self.base, TASK_PID.load()) })
    }

    #[inline(always)]
    fn thread_id(&self) -> u64 {
        // SAFETY: `base` is a task (see `argument`), and the thread pointer a long of it.
        thread_id_of(unsafe { field::<C, _>(self.base, TASK_THREAD_POINTER.load()) })
    }
}

/// Returns the `pthread_t` of the thread with this thread pointer; 0 where that is not known, as on
/// arm64 of a program's first thread until it has first left a CPU.
#[inline(always)]
pub fn thread_id_of(thread_pointer: u64) -> u64 {
    let below = THREAD_ID_BELOW.load();
    if below == 0 || thread_pointer == 0 {
        return thread_pointer;
    }
    thread_pointer.wrapping_sub(below.into())
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
