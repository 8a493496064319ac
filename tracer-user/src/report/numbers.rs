//! Numbers into a line, without an allocation.

/// Appends a whole number in decimal.
pub fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a number in decimal, filled up on the left with `fill` to `width`.
pub fn push_filled(out: &mut Vec<u8>, number: u64, width: usize, fill: u8) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    out.resize(out.len() + width.saturating_sub(digits.len()), fill);
    out.extend_from_slice(digits);
}

/// Appends bytes in hexadecimal, two digits each.
pub fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    let (pairs, _) = out[start..].as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = [
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_filled_up_and_never_cut() {
        let mut out = Vec::new();
        push_filled(&mut out, 7, 3, b'0');
        push_filled(&mut out, 12345, 3, b' ');
        push_number(&mut out, -1);

        assert_eq!(out, b"00712345-1");
    }

    #[test]
    fn bytes_become_two_digits_each() {
        let mut out = Vec::new();
        push_hex(&mut out, &[0, 0x9f, 0xff]);

        assert_eq!(out, b"009fff");
    }
}
