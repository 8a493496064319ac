//! Files that have a CPython interpreter: a program, or a library that programs are linked to.

use std::os::unix::fs::FileExt as _;

use object::{Object as _, ObjectSymbol, SymbolKind};
use tracer_common::kernel::{PythonLayout, PythonProcess};
use zerocopy::FromZeros as _;

use super::layout::{PUBLISHED_BYTES, layout_of, published};
use crate::probes::Binary;
use crate::stacks::Mapping;

/// The function that runs functions of Python, and the part of it that the compiler has put apart.
const RUNS: &str = "_PyEval_EvalFrameDefault";

/// The variable that has the address of the dictionary of interned texts.
const INTERNED: &str = "interned";

/// Symbols that are looked at.
const MOST_SYMBOLS: usize = 1 << 20;

/// Facts of a file by which the frames of those that run it are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonFile {
    /// The interpreter, with addresses of the file's own address space. Its version is 0 where it
    /// is not known.
    process: PythonProcess,
    /// The function that runs functions of Python: first addresses, and those behind it.
    runs: Vec<(u64, u64)>,
}

/// The interpreter of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Facts that the programs are told.
    pub process: PythonProcess,
    /// Addresses of the function that runs functions of Python, as in [`PythonFile`].
    runs: Vec<(u64, u64)>,
}

impl Interpreter {
    /// Tells whether an address, to which a call returns, is in the function that runs functions of
    /// Python.
    #[must_use]
    pub fn runs(&self, address: u64) -> bool {
        let at = address.wrapping_sub(1);
        self.runs
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at))
    }
}

/// Addresses of the symbols of a file that matter here.
#[derive(Default)]
struct Found {
    runtime: u64,
    code_type: u64,
    text_type: u64,
    version: Option<u64>,
    interned: Vec<u64>,
    runs: Vec<(u64, u64)>,
}

impl PythonFile {
    /// Tells whether a file of this path may have an interpreter: libraries by their names, and all
    /// programs, which may have it in them.
    #[must_use]
    pub fn may_be(path: &[u8]) -> bool {
        let name = name_of(path);
        let is_library = name.windows(3).any(|part| part == b".so");
        Self::is_named(path) || (path.starts_with(b"/") && !is_library)
    }

    /// Tells whether a file is named as interpreters are.
    #[must_use]
    pub fn is_named(path: &[u8]) -> bool {
        let name = name_of(path);
        name.starts_with(b"python3") || name.starts_with(b"libpython3") || name == b"python"
    }

    /// Looks into a file; `None` where it has no interpreter.
    #[must_use]
    pub fn read(binary: &Binary) -> Option<Self> {
        // It exports what is needed. Of all its symbols there may be many more.
        let found = binary
            .read(|parsed| symbols(parsed.dynamic_symbols()))
            .ok()?;
        if found.runtime == 0 || found.code_type == 0 || found.text_type == 0 {
            return None;
        }
        let bytes = |address, length| {
            let mut bytes = vec![0; length];
            let offset = binary.offset_of(address)?;
            binary.file().read_exact_at(&mut bytes, offset).ok()?;
            Some(bytes)
        };
        let mut process = PythonProcess {
            runtime: found.runtime,
            code_type: found.code_type,
            text_type: found.text_type,
            ..PythonProcess::new_zeroed()
        };
        let said = bytes(found.runtime, PUBLISHED_BYTES);
        let by_table = || {
            let version = found.version.and_then(|address| {
                let bytes = bytes(address, size_of::<u32>())?;
                Some(u32::from_ne_bytes(*bytes.first_chunk()?))
            });
            // 0x030b07f0 is 3.11.7. Before 3.11 only the name says it.
            let minor = match version {
                Some(version) => (version >> 24 == 3).then_some(version >> 16 & 0xff),
                None => minor_in_name(binary),
            }?;
            Some((minor, layout_of(minor)?))
        };
        if let Some((minor, layout)) = said.as_deref().and_then(published).or_else(by_table) {
            (process.minor, process.layout) = (minor, layout);
        }
        Some(Self {
            process,
            runs: found.runs,
        })
    }

    /// Returns the interpreter of a process that has mapped code of the file there.
    #[must_use]
    pub fn mapped(&self, binary: &Binary, mapping: &Mapping) -> Option<Interpreter> {
        let address = binary.code_address(mapping.file_offset).ok()??;
        let slide = mapping.start.wrapping_sub(address);
        let moved = |address: u64| address.wrapping_add(slide);
        Some(Interpreter {
            process: PythonProcess {
                runtime: moved(self.process.runtime),
                code_type: moved(self.process.code_type),
                text_type: moved(self.process.text_type),
                interned: match self.process.interned {
                    0 => 0,
                    address => moved(address),
                },
                ..self.process
            },
            runs: self
                .runs
                .iter()
                .map(|(start, end)| (moved(*start), moved(*end)))
                .collect(),
        })
    }

    /// Adds what is not exported, and may not be there: the part of the function that runs
    /// functions of Python that the compiler has put apart, and where the interned texts are.
    pub fn add_parts(&mut self, binary: &Binary) {
        let all = binary.read(|parsed| symbols(parsed.symbols()));
        let of_all = all.unwrap_or_default();
        self.runs.extend(of_all.runs);
        // Later versions say by a number what a function is.
        if let ([interned], 8..=11) = (&of_all.interned[..], self.process.minor) {
            self.process.interned = *interned;
        }
        self.runs.sort_unstable();
        self.runs.dedup();
    }

    /// Returns its version: 3.11 is 11; 0 where it is not known what its structures are.
    #[must_use]
    pub fn minor(&self) -> u32 {
        self.process.minor
    }

    /// Returns the offsets of the fields of its structures.
    #[must_use]
    pub fn layout(&self) -> PythonLayout {
        self.process.layout
    }
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn symbols<'a>(all: impl Iterator<Item = impl ObjectSymbol<'a>>) -> Found {
    let mut found = Found::default();
    for symbol in all.take(MOST_SYMBOLS) {
        if symbol.is_undefined() {
            continue;
        }
        let address = symbol.address();
        match symbol.name().unwrap_or_default() {
            "_PyRuntime" => found.runtime = address,
            "PyCode_Type" => found.code_type = address,
            "PyUnicode_Type" => found.text_type = address,
            "Py_Version" => found.version = Some(address),
            INTERNED if symbol.size() != 0 && symbol.kind() == SymbolKind::Data => {
                found.interned.push(address);
            }
            name if name.starts_with(RUNS) && symbol.size() > 0 => {
                found
                    .runs
                    .push((address, address.saturating_add(symbol.size())));
            }
            _ => {}
        }
    }
    found
}

/// Returns the version in a file's own name: `libpython3.10.so.1.0` is of 3.10, `python3.9` of 3.9.
fn minor_in_name(binary: &Binary) -> Option<u32> {
    let own = binary.own_name();
    let name = match &own {
        Some(name) => name.to_str(),
        None => binary.path().file_name()?.to_str(),
    }?;
    let (_, behind) = name.split_once("python3.")?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
