//! Fields of the bytes that were read, and registers, as the kernel takes them.

use std::borrow::Cow;

use crate::arguments::Call;

/// Bytes that were read: any bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    pub fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_ne_bytes)
    }

    pub fn i16(self, at: usize) -> Option<i16> {
        self.array(at).map(i16::from_ne_bytes)
    }

    pub fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_ne_bytes)
    }

    pub fn i32(self, at: usize) -> Option<i32> {
        self.array(at).map(i32::from_ne_bytes)
    }

    pub fn u64(self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_ne_bytes)
    }

    pub fn i64(self, at: usize) -> Option<i64> {
        self.array(at).map(i64::from_ne_bytes)
    }

    /// Returns 16 bits in network byte order.
    pub fn u16_be(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_be_bytes)
    }

    /// Returns the bytes from this offset on.
    pub fn from(self, at: usize) -> Option<Self> {
        self.0.get(at..).map(Self)
    }

    /// Returns the text up to its null, in quotes.
    pub fn quoted(self) -> String {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        quoted(text)
    }

    /// Returns the bytes.
    pub fn slice(self) -> &'a [u8] {
        self.0
    }
}

/// Quotes text, as strace writes it.
pub fn quoted(bytes: &[u8]) -> String {
    quoted_start(bytes, false)
}

/// Quotes the bytes, with dots behind them where there is more.
pub fn quoted_start(bytes: &[u8], has_more: bool) -> String {
    let mut out = Vec::new();
    let text = crate::pointer_data::Text {
        argument: 0,
        bytes,
        has_more,
        is_bytes: false,
    };
    crate::pointer_data::push_quoted(&mut out, &text);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the part of a register that the kernel takes for an int.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the upper half is not looked at"
)]
pub fn lower_half(register: u64) -> i32 {
    register as i32
}

/// Returns an argument that the kernel takes for an int.
pub fn int(call: &Call, index: usize) -> Option<i32> {
    call.registers.get(index).map(|value| lower_half(*value))
}

/// Renders an argument that is an int in hexadecimal, however small.
pub fn name_in_hex(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    Some(format!("{:#x}", int(call, index)?).into())
}
