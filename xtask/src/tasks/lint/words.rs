//! One word for one thing: words that gave way to those of the standard and of this field do not
//! come back.
//!
//! `docs/glossary.md` has the words that are used.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use regex::Regex;

use crate::{process, workspace};

/// A word that is not used, as a pattern, and what is said in its place.
type Word = (&'static str, &'static str);

/// Words that gave way.
const GONE: &[Word] = &[
    ("emit_plainly|emit_in_any_case", "emit_fast, emit_slow"),
    ("is_alone|is_left_alone", "is_sole_emitter, lease_expired"),
    ("as_it_knows_itself", "innermost_pid"),
    ("census", "stream limit"),
    ("target_source|late_source", "DeferredSource"),
    ("__linux_trace_gate", "__linux_trace_enabled"),
    ("makes? the acquaintance", "registers on first sight"),
    ("brings? forth", "makes"),
    ("understands?|understood|understanding", "decode"),
    ("kept", "stored, held, recorded; truncated (of data)"),
    ("rooms?", "space, capacity, buffer"),
    (
        "places?|placed|placing",
        "index, slot, offset, position, site",
    ),
    ("stands?|stood|standing", "snapshot; is"),
    ("patience|patient", "timeout"),
    ("meets?|met", "registers on first sight; holds"),
    ("tells?|told|telling", "reports, says, shows"),
    ("be had", "is available"),
    ("(is|are) about", "concerns, describes"),
    ("cuts?", "truncated"),
    (
        "numbers?|numbered",
        "what it is: identifier, pid, index, offset, address",
    ),
    ("lanes?", "chain; track, row"),
    ("gates?", "enabled word; bound"),
    ("hands", "ring state; passes"),
];

/// Phrases in which such a word is the standard's, or the field's, or a verb.
const ALLOWED: &str = concat!(
    r"(?i)numbers?[ _]of(_|\b)",
    r"|(\b|_)(error|signal|system call|syscall|sequence|line|version|major|minor|inode|device)[ _]numbers?(_|\b)",
    r"|(is|are) about (to|as|\d)",
    r"|\bhands (back|on|out|over)\b",
);

/// Names that are interface, or another's, and stay: in which files, and the text of the line.
const INTERFACE: &[(&str, &str)] = &[
    // The key of system call events, and so their field.
    ("tracer-common/src/kernel/syscall.rs", "pub number: i32"),
    ("tracer-posix/libposixtrace/include/", "linux_number"),
    ("tracer-user/src/report/kernel_words.rs", "number: openat()"),
    ("tracer-user/src/report/kernel_words.rs", "number: -1"),
    ("t", "number: nr"),
    ("tracer-", "call.number"),
    ("tracer-", "entered.number"),
    ("tracer-analysis/", "data.number"),
    ("tracer-", "\"number\""),
    ("tests/", "\"number\""),
    // Keys of reports.
    ("tracer-user/src/", "\"places\""),
    ("tracer-user/src/", "\"damaged_places\""),
    // The key of a cause of loss.
    ("", "kernel_not_told"),
    // Of the kernel.
    ("tracer-", "\"numbers\""),
    ("tracer-ebpf/", "`pid::numbers`"),
    // Of clap.
    ("tracer-user/src/cli/", "allow_negative_numbers"),
    // Of JavaScript.
    ("tests/node/", "Number("),
    ("tracer-user/page/", "{number"),
    ("tracer-user/page/", "number}"),
    ("tracer-user/page/", " number | "),
    ("tracer-user/page/", ": number"),
    ("tracer-user/page/", "<number, "),
    ("tracer-user/page/", "[number, "),
    ("tracer-user/page/", "number, "),
    ("tracer-user/page/", "number]"),
    ("tracer-user/page/", "number[]"),
    ("tracer-user/page/", "number>"),
    ("tracer-user/page/", "=> number"),
    ("tracer-user/page/", "\"number\""),
    // Of an example in the assembler's notation.
    ("tracer-user/src/probes/", "numbers("),
];

/// Fails on each line with a word that is not used.
pub fn check() -> anyhow::Result<()> {
    let all = found()?;
    ensure!(
        all.is_empty(),
        "words that are not used here:\n{}",
        all.join("\n")
    );
    Ok(())
}

/// The lines that have one of the words: file, line, word, and what to say.
fn found() -> anyhow::Result<Vec<String>> {
    let prose = Prose::new()?;
    let patterns = GONE
        .iter()
        .map(|(pattern, instead)| Ok((compiled(pattern)?, *instead)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    // Most lines have none: they are looked at once.
    let all: Vec<&str> = GONE.iter().map(|(pattern, _)| *pattern).collect();
    let any = compiled(&all.join("|"))?;
    let mut lines = Vec::new();
    for file in files()? {
        let path = workspace::root().join(&file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for (index, line) in text.lines().enumerate() {
            let line = prose.of(&without_interface(&file, line));
            if !any.is_match(&line) {
                continue;
            }
            for (pattern, instead) in &patterns {
                let word = pattern.captures(&line).and_then(|found| found.get(2));
                if let Some(word) = word.map(|word| word.as_str()) {
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

/// What a line says beside the phrases that are allowed, each part of a name as a word.
struct Prose {
    allowed: Regex,
    hump: Regex,
}

impl Prose {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            allowed: Regex::new(ALLOWED)?,
            hump: Regex::new("([a-z0-9])([A-Z])")?,
        })
    }

    fn of(&self, line: &str) -> String {
        let words = self.hump.replace_all(line, "${1}_$2");
        self.allowed.replace_all(&words, "").into_owned()
    }
}

/// A line of a file without the names that stay.
fn without_interface(file: &str, line: &str) -> String {
    let in_file = INTERFACE
        .iter()
        .filter(|(folder, _)| file.starts_with(folder));
    in_file.fold(line.to_owned(), |line, (_, text)| line.replace(text, ""))
}

/// The texts that the repository has, but for those that name old words.
fn files() -> anyhow::Result<Vec<String>> {
    let listed = process::output(&mut workspace::git("ls-files"))?;
    let is_text = |name: &&str| {
        let kind = Path::new(name).extension().and_then(|kind| kind.to_str());
        let has_old_words = name.ends_with("lint/words.rs") || *name == "CHANGELOG.md";
        matches!(
            kind,
            Some("rs" | "md" | "c" | "h" | "toml" | "3" | "7" | "js" | "sh" | "py" | "yml")
        ) && !has_old_words
    };
    Ok(listed.lines().filter(is_text).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(line: &str, pattern: &str) -> bool {
        let prose = Prose::new().unwrap();
        compiled(pattern).unwrap().is_match(&prose.of(line))
    }

    #[test]
    fn a_word_is_found_alone_and_in_names_and_not_within_others() {
        assert!(has("let place = 1;", "places?"));
        assert!(has("fn place_of(", "places?"));
        assert!(has("/// Told.", "tells?|told"));
        assert!(has("struct PlaceOf;", "places?"));
        assert!(has("fn of(place: TypePlace)", "places?"));
        assert!(!has("fn replace(", "places?"));
        assert!(!has("placeholder", "places?"));
    }

    #[test]
    fn a_name_that_stays_does_so_where_it_is_and_hides_no_other() {
        let header = "tracer-posix/libposixtrace/include/trace.h";
        assert_eq!(without_interface(header, "int linux_number;"), "int ;");
        let other = without_interface(header, "int linux_number; /* Its place. */");
        assert!(has(&other, "places?"));
        let line = "let linux_number = 1;";
        assert_eq!(without_interface("xtask/src/main.rs", line), line);
    }

    #[test]
    fn error_numbers_and_numbers_of_things_are_allowed() {
        assert!(!has("the standard's error number", "numbers?"));
        assert!(!has("fn error_number(", "numbers?"));
        assert!(!has("the number of packets", "numbers?"));
        assert!(!has("let line_number = 1;", "numbers?"));
        assert!(!has("a system call number", "numbers?"));
        assert!(has("its number", "numbers?"));
        assert!(has("struct TypeNumber;", "numbers?"));
    }
}
