//! Interpreters of processes, as the eBPF programs are told of them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::MapData;
use tracer_common::kernel::{PID_LIMIT, PYTHON_PROCESS_WORDS, PythonProcess};

use crate::error::LoadError;
use crate::loading::map_array;
use crate::mapping::MapMemory;

pub(super) const PYTHON: &str = "PYTHON";
const EPOCH: &str = "PYTHON_EPOCH";

/// Interval at which each function is recorded anew for other processes: one that was lost on its
/// way has no name until then.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// The maps from which the programs know of interpreters, and for which readers they record
/// functions.
#[derive(Debug)]
pub(in super::super) struct InterpreterPlaces {
    processes: aya::maps::HashMap<MapData, u32, [u64; PYTHON_PROCESS_WORDS]>,
    epoch: MapMemory,
    renewed: Instant,
}

impl InterpreterPlaces {
    /// Takes the maps.
    ///
    /// # Errors
    ///
    /// The object has none.
    pub fn from_object(ebpf: &mut Ebpf) -> Result<Self, LoadError> {
        let missing = || LoadError::PartMissing { name: PYTHON };
        let epoch = map_array(ebpf, EPOCH, size_of::<u64>())?;
        let map = ebpf.take_map(PYTHON).ok_or_else(missing)?;
        Ok(Self {
            processes: aya::maps::HashMap::try_from(map).map_err(|_other_kind| missing())?,
            epoch,
            renewed: Instant::now(),
        })
    }

    /// Tells the programs which interpreter a process has, or that it has none.
    ///
    /// # Errors
    ///
    /// There are too many processes, or none has this pid.
    pub fn place(&mut self, pid: i32, process: Option<PythonProcess>) -> Result<(), LoadError> {
        let Ok(key) = u32::try_from(pid) else {
            let last = PID_LIMIT as usize - 1;
            return Err(LoadError::NoSuchPid { pid, last });
        };
        let Some(process) = process else {
            let _ = self.processes.remove(&key);
            return Ok(());
        };
        let inserted = self.processes.insert(key, process.words(), 0);
        inserted.map_err(|source| LoadError::Map {
            name: PYTHON,
            source: Box::new(source),
        })
    }

    /// Has each function recorded anew, for a reader that has not had those so far.
    pub fn renew(&mut self) {
        self.renewed = Instant::now();
        if let Some(epoch) = self.epoch.word(0) {
            epoch.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has each function recorded anew now and then.
    pub fn tick(&mut self) {
        if self.renewed.elapsed() >= RENEW_EVERY {
            self.renew();
        }
    }
}
