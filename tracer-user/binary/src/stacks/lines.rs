//! Lines of the source that addresses are of, as files describe them to debuggers.

use std::collections::HashMap;
use std::sync::Arc;

use gimli::{AttributeValue, Dwarf, LineProgramHeader, Unit};

use super::units::Clock;
use crate::probes::SectionSlice;

/// File of a source, and line in it.
pub type SourceLine = (Arc<str>, u32);

/// Lines of a file's units that are in memory. Beyond that, all are read again.
const MOST_ROWS: usize = 4 << 20;

/// Bytes of the name of a file.
pub const MOST_NAME_BYTES: usize = 4096;

/// Address from which on code is of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    address: u64,
    /// Number of its file in the unit.
    file: u64,
    /// Line; 0: of none.
    line: u32,
    /// A place for a breakpoint of that line.
    is_statement: bool,
}

/// Lines of the units of a file, of those in which one was looked for.
#[derive(Debug, Default)]
pub struct LineTables {
    units: HashMap<usize, Arc<[Row]>>,
    /// Names of files, by unit and number.
    files: HashMap<(usize, u64), Option<Arc<str>>>,
    rows: usize,
}

impl LineTables {
    /// Returns the line of an address in the unit `of`; `None` where it is unknown.
    pub fn find(
        &mut self,
        (dwarf, unit, of): (&Dwarf<SectionSlice<'_>>, &Unit<SectionSlice<'_>>, usize),
        address: u64,
        clock: &mut Clock,
    ) -> Option<SourceLine> {
        let rows = match self.units.get(&of) {
            Some(known) => Arc::clone(known),
            None => {
                let found: Arc<[Row]> = rows(unit, clock)?.into();
                self.rows += found.len();
                if self.rows > MOST_ROWS {
                    self.units.clear();
                    self.files.clear();
                    self.rows = found.len();
                }
                self.units.insert(of, Arc::clone(&found));
                found
            }
        };
        let behind = rows.partition_point(|row| row.address <= address);
        let row = rows.get(behind.checked_sub(1)?)?;
        let line = Some(row.line).filter(|line| *line != 0)?;
        Some((self.file(dwarf, unit, of, row.file)?, line))
    }

    /// Returns the name of a file of the unit `of`.
    pub fn file(
        &mut self,
        dwarf: &Dwarf<SectionSlice<'_>>,
        unit: &Unit<SectionSlice<'_>>,
        of: usize,
        file: u64,
    ) -> Option<Arc<str>> {
        let known = self.files.entry((of, file));
        let name = known.or_insert_with(|| file_name(dwarf, unit, file).map(Arc::from));
        name.clone()
    }
}

/// Reads the lines of a unit, by address; `None` when the time is over.
fn rows(unit: &Unit<SectionSlice<'_>>, clock: &mut Clock) -> Option<Vec<Row>> {
    let mut found = Vec::new();
    let Some(program) = unit.line_program.clone() else {
        return Some(found);
    };
    let mut rows = program.rows();
    while let Ok(Some((_, row))) = rows.next_row() {
        clock.step()?;
        let line = row.line().filter(|_| !row.end_sequence());
        let next = Row {
            address: row.address(),
            file: row.file_index(),
            line: line.map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
            is_statement: row.is_stmt(),
        };
        if found.len() >= MOST_ROWS {
            break;
        }
        found.push(next);
    }
    // What ends where other code begins comes before that. Of several for one address the last one
    // counts that begins a statement, as for gdb.
    found.sort_by_key(|row| (row.address, row.line != 0, row.is_statement));
    found.reverse();
    found.dedup_by_key(|row| row.address);
    found.reverse();
    Some(found)
}

/// Returns the path of a file by its number in a unit.
fn file_name(
    dwarf: &Dwarf<SectionSlice<'_>>,
    unit: &Unit<SectionSlice<'_>>,
    file: u64,
) -> Option<String> {
    let header: &LineProgramHeader<_> = unit.line_program.as_ref()?.header();
    let entry = header.file(file)?;
    let text = |value: AttributeValue<SectionSlice<'_>>| {
        let text = dwarf.attr_string(unit, value).ok()?.slice().to_vec();
        (text.len() <= MOST_NAME_BYTES).then(|| String::from_utf8_lossy(&text).into_owned())
    };
    let mut path = match unit.comp_dir {
        Some(folder) if folder.slice().len() <= MOST_NAME_BYTES => {
            String::from_utf8_lossy(folder.slice()).into_owned()
        }
        _ => String::new(),
    };
    let folder = entry.directory(header).and_then(text);
    for part in [folder, Some(text(entry.path_name())?)] {
        push_part(&mut path, &part.unwrap_or_default());
    }
    Some(path)
}

/// Appends a part of a path, or takes that alone where it begins at the root.
fn push_part(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') && !part.is_empty() {
        path.push('/');
    }
    path.push_str(part);
}
