//! Functions of programs that generate code, as they list them for perf: `/tmp/perf-<pid>.map`.
//!
//! The list says nothing of times. It is read as it grows: what is new was written between two
//! looks. Where a function comes to where another one was, an address is the first one's until the
//! look before, the second one's from the look on, and unknown in between.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::generated::{Generated, GeneratedCode, MOST_FUNCTIONS};
use super::own_code::{has_more, open_own, own_pid};
use super::spaces::time_now;

/// Bytes of such a file that are read.
const MOST_BYTES: u64 = 64 << 20;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes at the beginning and at the end of what was read that are compared at the next look.
const COMPARED_BYTES: usize = 4096;

/// Bytes of a line.
const MOST_LINE_BYTES: usize = 64 << 10;

/// Interval between two looks at a file, in nanoseconds.
const LOOK_EVERY_NS: u64 = 50_000_000;

/// Functions that a process has made itself.
#[derive(Debug, Default)]
pub struct PerfMap {
    file: Option<File>,
    /// Bytes that were read.
    read: u64,
    /// The first and the last of these bytes, by which it is seen that another list has taken the
    /// place of this one.
    first: Vec<u8>,
    last: Vec<u8>,
    /// Line that was not complete yet.
    line: Vec<u8>,
    /// Time of the last look, and of the one before which nothing new was written.
    looked: u64,
    /// The functions that are listed.
    pub code: GeneratedCode,
}

impl PerfMap {
    /// Reads what process `pid` has listed since the last look, unless that was just now; at once
    /// where it is `due`. It has had code of its own since a time. Only a file of root's or of the
    /// process's own user is believed, and only one that was written since the process began.
    pub fn look(&mut self, pid: i32, since: u64, is_due: bool) {
        let now = time_now();
        if !is_due && self.looked != 0 && now.saturating_sub(self.looked) < LOOK_EVERY_NS {
            return;
        }
        self.reopen(pid, since);
        let before = std::mem::replace(&mut self.looked, now);
        let Some(file) = self.file.take() else { return };
        self.read_on(&file, before);
        self.file = Some(file);
    }

    /// Opens the file, unless it is open: another one may have taken its name.
    fn reopen(&mut self, pid: i32, since: u64) {
        let Some(file) = open(pid, since) else { return };
        let identity = |of: &File| of.metadata().ok().map(|of| (of.dev(), of.ino()));
        let known = self.file.as_ref().map(identity);
        if known.is_none_or(|known| known != identity(&file)) {
            self.begin_again();
            self.file = Some(file);
        }
    }

    fn begin_again(&mut self) {
        self.read = 0;
        self.first.clear();
        self.last.clear();
        self.line.clear();
        self.code.leave_all(self.looked);
    }

    fn read_on(&mut self, file: &File, before: u64) {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        if length < self.read || !self.has_what_was_read(file) {
            self.begin_again();
        }
        let mut piece = vec![
            0;
            PIECE_BYTES.min(
                usize::try_from(length - self.read.min(length)).unwrap_or(PIECE_BYTES)
            )
        ];
        while self.read < MOST_BYTES.min(length) {
            let bytes = match file.read_at(&mut piece, self.read) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => bytes,
            };
            self.read += bytes as u64;
            self.note_read(piece.get(..bytes).unwrap_or_default());
            // All of that was written by now, and by when the file was written last.
            let listed = last_written(file).map_or_else(time_now, |last| last.min(time_now()));
            for line in piece
                .get(..bytes)
                .unwrap_or_default()
                .split_inclusive(|byte| *byte == b'\n')
            {
                if self.line.len() + line.len() <= MOST_LINE_BYTES {
                    self.line.extend_from_slice(line);
                }
                if line.ends_with(b"\n") {
                    let whole = std::mem::take(&mut self.line);
                    if let Some(function) = parse(&whole, listed) {
                        self.code.add(function, before);
                    }
                }
            }
        }
    }

    /// Tells whether a file still has what was read of it, as far as that is compared.
    fn has_what_was_read(&self, file: &File) -> bool {
        let behind = self.read.saturating_sub(self.last.len() as u64);
        let mut there = [0; COMPARED_BYTES];
        [(0, &self.first), (behind, &self.last)]
            .into_iter()
            .all(|(offset, known)| {
                let there = there.get_mut(..known.len());
                there.is_some_and(|there| {
                    file.read_exact_at(there, offset).is_ok() && *there == **known
                })
            })
    }

    fn note_read(&mut self, piece: &[u8]) {
        let more = COMPARED_BYTES.saturating_sub(self.first.len());
        self.first.extend(piece.iter().take(more));
        let from = piece.len().saturating_sub(COMPARED_BYTES);
        self.last
            .extend_from_slice(piece.get(from..).unwrap_or_default());
        let beyond = self.last.len().saturating_sub(COMPARED_BYTES);
        self.last.drain(..beyond);
    }

    /// Tells whether there is more of the list than was read.
    pub fn has_grown(&self) -> bool {
        self.read < MOST_BYTES && has_more(self.file.as_ref(), self.read)
    }

    /// Returns the number of bytes of the list that were read.
    pub fn bytes(&self) -> u64 {
        self.read
    }
}

/// Opens the file of process `pid`, which has had code of its own since a time.
fn open(pid: i32, since: u64) -> Option<File> {
    let name = format!("tmp/perf-{}.map", own_pid(pid));
    open_own(pid, since, Path::new(&name))
}

/// Returns the time by which all of a file was written, in nanoseconds: times of files are those of
/// the last tick.
fn last_written(file: &File) -> Option<u64> {
    const TICK: Duration = Duration::from_millis(20);
    let last = file.metadata().ok()?.modified().ok()? + TICK;
    let ago = SystemTime::now().duration_since(last).ok()?;
    time_now().checked_sub(u64::try_from(ago.as_nanos()).ok()?)
}

fn parse(line: &[u8], listed: u64) -> Option<Generated> {
    let line = String::from_utf8_lossy(line.strip_suffix(b"\n")?);
    let mut words = line.splitn(3, ' ');
    let mut hexadecimal = || {
        let word = words.next()?;
        u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
    };
    let (start, bytes) = (hexadecimal()?, hexadecimal()?);
    let name = words.next()?;
    Some(Generated {
        start,
        end: start.checked_add(bytes).filter(|end| *end > start)?,
        name: name.into(),
        from: 0,
        listed,
        lines: None,
    })
}

/// Reads any bytes as such a list, in pieces.
#[doc(hidden)]
pub fn look_through_perf_map(untrusted: &[u8]) {
    let mut map = PerfMap::default();
    for (time, line) in (1..).zip(untrusted.split_inclusive(|byte| *byte == b'\n')) {
        if let Some(function) = parse(line, time) {
            let (address, end) = (function.start, function.end);
            map.code.add(function, time - 1);
            assert!(map.code.find(address, u64::MAX, 0).is_some() || time > MOST_FUNCTIONS as u64);
            let _ = map.code.names(end - 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_no_line_does_not_count() {
        let read =
            |line: &[u8]| parse(line, 1).map(|one| (one.start, one.end, one.name.to_string()));
        let of = |start, end, name: &str| Some((start, end, name.to_owned()));
        assert_eq!(
            read(b"1000 20 py::new:/x y.py\n"),
            of(0x1000, 0x1020, "py::new:/x y.py")
        );
        assert_eq!(read(b"0x1000 0x20 f\n"), of(0x1000, 0x1020, "f"));
        for line in [
            "nonsense\n",
            "1000 0 f\n",
            "\u{fe}\n",
            "1000 20\n",
            "1000 20 f",
            "ffffffffffffffff 2 f\n",
        ] {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_file_is_read_as_it_grows() {
        let mut file = tempfile::tempfile().unwrap();
        let mut map = PerfMap::default();
        file.write_all(b"1000 10 one\n2000 1").unwrap();
        map.read_on(&file, 0);
        assert!(map.code.find(0x1000, 0, 0).is_some() && map.code.find(0x2000, 0, 0).is_none());
        file.write_all(b"0 two\n").unwrap();
        map.read_on(&file, 1);
        assert_eq!(map.code.find(0x200f, 0, 0).unwrap().1, 15);
        // A program of the same process begins a list of its own.
        file.set_len(0).unwrap();
        map.looked = 5;
        map.read_on(&file, 5);
        assert!(map.code.find(0x1000, 5, 0).is_none() && map.code.find(0x1000, 4, 0).is_some());
    }

    #[test]
    fn a_list_that_is_written_anew_is_another_one_however_long_it_is() {
        let line = |name: &str, nth: usize| format!("{:x} 10 {name}{nth}\n", 0x1000 + 0x10 * nth);
        let list = |name: &str, count: usize| -> String {
            (0..count).map(|nth| line(name, nth)).collect()
        };
        for (before, after) in [(3, 3), (3, 400), (2000, 2000), (2000, 3000)] {
            let mut file = tempfile::tempfile().unwrap();
            let mut map = PerfMap::default();
            file.write_all(list("a", before).as_bytes()).unwrap();
            map.read_on(&file, 0);
            // As it grows, it stays the same.
            file.write_all(line("a", before).as_bytes()).unwrap();
            map.read_on(&file, 0);
            assert_eq!(&*map.code.find(0x1000, 4, 0).unwrap().0, "a0");
            file.set_len(0).unwrap();
            std::io::Seek::rewind(&mut file).unwrap();
            file.write_all(list("b", after + 1).as_bytes()).unwrap();
            map.looked = 5;
            map.read_on(&file, 5);
            let name = map.code.find(0x1000, u64::MAX, 0).unwrap().0;
            assert_eq!((&*name, map.code.find(0x1000, 5, 0)), ("b0", None));
            assert_eq!(&*map.code.find(0x1000, 4, 0).unwrap().0, "a0");
        }
    }
}
