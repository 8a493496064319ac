//! Values of arguments in words.

use tracer_text::digits::push_decimal;

use crate::arguments::Shown;
use crate::calls::permissions;

/// Appends a value of an argument.
pub fn push_argument(out: &mut Vec<u8>, argument: Shown) {
    match argument {
        Shown::Signed(value) => push_decimal(out, value),
        Shown::Unsigned(value) => push_decimal(out, value),
        Shown::Hex(value) => push_address(out, value),
        Shown::RealTimeSignal(32) => out.extend_from_slice(b"SIGRTMIN"),
        Shown::RealTimeSignal(signal) => {
            out.extend_from_slice(b"SIGRT_");
            push_decimal(out, signal.saturating_sub(32));
        }
        Shown::Octal(value) => {
            let bits = u32::try_from(value).unwrap_or(u32::MAX);
            out.extend_from_slice(permissions(bits).as_bytes());
        }
        Shown::Named(name, _) => out.extend_from_slice(name.as_bytes()),
        Shown::Bits(values, bits) => values.push(out, bits),
    }
}

/// Appends an address or flags: in hexadecimal, unless it is one digit.
pub fn push_address(out: &mut Vec<u8>, address: u64) {
    if address < 10 {
        push_decimal(out, address);
        return;
    }
    out.extend_from_slice(b"0x");
    let digits = 16 - address.leading_zeros() / 4;
    out.extend((0..digits).rev().map(|position| {
        let digit = (address >> (4 * position) & 15) as u8;
        if digit < 10 {
            b'0' + digit
        } else {
            b'a' + digit - 10
        }
    }));
}
