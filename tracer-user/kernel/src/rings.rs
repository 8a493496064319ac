//! The rings: one for every few CPUs.
//!
//! A ring takes one record at a time from all of its writers: CPUs with different rings do not wait
//! for each other. The records of a ring are in order of time, except for a few that were reserved
//! at the same moment. The reader looks at the clock, then at the ends of all rings, and reads each
//! ring up to its end. So the watermark is as exact as that of a single ring.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use aya::Ebpf;
use aya::maps::{ArrayOfMaps, Map, MapData, MapError, RingBuf};
use tracer_common::kernel::MAX_RINGS;

use super::cpu_rings::CpuRings;
use super::error::LoadError;
use super::ring::{Position, Ring};

const RINGS: &str = "RINGS";

/// Returns the number of rings of a machine with this many CPUs: a power of two.
pub fn count_for(cpus: u32) -> u32 {
    let most = cpus.clamp(1, MAX_RINGS);
    1 << most.ilog2()
}

/// The reader's ends of all rings.
pub struct Rings {
    rings: Vec<Ring>,
    /// Position of each ring's writers; retained to save allocations.
    ends: Vec<Position>,
    /// Rings with the records of system calls, where these have their own.
    of_cpus: Option<CpuRings>,
}

impl Rings {
    /// Makes `count` rings of `bytes` each and gives them to the programs.
    pub fn make(ebpf: &mut Ebpf, count: u32, bytes: u32) -> Result<Self, LoadError> {
        let map = ebpf.map_mut(RINGS);
        let map = map.ok_or(LoadError::PartMissing { name: RINGS })?;
        let mut rings_of_programs =
            ArrayOfMaps::<_, RingBuf<MapData>>::try_from(map).map_err(map_error)?;
        let rings = (0..count).map(|index| {
            let records = ring_buffer(bytes).map_err(map_error)?;
            rings_of_programs
                .set(index, &records, 0)
                .map_err(map_error)?;
            // The loader's own reader of the ring is dropped: it maps the bytes twice.
            let map = records.as_fd().try_clone_to_owned();
            let map = map.map_err(|source| LoadError::MapCall {
                call: "fcntl",
                name: RINGS,
                source,
            })?;
            drop(records);
            Ring::new(map, bytes)
        });
        Ok(Self {
            rings: rings.collect::<Result<_, _>>()?,
            ends: Vec::new(),
            of_cpus: None,
        })
    }

    /// Adds rings of single CPUs.
    pub fn add_cpu_rings(&mut self, rings: CpuRings) {
        self.of_cpus = Some(rings);
    }

    /// Notes the positions up to which space has been reserved so far.
    pub fn look_at_ends(&mut self) {
        self.ends.clear();
        self.ends.extend(self.rings.iter().map(Ring::end));
        if let Some(of_cpus) = &mut self.of_cpus {
            of_cpus.look_at_ends();
        }
    }

    /// Hands over each record before the ends that were looked at. Returns whether that was all of
    /// them; if not, some are still being written.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> bool {
        let mut is_whole = true;
        for (ring, end) in self.rings.iter_mut().zip(&self.ends) {
            is_whole &= ring.drain(*end, &mut each);
        }
        if let Some(of_cpus) = &mut self.of_cpus {
            is_whole &= of_cpus.drain(&mut each);
        }
        is_whole
    }

    /// Returns a descriptor that becomes readable when one of the rings does. A program that writes
    /// to the ring of a single CPU wakes the reader by one of the others.
    pub fn any_readable(&self) -> io::Result<OwnedFd> {
        // SAFETY: the call takes no pointer.
        let any = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if any < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and no other value owns it.
        let any = unsafe { OwnedFd::from_raw_fd(any) };
        for ring in &self.rings {
            let mut event = libc::epoll_event {
                events: (libc::EPOLLIN | libc::EPOLLET).cast_unsigned(),
                u64: 0,
            };
            let ring = ring.as_fd().as_raw_fd();
            // SAFETY: both descriptors are open, and the event lives until after the call.
            let result = unsafe {
                libc::epoll_ctl(any.as_raw_fd(), libc::EPOLL_CTL_ADD, ring, &raw mut event)
            };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(any)
    }
}

fn ring_buffer(bytes: u32) -> Result<RingBuf<MapData>, MapError> {
    const RING_BUFFER: u32 = aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_RINGBUF as u32;
    let definition = aya_obj::Map::new_from_params(RING_BUFFER, 0, 0, bytes, 0);
    RingBuf::try_from(Map::RingBuf(MapData::create(definition, "RING", None)?))
}

fn map_error(source: MapError) -> LoadError {
    LoadError::Map {
        name: RINGS,
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_rings_is_a_power_of_two_and_not_above_that_of_the_cpus() {
        let counts = [0, 1, 2, 3, 4, 7, 8, 100].map(count_for);

        assert_eq!(counts, [1, 1, 2, 2, 4, 4, 8, 8]);
    }
}
