//! Puts an event together: typed data, on the stack.

use std::mem::MaybeUninit;

use tracer_common::kernel::{probe_kind, typed_data};

/// Most bytes of an event: as many as a stream records of one where its attributes do not ask for
/// more.
pub const MOST_BYTES: usize = 1024;

/// The data of an event, as far as it is put together. Where its fields are, the compiler knows for
/// all but texts: so most events are some stores of constants, and one of each value.
#[derive(Debug)]
pub struct Out {
    /// As a whole: an array of single bytes that are not set would be copied.
    bytes: MaybeUninit<[u8; MOST_BYTES]>,
    length: usize,
    /// Bytes of each text that there is space for.
    most_text: usize,
}

impl Out {
    /// Has space for `most_text` bytes of each text, and nothing written: that comes later, since
    /// what is written would be copied with this.
    #[inline(always)]
    #[must_use]
    pub const fn new(most_text: usize) -> Self {
        Self {
            bytes: MaybeUninit::uninit(),
            length: 0,
            most_text,
        }
    }

    /// Begins an event of `fields` fields.
    #[inline(always)]
    pub fn begin(&mut self, fields: u16) {
        self.append(&probe_kind::PROGRAMS_OWN.to_ne_bytes());
        self.append(&fields.to_ne_bytes());
        self.append(&[0; 4]);
    }

    /// Adds a field: its type, bits and the bytes of an element, as
    /// [`typed_data`] says them. A value that there is no space for is left out, and the data is
    /// none then; the table of events has none that is so long.
    #[inline(always)]
    pub fn field(&mut self, kind: u8, bits: u8, unit: u8, name: &str, value: &[u8]) {
        let [name_bytes, ..] = name.len().to_le_bytes();
        let [low, high, ..] = value.len().to_le_bytes();
        let bytes = u16::from_le_bytes([low, high]).to_ne_bytes();
        self.append(&[kind, bits, name_bytes, unit]);
        self.append(&bytes);
        self.append(name.as_bytes());
        self.append(value);
    }

    /// Adds a text, or as much of it as there is space for.
    #[inline(always)]
    pub fn text(&mut self, name: &str, text: &[u8]) {
        match text.get(..self.most_text) {
            Some(front) if front.len() < text.len() => {
                self.field(typed_data::TEXT, typed_data::MORE, 1, name, front);
            }
            _ => self.field(typed_data::TEXT, 0, 1, name, text),
        }
    }

    /// Returns the data.
    #[inline(always)]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        // SAFETY: so many bytes were written; `append` keeps the length within the array.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.length) }
    }

    #[inline(always)]
    fn append(&mut self, bytes: &[u8]) {
        let end = self.length.saturating_add(bytes.len());
        if end > MOST_BYTES {
            return;
        }
        // SAFETY: within the array, as was just looked at.
        let to = unsafe { self.bytes.as_mut_ptr().cast::<u8>().add(self.length) };
        // SAFETY: there are as many bytes from there on, and they are this value's own.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.length = end;
    }
}

/// Returns how many bytes of each text an event has space for: `fields` are the bytes of its names
/// and values but for texts, with their heads, and `texts` is how many of its fields are texts.
#[must_use]
pub const fn most_text(fields: usize, texts: usize) -> usize {
    let left = MOST_BYTES - typed_data::START - fields;
    match left.checked_div(texts) {
        Some(most) => most,
        None => 0,
    }
}
