//! The maps `TRACED`, with a byte for each process that says whether it is traced, and `VISIBLE`.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::Ordering;

use aya::Ebpf;
use aya::maps::Map;

use tracer_common::kernel::{PID_LIMIT, VISIBLE_SLOTS};

use super::error::LoadError;
use super::loading::usize_of;
use super::mapping::{Access, MapMemory, page_bytes};

/// Name of the map of traced processes.
pub const TRACED: &str = "TRACED";

/// The map `TRACED`. A page of it is in this process's memory only while the page is written to:
/// the whole map has four megabytes, and mostly a process or two are traced.
#[derive(Debug)]
pub struct TracedMap(OwnedFd);

impl TracedMap {
    /// Returns the map of the object.
    pub fn from_object(ebpf: &Ebpf) -> Result<Self, LoadError> {
        let Some(Map::Array(array)) = ebpf.map(TRACED) else {
            return Err(LoadError::PartMissing { name: TRACED });
        };
        let map = array.fd().as_fd().try_clone_to_owned();
        map.map(Self).map_err(|source| failed("dup", source))
    }

    /// Sets the bits of process `pid`, by its pid in the first pid namespace.
    pub fn set(&self, pid: usize, bits: u8) -> Result<(), LoadError> {
        let (page, at) = (pid / page_bytes(), pid % page_bytes());
        let mapping = self.map(page * page_bytes(), page_bytes())?;
        if let Some(byte) = mapping.byte(at) {
            // Nothing else depends on it: a program may see it a little later.
            byte.store(bits, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sets the bits of process `pid` where it lacks one of them. Returns whether it did.
    pub fn add(&self, pid: usize, bits: u8) -> Result<bool, LoadError> {
        let (page, at) = (pid / page_bytes(), pid % page_bytes());
        let mapping = self.map(page * page_bytes(), page_bytes())?;
        let byte = mapping.byte(at);
        Ok(byte.is_some_and(|byte| byte.fetch_or(bits, Ordering::Relaxed) & bits != bits))
    }

    /// Sets the bits of every process that there can be, except `excepted`.
    pub fn set_all(&self, bits: u8, excepted: usize) -> Result<(), LoadError> {
        let processes = usize::try_from(PID_LIMIT).unwrap_or(usize::MAX);
        let mapping = self.map(0, processes)?;
        // A parent that is not marked yet may make a process with a pid that the loop has passed
        // already. In the second round every parent is marked, and with it the processes that it
        // makes.
        for _ in 0..2 {
            for pid in (1..processes).filter(|pid| *pid != excepted) {
                if let Some(byte) = mapping.byte(pid) {
                    byte.store(bits, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Maps all of it to be read.
    pub fn read_all(&self) -> Result<MapMemory, LoadError> {
        self.map_as(0, usize_of(PID_LIMIT), Access::Read)
    }

    fn map(&self, start: usize, length: usize) -> Result<MapMemory, LoadError> {
        self.map_as(start, length, Access::ReadWrite)
    }

    fn map_as(&self, start: usize, length: usize, access: Access) -> Result<MapMemory, LoadError> {
        MapMemory::window(self.0.as_fd(), start, length, access)
            .map_err(|source| failed("mmap", source))
    }
}

/// The map `VISIBLE`, with a word for each slot: which guarded processes could be looked into when
/// they were last judged.
#[derive(Debug)]
pub struct VisibleMap(MapMemory);

impl VisibleMap {
    /// Wraps the mapped map.
    pub fn new(slots: MapMemory) -> Self {
        Self(slots)
    }

    /// Notes that process `pid` could be looked into just now, by its pid in the first pid
    /// namespace.
    pub fn note(&self, pid: usize) {
        let slot = pid % usize_of(VISIBLE_SLOTS);
        if let (Some(word), Ok(pid)) = (self.0.word(slot * size_of::<u64>()), u64::try_from(pid)) {
            word.store(pid, Ordering::Relaxed);
        }
    }
}

fn failed(call: &'static str, source: io::Error) -> LoadError {
    LoadError::MapCall {
        call,
        name: TRACED,
        source,
    }
}
