//! Descriptors of processes: what they are, and which processes have the same.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;

use super::asking::ask;

/// Descriptors of all processes together that are noted.
const MOST: usize = 1 << 18;

/// Text that names what a descriptor is, as `/proc` has it: `pipe:[123]`, a path.
pub type DescriptorLink = Arc<[u8]>;

/// Returns what a descriptor of a process is, by a thread of it that lives.
pub fn link(pid: i32, descriptor: i32) -> Option<DescriptorLink> {
    let link = ask(pid, move || {
        fs::read_link(format!("/proc/{pid}/fd/{descriptor}"))
    });
    Some(link.ok()?.ok()?.into_os_string().into_vec().into())
}

/// Returns the lines of `fdinfo` of a descriptor.
pub fn details(pid: i32, descriptor: i32) -> Option<String> {
    let details = ask(pid, move || {
        fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}"))
    });
    details.ok()?.ok()
}

/// Returns the value of a line of `fdinfo`.
pub fn detail<'a>(details: &'a str, name: &str) -> Option<&'a str> {
    let line = details.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.strip_prefix(':')?.trim())
}

/// Direction in which a descriptor may pass data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Read.
    Read,
    /// Write.
    Write,
}

/// Tells whether a descriptor may do this, by its details.
pub fn allows(details: &str, way: Direction) -> bool {
    /// Bits of the way in which a file is open.
    const MODE: u32 = 3;
    let flags = detail(details, "flags").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    matches!(
        (flags.map(|flags| flags & MODE), way),
        (Some(0 | 2), Direction::Read) | (Some(1 | 2), Direction::Write)
    )
}

/// Descriptor of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessDescriptor {
    /// The process.
    pub pid: i32,
    /// A thread of it that lives.
    pub reader: i32,
    /// The descriptor.
    pub descriptor: i32,
}

impl ProcessDescriptor {
    /// Returns the lines of its `fdinfo`; none where they are not told.
    pub fn details(&self) -> String {
        details(self.reader, self.descriptor).unwrap_or_default()
    }
}

/// The descriptors of all processes that may be looked into.
#[derive(Debug)]
pub struct DescriptorIndex {
    by_link: HashMap<DescriptorLink, Vec<ProcessDescriptor>>,
    /// Whether every process was looked into.
    pub is_whole: bool,
}

impl DescriptorIndex {
    /// Looks at the descriptors of these processes, each under a thread that lives, until
    /// `is_late`.
    pub fn read(readers: &[(i32, i32)], is_late: impl Fn() -> bool) -> Self {
        let mut index = Self {
            by_link: HashMap::new(),
            is_whole: true,
        };
        let mut known = HashSet::<DescriptorLink>::new();
        let mut count = 0_usize;
        for (pid, reader) in readers {
            if is_late() || count >= MOST {
                index.is_whole = false;
                break;
            }
            let (pid, reader) = (*pid, *reader);
            let links = ask(pid, move || links(reader, MOST));
            match links {
                Ok(Ok(links)) => {
                    count = count.saturating_add(links.len());
                    for (descriptor, link) in links {
                        let link = match known.get(&*link) {
                            Some(known) => Arc::clone(known),
                            None => {
                                let link = DescriptorLink::from(link);
                                known.insert(Arc::clone(&link));
                                link
                            }
                        };
                        let same = index.by_link.entry(link).or_default();
                        same.push(ProcessDescriptor {
                            pid,
                            reader,
                            descriptor,
                        });
                    }
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
                _ => index.is_whole = false,
            }
        }
        index
    }

    /// Returns the processes and descriptors that have the same link.
    pub fn with_link(&self, link: &[u8]) -> &[ProcessDescriptor] {
        self.by_link.get(link).map_or(&[], Vec::as_slice)
    }
}

/// Descriptor, and what it is.
type Linked = (i32, Vec<u8>);

fn links(pid: i32, most: usize) -> io::Result<Vec<Linked>> {
    let mut links = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.take(most) {
        let entry = entry?;
        let descriptor = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(descriptor) = descriptor else {
            continue;
        };
        if let Ok(link) = fs::read_link(entry.path()) {
            let link = link.into_os_string().into_vec();
            // What has no number is no one's in particular.
            if !link.starts_with(b"anon_inode:") {
                links.push((descriptor, link));
            }
        }
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_ends_of_a_pipe_are_found_and_told_apart() {
        let (reader, writer) = io::pipe().unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let ends = [reader.as_raw_fd(), writer.as_raw_fd()];
        let link = link(pid, ends[0]).unwrap();
        assert!(link.starts_with(b"pipe:["));
        let index = DescriptorIndex::read(&[(pid, pid)], || false);
        let found = index.with_link(&link);
        assert!(
            index.is_whole
                && ends
                    .iter()
                    .all(|end| found.iter().any(|one| one.descriptor == *end))
        );
        for (end, [reads, writes]) in ends.into_iter().zip([[true, false], [false, true]]) {
            let details = details(pid, end).unwrap();
            assert_eq!(allows(&details, Direction::Read), reads);
            assert_eq!(allows(&details, Direction::Write), writes);
        }
        assert!(!DescriptorIndex::read(&[(pid, pid)], || true).is_whole);
    }

    #[test]
    fn details_that_are_not_there_allow_nothing() {
        assert_eq!(detail("pos:\t0\nflags:\t02\n", "flags"), Some("02"));
        assert!(!allows("", Direction::Read) && !allows("flags:\tx\n", Direction::Write));
    }
}
