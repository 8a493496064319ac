//! Length of lines of prose: comments end at column 100, pages at column 120.
//!
//! Tables, code, pictures and generated text may be longer.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

const COMMENT: usize = 100;
const PAGE: usize = 120;

/// Pages that are generated.
const GENERATED: [&str; 4] = [
    "docs/conformance.md",
    "docs/json-members.md",
    "docs/kernel-tests.md",
    "docs/performance.md",
];

/// Fails on each line of prose that is too long.
pub fn check() -> anyhow::Result<()> {
    let mut long = Vec::new();
    let files = process::output(workspace::git("ls-files").args(["*.rs", "*.md"]))?;
    for file in files.lines().filter(|file| !GENERATED.contains(file)) {
        let path = workspace::root().join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let found = if file.ends_with(".rs") {
            too_long(&text, COMMENT, prose_of_comment)
        } else {
            too_long(&text, PAGE, prose_of_page)
        };
        long.extend(found.iter().map(|line| format!("{file}:{line}")));
    }
    ensure!(
        long.is_empty(),
        "lines that are too long:\n{}",
        long.join("\n")
    );
    Ok(())
}

/// Finds the lines whose prose extends beyond this column.
fn too_long(text: &str, limit: usize, prose: fn(&str) -> Option<&str>) -> Vec<usize> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(prose) = prose(line) else { continue };
        if prose.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        // A word that is longer than a line stays as it is.
        let can_end_before = prose.trim().contains(' ');
        if !is_code && can_end_before && line.chars().count() > limit {
            found.push(index + 1);
        }
    }
    found
}

/// Returns the text of a comment on a line of its own, unless it is a row of a table.
fn prose_of_comment(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    let prose = comment.trim_start_matches(['/', '!']).trim_start();
    (!prose.starts_with('|')).then_some(prose)
}

/// Returns a line of a page, unless it is a row of a table, a picture, or code.
fn prose_of_page(line: &str) -> Option<&str> {
    let is_other = line.starts_with(['|', '!']) || line.starts_with("    ");
    (!is_other).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_too_long_and_tables_code_and_single_words_are_not() {
        let words = "word ".repeat(30);
        let comment = |prose: &str| too_long(prose, COMMENT, prose_of_comment);
        let page = |prose: &str| too_long(prose, PAGE, prose_of_page);

        assert_eq!(comment(&format!("x\n    /// {words}")), [2]);
        assert_eq!(comment(&format!("let x = 1; // {words}")), [0; 0]);
        assert_eq!(comment(&format!("// | {words}")), [0; 0]);
        assert_eq!(
            comment(&format!("/// ```\n/// {words}\n/// ```\n/// {words}")),
            [4]
        );
        assert_eq!(comment(&format!("// {}", "w".repeat(200))), [0; 0]);
        assert_eq!(page(&words), [1]);
        assert_eq!(page(&format!("    {words}")), [0; 0]);
        assert_eq!(page(&format!("![{words}](x.svg)")), [0; 0]);
    }
}
