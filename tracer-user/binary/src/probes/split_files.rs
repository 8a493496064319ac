//! Units that the debugger's part of a file leaves to files of their own (`-gsplit-dwarf`): one for
//! each (`.dwo`), where it was compiled, or all in one beside the program (`.dwp`).
//!
//! The names of those files are a program's own words. A file counts where it has the unit's
//! identifier.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gimli::{
    Dwarf, DwarfPackageSections, DwarfSections, DwoId, EndianSlice, NativeEndian, SectionId, Unit,
};
use object::ReadRef;

use super::debug_data::{SectionSlice, section, slice};
use super::debug_files::look_at_places;
use super::opening::MOST_BYTES;

/// Units of such a file that are looked at: those of types come first.
const MOST_UNITS: usize = 4096;

/// Places of the files with the units of a program.
#[derive(Clone, Debug)]
pub(crate) struct SplitPlaces {
    /// Path of the program.
    path: PathBuf,
    /// Folder at which its paths start.
    root: PathBuf,
}

impl SplitPlaces {
    /// Returns the places for the program at `path`, whose paths start at `root`.
    pub(super) fn new(path: &Path, root: &Path) -> Self {
        Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            root: root.to_owned(),
        }
    }

    fn roots(&self) -> [&Path; 2] {
        [&self.root, Path::new("/")]
    }

    /// Reads the file with all units, if it is there.
    pub fn package(&self) -> Option<SplitPackage> {
        let mut name = OsString::from(&self.path);
        name.push(".dwp");
        let beside = PathBuf::from(name);
        let inside = beside.strip_prefix("/").unwrap_or(&beside);
        let places = [beside.clone(), Path::new("usr/lib/debug").join(inside)];
        look_at_places(self.roots(), &places, |_, parsed| {
            SplitPackage::read(parsed)
        })
    }

    /// Reads the file of this `name` with one unit that was compiled in a folder, if that has this
    /// identifier.
    pub fn file(&self, folder: &[u8], name: &[u8], id: DwoId) -> Option<SplitFile> {
        let (folder, name) = (
            OsStr::from_bytes(folder),
            Path::new(OsStr::from_bytes(name)),
        );
        let mut places = vec![Path::new(folder).join(name)];
        // Where the program was moved, and its units with it.
        if let (Some(beside), Some(own)) = (self.path.parent(), name.file_name()) {
            places.push(beside.join(own));
        }
        look_at_places(self.roots(), &places, |_, parsed| {
            SplitFile::read(parsed).filter(|file| file.has(id))
        })
    }
}

/// File with one unit.
#[derive(Debug)]
pub(crate) struct SplitFile {
    sections: DwarfSections<Box<[u8]>>,
    /// Bytes of memory that it takes.
    pub bytes: u64,
}

impl SplitFile {
    fn read<'a, R: ReadRef<'a>>(parsed: &object::File<'a, R>) -> Option<Self> {
        let mut bytes = 0;
        let loaded = DwarfSections::load(|id| load(parsed, id, &mut bytes));
        let sections = match loaded {
            Ok(sections) => sections,
            Err(never) => match never {},
        };
        (bytes > 0).then_some(Self { sections, bytes })
    }

    fn has(&self, id: DwoId) -> bool {
        let dwarf = self.dwarf(&Dwarf::default());
        unit_of(&dwarf, id).is_some()
    }

    /// Returns its sections, parsed, with those of the file that leaves the unit to it.
    pub fn dwarf<'a>(&'a self, parent: &Dwarf<SectionSlice<'a>>) -> Dwarf<SectionSlice<'a>> {
        let mut dwarf = self.sections.borrow(|bytes| slice(bytes));
        dwarf.make_dwo(parent);
        dwarf
    }
}

/// File with all units of a program.
#[derive(Debug)]
pub(crate) struct SplitPackage {
    sections: DwarfPackageSections<Box<[u8]>>,
    /// Bytes of memory that it takes.
    pub bytes: u64,
}

impl SplitPackage {
    fn read<'a, R: ReadRef<'a>>(parsed: &object::File<'a, R>) -> Option<Self> {
        let mut bytes = 0;
        let sections = DwarfPackageSections::load(|id| -> Result<_, gimli::Error> {
            load(parsed, id, &mut bytes).map_err(|never| match never {})
        });
        let sections = sections.ok().filter(|_| bytes > 0)?;
        Some(Self { sections, bytes })
    }

    /// Returns the sections of one of its units, parsed, with those of the file that leaves the
    /// unit to it.
    pub fn dwarf<'a>(
        &'a self,
        id: DwoId,
        parent: &Dwarf<SectionSlice<'a>>,
    ) -> Option<Dwarf<SectionSlice<'a>>> {
        let empty = EndianSlice::new(&[], NativeEndian);
        let package = self.sections.borrow(|bytes| slice(bytes), empty).ok()?;
        package.find_cu(id, parent).ok()?
    }
}

/// Loads a section of such a file; one that cannot be read, or is too large, is empty.
fn load<'a, R: ReadRef<'a>>(
    parsed: &object::File<'a, R>,
    id: SectionId,
    bytes: &mut u64,
) -> Result<Box<[u8]>, Infallible> {
    let mut left = MOST_BYTES.saturating_sub(*bytes);
    // All that an index may tell of: where a part of a unit is missing, none of it counts.
    let content = id
        .dwo_name()
        .and_then(|name| section(parsed, name, &mut left));
    let content = content.map_or_else(Vec::new, |content| content.into_owned());
    *bytes += content.len() as u64;
    Ok(content.into_boxed_slice())
}

/// Returns the unit with this identifier.
pub(crate) fn unit_of<'a>(
    dwarf: &Dwarf<SectionSlice<'a>>,
    id: DwoId,
) -> Option<Unit<SectionSlice<'a>>> {
    let mut headers = dwarf.units();
    for _ in 0..MOST_UNITS {
        let header = headers.next().ok()??;
        if let Ok(unit) = dwarf.unit(header)
            && unit.dwo_id == Some(id)
        {
            return Some(unit);
        }
    }
    None
}
