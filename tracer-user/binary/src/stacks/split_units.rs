//! Units that the debugger's part of a file leaves to other files, as far as they were looked for.

use std::collections::HashMap;

use gimli::{AttributeValue, Dwarf, DwoId, Unit};

use super::lines::MOST_NAME_BYTES;
use crate::probes::{SectionSlice, SplitFile, SplitPackage, SplitPlaces, unit_of};

/// Files of units that are in memory. Beyond that, all are looked for again.
const MOST_FILES: usize = 4096;

/// Unit in a file of its own.
pub struct SplitUnit<'a> {
    pub dwarf: Dwarf<SectionSlice<'a>>,
    pub unit: Unit<SectionSlice<'a>>,
    /// Where it begins.
    pub headers: [usize; 1],
}

/// Files with units of a program.
#[derive(Debug, Default)]
pub struct SplitUnits {
    /// File with all units; `None` until one is looked for.
    package: Option<Option<SplitPackage>>,
    files: HashMap<u64, Option<SplitFile>>,
}

impl SplitUnits {
    /// Reads the file with the unit that `unit` stands for, unless that is known. Takes what it has
    /// from the `bytes` that are left.
    pub fn load<'a>(
        &mut self,
        (dwarf, unit): (&Dwarf<SectionSlice<'a>>, &Unit<SectionSlice<'a>>),
        places: &SplitPlaces,
        bytes: &mut u64,
    ) {
        let Some(DwoId(id)) = unit.dwo_id else { return };
        let package = self.package.get_or_insert_with(|| {
            let found = places.package()?;
            *bytes = bytes.checked_sub(found.bytes)?;
            Some(found)
        });
        let in_package = package.as_ref();
        if in_package.is_some_and(|all| all.dwarf(DwoId(id), dwarf).is_some()) {
            return;
        }
        if self.files.len() >= MOST_FILES {
            self.files.clear();
        }
        self.files.entry(id).or_insert_with(|| {
            let text = |value: AttributeValue<SectionSlice<'a>>| {
                let text = dwarf.attr_string(unit, value).ok()?.slice();
                (text.len() <= MOST_NAME_BYTES).then_some(text)
            };
            let name = text(unit.dwo_name().ok()??)?;
            let folder = unit.comp_dir.map_or(&b""[..], |folder| folder.slice());
            let found = places.file(folder, name, DwoId(id))?;
            *bytes = bytes.checked_sub(found.bytes)?;
            Some(found)
        });
    }

    /// Returns the unit that `unit` stands for, if its file was read.
    pub fn find<'a>(
        &'a self,
        dwarf: &Dwarf<SectionSlice<'a>>,
        unit: &Unit<SectionSlice<'a>>,
    ) -> Option<SplitUnit<'a>> {
        let id = unit.dwo_id?;
        let package = self.package.as_ref().and_then(Option::as_ref);
        let in_package = package.and_then(|all| all.dwarf(id, dwarf));
        let file = || Some(self.files.get(&id.0)?.as_ref()?.dwarf(dwarf));
        let dwarf = in_package.or_else(file)?;
        let mut found = unit_of(&dwarf, id)?;
        found.copy_relocated_attributes(unit);
        let headers = [found.header.debug_info_offset()?.0];
        Some(SplitUnit {
            dwarf,
            unit: found,
            headers,
        })
    }
}
