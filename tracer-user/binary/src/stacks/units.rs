//! Units of the debugger's part of a file and the code that each has; and those that the part
//! leaves to other files, as far as they were looked for.

use std::collections::HashMap;
use std::time::Instant;

use gimli::{AttributeValue, DebugInfoOffset, Dwarf, DwoId, RangeIter, Unit};

use super::lines::MOST_NAME_BYTES;
use crate::probes::{SectionSlice, SplitFile, SplitPackage, SplitPlaces, unit_of};

/// Ranges of units and functions of a file that are in memory.
pub const MOST_RANGES: usize = 4 << 20;

/// Steps between two looks at the clock.
const STEPS_OF_A_LOOK: u32 = 1024;

/// Deadline of a reader.
pub struct Clock {
    until: Instant,
    steps: u32,
}

impl Clock {
    /// Returns a clock with this deadline.
    pub fn new(until: Instant) -> Self {
        Self { until, steps: 0 }
    }

    /// Checks the deadline; returns `None` when the time is over.
    pub fn look(&self) -> Option<()> {
        (Instant::now() < self.until).then_some(())
    }

    /// Checks the deadline every `STEPS_OF_A_LOOK` calls; returns `None` when the time is over.
    pub fn step(&mut self) -> Option<()> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_OF_A_LOOK) {
            self.look()
        } else {
            Some(())
        }
    }
}

/// Code, and the unit or function that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    pub begin: u64,
    pub end: u64,
    pub of: usize,
}

impl Range {
    /// Tells whether it has an address.
    pub fn has(&self, address: u64) -> bool {
        (self.begin..self.end).contains(&address)
    }
}

/// Units of a file, and the code that each has.
#[derive(Debug, Default)]
pub struct Units {
    /// Beginning of each unit, in order.
    pub headers: Vec<usize>,
    /// Beginning of each unit of the file with what several have in common, in order.
    pub alternate: Vec<usize>,
    /// Code of each unit, in order.
    pub ranges: Vec<Range>,
}

impl Units {
    /// Reads the units of a file; what was found until the time is over counts.
    pub fn read(dwarf: &Dwarf<SectionSlice<'_>>, clock: &mut Clock) -> Self {
        let mut units = Self::default();
        let _ = units.read_all(dwarf, clock);
        units.ranges.sort_unstable();
        units
    }

    fn read_all(&mut self, dwarf: &Dwarf<SectionSlice<'_>>, clock: &mut Clock) -> Option<()> {
        if let Some(alternate) = dwarf.sup() {
            let mut headers = alternate.units();
            while let Ok(Some(header)) = headers.next() {
                clock.step()?;
                self.alternate.push(header.debug_info_offset()?.0);
            }
        }
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            clock.look()?;
            let DebugInfoOffset(of) = header.debug_info_offset()?;
            self.headers.push(of);
            // One that cannot be read is not the last one.
            let Ok(unit) = dwarf.unit(header) else {
                continue;
            };
            let ranges = dwarf.unit_ranges(&unit).ok();
            push_ranges(&mut self.ranges, ranges, of, clock)?;
        }
        Some(())
    }
}

/// Appends the ranges of `of`, as far as there is space.
pub fn push_ranges(
    to: &mut Vec<Range>,
    ranges: Option<RangeIter<SectionSlice<'_>>>,
    of: usize,
    clock: &mut Clock,
) -> Option<()> {
    let Some(mut ranges) = ranges else {
        return Some(());
    };
    while let Ok(Some(range)) = ranges.next() {
        clock.step()?;
        if range.begin < range.end && to.len() < MOST_RANGES {
            to.push(Range {
                begin: range.begin,
                end: range.end,
                of,
            });
        }
    }
    Some(())
}

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
