//! Lines of functions: the tables of CPython, by version.

/// Returns the line of an instruction of a function that begins at line `first`, in its table
/// (`co_linetable`, before 3.10 `co_lnotab`). `at` counts bytes before 3.10, else units of two
/// bytes. `None`: it has none, or the table is not all there.
pub fn line(minor: u32, first: i32, untrusted: &[u8], at: i64) -> Option<i32> {
    // A function that has not begun.
    if at < 0 {
        return Some(first);
    }
    match minor {
        8 | 9 => by_increments(first, untrusted, at),
        10 => by_ranges(first, untrusted, at * 2),
        11..=14 => by_locations(first, untrusted, at),
        _ => None,
    }
}

/// Pairs of how far the address goes on and, signed, the line.
fn by_increments(first: i32, table: &[u8], at: i64) -> Option<i32> {
    let (mut line, mut address) = (first, 0);
    for pair in table.chunks_exact(2) {
        let [forward, lines] = *pair.first_chunk()?;
        address += i64::from(forward);
        if address > at {
            break;
        }
        line = line.checked_add(i32::from(lines.cast_signed()))?;
    }
    Some(line)
}

/// Pairs of how long a range is and, signed, how far its line is from the last one; -128: it has
/// none.
fn by_ranges(first: i32, table: &[u8], at: i64) -> Option<i32> {
    let (mut line, mut end) = (first, 0);
    for pair in table.chunks_exact(2) {
        let [bytes, lines] = *pair.first_chunk()?;
        end += i64::from(bytes);
        let lines = lines.cast_signed();
        if lines != i8::MIN {
            line = line.checked_add(i32::from(lines))?;
        }
        if at < end {
            return (lines != i8::MIN).then_some(line);
        }
    }
    None
}

/// Entries of some bytes, of which only the first has its upper bit: which form it has, and how
/// many units it is for.
fn by_locations(first: i32, table: &[u8], at: i64) -> Option<i32> {
    const NONE: u8 = 15;
    const LONG: u8 = 14;
    const WITHOUT_COLUMNS: u8 = 13;
    let (mut line, mut end) = (first, 0);
    let mut rest = table;
    while let Some((head, behind)) = rest.split_first() {
        let form = head >> 3 & 15;
        end += i64::from(head & 7) + 1;
        let lines = match form {
            LONG | WITHOUT_COLUMNS => signed(behind)?,
            10..=12 => i32::from(form) - 10,
            _ => 0,
        };
        line = line.checked_add(lines)?;
        if at < end {
            return (form != NONE).then_some(line);
        }
        let next = behind.iter().position(|byte| byte & 0x80 != 0)?;
        rest = behind.get(next..)?;
    }
    None
}

/// Reads a number of six bits a byte, the lowest first, whose lowest bit is its sign.
fn signed(bytes: &[u8]) -> Option<i32> {
    let mut value = 0_u32;
    for (index, byte) in bytes.iter().enumerate() {
        let shift = u32::try_from(index).ok()?.checked_mul(6)?;
        value |= u32::from(byte & 63).checked_shl(shift)?;
        if byte & 64 == 0 {
            let number = (value >> 1).cast_signed();
            return Some(if value & 1 == 0 { number } else { -number });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_ranges() {
        // Tables and lines of one function, as the interpreters have them: what `dis` says of 3.8,
        // `co_lines()` of the others.
        let of_3_8 = [0, 1, 4, 2, 2, 1, 6, 255];
        let of_3_10 = [4, 1, 2, 2, 6, 1, 4, 255];
        let of_3_11 = [
            128, 0, 216, 8, 9, 128, 65, 224, 12, 13, 221, 8, 9, 136, 33, 137, 4, 140, 4, 241, 3, 1,
            13, 13, 240, 0, 1, 5, 14,
        ];
        let of_3_12 = [
            128, 0, 216, 8, 9, 128, 65, 224, 12, 13, 220, 8, 9, 136, 33, 139, 4, 241, 3, 1, 13, 13,
            240, 0, 1, 5, 14,
        ];
        let first = [2, 2, 4, 5, 5, 5, 4, 4];
        let of_units = |count: usize| {
            let inside = std::iter::repeat_n(5, count);
            let lines = [1, 2, 2, 4].into_iter().chain(inside);
            lines.chain([4, 4, 4]).collect::<Vec<i32>>()
        };
        let all: [(u32, &[u8], Vec<i32>); 4] = [
            (8, &of_3_8, first.to_vec()),
            (10, &of_3_10, first.to_vec()),
            (11, &of_3_11, of_units(14)),
            (12, &of_3_12, of_units(10)),
        ];
        for (minor, table, lines) in all {
            let bytes = if minor < 10 { 2 } else { 1 };
            for (unit, expected) in (0..).zip(lines) {
                let found = line(minor, 1, table, unit * bytes);
                assert_eq!(found, Some(expected), "{minor} {unit}");
            }
            assert_eq!(line(minor, 1, table, -1), Some(1));
        }
        assert_eq!(line(11, 1, &of_3_11, 21), None);
        // 14: a line before the last one; 15: none.
        let table = [0xf0, 0x05, 0x00, 0x00, 0x00, 0xf8];
        assert_eq!(line(11, 9, &table, 0), Some(7));
        assert_eq!(line(11, 9, &table, 1), None);
        assert_eq!(line(10, 5, &[4, 1, 2, 0x80, 2, 255], 0), Some(6));
        assert_eq!(line(10, 5, &[4, 1, 2, 0x80, 2, 255], 2), None);
        assert_eq!(line(10, 5, &[4, 1, 2, 0x80, 2, 255], 3), Some(5));
        assert_eq!(line(8, 5, &[0, 1, 4, 1], 0), Some(6));
        assert_eq!(line(8, 5, &[0, 1, 4, 1], 5), Some(7));
        assert_eq!(line(7, 5, &[0, 1, 4, 1], 5), None);
    }

    #[test]
    fn any_bytes_have_an_end() {
        let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
        for minor in 7..15 {
            for at in [-1, 0, 1, 100, i64::from(i32::MAX), i64::MAX / 4] {
                for from in 0..300 {
                    let _ = line(minor, i32::MAX, &bytes[from..], at);
                }
            }
        }
    }
}
