//! Truth values as integers: the verifier walks what follows a branch once for each side of it.

use core::arch::asm;

/// Returns 1 where `value` is not 0, else 0.
#[inline(always)]
pub fn is_not_zero(value: u64) -> u64 {
    let truth: u64;
    // Written out because the compiler would make a branch of it. SAFETY: arithmetic.
    unsafe {
        asm!(
            "{truth} = {value}",
            "{truth} = -{truth}",
            "{truth} |= {value}",
            "{truth} >>= 63",
            truth = out(reg) truth,
            value = in(reg) value,
            options(pure, nomem, nostack),
        );
    };
    truth
}

/// Returns 1 where `value` is 0, else 0.
#[inline(always)]
pub fn is_zero(value: u64) -> u64 {
    1 ^ is_not_zero(value)
}
