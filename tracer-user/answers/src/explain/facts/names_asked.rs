//! Questions to name servers, as programs send them.

use super::descriptors::harmless;

/// Bytes of the head of a question.
const HEAD: usize = 12;

/// Longest name.
const MOST_BYTES: usize = 255;

/// Returns the name that a message asks for, as harmless text; `None` where it is no question to a
/// name server (RFC 1035). A name that was not recorded to its end ends in `…`.
#[must_use]
pub fn name_asked(untrusted: &[u8]) -> Option<String> {
    let head = untrusted.get(..HEAD)?;
    // A question, of the usual kind, with one name and no answers.
    let [_, _, flags, _, 0, 1, 0, 0, 0, 0, 0, 0 | 1] = *head else {
        return None;
    };
    if flags & 0b1111_1000 != 0 {
        return None;
    }
    let mut rest = untrusted.get(HEAD..)?;
    let mut name: Vec<u8> = Vec::new();
    loop {
        let Some((length, behind)) = rest.split_first() else {
            name.extend_from_slice("…".as_bytes());
            break;
        };
        let length = usize::from(*length);
        if length == 0 {
            break;
        }
        if length > 63 || name.len() > MOST_BYTES {
            return None;
        }
        let label = behind.get(..length).unwrap_or(behind);
        let is_name =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*');
        if !label.iter().all(is_name) {
            return None;
        }
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend_from_slice(label);
        rest = behind.get(length..).unwrap_or_default();
    }
    (!name.is_empty()).then(|| harmless(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04slow\x07example\0\0\x01\0\x01";

    #[test]
    fn the_name_of_a_question_is_read_as_far_as_it_was_recorded() {
        assert_eq!(name_asked(QUESTION).unwrap(), "slow.example");
        assert_eq!(name_asked(&QUESTION[..20]).unwrap(), "slow.ex…");
        assert_eq!(name_asked(&QUESTION[..12]).unwrap(), "…");
    }

    #[test]
    fn what_is_no_question_has_no_name() {
        let mut answer = QUESTION.to_vec();
        answer[2] |= 0x80;
        assert_eq!(name_asked(&answer), None);
        assert_eq!(name_asked(b"GET / HTTP/1.1\r\nHost: x"), None);
        assert_eq!(name_asked(&[0; 40]), None);
        assert_eq!(name_asked(b""), None);
    }
}
