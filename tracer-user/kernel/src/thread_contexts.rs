//! Locations of the contexts of threads, for the programs that read them.
//!
//! A thread of its own hears of what processes map. Where a file defines the pointer to contexts,
//! its process is asked, at first often, whether it publishes some, and the programs are told where
//! they are. A child has what its parent has, and another program has nothing, which the programs
//! note themselves.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::MapData;
use tracer_binary::bounded_proc;
use tracer_binary::stacks::{BuildIds, Mapping, read_mappings};
use tracer_binary::thread_context::{context_place, context_variable};
use tracer_binary::thread_local::VariablePlace;
use tracer_common::kernel::{CONTEXT_REMAINDERS, ContextPlace, ContextState, traced};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::error::LoadError;
use super::loading::{map_array, usize_of};
use super::mapped::{MappingReport, MappingRings};
use super::mapping::MapMemory;
use super::traced::TracedMap;
use super::watching::{MappingWatcher, Stopped, Watching};

const PLACES: &str = "CONTEXT_PLACES";
const STATE: &str = "CONTEXT_STATE";

/// Words of what the programs are told of a process.
const WORDS: usize = size_of::<ContextPlace>() / size_of::<u64>();

/// The map from which the programs know of processes.
type Places = aya::maps::HashMap<MapData, u32, [u64; WORDS]>;

/// Time between looks at processes that are not traced yet, and the shortest one between questions
/// to a process that may publish contexts.
const TICK: Duration = Duration::from_millis(20);

/// First and longest time between questions to a process that publishes none.
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Time between looks at all traced processes where the kernel does not report what is mapped.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Files that are known at a time. Beyond that, all are forgotten.
const MOST_FILES: usize = 4096;

/// Interval in which each context is recorded anew: after losses it is unknown for so long.
const EPOCH: Duration = Duration::from_secs(1);

/// The watch over processes, and the epochs of contexts.
#[derive(Debug)]
pub(super) struct ContextWatch {
    state: Arc<MapMemory>,
    began: Instant,
    _watching: Watching,
}

impl ContextWatch {
    /// Begins to tell the programs of contexts. Where `are_pids_ours`, the pids of traced processes
    /// are those that this process knows.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn begin(ebpf: &mut Ebpf, are_pids_ours: bool) -> Result<Self, LoadError> {
        let missing = || LoadError::PartMissing { name: PLACES };
        let state = Arc::new(map_array(ebpf, STATE, size_of::<ContextState>())?);
        let traced = TracedMap::from_object(ebpf)?.read_all()?;
        let map = ebpf.take_map(PLACES).ok_or_else(missing)?;
        let places = Places::try_from(map).map_err(|_other_kind| missing())?;
        let failed = |source| LoadError::MapCall {
            call: "thread",
            name: PLACES,
            source,
        };
        let watcher = MappingWatcher::new().map_err(failed)?;
        let mut watch = Watch {
            places,
            state: Arc::clone(&state),
            traced: are_pids_ours.then_some(traced),
            told: HashSet::new(),
            unseen: all_processes(),
            candidates: HashMap::new(),
            files: HashMap::new(),
            build_ids: BuildIds::new(),
        };
        let watching = watcher.start("contexts", move |rings, stopped| {
            watch.go_on(rings, stopped)
        });
        Ok(Self {
            state,
            began: Instant::now(),
            _watching: watching.map_err(failed)?,
        })
    }

    /// Has each context recorded anew from now on, as records were lost.
    pub fn begin_epoch(&mut self) {
        self.began = Instant::now();
        if let Some(epoch) = self.state.word(0) {
            epoch.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has each context recorded anew now and then.
    pub fn tick(&mut self) {
        if self.began.elapsed() >= EPOCH {
            self.begin_epoch();
        }
    }
}

/// Process that has a file with the pointer.
struct Candidate {
    /// Time of the next question.
    next: Instant,
    wait: Duration,
}

/// Path and build identifier of a file.
type FileKey = (Arc<[u8]>, Vec<u8>);

/// Watch over what processes map.
struct Watch {
    places: Places,
    state: Arc<MapMemory>,
    /// Bytes of traced processes; `None` where this namespace has other pids.
    traced: Option<MapMemory>,
    /// Processes that the programs were told of.
    told: HashSet<i32>,
    /// Processes whose files were not looked at, since they were not traced.
    unseen: HashSet<i32>,
    candidates: HashMap<i32, Candidate>,
    /// Files by path and build identifier: whether they define the pointer.
    files: HashMap<FileKey, bool>,
    build_ids: BuildIds,
}

impl Watch {
    /// Goes on until the other end is closed.
    fn go_on(&mut self, mut rings: Option<MappingRings>, stopped: &Stopped) {
        let mut looked = Instant::now();
        loop {
            let now = Instant::now();
            let nexts = self.candidates.values().map(|one| one.next);
            let next = nexts.map(|next| next.saturating_duration_since(now)).min();
            let timeout = next.unwrap_or(TICK).min(TICK).max(Duration::from_millis(1));
            let timeout = i32::try_from(timeout.as_millis()).unwrap_or(1);
            if stopped.waits(rings.as_ref(), timeout) {
                return;
            }
            match &mut rings {
                Some(rings) => {
                    for (_, report) in rings.take() {
                        self.report(report);
                    }
                }
                None if looked.elapsed() >= LOOK_AGAIN => {
                    looked = Instant::now();
                    self.unseen = all_processes();
                }
                None => {}
            }
            self.look_at_unseen();
            self.ask_candidates();
        }
    }

    fn report(&mut self, report: MappingReport) {
        match report {
            MappingReport::Mapped(pid, mapping) => {
                if !self.is_traced(pid) {
                    self.unseen.insert(pid);
                } else if self.defines(pid, &mapping) {
                    self.ask_soon(pid);
                }
            }
            MappingReport::Forked(child, parent) if child != parent => {
                self.forget(child);
                if self.told.contains(&parent) {
                    // The programs know it already.
                    self.told.insert(child);
                } else if self.candidates.contains_key(&parent) {
                    self.ask_soon(child);
                } else if self.unseen.contains(&parent) {
                    self.unseen.insert(child);
                }
            }
            // A library's variables of threads are elsewhere, and stay.
            MappingReport::Forked(..) | MappingReport::Moves(..) => {}
            MappingReport::Began(pid) => {
                self.forget(pid);
                self.unseen.insert(pid);
            }
            MappingReport::Ended(pid) => {
                if !tracer_binary::probes::lives_on(pid) {
                    self.forget(pid);
                }
            }
            MappingReport::Lost(_) => self.unseen = all_processes(),
        }
    }

    fn is_traced(&self, pid: i32) -> bool {
        let Some(traced) = &self.traced else {
            return true;
        };
        let byte = usize::try_from(pid).ok().and_then(|pid| traced.byte(pid));
        byte.is_some_and(|byte| byte.load(Ordering::Relaxed) & traced::TRACED != 0)
    }

    /// Looks at the files of processes that are traced by now.
    fn look_at_unseen(&mut self) {
        let traced = self.unseen.iter().filter(|pid| self.is_traced(**pid));
        for pid in traced.copied().collect::<Vec<i32>>() {
            self.unseen.remove(&pid);
            let mappings = read_mappings(pid, &mut self.build_ids);
            if mappings.iter().any(|mapping| self.defines(pid, mapping)) {
                self.ask_soon(pid);
            }
        }
    }

    /// Tells whether the file of a mapping defines the pointer.
    fn defines(&mut self, pid: i32, mapping: &Mapping) -> bool {
        if !mapping.path.starts_with(b"/") {
            return false;
        }
        let key = (Arc::clone(&mapping.path), mapping.build_id.clone());
        if let Some(defines) = self.files.get(&key).filter(|_| !key.1.is_empty()) {
            return *defines;
        }
        let defines = context_variable(pid, mapping, &mut self.build_ids).is_some();
        if self.files.len() >= MOST_FILES {
            self.files.clear();
        }
        self.files.insert(key, defines);
        defines
    }

    fn ask_soon(&mut self, pid: i32) {
        let candidate = Candidate {
            next: Instant::now(),
            wait: FIRST_WAIT,
        };
        self.candidates.insert(pid, candidate);
    }

    /// Asks those candidates whose time has come.
    fn ask_candidates(&mut self) {
        let now = Instant::now();
        let due = self.candidates.iter().filter(|(_, one)| one.next <= now);
        for pid in due.map(|(pid, _)| *pid).collect::<Vec<i32>>() {
            match place_of(pid) {
                Ok(Some(place)) => {
                    self.candidates.remove(&pid);
                    self.tell(pid, place);
                }
                Ok(None) => {
                    self.untell(pid);
                    if let Some(candidate) = self.candidates.get_mut(&pid) {
                        candidate.next = now + candidate.wait;
                        candidate.wait = (candidate.wait * 2).min(LONGEST_WAIT);
                    }
                }
                Err(Gone) => self.forget(pid),
            }
        }
    }

    fn tell(&mut self, pid: i32, (place, program): (VariablePlace, PathBuf)) {
        let place = match place {
            VariablePlace::Distance(distance) => ContextPlace {
                module: 0,
                offset: distance.cast_unsigned(),
                generation: 0,
            },
            VariablePlace::Module {
                module,
                offset,
                generation,
            } => ContextPlace {
                module,
                offset,
                generation,
            },
        };
        let words = <[u64; WORDS]>::read_from_bytes(place.as_bytes());
        let (Ok(key), Ok(words)) = (u32::try_from(pid), words) else {
            return;
        };
        let remainder = usize_of(key) % CONTEXT_REMAINDERS;
        if let Some(byte) = self
            .state
            .byte(std::mem::offset_of!(ContextState, may_have) + remainder)
        {
            byte.store(1, Ordering::Relaxed);
        }
        if let Err(error) = self.places.insert(key, words, 0) {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                pid,
                "the contexts of a process are left out"
            );
            return;
        }
        self.told.insert(pid);
        // It may have begun another program meanwhile, which the programs have noted before.
        if program_of(pid).as_ref() != Some(&program) {
            self.untell(pid);
        }
    }

    fn untell(&mut self, pid: i32) {
        if self.told.remove(&pid)
            && let Ok(key) = u32::try_from(pid)
        {
            let _ = self.places.remove(&key);
        }
    }

    fn forget(&mut self, pid: i32) {
        self.untell(pid);
        self.unseen.remove(&pid);
        self.candidates.remove(&pid);
    }
}

/// A process that has ended.
struct Gone;

/// Returns where a process has the contexts of its threads, and its program; `None` where it has
/// none at this moment.
fn place_of(pid: i32) -> Result<Option<(VariablePlace, PathBuf)>, Gone> {
    let asked = bounded_proc::ask_process(pid, move || {
        let program = program_of(pid).ok_or(Gone)?;
        let mut build_ids = BuildIds::new();
        let mappings = read_mappings(pid, &mut build_ids);
        let place = context_place(pid, &mappings, &mut build_ids);
        Ok(place.map(|place| (place, program)))
    });
    // One that keeps the kernel from answering is asked again.
    asked.unwrap_or(Ok(None))
}

fn program_of(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

fn all_processes() -> HashSet<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.collect()
}
