//! Functions of Python that were recorded, and the numbers of places in them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracer_common::kernel::{
    NO_FIELD, PYTHON_CODE_RECORD, PYTHON_LINES_BYTES, PythonCodeRecord, PythonFrame, PythonText,
    RecordHeader,
};
use zerocopy::FromBytes as _;

use super::PLACES;
use super::lines::line;

/// Functions that are known at a time, and places in all of them. Beyond that, others have no name.
const MOST_CODES: usize = 1 << 18;
const MOST_PLACES: usize = 1 << 20;

/// A function of Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonCode {
    /// Its name, with those of what it is in, since 3.11; before, its own.
    pub name: Arc<str>,
    /// The path of its file, as the interpreter was given it.
    pub file: Arc<str>,
    /// The line at which it begins.
    pub first_line: i32,
    minor: u32,
    instructions: u32,
    lines: Box<[u8]>,
}

/// The functions of all processes.
#[derive(Debug, Default)]
pub struct Codes {
    /// By process and mark.
    codes: HashMap<(i32, u64), Arc<PythonCode>>,
    /// Numbers of places by name and line.
    numbers: HashMap<(Arc<str>, u64), u64>,
    /// Places by number.
    places: Vec<(Arc<str>, u64)>,
    /// Places that have been said of a process.
    said: HashSet<(i32, u64)>,
}

impl PythonCode {
    /// Reads the record of a function: the process, the mark and what it is.
    fn parse(untrusted: &[u8]) -> Option<((i32, u64), Self)> {
        const SMALL: usize = PYTHON_LINES_BYTES[0];
        const LARGE: usize = PYTHON_LINES_BYTES[1];
        if untrusted.len() == size_of::<PythonCodeRecord<SMALL>>() {
            Self::parse_as::<SMALL>(untrusted)
        } else {
            Self::parse_as::<LARGE>(untrusted)
        }
    }

    fn parse_as<const N: usize>(untrusted: &[u8]) -> Option<((i32, u64), Self)> {
        // From a service it comes at any address.
        let record = PythonCodeRecord::<N>::read_from_bytes(untrusted).ok()?;
        let pid = i32::try_from(record.header.pid).ok()?;
        let lines = usize::try_from(record.lines_bytes).unwrap_or(0);
        let code = Self {
            name: text(&record.name).into(),
            file: text(&record.file).into(),
            first_line: record.first_line,
            minor: record.minor,
            instructions: record.instructions,
            lines: record.lines.get(..lines)?.into(),
        };
        Some(((pid, record.mark), code))
    }

    /// Returns the line of a frame; `None` where it is not known.
    #[must_use]
    pub fn line(&self, frame: &PythonFrame) -> Option<i32> {
        let at = if self.instructions == u32::from(NO_FIELD) {
            // `f_lasti`, an `int`.
            i64::from(frame.instruction.cast_signed())
        } else {
            let bytes = i64::from(frame.instruction) - i64::from(self.instructions);
            bytes.div_euclid(2)
        };
        line(self.minor, self.first_line, &self.lines, at)
    }
}

/// Returns a text, as far as it was recorded, with characters in the place of those that it cannot
/// have.
fn text(of: &PythonText) -> String {
    let bytes = usize::try_from(of.bytes).unwrap_or(0);
    let Some(bytes) = of.text.get(..bytes) else {
        return String::new();
    };
    let kind = of.state >> 2 & 7;
    let code_points: Box<dyn Iterator<Item = u32>> = match kind {
        1 => Box::new(bytes.iter().map(|byte| u32::from(*byte))),
        2 => Box::new(bytes.chunks_exact(2).filter_map(|two| {
            let two: [u8; 2] = two.try_into().ok()?;
            Some(u32::from(u16::from_ne_bytes(two)))
        })),
        4 => Box::new(bytes.chunks_exact(4).filter_map(|four| {
            let four: [u8; 4] = four.try_into().ok()?;
            Some(u32::from_ne_bytes(four))
        })),
        _ => return String::new(),
    };
    let mut text: String = code_points
        .map(|point| char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    if (text.chars().count() as u64) < of.length {
        text.push('…');
    }
    text
}

impl Codes {
    /// Tells whether a record is that of a function.
    #[must_use]
    pub fn is_code(untrusted: &[u8]) -> bool {
        RecordHeader::ref_from_prefix(untrusted)
            .is_ok_and(|(header, _)| header.event_type == PYTHON_CODE_RECORD)
    }

    /// Takes the record of a function; `None` where our programs do not write such a record.
    pub fn take(&mut self, untrusted: &[u8]) -> Option<()> {
        let (key, code) = PythonCode::parse(untrusted)?;
        if self.codes.len() >= MOST_CODES && !self.codes.contains_key(&key) {
            let mut there = HashMap::new();
            self.codes.retain(|(pid, _), _| {
                *there
                    .entry(*pid)
                    .or_insert_with(|| crate::probes::is_there(*pid))
            });
        }
        if self.codes.len() < MOST_CODES {
            self.codes.insert(key, Arc::new(code));
        }
        Some(())
    }

    /// Returns what stands for the place of a frame of process `pid`.
    pub(super) fn place(&mut self, pid: i32, frame: &PythonFrame) -> u64 {
        let found = self.codes.get(&(pid, frame.mark)).map(|code| {
            let line = code.line(frame).unwrap_or(0);
            let name = if code.name.is_empty() {
                "[python]"
            } else {
                &code.name
            };
            let line = u64::try_from(line).unwrap_or(0);
            (format!("{name} ({})", code.file).into(), line)
        });
        let place = found.unwrap_or_else(|| ("[python]".into(), 0));
        self.number(place)
    }

    fn number(&mut self, place: (Arc<str>, u64)) -> u64 {
        let next = self.places.len();
        let number = match self.numbers.get(&place) {
            Some(number) => *number,
            None if next < MOST_PLACES => {
                self.places.push(place.clone());
                self.numbers.insert(place, next as u64);
                next as u64
            }
            None => next as u64,
        };
        PLACES << 48 | number
    }

    /// Returns the name of a place and its line, where it was not said of the process before.
    pub fn take_unsaid(&mut self, pid: i32, address: u64) -> Option<(Arc<str>, u64)> {
        if !super::is_place(address) {
            return None;
        }
        let number = usize::try_from(address & 0xffff_ffff_ffff).ok()?;
        let place = self.places.get(number)?;
        if self.said.len() >= MOST_PLACES {
            self.said.clear();
        }
        self.said.insert((pid, address)).then(|| place.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = PYTHON_LINES_BYTES[0];

    /// Returns the record of a function, whose name has these bytes.
    fn record(pid: u32, mark: u64, (state, length, name): (u32, u64, &[u8])) -> Vec<u8> {
        let mut record = vec![0; size_of::<PythonCodeRecord<BYTES>>()];
        let mut put = |at: usize, bytes: &[u8]| {
            record[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(24, &pid.to_ne_bytes());
        put(32, &PYTHON_CODE_RECORD.to_ne_bytes());
        put(40, &mark.to_ne_bytes());
        put(48, &3_i32.to_ne_bytes());
        put(52, &8_u32.to_ne_bytes());
        put(68, &u32::from(NO_FIELD).to_ne_bytes());
        put(72, &length.to_ne_bytes());
        put(80, &state.to_ne_bytes());
        put(84, &i32::try_from(name.len()).unwrap().to_ne_bytes());
        put(88, name);
        record
    }

    fn name_of(text: (u32, u64, &[u8])) -> String {
        let ((pid, mark), code) = PythonCode::parse(&record(7, 9, text)).unwrap();
        assert_eq!((pid, mark, code.first_line), (7, 9, 3));
        code.name.to_string()
    }

    #[test]
    fn texts_are_read_as_wide_as_they_are() {
        assert_eq!(name_of((1 << 2, 4, b"main")), "main");
        assert_eq!(name_of((1 << 2, 2, &[0xe9, 0xfc])), "éü");
        assert_eq!(name_of((2 << 2, 1, &0x7c7b_u16.to_ne_bytes())), "类");
        assert_eq!(name_of((4 << 2, 1, &0x1f40d_u32.to_ne_bytes())), "🐍");
        // What no text has, one of which not all is there, and one of a kind that there is not.
        assert_eq!(name_of((2 << 2, 1, &0xd800_u16.to_ne_bytes())), "\u{fffd}");
        assert_eq!(name_of((1 << 2, 500, b"lo")), "lo…");
        assert_eq!(name_of((3 << 2, 4, b"main")), "");
    }

    #[test]
    fn a_record_at_any_address_is_read() {
        let record = record(7, 9, (1 << 2, 4, b"main"));
        for before in 0..8 {
            let bytes = [&vec![0; before], &*record].concat();
            assert!(Codes::default().take(&bytes[before..]).is_some());
        }
    }

    #[test]
    fn a_place_is_said_once_of_each_process() {
        let mut codes = Codes::default();
        let frame = PythonFrame {
            mark: 9,
            ..PythonFrame::default()
        };
        for pid in [7, 8] {
            codes.take(&record(pid, 9, (1 << 2, 4, b"main"))).unwrap();
        }
        let place = codes.place(7, &frame);
        assert_eq!(codes.place(8, &frame), place);
        let said = codes.take_unsaid(7, place).unwrap();
        assert_eq!((&*said.0, said.1), ("main ()", 3));
        assert!(codes.take_unsaid(7, place).is_none());
        assert!(codes.take_unsaid(8, place).is_some());
        // Of a function that was not recorded nothing is known.
        let other = codes.place(9, &frame);
        assert_eq!(&*codes.take_unsaid(9, other).unwrap().0, "[python]");
        assert!(codes.take_unsaid(9, 0x40_0000).is_none());
    }

    #[test]
    fn a_record_of_any_length_is_refused_or_read_within_it() {
        let mut record = record(7, 9, (1 << 2, 4, b"main"));
        for length in 0..record.len() {
            assert!(PythonCode::parse(&record[..length]).is_none());
        }
        record[64..68].copy_from_slice(&513_i32.to_ne_bytes());
        assert!(PythonCode::parse(&record).is_none());
        record[64..68].copy_from_slice(&(-1_i32).to_ne_bytes());
        record[84..88].copy_from_slice(&257_i32.to_ne_bytes());
        assert_eq!(&*PythonCode::parse(&record).unwrap().1.name, "");
    }
}
