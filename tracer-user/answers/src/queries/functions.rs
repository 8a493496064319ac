//! Functions in which threads wait, by the stacks that were recorded as they left their CPUs.

use std::sync::Arc;

use foldhash::HashMap;
use tracer_analysis::{FunctionId, LockTable};

use super::{CallObjects, Groups};
use tracer_binary::stacks::{Frame, Mapping, Stack, SymbolNames};
use tracer_text::escape::push_for_people;

/// Most functions that are told apart; a wait in one beyond those has none.
const MOST_FUNCTIONS: usize = 4096;

/// Bytes of a name.
const MOST_BYTES: usize = 200;

/// Files of the C runtime, up to the rest of their names: programs wait through them, and they do
/// not say for what.
const RUNTIME: [&str; 11] = [
    "[vdso]",
    "[vsyscall]",
    "ld-linux",
    "ld-musl",
    "ld",
    "libc",
    "libgcc_s",
    "libm",
    "libpthread",
    "librt",
    "libstdc++",
];

/// A function that is named for a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it is the innermost one of the program. Else there may be another one between it and
    /// the C runtime: most libraries of that have no frame pointers.
    pub is_innermost: bool,
}

/// Address in the code of a process.
#[derive(Clone, Debug)]
pub struct CodeAddress {
    /// The mapping that has it.
    pub mapping: Arc<Mapping>,
    /// The address.
    pub address: u64,
    /// Whether a call returns to it: the call before it counts.
    pub is_return: bool,
}

impl CodeAddress {
    /// Returns its offset in the file that is mapped there.
    #[must_use]
    pub fn offset_in_file(&self) -> u64 {
        let inside = self.address.wrapping_sub(self.mapping.start);
        inside.wrapping_add(self.mapping.file_offset)
    }

    /// Returns the file of the source and the line in it, where the file that process `pid` has
    /// mapped there says so: that of the function itself, and not of one that the compiler has put
    /// into it.
    #[must_use]
    pub fn line(&self, pid: i32) -> Option<(Arc<str>, u32)> {
        let names = SymbolNames::default();
        names.show_inlined(|_| {});
        names.learn_mapping(pid, 0, &self.mapping);
        let frames = names.frames_at(pid, self.address, self.is_return);
        frames.last()?.line.clone()
    }
}

/// The functions, by name.
#[derive(Debug, Default)]
pub struct Functions {
    /// Places, with harmless names.
    places: Vec<Place>,
    known: HashMap<Place, FunctionId>,
    /// The other names that words about a wait need: of control groups.
    pub groups: Groups,
    /// The locks that were waited for.
    pub locks: LockTable,
    /// The objects of system calls.
    pub objects: CallObjects,
}

impl Functions {
    /// Returns the function of a stack that tells what its thread waits for: the innermost one of
    /// the program that is not of the C runtime. None where that has no name.
    pub fn waiting(&mut self, stack: &Stack<'_>) -> FunctionId {
        self.waiting_at(stack).0
    }

    /// As [`waiting`](Self::waiting), with where the thread is in the function.
    pub fn waiting_at(&mut self, stack: &Stack<'_>) -> (FunctionId, Option<CodeAddress>) {
        let frames = stack.frames();
        let mut frames = frames.iter().filter(|frame| !frame.is_kernel);
        let (nth, frame) = match frames
            .by_ref()
            .enumerate()
            .find(|(_, one)| !is_runtime(one))
        {
            Some(found) => found,
            None => return (FunctionId::NONE, None),
        };
        // Tables say each function; frame pointers, those that have one.
        let is_innermost = nth == 0 || stack.why_it_ends().is_some();
        let Some((name, _)) = &frame.function else {
            return (FunctionId::NONE, None);
        };
        let function = self.function(Place {
            name: Arc::clone(name),
            is_innermost,
        });
        let code = frame.mapping.as_ref().map(|mapping| CodeAddress {
            mapping: Arc::clone(mapping),
            address: frame.address,
            is_return: nth > 0,
        });
        (function, code)
    }

    /// Returns the number of a name: that of something else that a thread does.
    pub fn named(&mut self, name: &str) -> FunctionId {
        self.function(Place {
            name: name.into(),
            is_innermost: true,
        })
    }

    fn function(&mut self, place: Place) -> FunctionId {
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        let number = u32::try_from(self.places.len() + 1).unwrap_or(0);
        if self.places.len() >= MOST_FUNCTIONS {
            return FunctionId::NONE;
        }
        let function = FunctionId(number);
        self.places.push(Place {
            name: shown(&place.name).into(),
            ..place
        });
        self.known.insert(place, function);
        function
    }

    /// Returns the place of a function, with a harmless name; `None` where none is known.
    #[must_use]
    pub fn place(&self, function: FunctionId) -> Option<&Place> {
        let index = usize::try_from(function.0).ok()?.checked_sub(1)?;
        self.places.get(index)
    }
}

/// Renders a name of any bytes, for people.
fn shown(name: &str) -> String {
    let mut out = Vec::new();
    let end = name.floor_char_boundary(MOST_BYTES);
    push_for_people(&mut out, name.get(..end).unwrap_or_default().as_bytes());
    let more = if end < name.len() { "…" } else { "" };
    format!("{}{more}", String::from_utf8_lossy(&out))
}

/// Tells whether a function is of the C runtime.
pub fn is_runtime(frame: &Frame) -> bool {
    frame
        .mapping
        .as_ref()
        .is_some_and(|mapping| is_runtime_file(&mapping.path))
}

/// Tells whether a file is one of the C runtime: `libc.so.6`, `libc-2.31.so`,
/// `ld-musl-x86_64.so.1`.
fn is_runtime_file(path: &[u8]) -> bool {
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    RUNTIME.iter().any(|name| {
        let rest = file.strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || matches!(rest, [b'.' | b'-', ..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_runtime_are_told_from_those_of_programs() {
        for path in [
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/libc-2.31.so",
            "/lib/ld-musl-x86_64.so.1",
            "/lib64/ld-linux-x86-64.so.2",
            "/usr/lib/libstdc++.so.6.0.30",
            "[vdso]",
        ] {
            assert!(is_runtime_file(path.as_bytes()), "{path}");
        }
        for path in [
            "/usr/bin/postgres",
            "/usr/lib/libcurl.so.4",
            "",
            "/opt/ldap",
        ] {
            assert!(!is_runtime_file(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_name_is_harmless_and_has_an_end() {
        let mut functions = Functions::default();
        let name = format!("a\x1b[2J{}", "ß".repeat(500));
        let place = |name: &str, is_innermost| Place {
            name: name.into(),
            is_innermost,
        };
        let function = functions.function(place(&name, true));
        assert_eq!(functions.function(place(&name, true)), function);
        assert_ne!(functions.function(place(&name, false)), function);
        let shown = &functions.place(function).unwrap().name;
        assert!(shown.starts_with("a\\u{1b}[2Jß") && shown.ends_with("ß…"));
        assert_eq!(functions.place(FunctionId::NONE), None);
        assert_eq!(functions.place(FunctionId(u32::MAX)), None);
        for nth in 0..MOST_FUNCTIONS {
            functions.function(place(&nth.to_string(), true));
        }
        let beyond = functions.function(place("one too many", true));
        assert_eq!(beyond, FunctionId::NONE);
    }
}
