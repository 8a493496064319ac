//! Functions that the compiler has put into others, and lines: an address is in all of those
//! functions.
//!
//! Files describe them to debuggers. The maker of a file may have made that up: reading all files
//! has limits in bytes and in time, and the worst that is shown is a wrong name. Nothing is read
//! before a stack is shown that has an address in the file.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, Unit, UnitOffset, constants,
};

use super::lines::{LineTables, MOST_NAME_BYTES, SourceLine};
use super::modules::demangled;
use super::units::SplitUnits;
use super::units::{Clock, MOST_RANGES, Range, Units, push_ranges};
use crate::probes::{DebugData, SectionSlice};

type Entry<'a> = DebuggingInformationEntry<SectionSlice<'a>>;

/// Time for which a file is read, and all of them.
const LONGEST_OF_FILE: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(30);

/// Bytes of the debugger's parts that are in memory.
const MOST_BYTES: u64 = 1 << 30;

/// Addresses of a file whose functions are known. Beyond that, all are looked up again.
const MOST_KNOWN: usize = 65_536;

/// Functions at an address.
const MOST_NESTED: usize = 64;

/// Steps from an entry to the one that has its name.
const MOST_STEPS: u32 = 16;

/// Allowance for reading all files together.
#[derive(Debug)]
pub struct Allowance {
    bytes: u64,
    time: Duration,
}

impl Allowance {
    /// Takes so many bytes of it; `None` where there are not as many.
    pub fn take(&mut self, bytes: u64) -> Option<()> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(())
    }
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            bytes: MOST_BYTES,
            time: LONGEST,
        }
    }
}

/// Description of an address.
#[derive(Debug, Default)]
pub struct AddressDescription {
    /// Functions that were put into another one, the innermost first, each with the line that it is
    /// in.
    pub inlined: Vec<(Arc<str>, Option<SourceLine>)>,
    /// Line that the function itself is in.
    pub line: Option<SourceLine>,
}

/// The functions in others of a file, and its lines.
#[derive(Debug)]
pub struct Inlined {
    data: DebugData,
    /// Units of the file; `None` until one is looked for.
    units: Option<Units>,
    /// Units in other files.
    split: SplitUnits,
    /// Functions of the units in which one was looked for: beginning, end, and entry of each.
    functions: HashMap<usize, Arc<[Range]>>,
    lines: LineTables,
    /// Ranges that are in memory.
    ranges: usize,
    known: HashMap<u64, Arc<AddressDescription>>,
    /// Time for which it may still be read.
    time: Duration,
}

impl Inlined {
    /// Reads the functions in others from the debugger's part of a file; `None` where that is
    /// larger than may be read.
    pub fn from_debug_data(data: DebugData, allowance: &mut Allowance) -> Option<Self> {
        allowance.take(data.bytes)?;
        Some(Self {
            data,
            units: None,
            split: SplitUnits::default(),
            functions: HashMap::new(),
            lines: LineTables::default(),
            ranges: 0,
            known: HashMap::new(),
            time: LONGEST_OF_FILE,
        })
    }

    /// Returns the functions at this offset in the file that were put into another one, and lines;
    /// none where they are unknown, or it would take too long to find out.
    pub fn at(&mut self, offset: u64, allowance: &mut Allowance) -> Arc<AddressDescription> {
        if let Some(known) = self.known.get(&offset) {
            return Arc::clone(known);
        }
        let begin = Instant::now();
        let clock = Clock::new(begin + self.time.min(allowance.time));
        let address = self.data.address(offset);
        let found = address.and_then(|address| self.look_up(address, clock, allowance));
        let took = begin.elapsed();
        self.time = self.time.saturating_sub(took);
        allowance.time = allowance.time.saturating_sub(took);
        let found = Arc::new(found.unwrap_or_default());
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(offset, Arc::clone(&found));
        found
    }

    /// Tells whether it is not read any more: addresses that come now have no functions in others.
    pub fn is_given_up(&self, allowance: &Allowance) -> bool {
        self.time.is_zero() || allowance.time.is_zero()
    }

    fn look_up(
        &mut self,
        address: u64,
        mut clock: Clock,
        allowance: &mut Allowance,
    ) -> Option<AddressDescription> {
        clock.look()?;
        let dwarf = self.data.dwarf();
        let units = match &mut self.units {
            Some(units) => units,
            unread => {
                let units = Units::read(&dwarf, &mut clock);
                self.ranges += units.ranges.len();
                unread.insert(units)
            }
        };
        let behind = units.ranges.partition_point(|one| one.begin <= address);
        // One within another is rare, and follows it.
        let before = units.ranges.get(..behind)?.iter().rev().take(16);
        let mut described = AddressDescription::default();
        for range in before.filter(|one| one.has(address)) {
            clock.look()?;
            let header = dwarf.unit_header(DebugInfoOffset(range.of)).ok()?;
            let Ok(unit) = dwarf.unit(header) else {
                continue;
            };
            let here = (&dwarf, &unit, range.of);
            described.line = self.lines.find(here, address, &mut clock);
            let places = &self.data.split;
            self.split
                .load((&dwarf, &unit), places, &mut allowance.bytes);
            let split = self.split.find(&dwarf, &unit);
            let of = match &split {
                Some(split) => Of {
                    dwarf: &split.dwarf,
                    unit: &split.unit,
                    headers: &split.headers,
                    alternate: &units.alternate,
                },
                None => Of {
                    dwarf: &dwarf,
                    unit: &unit,
                    headers: &units.headers,
                    alternate: &units.alternate,
                },
            };
            let functions = match self.functions.get(&range.of) {
                Some(known) => Arc::clone(known),
                None => {
                    let found: Arc<[Range]> = of.functions(&mut clock)?.into();
                    self.ranges += found.len();
                    if self.ranges > MOST_RANGES {
                        self.functions.clear();
                        self.ranges = units.ranges.len() + found.len();
                    }
                    self.functions.insert(range.of, Arc::clone(&found));
                    found
                }
            };
            let behind = functions.partition_point(|one| one.begin <= address);
            let mut before = functions.get(..behind)?.iter().rev().take(16);
            if let Some(function) = before.find(|one| one.has(address)) {
                let calls = of.inlined(UnitOffset(function.of), address, &mut clock)?;
                for call in calls {
                    // Numbers of files are those of the unit that has the lines.
                    let (file, line) = call.from;
                    let file = self.lines.file(&dwarf, &unit, range.of, file);
                    let from = file.zip(line).filter(|(_, line)| *line != 0);
                    let inside = std::mem::replace(&mut described.line, from);
                    described.inlined.push((call.name, inside));
                }
                return Some(described);
            }
        }
        Some(described)
    }
}

/// Function that was put into another one.
struct Call {
    name: Arc<str>,
    /// Number of the file, and line, of the call that it is there for.
    from: (u64, Option<u32>),
}

/// Unit, with the data by which its entries are read.
struct Of<'d, 'a> {
    dwarf: &'d Dwarf<SectionSlice<'a>>,
    unit: &'d Unit<SectionSlice<'a>>,
    headers: &'d [usize],
    /// Beginnings of the units of the file with what several have in common.
    alternate: &'d [usize],
}

/// Another unit that an entry is in, with the sections that it is in.
struct Elsewhere<'d, 'a> {
    dwarf: &'d Dwarf<SectionSlice<'a>>,
    headers: &'d [usize],
    unit: Unit<SectionSlice<'a>>,
}

impl<'d, 'a> Of<'d, 'a> {
    /// Returns the functions of the unit that have code, by where they begin.
    fn functions(&self, clock: &mut Clock) -> Option<Vec<Range>> {
        let mut functions = Vec::new();
        let mut entries = self.unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            clock.step()?;
            if entry.tag() == constants::DW_TAG_subprogram {
                let UnitOffset(of) = entry.offset();
                let ranges = self.dwarf.die_ranges(self.unit, entry).ok();
                push_ranges(&mut functions, ranges, of, clock)?;
            }
        }
        functions.sort_unstable();
        Some(functions)
    }

    /// Finds the functions that were put into the function of this entry and have the address, the
    /// innermost first.
    fn inlined(&self, function: UnitOffset, address: u64, clock: &mut Clock) -> Option<Vec<Call>> {
        let mut calls = Vec::new();
        let mut entries = self.unit.entries_at_offset(function).ok()?;
        let depth = entries.next_dfs().ok()??.depth();
        while let Ok(Some(entry)) = entries.next_dfs() {
            clock.step()?;
            if entry.depth() <= depth || calls.len() >= MOST_NESTED {
                break;
            }
            if entry.tag() == constants::DW_TAG_inlined_subroutine
                && self.has(entry, address, clock)?
            {
                let number = |attribute| entry.attr_value(attribute)?.udata_value();
                let file = match entry.attr_value(constants::DW_AT_call_file) {
                    Some(AttributeValue::FileIndex(file)) => file,
                    _ => 0,
                };
                let line = number(constants::DW_AT_call_line);
                calls.push(Call {
                    name: self.name(entry, clock)?,
                    from: (file, line.and_then(|line| u32::try_from(line).ok())),
                });
            }
        }
        calls.reverse();
        Some(calls)
    }

    fn has(&self, entry: &Entry<'a>, address: u64, clock: &mut Clock) -> Option<bool> {
        let Ok(mut ranges) = self.dwarf.die_ranges(self.unit, entry) else {
            return Some(false);
        };
        while let Ok(Some(range)) = ranges.next() {
            clock.step()?;
            if (range.begin..range.end).contains(&address) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Finds the name of the function that an entry is an instance of; `None` when the time is
    /// over.
    fn name(&self, entry: &Entry<'a>, clock: &mut Clock) -> Option<Arc<str>> {
        let mut entry = entry.clone();
        let mut elsewhere: Option<Elsewhere<'d, 'a>> = None;
        let mut name: Option<String> = None;
        for _ in 0..MOST_STEPS {
            clock.look()?;
            let (dwarf, unit, headers) = match &elsewhere {
                Some(other) => (other.dwarf, &other.unit, other.headers),
                None => (self.dwarf, self.unit, self.headers),
            };
            let text = |attribute| {
                let value = entry.attr_value(attribute)?;
                let text = dwarf.attr_string(unit, value).ok()?;
                let text = text.slice().get(..MOST_NAME_BYTES).unwrap_or(text.slice());
                Some(String::from_utf8_lossy(text).into_owned())
            };
            let linkage = text(constants::DW_AT_linkage_name)
                .or_else(|| text(constants::DW_AT_MIPS_linkage_name));
            if let Some(linkage) = linkage {
                return Some(demangled(&linkage).into());
            }
            name = name.or_else(|| text(constants::DW_AT_name));
            let origin = entry
                .attr_value(constants::DW_AT_abstract_origin)
                .or_else(|| entry.attr_value(constants::DW_AT_specification));
            let found = match origin {
                Some(AttributeValue::UnitRef(at)) => unit.entry(at).ok().map(|found| (None, found)),
                Some(AttributeValue::DebugInfoRef(at)) => match at.to_unit_offset(&unit.header) {
                    Some(at) => unit.entry(at).ok().map(|found| (None, found)),
                    None => look_elsewhere(dwarf, headers, at),
                },
                Some(AttributeValue::DebugInfoRefSup(at)) => dwarf
                    .sup()
                    .and_then(|common| look_elsewhere(common, self.alternate, at)),
                _ => None,
            };
            let Some((other, found)) = found else { break };
            entry = found;
            elsewhere = other.or(elsewhere);
        }
        Some(name.map_or_else(|| "?".into(), Arc::from))
    }
}

/// Returns the entry at a place in the units that begin there, and its unit.
fn look_elsewhere<'d, 'a>(
    dwarf: &'d Dwarf<SectionSlice<'a>>,
    headers: &'d [usize],
    at: DebugInfoOffset,
) -> Option<(Option<Elsewhere<'d, 'a>>, Entry<'a>)> {
    let behind = headers.partition_point(|header| *header <= at.0);
    let header = *headers.get(behind.checked_sub(1)?)?;
    let header = dwarf.unit_header(DebugInfoOffset(header)).ok()?;
    let unit = dwarf.unit(header).ok()?;
    let entry = unit.entry(at.to_unit_offset(&unit.header)?).ok()?;
    let found = Elsewhere {
        dwarf,
        headers,
        unit,
    };
    Some((Some(found), entry))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use crate::probes::Binary;

    use super::*;

    const SOURCE: &str = "
        volatile int seen;
        static inline __attribute__((always_inline)) void inner(int of) { seen = of; }
        static inline __attribute__((always_inline)) void middle(int of) { inner(of); inner(of + 1); }
        __attribute__((noinline)) void outer(int of) { middle(of); middle(of + 2); }
        int main(int count, char **typed) { outer(count); return typed == 0; }";

    /// Builds a program in C; returns its bytes and all offsets of its code.
    fn program(folder: &Path) -> (Vec<u8>, Vec<u64>) {
        let (source, made) = (folder.join("a.c"), folder.join("a"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-g", "-O2", "-gz=none", "-o"]).arg(&made);
        assert!(compiler.arg(&source).status().unwrap().success());
        let binary = Binary::open(&made, &made, Path::new("/")).unwrap();
        let functions = binary.functions().unwrap();
        let outer = functions.iter().find(|one| one.name == "outer").unwrap();
        let offsets = (outer.offset..outer.offset + outer.size).collect();
        (std::fs::read(made).unwrap(), offsets)
    }

    fn inlined(program: &[u8], folder: &Path) -> Option<Inlined> {
        let path = folder.join("read");
        std::fs::write(&path, program).unwrap();
        let binary = Binary::open(&path, &path, Path::new("/")).ok()?;
        Inlined::from_debug_data(binary.debug_data()?, &mut Allowance::default())
    }

    fn names(found: &AddressDescription) -> String {
        let names = found.inlined.iter().map(|(name, _)| &**name);
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn functions_are_within_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let (program, offsets) = program(folder.path());
        let mut file = inlined(&program, folder.path()).unwrap();
        let mut allowance = Allowance::default();
        let all: Vec<String> = offsets
            .iter()
            .map(|offset| names(&file.at(*offset, &mut allowance)))
            .collect();
        for known in ["inner middle", ""] {
            assert!(all.iter().any(|one| one == known), "{all:?}");
        }
        assert_eq!(names(&file.at(u64::MAX, &mut allowance)), "");
        assert!(!file.is_given_up(&allowance));
        // Without time, nothing is known.
        let mut file = inlined(&program, folder.path()).unwrap();
        allowance.time = Duration::ZERO;
        assert!(
            offsets
                .iter()
                .all(|at| file.at(*at, &mut allowance).inlined.is_empty())
        );
        allowance.bytes = 10;
        let binary = Binary::open(&folder.path().join("a"), Path::new("a"), Path::new("/"));
        let data = binary.unwrap().debug_data().unwrap();
        assert!(Inlined::from_debug_data(data, &mut allowance).is_none());
    }

    #[test]
    fn units_that_take_long_are_given_up() {
        let folder = tempfile::tempdir().unwrap();
        crate::probes::build_slow_to_read(folder.path());
        let at = |name: &str| folder.path().join(name);
        let mut file = inlined(&std::fs::read(at("a")).unwrap(), folder.path()).unwrap();
        let mut allowance = Allowance {
            time: Duration::from_millis(50),
            ..Allowance::default()
        };
        let binary = Binary::open(&at("a"), &at("a"), Path::new("/")).unwrap();
        let functions = binary.functions().unwrap();
        let main = functions.iter().find(|one| one.name == "main").unwrap();
        assert_eq!(names(&file.at(main.offset, &mut allowance)), "");
        assert_eq!(allowance.time, Duration::ZERO, "it was not over before");
        assert!(file.is_given_up(&allowance));
        let read = file.units.map_or(0, |units| units.headers.len());
        assert!((1..100_000).contains(&read), "{read}");
    }

    #[test]
    fn damage_does_no_harm() {
        use object::{Object, ObjectSection};

        let folder = tempfile::tempdir().unwrap();
        let (whole, offsets) = program(folder.path());
        let parsed = object::File::parse(&*whole).unwrap();
        let names = [
            ".debug_info",
            ".debug_abbrev",
            ".debug_str",
            ".debug_rnglists",
            ".debug_line",
            ".debug_line_str",
        ];
        let ranges = names.iter();
        let ranges: Vec<_> = ranges
            .filter_map(|name| parsed.section_by_name(name)?.file_range())
            .collect();
        assert!(ranges.len() >= 5);
        let mut seed = 1_u64;
        for round in 0..1000 {
            let mut damaged = whole.clone();
            for _ in 0..=round % 4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (start, bytes) = ranges[(seed >> 33) as usize % ranges.len()];
                let at = start + (seed >> 20) % bytes;
                damaged[usize::try_from(at).unwrap()] = (seed >> 56) as u8;
            }
            let mut allowance = Allowance::default();
            if let Some(mut file) = inlined(&damaged, folder.path()) {
                for offset in offsets.iter().step_by(5) {
                    let found = file.at(*offset, &mut allowance);
                    assert!(found.inlined.len() <= MOST_NESTED);
                }
            }
        }
    }
}
