//! Data of what CPUs do for no process: interrupts and idling.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::event_type::declare::{event_data, event_types};

/// Bytes recorded of the name of an interrupt's handler, its null counted.
pub const IRQ_NAME_BYTES: usize = 28;

event_data! {
    /// Data of `LINUX_TRACE_IRQ_ENTER`.
    pub struct IrqEnterData {
        /// Number of the interrupt, as in `/proc/interrupts`.
        #[shown(U32)]
        pub irq: u32,
        /// Name of the handler, as there; ended by a null.
        #[shown(Text)]
        pub name: [u8; IRQ_NAME_BYTES],
    }
}

event_data! {
    /// Data of `LINUX_TRACE_IRQ_EXIT`.
    pub struct IrqExitData {
        /// Number of the interrupt.
        #[shown(U32)]
        pub irq: u32,
        /// 1: it was this handler's.
        #[shown(Flag)]
        pub handled: u32,
    }
}

event_data! {
    /// Data of `LINUX_TRACE_SOFTIRQ_ENTER` and `LINUX_TRACE_SOFTIRQ_EXIT`.
    pub struct SoftirqData {
        /// Number of the soft interrupt: its row in `/proc/softirqs`, from 0.
        #[shown(U32, Softirq as "name")]
        pub vector: u32,
        /// Zero.
        pub reserved: u32,
    }
}

event_data! {
    /// Data of `LINUX_TRACE_IDLE_ENTER`.
    pub struct IdleData {
        /// How deeply the CPU sleeps, as its driver counts it.
        #[shown(U32)]
        pub state: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// In which interrupts a CPU is, noted where they begin and end: an entry of the map `INTERRUPTS`,
/// by the CPU's index. Only where the kernel's own count cannot be read.
///
/// As long as a cache line, so that CPUs do not disturb each other.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InterruptsOf {
    /// 1: a handler of a device's interrupt runs.
    pub handlers: u32,
    /// 1: the function of a high-resolution timer runs.
    pub hrtimer: u32,
    /// The number of the soft interrupt that runs, plus 1; 0 for none.
    pub softirq: u32,
    /// Zero.
    pub reserved: [u32; 13],
}

const _: () = assert!(size_of::<InterruptsOf>() == 64);

event_types! {
    IRQ_ENTER = 48 {
        about: "a handler of a device's interrupt began",
        family: "irq",
        data: IrqEnterData,
        words: "{irq} {name}",
        recorded_at: [irq_handler_entry],
        is: [frequent, when_named, without_process],
    }
    IRQ_EXIT = 49 {
        about: "a handler of a device's interrupt ended",
        family: "irq",
        data: IrqExitData,
        recorded_at: [irq_handler_exit],
        is: [frequent, when_named, without_process],
    }
    SOFTIRQ_ENTER = 50 {
        about: "a soft interrupt began",
        family: "softirq",
        data: SoftirqData,
        recorded_at: [softirq_entry],
        is: [frequent, when_named, without_process],
    }
    SOFTIRQ_EXIT = 51 {
        about: "a soft interrupt ended",
        family: "softirq",
        data: SoftirqData,
        recorded_at: [softirq_exit],
        is: [frequent, when_named, without_process],
    }
    IDLE_ENTER = 52 {
        about: "a CPU has nothing to do",
        family: "idle",
        data: IdleData,
        words: "state {state}",
        recorded_at: [cpu_idle],
        is: [frequent, when_named, without_process],
    }
    IDLE_EXIT = 53 {
        about: "a CPU has something to do again",
        family: "idle",
        data: (),
        recorded_at: [cpu_idle],
        is: [frequent, when_named, without_process],
    }
}
