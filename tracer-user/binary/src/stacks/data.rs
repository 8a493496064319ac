//! The data of the events that stacks consist of.

use std::mem::offset_of;
use std::sync::Arc;

use tracer_common::kernel::{
    MAPPING_PATH_BYTES, MappingData, SYMBOL_NAME_BYTES, StackData, SymbolData,
};
use zerocopy::{FromBytes, IntoBytes};

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
}

fn addresses(bytes: &[u8]) -> impl Iterator<Item = u64> + use<'_> {
    let words = bytes.chunks_exact(size_of::<u64>());
    words.filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes))
}

/// Code of a file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

impl Mapping {
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
        let found = Self {
            start: word(offset_of!(MappingData, start))?,
            end: word(offset_of!(MappingData, end))?,
            file_offset: word(offset_of!(MappingData, file_offset))?,
            build_id: build_id.get(..length.min(MOST_BUILD_ID))?.to_vec(),
            path: text(untrusted.get(PATH..)?).into(),
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
}

/// Appends the data of the event of a name.
pub fn push_symbol(out: &mut Vec<u8>, address: u64, offset: u64, name: &str) {
    out.extend_from_slice(address.as_bytes());
    out.extend_from_slice(offset.as_bytes());
    push_text(out, name.as_bytes(), SYMBOL_NAME_BYTES);
}

fn push_text(out: &mut Vec<u8>, text: &[u8], most: usize) {
    out.extend(text.iter().take(most - 1));
    out.push(0);
}

/// Address, offset in the function, and name, in the data of a name's event.
pub fn symbol(untrusted: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (address, rest) = u64::read_from_prefix(untrusted).ok()?;
    let (offset, name) = u64::read_from_prefix(rest).ok()?;
    Some((address, offset, text(name)))
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
        };
        let mut data = Vec::new();
        push_mapping(&mut data, &mapping);
        assert_eq!(Mapping::parse(&data), Some(mapping));
        // Of any length, it is refused or read within it.
        for length in 0..data.len() {
            let _ = Mapping::parse(&data[..length]);
        }
        let mut data = Vec::new();
        push_symbol(&mut data, 7, 2, "main");
        assert_eq!(symbol(&data), Some((7, 2, b"main".as_slice())));
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
