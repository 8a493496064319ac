//! Functions of programs in Go by the table that those need themselves (`.gopclntab`): `strip` and
//! `-ldflags=-s` leave it where it is.
//!
//! The table has another form in programs of Go 1.2, 1.16, 1.18 and 1.20. What is not certain to be
//! as one of these says has no name.

use object::{Object, ObjectSection, ReadRef};

use super::binary::{Function, Segments};

/// Functions of a program.
pub(super) const MOST_FUNCTIONS: u64 = 1 << 20;

/// Bytes of a name.
const MOST_NAME_BYTES: usize = 4096;

/// Names of the section: of programs at fixed addresses, and of others.
pub(super) const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// Form of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Number by which it is told from others.
    magic: u32,
    /// Where the names begin, and what else tells of functions.
    names: u64,
    functions: u64,
    /// Address to which those of functions are relative.
    base: u64,
    /// Bytes of an address in the list.
    pub width: usize,
    /// Where it has what leads to lines.
    lines: LinePlaces,
}

/// Places of what leads from an instruction to its line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinePlaces {
    /// The tables of values by instruction.
    pub values: u64,
    /// The files, by unit.
    pub files_of_units: u64,
    /// The names of files.
    pub files: u64,
    /// Where a function's record, behind its address, has its unit; `None` in the oldest form.
    pub unit: Option<u64>,
    /// Where that record has the tables that not each function has.
    pub tables: u64,
}

/// Where a program has its code, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    start: u64,
    entry: u64,
}

impl Code {
    pub fn read<'a, R: ReadRef<'a>>(parsed: &object::File<'a, R>) -> Option<Self> {
        let start = parsed.section_by_name(".text")?.address();
        let entry = parsed.entry();
        Some(Self { start, entry })
    }
}

/// Beginning of the names of functions with which programs in Go begin, where it is Go that has
/// linked them.
const ENTRY: &str = "_rt0_";

/// The oldest form, that of Go 1.2, and the newest.
const OLDEST: u32 = 0xffff_fffb;
const OF_1_16: u32 = 0xffff_fffa;
const OF_1_18: u32 = 0xffff_fff0;
const NEWEST: u32 = 0xffff_fff1;

/// Reads the functions of a program in Go; none where it is not one, or its table is damaged.
pub fn functions<'a, R: ReadRef<'a>>(
    parsed: &object::File<'a, R>,
    segments: &Segments,
) -> Vec<Function> {
    let sections = SECTIONS.iter();
    let section = sections.filter_map(|name| parsed.section_by_name(name)?.data().ok());
    let table = { section }.next().unwrap_or_default();
    let code = Code::read(parsed);
    let found = read(table, code, |address| segments.offset(address, true));
    found.unwrap_or_default()
}

/// Reads the functions of a table; `offset` returns where in the file an address is.
fn read(
    untrusted: &[u8],
    code: Option<Code>,
    offset: impl Fn(u64) -> Option<u64>,
) -> Option<Vec<Function>> {
    let form = Form::read(untrusted, code)?;
    let count = long(untrusted, 8)?;
    let mut found = Vec::new();
    for nth in 0..count {
        let (begin, record) = form.entry(untrusted, nth)?;
        // In order, or it is no such table.
        let size = form.address(untrusted, nth + 1)?.checked_sub(begin)?;
        let name = form.name(untrusted, record)?;
        if let Some(offset) = offset(begin).filter(|_| !name.is_empty()) {
            found.push(Function {
                name,
                size,
                offset,
                is_indirect: false,
                is_exported: false,
            });
        }
    }
    Some(found)
}

impl Form {
    /// Returns the form of a table; `None` where it is none that is known.
    pub fn read(untrusted: &[u8], code: Option<Code>) -> Option<Self> {
        // Instructions of one or four bytes, addresses of eight.
        let is_sane = matches!(untrusted.get(4..8)?, [0, 0, 1 | 4, 8]);
        if !is_sane || long(untrusted, 8)? > MOST_FUNCTIONS {
            return None;
        }
        let at = |nth: usize| long(untrusted, 8 * nth);
        let magic = u32::from_ne_bytes(*untrusted.first_chunk()?);
        let oldest = Self {
            magic,
            names: 0,
            functions: 16,
            base: 0,
            width: 8,
            lines: LinePlaces {
                tables: 32,
                ..LinePlaces::default()
            },
        };
        // In order: units, files, values.
        let lines = |first: usize, tables| {
            Some(LinePlaces {
                files_of_units: at(first)?,
                files: at(first + 1)?,
                values: at(first + 2)?,
                unit: Some(28),
                tables,
            })
        };
        let form = match magic {
            OLDEST => oldest,
            OF_1_16 => Self {
                names: at(3)?,
                functions: at(7)?,
                lines: lines(4, 36)?,
                ..oldest
            },
            OF_1_18 | NEWEST => Self {
                names: at(4)?,
                functions: at(8)?,
                base: at(3)?,
                width: 4,
                // The newest also has the line in which a function begins.
                lines: lines(5, if magic == NEWEST { 40 } else { 36 })?,
                ..oldest
            },
            _ => return None,
        };
        form.with_base(untrusted, code)
    }

    /// Returns the form with the address to which those of functions are relative. In newer
    /// versions it is not in the table, nor where the dynamic linker would have to fill it in: then
    /// it is where the code begins, if the program's entry is where it should be.
    fn with_base(self, untrusted: &[u8], code: Option<Code>) -> Option<Self> {
        if self.width == 8 || self.base != 0 {
            return Some(self);
        }
        let code = code?;
        let form = Self {
            base: code.start,
            ..self
        };
        let (begin, record) = form.function(untrusted, code.entry)?;
        let name = form.name(untrusted, record)?;
        (begin == code.entry && name.starts_with(ENTRY)).then_some(form)
    }

    /// Returns the beginning of the function that has an address, and what leads to its record.
    pub fn function(&self, untrusted: &[u8], address: u64) -> Option<(u64, u64)> {
        let count = long(untrusted, 8).filter(|count| *count <= MOST_FUNCTIONS)?;
        let (mut from, mut to) = (0, count);
        while from < to {
            let middle = u64::midpoint(from, to);
            if self.address(untrusted, middle + 1)? <= address {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        let found = self.entry(untrusted, from).filter(|_| from < count)?;
        (found.0 <= address).then_some(found)
    }

    /// Returns the name of the function to whose record this leads.
    fn name(&self, untrusted: &[u8], record: u64) -> Option<String> {
        // The address comes first there, too.
        let name = self.functions_at(record)?.checked_add(self.width as u64)?;
        let name = number(untrusted, name, 4)?.checked_add(self.names)?;
        text(untrusted, name)
    }

    /// Tells whether it is the form of Go before 1.16.
    pub fn is_oldest(&self) -> bool {
        self.magic == OLDEST
    }

    /// Returns the places of what leads to lines.
    pub fn places(&self) -> LinePlaces {
        self.lines
    }

    /// Returns the address of a function by its number, or the end of the last one.
    fn address(&self, untrusted: &[u8], nth: u64) -> Option<u64> {
        number(untrusted, self.at(nth)?, self.width)?.checked_add(self.base)
    }

    /// Returns the address of a function by its number, and what leads to its record.
    pub fn entry(&self, untrusted: &[u8], nth: u64) -> Option<(u64, u64)> {
        let record = self.at(nth)?.checked_add(self.width as u64)?;
        let record = number(untrusted, record, self.width)?;
        Some((self.address(untrusted, nth)?, record))
    }

    fn at(&self, nth: u64) -> Option<u64> {
        let behind = nth.checked_mul(2 * self.width as u64)?;
        self.functions.checked_add(behind)
    }

    /// Returns where what is said of a function is.
    pub fn functions_at(&self, record: u64) -> Option<u64> {
        // In the oldest form it is relative to the table, as names are.
        let begin = if self.names == 0 { 0 } else { self.functions };
        record.checked_add(begin)
    }
}

pub(super) fn long(untrusted: &[u8], at: usize) -> Option<u64> {
    number(untrusted, at as u64, 8)
}

/// Returns the number of four or eight bytes at an offset.
pub(super) fn number(untrusted: &[u8], at: u64, width: usize) -> Option<u64> {
    let bytes = untrusted.get(usize::try_from(at).ok()?..)?;
    if width == 8 {
        return bytes.first_chunk().map(|long| u64::from_ne_bytes(*long));
    }
    let word: [u8; 4] = *bytes.first_chunk()?;
    Some(u64::from(u32::from_ne_bytes(word)))
}

pub(super) fn text(untrusted: &[u8], at: u64) -> Option<String> {
    let bytes = untrusted.get(usize::try_from(at).ok()?..)?;
    let bytes = bytes.get(..MOST_NAME_BYTES).unwrap_or(bytes);
    let name = bytes.split(|byte| *byte == 0).next()?;
    (name.len() < bytes.len()).then(|| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::super::Binary;
    use super::*;

    const SOURCE: &str = "package main
import \"syscall\"
type shape struct{ n int }
//go:noinline
func (s *shape) area(by int) int { return s.n*by + syscall.Getppid() }
//go:noinline
func compute(s *shape) int {
	f := func(x int) int { return s.area(x) + 1 }
	return f(3)
}
func main() { println(compute(&shape{2}) > 0) }
";

    /// Makes a table of two functions in a form.
    pub fn table(magic: u32) -> Vec<u8> {
        let mut table = magic.to_ne_bytes().to_vec();
        table.extend([0, 0, 1, 8]);
        let names = b"main.one\0main.two\0";
        let word = |of: u64| u32::try_from(of).unwrap().to_ne_bytes();
        let long = |of: u64| of.to_ne_bytes();
        table.extend(long(2));
        match magic {
            0xffff_fffb => {
                // Three addresses, two records, then names.
                let (records, at) = (16 + 40, 16 + 40 + 24);
                for (nth, address) in [0x1000, 0x1010].into_iter().enumerate() {
                    table.extend(long(address));
                    table.extend(long(records + 12 * nth as u64));
                }
                table.extend(long(0x1030));
                for (address, name) in [(0x1000, at), (0x1010, at + 9)] {
                    table.extend(long(address));
                    table.extend(word(name));
                }
                table.extend(names);
            }
            0xffff_fffa => {
                for field in [0, 64, 0, 0, 0, 64 + 18] {
                    table.extend(long(field));
                }
                table.extend(names);
                for (address, record) in [(0x1000, 40), (0x1010, 52)] {
                    table.extend(long(address));
                    table.extend(long(record));
                }
                table.extend(long(0x1030));
                for (address, name) in [(0x1000, 0), (0x1010, 9)] {
                    table.extend(long(address));
                    table.extend(word(name));
                }
            }
            _ => {
                for field in [0, 0x1000, 72, 0, 0, 0, 72 + 18] {
                    table.extend(long(field));
                }
                table.extend(names);
                for (address, record) in [(0, 20), (0x10, 28)] {
                    table.extend(word(address));
                    table.extend(word(record));
                }
                table.extend(word(0x30));
                for (address, name) in [(0, 0), (0x10, 9)] {
                    table.extend(word(address));
                    table.extend(word(name));
                }
            }
        }
        table
    }

    fn named(table: &[u8]) -> Vec<String> {
        let code = Some(Code {
            start: 0x1000,
            entry: 0x1010,
        });
        let found = read(table, code, |address| address.checked_sub(0x1000));
        let found = found.unwrap_or_default();
        let found = found.iter();
        found
            .map(|one| format!("{} {:#x} {}", one.name, one.offset, one.size))
            .collect()
    }

    pub const FORMS: [u32; 4] = [0xffff_fffb, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1];

    #[test]
    fn each_form_is_read() {
        for magic in FORMS {
            let names = named(&table(magic));
            assert_eq!(names, ["main.one 0x0 16", "main.two 0x10 32"], "{magic:#x}");
        }
    }

    #[test]
    fn a_table_that_does_not_say_where_the_code_is_is_read_by_where_the_program_begins() {
        let mut table = table(NEWEST);
        table[24..32].copy_from_slice(&0_u64.to_ne_bytes());
        assert_eq!(named(&table), Vec::<String>::new());
        // The second function is called as those are with which a program begins.
        let at = table
            .windows(8)
            .position(|name| name == b"main.two")
            .unwrap();
        table[at..at + 8].copy_from_slice(b"_rt0_two");
        assert_eq!(named(&table), ["main.one 0x0 16", "_rt0_two 0x10 32"]);
        for (start, entry) in [(0x1000, 0x1000), (0x1000, 0x1011), (0x2000, 0x1010)] {
            assert!(read(&table, Some(Code { start, entry }), Some).is_none());
        }
        assert!(read(&table, None, Some).is_none());
    }

    #[test]
    fn damage_does_no_harm() {
        for magic in FORMS {
            let good = table(magic);
            for at in 0..good.len() {
                let _ = named(&good[..at]);
                for by in [1, 0x7f, 0x80, 0xff] {
                    let mut bad = good.clone();
                    bad[at] ^= by;
                    let _ = named(&bad);
                }
            }
            for (at, what) in [
                (0, "magic"),
                (6, "instructions"),
                (7, "addresses"),
                (12, "count"),
            ] {
                let mut bad = good.clone();
                bad[at] ^= 0x55;
                assert_eq!(named(&bad), Vec::<String>::new(), "{what}");
            }
        }
    }

    /// Builds a program in Go, whole and stripped, in a folder; `None` where there is no Go.
    pub fn go(source: &str) -> Option<tempfile::TempDir> {
        if Command::new("go").arg("version").output().is_err() {
            // It is installed for the tests that leave nothing out.
            assert_eq!(std::env::var_os("TRACER_WHOLE"), None, "no Go");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("main.go"), source).unwrap();
        for (flags, name) in [("", "whole"), ("-s -w", "stripped")] {
            let mut go = Command::new("go");
            go.args(["build", "-o", name, "-ldflags", flags, "main.go"]);
            let made = go.current_dir(folder.path()).status();
            assert!(made.unwrap().success());
        }
        Some(folder)
    }

    #[test]
    fn functions_of_a_stripped_program_are_those_of_its_twin() {
        let Some(folder) = go(SOURCE) else { return };
        let at = |name: &str| folder.path().join(name);
        let functions = |name: &str| {
            let binary = Binary::open(&at(name), &at(name), Path::new("/")).unwrap();
            binary.functions().unwrap()
        };
        let (whole, stripped) = (functions("whole"), functions("stripped"));
        for name in ["main.(*shape).area", "main.compute", "main.main"] {
            let of = |all: &[Function]| all.iter().find(|one| one.name == name).unwrap().offset;
            assert_eq!(of(&whole), of(&stripped), "{name}");
        }
        // Each name is one that the twin has there, but for what it says of types.
        let mut same = 0;
        for one in &stripped {
            let twin = whole.iter().filter(|twin| twin.offset == one.offset);
            // Those that assembler calls have one more word there.
            let bare = |name: &'_ str| name.trim_end_matches(".abi0").to_owned();
            let twin: Vec<String> = twin.map(|twin| bare(&twin.name)).collect();
            let is_same = twin.contains(&one.name) || one.name.contains("[...]");
            assert!(is_same || twin.is_empty(), "{one:?}: {twin:?}");
            same += usize::from(is_same);
        }
        assert!(same > 500 && same * 100 > stripped.len() * 95, "{same}");
    }
}
