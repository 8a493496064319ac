//! Actors in prose: comments and pages name them, and no word stands in for one.
//!
//! "unknown waker", where it is unknown which thread has woken another: a pronoun would leave open
//! whether a thread, a process, a user or the reader is meant.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

/// Words that leave the actor open, in lower case.
const OPEN: [&str; 10] = [
    "nobody",
    "somebody",
    "someone",
    "whoever",
    "whom",
    "whomever",
    "ours",
    "everybody",
    "anybody",
    "anyone",
];

/// Pages that quote what was said earlier.
const EXEMPT: [&str; 1] = ["CHANGELOG.md"];

/// Fails on each line of a comment or a page with such a word.
pub fn check() -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    let files = process::output(workspace::git("ls-files").args(["*.rs", "*.md"]))?;
    for file in files.lines().filter(|file| !EXEMPT.contains(file)) {
        let path = workspace::root().join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let found = if file.ends_with(".rs") {
            open_actors(&text, comment)
        } else {
            open_actors(&text, page)
        };
        wrong.extend(
            found
                .iter()
                .map(|(line, word)| format!("{file}:{line}: {word}")),
        );
    }
    ensure!(
        wrong.is_empty(),
        "words that leave the actor open (name it: the reader, another process, the caller, the \
         thread that wakes):\n{}",
        wrong.join("\n")
    );
    Ok(())
}

/// Returns the prose of a comment on a line of its own.
fn comment(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']))
}

/// Returns a line of a page; nothing of an indented block of code.
fn page(line: &str) -> Option<&str> {
    Some(if line.starts_with("    ") { "" } else { line })
}

/// Finds the words, by their lines, in what `prose` returns of each line. Blocks of code are free.
fn open_actors(text: &str, prose: fn(&str) -> Option<&str>) -> Vec<(usize, &'static str)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(prose) = prose(line) else {
            is_code = false;
            continue;
        };
        if prose.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.extend(open_words(prose).map(|word| (index + 1, word)));
        }
    }
    found
}

/// Finds the words in a line, outside of code (between backticks). A name of code is one word.
fn open_words(prose: &str) -> impl Iterator<Item = &'static str> {
    let parts = prose.split('`').step_by(2);
    let is_within = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words = parts.flat_map(move |part| part.split(move |letter| !is_within(letter)));
    words.filter_map(|word| {
        OPEN.into_iter()
            .find(|open| word.eq_ignore_ascii_case(open))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_leave_the_actor_open_are_found_in_comments_and_pages() {
        assert_eq!(
            open_actors("x\n    // Nobody reads it.\n", comment),
            [(2, "nobody")]
        );
        assert_eq!(
            open_actors(
                "//! For whom?\n/// Not for anyone's use: it is ours.\n",
                comment
            ),
            [(1, "whom"), (2, "anyone"), (2, "ours")]
        );
        assert_eq!(
            open_actors("# Ours\n\n| who | somebody |\n", page),
            [(1, "ours"), (3, "somebody")]
        );
    }

    #[test]
    fn code_names_and_longer_words_are_free() {
        let free = [
            "let ours = \"nobody\";\n",
            "/// [`NOBODY`](Self::NO_USER), and `whom`.\n",
            "/// The test nobody_reads_it, with colours and hours.\n",
            "/// ```text\n/// nobody:x:65534\n/// ```\n",
        ];
        for text in free {
            assert!(open_actors(text, comment).is_empty(), "{text}");
        }
        let blocks = "Text.\n\n```sh\n    if true\nsudo -u nobody true\n```\n\n    nobody ran\n";
        assert!(open_actors(blocks, page).is_empty());
    }

    #[test]
    fn prose_behind_code_is_read_again() {
        let after = "/// ```\n/// ours\n/// ```\n/// ours\n";
        assert_eq!(open_actors(after, comment), [(4, "ours")]);
        let unclosed = "/// ```\n/// ours\nfn f() {}\n// ours\n";
        assert_eq!(open_actors(unclosed, comment), [(4, "ours")]);
    }
}
