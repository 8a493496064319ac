//! Finds the functions of addresses.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::Event;

use super::data::symbol;
use super::inlined::{Allowance, Inlined};
use super::kernel_symbols::KernelSymbols;
use super::modules::Module;
use super::perf_map::PerfMap;
use super::spaces::{BuildIds, Spaces, binary};
use super::{Mapping, RecordedStack};

/// Addresses whose names go into a log at its end, and names that come from one.
const MOST_NAMES: usize = 1 << 20;

/// Function that a thread was in.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Address in the function.
    pub address: u64,
    /// Function of the kernel.
    pub is_kernel: bool,
    /// Its name, and bytes from its beginning; `None` where unknown.
    pub function: Option<(Arc<str>, u64)>,
    /// The mapping that has it.
    pub mapping: Option<Arc<Mapping>>,
    /// Function that the compiler has put into the next one, which has the same address.
    pub is_inlined: bool,
}

/// Resolver of addresses to names.
#[derive(Clone, Debug, Default)]
pub struct SymbolNames(Arc<Mutex<Inner>>);

/// Function that hands over the events of a log that name addresses.
struct SymbolReader(Box<ReadSymbols>);

type ReadSymbols = dyn FnOnce(&mut dyn FnMut(&Event<'_>)) + Send;

impl fmt::Debug for SymbolReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SymbolReader")
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// Live names: the processes are there, and the kernel is the running one.
    is_live: bool,
    spaces: Spaces,
    /// Names in a log by process (0 for the kernel) and address.
    of_log: HashMap<(i32, u64), (Arc<str>, u64)>,
    /// Reader of those, until one is asked for.
    reader: Option<SymbolReader>,
    /// Modules by path and build identifier; `None` where no such file is found.
    modules: HashMap<ModuleKey, Option<Arc<Module>>>,
    /// Functions in others; `None` where they are not asked for.
    inlined: Option<InlinedFiles>,
    build_ids: BuildIds,
    kernel: Option<KernelSymbols>,
    perf_maps: HashMap<i32, PerfMap>,
    /// Addresses that were seen, for a log.
    seen: HashSet<(i32, u64)>,
}

/// Functions in others as files describe them.
#[derive(Debug, Default)]
struct InlinedFiles {
    files: HashMap<ModuleKey, Inlined>,
    allowance: Allowance,
    /// Files whose missing functions were reported.
    said: HashSet<ModuleKey>,
    /// Takes such reports.
    warn: Option<fn(&str)>,
}

impl InlinedFiles {
    /// Reports, once for a file, that not all of its functions in others are shown.
    fn say_missing(&mut self, key: ModuleKey, why: &str) {
        let file = String::from_utf8_lossy(&key.0).into_owned();
        if self.said.insert(key)
            && let Some(warn) = self.warn
        {
            warn(&format!(
                "not all inlined functions of {file} are shown: {why}"
            ));
        }
    }
}

/// A file's path and build identifier.
type ModuleKey = (Arc<[u8]>, Vec<u8>);

/// Names of the kernel that the recording itself brings into a stack.
const OF_RECORDING: [&str; 9] = [
    "bpf_get_stack",
    "bpf_prog_",
    "bpf_trampoline_",
    "bpf_trace_run",
    "__bpf_trace_",
    "__traceiter_",
    "trace_call_bpf",
    "perf_trace_",
    "__bpf_prog_",
];

impl SymbolNames {
    /// Returns names for what happens now.
    #[must_use]
    pub fn live() -> Self {
        let inner = Inner {
            is_live: true,
            ..Inner::default()
        };
        Self(Arc::new(Mutex::new(inner)))
    }

    /// Names as a log has them, where files that it names are not there any more.
    ///
    /// `read` hands over each event of the log that names an address. It is called when the first
    /// name is asked for.
    #[must_use]
    pub fn from_log(read: impl FnOnce(&mut dyn FnMut(&Event<'_>)) + Send + 'static) -> Self {
        let inner = Inner {
            reader: Some(SymbolReader(Box::new(read))),
            ..Inner::default()
        };
        Self(Arc::new(Mutex::new(inner)))
    }

    /// Shows also functions that the compiler has put into others, where files describe them. To be
    /// called before anything is named. `warn` is told of files of which not all are shown.
    pub fn show_inlined(&self, warn: fn(&str)) {
        self.inner().inlined = Some(InlinedFiles {
            warn: Some(warn),
            ..InlinedFiles::default()
        });
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns from an event: a mapping, or a name.
    pub fn learn(&self, event: &Event<'_>) {
        let pid = event.header.pid;
        let mut inner = self.inner();
        match event.header.event_type {
            EventTypeId::MAPPING => {
                if let Some(mapping) = Mapping::parse(event.data) {
                    inner.spaces.map(pid, mapping);
                }
            }
            EventTypeId::SYMBOL => {
                inner.learn_symbol(event);
            }
            _ => {}
        }
    }

    /// Notes code that process `pid` has mapped.
    pub fn learn_mapping(&self, pid: i32, mapping: Mapping) {
        self.inner().spaces.map(pid, mapping);
    }

    /// Returns the functions at an address of a process, the innermost first: with those that the
    /// compiler has put into it, where they are shown. Where it `is_return`, the call before it
    /// counts.
    #[must_use]
    pub fn frames_at(&self, pid: i32, address: u64, is_return: bool) -> Vec<Frame> {
        let mut inner = self.inner();
        let mut frames = Vec::new();
        let frame = inner.user_frame(pid, address, is_return);
        inner.push_inlined(&mut frames, &frame, is_return);
        frames.push(frame);
        frames
    }

    /// Notes the addresses of a stack, whose names [`take_seen`](Self::take_seen) gives at the end.
    pub fn note(&self, pid: i32, untrusted: &[u8]) {
        let Some(taken) = RecordedStack::parse(untrusted) else {
            return;
        };
        let mut inner = self.inner();
        if inner.seen.len() < MOST_NAMES {
            inner
                .seen
                .extend(taken.kernel().map(|address| (0, address)));
            inner
                .seen
                .extend(taken.user().map(|address| (pid, address)));
        }
    }

    /// Returns the names of all addresses that were noted: process, address, offset in the
    /// function, name.
    pub fn take_seen(&self) -> Vec<(i32, u64, u64, Arc<str>)> {
        let mut inner = self.inner();
        let mut seen: Vec<_> = std::mem::take(&mut inner.seen).into_iter().collect();
        seen.sort_unstable();
        let named = seen.into_iter().filter_map(|(pid, address)| {
            let frame = if pid == 0 {
                inner.kernel_frame(address)
            } else {
                inner.user_frame(pid, address, true)
            };
            let (name, offset) = frame.function?;
            Some((pid, address, offset, name))
        });
        named.collect()
    }

    /// Returns the functions of a stack, the innermost first.
    pub(super) fn frames(&self, pid: i32, taken: &RecordedStack<'_>) -> Vec<Frame> {
        let mut inner = self.inner();
        let mut frames = Vec::new();
        let mut is_of_recording = true;
        for address in taken.kernel() {
            let frame = inner.kernel_frame(address);
            let name = frame.function.as_ref().map_or("", |(name, _)| name);
            is_of_recording &= OF_RECORDING.iter().any(|one| name.starts_with(one));
            if !is_of_recording {
                frames.push(frame);
            }
        }
        // Where a program goes on after a system call is behind it too.
        let is_in_call = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT]
            .iter()
            .any(|id| id.0 == taken.head.event_type);
        for (index, address) in taken.user().enumerate() {
            let is_return = index > 0 || is_in_call;
            let frame = inner.user_frame(pid, address, is_return);
            inner.push_inlined(&mut frames, &frame, is_return);
            frames.push(frame);
        }
        frames
    }
}

impl Inner {
    fn learn_symbol(&mut self, event: &Event<'_>) {
        if let Some((address, offset, name)) = symbol(event.data)
            && self.of_log.len() < MOST_NAMES
        {
            let name = Arc::from(&*String::from_utf8_lossy(name));
            let key = (event.header.pid, address);
            self.of_log.insert(key, (name, offset));
        }
    }

    /// Returns the name that the log has for an address. Its names are at its end, and read when
    /// one is asked for.
    fn said_by_log(&mut self, pid: i32, address: u64) -> Option<(Arc<str>, u64)> {
        if let Some(SymbolReader(read)) = self.reader.take() {
            read(&mut |event| self.learn_symbol(event));
        }
        self.of_log.get(&(pid, address)).cloned()
    }

    fn kernel_frame(&mut self, address: u64) -> Frame {
        let function = if self.is_live {
            let kernel = self.kernel.get_or_insert_with(KernelSymbols::read);
            kernel.find(address)
        } else {
            self.said_by_log(0, address)
        };
        Frame {
            address,
            is_kernel: true,
            function,
            mapping: None,
            is_inlined: false,
        }
    }

    /// Returns the function at an address of a process. Where it `is_return`, the call before it
    /// counts: a function may end with a call.
    fn user_frame(&mut self, pid: i32, address: u64, is_return: bool) -> Frame {
        let mapping = self.spaces.find(pid, address).cloned();
        let back = u64::from(is_return);
        let mut function = None;
        if let Some(mapping) = &mapping {
            let at = address.saturating_sub(back);
            let offset = offset_in_file(mapping, address, is_return);
            function = if mapping.path.starts_with(b"/") {
                let module = self.module(pid, mapping);
                module.and_then(|module| module.find(offset))
            } else if self.is_live && mapping.path.is_empty() {
                let map = self.perf_maps.entry(pid);
                map.or_insert_with(|| PerfMap::from_process(pid)).find(at)
            } else {
                None
            };
            if let Some((_, offset)) = &mut function {
                *offset += back;
            }
        }
        let function = function.or_else(|| self.said_by_log(pid, address));
        Frame {
            address,
            is_kernel: false,
            function,
            mapping,
            is_inlined: false,
        }
    }

    /// Adds the functions that were put into that of `frame`, and have its address.
    fn push_inlined(&mut self, frames: &mut Vec<Frame>, frame: &Frame, is_return: bool) {
        let (Some(inlined), Some(mapping)) = (&mut self.inlined, &frame.mapping) else {
            return;
        };
        let key = (Arc::clone(&mapping.path), mapping.build_id.clone());
        let Some(file) = inlined.files.get_mut(&key) else {
            return;
        };
        let offset = offset_in_file(mapping, frame.address, is_return);
        let names = file.at(offset, &mut inlined.allowance);
        if file.is_given_up(&inlined.allowance) {
            inlined.say_missing(key, "it would take too long to find them");
        }
        frames.extend(names.iter().map(|name| Frame {
            function: Some((Arc::clone(name), 0)),
            is_inlined: true,
            ..frame.clone()
        }));
    }

    /// Returns the functions of the file of a mapping, if it is the same one still.
    fn module(&mut self, pid: i32, mapping: &Mapping) -> Option<Arc<Module>> {
        let key = (Arc::clone(&mapping.path), mapping.build_id.clone());
        if let Some(known) = self.modules.get(&key) {
            return known.clone();
        }
        let found = self.read_module(pid, mapping).map(Arc::new);
        self.modules.insert(key, found.clone());
        found
    }

    fn read_module(&mut self, pid: i32, mapping: &Mapping) -> Option<Module> {
        let binary = binary(pid, mapping, self.is_live, &mut self.build_ids)?;
        if let Some(inlined) = &mut self.inlined
            && let Some(data) = binary.debug_data()
        {
            let key = (Arc::clone(&mapping.path), mapping.build_id.clone());
            match Inlined::from_debug_data(data, &mut inlined.allowance) {
                Some(file) => drop(inlined.files.insert(key, file)),
                None => inlined.say_missing(key, "they would take too much memory"),
            }
        }
        Some(Module::from_functions(binary.functions().ok()?))
    }
}

/// Returns the offset of an address in the file of its mapping. Where it `is_return`, the call
/// before it counts.
fn offset_in_file(mapping: &Mapping, address: u64, is_return: bool) -> u64 {
    let at = address.saturating_sub(u64::from(is_return));
    let offset = at.saturating_sub(mapping.start);
    offset.saturating_add(mapping.file_offset)
}
