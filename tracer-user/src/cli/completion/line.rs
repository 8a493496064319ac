//! Command line as bash passes it: words, quotes, and the part of the last word that bash replaces.

/// Line up to the cursor.
#[derive(Debug, PartialEq, Eq)]
pub struct BashLine {
    /// Words without their quotes; the last one is completed.
    pub words: Vec<String>,
    /// Quotes that are open at the cursor.
    quote: Option<char>,
    /// Start of the last word, without quotes, that bash does not replace: it splits a word at
    /// colons and equal signs.
    stays: String,
}

impl BashLine {
    /// Parses the line; bash replaces its end `replaced`.
    pub fn new(line: &str, replaced: &str) -> Self {
        let (words, begins, quote) = words(line);
        let last = line.get(begins..).unwrap_or_default();
        let stays = last.strip_suffix(replaced).unwrap_or_default();
        Self {
            words,
            quote,
            stays: unquoted(stays),
        }
    }

    /// Returns the text that bash is to insert for a value; `None` when it cannot be written in
    /// these quotes.
    pub fn reply(&self, value: &str) -> Option<String> {
        let rest = value.strip_prefix(self.stays.as_str())?;
        match self.quote {
            None => Some(quoted(rest)),
            // An exclamation mark calls for history there, and nothing prevents it.
            Some('"') if !rest.contains('!') => Some(escaped(rest, |character| {
                matches!(character, '\\' | '$' | '`' | '"')
            })),
            Some('\'') if !rest.contains('\'') => Some(rest.to_owned()),
            Some(_) => None,
        }
    }
}

/// Returns the words of a line without their quotes, the start of the last one, and the quotes that
/// are open at the end.
fn words(line: &str) -> (Vec<String>, usize, Option<char>) {
    let mut words = Vec::new();
    let (mut word, mut begins, mut is_in_word) = (String::new(), 0, false);
    let mut quote = None;
    let mut characters = line.char_indices();
    while let Some((at, character)) = characters.next() {
        if quote.is_none() && character.is_whitespace() {
            if std::mem::take(&mut is_in_word) {
                words.push(std::mem::take(&mut word));
            }
            begins = at + character.len_utf8();
            continue;
        }
        is_in_word = true;
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('"'), '\\') => match characters.next() {
                Some((_, next @ ('$' | '`' | '"' | '\\'))) => word.push(next),
                next => word.extend(['\\'].into_iter().chain(next.map(|(_, next)| next))),
            },
            (Some(_), _) => word.push(character),
            (None, '\'' | '"') => quote = Some(character),
            (None, '\\') => word.extend(characters.next().map(|(_, next)| next)),
            (None, _) => word.push(character),
        }
    }
    words.push(word);
    (words, begins, quote)
}

/// Removes the quotes of a word.
pub fn unquoted(word: &str) -> String {
    words(word).0.pop().unwrap_or_default()
}

/// Quotes a word so that a shell takes every character literally.
fn quoted(word: &str) -> String {
    escaped(word, |character| {
        let is_plain = character.is_alphanumeric() || "_-+=:,./@%".contains(character);
        !is_plain
    })
}

fn escaped(word: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(word.len());
    for character in word.chars() {
        if is_special(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_taken_apart_as_bash_does() {
        let line = BashLine::new("tracer-user attach --comm 'a b' c\\ d \"e\\$f", "e\\$f");
        let words = ["tracer-user", "attach", "--comm", "a b", "c d", "e$f"];
        assert_eq!(line.words, words);
        assert_eq!(line.quote, Some('"'));
        let line = BashLine::new("tracer-user attach ", "");
        assert_eq!(line.words, ["tracer-user", "attach", ""]);
    }

    #[test]
    fn what_bash_does_not_replace_is_not_repeated() {
        let line = BashLine::new("t attach 1 --probe libc.so.6:mal", "mal");
        assert_eq!(line.reply("libc.so.6:malloc").unwrap(), "malloc");
        let line = BashLine::new("t attach --comm=ng", "ng");
        assert_eq!(line.reply("--comm=nginx").unwrap(), "nginx");
        let line = BashLine::new("t attach 1 --usdt \"a:b", "a:b");
        assert_eq!(line.reply("a:b$c").unwrap(), "a:b\\$c");
    }

    #[test]
    fn a_name_is_never_code() {
        let line = BashLine::new("t attach --comm ", "");
        assert_eq!(line.reply("$(reboot)").unwrap(), "\\$\\(reboot\\)");
        assert_eq!(line.reply("a;b&`c`").unwrap(), "a\\;b\\&\\`c\\`");
        assert_eq!(line.reply("~*{a,b}").unwrap(), "\\~\\*\\{a,b\\}");
        let line = BashLine::new("t attach --comm \"", "");
        assert_eq!(line.reply("$(a)`b`\"").unwrap(), "\\$(a)\\`b\\`\\\"");
        assert_eq!(line.reply("a!b"), None);
        let line = BashLine::new("t attach --comm '", "");
        assert_eq!(line.reply("$(a)").unwrap(), "$(a)");
        assert_eq!(line.reply("'$(a)"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Bash parses a reply as the value, in whatever quotes.
        #[test]
        fn bash_reads_what_was_meant(value in "[ -~äß]{1,15}", quote in "['\"]?") {
            let line = BashLine::new(&format!("t attach --comm {quote}"), "");
            if let Some(reply) = line.reply(&value) {
                let script = format!("printf %s {quote}{reply}{quote}");
                let said = Command::new("bash").args(["-c", &script]).output().unwrap();
                prop_assert_eq!(String::from_utf8(said.stdout).unwrap(), value);
            }
        }

        #[test]
        fn whatever_was_typed_is_taken_apart(line in "\\PC{0,40}", replaced in "\\PC{0,4}") {
            let taken = BashLine::new(&line, &replaced);
            prop_assert!(!taken.words.is_empty());
            let _ = taken.reply(&line);
        }
    }
}
