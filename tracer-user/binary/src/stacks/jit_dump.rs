//! Functions of programs that generate code, as they write them down for perf with the code itself:
//! `jit-<pid>.dump`, which a program maps once as a mark of where it is.
//!
//! Each record has a time, so that an address has the name that it had then, and none before.
//! Whatever is in the file is the program's own word.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::Mapping;
use super::generated::{CodeLine, CodeLines, Generated, GeneratedCode};
use super::own_code::{has_more, is_own, open_own, own_pid};
use super::spaces::{path_of, time_now};
use crate::probes::{living_thread, open_ordinary};

/// Records of such a file that are read, and of those at one look.
const MOST_RECORDS: u64 = 4 << 20;
const MOST_AT_A_LOOK: u64 = 1 << 18;

/// Bytes of a name; more of it is left out.
const MOST_NAME_BYTES: usize = 4096;

/// Bytes of what is said of the lines of a function, beyond which they are left out; and lines in
/// all.
const MOST_LINES_BYTES: u64 = 1 << 20;
const MOST_LINES: usize = 4 << 20;

/// Bytes of what is said of lines before the first one, and of a line before the name of its file.
const LINES_BYTES: usize = 32;
const LINE_BYTES: usize = 16;

/// Name of a file that is the one of the line before.
const SAME_FILE: &[u8] = &[0xff];

/// Bytes of the header of an object file. V8 adds them to the addresses of lines, most of which are
/// those of its bytecode: lines count once one is before that.
const OBJECT_HEADER_BYTES: u64 = 64;

/// Bytes by which a record may be larger than what it tells: records begin at multiples of 8.
const MOST_PADDING: usize = 7;

/// Bytes of the code of a function.
const MOST_CODE_BYTES: u64 = 1 << 32;

/// Interval between two looks at a file, in nanoseconds.
const LOOK_EVERY_NS: u64 = 50_000_000;

/// Time by which clocks of processors may differ, in nanoseconds.
const AHEAD_NS: u64 = 1_000_000;

/// Bytes of the beginning of the file, and of a record.
const HEADER_BYTES: u64 = 40;
const HEAD_BYTES: u64 = 16;

/// Bytes of a new function, and of one that is moved, before the name.
const LOAD_BYTES: usize = 56;
const MOVE_BYTES: usize = 64;

/// Kinds of records that are read.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
const CLOSE: u32 = 3;

const MAGIC: u32 = 0x4A69_5444;
const VERSION: u32 = 1;

/// Flag: times are of the processor's own clock.
const OWN_CLOCK: u64 = 1;

/// Part of such a file that is read next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Beginning,
    Records,
    /// Nothing: the file is closed, damaged, or too long.
    Nothing,
}

/// Functions that a process has written down.
#[derive(Debug, Default)]
pub struct JitDump {
    file: Option<File>,
    next: Next,
    /// Offset of the next record.
    at: u64,
    /// Records that were read.
    records: u64,
    /// Pid of the process in its own pid namespace.
    own_pid: u32,
    /// Whether the times are not those of our clock.
    has_own_clock: bool,
    /// Lines that were told, of the function that comes next.
    told: Option<ToldLines>,
    /// Number of lines of all functions.
    lines: usize,
    /// Whether addresses of lines are those of the code, as the program has shown.
    has_plain_lines: bool,
    /// Time of the last look, and bytes of the file at that.
    looked: u64,
    length: u64,
    /// The functions.
    pub code: GeneratedCode,
}

/// Tells whether a mapping is the mark of such a file.
pub fn is_mark(mapping: &Mapping) -> bool {
    let name = mapping.path.strip_suffix(b" (deleted)");
    let name = name.unwrap_or(&mapping.path).rsplit(|byte| *byte == b'/');
    let pid = { name }.next().and_then(|name| {
        let name = name.strip_prefix(b"jit-")?;
        name.strip_suffix(b".dump")
    });
    pid.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
}

impl JitDump {
    /// Opens the file of which process `pid` has mapped this mark at a time; what another one told
    /// is over by then.
    pub fn open(&mut self, pid: i32, at: u64, mark: &Mapping) {
        let Some(file) = open(pid, at, mark) else {
            return;
        };
        self.code.leave_all(at);
        *self = Self {
            file: Some(file),
            own_pid: own_pid(pid).cast_unsigned(),
            code: std::mem::take(&mut self.code),
            ..Self::default()
        };
    }

    /// Reads what was written since the last look, unless that was just now; at once where it is
    /// `due`.
    pub fn look(&mut self, is_due: bool) {
        let now = time_now();
        if !is_due && self.looked != 0 && now.saturating_sub(self.looked) < LOOK_EVERY_NS {
            return;
        }
        let before = std::mem::replace(&mut self.looked, now);
        let Some(file) = self.file.take() else { return };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        self.length = length;
        self.read_on(length, (before, now), |at, to| {
            file.read_at(to, at).unwrap_or(0)
        });
        self.file = Some(file);
    }

    /// Tells whether there is more to read than was there at the last look.
    pub fn has_grown(&self) -> bool {
        self.next != Next::Nothing && has_more(self.file.as_ref(), self.length)
    }

    /// Reads the records that are complete, between two looks at these times; `read` reads the file
    /// at an offset.
    fn read_on(
        &mut self,
        length: u64,
        (before, now): (u64, u64),
        read: impl Fn(u64, &mut [u8]) -> usize,
    ) {
        let mut piece = vec![0; LOAD_BYTES + MOST_NAME_BYTES];
        if self.next == Next::Beginning && length >= HEADER_BYTES {
            let bytes = read(0, &mut piece);
            self.begin(piece.get(..bytes).unwrap_or_default());
        }
        let mut left = MOST_AT_A_LOOK;
        while self.next == Next::Records && left > 0 {
            let bytes = read(self.at, &mut piece);
            let untrusted = piece.get(..bytes).unwrap_or_default();
            let Some((kind, size, time)) = head(untrusted) else {
                break;
            };
            let is_sane = u64::from(size) >= HEAD_BYTES
                && (self.has_own_clock || time <= now.saturating_add(AHEAD_NS));
            if !is_sane || self.records >= MOST_RECORDS {
                self.next = Next::Nothing;
                break;
            }
            let end = self.at.saturating_add(u64::from(size));
            if end > length {
                break;
            }
            let time = if self.has_own_clock { now } else { time };
            if kind == DEBUG_INFO {
                let bytes = u64::from(size).min(MOST_LINES_BYTES);
                let mut whole = vec![0; usize::try_from(bytes).unwrap_or(0)];
                let bytes = read(self.at, &mut whole);
                let whole = whole.get(..bytes).filter(|_| bytes == size as usize);
                self.told = whole.and_then(ToldLines::parse);
            } else if self.take(kind, size, untrusted, (before, time)).is_none() {
                self.next = Next::Nothing;
            }
            self.at = end;
            self.records += 1;
            left -= 1;
        }
    }

    /// Returns the line of an address at a time, as [`GeneratedCode::find`] does the function;
    /// `None` where the program has not told it, or it is not known yet that its addresses of lines
    /// mean that.
    pub fn line(&self, address: u64, at: u64, since: u64) -> Option<(Arc<str>, u32)> {
        let found = self.code.function(address, at, since)?;
        let place = address - found.start;
        let lines = found.lines.as_ref().filter(|_| self.has_plain_lines)?;
        let behind = lines.partition_point(|line| line.from <= place);
        let line = lines.get(behind.checked_sub(1)?)?;
        (line.line != 0).then(|| (Arc::clone(&line.file), line.line))
    }

    /// Returns the lines of a function with so many bytes of code; `None` where they cannot be its
    /// own.
    fn lines_of(&mut self, told: ToldLines, bytes: u64) -> Option<CodeLines> {
        let (first, last) = (told.lines.first()?.from, told.lines.last()?.from);
        if last > bytes {
            return None;
        }
        self.has_plain_lines |= first < OBJECT_HEADER_BYTES;
        self.lines = self.lines.saturating_add(told.lines.len());
        (self.lines <= MOST_LINES).then(|| told.lines.into())
    }

    fn begin(&mut self, untrusted: &[u8]) {
        let header = || {
            let size = u64::from(word(untrusted, 8)?);
            let is_ours = word(untrusted, 0)? == MAGIC
                && word(untrusted, 4)? == VERSION
                // CPython 3.13.0 leaves it out.
                && [0, machine()].contains(&word(untrusted, 12)?)
                && word(untrusted, 20)? == self.own_pid
                && size >= HEADER_BYTES;
            is_ours.then_some((size, long(untrusted, 32)?))
        };
        let header = header();
        self.next = if header.is_some() {
            Next::Records
        } else {
            Next::Nothing
        };
        if let Some((size, flags)) = header {
            self.at = size;
            self.has_own_clock = flags & OWN_CLOCK != 0;
        }
    }

    /// Takes a record of this kind and size; `None` where no other one is to be read after it.
    fn take(
        &mut self,
        kind: u32,
        size: u32,
        untrusted: &[u8],
        (before, time): (u64, u64),
    ) -> Option<()> {
        let is_own = || Some(word(untrusted, 16)? == self.own_pid);
        match kind {
            LOAD => {
                let (start, bytes) = (long(untrusted, 32)?, long(untrusted, 40)?);
                let text = untrusted.get(LOAD_BYTES..)?;
                let text = text.get(..text.len().min(size as usize)).unwrap_or(text);
                let name = text.split(|byte| *byte == 0).next()?;
                // The name, its end, and the code.
                let least = (LOAD_BYTES + name.len() + 1) as u64;
                let is_whole = bytes < MOST_CODE_BYTES && least + bytes <= u64::from(size);
                if !is_whole || !is_own()? {
                    return None;
                }
                let name = String::from_utf8_lossy(name);
                let told = self.told.take().filter(|told| told.start == start);
                let lines = told.and_then(|told| self.lines_of(told, bytes));
                self.add(start, bytes, (name.as_ref().into(), lines), (before, time));
            }
            MOVE => {
                let [from, to, bytes] = [32, 40, 48].map(|at| long(untrusted, at));
                let (from, to, bytes) = (from?, to?, bytes?);
                if (size as usize) < MOVE_BYTES || bytes >= MOST_CODE_BYTES || !is_own()? {
                    return None;
                }
                let old = self.code.at(from).filter(|old| old.end - from == bytes);
                let name = old.map(|old| (Arc::clone(&old.name), old.lines.clone()));
                let end = from.checked_add(bytes)?;
                self.code.remove(from, end, time);
                match name {
                    Some(name) => self.add(to, bytes, name, (before, time)),
                    // What was there is gone all the same.
                    None => self.code.remove(to, to.checked_add(bytes)?, time),
                }
            }
            CLOSE => return None,
            _ => {}
        }
        Some(())
    }

    fn add(
        &mut self,
        start: u64,
        bytes: u64,
        (name, lines): (Arc<str>, Option<CodeLines>),
        (before, time): (u64, u64),
    ) {
        let Some(end) = start.checked_add(bytes).filter(|end| *end > start) else {
            return;
        };
        let new = Generated {
            start,
            end,
            name,
            from: if self.has_own_clock { 0 } else { time },
            listed: time,
            lines,
        };
        if self.has_own_clock {
            self.code.add(new, before);
        } else {
            self.code.add_at(new);
        }
    }
}

/// Lines that a program tells of a function before that itself.
#[derive(Debug)]
struct ToldLines {
    /// Address of the function.
    start: u64,
    /// In order.
    lines: Vec<CodeLine>,
}

impl ToldLines {
    /// Reads a record of them; `None` where it is damaged, or tells of nothing.
    fn parse(untrusted: &[u8]) -> Option<Self> {
        let (start, count) = (long(untrusted, 16)?, long(untrusted, 24)?);
        let mut rest = untrusted.get(LINES_BYTES..)?;
        let mut lines: Vec<CodeLine> = Vec::new();
        let mut file: Arc<str> = Arc::from("");
        for _ in 0..count {
            let (address, line) = (long(rest, 0)?, word(rest, 8)?);
            rest = rest.get(LINE_BYTES..)?;
            let name = rest.split(|byte| *byte == 0).next()?;
            rest = rest.get(name.len() + 1..)?;
            if name != SAME_FILE && *name != *file.as_bytes() {
                let name = name.get(..MOST_NAME_BYTES).unwrap_or(name);
                let name = std::str::from_utf8(name).ok()?;
                // Some programs write what is no name any more.
                file = (!name.chars().any(char::is_control)).then(|| Arc::from(name))?;
            }
            lines.push(CodeLine {
                from: address.checked_sub(start)?,
                file: Arc::clone(&file),
                line,
            });
        }
        let is_whole = rest.len() <= MOST_PADDING && rest.iter().all(|byte| *byte == 0);
        if !is_whole || file.is_empty() {
            return None;
        }
        // Of several for one address the last one counts.
        lines.sort_by_key(|line| line.from);
        (!lines.is_empty()).then_some(Self { start, lines })
    }
}

/// Opens the file of a mark that process `pid` has mapped at a time.
fn open(pid: i32, at: u64, mark: &Mapping) -> Option<File> {
    let living = living_thread(pid);
    let location = format!("/proc/{living}/map_files/{:x}-{:x}", mark.start, mark.end);
    let mapped = open_ordinary(Path::new(&location)).ok();
    let mapped = mapped.filter(|file| is_own(pid, at, file) == Some(true));
    mapped.or_else(|| open_own(pid, at, &path_of(mark)))
}

/// Returns the kind, the size and the time of the record that begins here.
fn head(untrusted: &[u8]) -> Option<(u32, u32, u64)> {
    Some((
        word(untrusted, 0)?,
        word(untrusted, 4)?,
        long(untrusted, 8)?,
    ))
}

fn word(untrusted: &[u8], at: usize) -> Option<u32> {
    let bytes = untrusted.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn long(untrusted: &[u8], at: usize) -> Option<u64> {
    let bytes = untrusted.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

/// Returns the number of this machine's kind in files of programs.
fn machine() -> u32 {
    let machine = if cfg!(target_arch = "aarch64") {
        object::elf::EM_AARCH64
    } else {
        object::elf::EM_X86_64
    };
    u32::from(machine)
}

/// Reads any bytes as such a file, first half of them, then all.
#[doc(hidden)]
pub fn look_through_jit_dump(untrusted: &[u8]) {
    let own_pid = word(untrusted, 20).unwrap_or(0);
    let mut dump = JitDump {
        own_pid,
        ..JitDump::default()
    };
    for length in [untrusted.len() / 2, untrusted.len()] {
        let read = |at: u64, to: &mut [u8]| {
            let rest = usize::try_from(at)
                .ok()
                .and_then(|at| untrusted.get(at..length));
            let rest = rest.unwrap_or_default();
            let bytes = rest.len().min(to.len());
            if let (Some(to), Some(rest)) = (to.get_mut(..bytes), rest.get(..bytes)) {
                to.copy_from_slice(rest);
            }
            bytes
        };
        dump.read_on(length as u64, (1, u64::MAX), read);
    }
    for address in [0, 0x1000, u64::MAX] {
        let _ = dump.line(address, 5, 0);
        let _ = (dump.code.find(address, 5, 0), dump.code.names(address, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: u32 = 7;

    fn header(flags: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [MAGIC, VERSION, 40, machine(), 0, PID] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(1_u64.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes
    }

    fn record(kind: u32, time: u64, longs: &[u64], rest: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let has_pid = kind <= MOVE;
        let size = 16 + 8 * longs.len() + rest.len() + if has_pid { 8 } else { 0 };
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(u32::try_from(size).unwrap().to_ne_bytes());
        bytes.extend(time.to_ne_bytes());
        if has_pid {
            bytes.extend(PID.to_ne_bytes());
            bytes.extend(PID.to_ne_bytes());
        }
        longs
            .iter()
            .for_each(|long| bytes.extend(long.to_ne_bytes()));
        bytes.extend(rest);
        bytes
    }

    fn load(time: u64, start: u64, bytes: u64, name: &str) -> Vec<u8> {
        let mut rest = name.as_bytes().to_vec();
        rest.push(0);
        rest.resize(rest.len() + usize::try_from(bytes).unwrap(), 0x90);
        record(LOAD, time, &[start, start, bytes, time], &rest)
    }

    fn read(dump: &mut JitDump, file: &[u8], (before, now): (u64, u64)) {
        dump.read_on(file.len() as u64, (before, now), |at, to| {
            let rest = file.get(usize::try_from(at).unwrap()..).unwrap_or_default();
            let bytes = rest.len().min(to.len());
            to[..bytes].copy_from_slice(&rest[..bytes]);
            bytes
        });
    }

    fn dump() -> JitDump {
        JitDump {
            own_pid: PID,
            ..JitDump::default()
        }
    }

    fn name(dump: &JitDump, address: u64, at: u64) -> Option<String> {
        let found = dump.code.find(address, at, 0);
        found.map(|(name, offset)| format!("{name}+{offset}"))
    }

    #[test]
    fn an_address_has_the_name_that_it_had_then() {
        let mut file = header(0);
        file.extend(load(10, 0x1000, 0x100, "one"));
        // Lines, unwind data, and what is not known.
        for kind in [2, 4, 99] {
            file.extend(record(kind, 11, &[0x1000, 5], b"more"));
        }
        file.extend(load(20, 0x1080, 0x10, "two"));
        file.extend(load(15, 0x1080, 0x10, "late"));
        file.extend(load(21, 0x2000, 0x10, "goes"));
        file.extend(record(MOVE, 30, &[0x2000, 0x2000, 0x1080, 0x10, 21], b""));
        let whole = file.len();
        file.extend(load(40, 0x3000, 0x10, "cut"));
        let mut dump = dump();
        for length in 0..=file.len() - 1 {
            read(&mut dump, &file[..length], (1, 100));
        }
        assert_eq!(dump.at, whole as u64);
        let at = |address, at| name(&dump, address, at).unwrap_or_default();
        assert_eq!(at(0x1000, 9), "");
        assert_eq!(at(0x1081, 10), "one+129");
        assert_eq!(at(0x1081, 19), "late+1");
        assert_eq!([at(0x1081, 20), at(0x1000, 20)], ["two+1", ""]);
        assert_eq!([at(0x2000, 29), at(0x1081, 29)], ["goes+0", "two+1"]);
        assert_eq!([at(0x2000, 30), at(0x1081, 30)], ["", "goes+1"]);
        assert_eq!(at(0x3000, 50), "");
        read(&mut dump, &file, (1, 100));
        assert_eq!(name(&dump, 0x300f, 40).as_deref(), Some("cut+15"));
        // What was mapped since has other code.
        assert_eq!(dump.code.find(0x300f, 50, 41), None);
    }

    /// Tells of lines, each with its distance, number and file.
    fn lines(start: u64, all: &[(u64, u32, &[u8])]) -> Vec<u8> {
        let mut rest = Vec::new();
        for (from, line, file) in all {
            rest.extend((start + from).to_ne_bytes());
            rest.extend(line.to_ne_bytes());
            rest.extend(7_u32.to_ne_bytes());
            rest.extend(*file);
            rest.push(0);
        }
        record(DEBUG_INFO, 9, &[start, all.len() as u64], &rest)
    }

    #[test]
    fn an_address_has_the_line_that_was_told_before_its_function() {
        let of_two = [
            (0, 5, &b"a.x"[..]),
            (8, 6, SAME_FILE),
            (12, 0, SAME_FILE),
            (16, 7, b"b.x"),
        ];
        let mut file = header(0);
        file.extend(lines(0x1000, &of_two));
        file.extend(record(4, 9, &[8, 0, 0], &[1; 8]));
        file.extend(load(10, 0x1000, 32, "one"));
        // Of another function, and of none.
        file.extend(lines(0x3000, &of_two));
        file.extend(load(11, 0x2000, 32, "two"));
        file.extend(load(11, 0x3000, 32, "three"));
        file.extend(record(MOVE, 20, &[0x1000, 0x1000, 0x4000, 32, 1], b""));
        let mut whole = dump();
        read(&mut whole, &file, (1, 100));
        let at = |address, at| {
            let found = whole.line(address, at, 0);
            found.map_or(String::new(), |(file, line)| format!("{file}:{line}"))
        };
        assert_eq!(at(0x1007, 9), "");
        assert_eq!([at(0x1007, 10), at(0x1008, 10)], ["a.x:5", "a.x:6"]);
        assert_eq!([at(0x100c, 10), at(0x101f, 10)], ["", "b.x:7"]);
        assert_eq!(
            [at(0x1020, 10), at(0x2000, 15), at(0x3000, 15)],
            ["", "", ""]
        );
        assert_eq!(
            [at(0x1008, 20), at(0x4008, 19), at(0x4008, 20)],
            ["", "", "a.x:6"]
        );
    }

    #[test]
    fn lines_that_may_be_others_are_none() {
        let line = |dump: &JitDump, address| {
            let found = dump.line(address, 50, 0);
            found.map(|(_, line)| line)
        };
        let add = |file: &mut Vec<u8>, start: u64, told: &[(u64, u32, &[u8])]| {
            file.extend(lines(start, told));
            file.extend(load(10, start, 100, "f"));
        };
        let mut file = header(0);
        // As of bytecode, as far as can be seen.
        add(&mut file, 0x1000, &[(64, 5, b"a"), (72, 6, b"a")]);
        add(&mut file, 0x2000, &[(64, 5, b"a"), (101, 6, b"a")]);
        let mut of_v8 = dump();
        read(&mut of_v8, &file, (1, 100));
        assert_eq!([line(&of_v8, 0x1048), line(&of_v8, 0x2048)], [None, None]);
        add(&mut file, 0x3000, &[(0, 7, b"a")]);
        // Behind the code, without a name, and with what cannot be one.
        add(&mut file, 0x4000, &[(0, 7, b"a"), (101, 6, b"a")]);
        add(&mut file, 0x5000, &[(0, 7, b"")]);
        add(&mut file, 0x6000, &[(0, 7, b"\x03a")]);
        add(&mut file, 0x7000, &[(0, 7, b"\x86a")]);
        // More of the record than it tells.
        let mut longer = lines(0x8000, &[(0, 7, b"a")]);
        longer.extend([0; 8]);
        let size = u32::try_from(longer.len()).unwrap();
        longer[4..8].copy_from_slice(&size.to_ne_bytes());
        file.extend(longer);
        file.extend(load(10, 0x8000, 100, "f"));
        let mut plain = dump();
        read(&mut plain, &file, (1, 100));
        assert_eq!(
            [line(&plain, 0x1048), line(&plain, 0x3000)],
            [Some(6), Some(7)]
        );
        for start in (0x4000..=0x8000).step_by(0x1000) {
            assert_eq!(line(&plain, start), None, "{start:#x}");
        }
    }

    #[test]
    fn what_is_closed_of_others_or_damaged_names_nothing() {
        let named = |file: &[u8]| {
            let mut dump = dump();
            read(&mut dump, file, (1, 100));
            name(&dump, 0x1000, 50).is_some()
        };
        let good = [header(0), load(10, 0x1000, 16, "f")].concat();
        assert!(named(&good));
        let closed = [
            header(0),
            record(CLOSE, 1, &[], b""),
            load(10, 0x1000, 16, "f"),
        ]
        .concat();
        assert!(!named(&closed));
        // From the future.
        assert!(!named(
            &[header(0), load(u64::MAX, 0x1000, 16, "f")].concat()
        ));
        for (at, why) in [
            (0, "no such file"),
            (4, "another version"),
            (12, "another machine"),
            (20, "another process"),
            (44, "the size of the record"),
            (56, "the process of the record"),
            (83, "the size of the code"),
        ] {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            assert!(!named(&bad), "{why}");
        }
        let mut silent = good.clone();
        silent[12..16].copy_from_slice(&[0; 4]);
        assert!(named(&silent));
        // A record that does not move on.
        let mut bad = good.clone();
        bad[44..48].copy_from_slice(&[0; 4]);
        assert!(!named(&bad));
    }

    #[test]
    fn times_of_another_clock_do_not_count() {
        let mut dump = dump();
        let mut file = [header(OWN_CLOCK), load(u64::MAX, 0x1000, 16, "one")].concat();
        read(&mut dump, &file, (5, 10));
        file.extend(load(3, 0x1000, 16, "two"));
        read(&mut dump, &file, (10, 20));
        let at = |at| name(&dump, 0x1000, at).unwrap_or_default();
        assert_eq!([at(9), at(10), at(19), at(20)], ["one+0", "", "", "two+0"]);
    }

    #[test]
    fn damage_does_no_harm() {
        let mut good = header(0);
        for nth in 0..20 {
            good.extend(lines(0x1000 + 8 * nth, &[(0, 5, b"a"), (9, 6, SAME_FILE)]));
            good.extend(load(nth, 0x1000 + 8 * nth, 16, "function"));
            good.extend(record(
                MOVE,
                nth,
                &[0, 0x1000 + 8 * nth, 0x5000, 16, nth],
                b"",
            ));
        }
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let mut bad = good.clone();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % bad.len();
                bad[at] = (seed >> 56) as u8;
            }
            look_through_jit_dump(&bad);
        }
    }

    #[test]
    fn a_mark_is_told_by_its_name() {
        let of = |path: &str| {
            is_mark(&Mapping {
                path: path.as_bytes().into(),
                ..Mapping::default()
            })
        };
        assert!(of("/tmp/jit-12.dump") && of("/a b/jit-1.dump (deleted)"));
        for path in [
            "/tmp/jit-.dump",
            "/tmp/jit-1x.dump",
            "/jit-1.dump/a",
            "",
            "/x-jit-1.dump",
        ] {
            assert!(!of(path), "{path}");
        }
    }
}
