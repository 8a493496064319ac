//! Words as a shell takes them.

use crate::escape::is_harmless_line;

/// Most bytes of a word that is shown.
const MOST_BYTES: usize = 200;

/// Renders a word so that a shell takes it as one, and nothing in it has a meaning. Of a long one
/// the beginning, with `…`. Characters that no line may have are shown as `?`: such a name is typed
/// by hand.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !word.is_empty() && word.len() <= MOST_BYTES && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    let end = word.floor_char_boundary(MOST_BYTES);
    let more = if end < word.len() { "…" } else { "" };
    let mut out = String::new();
    for character in word.get(..end).unwrap_or_default().chars() {
        match character {
            '\'' => out.push_str("'\\''"),
            other if is_harmless_line(other.encode_utf8(&mut [0; 4])) => out.push(other),
            _ => out.push('?'),
        }
    }
    format!("'{out}{more}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_one_word_for_a_shell_and_forges_no_line() {
        assert_eq!(shell_word("/tmp/a.log"), "/tmp/a.log");
        assert_eq!(shell_word("my log"), "'my log'");
        assert_eq!(shell_word("a'\n$(b)\u{202e}\x1b"), "'a'\\''?$(b)??'");
        assert_eq!(shell_word(""), "''");
        assert!(shell_word(&"ß".repeat(500)).len() < 300);
    }
}
