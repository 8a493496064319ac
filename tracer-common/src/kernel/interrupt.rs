//! Data of what CPUs do for no process: interrupts and idling.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{RecordHeader, records};

/// Bytes kept of the name of an interrupt's handler, its null counted.
pub const IRQ_NAME_BYTES: usize = 28;

/// Data of `LINUX_TRACE_IRQ_ENTER`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IrqEnterData {
    /// Number of the interrupt, as in `/proc/interrupts`.
    pub irq: u32,
    /// Name of the handler, as there; ended by a null.
    pub name: [u8; IRQ_NAME_BYTES],
}

/// Data of `LINUX_TRACE_IRQ_EXIT`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IrqExitData {
    /// Number of the interrupt.
    pub irq: u32,
    /// 1: it was this handler's.
    pub handled: u32,
}

/// Data of `LINUX_TRACE_SOFTIRQ_ENTER` and `LINUX_TRACE_SOFTIRQ_EXIT`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SoftirqData {
    /// Which one: the row of `/proc/softirqs`, from 0.
    pub vector: u32,
    /// Zero.
    pub reserved: u32,
}

/// Data of `LINUX_TRACE_IDLE_ENTER`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdleData {
    /// How deeply the CPU sleeps, as its driver numbers it.
    pub state: u32,
    /// Zero.
    pub reserved: u32,
}

/// In which interrupts a CPU is, noted where they begin and end: an entry of the map `INTERRUPTS`, by
/// the CPU's number. Only where the kernel's own count cannot be read.
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

records! {
    /// Record of the start of an interrupt's handler.
    IrqEnterRecord: IrqEnterData,
    /// Record of the end of an interrupt's handler.
    IrqExitRecord: IrqExitData,
    /// Record of the start or end of a soft interrupt.
    SoftirqRecord: SoftirqData,
    /// Record of a CPU that begins to idle.
    IdleEnterRecord: IdleData,
}

/// Record of a CPU that ends to idle: it has no data.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdleExitRecord {
    /// What every record has.
    pub header: RecordHeader,
}
