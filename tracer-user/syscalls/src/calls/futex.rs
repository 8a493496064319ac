//! Futexes.

use std::borrow::Cow;

use super::registers::int;
use crate::arguments::Call;
use crate::shape::Shape;

/// Bits of an operation without its flags.
fn operation(call: &Call) -> u64 {
    call.registers[1] & 0x7f
}

/// Chooses the arguments that an operation looks at.
pub fn show_futex(call: &Call) -> Shape {
    Shape::unnamed(match operation(call) {
        1 | 7 | 8 => &[0, 1, 2],
        3 => &[0, 1, 2, 3, 4],
        9 => &[0, 1, 2, 3, 5],
        10 => &[0, 1, 2, 5],
        4 | 5 | 11 | 12 => &[0, 1, 2, 3, 4, 5],
        _ => &[0, 1, 2, 3],
    })
}

/// Names the argument that is a time or a count.
pub fn name_futex_count(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let count = call.registers.get(index)?;
    matches!(operation(call), 3..=5).then(|| count.to_string().into())
}

/// Names the bits by which waiting threads are chosen.
pub fn name_futex_bits(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let is_any = matches!(operation(call), 9 | 10) && int(call, index)? == -1;
    is_any.then_some("FUTEX_BITSET_MATCH_ANY".into())
}
