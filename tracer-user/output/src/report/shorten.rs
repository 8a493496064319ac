//! Shortening of lines to the width of the terminal.

/// Shortens the line that begins at `begin` where it has more than `most` characters. Commands to
/// the terminal take no space.
pub fn shorten(out: &mut Vec<u8>, begin: usize, most: usize, is_coloured: bool) {
    /// Least length of a shortened line, also where less would fit: a shorter one is of no use.
    const LEAST: usize = 20;
    let most = most.max(LEAST);
    let (mut characters, mut end, mut is_command) = (0_usize, out.len(), false);
    for (index, byte) in out.iter().enumerate().skip(begin) {
        match byte {
            b'\x1b' => is_command = true,
            b'm' if is_command => is_command = false,
            _ if is_command => {}
            // It goes on a character of several bytes.
            byte if byte & 0xc0 == 0x80 => {}
            _ => {
                if characters == most - 1 {
                    end = index;
                }
                characters += 1;
            }
        }
    }
    if characters > most {
        out.truncate(end);
        out.extend_from_slice("…".as_bytes());
        if is_coloured {
            out.extend_from_slice(b"\x1b[0m");
        }
    }
}
