//! Data that says itself what its fields are called and how they are stored: see
//! [`typed_data`].

use tracer_common::kernel::{probe_kind, typed_data};

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TypedValue<'a> {
    /// It could not be read.
    Unread,
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// An address, or what is shown as one.
    Address(u64),
    /// A truth value.
    Flag(bool),
    /// A character: any byte.
    Character(u8),
    /// A floating-point value.
    Float(f64),
    /// Text: any bytes.
    Text {
        /// Bytes that there are of it.
        bytes: &'a [u8],
        /// Whether there is more.
        has_more: bool,
    },
    /// Bytes of which nothing is known.
    Bytes {
        /// Bytes that there are.
        bytes: &'a [u8],
        /// Whether there are more.
        has_more: bool,
    },
    /// Integers.
    Integers(Integers<'a>),
}

/// Integers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integers<'a> {
    bytes: &'a [u8],
    unit: u8,
    is_signed: bool,
    /// Whether there are more.
    pub has_more: bool,
}

impl<'a> Integers<'a> {
    /// Returns them as they are stored, one behind the other.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns how many bytes each has.
    #[must_use]
    pub fn unit(self) -> u8 {
        self.unit
    }

    /// Tells whether they are signed.
    #[must_use]
    pub fn is_signed(self) -> bool {
        self.is_signed
    }

    /// Returns each of them.
    pub fn iter(self) -> impl Iterator<Item = i128> + 'a {
        let units = self.bytes.chunks_exact(usize::from(self.unit).max(1));
        units.map(move |unit| {
            let value = widened(unit, self.is_signed);
            if self.is_signed {
                i128::from(value.cast_signed())
            } else {
                i128::from(value)
            }
        })
    }
}

/// Typed data, checked as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'a> {
    kind: u16,
    count: u16,
    fields: &'a [u8],
}

impl<'a> Typed<'a> {
    /// Reads the data of an event. `None` where it is none, or damaged.
    #[must_use]
    pub fn parse(untrusted: &'a [u8]) -> Option<Self> {
        let (head, fields) = untrusted.split_at_checked(typed_data::START)?;
        let words: [u16; 4] = [0, 2, 4, 6].map(|at| {
            let two = head.get(at..).and_then(|rest| rest.first_chunk());
            two.map_or(u16::MAX, |two| u16::from_ne_bytes(*two))
        });
        let [kind, count, 0, 0] = words else {
            return None;
        };
        let typed = Self {
            kind,
            count,
            fields,
        };
        let mut rest = fields;
        for _ in 0..count {
            next(&mut rest)?;
        }
        rest.is_empty().then_some(typed)
    }

    /// Reads the data of an event whose type is called as those are that have such data. `None`
    /// where it is called otherwise, or its data is none of these, or damaged.
    #[must_use]
    pub fn parse_event(name: &[u8], untrusted: &'a [u8]) -> Option<Self> {
        let prefixes = [
            (&b"tracepoint:"[..], probe_kind::TRACEPOINT),
            (b"probe:", probe_kind::TYPED_FUNCTION),
            (b"usdt:", probe_kind::TYPED_FUNCTION),
            (b"retprobe:", probe_kind::TYPED_RETURN),
            (b"ros2:", probe_kind::PROGRAMS_OWN),
        ];
        let known = prefixes.iter().find(|(prefix, _)| name.starts_with(prefix));
        let (_, kind) = known?;
        Self::parse(untrusted).filter(|typed| typed.kind == *kind)
    }

    /// Tells whether the fields are the arguments of a function.
    #[must_use]
    pub fn are_arguments(self) -> bool {
        self.kind == probe_kind::TYPED_FUNCTION
    }

    /// Returns each field, by its name.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, TypedValue<'a>)> {
        let mut rest = self.fields;
        (0..self.count).map_while(move |_| next(&mut rest))
    }
}

/// Takes a field from the front.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, TypedValue<'a>)> {
    let (head, after) = rest.split_first_chunk::<{ typed_data::HEAD }>()?;
    let [kind, bits, name_bytes, unit, low, high] = *head;
    let (name, after) = after.split_at_checked(usize::from(name_bytes))?;
    let bytes = usize::from(u16::from_ne_bytes([low, high]));
    let (bytes, after) = after.split_at_checked(bytes)?;
    let name = std::str::from_utf8(name).ok()?;
    let value = value(kind, bits, unit, bytes)?;
    *rest = after;
    Some((name, value))
}

fn value(kind: u8, bits: u8, unit: u8, bytes: &[u8]) -> Option<TypedValue<'_>> {
    if bits & typed_data::UNREAD != 0 {
        return Some(TypedValue::Unread);
    }
    let has_more = bits & typed_data::MORE != 0;
    let is_signed = kind & !typed_data::ARRAY == typed_data::SIGNED;
    match kind {
        typed_data::TEXT => return Some(TypedValue::Text { bytes, has_more }),
        typed_data::BYTES => return Some(TypedValue::Bytes { bytes, has_more }),
        _ => {}
    }
    if !matches!(unit, 1 | 2 | 4 | 8) || !bytes.len().is_multiple_of(usize::from(unit)) {
        return None;
    }
    if kind & typed_data::ARRAY != 0 {
        return Some(TypedValue::Integers(Integers {
            bytes,
            unit,
            is_signed,
            has_more,
        }));
    }
    if bytes.len() != usize::from(unit) {
        return None;
    }
    let word = widened(bytes, is_signed);
    Some(match kind {
        typed_data::SIGNED => TypedValue::Signed(word.cast_signed()),
        typed_data::UNSIGNED => TypedValue::Unsigned(word),
        typed_data::ADDRESS => TypedValue::Address(word),
        typed_data::FLAG => TypedValue::Flag(word != 0),
        typed_data::CHARACTER => TypedValue::Character(*bytes.first()?),
        typed_data::FLOAT => match bytes.len() {
            4 => TypedValue::Float(f64::from(f32::from_ne_bytes(bytes.try_into().ok()?))),
            8 => TypedValue::Float(f64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns an integer of at most eight bytes as a whole word.
fn widened(bytes: &[u8], is_signed: bool) -> u64 {
    let fill = match bytes.last() {
        Some(top) if is_signed && cfg!(target_endian = "little") && top & 0x80 != 0 => 0xff,
        _ => 0,
    };
    let mut word = [fill; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_ne_bytes(word)
}

/// Writes the fields of an event one after the other.
#[derive(Debug)]
pub struct Encoder {
    bytes: Vec<u8>,
    count: u16,
}

impl Encoder {
    /// Begins data of this kind: one of [`probe_kind`].
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

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Vec<u8> {
        let mut out = Encoder::new(probe_kind::TRACEPOINT);
        out.value("a", typed_data::SIGNED, &(-3_i16).to_ne_bytes());
        out.value("b", typed_data::ADDRESS, &7_u64.to_ne_bytes());
        out.array("c", typed_data::UNSIGNED, 2, &[1, 0, 2, 0, 9], true);
        out.text("d", b"\xffx", true);
        out.unread("e", typed_data::TEXT);
        out.value("f", typed_data::FLOAT, &1.5_f32.to_ne_bytes());
        out.finish()
    }

    #[test]
    fn fields_come_back_as_they_were() {
        let data = data();
        let typed = Typed::parse_event(b"tracepoint:a:b", &data).unwrap();
        let found: Vec<_> = typed.iter().collect();
        assert_eq!(found[0], ("a", TypedValue::Signed(-3)));
        assert_eq!(found[1], ("b", TypedValue::Address(7)));
        let TypedValue::Integers(integers) = found[2].1 else {
            panic!("{found:?}");
        };
        assert_eq!(integers.iter().collect::<Vec<_>>(), [1, 2]);
        assert!(integers.has_more);
        let text = TypedValue::Text {
            bytes: b"\xffx",
            has_more: true,
        };
        assert_eq!(found[3], ("d", text));
        assert_eq!(found[4], ("e", TypedValue::Unread));
        assert_eq!(found[5], ("f", TypedValue::Float(1.5)));
    }

    #[test]
    fn what_a_program_says_is_read_from_events_that_are_called_so_alone() {
        let mut out = Encoder::new(probe_kind::PROGRAMS_OWN);
        out.value("message", typed_data::ADDRESS, &7_u64.to_ne_bytes());
        let data = out.finish();
        let typed = Typed::parse_event(b"ros2:rcl_take", &data).unwrap();
        let found: Vec<_> = typed.iter().collect();
        assert_eq!(found, [("message", TypedValue::Address(7))]);
        assert!(!typed.are_arguments());
        assert!(Typed::parse_event(b"tracepoint:a:b", &data).is_none());
        assert!(Typed::parse_event(b"ros2", &data).is_none());
    }

    #[test]
    fn damaged_data_is_none_and_does_no_harm() {
        let data = data();
        assert!(Typed::parse_event(b"other", &data).is_none());
        assert!(Typed::parse_event(b"probe:a", &data).is_none());
        for length in 0..data.len() {
            assert!(Typed::parse(&data[..length]).is_none(), "{length}");
        }
        for at in 0..data.len() {
            for byte in [0, 1, 3, 0x7f, 0xff] {
                let mut damaged = data.clone();
                damaged[at] = byte;
                if let Some(typed) = Typed::parse(&damaged) {
                    assert!(typed.iter().count() <= 0xffff);
                }
            }
        }
    }
}
