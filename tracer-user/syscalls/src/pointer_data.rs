//! Data that the arguments of system calls point to: which of it is read, and how it lies behind
//! the data of the events.

use tracer_common::kernel::{call_texts, gathered, string_space, text_item};

use crate::arguments::{MOST, Pointed, pointed_of};
use crate::calls::Extent;
use crate::names::Table;
use crate::table::{self, Together};

/// Texts that were read, as they follow an event's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts<'a>(&'a [u8]);

/// Data that one argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// Index of the argument, from 0.
    pub argument: usize,
    /// Bytes that were read.
    pub bytes: &'a [u8],
    /// Whether there is more of it.
    pub has_more: bool,
    /// Whether these are bytes, and no text that a null ends.
    pub is_bytes: bool,
}

impl<'a> Texts<'a> {
    /// Returns the texts behind the first `bytes` of an event's data.
    #[must_use]
    pub fn behind(bytes: usize, untrusted: &'a [u8]) -> Self {
        Self(untrusted.get(bytes..).unwrap_or_default())
    }

    /// Returns each text that could be read.
    pub fn iter(self) -> impl Iterator<Item = Text<'a>> {
        self.items().filter_map(|(argument, bits, bytes)| {
            let text = Text {
                argument: usize::from(argument),
                bytes,
                has_more: bits & text_item::MORE != 0,
                is_bytes: bits & text_item::BYTES != 0,
            };
            let is_text = argument & text_item::DESCRIPTOR == 0;
            (is_text && bits & text_item::UNREADABLE == 0).then_some(text)
        })
    }

    /// Returns all items that follow, each with the byte that says of which argument it is, and its
    /// bits.
    pub fn items(self) -> impl Iterator<Item = (u8, u8, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let ([argument, bits, low, high], behind) = rest.split_first_chunk()?;
            let length = usize::from(u16::from_ne_bytes([*low, *high]));
            let (bytes, behind) = behind.split_at_checked(length)?;
            rest = behind;
            Some((*argument, *bits, bytes))
        })
    }

    /// Returns the bytes of the item with this index, which is no argument's.
    #[must_use]
    pub fn item(self, index: u8) -> Option<&'a [u8]> {
        let mut items = self.items();
        items.find_map(|(of, _, bytes)| (of == index).then_some(bytes))
    }

    /// Returns the values of the registers for arguments, where the call was recorded only as it
    /// ended and they are known.
    #[must_use]
    pub fn registers(self) -> Option<[u64; MOST]> {
        let bytes = self.item(text_item::REGISTERS)?;
        let mut registers = [0; MOST];
        for (register, bytes) in registers.iter_mut().zip(bytes.chunks_exact(8)) {
            *register = u64::from_ne_bytes(bytes.try_into().ok()?);
        }
        (bytes.len() == size_of_val(&registers)).then_some(registers)
    }

    /// Returns the text of an argument.
    #[must_use]
    pub fn find(self, argument: usize) -> Option<Text<'a>> {
        self.iter().find(|text| text.argument == argument)
    }
}

/// Appends the data that an argument points to, as it follows an event's data.
pub fn push_item(out: &mut Vec<u8>, argument: u8, bits: u8, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let bytes = bytes.get(..usize::from(length)).unwrap_or(bytes);
    out.extend_from_slice(&[argument, bits]);
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(bytes);
}

/// Returns the map `CALL_TEXTS`.
#[must_use]
pub fn of_calls() -> Vec<u64> {
    let of_table = |table| (0..call_texts::CALLS.cast_signed()).map(move |nr| of_call(table, nr));
    let tables = [Table::Native, Table::Compat].into_iter();
    tables.flat_map(of_table).collect()
}

/// Returns the bits that say which arguments of a call are read: see [`call_texts`].
fn of_call(table: Table, nr: i32) -> u64 {
    let Some(info) = table::info(table, nr) else {
        return 0;
    };
    let (mut given, mut filled) = (Vec::new(), Vec::new());
    for (index, points_to) in pointed_of(table, nr).enumerate() {
        let (at_entry, at_end) = match info.together {
            Some(together) if together.first == index => together.bits(),
            // They are read with the first of them.
            Some(Together { first, last, .. }) if (first..=last).contains(&index) => (None, None),
            _ => bits_of(points_to),
        };
        let argument = u32::try_from(index + 1).unwrap_or(0);
        given.extend(at_entry.map(|bits| argument | bits));
        filled.extend(at_end.map(|bits| argument | bits));
    }
    let mask = info.reads;
    given.extend(mask.map(|extent| call_texts::SIGNAL_MASK | bits_of_extent(extent)));
    // A third one has no space.
    let two = |all: Vec<u32>| {
        let mut all = all.into_iter();
        let (first, second) = (all.next().unwrap_or(0), all.next().unwrap_or(0));
        u64::from(first | second << call_texts::BITS)
    };
    two(given) | two(filled) << call_texts::FILLED_AT
}

impl Together {
    fn bits(&self) -> (Option<u32>, Option<u32>) {
        let bits = bits_of_extent(Extent::Gathered(self.shape));
        (
            self.is_given.then_some(bits),
            self.is_filled.then_some(bits),
        )
    }
}

/// Returns the bits for the part of an argument that is read as a call begins, and as it ends.
fn bits_of(points_to: Pointed) -> (Option<u32>, Option<u32>) {
    let text = call_texts::TEXT | call_texts::WIDE;
    match points_to {
        Pointed::Unread => (None, None),
        Pointed::Text => (Some(text), None),
        Pointed::Bytes => (Some(call_texts::BYTES), None),
        Pointed::Filled => (None, Some(call_texts::RETURNED)),
        Pointed::FilledText => (None, Some(text)),
        Pointed::Struct(given) => {
            let bits = |is_filled| bits_of_extent(given.kind.extent(given.is_narrow, is_filled));
            (
                given.is_given.then(|| bits(false)),
                given.is_filled.then(|| bits(true)),
            )
        }
    }
}

fn bits_of_extent(extent: Extent) -> u32 {
    const NARROW: usize = string_space::SMALL - string_space::MORE;
    let (kind, size, is_wide) = match extent {
        Extent::Fixed(size) => (call_texts::FIXED, size, size > NARROW),
        Extent::Array(size) => (call_texts::ARRAY, size, true),
        Extent::Command => (call_texts::ARRAY, 1, false),
        Extent::Returned(size) => (call_texts::RETURNED_ARRAY, size, true),
        Extent::Counted(size) => (call_texts::COUNTED, size, size > NARROW),
        Extent::Gathered(shape) => {
            let is_wide = shape == gathered::STRINGS;
            let wide = if is_wide { call_texts::WIDE } else { 0 };
            return call_texts::GATHERED | shape << call_texts::SIZE_AT | wide;
        }
    };
    let size = u32::try_from(size).unwrap_or(0).min(call_texts::SIZE);
    let wide = if is_wide { call_texts::WIDE } else { 0 };
    kind | size << call_texts::SIZE_AT | wide
}

/// Appends text in quotes, as strace writes it: unprintable bytes as escapes.
pub fn push_quoted(out: &mut Vec<u8>, text: &Text<'_>) {
    out.push(b'"');
    for (index, byte) in text.bytes.iter().enumerate() {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x0b => out.extend_from_slice(b"\\v"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            _ => {
                // All digits, where another follows that would be taken for one of them.
                let next = text.bytes.get(index + 1);
                let octal = match next {
                    Some(b'0'..=b'7') => format!("\\{byte:03o}"),
                    _ => format!("\\{byte:o}"),
                };
                out.extend_from_slice(octal.as_bytes());
            }
        }
    }
    out.push(b'"');
    if text.has_more {
        out.extend_from_slice(b"...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    fn find_mask(name: &str) -> u64 {
        let nr = names::syscall_number(Table::Native, name).unwrap();
        of_call(Table::Native, nr.cast_signed())
    }

    #[test]
    fn the_table_says_what_is_read() {
        let text = u64::from(call_texts::WIDE);
        let (bytes, returned) = (
            u64::from(call_texts::BYTES),
            u64::from(call_texts::RETURNED),
        );
        let size = |bytes: u64| bytes << call_texts::SIZE_AT;
        let fixed = u64::from(call_texts::FIXED);
        assert_eq!(find_mask("close"), 0);
        assert_eq!(find_mask("openat"), 2 | text);
        assert_eq!(find_mask("renameat"), 2 | text | (4 | text) << 16);
        assert_eq!(find_mask("write"), 2 | bytes);
        assert_eq!(find_mask("read"), (2 | returned) << 32);
        assert_eq!(find_mask("readlinkat"), 2 | text | (3 | returned) << 32);
        let sleep = |argument: u64| argument | fixed | size(16);
        assert_eq!(find_mask("nanosleep"), sleep(1) | sleep(2) << 32);
        assert_eq!(
            find_mask("rt_sigprocmask"),
            2 | fixed | size(8) | (3 | fixed | size(8)) << 32
        );
        // Three are more than there is space for; those of some are gathered.
        let gathered = |shape: u32| u64::from(call_texts::GATHERED) | size(shape.into());
        assert_eq!(find_mask("setxattr"), 1 | gathered(gathered::ATTRIBUTE));
        assert_eq!(find_mask("mount"), 1 | gathered(gathered::MOUNTED));
        let group = 2 | gathered(gathered::SETS_AND_TIME);
        assert_eq!(find_mask("select"), group | group << 32);
        let status = 2 | fixed | size(4);
        let usage = 4 | fixed | size(144) | text;
        assert_eq!(find_mask("wait4"), status << 32 | usage << 48);
        assert_eq!(of_calls().len(), 2 * call_texts::CALLS as usize);
    }

    #[test]
    fn names_are_what_a_call_is_about() {
        let names = |call| call_texts::names(find_mask(call));
        for whole in ["openat", "renameat", "write", "connect", "pipe2", "close"] {
            assert_eq!(names(whole), find_mask(whole), "{whole}");
        }
        for gathered in ["writev", "sendmsg", "select", "mount"] {
            assert_ne!(find_mask(gathered), 0, "{gathered}");
            assert_eq!(names(gathered), 0, "{gathered}");
        }
        for filled in ["read", "epoll_wait", "getdents64", "getcwd"] {
            assert_ne!(find_mask(filled), 0, "{filled}");
            assert_eq!(names(filled), 0, "{filled}");
        }
        // The file, and not its arguments.
        assert_eq!(names("execve"), find_mask("execve") & 0xffff);
        // What is asked for, and not what has come.
        assert_eq!(names("poll"), find_mask("poll") & 0xffff_ffff);
        // The status that was returned, and not how much was used.
        assert_eq!(names("wait4"), find_mask("wait4") & 0xffff << 32);
        assert_eq!(names("socketpair"), find_mask("socketpair"));
    }

    #[test]
    fn items_are_read_as_they_were_written() {
        let mut data = vec![0; 5];
        push_item(&mut data, 1, text_item::MORE, b"/etc");
        push_item(&mut data, 2, text_item::UNREADABLE, b"");
        push_item(&mut data, 3, text_item::BYTES, b"");
        let texts = Texts::behind(5, &data);
        let path = Text {
            argument: 1,
            bytes: b"/etc",
            has_more: true,
            is_bytes: false,
        };
        assert_eq!(texts.find(1), Some(path));
        assert_eq!(texts.find(2), None);
        assert_eq!(texts.find(3).map(|text| text.is_bytes), Some(true));
        // Truncated anywhere, it ends there.
        for end in 0..data.len() {
            assert!(Texts::behind(5, &data[..end]).iter().count() < 2);
        }
    }

    #[test]
    fn quotes_are_those_of_strace() {
        let quoted = |bytes: &[u8], has_more| {
            let mut out = Vec::new();
            let (argument, is_bytes) = (0, false);
            push_quoted(
                &mut out,
                &Text {
                    argument,
                    bytes,
                    has_more,
                    is_bytes,
                },
            );
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            quoted(b"\x7fELF\x02\x01\x000", true),
            r#""\177ELF\2\1\0000"..."#
        );
        assert_eq!(quoted(b"a\"b\\c\n\x1b[2J", false), r#""a\"b\\c\n\33[2J""#);
    }
}
