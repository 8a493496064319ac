//! Writing typed data.

use tracer_common::kernel::typed_data;

/// Writes the fields of an event one after the other.
#[derive(Debug)]
pub struct Encoder {
    bytes: Vec<u8>,
    count: u16,
}

impl Encoder {
    /// Begins data of this kind: one of [`probe_kind`](tracer_common::kernel::probe_kind).
    #[must_use]
    pub fn new(kind: u16) -> Self {
        let mut bytes = vec![0; typed_data::START];
        for (to, from) in bytes.iter_mut().zip(kind.to_ne_bytes()) {
            *to = from;
        }
        Self { bytes, count: 0 }
    }

    /// Adds one integer, address, truth value, character or floating-point value.
    pub fn value(&mut self, name: &str, kind: u8, bytes: &[u8]) {
        self.field(name, kind, 0, unit(bytes.len()), bytes);
    }

    /// Adds an array of such, each of so many bytes.
    pub fn array(&mut self, name: &str, kind: u8, unit: u8, bytes: &[u8], has_more: bool) {
        let odd = bytes.len() % usize::from(unit).max(1);
        let whole = bytes.get(..bytes.len() - odd).unwrap_or_default();
        self.field(name, kind | typed_data::ARRAY, more(has_more), unit, whole);
    }

    /// Adds text.
    pub fn text(&mut self, name: &str, bytes: &[u8], has_more: bool) {
        self.field(name, typed_data::TEXT, more(has_more), 1, bytes);
    }

    /// Adds bytes of which nothing is known.
    pub fn bytes(&mut self, name: &str, bytes: &[u8], has_more: bool) {
        self.field(name, typed_data::BYTES, more(has_more), 1, bytes);
    }

    /// Adds a field that could not be read.
    pub fn unread(&mut self, name: &str, kind: u8) {
        self.field(name, kind, typed_data::UNREAD, 1, b"");
    }

    fn field(&mut self, name: &str, kind: u8, bits: u8, unit: u8, bytes: &[u8]) {
        let name = name
            .get(..name.floor_char_boundary(0xff))
            .unwrap_or_default();
        let name_bytes = u8::try_from(name.len()).unwrap_or(0);
        // Arrays end with a whole element.
        const MOST: usize = 0xfff8;
        let (bytes, bits) = match bytes.get(..MOST) {
            Some(front) if front.len() < bytes.len() => (front, bits | typed_data::MORE),
            _ => (bytes, bits),
        };
        let length = u16::try_from(bytes.len()).unwrap_or(0);
        let Some(count) = self.count.checked_add(1) else {
            return;
        };
        self.count = count;
        self.bytes
            .extend_from_slice(&[kind, bits, name_bytes, unit]);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the data.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let count = self.bytes.iter_mut().skip(2);
        for (to, from) in count.zip(self.count.to_ne_bytes()) {
            *to = from;
        }
        self.bytes
    }
}

fn more(has_more: bool) -> u8 {
    if has_more { typed_data::MORE } else { 0 }
}

/// Returns how many bytes an element has as it is written; 1 where no type has as many.
#[must_use]
pub fn unit(bytes: usize) -> u8 {
    match bytes {
        2 => 2,
        4 => 4,
        8 => 8,
        _ => 1,
    }
}
