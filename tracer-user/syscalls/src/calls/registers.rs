//! Registers, as the kernel takes them.

use std::borrow::Cow;

use crate::arguments::Call;

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
