//! Digits into a line, without an allocation.

/// Appends an integer in decimal.
pub fn push_decimal(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a value in decimal, filled up on the left with `fill` to `width`.
pub fn push_filled(out: &mut Vec<u8>, value: u64, width: usize, fill: u8) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value).as_bytes();
    out.resize(out.len() + width.saturating_sub(digits.len()), fill);
    out.extend_from_slice(digits);
}

/// Appends a value below 10^9 with nine digits.
pub fn push_nine_digits(out: &mut Vec<u8>, value: u64) {
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    let [a, b] = two_digits(value / 10_000_000);
    let [c, d] = two_digits(value / 100_000);
    let [e, f] = two_digits(value / 1000);
    let [g, h] = two_digits(value / 10);
    let [_, i] = two_digits(value);
    out.extend_from_slice(&[a, b, c, d, e, f, g, h, i]);
}

/// Appends a value with three digits; with more, where it has more.
pub fn push_three_digits(out: &mut Vec<u8>, value: u32) {
    if value > 999 {
        push_decimal(out, value);
        return;
    }
    let [a, b] = two_digits(value / 10);
    let [_, c] = two_digits(value);
    out.extend_from_slice(&[a, b, c]);
}

/// Returns the last two digits of a value.
#[expect(clippy::indexing_slicing, reason = "every index is below 100")]
fn two_digits(value: u32) -> [u8; 2] {
    /// The digits of every value below 100.
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[b'0'; 2]; 100];
        let mut value: u8 = 0;
        while value < 100 {
            pairs[value as usize] = [b'0' + value / 10, b'0' + value % 10];
            value += 1;
        }
        pairs
    };
    PAIRS[(value % 100) as usize]
}

/// Appends bytes in hexadecimal, two digits each.
#[expect(
    clippy::indexing_slicing,
    reason = "the space was just made, and half a byte is below 16"
)]
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
    fn digits_are_filled_up_and_never_dropped() {
        let mut out = Vec::new();
        push_filled(&mut out, 7, 3, b'0');
        push_filled(&mut out, 12345, 3, b' ');
        push_decimal(&mut out, -1);

        assert_eq!(out, b"00712345-1");
    }

    #[test]
    fn digits_are_those_of_the_value() {
        let mut out = Vec::new();
        push_nine_digits(&mut out, 12_345_678);
        push_nine_digits(&mut out, 987_654_321);
        push_nine_digits(&mut out, 0);
        push_three_digits(&mut out, 7);
        push_three_digits(&mut out, 65);
        push_three_digits(&mut out, 999);
        push_three_digits(&mut out, 1024);

        assert_eq!(out, b"0123456789876543210000000000070659991024");
    }

    #[test]
    fn bytes_become_two_digits_each() {
        let mut out = Vec::new();
        push_hex(&mut out, &[0, 0x9f, 0xff]);

        assert_eq!(out, b"009fff");
    }
}
