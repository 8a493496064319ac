//! Types of arguments, as C passes them, and how a value of each is recorded.

use std::ffi::{CStr, c_char, c_void};

use tracer_common::kernel::typed_data;

use crate::record::Out;

/// Bytes of a GID, by which middleware names a publisher or a subscription.
pub const GID_BYTES: usize = 16;

/// An argument of a function of this interface.
pub trait PassedValue: Copy {
    /// The type of its field; `None` where it is not recorded.
    const KIND: Option<u8>;
    /// Bytes of its value, but for texts.
    const BYTES: usize;
    /// Whether it is a text: as long as it is, up to what there is space for.
    const IS_TEXT: bool = false;

    /// Adds the value as a field.
    ///
    /// # Safety
    ///
    /// What the value leads to, if anything, is readable.
    unsafe fn push(self, out: &mut Out, name: &str);
}

/// An address: of a handle, a message, a callback.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Address(pub *const c_void);

impl PassedValue for Address {
    const KIND: Option<u8> = Some(typed_data::ADDRESS);
    const BYTES: usize = 8;

    #[inline(always)]
    unsafe fn push(self, out: &mut Out, name: &str) {
        let value = self.0.addr() as u64;
        out.field(typed_data::ADDRESS, 0, 8, name, &value.to_ne_bytes());
    }
}

/// An `int64_t`.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Signed(pub i64);

impl PassedValue for Signed {
    const KIND: Option<u8> = Some(typed_data::SIGNED);
    const BYTES: usize = 8;

    #[inline(always)]
    unsafe fn push(self, out: &mut Out, name: &str) {
        out.field(typed_data::SIGNED, 0, 8, name, &self.0.to_ne_bytes());
    }
}

/// A `uint64_t`.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Unsigned(pub u64);

impl PassedValue for Unsigned {
    const KIND: Option<u8> = Some(typed_data::UNSIGNED);
    const BYTES: usize = 8;

    #[inline(always)]
    unsafe fn push(self, out: &mut Out, name: &str) {
        out.field(typed_data::UNSIGNED, 0, 8, name, &self.0.to_ne_bytes());
    }
}

/// A `size_t`.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Count(pub usize);

impl PassedValue for Count {
    const KIND: Option<u8> = Some(typed_data::UNSIGNED);
    const BYTES: usize = size_of::<usize>();

    #[inline(always)]
    unsafe fn push(self, out: &mut Out, name: &str) {
        let [unit, ..] = size_of::<usize>().to_le_bytes();
        out.field(typed_data::UNSIGNED, 0, unit, name, &self.0.to_ne_bytes());
    }
}

/// A `bool`, which LTTng's event has as an `int`: 0 or 1.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Truth(pub bool);

impl PassedValue for Truth {
    const KIND: Option<u8> = Some(typed_data::SIGNED);
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn push(self, out: &mut Out, name: &str) {
        let value = i32::from(self.0);
        out.field(typed_data::SIGNED, 0, 4, name, &value.to_ne_bytes());
    }
}

/// The address of a GID.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Gid(pub *const [u8; GID_BYTES]);

impl PassedValue for Gid {
    const KIND: Option<u8> = Some(typed_data::UNSIGNED | typed_data::ARRAY);
    const BYTES: usize = GID_BYTES;

    #[inline(always)]
    unsafe fn push(self, out: &mut Out, name: &str) {
        const KIND: u8 = typed_data::UNSIGNED | typed_data::ARRAY;
        // SAFETY: the caller vouches for what is at the address; any bytes are a GID.
        match unsafe { self.0.as_ref() } {
            Some(gid) => out.field(KIND, 0, 1, name, gid),
            None => out.field(KIND, typed_data::UNREAD, 1, name, &[0; 0]),
        }
    }
}

/// The address of a text that ends with a null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct CText(pub *const c_char);

impl PassedValue for CText {
    const KIND: Option<u8> = Some(typed_data::TEXT);
    const BYTES: usize = 0;
    const IS_TEXT: bool = true;

    #[inline(always)]
    unsafe fn push(self, out: &mut Out, name: &str) {
        if self.0.is_null() {
            return out.field(typed_data::TEXT, typed_data::UNREAD, 1, name, &[0; 0]);
        }
        // SAFETY: the caller vouches for a text.
        let text = unsafe { CStr::from_ptr(self.0) }.to_bytes();
        out.text(name, text);
    }
}

/// An address that is passed and not recorded, as LTTng's event does not have it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Unrecorded(pub *const c_void);

impl PassedValue for Unrecorded {
    const KIND: Option<u8> = None;
    const BYTES: usize = 0;

    #[inline(always)]
    unsafe fn push(self, _: &mut Out, _: &str) {}
}
