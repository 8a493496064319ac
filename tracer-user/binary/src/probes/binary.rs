//! Program or library as a file: its functions, its static probes, and their offsets in the file.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use object::elf::{PF_X, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT};
use object::read::ReadCache;
use object::{
    Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadRef, SegmentFlags,
    SymbolFlags,
};

use super::arguments::{self, BASE};
use super::debug_data::DebugData;
use super::debug_files::{Alternate, Marks, look_at_file, look_at_places, packed_symbols};
use super::debuginfod;
use super::dwarf::{self, Entries};
use super::fuse_check::Unsafe;
use super::go_lines::GoLines;
use super::go_table;
use super::notes::{self, MOST_NOTES, Note};
use super::opening::{Bounded, MOST_BYTES, ReadBudget};
use super::opening::{open_ordinary, open_ordinary_below};
use super::split_files::SplitPlaces;
use super::types::Signature;
use super::unwind_data::{UnwindData, vdso_image};
use crate::thread_local::{self, ThreadVariable};

/// Identity of a file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

/// Program or library. The file stays open: the file that is read and the file that is probed are
/// the same one, even if another takes its name.
#[derive(Debug)]
pub struct Binary {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    /// Root that the path of the file starts from: symbols of a stripped file may be found below
    /// it.
    root: PathBuf,
}

/// Reason why a file cannot be probed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BinaryError {
    /// File that cannot be opened or read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// File that is no program or library, or a damaged one.
    #[error("{} is no program or library", path.display())]
    NotOne {
        /// The file.
        path: PathBuf,
        /// Error in the file.
        source: object::Error,
    },
    /// File of which more would have to be read than any program needs.
    #[error(
        "{}: its tables have more than {} MiB, which is more than is read", path.display(),
        MOST_BYTES >> 20
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// File with more static probes than any program has.
    #[error("{} has more than {MOST_NOTES} sites of static probes, which is more than is read", path.display())]
    TooManyProbes {
        /// The file.
        path: PathBuf,
    },
    /// File for other processors, or for programs of 32 bits.
    #[error("{} is a {found:?} program; only programs of this machine's own kind can be probed", path.display())]
    OtherMachine {
        /// The file.
        path: PathBuf,
        /// Processor that it is for.
        found: Architecture,
    },
}

impl BinaryError {
    /// Tells whether it may be a program all the same, put at a place that is not looked into.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        match self {
            Self::Unreadable { source, .. } => {
                let why = source.get_ref().and_then(|why| why.downcast_ref());
                matches!(why, Some(Unsafe::Served | Unsafe::Hidden))
            }
            Self::TooLarge { .. } => true,
            Self::NotOne { .. } | Self::TooManyProbes { .. } | Self::OtherMachine { .. } => false,
        }
    }
}

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Bytes of it; 0 where unknown.
    pub size: u64,
    /// Offset in the file at which it starts.
    pub offset: u64,
    /// Function that only chooses one of several functions, once.
    pub is_indirect: bool,
    /// Function that the file has for others.
    pub is_exported: bool,
}

/// A variable of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSymbol {
    /// Its name.
    pub name: String,
    /// Address in the file's own address space.
    pub address: u64,
    /// Bytes of it.
    pub size: u64,
}

/// Static probe of a file, at one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticProbe {
    /// Provider that the probe names.
    pub provider: String,
    /// Name of the probe.
    pub name: String,
    /// Locations of its arguments, in words of the assembler.
    pub arguments: String,
    /// Offset in the file.
    pub offset: u64,
    /// Offset in the file of its semaphore: a counter that is not 0 while a tracer listens.
    pub semaphore: Option<u64>,
}

/// File that is read within limits.
pub(crate) type Parsed<'a> = object::File<'a, Bounded<'a, &'a ReadCache<&'a File>>>;

impl Binary {
    /// Opens the file at `location`, which users know as `path`. `root` is where absolute paths
    /// start for the process that uses it.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or is none.
    pub fn open(location: &Path, path: &Path, root: &Path) -> Result<Self, BinaryError> {
        Self::from_opened(open_ordinary(location), path, root)
    }

    /// Opens the file as [`open`](Self::open) does, by the name that it has for the process that
    /// uses it.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or is no program or library.
    pub fn open_below(root: &Path, path: &Path) -> Result<Self, BinaryError> {
        Self::from_opened(open_ordinary_below(root, path), path, root)
    }

    /// Takes a file that is open already, or could not be opened: see [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no program.
    pub fn from_opened(
        opened: io::Result<File>,
        path: &Path,
        root: &Path,
    ) -> Result<Self, BinaryError> {
        let unreadable = |source| BinaryError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let file = opened.map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let binary = Self {
            path: path.to_owned(),
            identity: FileIdentity {
                device: metadata.dev(),
                inode: metadata.ino(),
            },
            file,
            root: root.to_owned(),
        };
        let found = binary.read(|parsed| (parsed.architecture(), parsed.is_64()))?;
        if found != (native(), true) {
            return Err(BinaryError::OtherMachine {
                path: binary.path,
                found: found.0,
            });
        }
        Ok(binary)
    }

    /// Returns the path by which users know it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file's own name, where the path that users know is a link to it.
    #[must_use]
    pub fn own_name(&self) -> Option<OsString> {
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let name = fs::read_link(link).ok()?.file_name()?.to_owned();
        (self.path.file_name() != Some(&name)).then_some(name)
    }

    /// Returns the identity of the file.
    #[must_use]
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Tells whether only the functions that it exports can be found.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn is_stripped(&self) -> Result<bool, BinaryError> {
        Ok(!self.has_symbols()? && self.functions_for_debuggers().is_empty())
    }

    fn has_symbols(&self) -> Result<bool, BinaryError> {
        self.read(|parsed| parsed.symbols().next().is_some())
    }

    /// Returns the first bytes of one of its functions, at most `length`.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn code(&self, function: &Function, length: usize) -> Result<Vec<u8>, BinaryError> {
        let size = usize::try_from(function.size).unwrap_or(usize::MAX);
        let mut code = vec![0; length.min(size)];
        let mut filled = 0;
        while let Some(rest) = code.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let offset = function.offset.saturating_add(filled as u64);
            match self.file.read_at(rest, offset) {
                // A damaged file may end before its functions do.
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(source) => {
                    return Err(BinaryError::Unreadable {
                        path: self.path.clone(),
                        source,
                    });
                }
            }
        }
        code.truncate(filled);
        Ok(code)
    }

    /// Its functions, those from a file with its debugger's part too, each once.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn functions(&self) -> Result<Vec<Function>, BinaryError> {
        let mut functions = self.read(|parsed| functions(parsed, &Segments::read(parsed)))?;
        if !self.has_symbols()? {
            functions.extend(self.functions_for_debuggers());
        }
        functions.sort_by(|one, other| (one.offset, &one.name).cmp(&(other.offset, &other.name)));
        functions.dedup_by(|one, other| {
            let is_same = one.offset == other.offset && one.name == other.name;
            other.is_exported |= is_same && one.is_exported;
            is_same
        });
        Ok(functions)
    }

    /// Returns its variables, those from a file with its debugger's part too, by address.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn variables(&self) -> Result<Vec<DataSymbol>, BinaryError> {
        let mut all = self.read(objects)?;
        if !self.has_symbols()? {
            all.extend(
                self.for_debuggers(|_, parsed, _| objects(parsed))
                    .unwrap_or_default(),
            );
        }
        all.sort_by(|one, other| (one.address, &one.name).cmp(&(other.address, &other.name)));
        all.dedup_by_key(|one| one.address);
        Ok(all)
    }

    /// Returns the thread-local pointer of this name that it defines for others too; `None` where
    /// it has none, or where it lies is unknown.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn thread_variable(&self, name: &[u8]) -> Result<Option<ThreadVariable>, BinaryError> {
        self.read(|parsed| thread_local::find(parsed, name))
    }

    /// Returns the address, in its own address space, at which this offset in the file is mapped
    /// as code.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn code_address(&self, offset: u64) -> Result<Option<u64>, BinaryError> {
        self.read(|parsed| Segments::read(parsed).mapped_address(offset))
    }

    /// Returns where in the file what is at an address of its own address space lies.
    pub(crate) fn offset_of(&self, address: u64) -> Option<u64> {
        let found = self.read(|parsed| Segments::read(parsed).offset(address, false));
        found.ok()?
    }

    /// Returns the arguments of one of its functions, where it says itself what they are, or the
    /// file with its debugger's part does.
    pub(super) fn signature(&self, function: &Function, left: &mut Entries) -> Option<Signature> {
        // The compiler has made another one of it, with other arguments (`f.constprop.0`).
        if function.name.contains('.') {
            return None;
        }
        let look = |parsed: &Parsed<'_>, segments: &Segments, left: &mut Entries| {
            let is_start = |address| segments.offset(address, true) == Some(function.offset);
            dwarf::signature(parsed, is_start, left)
        };
        let found = self.read(|parsed| look(parsed, &Segments::read(parsed), left));
        match found {
            Ok(Some(found)) => Some(found),
            _ => self.for_debuggers(|_, parsed, segments| look(parsed, &segments, left))?,
        }
    }

    /// Returns its debugger's part, or that of the file that has it.
    pub(crate) fn debug_data(&self) -> Option<DebugData> {
        let read = |file: &File, parsed: &Parsed<'_>, segments| {
            let split = SplitPlaces::new(&self.path, &self.root);
            let data = DebugData::read(segments, parsed, split)?;
            Some((data, Alternate::read(file, parsed)))
        };
        let own = self.read(|parsed| read(&self.file, parsed, Segments::read(parsed)));
        let others = || self.for_debuggers(read);
        let (mut data, alternate) = own.ok().flatten().or_else(|| others()?)?;
        if let Some(alternate) = alternate {
            let mut add = |_: &File, parsed: &Parsed<'_>| {
                alternate.is(parsed).then(|| data.add_alternate(parsed))
            };
            if look_at_places(self.roots(), &alternate.places, &mut add).is_none()
                && let Some(file) = debuginfod::file_by_id(alternate.id())
            {
                look_at_file(&file, add);
            }
        }
        Some(data)
    }

    /// Returns the lines of a program in Go by its own table; `None` where it is not one.
    pub(crate) fn go_lines(&self) -> Option<GoLines> {
        let read = self.read(|parsed| GoLines::read(parsed, Segments::read(parsed)));
        read.ok().flatten()
    }

    /// Returns the folders below which files that belong to it may be.
    fn roots(&self) -> [&Path; 2] {
        [&self.root, Path::new("/")]
    }

    /// Returns its unwind data; `None` where it has none.
    pub(crate) fn unwind_data(&self) -> Option<UnwindData> {
        let read = self.read(|parsed| UnwindData::read(Segments::read(parsed), parsed));
        read.ok().flatten()
    }

    /// Reads the functions that it has packed, or in the table of Go, and those of the file with
    /// its debugger's part, if that is there.
    fn functions_for_debuggers(&self) -> Vec<Function> {
        let packed = self.read(|parsed| {
            let bytes = packed_symbols(parsed)?;
            let symbols = object::File::parse(&*bytes).ok()?;
            // Addresses are those of the file itself.
            Some(functions(&symbols, &Segments::read(parsed)))
        });
        let mut found = packed.ok().flatten().unwrap_or_default();
        let of_go = self.read(|parsed| go_table::functions(parsed, &Segments::read(parsed)));
        found.extend(of_go.unwrap_or_default());
        found.extend(
            self.for_debuggers(|_, parsed, segments| functions(parsed, &segments))
                .unwrap_or_default(),
        );
        found
    }

    /// Looks at the file with its debugger's part, with the segments of this file; `None` where it
    /// is not there.
    fn for_debuggers<T>(&self, look: impl FnOnce(&File, &Parsed<'_>, Segments) -> T) -> Option<T> {
        let found = self.read(|parsed| (Marks::read(parsed), Segments::read(parsed)));
        let (marks, segments) = found.ok()?;
        let path = std::path::absolute(&self.path).ok()?;
        let mut given = Some((look, segments));
        let mut look = |file: &File, parsed: &Parsed<'_>| {
            if !marks.are_of(file, parsed) {
                return None;
            }
            // Addresses are those of the file itself, whose segments the other has only in name.
            let (look, segments) = given.take()?;
            Some(look(file, parsed, segments))
        };
        look_at_places(self.roots(), &marks.places(&path), &mut look)
            .or_else(|| look_at_file(&debuginfod::file_by_id(marks.id()?)?, look))
    }

    /// Returns the functions of a file, if that is the debugger's part of this one.
    #[cfg(test)]
    pub(super) fn in_file_for_debuggers(&self, file: File) -> Option<Vec<Function>> {
        let (marks, segments) = self
            .read(|parsed| (Marks::read(parsed), Segments::read(parsed)))
            .ok()?;
        look_at_file(&file, |file, parsed| {
            let is_it = marks.are_of(file, parsed);
            is_it.then(|| functions(parsed, &segments))
        })
    }

    /// Tells whether it was made by Go.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(super) fn is_of_go(&self) -> Result<bool, BinaryError> {
        const SECTIONS: [&str; 3] = [".go.buildinfo", ".gopclntab", ".note.go.buildid"];
        self.read(|parsed| {
            SECTIONS
                .iter()
                .any(|name| parsed.section_by_name(name).is_some())
        })
    }

    /// Returns the name of the function, if the file refers to one, by which its code may leave a
    /// function otherwise than by its return: one that throws exceptions, or changes stacks.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(super) fn leaves_stacks(&self) -> Result<Option<&'static str>, BinaryError> {
        const MEANS: [&str; 9] = [
            "__cxa_throw",
            "_Unwind_RaiseException",
            "_Unwind_Resume",
            "_Unwind_ForcedUnwind",
            "swapcontext",
            "setcontext",
            "makecontext",
            "jump_fcontext",
            "siglongjmp",
        ];
        self.read(|parsed| {
            let names = parsed.symbols().chain(parsed.dynamic_symbols());
            let names = names.filter_map(|symbol| symbol.name().ok());
            // The first of them that is there.
            let places = names.filter_map(|name| {
                // Of a symbol with its version, `name@VERSION`.
                let bare = name.split('@').next().unwrap_or(name);
                MEANS.iter().position(|means| *means == bare)
            });
            places.min().and_then(|first| MEANS.get(first).copied())
        })
    }

    /// Its static probes, each site of each.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn static_probes(&self) -> Result<Vec<StaticProbe>, BinaryError> {
        let found = self.read(|parsed| {
            let section = parsed.section_by_name(".note.stapsdt");
            let bytes = section.and_then(|section| section.data().ok());
            let base = parsed.section_by_name(".stapsdt.base");
            let base = base.map(|section| section.address());
            let notes = notes::parse(bytes.unwrap_or_default())?;
            let locator = SiteLocator {
                base,
                segments: Segments::read(parsed),
                variables: variables(parsed, &notes),
            };
            let probes = notes
                .into_iter()
                .filter_map(|note| locator.static_probe(note));
            Some(probes.collect())
        })?;
        found.ok_or_else(|| BinaryError::TooManyProbes {
            path: self.path.clone(),
        })
    }

    /// Returns what `look` makes of the file, within limits.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Parsed<'_>) -> T) -> Result<T, BinaryError> {
        let cache = ReadCache::new(&self.file);
        let budget = ReadBudget::default();
        let parsed = object::File::parse(Bounded::new(&cache, &budget));
        let found = parsed.map(|parsed| look(&parsed));
        if budget.is_exceeded() {
            return Err(BinaryError::TooLarge {
                path: self.path.clone(),
            });
        }
        match found {
            Ok(found) => Ok(found),
            Err(source) => Err(BinaryError::NotOne {
                path: self.path.clone(),
                source,
            }),
        }
    }
}

/// Returns the functions of the code that the kernel maps into each process (`[vdso]`), by offset
/// in that.
pub(crate) fn vdso_functions() -> Vec<Function> {
    let image = vdso_image().unwrap_or_default();
    let parsed = object::File::parse(&*image);
    parsed.map_or_else(
        |_none| Vec::new(),
        |parsed| functions(&parsed, &Segments::read(&parsed)),
    )
}

/// Returns the processor that programs of this machine are for.
const fn native() -> Architecture {
    if cfg!(target_arch = "aarch64") {
        Architecture::Aarch64
    } else {
        Architecture::X86_64
    }
}

/// Part of the file that is mapped.
#[derive(Debug)]
struct Segment {
    address: u64,
    offset: u64,
    /// Bytes of it that are in the file.
    bytes: u64,
    is_executable: bool,
}

/// Parts of a file that are mapped, few enough to be looked through for each address.
#[derive(Debug, Default)]
pub(super) struct Segments(Vec<Segment>);

/// Segments that are looked at; programs have a dozen.
const MOST_SEGMENTS: usize = 64;

impl Segments {
    pub(super) fn read<'a, R: ReadRef<'a>>(parsed: &object::File<'a, R>) -> Self {
        let segments = parsed.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            let flags = match segment.flags() {
                SegmentFlags::Elf { p_flags } => p_flags,
                _ => 0,
            };
            Segment {
                address: segment.address(),
                offset,
                bytes,
                is_executable: flags & PF_X != 0,
            }
        });
        Self(segments.take(MOST_SEGMENTS).collect())
    }

    /// Returns the offset in the file of an address of its address space.
    pub(super) fn offset(&self, address: u64, is_executable: bool) -> Option<u64> {
        let segment = self.0.iter().find(|segment| {
            let inside = address.checked_sub(segment.address);
            (segment.is_executable || !is_executable)
                && inside.is_some_and(|inside| inside < segment.bytes)
        })?;
        (address - segment.address).checked_add(segment.offset)
    }

    /// Returns the address at which this offset is mapped as code: whole pages are.
    fn mapped_address(&self, offset: u64) -> Option<u64> {
        const IN_PAGE: u64 = 4095;
        let segment = self.0.iter().find(|segment| {
            let inside = offset.checked_sub(segment.offset & !IN_PAGE);
            segment.is_executable && inside.is_some_and(|inside| inside < segment.bytes)
        })?;
        let slope = segment.address.wrapping_sub(segment.offset);
        Some(offset.wrapping_add(slope))
    }

    /// Returns the address of what is at this offset in the file, where that is code.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let segment = self.0.iter().find(|segment| {
            let inside = offset.checked_sub(segment.offset);
            segment.is_executable && inside.is_some_and(|inside| inside < segment.bytes)
        })?;
        (offset - segment.offset).checked_add(segment.address)
    }
}

fn functions<'a, R: ReadRef<'a>>(
    parsed: &object::File<'a, R>,
    segments: &Segments,
) -> Vec<Function> {
    let symbols = parsed.symbols().map(|symbol| (symbol, false));
    let exported = parsed.dynamic_symbols().map(|symbol| (symbol, true));
    let functions = symbols.chain(exported).filter_map(|(symbol, is_exported)| {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            return None;
        };
        let kind = st_info & 15;
        // What was written in the assembler's language need not say what it is.
        let is_code = kind == STT_NOTYPE && symbol.address() != 0;
        if !(is_code || matches!(kind, STT_FUNC | STT_GNU_IFUNC)) || symbol.is_undefined() {
            return None;
        }
        let name = String::from_utf8_lossy(symbol.name_bytes().ok()?);
        if is_code && is_mark_of_tools(&name) {
            return None;
        }
        // The symbol table appends versions, as the assembler writes them.
        let name = name.split('@').next().filter(|name| !name.is_empty())?;
        Some(Function {
            name: name.to_owned(),
            size: symbol.size(),
            offset: segments.offset(symbol.address(), true)?,
            is_indirect: kind == STT_GNU_IFUNC,
            is_exported,
        })
    });
    functions.collect()
}

/// Tells whether a name without a type marks a place for tools: where code and data begin (`$x`),
/// labels (`.L1`), and where sections end.
fn is_mark_of_tools(name: &str) -> bool {
    const BEGINNINGS: [&str; 4] = ["$", ".L", ".annobin", "annobin_"];
    const ENDS: [&str; 5] = ["etext", "_etext", "__etext", "_end", "__executable_start"];
    BEGINNINGS.iter().any(|mark| name.starts_with(mark)) || ENDS.contains(&name)
}

/// Variables of a file that are looked at.
const MOST_VARIABLES: usize = 1 << 18;

/// Returns the variables that its tables of symbols name.
fn objects(parsed: &Parsed<'_>) -> Vec<DataSymbol> {
    let symbols = parsed.symbols().chain(parsed.dynamic_symbols());
    let variables = symbols.filter_map(|symbol| {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            return None;
        };
        if st_info & 15 != STT_OBJECT || symbol.is_undefined() || symbol.size() == 0 {
            return None;
        }
        let name = String::from_utf8_lossy(symbol.name_bytes().ok()?);
        let name = name.split('@').next().filter(|name| !name.is_empty())?;
        Some(DataSymbol {
            name: name.to_owned(),
            address: symbol.address(),
            size: symbol.size(),
        })
    });
    variables.take(MOST_VARIABLES).collect()
}

/// Returns the addresses of the variables that descriptions of probes name, if any does. Static
/// ones of several sources may have one name: then it is unknown which is meant.
fn variables(parsed: &Parsed<'_>, notes: &[Note]) -> HashMap<Vec<u8>, Option<u64>> {
    let mut variables = HashMap::new();
    if !notes.iter().any(|note| note.arguments.contains(BASE)) {
        return variables;
    }
    for symbol in parsed.symbols().chain(parsed.dynamic_symbols()) {
        let Ok(name) = symbol.name_bytes() else {
            continue;
        };
        if symbol.is_undefined() || name.is_empty() {
            continue;
        }
        let address = symbol.address();
        match variables.get_mut(name) {
            Some(known) if *known != Some(address) => *known = None,
            Some(_) => {}
            None => {
                variables.insert(name.to_vec(), Some(address));
            }
        }
    }
    variables
}

/// Data needed to find the site of a note.
struct SiteLocator {
    base: Option<u64>,
    segments: Segments,
    variables: HashMap<Vec<u8>, Option<u64>>,
}

impl SiteLocator {
    fn static_probe(&self, note: Note) -> Option<StaticProbe> {
        // What has moved the section since has moved everything else with it.
        let moved = |address: u64| match self.base {
            Some(base) => address.wrapping_add(base.wrapping_sub(note.base)),
            None => address,
        };
        let semaphore = match note.semaphore {
            0 => None,
            address => Some(self.segments.offset(moved(address), false)?),
        };
        Some(StaticProbe {
            offset: self.segments.offset(moved(note.address), true)?,
            semaphore,
            provider: note.provider,
            name: note.name,
            arguments: arguments::resolved(&note.arguments, moved(note.address), |name| {
                self.variables.get(name.as_bytes()).copied().flatten()
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Binary {
        let path = std::env::current_exe().unwrap();
        Binary::open(&path, &path, Path::new("/")).unwrap()
    }

    /// A function of this program that keeps its name. (`main` would, but may not be named here:
    /// the compiler makes it, in some part of the program.)
    // SAFETY: nothing else has this name.
    #[unsafe(no_mangle)]
    extern "C" fn linux_trace_test_function(value: u64) -> u64 {
        std::hint::black_box(value).wrapping_mul(7)
    }

    #[test]
    fn functions_of_a_program_are_found_where_their_bytes_are() {
        let binary = own();
        assert!(binary.has_symbols().unwrap());
        let functions = binary.functions().unwrap();
        let found = functions
            .iter()
            .find(|function| function.name == "linux_trace_test_function");
        let found = found.expect("it is part of this program");
        let mut bytes = [0; 8];
        binary
            .file()
            .read_exact_at(&mut bytes, found.offset)
            .unwrap();

        // The same bytes as in memory.
        let in_memory = linux_trace_test_function as *const () as *const [u8; 8];
        // SAFETY: the code of a function is readable, and this one has more than eight bytes.
        let in_memory = unsafe { in_memory.read_unaligned() };
        assert_eq!(bytes, in_memory);
    }

    #[test]
    fn what_is_no_program_is_said_to_be_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let error = |path: &Path| {
            let opened = Binary::open(path, path, Path::new("/"));
            opened
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(error(&path).ends_with("text is no program or library"));
        assert!(error(folder.path()).ends_with("cannot be read"));
        assert!(error(Path::new("/nowhere/at/all")).contains("/nowhere/at/all"));
    }

    #[test]
    fn addresses_outside_of_the_file_have_no_offset_in_it() {
        let segments = Segments(vec![Segment {
            address: 0x1000,
            offset: 0x200,
            bytes: 0x100,
            is_executable: true,
        }]);
        assert_eq!(segments.offset(0x1010, true), Some(0x210));
        assert_eq!(segments.offset(0xfff, true), None);
        assert_eq!(segments.offset(0x1100, true), None);
        assert_eq!(segments.offset(u64::MAX, false), None);
    }
}
