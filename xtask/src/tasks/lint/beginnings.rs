//! Beginnings of doc comments: a noun phrase, or a verb in the third person.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

/// Beginnings that leave the subject of a comment open, or refer to another comment.
const WRONG: [&str; 9] = [
    "What", "Who", "Whom", "Whose", "Which", "The same", "That of", "So many", "Of these",
];

/// Folders whose doc comments are mostly help texts (clap). These are exempt: they answer the
/// question of a user, and may begin with it.
const HELP_TEXTS: [&str; 2] = ["tracer-user/src/cli/", "xtask/src/tasks/"];

/// Fails on each doc comment that begins wrongly.
pub fn check() -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    let files = process::output(workspace::git("ls-files").arg("*.rs"))?;
    for file in files.lines().filter(|file| !has_help_texts(file)) {
        let path = workspace::root().join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let found = wrong_comments(&text).into_iter();
        wrong.extend(found.map(|(line, beginning)| format!("{file}:{line}: {beginning}")));
    }
    ensure!(
        wrong.is_empty(),
        "doc comments that begin wrongly (begin with a noun phrase, or with a verb in the third \
         person):\n{}",
        wrong.join("\n")
    );
    Ok(())
}

fn has_help_texts(file: &str) -> bool {
    HELP_TEXTS.iter().any(|folder| file.starts_with(folder))
}

/// Finds the doc comments that begin wrongly: their first lines, and their beginnings.
fn wrong_comments(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut before = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        // An attribute within a comment does not end it.
        if line.starts_with("#[") || line.starts_with("#![") {
            continue;
        }
        let comment = doc_comment(line);
        if let Some((marker, prose)) = comment
            && before != Some(marker)
        {
            found.extend(wrong_beginning(prose).map(|beginning| (index + 1, beginning)));
        }
        before = comment.map(|(marker, _)| marker);
    }
    found
}

/// Splits a line of a doc comment into its marker and its prose. Four slashes begin none.
fn doc_comment(line: &str) -> Option<(&'static str, &str)> {
    let (marker, prose) = ["///", "//!"]
        .into_iter()
        .find_map(|marker| Some((marker, line.strip_prefix(marker)?)))?;
    (!prose.starts_with('/')).then_some((marker, prose.trim_start()))
}

/// Returns the wrong beginning of prose, if it has one, as whole words.
fn wrong_beginning(prose: &str) -> Option<&'static str> {
    WRONG.into_iter().find(|beginning| {
        let rest = prose.strip_prefix(beginning);
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_comments_that_begin_wrongly_are_found_by_their_first_lines() {
        assert_eq!(wrong_comments("//! What it is.\n"), [(1, "What")]);
        assert_eq!(
            wrong_comments("x\n    /// The same, as text.\n    /// More.\n    y\n"),
            [(2, "The same")]
        );
        assert_eq!(
            wrong_comments("//! A module.\n/// Whose it is.\nx\n///Of these two.\n"),
            [(2, "Whose"), (4, "Of these")]
        );
        assert_eq!(
            wrong_comments("#[derive(Debug)]\n/// Who reads.\nenum Reader {}\n"),
            [(2, "Who")]
        );
    }

    #[test]
    fn lines_within_comments_and_longer_words_are_free() {
        let free = [
            "/// Returns the names of\n/// What is read.\n",
            "/// A reader.\n///\n/// What it reads is shown.\n",
            "/// A reader.\n#[doc(hidden)]\n/// What it reads.\n",
            "/// Whatever, and Whoever.\n",
            "/// Whole words.\n",
            "/// The samples.\n",
            "///\n",
        ];
        for text in free {
            assert!(wrong_comments(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn code_and_other_comments_are_free() {
        let free = [
            "// What follows is code.\n",
            "//// What is no doc comment.\n",
            "let x = y; /// What follows code.\n",
            "let text = \"/// What is a text.\";\n",
            "What { which }\n",
        ];
        for text in free {
            assert!(wrong_comments(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn help_texts_are_exempt() {
        assert!(has_help_texts("tracer-user/src/cli/top.rs"));
        assert!(has_help_texts("xtask/src/tasks/lint/mod.rs"));
        assert!(!has_help_texts("tracer-user/src/client.rs"));
        assert!(!has_help_texts("xtask/src/process.rs"));
    }
}
