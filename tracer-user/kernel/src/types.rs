//! Sources of the kernel's types: the kernel itself, or a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aya::Endianness;

use super::btf::build_id::{self, in_digits};
use super::btf::comparison::differences;
use super::btf::file::{self, Contents, FileError};
use super::btf::offsets::{self, Global};
use super::btf::reader::Btf;
use super::btf::variables;
use super::self_check::{self, SelfCheckError};
use super::unmet::{BTF_PATH, Unmet};

/// BTF that may be used for the running kernel.
#[derive(Debug)]
pub struct Types {
    pub bytes: Vec<u8>,
    /// The file that they are from, where the kernel has none of its own.
    pub file: Option<PathBuf>,
}

impl Types {
    /// Parses the types.
    ///
    /// # Errors
    ///
    /// They are damaged.
    pub fn parse(&self) -> Result<Btf<'_>, Unmet> {
        Btf::parse(&self.bytes).map_err(|source| match &self.file {
            None => Unmet::BtfDamaged { source },
            Some(path) => Unmet::TypesFile {
                path: path.clone(),
                why: FileError::Damaged(source),
            },
        })
    }

    /// Parses the types for the loader, for programs that name something of the kernel: `None`
    /// where they are from a file, whose identifiers are not the kernel's.
    ///
    /// # Errors
    ///
    /// The loader cannot use them.
    pub fn for_loader(&self) -> Result<Option<aya::Btf>, Unmet> {
        if self.file.is_some() {
            return Ok(None);
        }
        let parsed = aya::Btf::parse(&self.bytes, Endianness::default());
        parsed.map(Some).map_err(|source| Unmet::BtfUnusable {
            source: Box::new(source),
        })
    }
}

/// Reads the types of the kernel. Where the kernel has its own, these are returned, and those in
/// the file that is `given` must agree with them. Otherwise those in the file are returned, which
/// are still to be [compared].
///
/// # Errors
///
/// There are none, or they cannot be read.
pub fn read(given: Option<&Path>) -> Result<Types, Unmet> {
    let own = fs::read(BTF_PATH);
    let Some(path) = given else {
        let bytes = own.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Unmet::BtfMissing,
            _ => Unmet::Btf { source },
        })?;
        return Ok(Types { bytes, file: None });
    };
    let refused = |why| Unmet::TypesFile {
        path: path.to_owned(),
        why,
    };
    let Contents { bytes, build_id } = file::read(path).map_err(refused)?;
    let globals = globals_of_file(&bytes).map_err(refused)?;
    let Some(own) = own.ok().filter(|own| Btf::parse(own).is_ok()) else {
        ensure_same_build(path, build_id)?;
        return Ok(Types {
            bytes,
            file: Some(path.to_owned()),
        });
    };
    match globals_of_file(&own) {
        Ok(of_kernel) if of_kernel != globals => Err(Unmet::OtherKernel {
            path: path.to_owned(),
            why: differences(&of_kernel, &globals),
        }),
        // Where the kernel's own types lack something, they are returned too: the error is then
        // about them.
        Ok(_) | Err(_) => Ok(Types {
            bytes: own,
            file: None,
        }),
    }
}

/// Checks that a file is of the build of the kernel that runs, where both say which build they are
/// of.
fn ensure_same_build(path: &Path, build_id: Option<Vec<u8>>) -> Result<(), Unmet> {
    match (build_id, build_id::read_running_kernel()) {
        (Some(of_file), Some(own)) if of_file != own => Err(Unmet::OtherKernel {
            path: path.to_owned(),
            why: format!(
                "its build ID is {}, and that of the kernel {}",
                in_digits(&of_file),
                in_digits(&own)
            ),
        }),
        _ => Ok(()),
    }
}

fn globals_of_file(bytes: &[u8]) -> Result<Vec<Global>, FileError> {
    let btf = Btf::parse(bytes).map_err(FileError::Damaged)?;
    offsets::globals(&btf).map_err(FileError::Lacks)
}

/// Compares types from the file at `path` with the kernel that runs. Returns the globals that these
/// types give, without what needs the kernel's own types, and how many members were found to be
/// right.
///
/// # Errors
///
/// The file is not of this kernel.
pub fn compared(
    path: &Path,
    btf: &Btf<'_>,
    mut globals: Vec<Global>,
) -> Result<(Vec<Global>, usize), Unmet> {
    globals.extend(variables::find_from_run_queue(btf));
    for global in &mut globals {
        // The helper takes only a task that the kernel's own types describe.
        if global.name == "HAS_TASK_PT_REGS" {
            global.value = 0;
        }
    }
    let right = self_check::check(btf, &globals);
    let path = || path.to_owned();
    let right = right.map_err(|error| match error {
        SelfCheckError::Differs { .. } => Unmet::OtherKernel {
            path: path(),
            why: error.to_string(),
        },
        SelfCheckError::Impossible { .. } => Unmet::NotCompared {
            path: path(),
            why: error,
        },
    })?;
    Ok((globals, right))
}

/// Events that are not recorded where types are from a file, in words.
pub const LEFT_OUT: &str = "the calls that threads block in, and stacks by --unwind dwarf";
