//! One word for one thing: words that gave way to those of the standard and of this field do not come back.
//!
//! `docs/glossary.md` has the words that are used.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use regex::Regex;

use crate::{process, workspace};

/// A word that is not used, as a pattern, and what is said in its place.
type Word = (&'static str, &'static str);

/// Not used anywhere.
const NOWHERE: &[Word] = &[
    ("emit_plainly|emit_in_any_case", "emit_fast, emit_slow"),
    ("census", "stream limit"),
    ("TargetSource", "DeferredSource"),
    ("__linux_trace_gate", "__linux_trace_enabled"),
    ("makes? the acquaintance", "registers on first sight"),
    ("brings? forth", "makes"),
];

/// Not used in the crates that have the words of the field already.
const NOT_IN_CRATES: &[Word] = &[
    ("understand|understood|understands", "decode"),
    ("kept", "stored, held, recorded; truncated (of data)"),
    ("rooms?", "space, capacity, buffer"),
    (
        "places?|placed|placing",
        "index, slot, offset, position, site",
    ),
    ("stands?", "snapshot; is"),
    ("patience", "timeout"),
    ("meets?|met", "registers on first sight"),
    ("tells?|told", "reports, says, shows"),
    ("can be had", "is available"),
    ("is about", "concerns"),
    ("cut|cuts", "truncated"),
    (
        "numbers?|numbered",
        "what it is: identifier, pid, index, offset, address",
    ),
    ("lanes?", "chain"),
    ("gates?", "enabled word"),
];

/// Phrases in which such a word is the standard's, or the field's.
const ALLOWED: &str =
    r"(?i)(error|sequence|the|a) numbers?( of)?\b|is about to|kernel_not_told|error_number";

/// Folders of the crates that have them.
const CRATES: &[&str] = &["tracer-posix/engine", "tracer-posix/log"];

/// Fails on each line with a word that is not used.
pub fn check() -> anyhow::Result<()> {
    let everywhere = found(&["."], NOWHERE)?;
    let in_crates = found(CRATES, NOT_IN_CRATES)?;
    let all = [everywhere, in_crates].concat();
    ensure!(
        all.is_empty(),
        "words that are not used here:\n{}",
        all.join("\n")
    );
    Ok(())
}

/// The lines below `folders` that have one of the words: file, line, word, and what to say.
fn found(folders: &[&str], words: &[Word]) -> anyhow::Result<Vec<String>> {
    let allowed = Regex::new(ALLOWED)?;
    let patterns = words
        .iter()
        .map(|(pattern, instead)| Ok((compiled(pattern)?, *instead)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut lines = Vec::new();
    for file in files(folders)? {
        let path = workspace::root().join(&file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for (index, line) in text.lines().enumerate() {
            let line = allowed.replace_all(line, "");
            for (pattern, instead) in &patterns {
                if let Some(word) = pattern.find(&line) {
                    let word = word.as_str().trim_matches(|c: char| !c.is_alphanumeric());
                    lines.push(format!("{file}:{}: {word}: {instead}", index + 1));
                }
            }
        }
    }
    Ok(lines)
}

/// As a whole word, or as a part of a name with underscores.
fn compiled(pattern: &str) -> anyhow::Result<Regex> {
    Ok(Regex::new(&format!(
        r"(?i)(^|[^a-z0-9])({pattern})($|[^a-z0-9])"
    ))?)
}

/// The texts that the repository has below `folders`, but for those that name old words.
fn files(folders: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut command = workspace::git("ls-files");
    let listed = process::output(command.arg("--").args(folders))?;
    let is_text = |name: &&str| {
        let kind = Path::new(name).extension().and_then(|kind| kind.to_str());
        let tells_of_old_words = name.ends_with("lint/words.rs") || *name == "CHANGELOG.md";
        matches!(kind, Some("rs" | "md" | "c" | "h" | "toml")) && !tells_of_old_words
    };
    Ok(listed.lines().filter(is_text).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(line: &str, pattern: &str) -> bool {
        let allowed = Regex::new(ALLOWED).unwrap();
        compiled(pattern)
            .unwrap()
            .is_match(&allowed.replace_all(line, ""))
    }

    #[test]
    fn a_word_is_found_alone_and_in_names_and_not_within_others() {
        assert!(has("let place = 1;", "places?"));
        assert!(has("fn place_of(", "places?"));
        assert!(has("/// Told.", "tells?|told"));
        assert!(!has("fn replace(", "places?"));
        assert!(!has("placeholder", "places?"));
    }

    #[test]
    fn error_numbers_and_numbers_of_things_are_allowed() {
        assert!(!has("the standard's error number", "numbers?"));
        assert!(!has("fn error_number(", "numbers?"));
        assert!(!has("the number of packets", "numbers?"));
        assert!(has("its number", "numbers?"));
    }
}
