//! Memory that several processes share, by what they have mapped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use tracer_binary::bounded_proc::HeldProcess;

use super::asking::ask;

/// Bytes of `maps` that are read.
const MOST_BYTES: u64 = 32 << 20;

/// A word of memory that several processes may have: its file, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedWord {
    /// Device and inode, as `maps` has them.
    object: (String, u64),
    /// Offset in it.
    offset: u64,
}

/// Memory of a process that others may have too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SharedMapping {
    start: u64,
    end: u64,
    offset: u64,
    object: (String, u64),
}

/// Shared memory of a process.
#[derive(Clone, Debug, Default)]
pub struct SharedMemory(Vec<SharedMapping>);

impl SharedMemory {
    /// Reads what process `pid` has mapped now; `None` where that is not told.
    ///
    /// # Errors
    ///
    /// The process keeps the kernel from answering.
    pub fn read(pid: i32) -> Result<Option<Self>, HeldProcess> {
        ask(pid, move || {
            let maps = File::open(format!("/proc/{pid}/maps")).ok()?;
            let lines = BufReader::new(maps).take(MOST_BYTES).split(b'\n');
            let mut mappings = Vec::new();
            for line in lines {
                // A process of another user fails here, not when it is opened.
                mappings.extend(shared_mapping(&line.ok()?));
            }
            Some(Self(mappings))
        })
    }

    /// Returns what is at an address; `None` where it is no shared memory.
    pub fn word(&self, address: u64) -> Option<SharedWord> {
        let mut mappings = self.0.iter();
        let mapping = mappings.find(|one| (one.start..one.end).contains(&address))?;
        Some(SharedWord {
            object: mapping.object.clone(),
            offset: mapping.offset.checked_add(address - mapping.start)?,
        })
    }

    /// Returns the addresses at which a word is.
    pub fn addresses<'a>(&'a self, word: &'a SharedWord) -> impl Iterator<Item = u64> + 'a {
        self.0.iter().filter_map(|mapping| {
            let at = word.offset.checked_sub(mapping.offset)?;
            let address = mapping.start.checked_add(at)?;
            (mapping.object == word.object && address < mapping.end).then_some(address)
        })
    }
}

fn shared_mapping(line: &[u8]) -> Option<SharedMapping> {
    let line = std::str::from_utf8(line.get(..line.len().min(200))?)
        .or_else(|error| std::str::from_utf8(line.get(..error.valid_up_to()).unwrap_or_default()))
        .ok()?;
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
    if !words.next()?.ends_with('s') {
        return None;
    }
    let offset = hexadecimal(words.next()?)?;
    let device = words.next()?.to_owned();
    let inode = words.next()?.parse().ok()?;
    Some(SharedMapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        offset,
        object: (device, inode),
    })
}

/// Shared memory of many processes.
#[derive(Debug, Default)]
pub struct SharedMemories {
    /// Memory by process; `None` where it is not told.
    known: BTreeMap<i32, Option<SharedMemory>>,
}

impl SharedMemories {
    /// Returns the shared memory of a process.
    pub fn of_process(&mut self, pid: i32) -> Option<&SharedMemory> {
        let known = self.known.entry(pid);
        let known = known.or_insert_with(|| SharedMemory::read(pid).ok().flatten());
        known.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_where_its_file_is_mapped() {
        let lines: [&[u8]; 4] = [
            b"1000-3000 rw-s 00002000 00:01 42    /dev/shm/a b",
            b"5000-6000 rw-s 00003000 00:01 42    /dev/shm/a b",
            b"7000-8000 rw-p 00000000 00:01 42    /dev/shm/a b",
            b"9000-a000 rw-s 00000000 00:01 43    /dev/shm/\xff",
        ];
        let mappings = lines.into_iter().filter_map(shared_mapping);
        let memory = SharedMemory(mappings.collect());
        let word = memory.word(0x2010).unwrap();
        assert_eq!(word, memory.word(0x5010).unwrap());
        let addresses: Vec<_> = memory.addresses(&word).collect();
        assert_eq!(addresses, [0x2010, 0x5010]);
        assert_eq!(memory.word(0x7010), None, "of that process alone");
        assert_ne!(memory.word(0x9010).unwrap().object, word.object);
    }

    #[test]
    fn other_bytes_are_no_mapping() {
        for line in [
            &b""[..],
            b"x",
            b"1-2",
            b"1-2 rw-s",
            b"\xff\xff-1 rw-s 0 0 0",
        ] {
            assert_eq!(shared_mapping(line), None);
        }
    }
}
