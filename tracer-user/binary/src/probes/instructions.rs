//! Finds where instructions begin: a probe replaces the first byte of an instruction, and would
//! damage the program anywhere else.

/// Tells whether an instruction begins `offset` bytes into `code`, which begins with one.
#[cfg(target_arch = "x86_64")]
pub fn begins_at(code: &[u8], offset: usize) -> bool {
    use iced_x86::{Decoder, DecoderOptions};

    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.position() < offset && decoder.can_decode() {
        if decoder.decode().is_invalid() {
            return false;
        }
    }
    decoder.position() == offset
}

/// Tells whether an instruction begins `offset` bytes into `code`, which begins with one.
#[cfg(not(target_arch = "x86_64"))]
pub fn begins_at(code: &[u8], offset: usize) -> bool {
    offset.is_multiple_of(4) && offset < code.len()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn only_beginnings_of_instructions_count() {
        // push %rbp; mov %rsp,%rbp; ret
        let code = [0x55, 0x48, 0x89, 0xe5, 0xc3];
        let begins = |offset| begins_at(&code, offset);
        assert!(begins(0) && begins(1) && begins(4));
        assert!(!begins(2) && !begins(3) && !begins(99) && !begins(usize::MAX));
        // What is no instruction ends the search.
        assert!(!begins_at(&[0x06, 0x90, 0x90], 2));
    }
}
