//! Functions of programs in Go by the table that those need themselves (`.gopclntab`): `strip` and
//! `-ldflags=-s` leave it where it is.
//!
//! The table has another form in programs of Go 1.2, 1.16, 1.18 and 1.20. What is not certain to be
//! as one of these says has no name.

use object::{Object, ObjectSection, ReadRef};

use super::binary::{Function, Segments};

/// Functions of a program.
const MOST_FUNCTIONS: u64 = 1 << 20;

/// Bytes of a name.
const MOST_NAME_BYTES: usize = 4096;

/// Names of the section: of programs at fixed addresses, and of others.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// Form of the table.
struct Form {
    /// Where the names begin, and what else tells of functions.
    names: u64,
    functions: u64,
    /// Address to which those of functions are relative.
    base: u64,
    /// Bytes of an address in the list.
    width: usize,
}

/// Reads the functions of a program in Go; none where it is not one, or its table is damaged.
pub fn functions<'a, R: ReadRef<'a>>(
    parsed: &object::File<'a, R>,
    segments: &Segments,
) -> Vec<Function> {
    let sections = SECTIONS.iter();
    let section = sections.filter_map(|name| parsed.section_by_name(name)?.data().ok());
    let table = { section }.next().unwrap_or_default();
    let found = read(table, |address| segments.offset(address, true));
    found.unwrap_or_default()
}

/// Reads the functions of a table; `offset` returns where in the file an address is.
fn read(untrusted: &[u8], offset: impl Fn(u64) -> Option<u64>) -> Option<Vec<Function>> {
    // Instructions of one or four bytes, addresses of eight.
    let is_sane = matches!(untrusted.get(4..8)?, [0, 0, 1 | 4, 8]);
    let count = long(untrusted, 8)?;
    if !is_sane || count > MOST_FUNCTIONS {
        return None;
    }
    let form = form(untrusted)?;
    let entry = |nth: u64| {
        let at = form
            .functions
            .checked_add(nth.checked_mul(2 * form.width as u64)?)?;
        let address = number(untrusted, at, form.width)?.checked_add(form.base)?;
        Some((address, at))
    };
    let mut found = Vec::new();
    for nth in 0..count {
        let ((begin, at), (end, _)) = (entry(nth)?, entry(nth + 1)?);
        // In order, or it is no such table.
        let size = end.checked_sub(begin)?;
        let record = number(untrusted, at + form.width as u64, form.width)?;
        // The address comes first there, too.
        let name = form.functions_at(record)?.checked_add(form.width as u64)?;
        let name = number(untrusted, name, 4)?.checked_add(form.names)?;
        let name = text(untrusted, name)?;
        if let Some(offset) = offset(begin).filter(|_| !name.is_empty()) {
            found.push(Function {
                name,
                size,
                offset,
                is_indirect: false,
            });
        }
    }
    Some(found)
}

/// Returns the form of a table; `None` where it is none that is known.
fn form(untrusted: &[u8]) -> Option<Form> {
    let at = |nth: usize| long(untrusted, 8 * nth);
    let magic = u32::from_ne_bytes(*untrusted.first_chunk()?);
    Some(match magic {
        0xffff_fffb => Form {
            names: 0,
            functions: 16,
            base: 0,
            width: 8,
        },
        0xffff_fffa => Form {
            names: at(3)?,
            functions: at(7)?,
            base: 0,
            width: 8,
        },
        0xffff_fff0 | 0xffff_fff1 => Form {
            names: at(4)?,
            functions: at(8)?,
            // Unknown where the dynamic linker would have to fill it in.
            base: at(3).filter(|base| *base != 0)?,
            width: 4,
        },
        _ => return None,
    })
}

impl Form {
    /// Returns where what is said of a function is.
    fn functions_at(&self, record: u64) -> Option<u64> {
        // In the oldest form it is relative to the table, as names are.
        let begin = if self.names == 0 { 0 } else { self.functions };
        record.checked_add(begin)
    }
}

fn long(untrusted: &[u8], at: usize) -> Option<u64> {
    number(untrusted, at as u64, 8)
}

/// Returns the number of four or eight bytes at an offset.
fn number(untrusted: &[u8], at: u64, width: usize) -> Option<u64> {
    let bytes = untrusted.get(usize::try_from(at).ok()?..)?;
    if width == 8 {
        return bytes.first_chunk().map(|long| u64::from_ne_bytes(*long));
    }
    let word: [u8; 4] = *bytes.first_chunk()?;
    Some(u64::from(u32::from_ne_bytes(word)))
}

fn text(untrusted: &[u8], at: u64) -> Option<String> {
    let bytes = untrusted.get(usize::try_from(at).ok()?..)?;
    let bytes = bytes.get(..MOST_NAME_BYTES).unwrap_or(bytes);
    let name = bytes.split(|byte| *byte == 0).next()?;
    (name.len() < bytes.len()).then(|| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
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
    fn table(magic: u32) -> Vec<u8> {
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
        let found = read(table, |address| address.checked_sub(0x1000)).unwrap_or_default();
        let found = found.iter();
        found
            .map(|one| format!("{} {:#x} {}", one.name, one.offset, one.size))
            .collect()
    }

    const FORMS: [u32; 4] = [0xffff_fffb, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1];

    #[test]
    fn each_form_is_read() {
        for magic in FORMS {
            let names = named(&table(magic));
            assert_eq!(names, ["main.one 0x0 16", "main.two 0x10 32"], "{magic:#x}");
        }
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

    #[test]
    fn functions_of_a_stripped_program_are_those_of_its_twin() {
        if Command::new("go").arg("version").output().is_err() {
            // It is installed for the tests that leave nothing out.
            assert_eq!(std::env::var_os("TRACER_WHOLE"), None, "no Go");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("main.go"), SOURCE).unwrap();
        for (flags, name) in [("", "whole"), ("-s -w", "stripped")] {
            let mut go = Command::new("go");
            go.args(["build", "-o", name, "-ldflags", flags, "main.go"]);
            let made = go.current_dir(folder.path()).status();
            assert!(made.unwrap().success());
        }
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
