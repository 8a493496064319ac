//! Reader's ends of the rings of single CPUs, which have the records of system calls: see
//! [`cpu_ring`].

use std::fs;
use std::mem::offset_of;
use std::sync::atomic::Ordering;

use aya::Ebpf;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{CpuRingEnds, cpu_ring, wanted};

use super::error::LoadError;
use super::loading::{map_array, usize_of};
use super::mapping::MapMemory;
use super::options::KernelOptions;

/// The map with the bytes, and that with the positions.
pub const CPU_RINGS: &str = "CPU_RINGS";
pub const CPU_RING_ENDS: &str = "CPU_RING_ENDS";

/// Number of further looks at a ring that is busy. A program writes a record in well below a
/// microsecond, unless its virtual CPU is taken away meanwhile.
const BUSY_LOOKS: u32 = 200;

/// Bytes given back to the writers at once. The writers read the position for each record, so the
/// reader changes it seldom.
const GIVE_BACK_BYTES: u64 = 32 * 1024;

/// Size of these rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of each; 0: there are none.
    pub bytes: u32,
    /// Chunks of each, a power of two.
    pub chunks: u32,
}

impl Size {
    /// No such rings.
    pub const NONE: Self = Self {
        bytes: 0,
        chunks: 1,
    };

    /// Returns the size of rings for this many CPUs: each has a power of two of bytes, and all of
    /// them have together no more than `all`, unless that were less than 4096 bytes for each.
    pub fn each_of(all: u64, cpus: u32) -> Self {
        const LEAST: u64 = 4096;
        let each = (all / u64::from(cpus.max(1))).max(LEAST);
        let bytes = u32::try_from(1_u64 << each.ilog2()).unwrap_or(1 << 31);
        Self {
            bytes,
            chunks: (bytes / cpu_ring::CHUNK).max(1),
        }
    }
}

/// Tells whether the records of system calls go to such rings. They do not where stacks or
/// descriptions of descriptors are recorded right before them, since those go to the other kind of
/// ring.
pub fn are_possible(options: &KernelOptions, describes: bool) -> bool {
    let calls = wanted::bit(EventTypeId::SYSCALL_ENTER) | wanted::bit(EventTypeId::SYSCALL_EXIT);
    let of_calls = options.wanted_bits() & calls;
    of_calls != 0 && options.stacks.recorded_types() & calls == 0 && !describes && fits_machine()
}

/// Tells whether this machine can have such rings. This needs a processor whose stores are seen in
/// their order, and programs at tracepoints that are not preempted. It also needs a clock that
/// never gives two events of a CPU the same time: only a single ring keeps such events in order.
fn fits_machine() -> bool {
    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let is_exact = || {
        let clock = fs::read_to_string(CLOCK).unwrap_or_default();
        matches!(clock.trim(), "tsc" | "kvm-clock")
    };
    cfg!(target_arch = "x86_64")
        && !cfg!(feature = "coarse-clock")
        && is_exact()
        && !are_preempted()
}

/// Tells whether programs at tracepoints are preempted, as on a real-time kernel.
pub fn are_preempted() -> bool {
    let flag = fs::read_to_string("/sys/kernel/realtime").unwrap_or_default();
    flag.trim() == "1"
}

/// Reader's end of one ring.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    /// Position up to which records were handed over.
    read: u64,
    /// Position up to which there were records at the last look.
    end: u64,
    /// Whether a further record was being written then.
    is_busy: bool,
}

/// The reader's ends of the rings of all CPUs.
pub struct CpuRings {
    bytes: MapMemory,
    ends: MapMemory,
    chunks: u64,
    rings: Vec<Reading>,
}

impl CpuRings {
    /// Maps the rings of this many CPUs.
    pub fn map(ebpf: &Ebpf, cpus: u32, size: Size) -> Result<Self, LoadError> {
        let count = usize_of(cpus);
        let bytes = count * usize_of(size.chunks) * cpu_ring::ENTRY;
        Ok(Self {
            bytes: map_array(ebpf, CPU_RINGS, bytes)?,
            ends: map_array(ebpf, CPU_RING_ENDS, count * size_of::<CpuRingEnds>())?,
            chunks: u64::from(size.chunks),
            rings: vec![Reading::default(); count],
        })
    }

    /// Notes up to where there are records, and which rings are busy.
    pub fn look_at_ends(&mut self) {
        for (cpu, ring) in self.rings.iter_mut().enumerate() {
            let word = |field| self.ends.word(cpu * size_of::<CpuRingEnds>() + field);
            let (Some(busy), Some(written)) = (
                word(offset_of!(CpuRingEnds, busy)),
                word(offset_of!(CpuRingEnds, written)),
            ) else {
                continue;
            };
            // Acquire, and the mark is read first: once it is gone, `written` covers the record
            // that it stood for.
            ring.is_busy = (0..=BUSY_LOOKS).all(|_| {
                let is_busy = busy.load(Ordering::Acquire) != 0;
                if is_busy {
                    std::hint::spin_loop();
                }
                is_busy
            });
            ring.end = written.load(Ordering::Acquire);
        }
    }

    /// Hands over each record before the ends that were looked at. Returns whether that was all of
    /// them; if not, some are still being written.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> bool {
        let mut is_whole = true;
        for cpu in 0..self.rings.len() {
            is_whole &= self.drain_one(cpu, &mut each);
        }
        is_whole
    }

    fn drain_one(&mut self, cpu: usize, each: &mut impl FnMut(&[u8])) -> bool {
        let Some(mut ring) = self.rings.get(cpu).copied() else {
            return true;
        };
        let mut given_back = ring.read;
        while ring.read < ring.end {
            let Some((record, behind)) = self.record(cpu, ring.read) else {
                // No program writes such a record: the rest is left out.
                ring.read = ring.end;
                break;
            };
            each(record);
            ring.read = behind;
            if ring.read - given_back >= GIVE_BACK_BYTES {
                given_back = ring.read;
                self.give_back(cpu, given_back);
            }
        }
        if given_back != ring.read {
            self.give_back(cpu, ring.read);
        }
        if let Some(place) = self.rings.get_mut(cpu) {
            *place = ring;
        }
        !ring.is_busy
    }

    /// Returns the record at this position, which the programs have written, and the position
    /// behind it.
    fn record(&self, cpu: usize, position: u64) -> Option<(&[u8], u64)> {
        let chunk = u64::from(cpu_ring::CHUNK);
        let nth = usize::try_from(position / chunk % self.chunks).ok()?;
        let chunks = usize::try_from(self.chunks).ok()?;
        let at = (cpu * chunks + nth) * cpu_ring::ENTRY;
        let at = at + usize::try_from(position % chunk).ok()?;
        let length = self.bytes.word(at)?.load(Ordering::Relaxed);
        let bytes = usize::try_from(length).ok()?;
        if bytes > usize_of(cpu_ring::SLACK) - cpu_ring::HEAD {
            return None;
        }
        // SAFETY: the programs write there again only when the position is given back.
        let record = unsafe { self.bytes.bytes(at + cpu_ring::HEAD, bytes) }?;
        Some((record, cpu_ring::behind(position, length)))
    }

    fn give_back(&self, cpu: usize, position: u64) {
        let at = cpu * size_of::<CpuRingEnds>() + offset_of!(CpuRingEnds, read);
        if let Some(word) = self.ends.word(at) {
            word.store(position, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rings_of_all_cpus_have_as_many_bytes_as_the_others() {
        let size = |all, cpus| {
            let Size { bytes, chunks } = Size::each_of(all, cpus);
            (bytes, chunks)
        };

        assert_eq!(size(4 << 20, 2), (2 << 20, 16));
        assert_eq!(size(4 << 20, 3), (1 << 20, 8));
        assert_eq!(size(8192, 2), (4096, 1));
        assert_eq!(size(16 << 20, 512), (32768, 1));
        assert_eq!(size(0, 0), (4096, 1));
    }
}
