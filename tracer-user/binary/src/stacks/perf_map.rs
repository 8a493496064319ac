//! Functions of programs that generate code, as they list them for perf: `/tmp/perf-<pid>.map`.
//!
//! The list says nothing of times. It is read as it grows: what is new was written between two
//! looks. Where a function comes to where another one was, an address is the first one's until the
//! look before, the second one's from the look on, and unknown in between.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::spaces::{date_of, time_now};
use crate::probes::{living_thread, open_ordinary_below, root_of};

/// Bytes of such a file that are read.
const MOST_BYTES: u64 = 64 << 20;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of a line.
const MOST_LINE_BYTES: usize = 64 << 10;

/// Functions of a process that are known.
const MOST_FUNCTIONS: usize = 1 << 20;

/// Functions of a process that others have replaced and that are known.
const MOST_PAST: usize = 4096;

/// Interval between two looks at a file, in nanoseconds.
const LOOK_EVERY_NS: u64 = 50_000_000;

/// Function of a program, and the times at which it is known to be where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Generated {
    start: u64,
    end: u64,
    name: Arc<str>,
    /// Time from which on it is known to be there; 0: nothing else was there before.
    from: u64,
    /// Time by which it was listed.
    listed: u64,
}

impl Generated {
    fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Name of an address from a time on; `None`: it is unknown.
pub type NameSince = (u64, Option<(Arc<str>, u64)>);

/// Functions that a process has made itself.
#[derive(Debug, Default)]
pub struct PerfMap {
    file: Option<File>,
    /// Bytes that were read.
    read: u64,
    /// Line that was not complete yet.
    line: Vec<u8>,
    /// Time of the last look, and of the one before which nothing new was written.
    looked: u64,
    functions: BTreeMap<u64, Generated>,
    /// Functions that were replaced, each with the time until which it was there.
    past: Vec<(u64, Generated)>,
    /// Whether some of those are forgotten.
    has_forgotten: bool,
    /// Number of functions that were listed so far.
    added: u64,
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
        self.line.clear();
        let all = std::mem::take(&mut self.functions);
        let until = self.looked;
        all.into_values().for_each(|one| self.leave(until, one));
    }

    fn read_on(&mut self, file: &File, before: u64) {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        if length < self.read {
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
                        self.add(function, before);
                    }
                }
            }
        }
    }

    /// Adds a function that was listed after the look `before`.
    fn add(&mut self, mut new: Generated, before: u64) {
        let over = self.functions.range(..new.end).rev();
        let over = over.take_while(|(_, one)| one.end > new.start);
        let over: Vec<u64> = over.map(|(start, _)| *start).collect();
        let is_known =
            |one: &Generated| (one.start, one.end, &one.name) == (new.start, new.end, &new.name);
        if let [start] = *over
            && self.functions.get(&start).is_some_and(is_known)
        {
            return;
        }
        let was_there = self.has_forgotten || self.past.iter().any(|(_, past)| past.overlaps(&new));
        if was_there || !over.is_empty() {
            new.from = new.listed;
        }
        for start in over {
            if let Some(old) = self.functions.remove(&start) {
                self.leave(before, old);
            }
        }
        self.added += 1;
        if self.functions.len() < MOST_FUNCTIONS {
            self.functions.insert(new.start, new);
        }
    }

    fn leave(&mut self, until: u64, old: Generated) {
        if self.past.len() >= MOST_PAST {
            self.past.clear();
            self.has_forgotten = true;
        }
        self.past.push((until, old));
    }

    /// Returns the function that had an address at a time, and the offset in it, where the process
    /// has had code of its own there since a time.
    pub fn find(&self, address: u64, at: u64, since: u64) -> Option<(Arc<str>, u64)> {
        let is_it = |one: &&Generated| one.has(address) && one.listed >= since && one.from <= at;
        let before = self.functions.range(..=address).next_back();
        let now = before.map(|(_, one)| one).filter(is_it);
        let found = now.or_else(|| {
            let mut past = self.past.iter().rev();
            past.find(|(until, one)| at < *until && is_it(&one))
                .map(|(_, one)| one)
        })?;
        Some((Arc::clone(&found.name), address - found.start))
    }

    /// Returns the number of bytes of the list that were read.
    pub fn bytes(&self) -> u64 {
        self.read
    }

    /// Returns the number of functions that were listed so far.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Returns the names that an address has had, in order of time, where the process has had code
    /// of its own there since a time.
    pub fn names(&self, address: u64, since: u64) -> Vec<NameSince> {
        let past = self.past.iter().flat_map(|(until, one)| [one.from, *until]);
        let now = self.functions.range(..=address).next_back();
        let from = now.map(|(_, one)| one.from);
        let mut times: Vec<u64> = past.chain(from).map(|time| time.max(since)).collect();
        times.push(since);
        times.sort_unstable();
        times.dedup();
        let names = times.into_iter();
        let mut names: Vec<NameSince> = names
            .map(|time| (time, self.find(address, time, since)))
            .collect();
        names.dedup_by(|next, before| next.1 == before.1);
        names
    }
}

/// Opens the file of process `pid`, which has had code of its own since a time.
fn open(pid: i32, since: u64) -> Option<File> {
    let process = std::fs::metadata(format!("/proc/{pid}")).ok();
    // By its own pid, which is another one in another pid namespace.
    let own = own_pid(pid).unwrap_or(pid);
    let name = format!("tmp/perf-{own}.map");
    // One that has ended may have left it here.
    let root = if process.is_some() {
        root_of(living_thread(pid))
    } else {
        "/".into()
    };
    let file = open_ordinary_below(&root, Path::new(&name)).ok()?;
    let metadata = file.metadata().ok()?;
    // SAFETY: takes nothing and cannot fail.
    let own_user = unsafe { libc::geteuid() };
    let owner = process.as_ref().map_or(own_user, Metadata::uid);
    let by = metadata.uid();
    if by != 0 && by != owner {
        return None;
    }
    // Another process may have had the pid before.
    let began = beginning_of(pid).or_else(|| date_of(since))?;
    (metadata.modified().ok()? + Duration::from_millis(20) >= began).then_some(file)
}

/// Returns the date at which a process began; `None` where it has ended.
fn beginning_of(pid: i32) -> Option<SystemTime> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    let ticks: u64 = behind.split_ascii_whitespace().nth(19)?.parse().ok()?;
    // SAFETY: `sysconf` has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).ok().filter(|ticks| *ticks > 0)?;
    let began = Duration::from_millis(ticks.checked_mul(1000)? / per_second);
    let mut uptime = String::new();
    File::open("/proc/uptime")
        .ok()?
        .read_to_string(&mut uptime)
        .ok()?;
    let uptime: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    let uptime = Duration::try_from_secs_f64(uptime).ok()?;
    SystemTime::now().checked_sub(uptime.saturating_sub(began))
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
    })
}

/// Returns the pid of a process in its own pid namespace.
fn own_pid(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = status.lines();
    let pids = lines.find_map(|line| line.strip_prefix("NStgid:"))?;
    pids.split_ascii_whitespace().last()?.parse().ok()
}

/// Reads any bytes as such a list, in pieces.
#[doc(hidden)]
pub fn look_through_perf_map(untrusted: &[u8]) {
    let mut map = PerfMap::default();
    for (time, line) in (1..).zip(untrusted.split_inclusive(|byte| *byte == b'\n')) {
        if let Some(function) = parse(line, time) {
            let (address, end) = (function.start, function.end);
            map.add(function, time - 1);
            assert!(
                map.find(address, u64::MAX, 0).is_some() || map.functions.len() >= MOST_FUNCTIONS
            );
            let _ = map.names(end - 1, 0);
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
    fn an_address_has_the_name_that_it_had_then() {
        let mut map = PerfMap::default();
        let mut add =
            |line: &str, before, listed| map.add(parse(line.as_bytes(), listed).unwrap(), before);
        add("1000 100 old\n", 0, 10);
        add("1080 10 new\n", 20, 30);
        let at = |address, at| {
            let found = map.find(address, at, 0);
            found.map(|(name, _)| name.to_string())
        };
        // Nothing else was there before.
        assert_eq!(at(0x1080, 5).as_deref(), Some("old"));
        assert_eq!(at(0x1080, 19).as_deref(), Some("old"));
        assert_eq!(at(0x1080, 20), None);
        assert_eq!(at(0x1080, 30).as_deref(), Some("new"));
        // The rest of what is gone in part is gone.
        assert_eq!(at(0x1000, 30), None);
        assert_eq!(at(0x1100, 30), None);
        // What was listed before this code was made is about other code.
        assert_eq!(map.find(0x1080, 40, 31), None);
        let names = map.names(0x1080, 7);
        let names: Vec<_> = names
            .iter()
            .map(|(since, name)| (*since, name.as_ref().map(|(name, _)| &**name)))
            .collect();
        assert_eq!(names, [(7, Some("old")), (20, None), (30, Some("new"))]);
    }

    #[test]
    fn a_file_is_read_as_it_grows() {
        let mut file = tempfile::tempfile().unwrap();
        let mut map = PerfMap::default();
        file.write_all(b"1000 10 one\n2000 1").unwrap();
        map.read_on(&file, 0);
        assert!(map.find(0x1000, 0, 0).is_some() && map.find(0x2000, 0, 0).is_none());
        file.write_all(b"0 two\n").unwrap();
        map.read_on(&file, 1);
        assert_eq!(map.find(0x200f, 0, 0).unwrap().1, 15);
        // A program of the same process begins a list of its own.
        file.set_len(0).unwrap();
        map.looked = 5;
        map.read_on(&file, 5);
        assert!(map.find(0x1000, 5, 0).is_none() && map.find(0x1000, 4, 0).is_some());
    }

    #[test]
    fn so_many_are_known_and_no_more() {
        let mut map = PerfMap::default();
        for nth in 0..3 * MOST_PAST as u64 {
            let line = format!("1000 10 f{nth}\n");
            map.add(parse(line.as_bytes(), nth).unwrap(), nth);
        }
        assert!(map.past.len() <= MOST_PAST && map.has_forgotten);
        let last = map.find(0x1000, u64::MAX, 0).unwrap().0;
        assert_eq!(*last, *format!("f{}", 3 * MOST_PAST - 1));
    }
}
