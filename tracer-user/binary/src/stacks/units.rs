//! Units of the debugger's part of a file, and the code that each has.

use std::time::Instant;

use gimli::{DebugInfoOffset, Dwarf, RangeIter};

use crate::probes::SectionSlice;

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
