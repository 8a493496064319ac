//! What the arguments of system calls point to: which of it is read, and how it lies behind the
//! data of the events.

use tracer_common::kernel::{call_texts, text_item};

use crate::syscall_arguments::{Pointed, pointed};
use crate::syscall_names::{self, Table};

/// What was read, as it follows an event's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts<'a>(&'a [u8]);

/// What one argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// Which argument, from 0.
    pub argument: usize,
    /// What was read.
    pub bytes: &'a [u8],
    /// Whether there is more of it.
    pub has_more: bool,
    /// Whether these are bytes, and no text that a null ends.
    pub is_bytes: bool,
}

impl<'a> Texts<'a> {
    /// What follows the first `bytes` of an event's data.
    #[must_use]
    pub fn behind(bytes: usize, untrusted: &'a [u8]) -> Self {
        Self(untrusted.get(bytes..).unwrap_or_default())
    }

    /// Each of them that could be read.
    pub fn iter(self) -> impl Iterator<Item = Text<'a>> {
        let mut rest = self.0;
        let items = std::iter::from_fn(move || {
            let ([argument, bits, low, high], behind) = rest.split_first_chunk()?;
            let length = usize::from(u16::from_ne_bytes([*low, *high]));
            let (bytes, behind) = behind.split_at_checked(length)?;
            rest = behind;
            let text = Text {
                argument: usize::from(*argument),
                bytes,
                has_more: bits & text_item::MORE != 0,
                is_bytes: bits & text_item::BYTES != 0,
            };
            Some((bits & text_item::UNREADABLE == 0).then_some(text))
        });
        items.flatten()
    }

    /// That of an argument.
    #[must_use]
    pub fn of(self, argument: usize) -> Option<Text<'a>> {
        self.iter().find(|text| text.argument == argument)
    }
}

/// Appends what an argument points to, as it follows an event's data.
pub fn push_item(out: &mut Vec<u8>, argument: u8, bits: u8, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let bytes = bytes.get(..usize::from(length)).unwrap_or(bytes);
    out.extend_from_slice(&[argument, bits]);
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(bytes);
}

/// The map `CALL_TEXTS`.
#[must_use]
pub fn of_calls() -> Vec<u64> {
    let of_table = |table| (0..call_texts::CALLS.cast_signed()).map(move |nr| of_call(table, nr));
    let tables = [Table::Native, Table::Compat].into_iter();
    tables.flat_map(of_table).map(u64::from).collect()
}

/// What is read of a call: see [`call_texts`].
fn of_call(table: Table, nr: i32) -> u32 {
    let Some(name) = syscall_names::name(table, nr) else {
        return 0;
    };
    let (mut word, mut on_entry) = (0, 0);
    for (argument, points_to) in pointed(name).zip(1_u32..).map(|(kind, nth)| (nth, kind)) {
        let entry = match points_to {
            Pointed::Unread => continue,
            Pointed::Filled => {
                word |= (argument | call_texts::RETURNED) << call_texts::FILLED_AT;
                continue;
            }
            Pointed::FilledText => {
                word |= argument << call_texts::FILLED_AT;
                continue;
            }
            Pointed::Text => argument,
            Pointed::Bytes => argument | call_texts::BYTES,
        };
        // A third one has no space.
        if on_entry < 2 {
            word |= entry << (8 * on_entry);
            on_entry += 1;
        }
    }
    word
}

/// Appends text in quotes, as strace writes it: what cannot be printed as an escape.
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

    fn of(name: &str) -> u32 {
        let nr = syscall_names::syscall_number(Table::Native, name).unwrap();
        of_call(Table::Native, nr.cast_signed())
    }

    #[test]
    fn the_table_says_what_is_read() {
        assert_eq!(of("close"), 0);
        assert_eq!(of("openat"), 2);
        assert_eq!(of("renameat"), 2 | 4 << 8);
        assert_eq!(of("write"), 2 | call_texts::BYTES);
        let filled = |argument: u32| (argument | call_texts::RETURNED) << call_texts::FILLED_AT;
        assert_eq!(of("read"), filled(2));
        assert_eq!(of("readlinkat"), 2 | filled(3));
        // Three are more than there is space for.
        assert_eq!(of("mount"), 1 | 2 << 8);
        assert_eq!(of_calls().len(), 2 * call_texts::CALLS as usize);
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
        assert_eq!(texts.of(1), Some(path));
        assert_eq!(texts.of(2), None);
        assert_eq!(texts.of(3).map(|text| text.is_bytes), Some(true));
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
