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

/// Appends a number below 10^9 with nine digits.
pub fn push_nine_digits(out: &mut Vec<u8>, number: u64) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let [a, b] = two_digits(number / 10_000_000);
    let [c, d] = two_digits(number / 100_000);
    let [e, f] = two_digits(number / 1000);
    let [g, h] = two_digits(number / 10);
    let [_, i] = two_digits(number);
    out.extend_from_slice(&[a, b, c, d, e, f, g, h, i]);
}

/// Appends a number with three digits; with more, where it has more.
pub fn push_three_digits(out: &mut Vec<u8>, number: u32) {
    if number > 999 {
        push_number(out, number);
        return;
    }
    let [a, b] = two_digits(number / 10);
    let [_, c] = two_digits(number);
    out.extend_from_slice(&[a, b, c]);
}

/// The last two digits of a number.
fn two_digits(number: u32) -> [u8; 2] {
    /// The digits of the numbers below 100.
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[b'0'; 2]; 100];
        let mut number: u8 = 0;
        while number < 100 {
            pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
            number += 1;
        }
        pairs
    };
    PAIRS[(number % 100) as usize]
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
    fn digits_are_those_of_the_number() {
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
