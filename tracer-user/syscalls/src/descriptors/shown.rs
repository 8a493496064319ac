//! Descriptors of events: items like those of what arguments point to, behind them.

use std::borrow::Cow;

use tracer_common::kernel::descriptors::{LISTED, RETURNED};
use tracer_common::kernel::text_item;

use super::kinds::Words;
use crate::arguments::Call;
use crate::pointer_data::{self, Texts};

/// Bit: the file is no longer there.
const DELETED: u8 = 1;

/// Bytes before the words: the descriptor, bits, one more than the protocol of a socket of netlink
/// or zero, and how many bytes the first of them has.
const HEAD: usize = 8;

/// Appends an item, unless it is too long for one.
pub fn push_item(out: &mut Vec<u8>, at: u8, descriptor: i32, words: &Words) {
    let Ok(plain) = u16::try_from(words.plain.len()) else {
        return;
    };
    let bits = if words.is_deleted { DELETED } else { 0 };
    let mut bytes = Vec::with_capacity(HEAD + words.plain.len() + words.full.len());
    bytes.extend_from_slice(&descriptor.to_ne_bytes());
    let netlink = words.netlink.and_then(|protocol| protocol.checked_add(1));
    bytes.extend_from_slice(&[bits, netlink.unwrap_or(0)]);
    bytes.extend_from_slice(&plain.to_ne_bytes());
    bytes.extend_from_slice(&words.plain);
    bytes.extend_from_slice(&words.full);
    let at = text_item::DESCRIPTOR | (at & !text_item::DESCRIPTOR);
    pointer_data::push_item(out, at, text_item::BYTES, &bytes);
}

/// Descriptions of the descriptors of an event, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named<'a> {
    texts: Texts<'a>,
    /// Descriptions read as the call began, where the event is its end.
    before: Texts<'a>,
}

/// Description of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description<'a> {
    plain: &'a [u8],
    full: &'a [u8],
    is_deleted: bool,
    netlink: Option<u8>,
}

impl<'a> Named<'a> {
    /// Returns the descriptions among the texts that were read of a call.
    #[must_use]
    pub fn from_texts(texts: Texts<'a>) -> Self {
        Self {
            texts,
            before: Texts::default(),
        }
    }

    /// Adds to the descriptions of a call's end those that were read as it began.
    #[must_use]
    pub fn begun_with(self, before: Texts<'a>) -> Self {
        Self { before, ..self }
    }

    /// Returns the protocol of netlink, where the first argument of the call is a socket of it.
    #[must_use]
    pub fn netlink(self, call: &Call) -> Option<u8> {
        let (_, descriptor) = call.arguments().next()?;
        let found = self.argument(0, descriptor.value());
        let found = found.or_else(|| Self::from_texts(self.before).argument(0, descriptor.value()));
        found?.netlink
    }

    fn find(self, at: u8, descriptor: i32) -> Option<Description<'a>> {
        let untrusted = self.texts.item(text_item::DESCRIPTOR | at)?;
        let (of, description) = Description::read(untrusted)?;
        (of == descriptor).then_some(description)
    }

    /// Returns all descriptions of a call, in words for programs: each with the name of its
    /// argument, `return` or, for descriptors in a list, the descriptor.
    #[must_use]
    pub fn all(self, call: &Call) -> Vec<(Cow<'static, str>, Cow<'a, [u8]>)> {
        let items = self.texts.items().filter_map(|(at, _, untrusted)| {
            let at = at
                .checked_sub(text_item::DESCRIPTOR)
                .filter(|at| *at < text_item::DESCRIPTOR)?;
            let (descriptor, description) = Description::read(untrusted)?;
            let name = if at == RETURNED {
                Cow::Borrowed("return")
            } else if at >= LISTED {
                Cow::Owned(descriptor.to_string())
            } else {
                let argument = call.arguments().nth(usize::from(at));
                Cow::Borrowed(argument?.0)
            };
            Some((name, description.words()))
        });
        items.collect()
    }

    /// Describes the argument of this index, which has this value.
    #[must_use]
    pub fn argument(self, index: usize, value: i64) -> Option<Description<'a>> {
        let at = u8::try_from(index).ok().filter(|at| *at < RETURNED)?;
        self.find(at, i32::try_from(value).ok()?)
    }

    /// Describes the descriptor that the call returned, which is this value.
    #[must_use]
    pub fn returned(self, value: i64) -> Option<Description<'a>> {
        self.find(RETURNED, i32::try_from(value).ok()?)
    }

    /// Describes the descriptor that is so far behind the first one in a list.
    #[must_use]
    pub fn listed(self, nth: usize, value: i32) -> Option<Description<'a>> {
        let at = u8::try_from(nth).ok()?.checked_add(LISTED)?;
        self.find(at, value)
    }

    /// Describes that descriptor, as text to be shown behind it.
    #[must_use]
    pub fn shown_listed(self, nth: usize, value: i32) -> String {
        shown(self.listed(nth, value))
    }

    /// Describes a descriptor in memory, wherever it is there, as text to be shown behind it.
    #[must_use]
    pub fn shown_anywhere(self, value: i32) -> String {
        let listed = text_item::DESCRIPTOR | LISTED..=u8::MAX;
        let mut items = self.texts.items();
        shown(items.find_map(|(at, _, untrusted)| {
            let (of, description) = Description::read(untrusted)?;
            (listed.contains(&at) && of == value).then_some(description)
        }))
    }
}

fn shown(description: Option<Description<'_>>) -> String {
    let mut out = Vec::new();
    if let Some(description) = description {
        description.push(&mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl<'a> Description<'a> {
    /// Reads the descriptor in an item, and its description.
    fn read(untrusted: &'a [u8]) -> Option<(i32, Self)> {
        let ([a, b, c, d, bits, netlink, low, high], words) = untrusted.split_first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([*low, *high]));
        let (plain, full) = words.split_at_checked(length)?;
        let description = Self {
            plain,
            full,
            is_deleted: bits & DELETED != 0,
            netlink: netlink.checked_sub(1),
        };
        Some((i32::from_ne_bytes([*a, *b, *c, *d]), description))
    }

    /// Appends it as strace shows it: `</var/log/x>`.
    pub fn push(&self, out: &mut Vec<u8>) {
        out.push(b'<');
        if self.full.is_empty() {
            push_escaped(out, self.plain, b"<>\"\\");
        } else {
            // Names in it are quoted already.
            push_escaped(out, self.full, b"");
        }
        out.push(b'>');
        if self.is_deleted {
            out.extend_from_slice(b"(deleted)");
        }
    }

    /// Returns the words for programs: those that say most.
    #[must_use]
    pub fn words(&self) -> Cow<'a, [u8]> {
        if !self.full.is_empty() {
            Cow::Borrowed(self.full)
        } else if self.is_deleted {
            Cow::Owned([self.plain, b" (deleted)"].concat())
        } else {
            Cow::Borrowed(self.plain)
        }
    }
}

/// Appends text with escapes for what cannot be printed, and for these.
fn push_escaped(out: &mut Vec<u8>, text: &[u8], others: &[u8]) {
    for (index, byte) in text.iter().enumerate() {
        let letter = match byte {
            b'\n' => Some(b'n'),
            b'\t' => Some(b't'),
            b'\r' => Some(b'r'),
            0x0b => Some(b'v'),
            0x0c => Some(b'f'),
            b'"' | b'\\' if others.contains(byte) => Some(*byte),
            _ => None,
        };
        if let Some(letter) = letter {
            out.extend_from_slice(&[b'\\', letter]);
        } else if (b' '..=b'~').contains(byte) && !others.contains(byte) {
            out.push(*byte);
        } else {
            // All digits, where another follows that would be taken for one of them.
            let octal = match text.get(index + 1) {
                Some(b'0'..=b'7') => format!("\\{byte:03o}"),
                _ => format!("\\{byte:o}"),
            };
            out.extend_from_slice(octal.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(at: u8, plain: &[u8], full: &[u8]) -> Vec<u8> {
        let mut data = Vec::new();
        let (plain, full) = (plain.to_vec(), full.to_vec());
        let is_deleted = at == 0;
        let words = Words {
            plain,
            full,
            is_deleted,
            netlink: None,
        };
        push_item(&mut data, at, 3, &words);
        data
    }

    fn shown(description: Option<Description<'_>>) -> Option<String> {
        let mut out = Vec::new();
        description?.push(&mut out);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_was_written_is_shown_of_that_descriptor_alone() {
        let data = [
            item(0, b"/a<\x011>", b""),
            item(RETURNED, b"socket:[1]", b"TCP:[1]"),
            item(LISTED + 5, b"/x", b""),
        ]
        .concat();
        let named = Named::from_texts(Texts::behind(0, &data));
        let path = r"</a\74\0011\76>(deleted)".to_owned();
        assert_eq!(shown(named.argument(0, 3)), Some(path));
        assert_eq!(shown(named.argument(0, 4)), None);
        assert_eq!(shown(named.argument(1, 3)), None);
        assert_eq!(shown(named.returned(3)).as_deref(), Some("<TCP:[1]>"));
        assert_eq!(named.shown_anywhere(3), "</x>");
        assert_eq!(named.shown_anywhere(4), "");
        assert_eq!(Texts::behind(0, &data).iter().count(), 0);
        for length in 0..data.len() {
            let _ = Named::from_texts(Texts::behind(0, &data[..length])).returned(3);
        }
    }
}
