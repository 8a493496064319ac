//! The code that processes have mapped, and the files of mappings.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use object::Object;
use object::read::ReadCache;

use super::Mapping;
use super::timed::{MOST_MAPPINGS, Mapped, TimedMappings};
use crate::bounded_proc;
use crate::probes::{
    Binary, Bounded, ReadBudget, living_thread, open_ordinary, open_ordinary_below, root_of,
};

/// Bytes of `maps` that are read.
const MOST_MAPS_BYTES: u64 = 32 << 20;

/// Mappings of all processes that are known. Beyond that, those of the processes that have most are
/// forgotten.
pub const MOST_IN_ALL: usize = 131_072;

/// Processes whose mappings are known at a time. Beyond that, all are forgotten.
const MOST_PROCESSES: usize = 65_536;

/// Time that a file must have been left alone before its mapping was made, in nanoseconds, for the
/// file to be the one that was mapped: times of files are those of the last tick.
const LEFT_ALONE_NS: u64 = 20_000_000;

/// The code that each process has mapped, each mapping with what was `found` about its file.
#[derive(Debug)]
pub struct Spaces<T> {
    processes: HashMap<i32, Space<T>>,
    /// Mappings since these were counted last.
    new: usize,
}

/// The code of a process.
#[derive(Debug)]
struct Space<T> {
    mappings: TimedMappings<T>,
    /// Time of the first mappings of a process that was there before the trace; `None` where the
    /// trace has its beginning.
    first: Option<u64>,
}

impl<T> Default for Spaces<T> {
    fn default() -> Self {
        Self {
            processes: HashMap::new(),
            new: 0,
        }
    }
}

impl<T: Clone + Default> Spaces<T> {
    /// Notes a mapping of process `pid` that is made at this time.
    pub fn map(&mut self, pid: i32, time: u64, mapping: &Mapping) {
        let is_new = !self.processes.contains_key(&pid);
        if self.processes.len() >= MOST_PROCESSES && is_new {
            self.processes.clear();
        }
        self.new += 1;
        if self.new > MOST_IN_ALL / 4 {
            self.new = 0;
            self.forget_largest(time);
        }
        let begins = mapping.is_nothing() && mapping.end == u64::MAX;
        let space = self.processes.entry(pid).or_insert_with(|| Space {
            mappings: TimedMappings::default(),
            first: Some(time),
        });
        space.first = space.first.filter(|_| !begins).map(|first| first.min(time));
        space.mappings.map(time, mapping);
    }

    /// Forgets the processes that have most mappings, where there are too many in all: since a time
    /// nothing is known of them.
    fn forget_largest(&mut self, time: u64) {
        let sizes = self.processes.iter();
        let sizes = sizes.map(|(pid, space)| (space.mappings.len(), *pid));
        for pid in largest_beyond(sizes, MOST_IN_ALL / 2) {
            if let Some(space) = self.processes.get_mut(&pid) {
                space.mappings.forget_all(time);
            }
        }
    }

    /// Notes that of no process it is known what it has mapped since a time.
    pub fn forget(&mut self, time: u64) {
        for space in self.processes.values_mut() {
            space.mappings.forget(time);
        }
    }

    /// Tells whether a mapping that is known since a time may have been there before.
    pub fn may_be_older(&self, pid: i32, since: u64) -> bool {
        self.processes
            .get(&pid)
            .is_some_and(|space| space.first == Some(since))
    }

    /// Returns the mapping that had an address at a time.
    pub fn find(&mut self, pid: i32, address: u64, at: u64) -> Option<&mut Mapped<T>> {
        self.processes.get_mut(&pid)?.mappings.find_mut(address, at)
    }

    /// Returns the latest of two times, where an address is in the same mapping at both, or was in
    /// none that is known before; else 0, at which nothing is known.
    pub fn clear_time(&mut self, (pid, address): (i32, u64), (from, until): (u64, u64)) -> u64 {
        if from == until {
            return until;
        }
        let mut since = |at| self.find(pid, address, at).map(|one| one.since);
        match (since(from), since(until)) {
            (Some(before), after) if after != Some(before) => 0,
            _ => until,
        }
    }

    /// Returns the time since when an address is in no mapping, at a time at which it is in none.
    pub fn unknown_since(&self, pid: i32, address: u64, at: u64) -> u64 {
        let space = self.processes.get(&pid);
        space.map_or(0, |space| space.mappings.unknown_since(address, at))
    }

    /// Returns the number of mappings of a process that had gone by a time.
    pub fn gone(&self, pid: i32, at: u64) -> u64 {
        let space = self.processes.get(&pid);
        space.map_or(0, |space| space.mappings.gone(at))
    }
}

/// Returns the processes, each with a number of mappings, without which the others have `most` in
/// all; none where all have twice as many at most.
pub fn largest_beyond(sizes: impl Iterator<Item = (usize, i32)>, most: usize) -> Vec<i32> {
    let mut sizes: Vec<_> = sizes.collect();
    let mut in_all: usize = sizes.iter().map(|(size, _)| size).sum();
    if in_all <= 2 * most {
        return Vec::new();
    }
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let count = sizes.iter().position(|(size, _)| {
        let is_enough = in_all <= most;
        in_all = in_all.saturating_sub(*size);
        is_enough
    });
    sizes.truncate(count.unwrap_or(sizes.len()));
    sizes.into_iter().map(|(_, pid)| pid).collect()
}

/// Build identifiers of files that have been left alone for some time.
pub type BuildIds = HashMap<FileState, Vec<u8>>;

/// State of a file: another file that takes its inode has been changed at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileState {
    device: u64,
    inode: u64,
    /// Time of its last change: seconds, and nanoseconds.
    changed: (i64, i64),
    bytes: u64,
}

impl FileState {
    /// Returns the state of a file as bytes, longer than any build identifier.
    pub fn bytes_of(file: &File) -> Option<Vec<u8>> {
        let metadata = file.metadata().ok()?;
        let words = [
            metadata.dev(),
            metadata.ino(),
            metadata.len(),
            metadata.ctime().cast_unsigned(),
            metadata.ctime_nsec().cast_unsigned(),
        ];
        Some(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
    }

    /// Returns the state of a file; `None` of one that was changed just now: as times of files are
    /// those of the last tick, it may be changed once more at the same time.
    fn settled(metadata: &Metadata) -> Option<Self> {
        let changed = time_of_change(metadata)?;
        let age = SystemTime::now().duration_since(changed).ok()?;
        (age >= Duration::from_nanos(LEFT_ALONE_NS)).then(|| Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            bytes: metadata.len(),
        })
    }
}

/// Returns when a file was changed last, or its inode was.
fn time_of_change(metadata: &Metadata) -> Option<SystemTime> {
    let seconds = u64::try_from(metadata.ctime()).ok()?;
    let nanoseconds = u32::try_from(metadata.ctime_nsec()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

/// Returns the code that process `pid` has mapped now, the first [`MOST_MAPPINGS`] pieces of it,
/// with build identifiers, those that are known in `ids`; nothing where it may not be looked at or
/// has ended.
pub fn read_mappings(pid: i32, ids: &mut BuildIds) -> Vec<Mapping> {
    let read = bounded_proc::ask_process(pid, move || {
        let pid = living_thread(pid);
        let maps = File::open(format!("/proc/{pid}/maps"))?;
        let maps = BufReader::new(maps).take(MOST_MAPS_BYTES);
        std::io::Result::Ok((pid, mappings_of(maps)))
    });
    let Ok(Ok((pid, mut mappings))) = read else {
        return Vec::new();
    };
    for (mapping, range) in &mut mappings {
        if mapping.path.starts_with(b"/") {
            let file = open_ordinary(Path::new(&format!("/proc/{pid}/map_files/{range}")));
            mapping.build_id = file.ok().map_or_else(Vec::new, |file| build_id(&file, ids));
            if !mapping.build_id.is_empty() {
                mapping.inode = 0;
            }
        }
    }
    mappings.into_iter().map(|(mapping, _)| mapping).collect()
}

/// Returns the first [`MOST_MAPPINGS`] lines of code in `maps`, each with its name in `map_files`.
pub fn mappings_of(maps: impl BufRead) -> Vec<(Mapping, String)> {
    let lines = maps.split(b'\n').map_while(Result::ok);
    let mappings = lines.filter_map(|line| mapping_of(&line));
    mappings.take(MOST_MAPPINGS).collect()
}

fn mapping_of(line: &[u8]) -> Option<(Mapping, String)> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
    let (start, end) = std::str::from_utf8(fields.next()?).ok()?.split_once('-')?;
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    if !fields.next()?.contains(&b'x') {
        return None;
    }
    let file_offset = hexadecimal(std::str::from_utf8(fields.next()?).ok()?)?;
    // After the device.
    let inode = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    let mapping = Mapping {
        start,
        end,
        file_offset,
        build_id: Vec::new(),
        path: path.into(),
        inode,
    };
    Some((mapping, format!("{start:x}-{end:x}")))
}

/// Returns the build identifier of a file; empty where it has none.
pub fn build_id(file: &File, ids: &mut BuildIds) -> Vec<u8> {
    let Ok(metadata) = file.metadata() else {
        return Vec::new();
    };
    let state = FileState::settled(&metadata);
    if let Some(known) = state.and_then(|state| ids.get(&state)) {
        return known.clone();
    }
    let cache = ReadCache::new(file);
    let budget = ReadBudget::default();
    let parsed = object::File::parse(Bounded::new(&cache, &budget)).ok();
    let id = parsed.and_then(|parsed| Some(parsed.build_id().ok()??.to_vec()));
    let id = id.unwrap_or_default();
    if let Some(state) = state {
        ids.insert(state, id.clone());
    }
    id
}

/// Returns the time by which mappings that are read now are known to be there, in nanoseconds.
#[must_use]
pub fn time_now() -> u64 {
    tracer_area::monotonic_now().0
}

/// Process whose file is looked for.
#[derive(Clone, Copy, Debug)]
pub struct MappedBy {
    /// The process.
    pub pid: i32,
    /// Time at which it had mapped the file, in nanoseconds; `None` where that was in a log.
    pub at: Option<u64>,
}

/// Returns the file of a mapping, if it is the same one still. Where the process may be there it is
/// asked first.
pub fn binary(owner: MappedBy, mapping: &Mapping, build_ids: &mut BuildIds) -> Option<Binary> {
    // Without an identifier, another file may have the name by now.
    if mapping.build_id.is_empty() && owner.at.is_none() {
        return None;
    }
    let pid = if owner.at.is_some() {
        living_thread(owner.pid)
    } else {
        owner.pid
    };
    let path = path_of(mapping);
    let root = root_of(pid);
    let range = format!("{:x}-{:x}", mapping.start, mapping.end);
    let is_live = owner.at.is_some();
    let mapped = is_live.then(|| {
        let location = format!("/proc/{pid}/map_files/{range}");
        (open_ordinary(Path::new(&location)), root.as_path())
    });
    let below = is_live.then(|| (open_ordinary_below(&root, &path), root.as_path()));
    let here = (open_ordinary(&path), Path::new("/"));
    let opened = mapped.into_iter().chain(below).chain([here]);
    for (file, root) in opened {
        let Ok(file) = file else { continue };
        let is_it = if mapping.build_id.is_empty() {
            owner
                .at
                .is_some_and(|at| is_untouched(&file, mapping.inode, at))
        } else {
            build_id(&file, build_ids) == mapping.build_id
        };
        if is_it {
            return Binary::from_opened(Ok(file), &path, root).ok();
        }
    }
    None
}

/// Returns the path of a mapping's file: the kernel says of one that has no name any more that it
/// was deleted.
pub(super) fn path_of(mapping: &Mapping) -> PathBuf {
    let path = mapping.path.strip_suffix(b" (deleted)");
    PathBuf::from(OsStr::from_bytes(path.unwrap_or(&mapping.path)))
}

/// Tells whether a file is the one with this inode that was mapped at a time: it was not changed
/// since, and no other can have taken its inode.
fn is_untouched(file: &File, inode: u64, at: u64) -> bool {
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    if inode == 0 {
        return true;
    }
    let Some(at) = date_of(at) else { return false };
    let is_before = |time: SystemTime| time + Duration::from_nanos(LEFT_ALONE_NS) <= at;
    let is_deleted = metadata.nlink() == 0;
    let last = [metadata.modified().ok(), metadata.created().ok()];
    let is_as_then = time_of_change(&metadata).is_some_and(is_before)
        || is_deleted && last.iter().all(|time| time.is_some_and(is_before));
    metadata.ino() == inode && is_as_then
}

/// Returns the date of a time on the monotonic clock, as far as the clock was not set since.
pub(super) fn date_of(monotonic_ns: u64) -> Option<SystemTime> {
    let now = time_now();
    let ago = now.saturating_sub(monotonic_ns);
    SystemTime::now().checked_sub(Duration::from_nanos(ago))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_without_an_identifier_is_the_one_that_was_mapped_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "x").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let now = || tracer_area::monotonic_now().0;
        let is_it = |at| is_untouched(&File::open(&path).unwrap(), inode, at);
        assert!(!is_it(now() - 1_000_000_000));
        std::thread::sleep(Duration::from_millis(60));
        let then = now();
        assert!(is_it(then));
        assert!(!is_untouched(&File::open(&path).unwrap(), inode + 1, then));
        // Deleted, it is there still; changed, it is another one.
        let held = File::options().read(true).append(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(is_untouched(&held, inode, then));
        std::io::Write::write_all(&mut &held, b"y").unwrap();
        assert!(!is_untouched(&held, inode, then));
    }

    #[test]
    fn another_file_in_the_same_place_has_its_own_identifier() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut ids = BuildIds::new();
        let mut id_of_copy = |of: &str| {
            fs::copy(of, &path).unwrap();
            let file = File::open(&path).unwrap();
            let id = build_id(&file, &mut ids);
            std::thread::sleep(Duration::from_millis(60));
            assert_eq!(build_id(&file, &mut ids), id, "and once it is left alone");
            assert!(!id.is_empty());
            id
        };
        assert_ne!(id_of_copy("/bin/ls"), id_of_copy("/bin/cat"));
        assert_eq!(ids.len(), 2);
    }

    #[test]
    fn the_processes_with_most_mappings_are_forgotten_first() {
        let largest = |sizes: &[(usize, i32)]| largest_beyond(sizes.iter().copied(), 100);
        assert!(largest(&[(90, 1), (110, 2)]).is_empty());
        assert_eq!(largest(&[(60, 1), (110, 2), (40, 3)]), [2]);
        assert_eq!(largest(&[(90, 1), (110, 2), (30, 3)]), [2, 1]);
        let mut spaces = Spaces::<()>::default();
        let piece = |nth: u64| Mapping {
            start: nth << 12,
            end: (nth << 12) + 1,
            path: b"/x".as_slice().into(),
            ..Mapping::default()
        };
        spaces.map(1, 1, &piece(1));
        for pid in 2..13 {
            (1..MOST_MAPPINGS as u64).for_each(|nth| spaces.map(pid, nth, &piece(nth)));
            let all = spaces.processes.values();
            let in_all: usize = all.map(|space| space.mappings.len()).sum();
            assert!(in_all <= MOST_IN_ALL + MOST_IN_ALL / 4, "{in_all}");
        }
        assert!(spaces.find(1, 0x1000, 9).is_some());
    }

    #[test]
    fn code_of_files_and_without_files_counts() {
        let lines: &[u8] = b"55d0-55d1 r-xp 00001000 08:01 42                   /usr/bin/a b\n\
            55d1-55d2 r--p 00001000 08:01 42                   /usr/bin/a b\n\
            7ff0-7ff1 r-xp 00000000 00:00 0    [vdso]\n7ff2-7ff3 rwxp 00000000 00:00 0 \nx\n";
        let found = mappings_of(lines);
        let found: Vec<_> = found
            .iter()
            .map(|(one, name)| (one.file_offset, &*one.path, name.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (0x1000, b"/usr/bin/a b".as_slice(), "55d0-55d1"),
                (0, b"[vdso]", "7ff0-7ff1"),
                (0, b"", "7ff2-7ff3"),
            ]
        );
    }
}
