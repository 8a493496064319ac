//! Finds the functions of addresses.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::Event;

use super::data::{AddressName, symbol};
use super::inlined_files::InlinedFiles;
use super::jit_dump::is_mark;
use super::kernel_symbols::KernelSymbols;
use super::lines::SourceLine;
use super::modules::Module;
use super::own_code::{OwnCode, OwnCodes, since_mapped};
use super::spaces::{BuildIds, MappedBy, Spaces, binary};
use super::{Mapping, RecordedStack};
use crate::probes::{Binary, debuginfod};
use crate::python::is_place;

/// Addresses whose names go into a log at its end, and names that come from one.
const MOST_NAMES: usize = 1 << 20;

/// Files that are open until they are read. Beyond that, a file is read as long as it is there.
const MOST_OPEN: usize = 128;

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
    /// File of the source, and line in it, that the function is in; `None` where unknown, or not
    /// asked for.
    pub line: Option<SourceLine>,
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
    spaces: Spaces<FoundModule>,
    /// Names in a log by process (0 for the kernel) and address.
    of_log: HashMap<(i32, u64), Vec<LoggedName>>,
    /// Number of those.
    of_log_count: usize,
    /// Times by process at which an address of it comes to have another name.
    renamed: HashMap<i32, HashSet<u64>>,
    /// Reader of those, until one is asked for.
    reader: Option<SymbolReader>,
    /// Modules by path and build identifier; `None` where no such file is found.
    modules: HashMap<ModuleKey, Option<Arc<Module>>>,
    /// Files of which a server is asked, each with the number of answers before that.
    unanswered: HashMap<ModuleKey, u64>,
    /// Files whose functions are still to be read: they may have no name any more by then.
    open: HashMap<ModuleKey, Binary>,
    /// Functions in others; `None` where they are not asked for.
    inlined: Option<InlinedFiles>,
    build_ids: BuildIds,
    kernel: Option<KernelSymbols>,
    vdso: Option<Arc<Module>>,
    own_code: OwnCodes,
    /// Addresses that were seen, for a log, by the time since when they are in a mapping.
    seen: BTreeMap<(i32, u64, u64), Option<Place>>,
}

/// Functions of the file of a mapping, once that was looked for.
type FoundModule = Option<Option<Arc<Module>>>;

/// Name in a log: the time since which it counts, the name, the offset in the function, and the
/// line.
type LoggedName = (u64, Arc<str>, u64, Option<SourceLine>);

/// A mapping of a process, the time since which it is there, and the functions of its file.
type Place = (Arc<Mapping>, u64, FoundModule);

/// A file's path and build identifier.
pub(super) type ModuleKey = (Arc<[u8]>, Vec<u8>);

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

    /// Shows also functions that the compiler has put into others, and lines, where files describe
    /// them. To be called before anything is named. `warn` is told of files of which not all are
    /// shown.
    pub fn show_inlined(&self, warn: fn(&str)) {
        self.inner().inlined = Some(InlinedFiles::new(warn));
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
                    inner.map(pid, event.header.time.0, &mapping);
                }
            }
            EventTypeId::SYMBOL => {
                inner.learn_symbol(event);
            }
            _ => {}
        }
    }

    /// Notes code that process `pid` has mapped by this time, in nanoseconds.
    pub fn learn_mapping(&self, pid: i32, at: u64, mapping: &Mapping) {
        self.inner().map(pid, at, mapping);
    }

    /// Returns a number that differs where, by a time, addresses of a process have come to mean
    /// something else.
    pub(super) fn space(&self, pid: i32, at: u64) -> u64 {
        let inner = self.inner();
        let listed = inner.own_code.get(pid).map_or(0, OwnCode::added);
        let renamed = inner.renamed.get(&pid);
        let renamed = renamed.map_or(0, |times| times.iter().filter(|time| **time <= at).count());
        inner.spaces.gone(pid, at) + listed + renamed as u64
    }

    /// Returns the functions at an address of a process now, the innermost first: with those that
    /// the compiler has put into it, where they are shown. Where it `is_return`, the call before it
    /// counts.
    #[must_use]
    pub fn frames_at(&self, pid: i32, address: u64, is_return: bool) -> Vec<Frame> {
        let mut inner = self.inner();
        let mut frames = Vec::new();
        inner.push_frames(&mut frames, (pid, u64::MAX), address, is_return);
        frames
    }

    /// Notes the addresses of a stack of process `pid` at this time, in nanoseconds, whose names
    /// [`take_seen`](Self::take_seen) gives at the end. What may be gone by then is looked at now.
    pub fn note(&self, pid: i32, at: u64, untrusted: &[u8]) {
        let Some(taken) = RecordedStack::parse(untrusted) else {
            return;
        };
        let mut inner = self.inner();
        if inner.seen.len() < MOST_NAMES {
            for address in taken.kernel() {
                inner.seen.insert((0, address, 0), None);
            }
            for address in taken.user() {
                inner.note_address(pid, at, address);
            }
        }
    }

    /// Returns the names of all addresses that were noted.
    pub fn take_seen(&self) -> Vec<AddressName> {
        let mut inner = self.inner();
        inner.own_code.look_at_all();
        inner.wait_for_servers();
        let seen = std::mem::take(&mut inner.seen);
        let mut named = Vec::new();
        for ((pid, address, since), place) in seen {
            let before = named.len();
            inner.push_names(&mut named, (pid, address, since), place.as_ref());
            // Of what was mapped before, and has a name there.
            let is_earlier = |name: &AddressName| (name.pid, name.address) == (pid, address);
            let has_earlier = before > 0 && named.get(before - 1).is_some_and(is_earlier);
            if named.len() == before && has_earlier {
                named.push(AddressName {
                    pid,
                    address,
                    offset: 0,
                    name: "".into(),
                    since,
                    line: None,
                });
            }
        }
        named
    }

    /// Returns the functions of a stack, the innermost first.
    pub(super) fn frames(&self, pid: i32, at: u64, taken: &RecordedStack<'_>) -> Vec<Frame> {
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
            inner.push_frames(&mut frames, (pid, at), address, is_return);
        }
        frames
    }
}

impl Inner {
    fn map(&mut self, pid: i32, at: u64, mapping: &Mapping) {
        self.spaces.map(pid, at, mapping);
        if self.is_live && is_mark(mapping) {
            self.own_code.mark(pid, at, mapping);
        }
    }

    fn learn_symbol(&mut self, event: &Event<'_>) {
        if let Some(of) = symbol(event.header.pid, event.data)
            && self.of_log_count < MOST_NAMES
        {
            self.of_log_count += 1;
            let names = self.of_log.entry((of.pid, of.address)).or_default();
            if of.since != 0 && !names.is_empty() {
                self.renamed.entry(of.pid).or_default().insert(of.since);
            }
            let behind = names.partition_point(|(since, ..)| *since <= of.since);
            names.insert(behind, (of.since, of.name, of.offset, of.line));
        }
    }

    /// Returns the name that the log has for an address at a time, at which it was in a mapping
    /// that was there since another one. Its names are at its end, and read when one is asked for.
    fn said_by_log(
        &mut self,
        (pid, at): (i32, u64),
        address: u64,
        since: u64,
    ) -> Option<LoggedName> {
        if let Some(SymbolReader(read)) = self.reader.take() {
            read(&mut |event| self.learn_symbol(event));
        }
        let names = self.of_log.get(&(pid, address))?;
        let behind = names.partition_point(|(since, ..)| *since <= at);
        let found = names.get(behind.checked_sub(1)?)?;
        let (from, name, ..) = found;
        let is_of_mapping = *from == 0 || *from >= since;
        (is_of_mapping && !name.is_empty()).then(|| found.clone())
    }

    /// Returns the mapping that had an address at a time.
    fn place(&mut self, (pid, at): (i32, u64), address: u64) -> Option<Place> {
        let found = self.spaces.find(pid, address, at)?;
        Some((Arc::clone(&found.mapping), found.since, found.found.clone()))
    }

    fn note_address(&mut self, pid: i32, at: u64, address: u64) {
        if is_place(address) {
            self.seen.insert((pid, address, 0), None);
            return;
        }
        let Some(mut place) = self.place((pid, at), address) else {
            let since = self.spaces.unknown_since(pid, address, at);
            self.seen.insert((pid, address, since), None);
            return;
        };
        let since = place.1;
        if place.0.may_be_generated() {
            self.own_code.look(pid, since);
        }
        let key = (pid, address, since);
        if !self.seen.contains_key(&key) {
            if place.0.is_of_file() && place.2.is_none() {
                self.hold((pid, at), address, &mut place);
            }
            self.seen.insert(key, Some(place));
        }
    }

    /// Opens the file of a mapping, or reads it where too many are open, or it has no identifier by
    /// which it is found again.
    fn hold(&mut self, of: (i32, u64), address: u64, place: &mut Place) {
        let mapping = Arc::clone(&place.0);
        let key = key_of(&mapping);
        let is_known = self.modules.contains_key(&key) || self.open.contains_key(&key);
        if mapping.build_id.is_empty() || self.open.len() >= MOST_OPEN {
            let found = self.module(of, address, place);
            place.2 = (!self.unanswered.contains_key(&key)).then_some(found);
        } else if !is_known && let Some(binary) = self.open_binary(of.0, &mapping, place.1) {
            self.open.insert(key, binary);
        }
    }

    /// Asks servers for the debugger's parts of all files of addresses that were seen, and waits.
    fn wait_for_servers(&mut self) {
        if !debuginfod::asks_servers() {
            return;
        }
        let places: Vec<_> = self
            .seen
            .iter()
            .filter_map(|((pid, address, since), place)| {
                let place = place.clone().filter(|(mapping, ..)| mapping.is_of_file())?;
                Some(((*pid, *since), *address, place))
            })
            .collect();
        for (of, address, place) in places {
            self.module(of, address, &place);
        }
        debuginfod::wait_for_all();
    }

    /// Tells whether the functions of a file are to be read: they were not, or a server has
    /// answered since.
    fn is_unread(&self, key: &ModuleKey) -> bool {
        let answers = self.unanswered.get(key);
        answers.is_some_and(|answers| *answers != debuginfod::answers())
            || !self.modules.contains_key(key)
    }

    /// Returns the time since which what a process tells is about its code that is known to be
    /// there since a time: of what was there before the trace it may have told before.
    fn told_since(&self, pid: i32, since: u64) -> u64 {
        if self.spaces.may_be_older(pid, since) {
            0
        } else {
            since
        }
    }

    /// Appends the names that an address has had in a mapping that is there since a time.
    fn push_names(
        &mut self,
        to: &mut Vec<AddressName>,
        (pid, address, since): (i32, u64, u64),
        place: Option<&Place>,
    ) {
        let mut push = |since, (name, offset), line| {
            to.push(AddressName {
                pid,
                address,
                offset,
                name,
                since,
                line,
            });
        };
        if is_place(address) {
            let names = self
                .of_log
                .get(&(pid, address))
                .and_then(|names| names.first());
            if let Some((_, name, line, _)) = names {
                push(0, (Arc::clone(name), *line), None);
            }
            return;
        }
        if pid == 0 {
            let function = self.kernel_frame(address).function;
            function
                .into_iter()
                .for_each(|function| push(0, function, None));
            return;
        }
        let Some(place) = place else { return };
        let mapping = &*place.0;
        if mapping.may_be_generated()
            && let Some(code) = self.own_code.get(pid)
        {
            let told_since = self.told_since(pid, since);
            let names = code.names(address.saturating_sub(1), told_since);
            let names = since_mapped(names, since);
            let is_any = names.iter().any(|(_, name)| name.is_some());
            for (since, name) in names.into_iter().filter(|_| is_any) {
                let line = code.line(address.saturating_sub(1), since, told_since);
                let name = name.map(|(name, offset)| (name, offset + 1));
                push(since, name.unwrap_or_else(|| ("".into(), 0)), line);
            }
            if is_any {
                return;
            }
        }
        let function = self.function((pid, since), address, true, place);
        function
            .into_iter()
            .for_each(|function| push(since, function, None));
    }

    fn kernel_frame(&mut self, address: u64) -> Frame {
        let function = if self.is_live {
            let kernel = self.kernel.get_or_insert_with(KernelSymbols::read);
            kernel.find(address)
        } else {
            let said = self.said_by_log((0, u64::MAX), address, 0);
            said.map(|(_, name, offset, _)| (name, offset))
        };
        Frame {
            address,
            is_kernel: true,
            function,
            mapping: None,
            is_inlined: false,
            line: None,
        }
    }

    /// Adds the function at an address of a process at a time, after those that were put into it.
    fn push_frames(
        &mut self,
        frames: &mut Vec<Frame>,
        of: (i32, u64),
        address: u64,
        is_return: bool,
    ) {
        let mut frame = self.user_frame(of, address, is_return);
        if let (Some(inlined), Some(mapping)) = (&mut self.inlined, frame.mapping.clone()) {
            let offset = offset_in_file(&mapping, address, is_return);
            inlined.push(frames, &mut frame, (&key_of(&mapping), offset));
        }
        frames.push(frame);
    }

    /// Returns the function at an address of a process at a time. Where it `is_return`, the call
    /// before it counts: a function may end with a call.
    fn user_frame(&mut self, of: (i32, u64), address: u64, is_return: bool) -> Frame {
        if is_place(address) {
            return Frame {
                address,
                is_kernel: false,
                function: self
                    .said_by_log((of.0, u64::MAX), address, 0)
                    .map(|(_, name, line, _)| (name, line)),
                mapping: None,
                is_inlined: false,
                line: None,
            };
        }
        let place = self.place(of, address);
        let function = place
            .as_ref()
            .and_then(|place| self.function(of, address, is_return, place));
        let since = place.as_ref().map_or(0, |(_, since, _)| *since);
        let mut line = None;
        let function = if let Some(function) = function {
            line = place
                .as_ref()
                .and_then(|place| self.own_line(of, address, is_return, place));
            Some(function)
        } else {
            let said = self.said_by_log(of, address, since);
            said.map(|(_, name, offset, said)| {
                line = said.filter(|_| self.inlined.is_some());
                (name, offset)
            })
        };
        Frame {
            address,
            is_kernel: false,
            function,
            mapping: place.map(|(mapping, ..)| mapping),
            is_inlined: false,
            line,
        }
    }

    /// Returns the line of an address in code that its process has made, where lines are shown.
    fn own_line(
        &self,
        (pid, at): (i32, u64),
        address: u64,
        is_return: bool,
        (mapping, since, _): &Place,
    ) -> Option<SourceLine> {
        let is_asked = self.inlined.is_some() && mapping.may_be_generated();
        let code = self.own_code.get(pid).filter(|_| is_asked)?;
        let own = address.checked_sub(u64::from(is_return))?;
        code.line(own, at, self.told_since(pid, *since))
    }

    /// Returns the function at an address that is in this mapping, as its file or its process says.
    fn function(
        &mut self,
        (pid, at): (i32, u64),
        address: u64,
        is_return: bool,
        place: &Place,
    ) -> Option<(Arc<str>, u64)> {
        let (mapping, since, _) = place;
        let back = u64::from(is_return);
        let offset = offset_in_file(mapping, address, is_return);
        let own = address.checked_sub(back)?;
        let of_file = mapping
            .is_of_file()
            .then(|| self.module((pid, at), address, place)?.find(offset))
            .flatten();
        let (name, offset) = if let Some(found) = of_file {
            found
        } else if !self.is_live {
            return None;
        } else if *mapping.path == *b"[vdso]" {
            let vdso = self.vdso.get_or_insert_with(|| Arc::new(Module::of_vdso()));
            vdso.find(own.checked_sub(mapping.start)?)?
        } else if mapping.may_be_generated() {
            let told_since = self.told_since(pid, *since);
            self.own_code.find((pid, own), at, (*since, told_since))?
        } else {
            return None;
        };
        Some((name, offset + back))
    }

    /// Returns the functions of the file of the mapping that has an address, if it is the same one
    /// still. What was found is kept with the mapping.
    fn module(
        &mut self,
        (pid, at): (i32, u64),
        address: u64,
        place: &Place,
    ) -> Option<Arc<Module>> {
        let (mapping, since, found) = place;
        if let Some(found) = found {
            return found.clone();
        }
        let key = key_of(mapping);
        let has_id = !mapping.build_id.is_empty();
        let known = if has_id && !self.is_unread(&key) {
            self.modules.get(&key).cloned()
        } else {
            None
        };
        let found = match known {
            Some(known) => known,
            None => {
                // Before it is asked for: the answer may come at once.
                let answers = debuginfod::answers();
                let binary = self.open.remove(&key);
                let binary = binary.or_else(|| self.open_binary(pid, mapping, *since));
                let found = binary.and_then(|binary| self.read_module(&key, &binary));
                let found = found.map(Arc::new);
                if has_id {
                    self.unanswered.remove(&key);
                    let is_answered = debuginfod::answers() != answers;
                    if is_answered || debuginfod::is_asked(&mapping.build_id) {
                        self.unanswered.insert(key.clone(), answers);
                    }
                    self.modules.insert(key.clone(), found.clone());
                }
                found
            }
        };
        if self.unanswered.contains_key(&key) {
            return found;
        }
        if let Some(mapped) = self.spaces.find(pid, address, at)
            && *mapped.mapping == **mapping
        {
            mapped.found = Some(found.clone());
        }
        found
    }

    /// Opens the file of a mapping that is there since a time.
    fn open_binary(&mut self, pid: i32, mapping: &Mapping, since: u64) -> Option<Binary> {
        let owner = MappedBy {
            pid,
            at: self.is_live.then_some(since),
        };
        binary(owner, mapping, &mut self.build_ids)
    }

    fn read_module(&mut self, key: &ModuleKey, binary: &Binary) -> Option<Module> {
        if let Some(inlined) = &mut self.inlined {
            inlined.read(key, binary);
        }
        Some(Module::from_functions(binary.functions().ok()?))
    }
}

/// Returns the path and the build identifier of a mapping's file.
fn key_of(mapping: &Mapping) -> ModuleKey {
    (Arc::clone(&mapping.path), mapping.build_id.clone())
}

/// Returns the offset of an address in the file of its mapping. Where it `is_return`, the call
/// before it counts.
fn offset_in_file(mapping: &Mapping, address: u64, is_return: bool) -> u64 {
    let at = address.saturating_sub(u64::from(is_return));
    let offset = at.saturating_sub(mapping.start);
    offset.saturating_add(mapping.file_offset)
}
