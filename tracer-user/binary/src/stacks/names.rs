//! Finds the functions of addresses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::Event;

use super::data::AddressName;
use super::inlined_files::InlinedFiles;
use super::jit_dump::is_mark;
use super::kernel_symbols::RunningKernel;
use super::lines::SourceLine;
use super::logged_names::{LoggedNames, MOST_NAMES};
use super::modules::{Module, Modules, key_of};
use super::own_code::{OwnCode, OwnCodes, since_mapped};
use super::seen::{Seen, SeenAddresses, leave_out_unclear};
use super::spaces::Spaces;
use super::{Mapping, RecordedStack};
use crate::probes::debuginfod;
use crate::python::is_place;

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

#[derive(Debug, Default)]
struct Inner {
    /// Live names: the processes are there, and the kernel is the running one.
    is_live: bool,
    spaces: Spaces<FoundModule>,
    of_log: LoggedNames,
    modules: Modules,
    /// Functions in others; `None` where they are not asked for.
    inlined: Option<InlinedFiles>,
    vdso: Option<Arc<Module>>,
    own_code: OwnCodes,
    /// Addresses that were seen, for a log, by the time since when they are in a mapping.
    seen: SeenAddresses,
    running_kernel: RunningKernel,
}

/// Functions of the file of a mapping, once that was looked for.
pub(super) type FoundModule = Option<Option<Arc<Module>>>;

/// A mapping of a process, the time since which it is there, and the functions of its file.
pub(super) type Place = (Arc<Mapping>, u64, FoundModule);

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

/// Tells whether a function of the kernel is in a stack because that is recorded.
fn is_name_of_recording(name: &str) -> bool {
    OF_RECORDING.iter().any(|one| name.starts_with(one))
}

impl SymbolNames {
    /// Returns names for what happens now.
    #[must_use]
    pub fn live() -> Self {
        let inner = Inner {
            is_live: true,
            modules: Modules::live(),
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
            of_log: LoggedNames::from_reader(read),
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
                    let time = event.header.time.0;
                    let since = Mapping::parse_since(event.data).unwrap_or(time);
                    inner.map(pid, since.min(time), &mapping);
                }
            }
            EventTypeId::SYMBOL => {
                inner.of_log.learn(event);
            }
            _ => {}
        }
    }

    /// Notes that mappings may be missing since this time, in nanoseconds: nothing is known of what
    /// is mapped from then on, until that is said anew.
    pub fn lose_mappings(&self, since: u64) {
        self.inner().spaces.forget(since);
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
        inner.spaces.gone(pid, at) + listed + inner.of_log.renamed(pid, at)
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
                inner.seen.entry((0, address, 0)).or_default();
            }
            for (index, address) in taken.user().enumerate() {
                let is_return = taken.is_return(index);
                let at = inner.time_of((pid, address), is_return, taken.taken_between(at));
                inner.note_address(pid, at, address, is_return);
            }
        }
    }

    /// Returns the names of all addresses that were noted.
    pub fn take_seen(&self) -> Vec<AddressName> {
        let mut inner = self.inner();
        inner.own_code.look_at_all();
        inner.wait_for_servers();
        let mut seen = std::mem::take(&mut inner.seen);
        // A log has one name for an address at a time.
        leave_out_unclear(&mut seen);
        let mut named = Vec::new();
        for ((pid, address, since), seen) in seen {
            let before = named.len();
            inner.push_names(&mut named, (pid, address, since), &seen);
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
            let name = frame.function.as_ref().map(|(name, _)| &**name);
            if is_of_recording && name.is_some_and(is_name_of_recording) {
                // So is what has no name and was called by it: the kernel's names may have been
                // read before our programs were loaded.
                frames.clear();
                continue;
            }
            is_of_recording &= name.is_none();
            frames.push(frame);
        }
        for (index, address) in taken.user().enumerate() {
            let is_return = taken.is_return(index);
            let at = inner.time_of((pid, address), is_return, taken.taken_between(at));
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

    /// Returns the time at which an address in a stack is looked up that was taken between two; 0
    /// where it may have been in one of two mappings.
    fn time_of(&mut self, (pid, address): (i32, u64), is_return: bool, taken: (u64, u64)) -> u64 {
        let code = code_address(address, is_return);
        self.spaces.clear_time((pid, code), taken)
    }

    /// Returns the mapping that had an address at a time.
    fn place(&mut self, (pid, at): (i32, u64), address: u64) -> Option<Place> {
        let found = self.spaces.find(pid, address, at)?;
        Some((Arc::clone(&found.mapping), found.since, found.found.clone()))
    }

    fn note_address(&mut self, pid: i32, at: u64, address: u64, is_return: bool) {
        if is_place(address) {
            self.seen.entry((pid, address, 0)).or_default();
            return;
        }
        let code = code_address(address, is_return);
        let Some(mut place) = self.place((pid, at), code) else {
            let since = self.spaces.unknown_since(pid, code, at);
            self.seen.entry((pid, address, since)).or_default();
            return;
        };
        let since = place.1;
        if place.0.may_be_generated() {
            self.own_code.look(pid, since);
        }
        let key = (pid, address, since);
        if let Some(seen) = self.seen.get_mut(&key) {
            seen.note(&place, is_return);
            return;
        }
        if place.0.is_of_file() && place.2.is_none() && !self.modules.hold(pid, &place) {
            let found = self.module((pid, at), code, &place);
            place.2 = (!self.modules.is_unanswered(&place.0)).then_some(found);
        }
        self.seen.insert(key, Seen::at(place, is_return));
    }

    /// Asks servers for the debugger's parts of all files of addresses that were seen, and waits.
    fn wait_for_servers(&mut self) {
        if !debuginfod::asks_servers() {
            return;
        }
        let places: Vec<_> = self
            .seen
            .iter()
            .filter_map(|((pid, address, since), seen)| {
                let place = seen
                    .place
                    .clone()
                    .filter(|(mapping, ..)| mapping.is_of_file())?;
                Some(((*pid, *since), *address, place))
            })
            .collect();
        for (of, address, place) in places {
            self.module(of, address, &place);
        }
        debuginfod::wait_for_all();
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

    /// Appends the names that an address has had in a mapping that is there since a time. One that
    /// is behind a call of one function and in another one has none.
    fn push_names(
        &mut self,
        to: &mut Vec<AddressName>,
        (pid, address, since): (i32, u64, u64),
        seen: &Seen,
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
            if let Some((_, name, line, _)) = self.of_log.first(pid, address) {
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
        let Some(place) = &seen.place else { return };
        let back = u64::from(seen.is_return);
        let is_both = seen.is_return && seen.is_exact;
        let mapping = &*place.0;
        if mapping.may_be_generated()
            && let Some(code) = self.own_code.get(pid)
        {
            let told_since = self.told_since(pid, since);
            let at = address.saturating_sub(back);
            let names = since_mapped(code.names(at, told_since), since);
            let is_any = names.iter().any(|(_, name)| name.is_some());
            for (since, name) in names.into_iter().filter(|_| is_any) {
                let line = code.line(at, since, told_since);
                let name = name.map(|(name, offset)| (name, offset + back));
                let name = name.filter(|(_, offset)| !is_both || *offset > back);
                push(since, name.unwrap_or_else(|| ("".into(), 0)), line);
            }
            if is_any {
                return;
            }
        }
        let exact = (seen.is_exact).then(|| self.function((pid, since), address, false, place));
        let function = match (exact, seen.is_return) {
            (Some(exact), false) => exact,
            (exact, _) => {
                let behind = self.function((pid, since), address, true, place);
                let is_one = exact.is_none_or(|exact| exact == behind);
                behind.filter(|_| is_one)
            }
        };
        function
            .into_iter()
            .for_each(|function| push(since, function, None));
    }

    fn kernel_frame(&mut self, address: u64) -> Frame {
        let function = if self.is_live {
            self.running_kernel.find(address)
        } else {
            let said = self.of_log.find((0, u64::MAX), address, 0);
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
            let (pid, at) = of;
            let code = code_address(address, is_return);
            let key = if mapping.build_id.is_empty() {
                let place = self.spaces.find(pid, code, at);
                let module = place.and_then(|place| place.found.clone()?);
                module.and_then(|module| module.key.clone())
            } else {
                Some(key_of(&mapping))
            };
            if let Some(key) = key {
                inlined.push(frames, &mut frame, (&key, offset));
            }
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
                    .of_log
                    .find((of.0, u64::MAX), address, 0)
                    .map(|(_, name, line, _)| (name, line)),
                mapping: None,
                is_inlined: false,
                line: None,
            };
        }
        let code = code_address(address, is_return);
        let place = self.place(of, code);
        let function = place
            .as_ref()
            .and_then(|place| self.function(of, address, is_return, place));
        let unknown_since = || self.spaces.unknown_since(of.0, code, of.1);
        let since = place
            .as_ref()
            .map_or_else(unknown_since, |(_, since, _)| *since);
        let mut line = None;
        let function = if let Some(function) = function {
            line = place
                .as_ref()
                .and_then(|place| self.own_line(of, address, is_return, place));
            Some(function)
        } else {
            let said = self.of_log.find(of, address, since);
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
            .then(|| self.module((pid, at), own, place)?.find(offset))
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
        let found = self.modules.find(pid, (mapping, *since), &mut self.inlined);
        if self.modules.is_unanswered(mapping) {
            return found;
        }
        if let Some(mapped) = self.spaces.find(pid, address, at)
            && *mapped.mapping == **mapping
        {
            mapped.found = Some(found.clone());
        }
        found
    }
}

/// Returns the address whose function counts: where it `is_return`, that of the call before it. A
/// mapping may end with a call.
fn code_address(address: u64, is_return: bool) -> u64 {
    address.saturating_sub(u64::from(is_return))
}

/// Returns the offset of an address in the file of its mapping. Where it `is_return`, the call
/// before it counts.
fn offset_in_file(mapping: &Mapping, address: u64, is_return: bool) -> u64 {
    let at = code_address(address, is_return);
    let offset = at.saturating_sub(mapping.start);
    offset.saturating_add(mapping.file_offset)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use tracer_common::kernel::StackData;
    use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
    use zerocopy::IntoBytes as _;

    use super::super::push_mapping_since;
    use super::*;
    use crate::probes::Binary;

    /// Returns mappings of one byte each, one behind the other, of two functions of this program,
    /// whose names follow.
    fn two_functions(start: u64) -> ([Mapping; 2], [Arc<str>; 2]) {
        use std::os::unix::ffi::OsStrExt as _;
        let path = std::env::current_exe().unwrap();
        let binary = Binary::open(&path, &path, std::path::Path::new("/")).unwrap();
        let module = Module::from_functions(binary.functions().unwrap());
        let functions = binary.functions().unwrap();
        let mut large = functions.iter().filter(|one| one.size > 64);
        let [one, other] = [(); 2].map(|()| large.next_back().unwrap().offset);
        let mapping = |at: u64, offset| Mapping {
            start: at,
            end: at + 1,
            file_offset: offset,
            path: path.as_os_str().as_bytes().into(),
            ..Mapping::default()
        };
        let names = [one, other].map(|offset| module.find(offset).unwrap().0);
        ([mapping(start, one), mapping(start + 1, other)], names)
    }

    /// Compiles a program without a build identifier, with a function that is put into others, and
    /// returns a mapping of all of it.
    fn program(file: &std::path::Path, inlined: &str, start: u64) -> Mapping {
        use std::os::unix::ffi::OsStrExt as _;
        use std::os::unix::fs::MetadataExt as _;
        let source = file.with_extension("c");
        let text = format!(
            "volatile int seen; static inline __attribute__((always_inline)) void {inlined}(int of)
             {{ for (int i = 0; i < of; i++) seen += i * of; }}
             __attribute__((noinline)) void outer(int of) {{ {inlined}(of); }}
             int main(int count, char **typed) {{ outer(count); return typed == 0; }}"
        );
        std::fs::write(&source, text).unwrap();
        let made = file.with_extension("made");
        let mut compiler = std::process::Command::new("cc");
        compiler
            .args(["-O1", "-g", "-Wl,--build-id=none"])
            .arg(&source);
        assert!(compiler.arg("-o").arg(&made).status().unwrap().success());
        std::fs::rename(&made, file).unwrap();
        Mapping {
            start,
            end: start + (1 << 20),
            path: file.as_os_str().as_bytes().into(),
            inode: std::fs::metadata(file).unwrap().ino(),
            ..Mapping::default()
        }
    }

    #[test]
    fn functions_in_others_are_those_of_the_mapped_file_also_without_an_identifier() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let pid = std::process::id().cast_signed();
        let names = SymbolNames::live();
        names.show_inlined(|_| {});
        let inlined_at = |start: u64| {
            let binary = Binary::open(&file, &file, std::path::Path::new("/")).unwrap();
            let outer = binary.functions().unwrap();
            let outer = outer.into_iter().find(|one| one.name == "outer").unwrap();
            move |names: &SymbolNames| -> Vec<Arc<str>> {
                let within = start + outer.offset..start + outer.offset + outer.size;
                let frames = within.flat_map(|address| names.frames_at(pid, address, false));
                let inlined = frames.filter(|frame| frame.is_inlined);
                let mut all: Vec<_> = inlined.filter_map(|of| Some(of.function?.0)).collect();
                all.dedup();
                all
            }
        };
        let learn = |mapping: Mapping| {
            std::thread::sleep(std::time::Duration::from_millis(60));
            names.learn_mapping(pid, super::super::time_now(), &mapping);
        };
        learn(program(&file, "first", 0x1000_0000));
        let first = inlined_at(0x1000_0000);
        assert_eq!(first(&names), [Arc::from("first")]);
        learn(program(&file, "second", 0x2000_0000));
        assert_eq!(inlined_at(0x2000_0000)(&names), [Arc::from("second")]);
        assert_eq!(first(&names), [Arc::from("first")]);
    }

    fn stack(addresses: &[u64]) -> Vec<u8> {
        let head = StackData {
            event_type: EventTypeId::SWITCH_OUT.0,
            kernel_frames: 0,
            user_frames: addresses.len().try_into().unwrap(),
            off_cpu_ns: 0,
            sampled_ns: 0,
            woken_tid: 0,
            ends: 0,
        };
        [head.as_bytes(), addresses.as_bytes()].concat()
    }

    #[test]
    fn a_thread_that_was_blocked_is_where_it_was_before() {
        const START: u64 = 0x1000;
        let (mut mappings, [one, other]) = two_functions(START);
        mappings[1] = Mapping {
            start: START,
            end: START + 1,
            ..mappings[1].clone()
        };
        let pid = std::process::id().cast_signed();
        let header = |time| EventHeader {
            time: MonotonicNs(time),
            event_type: EventTypeId::MAPPING,
            pid,
            tid: pid,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        };
        let names = SymbolNames::live();
        // Said as the first stack comes.
        for (mapping, since) in mappings.iter().zip([1_000_000, 3_000_000]) {
            let mut data = Vec::new();
            push_mapping_since(&mut data, mapping, (since, 5_000_000));
            names.learn(&Event {
                header: header(5_000_000),
                data: &data,
            });
        }
        let named = |blocked, at| {
            let mut stack = stack(&[START]);
            stack[offset_of!(StackData, off_cpu_ns)..][..8]
                .copy_from_slice(&u64::to_ne_bytes(blocked));
            let frames = names.frames(pid, at, &RecordedStack::parse(&stack).unwrap());
            names.note(pid, at, &stack);
            let seen = names.take_seen().into_iter().next().map(|of| of.name);
            let name = frames[0]
                .function
                .as_ref()
                .map(|(name, _)| Arc::clone(name));
            assert_eq!(seen, name);
            name
        };
        assert_eq!(named(0, 6_000_000), Some(Arc::clone(&other)));
        assert_eq!(named(1_000_000, 6_000_000), Some(other));
        assert_eq!(named(4_000_000, 6_000_000), Some(one));
        // It blocks as that is mapped.
        assert_eq!(named(2_950_000, 6_000_000), None);
        assert_eq!(named(5_500_000, 6_000_000), None);
    }

    #[test]
    fn a_call_that_ends_a_mapping_is_in_it_and_not_in_the_next_one() {
        const BETWEEN: u64 = 0x1001;
        let (mappings, [one, other]) = two_functions(BETWEEN - 1);
        let pid = std::process::id().cast_signed();
        for times in [[1, 1], [1, 5]] {
            let names = SymbolNames::live();
            let map = |which: usize| names.learn_mapping(pid, times[which], &mappings[which]);
            (0..2).for_each(map);
            let name = |is_return| {
                let frames = names.frames_at(pid, BETWEEN, is_return);
                frames[0].function.clone().unwrap()
            };
            assert_eq!(name(true), (Arc::clone(&one), 1));
            assert_eq!(name(false), (Arc::clone(&other), 0));
            // In a log, whose addresses have one name at a time.
            let named = |stacks: &[&[u64]]| {
                let noted = stacks.iter().map(|addresses| stack(addresses));
                noted.for_each(|stack| names.note(pid, 9, &stack));
                let seen = names.take_seen().into_iter();
                let seen = seen.filter(|one| one.address == BETWEEN && !one.name.is_empty());
                seen.map(|one| one.name).collect::<Vec<_>>()
            };
            assert_eq!(named(&[&[7, BETWEEN]]), [Arc::clone(&one)]);
            assert_eq!(named(&[&[BETWEEN]]), [Arc::clone(&other)]);
            assert!(named(&[&[7, BETWEEN], &[BETWEEN]]).is_empty());
        }
    }
}
