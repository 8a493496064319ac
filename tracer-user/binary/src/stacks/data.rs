//! The data of the events that stacks consist of.

use std::mem::offset_of;
use std::sync::Arc;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    MAPPING_PATH_BYTES, MappingData, SYMBOL_NAME_BYTES, StackData, SymbolData,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::python::is_place;

/// Stack, as its event has it.
#[derive(Clone, Copy, Debug)]
pub struct RecordedStack<'a> {
    /// Facts known beside the addresses.
    pub head: StackData,
    kernel: &'a [u8],
    user: &'a [u8],
}

impl<'a> RecordedStack<'a> {
    /// Returns the stack in an event's data; `None` where that is not as its type says.
    #[must_use]
    pub fn parse(untrusted: &'a [u8]) -> Option<Self> {
        let (head, frames) = StackData::read_from_prefix(untrusted).ok()?;
        let bytes = |count: u16| usize::from(count) * size_of::<u64>();
        let (kernel, rest) = frames.split_at_checked(bytes(head.kernel_frames))?;
        let user = rest.get(..bytes(head.user_frames))?;
        Some(Self { head, kernel, user })
    }

    /// Its addresses in the kernel, the innermost first.
    pub fn kernel(&self) -> impl Iterator<Item = u64> + use<'a> {
        addresses(self.kernel)
    }

    /// Its addresses in the program.
    pub fn user(&self) -> impl Iterator<Item = u64> + use<'a> {
        addresses(self.user)
    }

    /// Tells whether its address in the program at this position is behind a call. Where a program
    /// goes on after a system call is behind it, too.
    #[must_use]
    pub fn is_return(&self, index: usize) -> bool {
        let calls = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];
        index > 0 || calls.iter().any(|id| id.0 == self.head.event_type)
    }

    /// Returns the earliest and the latest time at which it can have been taken, where its event is
    /// of this time: that of a thread that was blocked is taken as it leaves its CPU.
    #[must_use]
    pub fn taken_between(&self, event: u64) -> (u64, u64) {
        match self.head.off_cpu_ns {
            0 => (event, event),
            // It is known from two times, which are read one after the other.
            blocked => {
                let latest = event.saturating_sub(blocked);
                (latest.saturating_sub(TAKEN_WITHIN_NS), latest)
            }
        }
    }

    /// Its addresses in code of the program: for one behind a call, an address of that call, which
    /// may be the last one of its mapping.
    pub fn in_code(&self) -> impl Iterator<Item = u64> {
        let user = self.user().enumerate();
        let user = user.filter(|(_, address)| !is_place(*address));
        user.map(|(index, address)| address.saturating_sub(u64::from(self.is_return(index))))
    }
}

fn addresses(bytes: &[u8]) -> impl Iterator<Item = u64> + use<'_> {
    let words = bytes.chunks_exact(size_of::<u64>());
    words.filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes))
}

/// Time in nanoseconds before the one at which a blocked thread left its CPU, as its event says it,
/// in which its stack may have been taken.
const TAKEN_WITHIN_NS: u64 = 100_000;

/// Path of a mapping that says that there is no code any more.
const REMOVED: &[u8] = b"[unmapped]";

/// Code of a file that a process has mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address of the code.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// Offset in the file at which it begins.
    pub file_offset: u64,
    /// The file's build identifier; empty where it has none.
    pub build_id: Vec<u8>,
    /// The file's path, as the process knows it; a word in brackets, or nothing, for code that has
    /// none.
    pub path: Arc<[u8]>,
    /// Inode of the file, where that is known and the file has no build identifier; else 0.
    pub inode: u64,
}

impl Mapping {
    /// Returns what says that a process has no code at all any more.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            end: u64::MAX,
            path: REMOVED.into(),
            ..Self::default()
        }
    }

    /// Tells whether it says that there is no code any more.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self.path == *REMOVED
    }

    /// Returns what says that a process has no code between two addresses any more.
    #[must_use]
    pub fn nothing_at(start: u64, end: u64) -> Self {
        Self {
            start,
            end,
            ..Self::nothing()
        }
    }

    /// Tells whether a program may have made the code itself.
    #[must_use]
    pub(crate) fn may_be_generated(&self) -> bool {
        const WITHOUT_FILE: [&[u8]; 4] = [b"[anon:", b"/memfd:", b"/dev/zero", b"/anon_hugepage"];
        self.path.is_empty() || WITHOUT_FILE.iter().any(|one| self.path.starts_with(one))
    }

    /// Tells whether it is code of a file.
    #[must_use]
    pub fn is_of_file(&self) -> bool {
        self.path.starts_with(b"/")
    }

    /// Tells whether the addresses that two mappings have in common have the same code.
    pub(crate) fn is_same_code(&self, other: &Self) -> bool {
        let is_same =
            self.path == other.path && self.build_id == other.build_id && self.inode == other.inode;
        let base = |of: &Self| of.start.wrapping_sub(of.file_offset);
        is_same && (!self.is_of_file() || base(self) == base(other))
    }

    /// Returns the part between two addresses that it has.
    pub(crate) fn part(&self, start: u64, end: u64) -> Self {
        let offset = self.file_offset.wrapping_add(start - self.start);
        Self {
            start,
            end,
            file_offset: if self.is_of_file() {
                offset
            } else {
                self.file_offset
            },
            ..self.clone()
        }
    }

    /// Returns the time since which the mapping in an event's data is there, where that is not the
    /// time of the event.
    #[must_use]
    pub fn parse_since(untrusted: &[u8]) -> Option<u64> {
        let path = untrusted.get(offset_of!(MappingData, path)..)?;
        let since = path.get(text(path).len() + 1 + size_of::<u64>()..)?;
        Some(u64::from_ne_bytes(*since.first_chunk()?))
    }

    /// Returns the mapping in an event's data; `None` where that is not as its type says.
    #[must_use]
    pub fn parse(untrusted: &[u8]) -> Option<Self> {
        const PATH: usize = offset_of!(MappingData, path);
        let word = |at: usize| {
            let bytes = untrusted.get(at..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        let bytes = untrusted.get(offset_of!(MappingData, build_id_bytes)..)?;
        let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
        let build_id = untrusted.get(offset_of!(MappingData, build_id)..)?;
        let path = untrusted.get(PATH..)?;
        let behind = path.get(text(path).len() + 1..);
        let inode = behind.and_then(|behind| behind.first_chunk());
        let found = Self {
            start: word(offset_of!(MappingData, start))?,
            end: word(offset_of!(MappingData, end))?,
            file_offset: word(offset_of!(MappingData, file_offset))?,
            build_id: build_id.get(..length.min(MOST_BUILD_ID))?.to_vec(),
            path: text(path).into(),
            inode: inode.map_or(0, |inode| u64::from_ne_bytes(*inode)),
        };
        (found.start < found.end).then_some(found)
    }
}

/// Bytes of a build identifier at most.
pub const MOST_BUILD_ID: usize = 20;

/// Returns the bytes before the null.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Appends the data of a mapping's event.
pub fn push_mapping(out: &mut Vec<u8>, mapping: &Mapping) {
    for word in [mapping.start, mapping.end, mapping.file_offset] {
        out.extend_from_slice(word.as_bytes());
    }
    let id = mapping.build_id.iter().take(MOST_BUILD_ID);
    let length = id.len();
    out.extend(id);
    out.resize(out.len() + MOST_BUILD_ID - length, 0);
    out.extend_from_slice(u32::try_from(length).unwrap_or(0).as_bytes());
    push_text(out, &mapping.path, MAPPING_PATH_BYTES);
    if mapping.inode != 0 {
        out.extend_from_slice(mapping.inode.as_bytes());
    }
}

/// Appends the data of the event of a mapping that is there since a time, which may be before that
/// of its event.
pub fn push_mapping_since(out: &mut Vec<u8>, mapping: &Mapping, (since, event): (u64, u64)) {
    push_mapping(out, mapping);
    if since < event {
        if mapping.inode == 0 {
            out.extend_from_slice(0_u64.as_bytes());
        }
        out.extend_from_slice(since.as_bytes());
    }
}

/// Name of an address from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressName {
    /// The process; 0 for the kernel.
    pub pid: i32,
    /// The address.
    pub address: u64,
    /// Bytes from the beginning of the function to there.
    pub offset: u64,
    /// The name of the function; empty: it is unknown from then on.
    pub name: Arc<str>,
    /// Time since which the name counts, in nanoseconds; 0: always.
    pub since: u64,
    /// File and line of the source, of code that a program has made; `None` where unknown.
    pub line: Option<(Arc<str>, u32)>,
}

/// Appends the data of the event of a name.
pub fn push_symbol(out: &mut Vec<u8>, of: &AddressName) {
    out.extend_from_slice(of.address.as_bytes());
    out.extend_from_slice(of.offset.as_bytes());
    // Part of a file's name is another one.
    let line = of.line.as_ref();
    let line = line.filter(|(file, _)| file.len() < SOURCE_FILE_BYTES);
    let behind = size_of::<u64>() + line.map_or(0, |_| size_of::<u32>() + SOURCE_FILE_BYTES);
    push_text(out, of.name.as_bytes(), SYMBOL_NAME_BYTES - behind);
    if of.since != 0 || line.is_some() {
        out.extend_from_slice(of.since.as_bytes());
    }
    if let Some((file, line)) = line {
        out.extend_from_slice(line.as_bytes());
        push_text(out, file.as_bytes(), SOURCE_FILE_BYTES);
    }
}

/// Bytes of the name of a source's file, its null counted.
const SOURCE_FILE_BYTES: usize = 256;

fn push_text(out: &mut Vec<u8>, text: &[u8], most: usize) {
    out.extend(text.iter().take(most - 1));
    out.push(0);
}

/// Returns the name of an address of process `pid` in the data of a name's event.
pub fn symbol(pid: i32, untrusted: &[u8]) -> Option<AddressName> {
    let (address, rest) = u64::read_from_prefix(untrusted).ok()?;
    let (offset, rest) = u64::read_from_prefix(rest).ok()?;
    let name = text(rest);
    let behind = rest.get(name.len() + 1..).unwrap_or_default();
    let since = behind.first_chunk();
    let line = || {
        let (line, file) = u32::read_from_prefix(behind.get(size_of::<u64>()..)?).ok()?;
        let file = text(file.get(..SOURCE_FILE_BYTES).unwrap_or(file));
        (!file.is_empty() && line != 0).then(|| (String::from_utf8_lossy(file).into(), line))
    };
    Some(AddressName {
        pid,
        address,
        offset,
        name: String::from_utf8_lossy(name).into(),
        since: since.map_or(0, |since| u64::from_ne_bytes(*since)),
        line: line(),
    })
}

/// Reads any bytes as mappings and names of addresses, in pieces, in order of time.
#[doc(hidden)]
pub fn look_through_parts(untrusted: &[u8]) {
    let mut space = super::TimedMappings::<()>::default();
    for (time, piece) in (1..).zip(untrusted.chunks(64)) {
        let _ = symbol(1, piece);
        if let Some(mapping) = Mapping::parse(piece) {
            let (start, end) = (mapping.start, mapping.end);
            space.map(time, &mapping);
            for address in [start, end - 1, end] {
                let _ = space.find(address, time);
                let _ = space.unknown_since(address, time);
            }
            space.fill(time, &mapping.part(start, end));
        }
    }
}

const _: () = assert!(offset_of!(SymbolData, name) == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mapping = Mapping {
            start: 0x1000,
            end: 0x2000,
            file_offset: 0x500,
            build_id: vec![1, 2, 3],
            path: b"/usr/lib/libc.so.6".as_slice().into(),
            inode: 7,
        };
        let mut data = Vec::new();
        push_mapping(&mut data, &mapping);
        assert_eq!(Mapping::parse(&data).as_ref(), Some(&mapping));
        let without = Mapping {
            inode: 0,
            ..mapping
        };
        let mut shorter = Vec::new();
        push_mapping(&mut shorter, &without);
        assert_eq!(shorter, data[..data.len() - 8]);
        assert_eq!(Mapping::parse(&shorter), Some(without));
        assert!(Mapping::nothing().is_nothing());
        // With the time since which it is there.
        for mapping in [Mapping::parse(&data).unwrap(), Mapping::nothing()] {
            let mut since = Vec::new();
            push_mapping_since(&mut since, &mapping, (5, 9));
            assert_eq!(Mapping::parse(&since).as_ref(), Some(&mapping));
            assert_eq!(Mapping::parse_since(&since), Some(5));
            assert_eq!(Mapping::parse_since(&since[..since.len() - 1]), None);
        }
        let mut now = Vec::new();
        push_mapping_since(&mut now, &Mapping::parse(&data).unwrap(), (9, 9));
        assert_eq!((Mapping::parse_since(&now), &now), (None, &data));
        // Of any length, it is refused or read within it.
        for length in 0..data.len() {
            let _ = Mapping::parse(&data[..length]);
        }
        let mut data = Vec::new();
        let mut name = AddressName {
            pid: 1,
            address: 7,
            offset: 2,
            name: "main".into(),
            since: 0,
            line: None,
        };
        push_symbol(&mut data, &name);
        assert_eq!(data.len(), 16 + 5);
        assert_eq!(symbol(1, &data).as_ref(), Some(&name));
        (name.since, name.name) = (9, "x".repeat(5000).into());
        data.clear();
        push_symbol(&mut data, &name);
        assert_eq!(data.len(), 16 + SYMBOL_NAME_BYTES);
        assert_eq!(symbol(1, &data).map(|found| found.since), Some(9));
        for (file, has_line) in [
            ("a.js", true),
            (&*"x".repeat(255), true),
            (&"x".repeat(256), false),
        ] {
            name.line = Some((file.into(), 77));
            data.clear();
            push_symbol(&mut data, &name);
            assert!(data.len() <= 16 + SYMBOL_NAME_BYTES);
            let found = symbol(1, &data).unwrap();
            assert_eq!(
                (found.since, found.line),
                (9, name.line.clone().filter(|_| has_line))
            );
        }
        for length in 0..data.len() {
            let _ = symbol(1, &data[..length]);
        }
    }

    #[test]
    fn addresses_beyond_the_data_are_none() {
        let head = StackData {
            event_type: 0,
            kernel_frames: 1,
            user_frames: 2,
            off_cpu_ns: 0,
            sampled_ns: 0,
            woken_tid: 0,
            ends: 0,
        };
        let mut data = head.as_bytes().to_vec();
        data.extend_from_slice([1_u64, 2, 3].as_bytes());
        let taken = RecordedStack::parse(&data).unwrap();
        assert_eq!(taken.kernel().collect::<Vec<_>>(), [1]);
        assert_eq!(taken.user().collect::<Vec<_>>(), [2, 3]);
        for length in 0..data.len() {
            assert!(RecordedStack::parse(&data[..length]).is_none());
        }
    }
}
