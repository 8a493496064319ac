//! Lines of programs in Go by the table that those need themselves, for which
//! [`go_table`](super::go_table) has the functions: `strip` leaves it where it is.
//!
//! The table says the innermost line of an instruction: that of a function which the compiler has
//! put into another one has no line here, since the functions around it are not in the table.

use std::sync::Arc;

use object::{Object, ObjectSection, ReadRef};

use super::binary::Segments;
use super::go_table::{Code, Form, SECTIONS, long, number, text};

/// Bytes of a table that are read.
const MOST_BYTES: u64 = 256 << 20;

/// Index of the table that says which functions are put into another one at an instruction. Before
/// Go 1.12 it was the one before that.
const PUT_INTO: u64 = 2;

/// The table of a program, and where its code is.
#[derive(Debug)]
pub struct GoLines {
    table: Vec<u8>,
    form: Form,
    segments: Segments,
}

impl GoLines {
    /// Reads the table of a program in Go; `None` where it is not one, or of another form.
    pub(super) fn read<'a, R: ReadRef<'a>>(
        parsed: &object::File<'a, R>,
        segments: Segments,
    ) -> Option<Self> {
        let sections = SECTIONS.iter();
        let mut sections = sections.filter_map(|name| parsed.section_by_name(name));
        let section = sections
            .next()
            .filter(|section| section.size() <= MOST_BYTES)?;
        Self::parse(section.data().ok()?.to_vec(), Code::read(parsed), segments)
    }

    fn parse(table: Vec<u8>, code: Option<Code>, segments: Segments) -> Option<Self> {
        let form = Form::read(&table, code)?;
        Some(Self {
            table,
            form,
            segments,
        })
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.table.len() as u64
    }

    /// Returns file and line of an instruction at this offset in the program's file; `None` where
    /// that is unknown, or it is one of a function that was put into another one.
    pub fn line(&self, offset: u64) -> Option<(Arc<str>, u32)> {
        self.line_at(self.segments.address(offset)?)
    }

    fn line_at(&self, address: u64) -> Option<(Arc<str>, u32)> {
        let (begin, record) = self.function(address)?;
        let fields = record.checked_add(self.form.width as u64)?;
        let word = |at: u64| self.word(fields.checked_add(at)?);
        let places = self.form.places();
        let value = |table: u64| self.value(table, begin, address);
        let tables = word(24)?;
        let nth = |nth: u64| {
            // Past those that it has.
            (nth < tables).then(|| word(places.tables.checked_add(nth * 4)?))?
        };
        let of_innermost = nth(PUT_INTO).or_else(|| self.form.is_oldest().then(|| nth(1))?);
        let is_put_into = of_innermost
            .filter(|table| *table != 0)
            .is_some_and(|table| value(table) != Some(-1));
        if is_put_into {
            return None;
        }
        let line = u32::try_from(value(word(20)?)?).ok()?;
        let file = u64::try_from(value(word(16)?)?).ok()?;
        let name = match places.unit {
            Some(unit) => {
                let nth = u64::from(u32::try_from(word(unit)?).ok()?).checked_add(file)?;
                let at = places.files_of_units.checked_add(nth.checked_mul(4)?)?;
                places.files.checked_add(self.word(at)?)?
            }
            None => self.word(self.oldest_files()?.checked_add(file.checked_mul(4)?)?)?,
        };
        let name = text(&self.table, name).filter(|name| !name.is_empty())?;
        (line != 0).then(|| (Arc::from(name), line))
    }

    /// Returns the beginning of the function that has an address, and where its record is.
    fn function(&self, address: u64) -> Option<(u64, u64)> {
        let (begin, record) = self.form.function(&self.table, address)?;
        Some((begin, self.form.functions_at(record)?))
    }

    fn word(&self, at: u64) -> Option<u64> {
        number(&self.table, at, 4)
    }

    /// Returns where the list of files is in the oldest form: behind that of functions.
    fn oldest_files(&self) -> Option<u64> {
        let count = long(&self.table, 8)?;
        let behind = count.checked_mul(16)?.checked_add(16 + 8)?;
        self.word(behind)
    }

    /// Returns the value that a table has for an address of the function that begins at another
    /// one.
    fn value(&self, table: u64, begin: u64, address: u64) -> Option<i64> {
        let at = self.form.places().values.checked_add(table)?;
        let mut bytes = self.table.get(usize::try_from(at).ok()?..)?;
        let quantum = u64::from(*self.table.get(6)?);
        let (mut value, mut end) = (-1_i64, begin);
        let mut is_first = true;
        loop {
            let step = variable(&mut bytes)?;
            if step == 0 && !is_first {
                return None;
            }
            is_first = false;
            let half = i64::from(step >> 1);
            value = value.checked_add(if step & 1 == 0 { half } else { !half })?;
            end = end.checked_add(u64::from(variable(&mut bytes)?).checked_mul(quantum)?)?;
            if address < end {
                return Some(value);
            }
        }
    }
}

/// Takes a number of seven bits a byte.
fn variable(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..32).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Reads lines of any bytes as such a table.
#[doc(hidden)]
pub fn look_through_go_lines(untrusted: &[u8]) {
    if let Some(lines) = GoLines::parse(untrusted.to_vec(), None, Segments::default()) {
        for address in [0, 0x1000, 0x1008, 0x1fff, u64::MAX] {
            let _ = lines.line_at(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::super::Binary;
    use super::super::go_table::tests::{FORMS, go, table};
    use super::*;

    #[test]
    fn damage_does_no_harm() {
        for magic in FORMS {
            let good = table(magic);
            for at in 0..good.len() {
                look_through_go_lines(&good[..at]);
                for by in [1, 0x7f, 0x80, 0xff] {
                    let mut bad = good.clone();
                    bad[at] ^= by;
                    look_through_go_lines(&bad);
                }
            }
        }
    }

    #[test]
    fn numbers_of_seven_bits_are_read_to_their_ends() {
        let of = |bytes: &[u8]| variable(&mut &*bytes);
        assert_eq!(of(&[5]), Some(5));
        assert_eq!(of(&[0x80, 1]), Some(128));
        assert_eq!(of(&[0x80]), None);
        assert_eq!(of(&[0xff; 9]), None);
    }

    const SOURCE: &str = "package main
import (
	\"fmt\"
	\"os\"
	\"strings\"
)
func put_into(x int) int { return x*3 + len(os.Args) }
//go:noinline
func compute(s string) int {
	n := put_into(len(s))
	for _, part := range strings.Split(s, \",\") {
		n += len(part)
	}
	return n
}
func main() {
	fmt.Println(compute(strings.Join(os.Args, \",\")))
}
";

    #[test]
    fn lines_of_a_stripped_program_are_those_that_go_says() {
        let Some(folder) = go(SOURCE) else { return };
        let at = |name: &str| folder.path().join(name);
        let [whole, stripped] = ["whole", "stripped"]
            .map(|name| Binary::open(&at(name), &at(name), Path::new("/")).unwrap());
        assert!(stripped.debug_data().is_none());
        let lines = stripped.go_lines().unwrap();
        // The middle of each function, too, and what follows.
        let mut places = Vec::new();
        for function in whole.functions().unwrap() {
            for part in 0..8 {
                let offset = function.offset + function.size * part / 8;
                places.extend(
                    lines
                        .segments
                        .address(offset)
                        .map(|address| (offset, address)),
                );
            }
        }
        let mut asked = Command::new("go");
        asked.args(["tool", "addr2line"]).arg(at("whole"));
        asked.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut asked = asked.spawn().unwrap();
        let mut stdin = asked.stdin.take().unwrap();
        let questions: String = places
            .iter()
            .map(|(_, address)| format!("{address:#x}\n"))
            .collect();
        let writer = std::thread::spawn(move || {
            std::io::Write::write_all(&mut stdin, questions.as_bytes()).unwrap();
        });
        let said = asked.wait_with_output().unwrap();
        writer.join().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        // A function, and then file and line.
        let said: Vec<&str> = said.lines().skip(1).step_by(2).collect();
        assert_eq!(said.len(), places.len());
        let (mut same, mut unknown) = (0, 0);
        let mut of_compute = HashMap::new();
        for ((offset, address), said) in places.iter().zip(said) {
            let Some((file, line)) = lines.line(*offset) else {
                unknown += 1;
                continue;
            };
            assert_eq!(format!("{file}:{line}"), said, "{address:#x}");
            same += 1;
            if file.ends_with("main.go") {
                *of_compute.entry(line).or_insert(0) += 1;
            }
        }
        // The rest is of functions that were put into others.
        assert!(same > 5000 && same > unknown * 2, "{same} {unknown}");
        assert!(of_compute.len() > 3, "{of_compute:?}");
        assert!(!of_compute.contains_key(&7), "{of_compute:?}");
    }
}
