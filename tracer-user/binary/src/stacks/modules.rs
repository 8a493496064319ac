//! The functions of programs and libraries, by where in the file they are.

use std::collections::HashMap;
use std::sync::Arc;

use super::Mapping;
use super::inlined_files::InlinedFiles;
use super::names::Place;
use super::spaces::{BuildIds, FileState, MappedBy, binary};
use crate::probes::{Binary, Function, debuginfod, vdso_functions};

/// Files that are open until they are read. Beyond that, a file is read as long as it is there.
const MOST_OPEN: usize = 128;

/// A file's path and build identifier, or what tells it from others with this path.
pub type ModuleKey = (Arc<[u8]>, Vec<u8>);

/// Returns the path and the build identifier of a mapping's file.
pub fn key_of(mapping: &Mapping) -> ModuleKey {
    (Arc::clone(&mapping.path), mapping.build_id.clone())
}

/// The functions of mapped files, each file read once.
#[derive(Debug, Default)]
pub struct Modules {
    /// The processes are there.
    is_live: bool,
    /// Modules by path and build identifier; `None` where no such file is found.
    known: HashMap<ModuleKey, Option<Arc<Module>>>,
    /// Files of which a server is asked, each with the number of answers before that.
    unanswered: HashMap<ModuleKey, u64>,
    /// Files whose functions are still to be read: they may have no name any more by then.
    open: HashMap<ModuleKey, Binary>,
    build_ids: BuildIds,
}

impl Modules {
    /// Files of processes that are there.
    pub fn live() -> Self {
        Self {
            is_live: true,
            ..Self::default()
        }
    }

    /// Tells whether a server may still have more of a mapping's file.
    pub fn is_unanswered(&self, mapping: &Mapping) -> bool {
        self.unanswered.contains_key(&key_of(mapping))
    }

    /// Opens the file of a mapping of a process, to be read later. False where it is to be read
    /// now: too many are open, or it has no identifier by which it is found again.
    pub fn hold(&mut self, pid: i32, (mapping, since, _): &Place) -> bool {
        if mapping.build_id.is_empty() || self.open.len() >= MOST_OPEN {
            return false;
        }
        let key = key_of(mapping);
        let is_known = self.known.contains_key(&key) || self.open.contains_key(&key);
        if !is_known && let Some(binary) = self.open_binary(pid, mapping, *since) {
            self.open.insert(key, binary);
        }
        true
    }

    /// Returns the functions of the file of a mapping that a process has since a time, if it is the
    /// same one still; `inlined` reads what else it says.
    pub fn find(
        &mut self,
        pid: i32,
        (mapping, since): (&Mapping, u64),
        inlined: &mut Option<InlinedFiles>,
    ) -> Option<Arc<Module>> {
        let key = key_of(mapping);
        let has_id = !mapping.build_id.is_empty();
        if has_id
            && !self.is_unread(&key)
            && let Some(known) = self.known.get(&key)
        {
            return known.clone();
        }
        // Before it is asked for: the answer may come at once.
        let answers = debuginfod::answers();
        let binary = self.open.remove(&key);
        let binary = binary.or_else(|| self.open_binary(pid, mapping, since));
        let found = binary.and_then(|binary| {
            // Without an identifier, another file may have the path later.
            let state = || FileState::bytes_of(binary.file()).unwrap_or_default();
            let key = if has_id {
                key.clone()
            } else {
                (Arc::clone(&key.0), state())
            };
            if let Some(inlined) = inlined {
                inlined.read(&key, &binary);
            }
            let module = Module::from_functions(binary.functions().ok()?);
            Some(Module {
                key: Some(key),
                ..module
            })
        });
        let found = found.map(Arc::new);
        if has_id {
            self.unanswered.remove(&key);
            let is_answered = debuginfod::answers() != answers;
            if is_answered || debuginfod::is_asked(&mapping.build_id) {
                self.unanswered.insert(key.clone(), answers);
            }
            self.known.insert(key, found.clone());
        }
        found
    }

    /// Tells whether the functions of a file are to be read: they were not, or a server has
    /// answered since.
    fn is_unread(&self, key: &ModuleKey) -> bool {
        let answers = self.unanswered.get(key);
        answers.is_some_and(|answers| *answers != debuginfod::answers())
            || !self.known.contains_key(key)
    }

    /// Opens the file of a mapping that is there since a time.
    fn open_binary(&mut self, pid: i32, mapping: &Mapping, since: u64) -> Option<Binary> {
        let owner = MappedBy {
            pid,
            at: self.is_live.then_some(since),
        };
        binary(owner, mapping, &mut self.build_ids)
    }
}

/// The functions of a file.
#[derive(Debug, Default)]
pub struct Module {
    /// Functions by offset.
    functions: Vec<Function>,
    /// Key of the file's functions in others; `None` where it is not a mapped file.
    pub key: Option<ModuleKey>,
}

impl Module {
    /// Builds a module of these functions.
    pub fn from_functions(mut functions: Vec<Function>) -> Self {
        // Of several names for one address, the one that looks least like an internal one.
        let rank = |function: &Function| {
            let underscores = function.name.bytes().take_while(|byte| *byte == b'_');
            (function.size == 0, underscores.count())
        };
        functions.sort_by(|one, other| {
            let order = one.offset.cmp(&other.offset);
            order
                .then_with(|| rank(one).cmp(&rank(other)))
                .then_with(|| one.name.cmp(&other.name))
        });
        functions.dedup_by_key(|function| function.offset);
        Self {
            functions,
            key: None,
        }
    }

    /// Returns the functions of the code that the kernel maps into each process.
    pub fn of_vdso() -> Self {
        Self::from_functions(vdso_functions())
    }

    /// Returns the function that has this offset in the file, and where in it that is.
    pub fn find(&self, offset: u64) -> Option<(Arc<str>, u64)> {
        let behind = self.functions.partition_point(|one| one.offset <= offset);
        // One within another, and a mark without a size, may be before it.
        let mut before = self.functions.get(..behind)?.iter().rev().take(16);
        let has = before.clone().find(|one| offset - one.offset < one.size);
        let found = has.or_else(|| before.find(|one| one.size == 0))?;
        Some((demangled(&found.name).into(), offset - found.offset))
    }
}

/// Returns a name as its source has it.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash that ends it.
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(shown) = symbol.demangle()
    {
        return shown;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, offset: u64, size: u64) -> Function {
        Function {
            name: name.to_owned(),
            size,
            offset,
            is_indirect: false,
            is_exported: false,
        }
    }

    #[test]
    fn an_offset_is_in_the_function_that_has_it() {
        let module = Module::from_functions(vec![
            function("__libc_read", 16, 8),
            function("read", 16, 8),
            function("_start", 64, 0),
            function("label", 132, 0),
            function("_ZN3foo3barEi", 128, 8),
        ]);
        let found = |offset| {
            let found = module.find(offset);
            found.map(|(name, offset)| format!("{name}+{offset}"))
        };
        assert_eq!(found(20).as_deref(), Some("read+4"));
        assert_eq!(found(24), None);
        assert_eq!(found(70).as_deref(), Some("_start+6"));
        assert_eq!(found(130).as_deref(), Some("foo::bar(int)+2"));
        assert_eq!(found(134).as_deref(), Some("foo::bar(int)+6"));
        assert_eq!(found(136).as_deref(), Some("label+4"));
        assert_eq!(found(3), None);
    }
}
