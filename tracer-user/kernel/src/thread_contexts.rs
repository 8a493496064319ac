//! Finds where processes have the contexts of their threads, for the eBPF programs that read these.
//!
//! A separate thread takes the kernel's reports of what processes map. Where a process maps a file
//! that defines the pointer to contexts, this thread asks (at first often) whether the process
//! publishes contexts, by reading the memory of the process, and tells the programs where they are.
//! A child has its contexts where its parent has them, and a process that runs another program has
//! none: the programs note both themselves.
//!
//! The service opens no file of a process. There, its client looks for contexts in the same way
//! ([`search_contexts`]), and tells the service where they are.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::MapData;
use tracer_binary::bounded_proc;
use tracer_binary::stacks::{BuildIds, Mapping, read_mappings};
use tracer_binary::thread_context::{context_place, context_variable};
use tracer_binary::thread_local::VariablePlace;
use tracer_common::kernel::{CONTEXT_REMAINDERS, ContextPlace, ContextState, PID_LIMIT, traced};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::error::LoadError;
use super::loading::{map_array, usize_of};
use super::mapped::{MappingReport, MappingRings};
use super::mapping::MapMemory;
use super::search::{Candidates, News, ProcessSearch};
use super::traced::TracedMap;
use super::watching::{MappingWatcher, Stopped, Watching};

const PLACES: &str = "CONTEXT_PLACES";
const STATE: &str = "CONTEXT_STATE";

/// Words of what the programs are told of a process.
const WORDS: usize = size_of::<ContextPlace>() / size_of::<u64>();

/// The map from which the programs know of processes.
type Places = aya::maps::HashMap<MapData, u32, [u64; WORDS]>;

/// Time between looks at processes that are not traced yet: the longest time that the thread waits
/// for reports.
const TICK: Duration = Duration::from_millis(20);

/// Longest time between questions to a process that publishes none.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Time between questions to a process that has contexts, but no attribute yet that says what its
/// threads do (a route).
const ROUTE_WAIT: Duration = Duration::from_secs(5);

/// Time between looks at all traced processes where the kernel does not report what is mapped.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Most files that are known at a time. Beyond that, all are forgotten.
const MOST_FILES: usize = 4096;

/// Interval at which each context is recorded anew: after losses, a context is unknown until then.
const EPOCH: Duration = Duration::from_secs(1);

/// The watch over processes, and the epochs of contexts.
#[derive(Debug)]
pub(super) struct ContextWatch {
    state: Arc<MapMemory>,
    began: Instant,
    /// Map from which the programs know of processes; `None` where the watch has it.
    places: Option<PlaceMap>,
    _watching: Option<Watching>,
}

/// Map from which the programs know of processes, and their state.
#[derive(Debug)]
struct PlaceMap {
    places: Places,
    state: Arc<MapMemory>,
}

impl PlaceMap {
    fn from_object(ebpf: &mut Ebpf) -> Result<Self, LoadError> {
        let missing = || LoadError::PartMissing { name: PLACES };
        let state = Arc::new(map_array(ebpf, STATE, size_of::<ContextState>())?);
        let map = ebpf.take_map(PLACES).ok_or_else(missing)?;
        let places = Places::try_from(map).map_err(|_other_kind| missing())?;
        Ok(Self { places, state })
    }

    /// Tells the programs where a process has its contexts.
    fn insert(&mut self, pid: i32, place: ContextPlace) -> Result<(), LoadError> {
        let words = <[u64; WORDS]>::read_from_bytes(place.as_bytes());
        let (Ok(key), Ok(words)) = (u32::try_from(pid), words) else {
            let last = PID_LIMIT as usize - 1;
            return Err(LoadError::NoSuchPid { pid, last });
        };
        let remainder = usize_of(key) % CONTEXT_REMAINDERS;
        let may_have = std::mem::offset_of!(ContextState, may_have) + remainder;
        if let Some(byte) = self.state.byte(may_have) {
            byte.store(1, Ordering::Relaxed);
        }
        let inserted = self.places.insert(key, words, 0);
        self.note_change();
        inserted.map_err(|source| LoadError::Map {
            name: PLACES,
            source: Box::new(source),
        })
    }

    fn remove(&mut self, pid: i32) {
        if let Ok(key) = u32::try_from(pid) {
            let _ = self.places.remove(&key);
            self.note_change();
        }
    }

    /// Has the programs look up again what they have at hand.
    fn note_change(&self) {
        if let Some(changes) = self.state.word(std::mem::offset_of!(ContextState, changes)) {
            changes.fetch_add(1, Ordering::Release);
        }
    }
}

impl ContextWatch {
    /// Begins to tell the programs of contexts. `are_pids_ours`: the pids by which processes are
    /// traced are those that this process sees.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn begin(ebpf: &mut Ebpf, are_pids_ours: bool) -> Result<Self, LoadError> {
        let traced = TracedMap::from_object(ebpf)?.read_all()?;
        let places = PlaceMap::from_object(ebpf)?;
        let state = Arc::clone(&places.state);
        let failed = |source| LoadError::MapCall {
            call: "thread",
            name: PLACES,
            source,
        };
        let watcher = MappingWatcher::new().map_err(failed)?;
        let mut watch = Watch {
            places,
            traced: are_pids_ours.then_some(traced),
            told: HashSet::new(),
            unseen: all_processes(),
            candidates: Candidates::with_longest_wait(LONGEST_WAIT),
            files: Files::new(),
        };
        let watching = watcher.start("contexts", move |rings, stopped| {
            watch.go_on(rings, stopped)
        });
        Ok(Self {
            state,
            began: Instant::now(),
            places: None,
            _watching: Some(watching.map_err(failed)?),
        })
    }

    /// Begins without a watch: other processes say where contexts are.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn begin_for_others(ebpf: &mut Ebpf) -> Result<Self, LoadError> {
        let places = PlaceMap::from_object(ebpf)?;
        Ok(Self {
            state: Arc::clone(&places.state),
            began: Instant::now(),
            places: Some(places),
            _watching: None,
        })
    }

    /// Tells the programs where a process has its contexts, or that it has none.
    ///
    /// # Errors
    ///
    /// There are too many processes, or the programs are told by the watch alone.
    pub fn place(&mut self, pid: i32, place: Option<ContextPlace>) -> Result<(), LoadError> {
        let Some(places) = &mut self.places else {
            return Err(LoadError::PartMissing { name: PLACES });
        };
        match place {
            Some(place) => places.insert(pid, place),
            None => {
                places.remove(pid);
                Ok(())
            }
        }
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

/// Path and build identifier of a file.
type FileKey = (Arc<[u8]>, Vec<u8>);

/// Files by path and build identifier: whether they define the pointer.
struct Files {
    known: HashMap<FileKey, bool>,
    build_ids: BuildIds,
}

impl Files {
    fn new() -> Self {
        Self {
            known: HashMap::new(),
            build_ids: BuildIds::new(),
        }
    }

    /// Tells whether the file of a mapping defines the pointer.
    fn define(&mut self, pid: i32, mapping: &Mapping) -> bool {
        if !mapping.path.starts_with(b"/") {
            return false;
        }
        let key = (Arc::clone(&mapping.path), mapping.build_id.clone());
        if let Some(defines) = self.known.get(&key).filter(|_| !key.1.is_empty()) {
            return *defines;
        }
        let defines = context_variable(pid, mapping, &mut self.build_ids).is_some();
        if self.known.len() >= MOST_FILES {
            self.known.clear();
        }
        self.known.insert(key, defines);
        defines
    }

    /// Tells whether a file that a process has mapped defines the pointer.
    fn define_in(&mut self, pid: i32) -> bool {
        let mappings = read_mappings(pid, &mut self.build_ids);
        mappings.iter().any(|mapping| self.define(pid, mapping))
    }
}

/// Watch over what processes map.
struct Watch {
    places: PlaceMap,
    /// Bytes of traced processes; `None` where this namespace has other pids.
    traced: Option<MapMemory>,
    /// Processes that the programs were told of.
    told: HashSet<i32>,
    /// Processes whose files were not looked at yet, since they were not traced.
    unseen: HashSet<i32>,
    /// Processes that have a file with the pointer.
    candidates: Candidates,
    files: Files,
}

impl Watch {
    /// Takes reports until the other end of `stopped` is closed.
    fn go_on(&mut self, mut rings: Option<MappingRings>, stopped: &Stopped) {
        let mut looked = Instant::now();
        loop {
            let next = self.candidates.wait();
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
                } else if self.files.define(pid, &mapping) {
                    self.candidates.ask_soon(pid);
                }
            }
            MappingReport::Forked(child, parent) if child != parent => {
                self.forget(child);
                if self.told.contains(&parent) {
                    // The programs have noted already where the child has its contexts.
                    self.told.insert(child);
                } else if self.candidates.has(parent) {
                    self.candidates.ask_soon(child);
                } else if self.unseen.contains(&parent) {
                    self.unseen.insert(child);
                }
            }
            // The thread-local variables of a library are elsewhere, and are not moved with its
            // code.
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
            if self.files.define_in(pid) {
                self.candidates.ask_soon(pid);
            }
        }
    }

    /// Asks those candidates whose time has come.
    fn ask_candidates(&mut self) {
        for pid in self.candidates.due() {
            match place_of(pid) {
                Ok(Some(place)) if has_route(&place.0) => {
                    self.candidates.remove(pid);
                    self.tell(pid, place);
                }
                Ok(Some(place)) => {
                    self.candidates.ask_after(pid, ROUTE_WAIT);
                    self.tell(pid, place);
                }
                Ok(None) => {
                    self.untell(pid);
                    self.candidates.ask_later(pid);
                }
                Err(Gone) => self.forget(pid),
            }
        }
    }

    fn tell(&mut self, pid: i32, (place, program): (ContextPlace, PathBuf)) {
        if let Err(error) = self.places.insert(pid, place) {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                pid,
                "the contexts of a process are left out"
            );
            return;
        }
        self.told.insert(pid);
        // The process may have begun another program meanwhile, which the programs noted before
        // they were told of this place.
        if program_of(pid).as_ref() != Some(&program) {
            self.untell(pid);
        }
    }

    fn untell(&mut self, pid: i32) {
        if self.told.remove(&pid) {
            self.places.remove(pid);
        }
    }

    fn forget(&mut self, pid: i32) {
        self.untell(pid);
        self.unseen.remove(&pid);
        self.candidates.remove(pid);
    }
}

/// Begins a search for the contexts of processes that a service traces, in a thread of its own of
/// the service's client. It calls `tell` with a process and the place of its contexts, or with
/// `None` where the process no longer has them there. `tell` returns whether the service has
/// received this.
///
/// # Errors
///
/// No thread is available.
pub fn search_contexts(
    tell: impl FnMut(i32, Option<ContextPlace>) -> bool + Send + 'static,
) -> io::Result<ProcessSearch> {
    ProcessSearch::begin("contexts", move |news| {
        let mut search = Search {
            tell,
            told: HashSet::new(),
            candidates: Candidates::with_longest_wait(LONGEST_WAIT),
            files: Files::new(),
        };
        search.go_on(news);
    })
}

struct Search<T> {
    tell: T,
    /// Processes whose places the service knows.
    told: HashSet<i32>,
    candidates: Candidates,
    files: Files,
}

impl<T: FnMut(i32, Option<ContextPlace>) -> bool> Search<T> {
    fn go_on(&mut self, news: &Receiver<News>) {
        while let Some(heard) = self.candidates.wait_for(news) {
            match heard {
                Some(one) => self.hear(one),
                None => self.ask_candidates(),
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Begins(pid) => self.candidates.ask_soon(pid),
            // The programs have noted the new program before.
            News::Becomes { pid, .. } if self.knows(pid) => {
                self.told.remove(&pid);
                self.candidates.ask_soon(pid);
            }
            // The programs have noted already where the child has its contexts.
            News::Makes { parent, child, .. } if self.told.contains(&parent) => {
                self.candidates.remove(child);
                self.told.insert(child);
            }
            News::Makes { parent, child, .. } if self.knows(parent) => {
                self.told.remove(&child);
                self.candidates.ask_soon(child);
            }
            // Here the process is unknown: in a pid namespace of its own, the client knows
            // processes by other pids.
            News::Becomes { .. } | News::Makes { .. } => {}
            News::Ends(pid) => {
                self.told.remove(&pid);
                self.candidates.remove(pid);
            }
            News::Anew => {
                for pid in std::mem::take(&mut self.told) {
                    self.candidates.ask_soon(pid);
                }
            }
        }
    }

    fn knows(&self, pid: i32) -> bool {
        self.told.contains(&pid) || self.candidates.has(pid)
    }

    fn ask_candidates(&mut self) {
        for pid in self.candidates.due() {
            if !self.files.define_in(pid) {
                self.ask_again(pid);
                continue;
            }
            match place_of(pid) {
                Ok(Some((place, _))) if !has_route(&place) && self.told.contains(&pid) => {
                    self.candidates.ask_after(pid, ROUTE_WAIT);
                }
                Ok(Some((place, program))) if (self.tell)(pid, Some(place)) => {
                    if has_route(&place) {
                        self.candidates.remove(pid);
                    } else {
                        self.candidates.ask_after(pid, ROUTE_WAIT);
                    }
                    self.told.insert(pid);
                    // The process may have begun another program meanwhile, which the search hears
                    // of later.
                    if program_of(pid).as_ref() != Some(&program) {
                        (self.tell)(pid, None);
                    }
                }
                Ok(_) => self.ask_again(pid),
                Err(Gone) => self.candidates.remove(pid),
            }
        }
    }

    fn ask_again(&mut self, pid: i32) {
        match program_of(pid) {
            Some(_) => self.candidates.ask_later(pid),
            None => self.candidates.remove(pid),
        }
    }
}

/// A process that has ended.
struct Gone;

/// Returns where a process has the contexts of its threads, and its program; `None` where it has no
/// contexts at this moment.
fn place_of(pid: i32) -> Result<Option<(ContextPlace, PathBuf)>, Gone> {
    let asked = bounded_proc::ask_process(pid, move || {
        let program = program_of(pid).ok_or(Gone)?;
        let mut build_ids = BuildIds::new();
        let mappings = read_mappings(pid, &mut build_ids);
        let place = context_place(pid, &mappings, &mut build_ids);
        Ok(place.map(|(place, route)| (in_words(place, route), program)))
    });
    // A process that keeps the kernel from answering is asked again.
    asked.unwrap_or(Ok(None))
}

fn in_words(place: VariablePlace, route: Option<u8>) -> ContextPlace {
    let route = route.map_or(0, |index| u64::from(index) + 1) << 32;
    match place {
        VariablePlace::Distance(distance) => ContextPlace {
            module: route,
            offset: distance.cast_unsigned(),
            generation: 0,
        },
        VariablePlace::Module {
            module,
            offset,
            generation,
        } => ContextPlace {
            module: module & u64::from(u32::MAX) | route,
            offset,
            generation,
        },
    }
}

/// Tells whether the place says which attribute has the route: what threads do.
fn has_route(place: &ContextPlace) -> bool {
    place.module >> 32 != 0
}

fn program_of(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

fn all_processes() -> HashSet<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.collect()
}
