//! Gives back memory that is not needed any more, and that the allocator would keep.

use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Shortest interval at which freed memory is given back.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(10);

/// Part of the time that giving back memory may take: one in this many.
const PART_OF_TIME: u32 = 1000;

/// Freed memory, which is given back now and then. After a burst of events much is free, and the
/// allocator by itself gives back only what lies at the end of its heap.
#[derive(Debug)]
pub struct FreedMemory {
    due: Instant,
}

impl Default for FreedMemory {
    fn default() -> Self {
        Self {
            due: Instant::now() + GIVE_BACK_EVERY,
        }
    }
}

impl FreedMemory {
    /// Gives freed memory back, unless that was done a short time ago.
    pub fn tick(&mut self) {
        if Instant::now() < self.due {
            return;
        }
        let begun = Instant::now();
        give_back_freed();
        let took = begun.elapsed();
        tracing::trace!(?took, "freed memory was given back");
        self.due = begun + GIVE_BACK_EVERY.max(took * PART_OF_TIME);
    }
}

/// Makes the allocator give back each large piece of memory as soon as it is freed. Large pieces
/// then lie apart from small ones, which would otherwise keep part of their pages in use.
pub fn give_back_large_pieces_at_once() {
    /// Bytes from which on a piece is large: the value that glibc begins with, and raises by
    /// itself.
    #[cfg(target_env = "gnu")]
    const LARGE: libc::c_int = 128 << 10;
    #[cfg(target_env = "gnu")]
    // SAFETY: takes integers only.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE)
    };
}

/// Gives back memory that was freed in small pieces, between others that are in use.
fn give_back_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers, and changes nothing that is in use.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Gives back memory that loading took and the trace does not need. First, memory that was freed:
/// the allocator would keep it for ever in small pieces (a good ten megabytes for the kernel's type
/// information). Second, the pages of files that were looked at, such as the code that loads: these
/// come back from the system's cache when they are used again.
pub fn give_back_what_is_free() {
    give_back_freed();
    match fs::read_to_string("/proc/self/smaps") {
        Ok(mappings) => mappings_of_files(&mappings).for_each(give_back_pages),
        Err(error) => tracing::debug!(%error, "mappings unreadable"),
    }
}

/// Returns the mappings in `/proc/self/smaps` whose pages can be read again from a file: they are
/// not writable, and were not written to.
fn mappings_of_files(mappings: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at_hand = None;
    mappings.lines().filter_map(move |line| {
        if let Some(mapping) = file_mapping(line) {
            at_hand = mapping;
            return None;
        }
        let of_file = at_hand.clone()?;
        // Pages that were written are shown as anonymous: relocations, a debugger's breakpoints.
        let anonymous = line.strip_prefix("Anonymous:")?;
        at_hand = None;
        let is_clean = anonymous.split_ascii_whitespace().next() == Some("0");
        is_clean.then_some(of_file)
    })
}

/// Reads a line of `/proc/self/smaps`. `None` where the line does not begin a mapping; else the
/// range of the mapping, if it is read only and of a file.
#[expect(clippy::option_option, reason = "two questions, each with a no")]
fn file_mapping(line: &str) -> Option<Option<Range<usize>>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |hex| usize::from_str_radix(hex, 16).ok();
    let range = address(start)?..address(end)?;
    let permissions = words.next()?;
    let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
    let is_private = permissions.ends_with('p') && !permissions.contains('w');
    Some((is_file && is_private).then_some(range))
}

fn give_back_pages(pages: Range<usize>) {
    // SAFETY: the kernel has just said that these are a file's pages, which no process has written:
    // a thread that reads them later reads the same bytes.
    let result = unsafe {
        libc::madvise(
            std::ptr::with_exposed_provenance_mut(pages.start),
            pages.len(),
            libc::MADV_DONTNEED,
        )
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "pages stay");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Each test looks at the memory of the whole process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Returns kilobytes of resident memory, of the kind that `/proc` calls so.
    fn resident(kind: &str) -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(kind));
        let size = line.unwrap().split_whitespace().next().unwrap();
        size.parse().unwrap()
    }

    /// Frees much memory in small pieces, and has it given back: kilobytes before and after.
    #[cfg(target_env = "gnu")]
    fn around(give_back: impl FnOnce()) -> (u64, u64) {
        let pieces: Vec<Vec<u8>> = (0..200_000).map(|_| vec![1; 200]).collect();
        // A few that stay, far from each other, keep the allocator from shortening the heap itself.
        let held: Vec<Vec<u8>> = pieces.into_iter().step_by(1000).collect();
        let before = resident("RssAnon:");
        give_back();
        let after = resident("RssAnon:");
        drop(held);
        (before, after)
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn small_pieces_that_were_freed_are_given_back() {
        let _turn = ONE_AT_A_TIME.lock().unwrap();
        let (before, after) = around(give_back_what_is_free);

        assert!(after + 20_000 < before, "{before} kB, then {after} kB");
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_a_burst_leaves_is_given_back_once_that_is_due() {
        let _turn = ONE_AT_A_TIME.lock().unwrap();
        let mut freed = FreedMemory::default();
        let due = freed.due;
        freed.tick();
        assert_eq!(freed.due, due, "nothing was done");

        freed.due = Instant::now();
        let (before, after) = around(|| freed.tick());
        assert!(after + 20_000 < before, "{before} kB, then {after} kB");
        assert!(freed.due > Instant::now() + GIVE_BACK_EVERY / 2);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn large_pieces_among_small_ones_are_given_back_as_they_are_freed() {
        const LARGE: usize = 192 << 10;
        let _turn = ONE_AT_A_TIME.lock().unwrap();
        give_back_large_pieces_at_once();
        // Once a piece of this size is freed, the allocator by itself takes further ones from the
        // heap.
        drop(std::hint::black_box(vec![1_u8; LARGE]));
        let pieces = (0..200).map(|_| (vec![1_u8; LARGE], vec![1_u8; 200]));
        let (large, small): (Vec<_>, Vec<_>) = pieces.unzip();

        let before = resident("RssAnon:");
        drop(large);
        let after = resident("RssAnon:");
        drop(small);
        assert!(after + 30_000 < before, "{before} kB, then {after} kB");
    }

    #[test]
    fn only_what_a_file_has_as_it_is_can_be_had_again() {
        let mappings = "\
1000-3000 r-xp 00000000 fe:00 77 /usr/bin/tracer-user
Rss: 8 kB
Anonymous: 0 kB
3000-4000 r--p 00002000 fe:00 77 /usr/bin/tracer-user
Anonymous: 4 kB
4000-5000 rw-p 00003000 fe:00 77 /usr/bin/tracer-user
Anonymous: 0 kB
5000-6000 rw-p 00000000 00:00 0 [heap]
Anonymous: 0 kB
6000-7000 r--p 00000000 00:00 0
Anonymous: 0 kB
7000-8000 r--s 00000000 00:10 3 anon_inode:bpf-map
Anonymous: 0 kB
8000-9000 r--p 00000000 fe:00 78 /usr/lib/a library.so
VmFlags: rd mr
Anonymous: 0 kB
a000-b000 r--s 00000000 fe:00 79 /usr/share/x
Anonymous: 0 kB
";
        let ranges: Vec<_> = mappings_of_files(mappings).collect();

        assert_eq!(ranges, [0x1000..0x3000, 0x8000..0x9000]);
    }

    #[test]
    fn the_pages_of_files_are_given_back_and_come_again() {
        const BYTES: usize = 4 << 20;
        let _turn = ONE_AT_A_TIME.lock().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), vec![7; BYTES]).unwrap();
        // SAFETY: the kernel chooses the address.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                std::os::fd::AsRawFd::as_raw_fd(file.as_file()),
                0,
            )
        };
        assert_ne!(pages, libc::MAP_FAILED);
        // SAFETY: mapped just now, to the end of the test, and no process writes the file.
        let bytes = unsafe { std::slice::from_raw_parts(pages.cast::<u8>(), BYTES) };
        let is_there = || bytes.iter().all(|byte| *byte == 7);

        assert!(is_there());
        let before = resident("RssFile:");
        give_back_what_is_free();
        let after = resident("RssFile:");

        assert!(after + 3000 < before, "{before} kB, then {after} kB");
        assert!(is_there(), "they come again");
    }
}
