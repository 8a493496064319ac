//! Bytes that a traced program chose, made harmless: they cannot drive a terminal, break a line
//! or a JSON string, or turn the direction of writing.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::digits::push_hex;

/// Tells whether a character may reach a terminal as it is.
fn is_harmless(character: char) -> bool {
    !character.is_control()
        && !matches!(character,
            // Marks without width, marks of direction, line and paragraph separators, byte-order
            // mark.
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns `data` as text, if it is text: UTF-8 of printable characters, tabs and line ends; one
/// null at the end belongs to the string and not to the text.
pub fn as_text(data: &[u8]) -> Option<&str> {
    let data = data.strip_suffix(b"\0").unwrap_or(data);
    let text = std::str::from_utf8(data).ok()?;
    // Most text is plain, and this looks at many bytes at once.
    if data.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Some(text);
    }
    text.chars()
        .all(|character| is_harmless(character) || matches!(character, '\t' | '\n'))
        .then_some(text)
}

/// Appends the name of a thread for people, which may be empty: `""` then.
pub fn push_name(out: &mut Vec<u8>, untrusted: &[u8]) {
    match untrusted {
        [] => out.extend_from_slice(b"\"\""),
        name => push_for_people(out, name),
    }
}

/// Appends bytes for people: what is not harmless is shown as in a string literal of Rust.
pub fn push_for_people(out: &mut Vec<u8>, untrusted: &[u8]) {
    // Nearly everything is plain; to look at all of it takes less time than to stop at the first
    // that is not.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') & (*byte != b'\\');
    if untrusted
        .iter()
        .fold(true, |so_far, byte| so_far & is_plain(byte))
    {
        out.extend_from_slice(untrusted);
        return;
    }
    for chunk in untrusted.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character != '\\' && is_harmless(character) {
                push_char(out, character);
            } else {
                out.extend(
                    character
                        .escape_default()
                        .map(|ascii| u8::try_from(ascii).unwrap_or(b'?')),
                );
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(b"\\x");
            push_hex(out, &[*byte]);
        }
    }
}

/// Returns a message of this program, which may have untrusted names and paths, on one line: what
/// is not harmless is shown as in a string literal of Rust.
#[must_use]
pub fn harmless_line(message: &str) -> Cow<'_, str> {
    replaced(message, is_harmless, |out, character| {
        out.extend(character.escape_default());
    })
}

/// Tells whether [`harmless_line`] would leave it as it is.
#[must_use]
pub fn is_harmless_line(message: &str) -> bool {
    message.chars().all(is_harmless)
}

/// Returns text of several lines as [`harmless_line`] does that of one.
#[must_use]
pub fn harmless_lines(text: &str) -> Cow<'_, str> {
    let may_stay = |character| is_harmless(character) || character == '\n';
    replaced(text, may_stay, |out, character| {
        out.extend(character.escape_default());
    })
}

/// Returns JSON text in which what is not harmless is an escape: only its strings can have such
/// characters.
#[must_use]
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    let may_stay = |character| is_harmless(character) || character == '\n';
    replaced(json, may_stay, |out, character| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn replaced(
    text: &str,
    may_stay: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if text.chars().all(&may_stay) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if may_stay(character) {
            out.push(character);
        } else {
            escape(&mut out, character);
        }
    }
    Cow::Owned(out)
}

/// Appends bytes as a JSON string with its quotation marks. What is not UTF-8 becomes U+FFFD; what
/// is not harmless is written as an escape, since people look at JSON on terminals too.
pub fn push_json_string(out: &mut Vec<u8>, untrusted: &[u8]) {
    // As above: all of it at once.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') & (*byte != b'\\') & (*byte != b'"');
    out.push(b'"');
    if untrusted
        .iter()
        .fold(true, |so_far, byte| so_far & is_plain(byte))
    {
        out.extend_from_slice(untrusted);
    } else {
        for chunk in untrusted.utf8_chunks() {
            chunk
                .valid()
                .chars()
                .for_each(|character| push_json_char(out, character));
            if !chunk.invalid().is_empty() {
                push_char(out, char::REPLACEMENT_CHARACTER);
            }
        }
    }
    out.push(b'"');
}

/// Appends, beside the member `key` of a JSON object, one with all bytes of its text, where these
/// are no UTF-8 and the text is not what they are: `,"comm_bytes":"636166e9"`.
pub fn push_json_bytes_beside(out: &mut Vec<u8>, key: &[u8], untrusted: &[u8]) {
    if std::str::from_utf8(untrusted).is_ok() {
        return;
    }
    out.push(b',');
    push_json_string(out, &[key, b"_bytes"].concat());
    out.extend_from_slice(b":\"");
    push_hex(out, untrusted);
    out.push(b'"');
}

fn push_json_char(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\t' => out.extend_from_slice(b"\\t"),
        harmless if is_harmless(harmless) => push_char(out, harmless),
        other => {
            for unit in other.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(b"\\u");
                push_hex(out, &unit.to_be_bytes());
            }
        }
    }
}

fn push_char(out: &mut Vec<u8>, character: char) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_people(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        push_for_people(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    fn json(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        push_json_string(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_hostile_name_cannot_drive_the_terminal() {
        assert_eq!(for_people(b"\x1b[2J\x07"), "\\u{1b}[2J\\u{7}");
        assert_eq!(for_people("\u{9b}31m".as_bytes()), "\\u{9b}31m");
        assert_eq!(for_people("\u{202e}gpj".as_bytes()), "\\u{202e}gpj");
        assert_eq!(for_people(b"a\nb\xff\\"), "a\\nb\\xff\\\\");
    }

    /// Escape sequences, a C1 code, marks of direction, a deletion.
    const HOSTILE: &str = "a\u{1b}[31mb\u{9b}c\u{202e}d\u{2066}e\u{7f}f";

    #[test]
    fn a_message_with_a_hostile_name_is_one_harmless_line() {
        let line = harmless_line(HOSTILE);
        assert!(line.chars().all(is_harmless), "{line}");
        assert!(line.starts_with("a\\u{1b}[31mb"), "{line}");
        assert_eq!(harmless_line("two\nlines"), "two\\nlines");
        assert_eq!(harmless_lines("two\nlines\r"), "two\nlines\\r");
        assert_eq!(harmless_line("größe: C:\\x"), "größe: C:\\x");
    }

    #[test]
    fn json_with_a_hostile_name_means_the_same_and_is_harmless() {
        let json = serde_json::json!({ HOSTILE: [HOSTILE, "\u{e0041}"] }).to_string();
        let escaped = harmless_json(&json);
        assert!(escaped.chars().all(is_harmless), "{escaped}");
        let one: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(
            one,
            serde_json::from_str::<serde_json::Value>(&json).unwrap()
        );
    }

    #[test]
    fn other_scripts_stay_readable() {
        assert_eq!(for_people("größe 測試".as_bytes()), "größe 測試");
    }

    #[test]
    fn every_byte_makes_a_valid_json_string() {
        let all: Vec<u8> = (0..=255).collect();
        let parsed: String = serde_json::from_str(&json(&all)).unwrap();

        assert_eq!(parsed, String::from_utf8_lossy(&all));
        assert_eq!(
            json("\u{1b}\u{e0041}".as_bytes()),
            "\"\\u001b\\udb40\\udc41\""
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_beside_it() {
        let beside = |bytes: &[u8]| {
            let mut out = Vec::new();
            push_json_bytes_beside(&mut out, b"comm", bytes);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(beside("größe\u{fffd}".as_bytes()), "");
        assert_eq!(beside(b"caf\xe9"), ",\"comm_bytes\":\"636166e9\"");
    }

    #[test]
    fn text_is_what_a_person_can_read() {
        assert_eq!(as_text(b"worker=1\0"), Some("worker=1"));
        assert_eq!(
            as_text(b"two\nlines\tand a tab"),
            Some("two\nlines\tand a tab")
        );
        assert_eq!(as_text(b""), Some(""));
        assert_eq!(as_text(b"A\0\0\0"), None);
        assert_eq!(as_text(b"\x1b[0m"), None);
        assert_eq!(as_text(b"\xff"), None);
    }
}
