//! Finding the area that belongs to another process.
//!
//! A process may have descriptors of areas that are not its own: the area of the program before it,
//! or one that another process has made up and sent to it. Its own area is one that it has mapped,
//! or, where it has only the descriptor, one that belongs to the process's user.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::find::FindError;
use super::liveness::is_zombie;
use crate::emit::inherited::LINK;
use crate::layout::file::{Kind, kind};
use crate::layout::mapping::{self, FileFacts, HIGH_DESCRIPTORS, UNNAMED_AREA_BYTES};

/// Bytes of `/proc/PID/maps` in which an area is looked for: those of some ten thousand mappings.
/// An area is looked for again and again, and a signal must not wait for that.
const MOST_MAPS_BYTES: u64 = 1 << 20;

/// Descriptors of a process that are looked at, beside those where areas are put. A process may
/// have a million.
const MOST_DESCRIPTORS: usize = 4096;

/// Descriptors with the name of an area's that are opened: so many where areas are put, and as many
/// elsewhere. They may all be of one file.
const MOST_CANDIDATES: usize = 32;

/// Result of looking for a process's area.
pub(super) enum Belonging {
    /// The file of the process's area.
    Area(OwnedFd),
    /// No file that can be an area.
    None,
    /// Only files that have an area's name, and are no areas that this library knows.
    Foreign,
}

/// A file that may be the area of a process.
struct Candidate {
    file: OwnedFd,
    facts: FileFacts,
}

/// An area that a process has mapped.
struct Mapped {
    inode: u64,
    /// Where the kernel shows the mapped file.
    path: PathBuf,
}

/// Returns the file of the area that process `pid` uses.
///
/// # Errors
///
/// See [`FindError`].
pub(super) fn file_of(pid: i32) -> Result<Belonging, FindError> {
    let mut found = Found::default();
    let descriptors = Descriptors::open(pid)?;
    found.look_at_all(descriptors.usual(), pid)?;
    let user = effective_user(pid);
    let is_of_user = |candidate: &Candidate| user == Some(candidate.facts.owner);
    if let [only] = &found.candidates[..]
        && is_of_user(only)
    {
        return Ok(found.take(0));
    }
    let Mappings {
        mapped,
        is_whole,
        has_unnamed,
    } = mapped(pid);
    // Where a process has mapped no area, its other descriptors are not looked at: it may have
    // thousands, and hundreds of processes may share them.
    if found.candidates.is_empty() && !(is_whole && mapped.is_empty()) {
        found.look_at_all(descriptors.others(), pid)?;
    }
    let is_mapped = |candidate: &Candidate| {
        let mut inodes = mapped.iter().map(|mapped| mapped.inode);
        inodes.any(|inode| inode == candidate.facts.inode)
    };
    if let Some(index) = found.candidates.iter().position(is_mapped) {
        return Ok(found.take(index));
    }
    // The kernel shows mapped files only to processes with CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
    let shown = mapped.iter().map(|mapped| &mapped.path);
    for path in shown.filter(|path| at_once().open(path).is_ok()) {
        let before = found.candidates.len();
        found.look_at(path, pid)?;
        if found.candidates.len() > before {
            return Ok(found.take(before));
        }
    }
    if let Some(index) = found.candidates.iter().position(is_of_user) {
        return Ok(found.take(index));
    }
    if found.is_any_foreign {
        return Ok(Belonging::Foreign);
    }
    // A mapping that is gone by now, with its process or by an exec, is not hidden.
    let is_hidden = |mapped: &Mapped| {
        let opened = at_once().open(&mapped.path);
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    if mapped.iter().any(is_hidden) {
        return Err(FindError::OnlyMapped { pid });
    }
    if has_unnamed {
        return Err(FindError::WithoutFile { pid });
    }
    Ok(Belonging::None)
}

/// Tells whether process `pid` has mapped an area's file with this inode.
pub(super) fn is_mapped_by(pid: i32, inode: u64) -> bool {
    let mapped = mapped(pid).mapped;
    mapped.iter().any(|mapped| mapped.inode == inode)
}

#[derive(Default)]
struct Found {
    candidates: Vec<Candidate>,
    /// Number of descriptors that were opened, of whatever files.
    opened: usize,
    is_any_foreign: bool,
}

impl Found {
    fn look_at_all(
        &mut self,
        paths: impl Iterator<Item = PathBuf>,
        pid: i32,
    ) -> Result<(), FindError> {
        let called_so = paths.filter(|path| is_area_link(path));
        called_so
            .take(MOST_CANDIDATES)
            .try_for_each(|path| self.look_at(&path, pid))
    }

    fn look_at(&mut self, path: &Path, pid: i32) -> Result<(), FindError> {
        let file = match at_once().write(true).open(path) {
            Ok(file) => OwnedFd::from(file),
            // The descriptor was closed, or the process has ended, since its name was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(not_opened(pid, source)),
        };
        self.opened += 1;
        let facts = mapping::facts(file.as_raw_fd());
        let facts = facts.map_err(|source| FindError::Map { pid, source })?;
        let is_known = |known: &Candidate| {
            (known.facts.device, known.facts.inode) == (facts.device, facts.inode)
        };
        if self.candidates.iter().any(is_known) {
            return Ok(());
        }
        match kind(&file) {
            Kind::Area { .. } => self.candidates.push(Candidate { file, facts }),
            // An area that is just being made will be there the next time.
            Kind::Unfinished => {}
            Kind::Foreign => self.is_any_foreign = true,
            Kind::Unknown => {
                let source = io::ErrorKind::OutOfMemory.into();
                return Err(FindError::Map { pid, source });
            }
        }
        Ok(())
    }

    fn take(mut self, index: usize) -> Belonging {
        Belonging::Area(self.candidates.swap_remove(index).file)
    }
}

/// Returns the reason why the area of a process could not be opened.
fn not_opened(pid: i32, source: io::Error) -> FindError {
    match source.raw_os_error() {
        // EAGAIN: the file's owner has a lease on it, which the kernel takes away in a while.
        Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN) => FindError::Map { pid, source },
        _ => FindError::NotPermitted { pid, source },
    }
}

/// The descriptors of a process.
struct Descriptors {
    folder: PathBuf,
    /// `None` for a process that has ended.
    entries: Option<fs::ReadDir>,
}

impl Descriptors {
    fn open(pid: i32) -> Result<Self, FindError> {
        let folder = PathBuf::from(format!("/proc/{pid}/fd"));
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => Some(entries),
            Err(_) if pid <= 0 || !Path::new(&format!("/proc/{pid}")).exists() => {
                return Err(FindError::NoSuchProcess { pid });
            }
            Err(_) if is_zombie(pid, pid) => None,
            Err(source) => return Err(not_opened(pid, source)),
        };
        Ok(Self { folder, entries })
    }

    /// Returns the paths at which the library puts an area's descriptor.
    fn usual(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let folder = self.folder.clone();
        let is_any = self.entries.is_some();
        HIGH_DESCRIPTORS
            .filter(move |_| is_any)
            .map(move |raw| folder.join(raw.to_string()))
    }

    /// Returns the paths of the first descriptors, of any kind.
    fn others(self) -> impl Iterator<Item = PathBuf> {
        let entries = self.entries.into_iter().flatten().take(MOST_DESCRIPTORS);
        entries.filter_map(Result::ok).map(|entry| entry.path())
    }
}

/// Returns options that open a file for reading without waiting: its owner may have taken a lease
/// on it, and has most of a minute to release that.
fn at_once() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    options
}

fn is_area_link(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|link| link.as_os_str().as_bytes() == LINK)
}

/// The areas that a process has mapped.
struct Mappings {
    mapped: Vec<Mapped>,
    /// Whether there are no others.
    is_whole: bool,
    /// Whether there is one without a file.
    has_unnamed: bool,
}

/// The kernel's name for shared memory without a file.
const UNNAMED: &[u8] = b"/dev/zero (deleted)";

/// Tells whether a line of `/proc/PID/maps` shows an area without a file.
fn is_unnamed(line: &[u8]) -> bool {
    let bytes = || {
        let line = std::str::from_utf8(line).ok()?;
        let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
        let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).ok());
        end?.checked_sub(start?)
    };
    line.ends_with(UNNAMED) && bytes().is_some_and(|bytes| UNNAMED_AREA_BYTES.contains(&bytes))
}

/// Returns the areas that the process has mapped, whether it has a descriptor of them or not.
fn mapped(pid: i32) -> Mappings {
    let mut all: Vec<Mapped> = Vec::new();
    let Ok(maps) = File::open(format!("/proc/{pid}/maps")) else {
        return Mappings {
            mapped: all,
            is_whole: false,
            has_unnamed: false,
        };
    };
    let mut has_unnamed = false;
    // Line by line: a process may have mappings whose names fill hundreds of megabytes.
    let mut maps = BufReader::new(maps.take(MOST_MAPS_BYTES));
    for line in (&mut maps).split(b'\n').map_while(Result::ok) {
        has_unnamed |= is_unnamed(&line);
        if let Some(mapped) = mapped_in(pid, &line)
            && all.len() < MOST_CANDIDATES
            && all.iter().all(|known| known.inode != mapped.inode)
        {
            all.push(mapped);
        }
    }
    Mappings {
        mapped: all,
        is_whole: maps.get_ref().limit() > 0,
        has_unnamed,
    }
}

/// Returns the area that a line of `/proc/PID/maps` shows: range, rights, offset, device, inode,
/// name.
fn mapped_in(pid: i32, line: &[u8]) -> Option<Mapped> {
    let line = std::str::from_utf8(line.strip_suffix(LINK)?).ok()?;
    let mut words = line.split_ascii_whitespace();
    let path = PathBuf::from(format!("/proc/{pid}/map_files/{}", words.next()?));
    let inode = words.nth(3)?.parse().ok()?;
    Some(Mapped { inode, path })
}

/// Returns the effective user of a process.
fn effective_user(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_line_of_the_mappings_shows_the_area_and_where_it_is_shown() {
        let line = b"7f00-7f10 rw-s 00000000 00:01 1042    /memfd:posix_trace_area (deleted)";
        let mapped = mapped_in(5, line).unwrap();
        assert_eq!(mapped.inode, 1042);
        assert_eq!(mapped.path, Path::new("/proc/5/map_files/7f00-7f10"));
        assert!(
            mapped_in(
                5,
                b"7f00-7f10 rw-s 00000000 00:01 1042 /memfd:other (deleted)"
            )
            .is_none()
        );
    }

    #[test]
    fn an_area_without_a_file_is_seen_though_no_other_process_can_have_it() {
        let own = std::process::id().cast_signed();
        let (base, bytes) = mapping::create_unnamed().unwrap();
        let is_seen = mapped(own).has_unnamed;
        // SAFETY: mapped above, and not used any more.
        unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
        assert!(is_seen);
        let other = b"7f0000000000-7f0010000000 rw-s 00000000 00:01 7214235    /dev/zero (deleted)";
        assert!(!is_unnamed(other));
    }

    #[test]
    fn descriptors_that_are_no_area_are_not_all_opened() {
        let file = mapping::create_file().unwrap();
        // Other tests run as threads of this process, and may have such descriptors too. So a child
        // has these.
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let raw = file.as_raw_fd();
        let have_many = move || {
            for _ in 0..10 * MOST_CANDIDATES {
                // SAFETY: takes no pointers.
                unsafe { libc::dup(raw) };
            }
            Ok(())
        };
        // SAFETY: what runs between fork and exec is system calls, on a descriptor that lives until
        // the child was started.
        unsafe { command.pre_exec(have_many) };
        let mut child = command.spawn().unwrap();
        let pid = child.id().cast_signed();
        let mut found = Found::default();
        let descriptors = Descriptors::open(pid).unwrap().others();
        found.look_at_all(descriptors, pid).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(found.opened, MOST_CANDIDATES);
    }

    #[test]
    fn this_process_has_its_own_user() {
        let own = std::process::id().cast_signed();
        // SAFETY: takes nothing and cannot fail.
        assert_eq!(effective_user(own), Some(unsafe { libc::geteuid() }));
    }
}
