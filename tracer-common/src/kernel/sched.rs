//! Data of the scheduler's events.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{CGROUP_PATH_BYTES, COMM_BYTES, RecordHeader};
use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_SWITCH_IN`.
    pub struct SwitchInData {
        /// Process that had the CPU before.
        #[shown(Pid)]
        pub prev_pid: u32,
        /// Thread that had the CPU before; 0 for the idle task.
        #[shown(Pid)]
        pub prev_tid: u32,
        /// Its name.
        #[shown(Comm)]
        pub prev_comm: [u8; COMM_BYTES],
        /// Whether others had the CPU too while this thread waited for it: 0: not known, 1: the
        /// thread that is named here had it all the time, 2: others had it before, 3: not known,
        /// since the kernel did not report the wake-up with which the wait began ([`others`]).
        #[shown(Others)]
        pub others: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// Whether more threads than the last one had a CPU while another thread waited for it.
pub mod others {
    /// It is not known: where the wait began was not recorded, or it was on another CPU.
    pub const UNKNOWN: u32 = 0;
    /// The last one had it all the time.
    pub const NONE: u32 = 1;
    /// Others had it before.
    pub const SOME: u32 = 2;
    /// It is not known: the thread had left its CPU to wait for something else, and no wake-up of
    /// it was reported, though wake-ups are recorded.
    pub const NOT_WOKEN: u32 = 3;
}

event_data! {
    /// Data of `LINUX_TRACE_SWITCH_OUT`.
    pub struct SwitchOutData {
        /// Process that gets the CPU.
        #[shown(Pid)]
        pub next_pid: u32,
        /// Thread that gets the CPU; 0 for the idle task.
        #[shown(Pid)]
        pub next_tid: u32,
        /// Its name.
        #[shown(Comm)]
        pub next_comm: [u8; COMM_BYTES],
        /// The kernel's state bits of the thread that leaves (`task_struct::__state`).
        #[shown(TaskState)]
        pub state: u32,
        /// 1: it was runnable and had to give way.
        #[shown(ShortFlag)]
        pub preempted: u8,
        /// Context that a thread blocks in: 0: it does not block, or it is not known, 1: a system
        /// call, 2: one of a 32-bit program, 3: a page fault or another exception, 4: its exit, 5:
        /// a thread of the kernel, in whatever it does. And 128 where it waits for a device. Of a
        /// thread that has to give way, why: 6: its control group has used up its time, 7: it has
        /// used up its budget (`SCHED_DEADLINE`), 8: real-time threads have used up the time that
        /// they may have together, 9: to a thread of a higher real-time priority
        /// ([`waits_in`]).
        #[shown(WaitsIn, IoWait as "io_wait")]
        pub waits_in: u8,
        /// The number of that system call.
        pub syscall: u16,
        /// How long it had the CPU, in nanoseconds: from the switch to it to this one. 0: the
        /// switch to it was not seen.
        #[shown(U64)]
        pub ran_ns: u64,
    }
}

/// Contexts that a thread blocks in.
pub mod waits_in {
    /// It does not block, or it is not known.
    pub const UNKNOWN: u8 = 0;
    /// A system call.
    pub const SYSCALL: u8 = 1;
    /// A system call of a 32-bit program.
    pub const COMPAT_SYSCALL: u8 = 2;
    /// A page fault, or, rarely, another exception: it came from its program, and by no system
    /// call.
    pub const FAULT: u8 = 3;
    /// It ends.
    pub const EXIT: u8 = 4;
    /// It is a thread of the kernel.
    pub const KERNEL: u8 = 5;
    /// It does not block: its control group has used up its time (`cpu.max`).
    pub const GROUP_QUOTA: u8 = 6;
    /// It does not block: it has used up its budget (`SCHED_DEADLINE`).
    pub const DEADLINE_BUDGET: u8 = 7;
    /// It does not block: real-time threads have used up the time that they may have together, and
    /// the kernel has the rest for others.
    pub const REAL_TIME_LIMIT: u8 = 8;
    /// It does not block: it has to give way to a thread of a higher real-time priority.
    pub const HIGHER_PRIORITY: u8 = 9;
    /// Bit: it waits for a device. The kernel counts the CPU's time as `iowait` meanwhile.
    pub const IO: u8 = 1 << 7;
}

event_data! {
    /// Data of `LINUX_TRACE_WAKEUP`.
    pub struct WakeupData {
        /// CPU on whose run queue the thread was put.
        #[shown(U32)]
        pub target_cpu: u32,
        /// 1: the thread never ran before.
        #[shown(Flag as "new")]
        pub new_thread: u32,
        /// Process that asked for the wake-up, where a thread or its packet did; 0 for the idle
        /// task, an interrupt, or when it is not known.
        #[shown(Pid)]
        pub waker_pid: u32,
        /// Its thread.
        #[shown(Pid)]
        pub waker_tid: u32,
        /// The name of that thread; empty when no thread asked.
        #[shown(Comm)]
        pub waker_comm: [u8; COMM_BYTES],
        /// Context that asked: 0: not known, 1: a thread, 2: an interrupt, 3: a soft interrupt, 4:
        /// a high-resolution timer, 5: another timer, 6: a soft interrupt that handed over a packet
        /// of the thread that is named, which still had the CPU ([`waker_context`]).
        #[shown(WakerContext)]
        pub waker_context: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// Contexts that ask for a wake-up.
pub mod waker_context {
    /// It is not known.
    pub const UNKNOWN: u32 = 0;
    /// A thread, or the idle task.
    pub const THREAD: u32 = 1;
    /// An interrupt of a device or of another CPU. The interrupted thread has nothing to do with
    /// it.
    pub const IRQ: u32 = 2;
    /// A soft interrupt.
    pub const SOFTIRQ: u32 = 3;
    /// A high-resolution timer, in the interrupt of its clock.
    pub const HRTIMER: u32 = 4;
    /// A timer, in a soft interrupt.
    pub const TIMER: u32 = 5;
    /// A packet that a thread has sent within the machine, in a soft interrupt that this thread
    /// itself serves.
    pub const PACKET: u32 = 6;
}

event_data! {
    /// Data of `LINUX_TRACE_MIGRATE`.
    pub struct MigrateData {
        /// CPU that it leaves.
        #[shown(U32)]
        pub from_cpu: u32,
        /// CPU on whose run queue it will be.
        #[shown(U32)]
        pub to_cpu: u32,
    }
}

event_data! {
    /// Data of `LINUX_TRACE_THROTTLE`: comes right before the switch away of the thread.
    pub struct ThrottleData {
        /// The control group whose time is used up, the thread's or one that this is in: the inode
        /// of its folder.
        #[shown(U64)]
        pub id: u64,
        /// How deep the control group is: 0 for the root.
        #[shown(U32)]
        pub level: u32,
        /// Zero.
        pub reserved: u32,
        /// The path of the control group from its root, ended by a null. One that is too long
        /// begins with "...", and has the innermost groups. What follows the null is removed.
        #[shown(Text)]
        pub path: [u8; CGROUP_PATH_BYTES],
    }
}

/// Slots in the map `WAKERS`: a power of two.
pub const WAKER_SLOTS: u32 = 16384;

/// Waker of a thread: an entry of the map `WAKERS`, whose slot is the tid of the thread that is
/// woken modulo [`WAKER_SLOTS`].
///
/// Written where the wake-up is asked for, read where the thread becomes runnable. Where two
/// threads of one slot are woken at the same time, one of them is recorded without its waker. A
/// hash map would hold both, and take longer than recording the event does.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Waker {
    /// From the lowest bit: thread and process that ask, 22 bits each; the [`waker_context`], 4
    /// bits; and what is left of the number of the thread that is woken. One word, so that it is
    /// never half of one and half of another. 0: no waker.
    pub who: u64,
    /// The name of the thread that asks.
    pub comm: [u8; COMM_BYTES],
    /// Zero.
    pub reserved: u64,
}

/// Slots in the map `QUEUED`: a power of two.
pub const QUEUED_SLOTS: u32 = 16384;

/// Since which of a CPU's switches a thread waits for it, or that it waits for something else: an
/// entry of the map `QUEUED`, whose slot is the tid of the thread modulo [`QUEUED_SLOTS`]. 0: it
/// does neither, or this is not known.
///
/// Written where a thread leaves its CPU, or becomes runnable; read where it gets the CPU. Of two
/// threads of one slot that wait at the same time, nothing is known of one.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Queued {
    /// From the lowest bit: how many switches the CPU has made by then, modulo 2^32; the CPU, 16
    /// bits; and what is left of the number of the thread, plus 1. One word, so that it is never
    /// half of one and half of another. [`QUEUED_ASLEEP`] where it waits for something else: CPU
    /// and switches are 0 then.
    pub since: u64,
}

/// Bit of [`Queued::since`]: the thread has left its CPU to wait for something else, while wake-ups
/// were recorded, and was not woken since.
pub const QUEUED_ASLEEP: u64 = 1 << 63;

/// Traced thread that has a CPU: an entry of the map `RUNNING`, by the CPU's index. As long as two
/// cache lines, so that CPUs do not disturb each other.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Running {
    /// The thread; 0 for one that is not traced.
    pub tid: u64,
    /// When it was switched to.
    pub since_ns: u64,
    /// How far a program's registers are from the stack of its thread, which is the same for all
    /// threads; 0 until it is measured.
    pub registers: u64,
    /// System calls that traced threads have begun on this CPU while the programs at system calls
    /// were attached. Only grows.
    pub calls: u64,
    /// How long traced threads have had this CPU, in nanoseconds, up to the last switch. Only
    /// grows.
    pub ran_ns: u64,
    /// When the run of a program at a system call began that is timed; 0 where none is.
    pub timed_since_ns: u64,
    /// Runs of the programs at system calls that were timed: of one call in [`TIMED_EVERY`], that
    /// of its entry and that of its exit. Only grows.
    pub timed: u64,
    /// How long these took, in nanoseconds. Only grows.
    pub timed_ns: u64,
    /// Switches to and from traced threads, wake-ups and page faults that were recorded on this
    /// CPU. Only grows.
    pub recorded: u64,
    /// Zero.
    pub reserved: [u64; 7],
}

/// The programs at system calls time their runs for one call in so many: a power of two.
pub const TIMED_EVERY: u64 = 32;

/// Longest run of a program that counts among those that are timed, in nanoseconds: a longer one
/// was interrupted.
pub const TIMED_AT_MOST_NS: u64 = 8192;

/// The event type of a [`SwitchRecord`]: no event has it.
pub const SWITCH_RECORD: u16 = 0x7fff;

/// Record of a switch from one traced thread to another: two events in one, with one time. The
/// header is that of the switch away, with [`SWITCH_RECORD`] as its type.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SwitchRecord {
    /// The thread that leaves.
    pub header: RecordHeader,
    /// Data of the switch away. The thread that comes is named there.
    pub out: SwitchOutData,
    /// The `pthread_t` of the thread that comes.
    pub next_thread_id: u64,
    /// Whether others had the CPU too while the thread that comes waited for it ([`others`]).
    pub others: u32,
    /// Zero.
    pub reserved: u32,
    /// The name of the thread that leaves.
    pub prev_comm: [u8; COMM_BYTES],
}

event_types! {
    SWITCH_IN = 37 {
        about: "a thread got a CPU",
        family: "switch",
        data: SwitchInData,
        recorded_at: [sched_switch],
        is: [frequent],
    }
    SWITCH_OUT = 38 {
        about: "a thread gave up its CPU, or lost it",
        family: "switch",
        data: SwitchOutData,
        recorded_at: [sched_switch],
        is: [frequent],
    }
    WAKEUP = 39 {
        about: "a thread became runnable",
        family: "wakeup",
        data: WakeupData,
        recorded_at: [sched_wakeup, sched_wakeup_new],
        helped_by: [napi_poll, netif_receive_skb, netif_rx, net_dev_queue, sched_waking],
        is: [frequent],
    }
    THROTTLE = 59 {
        about: "a thread has to wait: a control group has used up its time",
        family: "switch",
        data: ThrottleData,
        ends_with: path,
        words: "by {path}",
        recorded_at: [sched_switch],
    }
    MIGRATE = 47 {
        about: "a thread was moved to another CPU",
        family: "migrate",
        data: MigrateData,
        words: "cpu {from_cpu} → {to_cpu}",
        recorded_at: [sched_migrate_task],
        is: [frequent, when_named],
    }
}

const _: () = {
    assert!(offset_of!(SwitchOutData, state) == 24);
    assert!(offset_of!(SwitchOutData, preempted) == 28);
    assert!(offset_of!(SwitchOutData, ran_ns) == 32);
    assert!(offset_of!(SwitchInData, others) == 24);
    assert!(size_of::<Running>() == 128);
    assert!(size_of::<WakeupData>() == 40);
    assert!(offset_of!(ThrottleData, path) == 16);
};
