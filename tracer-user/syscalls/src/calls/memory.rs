//! Memory.

use std::borrow::Cow;

use crate::arguments::Call;
use crate::flags::{BARRIER_SET, words};
use crate::shape::Shape;

/// Chooses the arguments of `mremap`: without a flag it takes no new address.
pub fn show_mremap(call: &Call) -> Shape {
    if call.registers[3] & 3 == 3 {
        Shape::all(call)
    } else {
        Shape::unnamed(&[0, 1, 2, 3])
    }
}

/// Chooses the arguments of `membarrier`: without a flag it takes no CPU.
pub fn show_membarrier(call: &Call) -> Shape {
    if call.registers[1] & 1 == 0 {
        Shape::unnamed(&[0, 1])
    } else {
        Shape::all(call)
    }
}

/// Names the commands that `membarrier` returns.
pub fn result_membarriers(_: &Call, value: i64) -> Option<String> {
    let bits = u64::try_from(value).ok().filter(|bits| *bits > 0)?;
    Some(format!("{bits:#x} ({})", words(&BARRIER_SET, bits)))
}

/// Renders where in a file memory begins.
pub fn name_map_offset(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let offset = *call.registers.get(index)?;
    (offset != 0).then(|| format!("{offset:#x}").into())
}
